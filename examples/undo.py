# SPDX-License-Identifier: Apache-2.0
"""Undo after failing cells: what an agent's cell has damaged is as it was before.

usage: python undo.py
"""

from __future__ import annotations

import asyncio

from ipybox import CodeExecutionError, CodeExecutor

# The first way changes the data before it fails, and the second one kills the kernel.
WAYS = [
    "orders.pop('b'); total = sum(orders.values()) / orders['tax']",
    "orders.clear(); import ctypes; ctypes.string_at(0)",
    "total = sum(orders.values())",
]


async def main() -> None:
    async with CodeExecutor(undo=20) as executor:
        await executor.execute("orders = {'a': 3, 'b': 4}")
        for way in WAYS:
            try:
                await executor.execute(way, undo_on_error=True)
            except CodeExecutionError as error:
                kept = (await executor.execute("orders")).text
                print(f"{error.name or 'the kernel died'}: undone: {error.is_undone}, {kept}")
                continue
            print((await executor.execute("total")).text)
            break
        # The user does not want the total: back to the state before the last two cells.
        await executor.undo(2)
        print((await executor.execute("'total' in globals(), orders")).text)


if __name__ == "__main__":
    asyncio.run(main())
