# SPDX-License-Identifier: Apache-2.0
"""Attacks on a staged workspace, as each user. Code in the session is hostile, the host commits.

They are made in a session, in a branch of it, and in a branch whose kernel was started again.

Each test has a positive control: the harmless twin is committed, or the attack succeeds without
a sandbox. `tests/unit/test-sandbox-linux-layer.c` puts into layers what no sandbox lets through.
"""

from __future__ import annotations

import json
import os
import shutil
import stat
from pathlib import Path

import pytest
from kernels import Kernels
from rpc_driver import RpcCore, RpcError

TRIES = """
import ctypes, errno, json, os, shutil
libc = ctypes.CDLL(None, use_errno=True)
def tries(action):
    try:
        action()
        return "done"
    except OSError as error:
        return errno.errorcode[error.errno]
"""


@pytest.fixture
def workspace(kernels: Kernels) -> Path:
    path = kernels.place.workspace
    (path / "kept").mkdir()
    (path / "kept/file").write_text("kept")
    (path / "plain").write_text("plain")
    (path / ".git/hooks").mkdir(parents=True)
    (path / ".git/config").write_text("[core]\n")
    (path / ".git/HEAD").write_text("ref: refs/heads/main\n")
    own(path)
    return path


def own(path: Path) -> None:
    """What the test has made belongs to the user that it runs as."""
    owner = os.stat(path)
    for each in path.rglob("*"):
        os.chown(each, owner.st_uid, owner.st_gid, follow_symlinks=False)


def opened(core: RpcCore, kernels: Kernels, **options: object) -> str:
    return core.open(sandbox=True, workspace_mode="staged", python=str(kernels.python), **options)


@pytest.fixture(params=["session", "branch", "fresh"])
def session(
    request: pytest.FixtureRequest, core: RpcCore, kernels: Kernels, workspace: Path
) -> str:
    session = opened(core, kernels)
    if request.param == "session":
        return session
    core.call("session.start", session=session)
    branch = core.call("session.fork", session=session)["session"]
    if request.param == "fresh":
        core.call("session.reset", session=branch)
    return branch


def tried(core: RpcCore, session: str, code: str) -> dict:
    return json.loads(core.text(session, TRIES + code))


def committed(core: RpcCore, session: str, **arguments: object) -> set[str]:
    done = core.call("session.commit", session=session, **arguments)
    return {change["path"] for change in done["changes"] if change.get("done")}


# --- names ------------------------------------------------------------------------------------

NAMES = """
ZERO = "\\u200c"
names = [".git/hooks/post-commit", ".git/config", ".bashrc", ".vscode/tasks.json", ".gitmodules",
         ".mcp.json", ".claude/settings.json"]
folded = [".GIT/hooks/post-commit", ".g" + ZERO + "it/hooks/post-commit", ".BashRC",
          ".VSCODE/tasks.json", ".Claude/settings.json", ".MCP.json"]
ways = {}
def write(path):
    if os.path.dirname(path):
        os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w") as file:
        file.write("attack")
def rename(path):
    write("staging")
    os.rename("staging", path)
def rename_directory(path):
    shutil.rmtree("folder", ignore_errors=True)
    write("folder/" + os.path.basename(path))
    os.rename("folder", os.path.dirname(path) or path)
def link(path):
    write("staging")
    os.link("staging", path)
def symbolic(path):
    os.symlink("staging", path)
def exchange(path):
    write("staging")
    if libc.renameat2(-100, b"staging", -100, path.encode(), 2) < 0:
        raise OSError(ctypes.get_errno(), "exchange")
def through_link(path):
    if os.path.lexists("way"):
        os.remove("way")
    os.symlink(os.path.dirname(path) or ".", "way")
    write("way/" + os.path.basename(path))
for way in (write, rename, rename_directory, link, symbolic, exchange, through_link):
    for path in names + folded:
        ways[way.__name__ + " " + path] = tries(lambda: way(path))
write("control/file")
print(json.dumps(ways))
"""


def test_no_protected_name_is_committed(
    core: RpcCore, session: str, workspace: Path, kernels: Kernels
) -> None:
    before = {path: path.read_bytes() for path in (workspace / ".git").rglob("*") if path.is_file()}
    ways = tried(core, session, NAMES)
    # What may have been done is harmless: a name that no program looks for in this place.
    assert "done" not in {ways[way] for way in ways if way.startswith(("write", "rename "))}, ways
    assert "control/file" in committed(core, session)
    after = {path: path.read_bytes() for path in (workspace / ".git").rglob("*") if path.is_file()}
    assert after == before
    # Empty directories may have protected names. Files and links have none.
    found = [path for path in workspace.rglob("*") if path.is_symlink() or not path.is_dir()]
    tops = {str(path.relative_to(workspace)).split("/")[0] for path in found}
    assert tops <= {"control", "staging", "folder", "way", "kept", "plain", ".git"}
    # Without a sandbox, the same code does it.
    live = core.open(python=str(kernels.python))
    assert tried(core, live, NAMES)["write .bashrc"] == "done"


# --- marks of overlays ------------------------------------------------------------------------

MARKS = """
found = {}
for name in ("white", "kept/file2"):
    found["device " + name] = tries(lambda: os.mknod(name, 0o020000, 0))
found["null"] = tries(lambda: os.mknod("null", 0o020666, os.makedev(1, 3)))
for name, value in (("opaque", b"y"), ("opaque", b"x"), ("redirect", b"/etc"), ("metacopy", b""),
                    ("whiteout", b""), ("origin", b"x"), ("impure", b"y"), ("nlink", b"U-1")):
    for space in ("user", "trusted"):
        for path in ("kept", "plain", "."):
            key = f"{space}.{name} {path}"
            found[key] = tries(lambda: os.setxattr(path, f"{space}.overlay.{name}", value))
found["setid"] = tries(lambda: os.chmod("plain", 0o6755))
os.chmod("plain", 0o755)
with open("plain", "a") as file:
    file.write(" more")
with open("kept/other", "w") as file:
    file.write("other")
found["sees"] = sorted(os.listdir("kept"))
print(json.dumps(found))
"""


def test_marks_made_by_hand(core: RpcCore, session: str, workspace: Path) -> None:
    """Whiteouts, opaque directories and redirections of code inside mean nothing to a commit."""
    found = tried(core, session, MARKS)
    assert found["null"] != "done"
    assert not any(found[key] == "done" for key in found if key.startswith("trusted"))
    assert found["sees"] == ["file", "other"]
    listed = core.call("session.changes", session=session)
    assert [change["path"] for change in listed["changes"] if change["kind"] == "removed"] == []
    assert committed(core, session) >= {"plain", "kept/other"}
    assert (workspace / "kept/file").read_text() == "kept"
    assert (workspace / "plain").read_text() == "plain more"
    assert stat.S_IMODE(os.stat(workspace / "plain").st_mode) == 0o755
    for path in (workspace, *workspace.rglob("*")):
        assert not [name for name in os.listxattr(path) if "overlay" in name], path
        assert not stat.S_ISCHR(os.lstat(path).st_mode), path


# --- links ------------------------------------------------------------------------------------

LINKS = """
found = {"hard": tries(lambda: os.link(".git/config", "hard"))}
found["write"] = tries(lambda: open("hard", "a").write("attack"))
os.link("plain", "twin")
with open("twin", "a") as file:
    file.write(" more")
shutil.rmtree("kept")
os.symlink(OUTSIDE, "kept")
os.symlink(OUTSIDE + "/file", "link")
print(json.dumps(found))
"""


def test_links(core: RpcCore, session: str, workspace: Path, kernels: Kernels) -> None:
    """A commit writes through no link, and no hard link reaches a protected file."""
    outside = kernels.place.root / "outside"
    outside.mkdir()
    (outside / "file").write_text("outside")
    tried(core, session, f"OUTSIDE = {str(outside)!r}\n" + LINKS)
    committed(core, session)
    assert (workspace / ".git/config").read_text() == "[core]\n"
    assert (workspace / "twin").read_text() == "plain more"
    assert os.stat(workspace / "twin").st_nlink == 1
    assert os.readlink(workspace / "kept") == str(outside)
    core.text(session, "import os; os.remove('kept'); os.mkdir('kept')")
    core.text(session, "open('kept/file', 'w').write('inside'); None")
    committed(core, session)
    assert (workspace / "kept/file").read_text() == "inside"
    assert (outside / "file").read_text() == "outside"
    assert os.listdir(outside) == ["file"]


SWAP = """
import os, threading
os.makedirs("d", exist_ok=True)
stop = False
def swap():
    n = 0
    while not stop:
        n += 1
        try:
            os.mkdir("d")
            with open("d/file", "w") as file:
                file.write(str(n))
        except OSError:
            pass
        try:
            os.rename("d", "e")
            os.symlink(OUTSIDE, "d")
            os.remove("d")
            os.rename("e", "d")
            os.remove("d/file")
            os.rmdir("d")
        except OSError:
            pass
thread = threading.Thread(target=swap)
thread.start()
"""


def test_directories_are_swapped_while_they_are_committed(
    core: RpcCore, session: str, workspace: Path, kernels: Kernels
) -> None:
    """A link that takes the place of a directory leads nowhere, on neither side."""
    outside = kernels.place.root / "outside"
    outside.mkdir()
    (outside / "file").write_text("outside")
    (outside / "secret").write_text("secret")
    core.text(session, f"OUTSIDE = {str(outside)!r}\n" + SWAP)
    for _ in range(30):
        try:
            core.call("session.commit", session=session)
        except RpcError as error:  # the directory became a link while it was listed
            assert "not all changes can be listed" in str(error)
        for path in workspace.rglob("*"):
            if path.is_file() and not path.is_symlink():
                assert path.read_text() not in ("outside", "secret")
    core.text(session, "stop = True; thread.join()")
    assert sorted(os.listdir(outside)) == ["file", "secret"]
    assert (outside / "file").read_text() == "outside"


# --- siblings ---------------------------------------------------------------------------------


def session_changes(core: RpcCore, session: str) -> list[str]:
    return [each["path"] for each in core.call("session.changes", session=session)["changes"]]


REACH = """
found = []
for base, _, _ in os.walk(PLACE):
    found.append(base)
for path in PATHS:
    for action in (os.listdir, os.stat, os.chdir, lambda path: open(path + "/new", "w"),
                   lambda path: open(path + "/upper/secret").read(),
                   lambda path: os.symlink(path, "way") or os.listdir("way")):
        if tries(lambda: action(path)) == "done":
            found.append(path)
    if os.path.lexists("way"):
        os.remove("way")
print(json.dumps(found))
"""


def test_no_layer_is_reached(core: RpcCore, session: str, kernels: Kernels) -> None:
    """Neither the session's own layer nor that of a sibling in the same workspace."""
    sibling = opened(core, kernels)
    place = Path(kernels.place.environ["XDG_STATE_HOME"]) / "ipybox/staged"
    core.text(session, "1")
    shared = session_changes(core, session)
    core.text(sibling, "open('secret', 'w').write('secret'); None")
    layers = [path for path in place.iterdir() if (path / "upper").is_dir()]
    assert any((path / "upper/secret").exists() for path in layers)
    assert len(layers) == 2
    paths = [str(path) for path in layers] + [str(path / "upper") for path in layers]
    code = f"PLACE = {str(place)!r}\nPATHS = {paths!r}\n" + REACH
    found = tried(core, session, code)
    assert [path for path in found if "layer-" in path] == []
    assert core.text(session, "import os; print('secret' in os.listdir('.'))").strip() == "False"
    assert session_changes(core, session) == shared
    live = core.open(python=str(kernels.python))
    assert set(tried(core, live, code)) >= set(paths)


# --- too much ---------------------------------------------------------------------------------

DEEP = """
import os
os.makedirs("flat/a")
open("flat/a/file", "w").close()
top = os.getcwd()
for i in range(600):
    os.mkdir("deep")
    os.chdir("deep")
    if i % 50 == 0:
        open("file", "w").close()
os.chdir(top)
"""


def test_very_deep_trees(core: RpcCore, session: str, workspace: Path) -> None:
    """What is too deep is reported, and the rest can be committed and discarded."""
    core.text(session, DEEP)
    listed = core.call("session.changes", session=session)
    assert "too deep" in listed["cut"]
    with pytest.raises(RpcError, match="in parts"):
        core.call("session.commit", session=session)
    assert committed(core, session, paths=["flat"]) == {"flat", "flat/a", "flat/a/file"}
    assert not (workspace / "deep").exists()
    core.text(session, "import shutil; shutil.rmtree('deep')")
    assert core.call("session.changes", session=session)["total"] == 0


MANY = """
import os
for i in range(101):
    os.mkdir(f"d{i:03}")
    for j in range(1000):
        os.close(os.open(f"d{i:03}/{j}", os.O_CREAT | os.O_WRONLY))
"""


@pytest.mark.parametrize("user", ["user"])
def test_huge_numbers_of_files(core: RpcCore, workspace: Path, kernels: Kernels) -> None:
    """They are not committed at once, and parts can be."""
    session = opened(core, kernels)
    core.text(session, MANY)
    listed = core.call("session.changes", session=session)
    assert (listed["total"], len(listed["changes"])) == (100000, 1000)
    assert "more changes than can be listed" in listed["cut"]
    with pytest.raises(RpcError, match="in parts"):
        core.call("session.commit", session=session)
    assert len(committed(core, session, paths=["d000/1", "d000/2"])) == 3
    assert sorted(os.listdir(workspace / "d000")) == ["1", "2"]
    core.text(session, "import shutil\nfor i in range(101): shutil.rmtree(f'd{i:03}')")


def test_sparse_giant_files(core: RpcCore, workspace: Path, kernels: Kernels) -> None:
    """A hole costs nothing, neither on the disk nor in time."""
    session = opened(core, kernels, limits={"fileSize": 1 << 41})
    core.text(
        session,
        "with open('giant', 'wb') as file:\n"
        "    file.truncate(1 << 40)\n"
        "    file.seek(1 << 39)\n"
        "    file.write(b'x')\n",
    )
    assert committed(core, session) == {"giant"}
    info = os.stat(workspace / "giant")
    assert info.st_size == 1 << 40 and info.st_blocks * 512 < 1 << 20
    with (workspace / "giant").open("rb") as file:
        file.seek(1 << 39)
        assert file.read(2) == b"x\0"


def test_fifos_do_not_block(core: RpcCore, session: str, workspace: Path) -> None:
    """No commit waits for what has no end: FIFOs and sockets are not read."""
    code = """
os.mkfifo("fifo")
os.mkfifo("plain2")
with open("file", "w") as file:
    file.write("x")
print(json.dumps({}))
"""
    tried(core, session, code)
    done = core.call("session.commit", session=session)
    problems = {change["path"]: change.get("problem") for change in done["changes"]}
    assert problems["file"] is None and problems["fifo"] and problems["plain2"]
    assert not (workspace / "fifo").exists() and (workspace / "file").read_text() == "x"


def test_unreadable_directories(core: RpcCore, session: str, workspace: Path) -> None:
    """Code can take the host's permissions away, and then nothing is committed silently."""
    core.text(
        session,
        "import os\nos.mkdir('closed'); open('closed/file', 'w').close(); os.chmod('closed', 0)",
    )
    listed = core.call("session.changes", session=session)
    paths = {change["path"] for change in listed["changes"]}
    assert "closed/file" in paths or listed.get("cut"), listed
    core.text(session, "os.chmod('closed', 0o700)")
    assert committed(core, session) == {"closed", "closed/file"}
    shutil.rmtree(workspace / "closed")
