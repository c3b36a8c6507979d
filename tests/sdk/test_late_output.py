# SPDX-License-Identifier: Apache-2.0
"""`CodeExecutor.late_output`: output of cells that have ended, as it comes."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from ipybox import CodeExecutor, LateOutput
from ipybox import late_output as module
from ipybox.core import close_core

FIRST = (
    "import sys, threading\nfrom IPython.display import clear_output\n"
    "go, done = threading.Event(), threading.Event()\n"
    "def work():\n    go.wait()\n    print('from one')\n    print('error', file=sys.stderr)\n"
    "    h = display('shown', display_id='d', metadata={'m': 1})\n    h.update('new')\n"
    "    clear_output(wait=True)\n    done.set()\n"
    "threading.Thread(target=work).start()"
)
SOON = "import threading\nthreading.Timer(0.05, print, ['by itself']).start()"


async def take(pieces: AsyncIterator[LateOutput], n: int) -> list[LateOutput]:
    return [await anext(pieces) for _ in range(n)]


async def test_pieces() -> None:
    async with CodeExecutor() as executor:
        pieces = executor.late_output()
        await executor.execute("1")
        await executor.execute(FIRST)
        result = await executor.execute("go.set(); done.wait(); print('end')")
        # Programs that were written for ipybox 0.9 see it here, without marks.
        assert result.text is not None and "from one" in result.text and "[" not in result.text
        out, err, shown, new, clear = await take(pieces, 5)
        assert out == LateOutput(2, "stdout", "from one\n")
        assert err == LateOutput(2, "stderr", "error\n")
        assert shown == LateOutput(
            2,
            "display",
            "'shown'",
            data={"text/plain": "'shown'"},
            metadata={"m": 1},
            display_id="d",
        )
        assert (new.stream, new.text, new.display_id) == ("update", "'new'", "d")
        assert clear == LateOutput(2, "clear", wait=True)


async def test_live_and_for_several_readers() -> None:
    async with CodeExecutor() as executor:
        readers = [executor.late_output(), executor.late_output()]
        waiting = [asyncio.create_task(anext(reader)) for reader in readers]
        await executor.execute(SOON)
        assert await asyncio.gather(*waiting) == [LateOutput(1, "stdout", "by itself\n")] * 2
        del readers, waiting
        gc.collect()
        await executor.execute(SOON)  # no one reads
        await executor.execute("import time; time.sleep(0.2)")
        reader = executor.late_output()
        await executor.execute(SOON)
        assert (await anext(reader)).execution_count == 4


async def test_images(workspace: Path) -> None:
    async with CodeExecutor(images_dir=workspace / "pictures") as executor:
        pieces = executor.late_output()
        await executor.execute(
            "import threading\nfrom PIL import Image\n"
            "threading.Timer(0.05, display, [Image.new('RGB', (1, 1))]).start()"
        )
        piece = await anext(pieces)
        assert piece.image is not None and piece.image.read_bytes()[:4] == b"\x89PNG"
        assert piece.image.parent.name == "pictures" and "image/png" in piece.data


async def test_it_ends_with_the_executor() -> None:
    executor = CodeExecutor()
    with pytest.raises(RuntimeError, match="start the executor"):
        executor.late_output()
    await executor.start()
    pieces, unread = executor.late_output(), executor.late_output()
    collected: list[LateOutput] = []

    async def collect() -> None:
        async for piece in pieces:
            collected.append(piece)

    task = asyncio.create_task(collect())
    await executor.execute(SOON)
    while not collected:
        await asyncio.sleep(0.01)
    await executor.stop()
    await task
    assert (
        [piece async for piece in unread] == collected == [LateOutput(1, "stdout", "by itself\n")]
    )


async def test_it_ends_with_the_core() -> None:
    executor = CodeExecutor()
    await executor.start()
    task = asyncio.create_task(anext(executor.late_output()))
    await asyncio.sleep(0)
    await asyncio.to_thread(close_core)
    with pytest.raises(RuntimeError, match="core"):
        await task
    await executor.stop()


async def test_one_waiting_task_and_the_end_of_a_reader() -> None:
    async with CodeExecutor() as executor:
        pieces: Any = executor.late_output()
        task = asyncio.create_task(anext(pieces))
        await asyncio.sleep(0)
        with pytest.raises(RuntimeError, match="another task"):
            await anext(pieces)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await executor.execute(SOON)
        assert (await anext(pieces)).text == "by itself\n"
        await pieces.aclose()
        with pytest.raises(StopAsyncIteration):
            await anext(pieces)


async def test_what_a_slow_reader_misses_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_WAITING_PIECES", 3)
    async with CodeExecutor() as executor:
        pieces = executor.late_output()
        await executor.execute(
            "import threading\ngo, done = threading.Event(), threading.Event()\ndef work():\n"
            "    go.wait()\n    for i in range(10): display(i)\n    done.set()\n"
            "threading.Thread(target=work).start()"
        )
        result = await executor.execute("go.set(); done.wait()\nNone")
        assert result.text == "0123456789" and len(result.display_data) == 10
        *shown, last = await take(pieces, 4)
        assert [piece.text for piece in shown] == ["0", "1", "2"]
        assert last == LateOutput(None, "dropped", n_dropped=7)
        await executor.execute(SOON)
        assert (await anext(pieces)).text == "by itself\n"


async def test_large_pieces_are_limited_by_their_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_WAITING_CHARS", 10)
    async with CodeExecutor() as executor:
        pieces = executor.late_output()
        await executor.execute(
            "import threading\ngo, done = threading.Event(), threading.Event()\ndef work():\n"
            "    go.wait()\n    for i in range(3): display('x' * 100)\n    done.set()\n"
            "threading.Thread(target=work).start()"
        )
        await executor.execute("go.set(); done.wait()\nNone")
        first, dropped = await take(pieces, 2)
        assert first.text == repr("x" * 100) and dropped.n_dropped == 2
