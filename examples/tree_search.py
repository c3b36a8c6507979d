# SPDX-License-Identifier: Apache-2.0
"""A tree search over cells: makes 24 of four numbers, with + - * / and each number once.

Each step is a cell that changes the state of a live kernel, as an agent's steps do. Before the
steps from a state are tried, a checkpoint keeps it, and each try begins with a restore. Nothing is
computed twice, and the state need not be copied or pickled: here it has functions in it.

usage: python tree_search.py [NUMBER NUMBER NUMBER NUMBER]
"""

from __future__ import annotations

import asyncio
import sys

from ipybox import CodeExecutor

NUMBERS = ["1", "3", "6", "9"]

# `terms` are functions that compute a value, with the text of how.
BEGIN = """
from fractions import Fraction
import operator

SIGNS = {{"+": operator.add, "-": operator.sub, "*": operator.mul, "/": operator.truediv}}
terms = [((lambda n=n: Fraction(n)), n) for n in {numbers}]

def steps():
    count = range(len(terms))
    return [(i, j, sign) for i in count for j in count for sign in SIGNS
            if i != j and (sign in "-/" or i < j)]

def combine(i, j, sign):
    (left, left_text), (right, right_text) = terms[i], terms[j]
    combined = lambda: SIGNS[sign](left(), right())
    combined()  # a division by zero fails here
    terms[:] = [term for k, term in enumerate(terms) if k not in (i, j)]
    terms.append((combined, f"({{left_text}} {{sign}} {{right_text}})"))
    return f"{{len(terms)}} {{terms[0][0]()}} {{terms[-1][1]}}"
"""


class Search:
    def __init__(self, executor: CodeExecutor) -> None:
        self.executor = executor
        # For each step that was tried: how many terms it left, and the text of the new one
        self.tried: list[tuple[int, str]] = []

    async def run(self) -> str | None:
        """How to make 24 from the present state; None: it cannot be done."""
        checkpoint = await self.executor.checkpoint()
        try:
            for step in eval((await self.executor.execute("steps()")).text or "[]"):
                await checkpoint.restore()
                result = await self.executor.execute(
                    f"try:\n    print(combine{step})\nexcept ZeroDivisionError:\n    print('0 0 0')"
                )
                left, value, text = (result.text or "").split(" ", 2)
                self.tried.append((int(left), text))
                if left == "1" and value == "24":
                    return text
                if int(left) > 1 and (found := await self.run()):
                    return found
            return None
        finally:
            await checkpoint.drop()


async def main(numbers: list[str]) -> None:
    async with CodeExecutor() as executor:
        await executor.execute(BEGIN.format(numbers=[int(number) for number in numbers]))
        search = Search(executor)
        found = await search.run()
        print(f"{found} = 24" if found else "it cannot be done")
        print(f"{len(search.tried)} restores")


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1:] or NUMBERS))
