# SPDX-License-Identifier: Apache-2.0
"""The fixtures of the sandbox tests.

`box` runs a command in a sandbox as root, as an ordinary user, or inside a user namespace, and, as
positive control, without a sandbox. `kernels` does the same with kernels. The binary under test is
$IPYBOX_BIN, else build/ipybox.
"""

from __future__ import annotations

import os
import tempfile
import time
import zlib
from collections.abc import Iterator
from pathlib import Path

import harness
import pytest
from box import USERS, Box, NetBox
from kernels import Kernels
from line_program import LineProgram
from little_internet import LittleInternet
from rpc_driver import RpcCore


def pytest_configure(config: pytest.Config) -> None:
    harness.prepare_process()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    harness.leave_out(items)
    leave_out_users(items, int(os.environ.get("IPYBOX_TEST_USERS", len(USERS))))


def leave_out_users(items: list[pytest.Item], n_users: int) -> None:
    """Of a test that runs as each user, so many runs stay, if the test is not for some users only.

    Which ones depends on the name of the test, so that they are always the same. Of two, one is the
    ordinary user.
    """
    tests: dict[tuple[object, ...], dict[str, pytest.Item]] = {}
    for item in items:
        callspec = getattr(item, "callspec", None)
        if callspec is not None and (user := callspec.params.get("user")) in USERS:
            others = [key for key in item.name.strip("]").split("[")[-1].split("-") if key != user]
            name = (item.path, item.originalname, *others)  # type: ignore[attr-defined]
            tests.setdefault(name, {})[user] = item
    left_out = set()
    for (_, *name), by_user in tests.items():
        number = zlib.crc32(repr(name).encode())
        kept = {
            1: {USERS[number % 3]},
            2: {"user", ("userns", "root")[number % 2]},
            3: set(USERS),
        }[n_users]
        if len(by_user) == len(USERS):
            left_out |= {item for user, item in by_user.items() if user not in kept}
    items[:] = [item for item in items if item not in left_out]


@pytest.fixture(params=USERS)
def user(request: pytest.FixtureRequest) -> str:
    """Runs the test as each of them: "root", "user", "userns". See leave_out_users."""
    return request.param


@pytest.fixture
def place() -> Iterator[harness.Place]:
    """The test's own directories and environment.

    Afterwards nothing may remain: no process, no temporary file, no socket, no mount, no cgroup.
    """
    before = harness.descendants()
    # Not below /tmp: each sandbox has a /tmp of its own.
    place = harness.Place.make(Path(tempfile.mkdtemp(prefix="ipb-", dir="/var/tmp")) / "x")
    place.root.parent.chmod(0o755)
    yield place
    processes = harness.processes_left(before)
    files = place.left_behind()
    cgroups = cgroups_left()
    place.root = place.root.parent
    mounts = [
        line
        for line in Path("/proc/self/mountinfo").read_text().splitlines()
        if str(place.root) in line
    ]
    place.remove()
    assert not processes, "processes left behind:\n" + "\n".join(processes)
    assert not files, "files left behind:\n" + "\n".join(files)
    assert not cgroups, f"cgroups left behind: {cgroups}"
    assert not mounts, "mounts left behind:\n" + "\n".join(mounts)


def cgroups_left() -> list[str]:
    """Cgroups of ipybox that are empty and remain.

    One that is in use, or empty for a moment, belongs to another test. Since there is always one
    on a busy machine, each must have been empty all the time.
    """
    deadline = time.monotonic() + harness.GRACE_SECONDS
    found = empty_cgroups()
    while found and time.monotonic() < deadline:
        time.sleep(0.05)
        found &= empty_cgroups()
    return sorted(found)


def empty_cgroups() -> set[str]:
    return {
        path
        for path, _, _ in os.walk("/sys/fs/cgroup")
        if "ipybox" in os.path.basename(path) and is_empty(path)
    }


def is_empty(cgroup: str) -> bool:
    try:
        return "populated 0" in Path(cgroup, "cgroup.events").read_text()
    except OSError:
        return False  # it has gone


@pytest.fixture
def box(place: harness.Place) -> Box:
    """box(["cat", "x"], {"allowWrite": ["."]}, user="root") runs the command to its end, in the
    workspace.
    """
    return Box(place)


@pytest.fixture
def kernels(box: Box, user: str) -> Kernels:
    """`ipybox mcp` and `ipybox run` as each user."""
    return Kernels(box, user)


@pytest.fixture
def kernel(box: Box) -> Kernels:
    """As root, for tests where the user makes no difference."""
    return Kernels(box, "root")


@pytest.fixture
def workspace(place: harness.Place) -> Path:
    """An empty directory, where commands start; it belongs to the user that runs them."""
    return place.workspace


@pytest.fixture(scope="session")
def internet() -> Iterator[LittleInternet]:
    """Servers, names and addresses in namespaces of their own."""
    with tempfile.TemporaryDirectory(prefix="ipb-", dir="/var/tmp") as directory:
        internet = LittleInternet(Path(directory))
        yield internet
        internet.close()


@pytest.fixture
def net(place: harness.Place, internet: LittleInternet) -> NetBox:
    """Like `box`, in that network."""
    return NetBox(place, internet)


@pytest.fixture
def core(kernels: Kernels) -> Iterator[RpcCore]:
    """`ipybox rpc` as each user."""
    place = kernels.place
    program, *become = kernels.command("rpc")
    # The option --python is that of sessions here.
    command = [program, *become[: become.index("--python")]]
    core = RpcCore.__new__(RpcCore)
    environ = place.environ
    place.environ = kernels.environ
    try:
        LineProgram.__init__(core, command, place)
    finally:
        place.environ = environ
    core.workspace = str(place.workspace)
    core.last_id, core.answers, core.notifications, core.requests = 0, {}, [], []
    core.on_approval = None
    core.call("initialize", protocol=1, client={"name": "test", "version": "1"})
    with core:
        yield core
