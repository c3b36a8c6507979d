# SPDX-License-Identifier: Apache-2.0
"""Many executors act at random at once, each beside a model of its state.

Cells, tool calls, approvals, timeouts, cancellations, resets, deaths: nothing may be lost, and
nothing may be left.
"""

from __future__ import annotations

import asyncio
import os
import random
from collections.abc import AsyncGenerator, Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import scripted_server
from ipybox import (
    ApprovalRequest,
    CodeExecutionChunk,
    CodeExecutionError,
    CodeExecutionResult,
    CodeExecutor,
    generate_mcp_sources,
)

SEED = int(os.environ.get("IPYBOX_TEST_SEED", "20261121"))
EXECUTORS = 50
STEPS = 14
NOTE = "from mcptools.work import note\n"


@dataclass
class Calls:
    """Tool calls of all executors, by their text, which is unique."""

    made: set[str] = field(default_factory=set)
    maybe: set[str] = field(default_factory=set)
    refused: set[str] = field(default_factory=set)
    n_interrupted: int = 0
    n_killed: int = 0


class Actor:
    """An executor and its model: a variable `n` of its kernel."""

    def __init__(self, number: int, calls: Calls) -> None:
        self.draw = random.Random(f"{SEED}/{number}")
        self.calls = calls
        self.name = f"e{number}"
        self.executor = CodeExecutor(sandbox=number % 7 == 0, kernel_init_timeout=60)
        self.n = 0
        self.n_texts = 0
        self.steps: list[tuple[int, Callable[[], Awaitable[None]]]] = [
            (4, self.add),
            (3, self.add_at_once),
            (2, self.fail),
            (3, self.print_much),
            (6, self.call_tools),
            (2, self.leave_a_request),
            (2, self.time_out),
            (2, self.cancel),
            (2, self.cancel_task),
            (1, self.reset),
            (1, self.save_and_load),
            (2, self.run_commands),
            (1, self.restart),
            (1, self.die),
        ]

    async def run(self) -> None:
        history = []
        try:
            await self.executor.start()
            await self.begin()
            for _ in range(STEPS):
                weights = [weight for weight, _ in self.steps]
                (_, step) = self.draw.choices(self.steps, weights)[0]
                history.append(step.__name__)
                await asyncio.wait_for(step(), 100)
            await self.check()
        except BaseException as error:
            raise AssertionError(
                f"{self.name} (seed {SEED}) after {', '.join(history)}: {error!r}"
            ) from error
        finally:
            await self.executor.stop()

    def new_text(self) -> str:
        self.n_texts += 1
        return f"{self.name}-{self.n_texts}"

    async def begin(self) -> None:
        self.n = self.draw.randrange(1000)
        assert await self.executor.execute(f"{NOTE}n = {self.n}") == CodeExecutionResult(
            text=None, images=[]
        )

    async def check(self, *possible: int) -> None:
        """The kernel's variable equals the model's, or one of these."""
        text = (await self.executor.execute("n")).text
        assert text in {str(n) for n in possible or (self.n,)}, (
            f"n is {text}, not {possible or self.n}"
        )
        self.n = int(text)

    async def check_interrupted(self) -> None:
        """As check(), but the kernel may have been killed.

        A kernel that does not react to an interrupt within five seconds is killed. On a busy
        machine it may need longer, to write a traceback beside all the others.
        """
        self.calls.n_interrupted += 1
        try:
            await self.check(self.n, self.n + 1)
        except CodeExecutionError as error:
            assert error.name == "NameError"
            self.calls.n_killed += 1
            await self.begin()

    def stream(self, code: str, **options: Any) -> AsyncGenerator[Any, None]:
        return self.executor.stream(code, **options)

    # Steps

    async def add(self) -> None:
        self.n += 1
        assert (await self.executor.execute("n += 1\nprint(n)")).text == str(self.n)

    async def add_at_once(self) -> None:
        """Cells that run at once wait for each other, in order."""
        count = self.draw.randrange(2, 5)
        results = await asyncio.gather(*(self.executor.execute("n += 1\nn") for _ in range(count)))
        assert [result.text for result in results] == [str(self.n + 1 + k) for k in range(count)]
        self.n += count

    async def fail(self) -> None:
        text = self.new_text()
        with pytest.raises(CodeExecutionError, match=f"^ValueError: {text}\n") as caught:
            await self.executor.execute(f"n += 1\nprint('before')\nraise ValueError('{text}')")
        assert caught.value.output == "before"
        self.n += 1
        await self.check()

    async def print_much(self) -> None:
        count = self.draw.choice((1, 10, 3000))
        text, result = "", None
        async for item in self.stream(f"for i in range({count}): print(n, i)\nn", chunks=True):
            assert result is None
            if isinstance(item, CodeExecutionChunk):
                text += item.text
            else:
                result = item
        whole = "".join(f"{self.n} {i}\n" for i in range(count)) + str(self.n)
        assert text == whole
        assert result == CodeExecutionResult(text=whole, images=[])

    async def call_tools(self) -> None:
        """Several calls in one cell, accepted or rejected.

        A rejected call is an exception that the cell catches.
        """
        texts = [self.new_text() for _ in range(self.draw.randrange(1, 4))]
        decisions = {text: self.draw.random() < 0.7 for text in texts}
        code = (
            "n += 1\n"
            + f"for text in {texts}:\n"
            + "    try: print('got', note.run(note.Params(text=text)))\n"
            + "    except Exception as error: print(type(error).__name__)\n"
        )
        asked, result = [], None
        async for item in self.stream(code):
            if isinstance(item, ApprovalRequest):
                text = item.tool_args["text"]
                assert str(item) == f"work.note(text='{text}')"
                asked.append(text)
                await (item.accept() if decisions[text] else item.reject())
            else:
                result = item
        assert asked == texts
        lines = [f"got {text}" if decisions[text] else "ApprovalRejectedError" for text in texts]
        assert result == CodeExecutionResult(text="\n".join(lines), images=[])
        self.calls.made |= {text for text in texts if decisions[text]}
        self.calls.refused |= {text for text in texts if not decisions[text]}
        self.n += 1

    async def leave_a_request(self) -> None:
        """Without a decision the cell is cancelled, or its stream is closed.

        A later decision has no effect.
        """
        text = self.new_text()
        items = self.stream(f"n += 1\nnote.run(note.Params(text='{text}'))")
        request = await anext(items)
        if self.draw.random() < 0.5:
            self.executor.cancel()
            assert [item async for item in items] == []
        else:
            await items.aclose()
        await self.executor.execute("0")
        await request.accept()
        self.calls.refused.add(text)
        self.n += 1
        await self.check()

    async def time_out(self) -> None:
        with pytest.raises(
            TimeoutError, match=r"exceeded timeout of 0.05s \(approval wait excluded\)\."
        ):
            await self.executor.execute("n += 1\nimport time; time.sleep(1000)", timeout=0.05)
        await self.check_interrupted()

    async def cancel(self) -> None:
        items = self.stream("n += 1\nprint('begun')\nimport time; time.sleep(1000)", chunks=True)
        assert await anext(items) == CodeExecutionChunk("begun\n")
        self.executor.cancel()
        assert [item async for item in items] == []
        self.n += 1
        await self.check()

    async def cancel_task(self) -> None:
        """At any moment of the cell."""
        text = self.new_text()
        code = f"n += 1\nnote.run(note.Params(text='{text}'))\nimport time; time.sleep(1000)"
        task = asyncio.create_task(self.executor.execute(code))
        await asyncio.sleep(self.draw.random() * 0.1)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        self.calls.maybe.add(text)
        await self.check_interrupted()

    async def reset(self) -> None:
        cell = asyncio.create_task(self.executor.execute("import time; time.sleep(1000)"))
        await asyncio.sleep(0)
        await self.executor.reset()
        with pytest.raises(CodeExecutionError):
            await cell
        with pytest.raises(CodeExecutionError, match="^NameError"):
            await self.executor.execute("n")
        await self.begin()

    async def save_and_load(self) -> None:
        """A kernel that did not have the variable gets it from the file."""
        path = f"{self.name}.state"
        saved = await self.executor.save(path, ["n"])
        assert saved.names == ["n"] and not saved.failed
        await self.executor.reset()
        await self.executor.execute(NOTE)
        assert await self.executor.load(path, timeout=60) == saved
        await self.check()

    async def run_commands(self) -> None:
        """Beside a cell: one whose output is kept, one that echoes its input, one that is left."""
        text = self.new_text()
        cell = asyncio.create_task(self.executor.execute("n += 1"))
        async with self.executor.start_command(["cat"], stdin=True) as command:
            async with self.executor.start_command("yes"):
                result = await self.executor.run_command(["echo", text])
            assert result.stdout.decode() == text + "\n"
            await command.write_stdin(text)
            await command.close_stdin()
            assert "".join([piece.text async for piece in command]) == text
        assert command.returncode == 0
        await cell
        self.n += 1

    async def restart(self) -> None:
        await self.executor.stop()
        with pytest.raises(RuntimeError):
            await self.executor.execute("n")
        await self.executor.start()
        await self.begin()

    async def die(self) -> None:
        with pytest.raises(CodeExecutionError, match="the kernel ended with exit status 3"):
            await self.executor.execute("import os; os._exit(3)")
        await self.begin()


async def test_fifty_executors_at_once() -> None:
    log = Path("calls.log").absolute()
    log.touch()
    await generate_mcp_sources(
        "work", scripted_server.params("work", f"notes={log}"), Path("mcptools")
    )
    calls = Calls()
    await asyncio.gather(*(Actor(number, calls).run() for number in range(EXECUTORS)))
    lines = log.read_text().splitlines()
    assert len(lines) == len(set(lines)), "a call was made twice"
    assert calls.made <= set(lines), "a call was lost"
    assert not calls.refused & set(lines), "a call was made that no one allowed"
    assert set(lines) <= calls.made | calls.maybe
    # The number depends on the machine, but on each machine most interrupts end their cell.
    assert calls.n_killed < calls.n_interrupted / 2
