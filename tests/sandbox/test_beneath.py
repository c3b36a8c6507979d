# SPDX-License-Identifier: Apache-2.0
"""Attack suite I, places where ipybox itself reads and writes: cells plant links and other things
there, or exchange them while ipybox works. What a cell left behind is made by the test, from
outside, since a sandbox refuses some of it.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import harness
import pytest
import scripted_server
from box import make_settings
from kernels import Kernels
from mcp_driver import McpServer

CLOCK = scripted_server.params("clock")


def outside_of(kernel: Kernels) -> Path:
    outside = kernel.place.home / "outside"
    outside.mkdir(exist_ok=True)
    return outside


def register(server: McpServer, name: str, params: dict) -> str:
    """The text of the answer."""
    result = server.tool("register_mcp_server", {"server_name": name, "server_params": params})
    return result["content"][0]["text"]


@pytest.mark.parametrize("link", ["mcptools", "mcptools/time"])
@pytest.mark.parametrize("is_sandboxed", [True, False])
def test_links_in_place_of_packages(kernel: Kernels, link: str, is_sandboxed: bool) -> None:
    outside = outside_of(kernel)
    path = kernel.place.workspace / link
    path.parent.mkdir(exist_ok=True)
    path.symlink_to(outside)
    flags = kernel.servers_flags() if is_sandboxed else []
    with kernel.serve(*flags, is_sandboxed=is_sandboxed) as server:
        text = register(server, "time", CLOCK)
        assert "symbolic link" in text and str(path) in text and "remove it" in text
        assert not list(outside.iterdir())
        assert server.cell("print(1)") == "1"
        path.unlink()
        assert "get_current_time" in register(server, "time", CLOCK)  # the control


@pytest.mark.parametrize("where", ["mcptools", "mcptools/time"])
@pytest.mark.parametrize("kind", ["fifo", "file", "directory"])
def test_other_things_in_place_of_packages(kernel: Kernels, where: str, kind: str) -> None:
    """A FIFO would let an open wait for ever."""
    path = kernel.place.workspace / where
    path.parent.mkdir(exist_ok=True)
    if kind == "fifo":
        os.mkfifo(path)
    elif kind == "file":
        path.write_text("mine")
    else:
        (path / "__init__.py").mkdir(parents=True)
    with kernel.serve(is_sandboxed=False) as server:
        text = register(server, "time", CLOCK)
        if where == "mcptools" and kind == "directory":
            assert "get_current_time" in text
            return
        assert str(path) in text and "remove it" in text, text
        assert kind == "directory" or f"a {'FIFO' if kind == 'fifo' else 'file'}" in text, text


def test_names_that_are_exchanged(kernel: Kernels) -> None:
    """Packages are written again and again, while their place is exchanged with a link."""
    outside = outside_of(kernel)
    workspace = kernel.place.workspace
    (outside / "time").mkdir()
    link = workspace / "other"
    link.symlink_to(outside)
    (workspace / "mcptools").mkdir()
    exchange = f"""
import ctypes, itertools
libc = ctypes.CDLL(None)
a, b = {os.fsencode(workspace / "mcptools")!r}, {os.fsencode(link)!r}
print("started", flush=True)
while True:
    libc.renameat2(-100, a, -100, b, 2)
"""
    swapper = subprocess.Popen([sys.executable, "-c", exchange], stdout=subprocess.PIPE)
    try:
        assert swapper.stdout is not None and swapper.stdout.readline() == b"started\n"
        with kernel.serve(is_sandboxed=False) as server:
            texts = [register(server, "time", CLOCK) for _ in range(15)]
    finally:
        swapper.kill()
        swapper.communicate()
    assert list(outside.iterdir()) == [outside / "time"] and not list((outside / "time").iterdir())
    for text in texts:
        assert "get_current_time" in text or "symbolic link" in text or "cannot" in text, text


def test_generation_follows_no_link(kernel: Kernels) -> None:
    """`ipybox apigen`, with a directory of any name."""
    outside = outside_of(kernel)
    (kernel.place.workspace / "tools").symlink_to(outside)
    command = [kernel.box.program("root"), "apigen", "--server-name", "time"]
    command += [
        "--server-params",
        json.dumps(CLOCK),
        "--root-dir",
        "tools",
    ]
    done = harness.run(command, kernel.place)
    assert done.returncode != 0 and "tools is a symbolic link" in done.stderr
    assert not list(outside.iterdir())


ENV = "VALUE=planted\n"
PRINT_ENV = {"command": "sh", "args": ["-c", "echo value $VALUE >&2"]}


@pytest.mark.parametrize("kind", ["link", "fifo", "directory", "file", "huge"])
@pytest.mark.parametrize("is_sandboxed", [True, False])
def test_what_env_may_be(kernel: Kernels, kind: str, is_sandboxed: bool) -> None:
    """A sandboxed session ignores a link, with a warning. Without a sandbox it is the user's."""
    path = kernel.place.workspace / ".env"
    target = outside_of(kernel) / "env"
    target.write_text(ENV)
    if kind == "link":
        path.symlink_to(target)
    elif kind == "fifo":
        os.mkfifo(path)
    elif kind == "directory":
        path.mkdir()
    else:
        path.write_text(ENV + ("#" * (2 << 20) if kind == "huge" else ""))
    with kernel.serve(is_sandboxed=is_sandboxed, stderr=True) as server:
        server.tool("register_mcp_server", {"server_name": "x", "server_params": PRINT_ENV})
        assert server.cell("print(1)") == "1"
        server.process.stdin.close()
        log = server.process.stderr.read().decode()
    is_used = kind == "file" or (kind == "link" and not is_sandboxed)
    assert ("variables are not used" in log) is not is_used, log
    assert "is a symbolic link" in log or kind != "link" or is_used, log


@pytest.mark.parametrize("option", ["--approve", "--audit-log", "--record", "--sandbox-config"])
def test_files_of_options(kernel: Kernels, option: str) -> None:
    """A link in the workspace on the way to a file that decides is refused."""
    outside = outside_of(kernel)
    (outside / "file").write_text(
        json.dumps(make_settings()) if option == "--sandbox-config" else '{"rules": []}'
    )
    if option in ("--audit-log", "--record"):
        (outside / "file").write_text("")
    (kernel.place.workspace / "real").mkdir()
    (kernel.place.workspace / "real/file").write_text((outside / "file").read_text())
    for path in (outside / "file", kernel.place.workspace / "real/file"):
        path.chmod(0o600 if option == "--record" else 0o644)
    (kernel.place.workspace / "folder").symlink_to(outside)
    refused = kernel.run("print(1)", option, "folder/file")
    assert refused.returncode != 0 and "folder is a symbolic link" in refused.stderr
    for path in ("real/file", str(outside / "file")):  # the controls
        done = kernel.run("print(1)", option, path)
        assert done.stdout == "1\n", done.stderr


def test_file_to_run(kernel: Kernels) -> None:
    """A link that a cell left in place of a script is not read in the next sandbox."""
    outside = outside_of(kernel)
    (outside / "script.py").write_text("print('ran')\n")
    path = kernel.place.workspace / "script.py"
    path.symlink_to(outside / "script.py")

    def run(*flags: str, script: Path = path) -> subprocess.CompletedProcess[str]:
        return harness.run(
            kernel.command("run", *flags, str(script)), kernel.place, env=kernel.environ
        )

    refused = run()
    assert refused.returncode != 0 and "is a symbolic link" in refused.stderr
    assert run("--no-sandbox").stdout == "ran\n"
    assert run(script=outside / "script.py").stdout == "ran\n"


def attempt(statement: str) -> str:
    return f"""
import errno, os
try:
    {statement}
    print("done")
except OSError as error:
    print(errno.errorcode[error.errno])
"""


DENIED = ("EROFS\n", "EACCES\n", "EBUSY\n")


def test_roots_of_other_names(kernel: Kernels) -> None:
    """Generated packages are protected wherever they are, in every session."""
    workspace = kernel.place.workspace
    for root in ("tools", "."):
        done = harness.run(
            [
                *(kernel.box.program("root"), "apigen", "--server-name", "time", "--root-dir"),
                *(root, "--server-params", json.dumps(CLOCK)),
            ],
            kernel.place,
        )
        assert done.returncode == 0, done.stderr
    for statement in (
        "open('tools/time/__init__.py', 'a').close()",
        "os.mkdir('tools/more')",
        "os.rename('tools', 'mine')",
        "open('time/__init__.py', 'a').close()",
        "os.rename('time', 'mine')",
    ):
        assert kernel.run(attempt(statement)).stdout in DENIED, statement
    assert kernel.run(attempt("os.mkdir('fine')")).stdout == "done\n"
    assert kernel.run(attempt("os.mkdir('tools/more')"), "--no-sandbox").stdout == "done\n"
    assert (workspace / "time/__init__.py").exists()


def make_venv(path: Path) -> Path:
    """An environment with what kernels need, from the clone's .venv."""
    path.mkdir(parents=True)
    subprocess.run(
        [os.path.realpath(sys.executable), "-m", "venv", "--without-pip", str(path)], check=True
    )
    (packages,) = (path / "lib").glob("python3*/site-packages")
    (real,) = (harness.ROOT / ".venv/lib").glob("python3*/site-packages")
    for item in real.iterdir():
        (packages / item.name).symlink_to(item)
    return path


@pytest.fixture
def environments(kernel: Kernels) -> Path:
    """An environment in the workspace, in which sandboxed cells have run with another Python."""
    assert kernel.run("print(1)").stdout == "1\n"
    return make_venv(kernel.place.workspace / "venv")


def run_implied(
    kernel: Kernels, environment: Path, code: str = "print(1)"
) -> subprocess.CompletedProcess[str]:
    """`ipybox run` with VIRTUAL_ENV, by an installation that is in no environment."""
    program = installed_elsewhere(kernel)
    env = kernel.environ | {"VIRTUAL_ENV": str(environment)}
    return harness.run([program, "run", "--no-sandbox", "-c", code], kernel.place, env=env)


def installed_elsewhere(kernel: Kernels) -> str:
    """A copy of the program beside no Python."""
    prefix = kernel.place.root / "prefix"
    if not prefix.exists():
        (prefix / "bin").mkdir(parents=True)
        (prefix / "share/ipybox").mkdir(parents=True)
        program = Path(kernel.box.program("root"))
        (prefix / "bin/ipybox").write_bytes(program.read_bytes())
        (prefix / "bin/ipybox").chmod(0o755)
        (prefix / "share/ipybox/kernel_host").symlink_to(harness.ROOT / "python/ipybox/kernel_host")
    return str(prefix / "bin/ipybox")


def test_environments_that_cells_could_write(kernel: Kernels, environments: Path) -> None:
    """The Python of kernels starts outside of sandboxes: cells may have put code there."""
    refused = run_implied(kernel, environments)
    assert refused.returncode != 0, refused.stdout
    assert "code in sandboxes could write" in refused.stderr and "--python" in refused.stderr
    elsewhere = make_venv(kernel.place.root / "elsewhere")
    assert run_implied(kernel, elsewhere).stdout == "1\n"  # the control
    # The user names it: it is used, with a warning, and then protected.
    python = environments / "bin/python3"
    (packages,) = (environments / "lib").glob("python3*/site-packages")
    write = attempt(f"open({str(packages / 'new.py')!r}, 'w').close()")
    assert kernel.run(write).stdout == "done\n"  # with another Python
    command = [kernel.box.program("root"), "run", "--python", str(python), "-c", "print(1)"]
    done = harness.run(command, kernel.place, env=kernel.environ)
    assert done.stdout == "1\n" and "code in sandboxes could write" in done.stderr, done
    assert kernel.run(write).stdout in DENIED
    again = harness.run(command, kernel.place, env=kernel.environ)
    assert again.stdout == "1\n" and "could write" not in again.stderr
    assert run_implied(kernel, environments).stdout == "1\n"


def test_environments_before_any_sandbox(kernel: Kernels) -> None:
    """An environment that was there first is used without a word, and protected from then on."""
    environment = make_venv(kernel.place.workspace / "venv")
    assert run_implied(kernel, environment).stdout == "1\n"
    write = attempt(f"open({str(environment / 'pyvenv.cfg')!r}, 'a').close()")
    assert kernel.run(write).stdout in DENIED
    assert kernel.run(attempt("os.rename('venv', 'x')")).stdout in DENIED
    assert run_implied(kernel, environment).stdout == "1\n"
    # Others may be created and changed inside.
    assert (
        kernel.run(attempt("os.mkdir('v'); open('v/pyvenv.cfg', 'w').close()")).stdout == "done\n"
    )
