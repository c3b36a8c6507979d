# SPDX-License-Identifier: Apache-2.0
"""session.save and session.load: variables in a file (docs/internals/rpc.md)."""

from __future__ import annotations

import json
import pickle
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from meeting import Meeting
from rpc_driver import RpcCore, RpcError

HEADER = b"ipybox variables 1\n"
EMPTY: dict[str, str] = {}


@pytest.fixture
def core(ipybox, place) -> Iterator[RpcCore]:
    with RpcCore(ipybox, place) as core:
        yield core


def save(core: RpcCore, session: str, path: str = "state", **options: Any) -> dict:
    return core.call("session.save", session=session, path=path, **options)


def load(core: RpcCore, session: str, path: str = "state", **options: Any) -> dict:
    return core.call("session.load", session=session, path=path, **options)


def write(path: Path, *entries: tuple[str, bytes]) -> bytes:
    """A file of pickles that `save` did not make."""
    data = HEADER
    for name, content in entries:
        data += json.dumps({"name": name, "size": len(content)}).encode() + b"\n" + content
    data += json.dumps({"end": len(entries)}).encode() + b"\n"
    path.write_bytes(data)
    return data


def fails(core: RpcCore, method: str, **params: Any) -> RpcError:
    with pytest.raises(RpcError) as caught:
        core.call(method, **params)
    return caught.value


DEFINE = """
import numpy as np, pandas as pd, math as m, datetime, collections
from fractions import Fraction
a = [1, 'é', None, 2 ** 70]; b = {'same': a}
array = np.arange(6).reshape(2, 3); view = b['same']
frame = pd.DataFrame({'x': [1, 2]})
moment = datetime.datetime(2026, 1, 2); fraction = Fraction(1, 3)
counter = collections.Counter('aab'); path = m.sqrt
loop = []; loop.append(loop)
_hidden = 1
"""
CHECK = """
assert a == [1, 'é', None, 2 ** 70] and b['same'] is a and view is a
assert array.tolist() == [[0, 1, 2], [3, 4, 5]] and frame['x'].tolist() == [1, 2]
assert moment.year == 2026 and fraction == Fraction(1, 3) and counter['a'] == 2
assert path(4) == 2 and loop[0] is loop and m.pi > 3 and np.sum(array) == 15
assert '_hidden' not in globals()
"""


def test_variables_are_the_same_in_another_session(core, workspace):
    first, second = core.open(), core.open()
    core.text(first, DEFINE)
    saved = save(core, first)
    assert saved["failed"] == EMPTY and "a" in saved["names"] and "_hidden" not in saved["names"]
    assert stat.S_IMODE((workspace / "state").stat().st_mode) == 0o600
    assert load(core, second) == saved
    core.text(second, CHECK)
    assert core.text(second, "print(len(In))") == "3"  # neither counts as a cell


def test_names(core, workspace):
    session = core.open()
    core.text(session, "x = 1; y = 2; _z = 3")
    saved = save(core, session, names=["_z", "x", "gone"])
    assert saved == {"names": ["_z", "x"], "failed": {"gone": "there is no such variable"}}
    core.text(session, "x = 'new'; y = 'kept'; del _z")
    assert load(core, session) == {"names": ["_z", "x"], "failed": {}}
    assert core.text(session, "print(x, y, _z)") == "1 kept 3"
    assert save(core, session, names=[]) == {"names": [], "failed": {}}
    assert load(core, session) == {"names": [], "failed": {}}


def test_names_that_are_none(core):
    """They cannot be read by `load`, so `save` reports them."""
    session = core.open()
    core.text(session, "globals().update({'a b': 1, 'é' * 1000: 2, 'é' * 1001: 3, '\\ud800': 4})")
    saved = save(core, session)
    assert saved["names"] == ["é" * 1000]
    assert {"a b", "é" * 1000} <= saved["failed"].keys() and len(saved["failed"]) == 3
    assert load(core, core.open())["names"] == ["é" * 1000]


NOT_SAVED = """
import typing, types, functools, enum, dataclasses
def function(): pass
class Class: pass
@dataclasses.dataclass
class Data: x: int
class Color(enum.Enum): RED = 1
instance = Class(); data = [Data(1)]; color = {Color.RED}
partial = functools.partial(function); lambda_ = lambda: 1
method = instance.__init__; generator = (i for i in ()); file = open('f', 'w')
T = typing.TypeVar('T'); module = types.ModuleType('made_up')
text = 'c__main__\\nfunction\\n'; fine = [1]
class Raises:
    def __reduce__(self): raise ValueError('not ' + 'x' * 5000)
raises = Raises()
deep = []
for _ in range(100_000): deep = [deep]
"""


def test_what_cannot_be_saved_is_named(core):
    """Everything that is defined in a cell is reported. Nothing is saved as something else."""
    session = core.open()
    core.text(session, NOT_SAVED)
    saved = save(core, session)
    kept = {"typing", "types", "functools", "enum", "dataclasses", "text", "fine"}
    assert set(saved["names"]) == kept
    why = saved["failed"]
    in_cell = {"function", "Class", "Data", "Color", "instance", "data", "color", "partial", "T"}
    assert in_cell <= {name for name, text in why.items() if "is defined in a cell" in text}, why
    assert {"lambda_", "method", "generator", "file", "module", "raises", "deep"} <= set(why)
    assert why["raises"].startswith("ValueError: not xxx") and len(why["raises"]) < 2000
    assert "RecursionError" in why["deep"]
    core.text(session, "fine.append(2); text = ''")
    assert set(load(core, session)["names"]) == kept
    assert core.text(session, "print(fine, len(text))") == "[1] 19"


def test_what_cannot_be_loaded_is_named(core, workspace):
    """A variable that shares an object with one that fails, fails too; others are loaded."""
    session = core.open()
    (workspace / "ours.py").write_text("class Thing:\n    pass\n")
    core.text(
        session,
        "import ours\nshared = [1]; before = [0]\nthing = [shared, ours.Thing()]\n"
        "after = [shared]; again = before; other = ['fine']\ndel ours",
    )
    names = ["before", "thing", "after", "again", "other"]
    assert save(core, session, names=names)["failed"] == EMPTY
    (workspace / "ours.py").unlink()
    second = core.open()
    loaded = load(core, second)
    assert loaded["names"] == ["before", "again", "other"], loaded
    assert (
        "ModuleNotFoundError" in loaded["failed"]["thing"]
        and "shares an object" in loaded["failed"]["after"]
    )
    assert core.text(second, "print(before is again, other, 'after' in globals())") == (
        "True ['fine'] False"
    )


def test_a_name_of_a_cell_is_never_loaded(core, workspace):
    """Another session may have something else with that name."""
    session = core.open()
    core.text(session, "def f(): return 'another'")
    write(workspace / "state", ("x", b"\x80\x03c__main__\nf\nq\x00."), ("y", pickle.dumps(1)))
    loaded = load(core, session)
    assert loaded["names"] == ["y"] and "is defined in a cell" in loaded["failed"]["x"]


def test_each_truncated_file_is_an_error(core, workspace):
    """And nothing of it is loaded."""
    session = core.open()
    core.text(session, "x = [1]; y = 'text'")
    save(core, session)
    whole = (workspace / "state").read_bytes()
    core.text(session, "del x, y")
    for size in range(len(whole)):
        (workspace / "state").write_bytes(whole[:size])
        error = fails(core, "session.load", session=session, path="state")
        assert error.kind == "code" and "/state " in str(error), size
    assert core.text(session, "print('x' in globals(), 'y' in globals())") == "False False"


@pytest.mark.parametrize(
    "data, why",
    [
        (b"", "has no saved variables"),
        (b"ipybox variables 2\n", "has another version than this ipybox"),
        (HEADER + b"[]\n", "a line between variables is wrong"),
        (HEADER + b'{"name": "x"}\n', "variable 1 has no name or size"),
        (HEADER + b'{"name": "a b", "size": 1}\nN{"end": 1}\n', "variable 1 has no name or size"),
        (HEADER + b'{"name": "x", "size": -5}\n{"end": 1}\n', "variable 1 has no name or size"),
        (HEADER + b'{"name": "x", "size": 99999999999}\n', "it ends in the variable x"),
        (HEADER + b'{"end": 1}\n', "its last line is wrong"),
        (HEADER + b'{"end": 0}\nmore\n', "its last line is wrong"),
        (HEADER + b"x" * 100_000, "its last line is missing"),
    ],
)
def test_a_damaged_file_is_an_error(core, workspace, data, why):
    session = core.open()
    (workspace / "state").write_bytes(data)
    error = fails(core, "session.load", session=session, path="state")
    assert error.kind == "code" and why in str(error)


def test_damaged_pickles_are_named(core, workspace):
    one = pickle.dumps(1, 3)
    write(
        workspace / "state",
        ("cut", one[:-1]),
        ("long", one + b"N."),
        ("bad", b"\xff"),
        ("memo", b"\x80\x03h\x05."),
        ("good", one),
    )
    loaded = load(core, core.open())
    assert loaded["names"] == ["good"]
    assert set(loaded["failed"]) == {"cut", "long", "bad", "memo"}
    assert "another size" in loaded["failed"]["long"]


def test_no_other_file_is_replaced(core, workspace):
    session = core.open()
    core.text(session, "x = 1")
    (workspace / "notes").write_text("mine")
    (workspace / "link").symlink_to("notes")
    (workspace / "folder").mkdir()
    for path in ("notes", "link", "folder", "missing/state"):
        assert fails(core, "session.save", session=session, path=path).kind == "code", path
    assert (workspace / "notes").read_text() == "mine"
    assert not list(workspace.glob(".ipybox-*"))
    assert fails(core, "session.load", session=session, path="folder").kind == "code"
    assert "No such file" in str(fails(core, "session.load", session=session, path="missing"))
    save(core, session)
    core.text(session, "x = 2")
    save(core, session)  # a file of ours is replaced
    assert load(core, session)["names"] == ["x"]


BLOCKS = """
import time, copyreg
def wait(*_):
    BEGIN
    while True: time.sleep(60)
copyreg.pickle(complex, wait)
x, y = 1, 2j
"""


@pytest.mark.parametrize("end", ["timeout", "cancel", "interrupt", "exit"])
def test_an_interrupted_save_leaves_the_old_file(core, workspace, end):
    session = core.open()
    core.text(session, "x = 1")
    save(core, session)
    before = (workspace / "state").read_bytes()
    begun = Meeting(workspace / "begun")
    if end == "exit":
        core.text(session, BLOCKS.replace("BEGIN", "import os; os._exit(1)"))
    else:
        core.text(session, BLOCKS.replace("BEGIN", begun.code))
    params = {"session": session, "path": "state"} | ({"timeout": 2} if end == "timeout" else {})
    request = core.request("session.save", **params)
    if end != "exit":
        begun.wait()
    if end == "cancel":
        core.notify("session.cancel", request=request)
    elif end == "interrupt":
        core.call("session.interrupt", session=session)
    with pytest.raises(RpcError) as caught:
        core.wait(request)
    kinds = {"timeout": "timeout", "exit": "kernel_died"}
    assert caught.value.kind == kinds.get(end, "cancelled")
    assert (workspace / "state").read_bytes() == before
    assert not list(workspace.glob(".ipybox-*"))
    if end != "exit":
        assert core.text(session, "print(x, y)") == "1 2j"


class Runs:
    """Its pickle runs code."""

    def __init__(self, code: str) -> None:
        self._code = code

    def __reduce__(self) -> tuple:
        return exec, (self._code,)


def test_an_interrupted_load_sets_no_variable(core, workspace):
    session = core.open()
    begun = Meeting(workspace / "begun")
    code = f"{begun.code}\nwhile True: pass"
    write(workspace / "state", ("x", pickle.dumps(1)), ("y", pickle.dumps(Runs(code), 3)))
    request = core.request("session.load", session=session, path="state")
    begun.wait()
    core.call("session.interrupt", session=session)
    with pytest.raises(RpcError) as caught:
        core.wait(request)
    assert caught.value.kind == "cancelled"
    assert core.text(session, "print('x' in globals())") == "False"


@pytest.mark.parametrize("is_sandboxed", [True, False])
def test_code_of_a_file_runs_in_the_kernel_and_its_sandbox(core, workspace, place, is_sandboxed):
    """Without a sandbox the same file writes where the sandbox does not let it."""
    session = core.open(**({"sandbox": True} if is_sandboxed else {}))
    outside = place.root / "outside"
    write(
        workspace / "state",
        ("inside", pickle.dumps(Runs("import os; open('pid', 'w').write(str(os.getpid()))"), 3)),
        ("out", pickle.dumps(Runs(f"open({str(outside)!r}, 'w')"), 3)),
    )
    assert "inside" in load(core, session)["names"]
    assert outside.exists() == (not is_sandboxed)
    kernel = core.text(session, "import os; print(os.getpid())")
    assert (workspace / "pid").read_text() == kernel


def test_tool_calls_of_a_file_are_refused(core, workspace):
    """Even while a cell waits whose calls are allowed."""
    session = core.open(approve_shell_cmds=True)
    code = "get_ipython().system('touch touched')"
    write(workspace / "state", ("x", pickle.dumps(Runs(code), 3)))
    request = core.request("session.load", session=session, path="state")
    cell = core.request("session.execute", session=session, code="!touch allowed", approval="allow")
    assert core.wait(request)["failed"].keys() == {"x"}
    assert core.wait(cell)["status"] == "ok"
    assert (workspace / "allowed").exists() and not (workspace / "touched").exists()


def test_a_report_of_a_hostile_kernel(core, workspace):
    session = core.open()
    core.text(
        session,
        "import ipybox_kernel.saved_state as s\n"
        "class Fake:\n    def _repr_mimebundle_(self, **_):\n"
        "        return {'application/json': {'names': [1], 'failed': {}}}\n"
        "s.take_report = Fake",
    )
    error = fails(core, "session.save", session=session, path="state", names=[])
    assert error.kind == "protocol" and "did not report" in str(error)


@pytest.mark.parametrize(
    "params",
    [
        {"path": ""},
        {"path": "x" * 5000},
        {"path": "state", "names": ["x" * 5000]},
        {"path": "state", "names": ["x"] * 10_001},
        {"path": "state", "names": "x"},
        {"path": "state", "timeout": -1},
        {},
    ],
)
def test_wrong_parameters(core, params):
    assert fails(core, "session.save", session=core.open(), **params).kind == "invalid"


def test_large_values(core, workspace):
    """More than the buffers of pickle and of the wire; many small ones and a large one."""
    session = core.open()
    core.text(session, "big = bytes(40_000_000)\nmany = [[i] for i in range(200_000)]\nlast = many")
    core.text(session, "globals().update({f'v{i}': [i, many[i]] for i in range(500)})")
    assert len(save(core, session)["names"]) == 503
    second = core.open()
    assert len(load(core, second)["names"]) == 503
    check = (
        "print(len(big), last is many, all(globals()[f'v{i}'][1] is many[i] for i in range(500)))"
    )
    assert core.text(second, check) == "40000000 True True"
