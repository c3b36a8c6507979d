# SPDX-License-Identifier: Apache-2.0
"""A program that uses the Python SDK, ours or that of ipybox 0.9; compare.py drives it.

It prints the seconds that `import ipybox` took. Then it answers each line of its input with a line
of seconds. `new` opens an executor and runs the cell `1` in it. `cells N` runs the cell N times in
the newest executor, `resets N` the same with a reset before each. At the end of its input it closes
all. With the argument `--sandbox`, the executors are sandboxed.
"""

import time

start = time.perf_counter()
import ipybox  # noqa: E402

print(time.perf_counter() - start, flush=True)

import asyncio  # noqa: E402
import sys  # noqa: E402
from collections.abc import AsyncIterator  # noqa: E402
from contextlib import AsyncExitStack  # noqa: E402

OPTIONS = {"log_level": "ERROR"} | ({"sandbox": True} if "--sandbox" in sys.argv[1:] else {})


async def answers(stack: AsyncExitStack) -> AsyncIterator[list[float]]:
    executor = None
    for command, *count in map(str.split, iter(sys.stdin.readline, "")):
        times = []
        for _ in range(int(count[0]) if count else 1):
            start = time.perf_counter()
            if command == "new":
                executor = await stack.enter_async_context(ipybox.CodeExecutor(**OPTIONS))
            assert executor, "the first command is `new`"
            if command == "resets":
                await executor.reset()
            await executor.execute("1")
            times.append(time.perf_counter() - start)
        yield times


async def main() -> None:
    async with AsyncExitStack() as stack:
        async for times in answers(stack):
            print(*times, flush=True)


asyncio.run(main())
