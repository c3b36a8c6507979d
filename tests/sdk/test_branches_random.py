# SPDX-License-Identifier: Apache-2.0
"""Random programs of cells, forks, checkpoints, restores, undos, resets and deaths against a model.

In a staged session they write files, commit and discard them, too. The model has these files, which
a session shares with those that are forked from it.

A few programs run in each test; with IPYBOX_TEST_HOURS (a number, such as 1) others run for so
long, a third of it in each mode.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import time
from dataclasses import dataclass, field
from pathlib import Path

import hypothesis
import pytest
from hypothesis import strategies as st
from ipybox import Checkpoint, CodeExecutionError, CodeExecutor

HOURS = float(os.environ.get("IPYBOX_TEST_HOURS", "0"))
N_PROGRAMS = {"plain": 8, "sandbox": 8, "staged": 20}
N_STEPS = 30 if HOURS else 14
MAX_SESSIONS, MAX_CHECKPOINTS = 4, 3
UNDO = 3
OPERATIONS = [
    "cell",
    "cell",
    "cell",
    "failing_cell",
    "undone_cell",
    "fork",
    "checkpoint",
    "checkpoint",
    "restore",
    "restore",
    "branch",
    "drop",
    "undo",
    "undo",
    "reset",
    "kill",
    "undone_kill",
    "stop",
]

FILE_OPERATIONS = ["write", "write", "write", "remove", "remove", "move", "link", "symlink"]
# Often enough that a restore meets a commit.
STAGED_OPERATIONS = [
    *FILE_OPERATIONS,
    *FILE_OPERATIONS,
    *("make_directory", "commit", "commit", "commit", "discard"),
    *("checkpoint", "checkpoint", "restore", "restore", "restore", "undo", "undo", "undo"),
    *("cell", "failing_cell", "undone_cell", "fork", "fork", "branch", "drop"),
    *("reset", "kill", "undone_kill", "stop", "stop"),
]
# Of files, links, and directories, which never get each other's names.
NAMES = ["a", "b", "d/a", "d/e/a", "f/b"]
DIRECTORIES = ["d", "d/e", "f", "g"]

Step = tuple[str, int, int]


def programs(operations: list[str]) -> st.SearchStrategy[list[Step]]:
    step = st.tuples(st.sampled_from(operations), st.integers(0, 9), st.integers(0, 99))
    return st.lists(step, min_size=N_STEPS // 2, max_size=N_STEPS)


# What code sees of its files. A directory has the value None, a link a tuple.
SEE = """
import os, shutil
def see():
    found = {}
    for top, names, files in os.walk("."):
        for name in names:
            found[os.path.relpath(os.path.join(top, name))] = None
        for name in files:
            path = os.path.relpath(os.path.join(top, name))
            is_link = os.path.islink(path)
            found[path] = ("link", os.readlink(path)) if is_link else open(path).read()
    return dict(sorted(found.items()))
def make(path):
    os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
    if os.path.lexists(path) and (os.path.islink(path) or os.stat(path).st_nlink > 1):
        os.remove(path)
    return path
"""
Files = dict[str, "str | tuple[str, str] | None"]


def parents(path: str) -> list[str]:
    parts = path.split("/")
    return ["/".join(parts[:n]) for n in range(1, len(parts))]


def with_parents(files: Files) -> Files:
    return dict(sorted((files | {each: None for path in files for each in parents(path)}).items()))


@dataclass
class State:
    """What a checkpoint has: the list `x` of the kernel, and the files at a number of commits."""

    x: list[int]
    files: Files
    n_commits: int


@dataclass
class Layer:
    """What staged sessions share."""

    workspace: Path
    files: Files = field(default_factory=dict)  # as code sees them
    real: Files = field(default_factory=dict)  # in the workspace
    commits: list[set[str]] = field(default_factory=list)
    n_sessions: int = 1

    def go_back(self, state: State) -> None:
        """What was committed since is that of the workspace."""
        self.files = dict(state.files)
        for path in set().union(*self.commits[state.n_commits :]):
            self.files.pop(path, None)
            if path in self.real:
                self.files[path] = self.real[path]
        self.files = with_parents(self.files)


@dataclass
class Model:
    """A session, and what it can return to."""

    executor: CodeExecutor
    x: list[int] = field(default_factory=list)
    ring: list[State] = field(default_factory=list)
    checkpoints: list[tuple[Checkpoint, State]] = field(default_factory=list)
    layer: Layer | None = None

    def state(self) -> State:
        if self.layer is None:
            return State(list(self.x), {}, 0)
        return State(list(self.x), dict(self.layer.files), len(self.layer.commits))

    def shares_files(self) -> bool:
        return self.layer is not None and self.layer.n_sessions > 1

    def begin_cell(self) -> None:
        self.ring = [*self.ring, self.state()][-UNDO:]

    async def run(self, code: str) -> str:
        self.begin_cell()
        result = await self.executor.execute(code)
        assert result.notices == []
        return result.text or ""

    async def fail(self, code: str, undo: bool) -> None:
        self.begin_cell()
        with pytest.raises(CodeExecutionError) as failed:
            await self.executor.execute(code, undo_on_error=undo)
        assert failed.value.is_undone == undo
        left_out = any("undone, but not in files" in each for each in failed.value.notices)
        assert left_out == (undo and self.shares_files()), failed.value.notices

    def go_back(self, state: State) -> None:
        self.x = list(state.x)
        if self.layer is not None and not self.shares_files():
            self.layer.go_back(state)

    async def check(self) -> None:
        if self.layer is None:
            assert await self.run("globals().get('x', [])") == str(self.x)
            return
        seen = await self.run(f"{SEE}\nprint((globals().get('x', []), see()))")
        assert seen == str((self.x, dict(sorted(self.layer.files.items()))))

    async def check_changes(self) -> None:
        """Also that the workspace has nothing but what was committed."""
        layer = self.layer
        assert layer is not None
        changed = {
            path
            for path in layer.files | layer.real
            if (path in layer.files, layer.files.get(path))
            != (path in layer.real, layer.real.get(path))
        }
        assert {each.path for each in (await self.executor.changes()).changes} == changed
        found: Files = {}
        for path in layer.workspace.rglob("*"):
            value = None if path.is_dir() else path.is_symlink() or path.read_text()
            found[str(path.relative_to(layer.workspace))] = (
                ("link", os.readlink(path)) if value is True else value
            )
        assert found == layer.real


def layer_of(model: Model) -> Layer:
    assert model.layer is not None
    return model.layer


class Program:
    def __init__(self, executor: CodeExecutor, workspace: Path | None) -> None:
        self.models = [Model(executor, layer=Layer(workspace) if workspace else None)]

    async def run(self, steps: list[Step]) -> None:
        try:
            for name, which, number in steps:
                if self.models:
                    model = self.models[which % len(self.models)]
                    await getattr(self, name)(model, number)
                    if model in self.models:
                        await model.check()
            for model in self.models:
                await model.check()
                if model.layer is not None:
                    await model.check_changes()
                listed = [each.name for each in await model.executor.checkpoints()]
                assert listed == [each.name for each, _ in model.checkpoints]
        finally:
            for model in self.models:
                await model.executor.stop()

    async def cell(self, model: Model, number: int) -> None:
        await model.run(f"x = globals().get('x', []); x.append({number})")
        model.x.append(number)

    async def failing_cell(self, model: Model, number: int) -> None:
        await model.fail(
            f"x = globals().get('x', []); x.append({number}); raise ValueError", undo=False
        )
        model.x.append(number)

    async def undone_cell(self, model: Model, number: int) -> None:
        write = "open('undone', 'w').write('x')" if model.layer is not None else "0"
        await model.fail(f"x = [-1]; {write}; raise ValueError", undo=True)
        if model.layer is not None and model.shares_files():
            model.layer.files["undone"] = "x"
        model.ring.pop()

    async def kill(self, model: Model, number: int) -> None:
        await model.fail("import os; os._exit(1)", undo=False)
        model.x = []

    async def undone_kill(self, model: Model, number: int) -> None:
        await model.fail("import os, signal; os.kill(os.getpid(), signal.SIGKILL)", undo=True)
        model.ring.pop()

    async def fork(self, model: Model, number: int) -> None:
        # Without a process, there is nothing to fork: a cell starts one.
        await model.check()
        if len(self.models) < MAX_SESSIONS:
            (branch,) = await model.executor.fork()
            self.add_branch(model, branch, model.x)

    def add_branch(self, model: Model, branch: CodeExecutor, x: list[int]) -> None:
        self.models.append(Model(branch, list(x), layer=model.layer))
        if model.layer is not None:
            model.layer.n_sessions += 1
            assert branch.warnings[0].startswith("files are ")

    async def checkpoint(self, model: Model, number: int) -> None:
        if len(model.checkpoints) < MAX_CHECKPOINTS:
            checkpoint = await model.executor.checkpoint()
            model.checkpoints.append((checkpoint, model.state()))

    async def restore(self, model: Model, number: int) -> None:
        if model.checkpoints:
            checkpoint, state = model.checkpoints[number % len(model.checkpoints)]
            if model.shares_files():
                with pytest.raises(RuntimeError, match="the files of this one"):
                    await checkpoint.restore()
            await checkpoint.restore(files=not model.shares_files())
            model.go_back(state)
            model.ring = []

    async def branch(self, model: Model, number: int) -> None:
        if not model.checkpoints or len(self.models) >= MAX_SESSIONS:
            return
        checkpoint, state = model.checkpoints[number % len(model.checkpoints)]
        (branch,) = await checkpoint.branch()
        self.add_branch(model, branch, state.x)

    async def drop(self, model: Model, number: int) -> None:
        if model.checkpoints:
            checkpoint, _ = model.checkpoints.pop(number % len(model.checkpoints))
            await checkpoint.drop()

    async def undo(self, model: Model, number: int) -> None:
        n = number % UNDO + 1
        if n > len(model.ring):
            with pytest.raises(ValueError, match="can be undone"):
                await model.executor.undo(n)
            return
        if model.shares_files():
            with pytest.raises(RuntimeError, match="the files of this one"):
                await model.executor.undo(n)
        await model.executor.undo(n, files=not model.shares_files())
        model.go_back(model.ring[-n])
        del model.ring[-n:]

    async def reset(self, model: Model, number: int) -> None:
        n = len(model.checkpoints)
        await model.executor.reset()
        model.x, model.ring, model.checkpoints = [], [], []
        model.begin_cell()
        result = await model.executor.execute("'x' in globals()")
        dropped = [f"[ipybox] the reset has dropped {n} checkpoints"] if n else []
        assert (result.text, result.notices) == ("False", dropped)

    async def stop(self, model: Model, number: int) -> None:
        if model.layer is not None:
            if not model.shares_files():
                return  # the layer would end
            model.layer.n_sessions -= 1
        self.models.remove(model)
        await model.executor.stop()

    # Files, in a staged session

    def put(self, model: Model, path: str, value: str | tuple[str, str] | None) -> None:
        layer = layer_of(model)
        layer.files = with_parents(layer.files | {path: value})

    async def write(self, model: Model, number: int) -> None:
        path = NAMES[number % len(NAMES)]
        await model.run(
            f"{SEE}\nfile = open(make({path!r}), 'w')\nfile.write('{number}')\nfile.close()"
        )
        self.put(model, path, str(number))

    async def remove(self, model: Model, number: int) -> None:
        path = [*NAMES, *DIRECTORIES][number % (len(NAMES) + len(DIRECTORIES))]
        remove = "shutil.rmtree" if path in DIRECTORIES else "os.remove"
        await model.run(f"{SEE}\nif os.path.lexists({path!r}): {remove}({path!r})")
        layer = layer_of(model)
        layer.files = {
            each: value
            for each, value in layer.files.items()
            if each != path and not each.startswith(path + "/")
        }

    async def move(self, model: Model, number: int) -> None:
        old, new = NAMES[number % len(NAMES)], NAMES[number // 10 % len(NAMES)]
        files = layer_of(model).files
        if old in files and old != new:
            await model.run(f"{SEE}\nos.replace({old!r}, make({new!r}))")
            self.put(model, new, files.pop(old))

    async def link(self, model: Model, number: int) -> None:
        old, new = NAMES[number % len(NAMES)], NAMES[number // 10 % len(NAMES)]
        files = layer_of(model).files
        if isinstance(files.get(old), str) and new not in files:
            await model.run(f"{SEE}\nos.link({old!r}, make({new!r}))")
            self.put(model, new, files[old])

    async def symlink(self, model: Model, number: int) -> None:
        path = NAMES[number % len(NAMES)]
        if path not in layer_of(model).files:
            await model.run(f"{SEE}\nos.symlink('{number}', make({path!r}))")
            self.put(model, path, ("link", str(number)))

    async def make_directory(self, model: Model, number: int) -> None:
        path = DIRECTORIES[number % len(DIRECTORIES)]
        await model.run(f"{SEE}\nos.makedirs({path!r}, exist_ok=True)")
        self.put(model, path, None)

    async def commit(self, model: Model, number: int) -> None:
        await model.check_changes()
        done = await model.executor.commit()
        assert all(change.done for change in done.changes), done
        layer = layer_of(model)
        layer.commits.append({change.path for change in done.changes})
        layer.real = dict(layer.files)
        await model.check_changes()

    async def discard(self, model: Model, number: int) -> None:
        undone = await model.executor.discard()
        assert all(change.done for change in undone.changes), undone
        layer_of(model).files = dict(layer_of(model).real)
        await model.check_changes()


async def run_program(steps: list[Step], mode: str, workspace: Path) -> None:
    if mode == "staged":
        executor = CodeExecutor(
            sandbox=True,
            undo=UNDO,
            kernel_init_timeout=60,
            workspace=workspace,
            workspace_mode="staged",
        )
    else:
        executor = CodeExecutor(sandbox=mode == "sandbox", undo=UNDO, kernel_init_timeout=60)
    await executor.start()
    program = Program(executor, workspace if mode == "staged" else None)
    await program.run(steps)


@pytest.mark.parametrize("mode", ["plain", "sandbox", "staged"])
@pytest.mark.timeout(int(HOURS * 3600) + 600)
def test_programs(mode: str, workspace: Path) -> None:
    numbers = itertools.count()

    @hypothesis.settings(
        max_examples=N_PROGRAMS[mode], deadline=None, database=None, derandomize=HOURS == 0
    )
    @hypothesis.given(programs(STAGED_OPERATIONS if mode == "staged" else OPERATIONS))
    def try_programs(steps: list[Step]) -> None:
        directory = workspace / str(next(numbers))
        directory.mkdir()
        asyncio.run(run_program(steps, mode, directory))

    end = time.monotonic() + HOURS * 3600 / 3
    try_programs()
    while time.monotonic() < end:
        try_programs()
