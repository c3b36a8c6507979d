# SPDX-License-Identifier: Apache-2.0
"""Staged workspaces as each user: the layer, protected names, what is committed and discarded.

`tests/sdk/test_staged.py` has the rest, as the user of the tests.
"""

from __future__ import annotations

import os

import pytest
from kernels import Kernels
from rpc_driver import RpcCore, RpcError

WRITE = """
import os, shutil
open("old", "a").write("more")
open("new", "w").write("new")
shutil.rmtree("folder")
os.makedirs("made/deep")
open("made/deep/file", "w").write("file")
os.rename("moved", "there")
print(sorted(os.listdir(".")))
"""
PROTECTED = """
import os
def tries(path):
    try:
        os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
        open(path, "w").write("x")
        return "written"
    except PermissionError:
        return "refused"
print([tries(path) for path in (".git/hooks/pre-commit", ".bashrc", ".vscode/tasks.json", "other")])
"""


@pytest.fixture
def session(core: RpcCore, kernels: Kernels) -> str:
    workspace = kernels.place.workspace
    (workspace / "old").write_text("old")
    (workspace / "moved").write_text("moved")
    (workspace / "folder").mkdir()
    (workspace / "folder/file").write_text("file")
    owner = os.stat(workspace)
    for path in (workspace, *workspace.rglob("*")):
        os.chown(path, owner.st_uid, owner.st_gid)
    session = core.open(sandbox=True, workspace_mode="staged", python=str(kernels.python))
    core.call("session.start", session=session)
    return session


def test_commit(core: RpcCore, session: str, kernels: Kernels) -> None:
    workspace = kernels.place.workspace
    before = sorted(os.listdir(workspace))
    inside = core.text(session, WRITE)
    assert sorted(os.listdir(workspace)) == before
    done = core.call("session.commit", session=session)
    assert all(change.get("done") for change in done["changes"]), done
    assert str(sorted(os.listdir(workspace))) == inside.strip()
    assert (workspace / "old").read_text() == "oldmore"
    assert (workspace / "made/deep/file").read_text() == "file"
    assert (workspace / "there").read_text() == "moved"
    owner = os.stat(workspace)
    for name in ("new", "made", "made/deep/file"):
        found = os.stat(workspace / name)
        assert (found.st_uid, found.st_gid) == (owner.st_uid, owner.st_gid)
    assert core.call("session.changes", session=session)["total"] == 0


def test_discard(core: RpcCore, session: str, kernels: Kernels) -> None:
    core.text(session, WRITE)
    undone = core.call("session.discard", session=session)
    assert undone["problems"] == 0, undone
    assert core.call("session.changes", session=session)["total"] == 0
    again = core.text(session, "print(sorted(os.listdir('.')), open('folder/file').read())")
    assert again.strip() == f"{sorted(os.listdir(kernels.place.workspace))} file"


def test_protected(core: RpcCore, session: str, kernels: Kernels) -> None:
    tried = core.text(session, PROTECTED)
    assert tried.strip() == "['refused', 'refused', 'refused', 'written']"
    core.call("session.commit", session=session)
    workspace = kernels.place.workspace
    assert (workspace / "other").read_text() == "x"
    for name in (".git/hooks/pre-commit", ".bashrc", ".vscode/tasks.json"):
        assert not (workspace / name).exists()


def test_between_cells_only(core: RpcCore, session: str) -> None:
    core.text(session, "open('new', 'w').write('new')")
    running = core.request("session.execute", session=session, code="import time; time.sleep(60)")
    with pytest.raises(RpcError, match="between cells"):
        core.call("session.commit", session=session)
    assert core.call("session.changes", session=session)["total"] == 1
    core.call("session.interrupt", session=session)
    core.wait(running)
    assert core.call("session.discard", session=session)["total"] == 1


SEEN = "import os; print(sorted(os.listdir('.')), open('old').read(), os.path.exists('folder'))"


def test_restore(core: RpcCore, session: str, kernels: Kernels) -> None:
    """Files go back with the variables, and belong to the user inside, who can write them."""
    workspace = kernels.place.workspace
    begin = core.call("session.checkpoint", session=session)["checkpoint"]
    before = core.text(session, SEEN)
    core.text(session, WRITE)
    written = core.call("session.checkpoint", session=session)["checkpoint"]
    after = core.text(session, SEEN)
    assert before != after
    for _ in range(2):
        core.call("session.restore", session=session, checkpoint=begin)
        assert core.text(session, SEEN) == before
        assert core.call("session.changes", session=session)["total"] == 0
        core.text(session, "open('moved', 'a').write('more')")
        core.call("session.restore", session=session, checkpoint=written)
        assert core.text(session, SEEN) == after
        core.text(session, "open('there', 'a').write('x'); os.remove('made/deep/file')")
    core.call("session.restore", session=session, checkpoint=written)
    core.call("session.commit", session=session)
    assert str(sorted(os.listdir(workspace))) in after
    assert (workspace / "made/deep/file").read_text() == "file"
    assert (workspace / "there").read_text() == "moved"
