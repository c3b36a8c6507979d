# SPDX-License-Identifier: Apache-2.0
"""Random programs of cells, forks, checkpoints, restores, undos, resets and deaths against a model.

In a staged session they write files, commit and discard them, too, and the model has these files.
There, sessions are not forked.

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
    *("cell", "failing_cell", "undone_cell", "fork", "branch", "drop"),
    *("reset", "kill", "undone_kill"),
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
class Model:
    """A session, and what it can return to."""

    executor: CodeExecutor
    x: list[int] = field(default_factory=list)
    ring: list[State] = field(default_factory=list)
    checkpoints: list[tuple[Checkpoint, State]] = field(default_factory=list)
    # Of a staged session:
    workspace: Path | None = None
    files: Files = field(default_factory=dict)  # as code sees them
    real: Files = field(default_factory=dict)  # in the workspace
    commits: list[set[str]] = field(default_factory=list)
    is_dead: bool = False
    has_notice: bool = False

    def state(self) -> State:
        return State(list(self.x), dict(self.files), len(self.commits))

    def begin_process(self) -> None:
        """A fresh kernel has another sandbox, so checkpoints with files are gone."""
        if self.workspace is not None and self.is_dead:
            self.has_notice = bool(self.ring or self.checkpoints)
            self.ring, self.checkpoints = [], []
        self.is_dead = False

    def begin_cell(self) -> None:
        self.begin_process()
        self.ring = [*self.ring, self.state()][-UNDO:]

    def check_notices(self, notices: list[str]) -> None:
        """Of the cell that has ended; others are of no interest."""
        dropped = any("checkpoints with files are dropped" in each for each in notices)
        assert dropped == self.has_notice, notices
        self.has_notice = False

    async def run(self, code: str) -> str:
        self.begin_cell()
        result = await self.executor.execute(code)
        assert len(result.notices) == self.has_notice
        self.check_notices(result.notices)
        return result.text or ""

    async def fail(self, code: str, undo: bool) -> None:
        self.begin_cell()
        with pytest.raises(CodeExecutionError) as failed:
            await self.executor.execute(code, undo_on_error=undo)
        assert failed.value.is_undone == undo
        self.check_notices(failed.value.notices)

    def go_back(self, state: State) -> None:
        """What was committed since is that of the workspace."""
        self.x, self.is_dead = list(state.x), False
        self.files = dict(state.files)
        for path in set().union(*self.commits[state.n_commits :]):
            self.files.pop(path, None)
            if path in self.real:
                self.files[path] = self.real[path]
        self.files = with_parents(self.files)

    async def check(self) -> None:
        if self.workspace is None:
            assert await self.run("globals().get('x', [])") == str(self.x)
            return
        seen = await self.run(f"{SEE}\nprint((globals().get('x', []), see()))")
        assert seen == str((self.x, dict(sorted(self.files.items()))))

    async def check_changes(self) -> None:
        """Also that the workspace has nothing but what was committed."""
        assert self.workspace is not None
        changed = {
            path
            for path in self.files | self.real
            if (path in self.files, self.files.get(path))
            != (path in self.real, self.real.get(path))
        }
        assert {each.path for each in (await self.executor.changes()).changes} == changed
        found: Files = {}
        for path in self.workspace.rglob("*"):
            value = None if path.is_dir() else path.is_symlink() or path.read_text()
            found[str(path.relative_to(self.workspace))] = (
                ("link", os.readlink(path)) if value is True else value
            )
        assert found == self.real


class Program:
    def __init__(self, executor: CodeExecutor, workspace: Path | None) -> None:
        self.models = [Model(executor, workspace=workspace)]

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
                if model.workspace is not None:
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
        write = "open('undone', 'w').write('x')" if model.workspace is not None else "0"
        await model.fail(f"x = [-1]; {write}; raise ValueError", undo=True)
        model.ring.pop()

    async def kill(self, model: Model, number: int) -> None:
        await model.fail("import os; os._exit(1)", undo=False)
        model.x, model.is_dead = [], True

    async def undone_kill(self, model: Model, number: int) -> None:
        await model.fail("import os, signal; os.kill(os.getpid(), signal.SIGKILL)", undo=True)
        model.ring.pop()

    async def fork(self, model: Model, number: int) -> None:
        # Without a process, there is nothing to fork: a cell starts one.
        await model.check()
        if model.workspace is not None:
            with pytest.raises(RuntimeError, match="both would write one layer"):
                await model.executor.fork()
        elif len(self.models) < MAX_SESSIONS:
            (branch,) = await model.executor.fork()
            self.models.append(Model(branch, list(model.x)))

    async def checkpoint(self, model: Model, number: int) -> None:
        if len(model.checkpoints) < MAX_CHECKPOINTS:
            model.begin_process()
            checkpoint = await model.executor.checkpoint()
            model.checkpoints.append((checkpoint, model.state()))

    async def restore(self, model: Model, number: int) -> None:
        if model.checkpoints:
            checkpoint, state = model.checkpoints[number % len(model.checkpoints)]
            await checkpoint.restore()
            model.go_back(state)
            model.ring = []

    async def branch(self, model: Model, number: int) -> None:
        if not model.checkpoints or len(self.models) >= MAX_SESSIONS:
            return
        checkpoint, state = model.checkpoints[number % len(model.checkpoints)]
        if model.workspace is not None:
            with pytest.raises(RuntimeError, match="both would write one layer"):
                await checkpoint.branch()
            return
        (branch,) = await checkpoint.branch()
        self.models.append(Model(branch, list(state.x)))

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
        await model.executor.undo(n)
        model.go_back(model.ring[-n])
        del model.ring[-n:]

    async def reset(self, model: Model, number: int) -> None:
        n = len(model.checkpoints)
        await model.executor.reset()
        model.x, model.ring, model.checkpoints = [], [], []
        model.is_dead = False
        model.begin_cell()
        result = await model.executor.execute("'x' in globals()")
        dropped = [f"[ipybox] the reset has dropped {n} checkpoints"] if n else []
        if model.has_notice:
            model.check_notices(result.notices)
            del result.notices[0]
        assert (result.text, result.notices) == ("False", dropped)

    async def stop(self, model: Model, number: int) -> None:
        if model.workspace is not None:
            return  # there is one session
        self.models.remove(model)
        await model.executor.stop()

    # Files, in a staged session

    async def write(self, model: Model, number: int) -> None:
        path = NAMES[number % len(NAMES)]
        await model.run(
            f"{SEE}\nfile = open(make({path!r}), 'w')\nfile.write('{number}')\nfile.close()"
        )
        model.files = with_parents(model.files | {path: str(number)})

    async def remove(self, model: Model, number: int) -> None:
        path = [*NAMES, *DIRECTORIES][number % (len(NAMES) + len(DIRECTORIES))]
        remove = "shutil.rmtree" if path in DIRECTORIES else "os.remove"
        await model.run(f"{SEE}\nif os.path.lexists({path!r}): {remove}({path!r})")
        model.files = {
            each: value
            for each, value in model.files.items()
            if each != path and not each.startswith(path + "/")
        }

    async def move(self, model: Model, number: int) -> None:
        old, new = NAMES[number % len(NAMES)], NAMES[number // 10 % len(NAMES)]
        if old in model.files and old != new:
            await model.run(f"{SEE}\nos.replace({old!r}, make({new!r}))")
            model.files[new] = model.files.pop(old)
            model.files = with_parents(model.files)

    async def link(self, model: Model, number: int) -> None:
        old, new = NAMES[number % len(NAMES)], NAMES[number // 10 % len(NAMES)]
        if isinstance(model.files.get(old), str) and new not in model.files:
            await model.run(f"{SEE}\nos.link({old!r}, make({new!r}))")
            model.files = with_parents(model.files | {new: model.files[old]})

    async def symlink(self, model: Model, number: int) -> None:
        path = NAMES[number % len(NAMES)]
        if path not in model.files:
            await model.run(f"{SEE}\nos.symlink('{number}', make({path!r}))")
            model.files = with_parents(model.files | {path: ("link", str(number))})

    async def make_directory(self, model: Model, number: int) -> None:
        path = DIRECTORIES[number % len(DIRECTORIES)]
        await model.run(f"{SEE}\nos.makedirs({path!r}, exist_ok=True)")
        model.files = with_parents(model.files | {path: None})

    async def commit(self, model: Model, number: int) -> None:
        await model.check_changes()
        done = await model.executor.commit()
        assert all(change.done for change in done.changes), done
        model.commits.append({change.path for change in done.changes})
        model.real = dict(model.files)
        await model.check_changes()

    async def discard(self, model: Model, number: int) -> None:
        undone = await model.executor.discard()
        assert all(change.done for change in undone.changes), undone
        model.files = dict(model.real)
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
