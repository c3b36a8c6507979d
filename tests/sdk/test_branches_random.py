# SPDX-License-Identifier: Apache-2.0
"""Random programs of cells, forks, checkpoints, restores, undos, resets and deaths against a model.

A few programs run in each test; with IPYBOX_TEST_HOURS (a number, such as 1) others run for so
long.
"""

from __future__ import annotations

import asyncio
import os
import time
from dataclasses import dataclass, field

import hypothesis
import pytest
from hypothesis import strategies as st
from ipybox import Checkpoint, CodeExecutionError, CodeExecutor

HOURS = float(os.environ.get("IPYBOX_TEST_HOURS", "0"))
N_PROGRAMS, N_STEPS = 8, 14
UNDO = 3
MAX_SESSIONS, MAX_CHECKPOINTS = 4, 3
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

Step = tuple[str, int, int]
programs = st.lists(
    st.tuples(st.sampled_from(OPERATIONS), st.integers(0, 9), st.integers(0, 99)),
    min_size=N_STEPS // 2,
    max_size=N_STEPS,
)


@dataclass
class Model:
    """A session: the list `x` of its kernel, and what it can return to."""

    executor: CodeExecutor
    x: list[int] = field(default_factory=list)
    ring: list[list[int]] = field(default_factory=list)
    checkpoints: list[tuple[Checkpoint, list[int]]] = field(default_factory=list)

    def begin_cell(self) -> None:
        self.ring = [*self.ring, list(self.x)][-UNDO:]

    async def check(self) -> None:
        self.begin_cell()
        result = await self.executor.execute("globals().get('x', [])")
        assert (result.text, result.notices) == (str(self.x), [])


class Program:
    def __init__(self, executor: CodeExecutor) -> None:
        self.models = [Model(executor)]

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
                listed = [each.name for each in await model.executor.checkpoints()]
                assert listed == [each.name for each, _ in model.checkpoints]
        finally:
            for model in self.models:
                await model.executor.stop()

    async def cell(self, model: Model, number: int) -> None:
        model.begin_cell()
        await model.executor.execute(f"x = globals().get('x', []); x.append({number})")
        model.x.append(number)

    async def failing_cell(self, model: Model, number: int) -> None:
        model.begin_cell()
        with pytest.raises(CodeExecutionError) as failed:
            await model.executor.execute(
                f"x = globals().get('x', []); x.append({number}); raise ValueError"
            )
        assert not failed.value.is_undone
        model.x.append(number)

    async def undone_cell(self, model: Model, number: int) -> None:
        model.begin_cell()
        with pytest.raises(CodeExecutionError) as failed:
            await model.executor.execute("x = [-1]; raise ValueError", undo_on_error=True)
        assert failed.value.is_undone
        model.ring.pop()

    async def kill(self, model: Model, number: int) -> None:
        model.begin_cell()
        with pytest.raises(CodeExecutionError):
            await model.executor.execute("import os; os._exit(1)")
        model.x = []

    async def undone_kill(self, model: Model, number: int) -> None:
        model.begin_cell()
        with pytest.raises(CodeExecutionError) as failed:
            await model.executor.execute(
                "import os, signal; os.kill(os.getpid(), signal.SIGKILL)", undo_on_error=True
            )
        assert failed.value.is_undone
        model.ring.pop()

    async def fork(self, model: Model, number: int) -> None:
        # Without a process, there is nothing to fork: a cell starts one.
        await model.check()
        if len(self.models) < MAX_SESSIONS:
            (branch,) = await model.executor.fork()
            self.models.append(Model(branch, list(model.x)))

    async def checkpoint(self, model: Model, number: int) -> None:
        if len(model.checkpoints) < MAX_CHECKPOINTS:
            checkpoint = await model.executor.checkpoint()
            model.checkpoints.append((checkpoint, list(model.x)))

    async def restore(self, model: Model, number: int) -> None:
        if model.checkpoints:
            checkpoint, x = model.checkpoints[number % len(model.checkpoints)]
            await checkpoint.restore()
            model.x, model.ring = list(x), []

    async def branch(self, model: Model, number: int) -> None:
        if model.checkpoints and len(self.models) < MAX_SESSIONS:
            checkpoint, x = model.checkpoints[number % len(model.checkpoints)]
            (branch,) = await checkpoint.branch()
            self.models.append(Model(branch, list(x)))

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
        model.x = model.ring[-n]
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
        self.models.remove(model)
        await model.executor.stop()


async def run_program(steps: list[Step], sandbox: bool) -> None:
    executor = CodeExecutor(sandbox=sandbox, undo=UNDO, kernel_init_timeout=60)
    await executor.start()
    await Program(executor).run(steps)


@pytest.mark.parametrize("sandbox", [False, True], ids=["plain", "sandbox"])
@pytest.mark.timeout(int(HOURS * 3600) + 600)
def test_programs(sandbox: bool) -> None:
    @hypothesis.settings(
        max_examples=N_PROGRAMS, deadline=None, database=None, derandomize=HOURS == 0
    )
    @hypothesis.given(programs)
    def try_programs(steps: list[Step]) -> None:
        asyncio.run(run_program(steps, sandbox))

    end = time.monotonic() + HOURS * 3600 / 2
    try_programs()
    while time.monotonic() < end:
        try_programs()
