# SPDX-License-Identifier: Apache-2.0
"""CodeExecutor with `stdin`: what a cell asks, and every kind of answer."""

from __future__ import annotations

from typing import Any

import pytest
from ipybox import CodeExecutionError, CodeExecutionResult, CodeExecutor, InputRequest

ASK = "name = input('Name? ')\nprint('hello', name)"


async def collect(executor: CodeExecutor, code: str, answer: Any) -> list[object]:
    items: list[object] = []
    async for item in executor.stream(code):
        items.append(item)
        if isinstance(item, InputRequest):
            await answer(item)
    return items


async def test_answers() -> None:
    async with CodeExecutor(stdin=True) as executor:
        request, result = await collect(executor, ASK, lambda request: request.answer("Ann ü"))
        assert isinstance(request, InputRequest) and isinstance(result, CodeExecutionResult)
        assert (request.prompt, request.password) == ("Name? ", False)
        assert result.text == "hello Ann ü"
        assert repr(request) == "InputRequest(prompt='Name? ', password=False)"
        await request.answer("too late")  # has no effect
        request, result = await collect(
            executor, "import getpass; getpass.getpass()", lambda request: request.answer("s")
        )
        assert isinstance(request, InputRequest) and request.password
        items = [item async for item in executor.execute("1 + 1")]
        assert [item.text for item in items if isinstance(item, CodeExecutionResult)] == ["2"]


async def test_refusals() -> None:
    async with CodeExecutor(stdin=True) as executor:
        with pytest.raises(CodeExecutionError, match="EOFError: not now"):
            await collect(executor, ASK, lambda request: request.refuse("not now"))
        with pytest.raises(CodeExecutionError, match="EOFError: the input was refused"):
            await collect(executor, ASK, lambda request: request.refuse())


async def test_values_that_cannot_be_sent() -> None:
    async def answer(request: InputRequest) -> None:
        with pytest.raises(ValueError, match="1048576 are allowed"):
            await request.answer("x" * 2**21)
        with pytest.raises(ValueError, match="UTF-8"):
            await request.answer("\ud800")
        with pytest.raises(ValueError, match="value"):
            await request.answer("a\0b")
        await request.answer("")

    async with CodeExecutor(stdin=True) as executor:
        _, result = await collect(executor, ASK, answer)
        assert isinstance(result, CodeExecutionResult) and result.text == "hello"


async def test_an_input_that_takes_too_long() -> None:
    async def wait(request: InputRequest) -> None:
        pass

    async with CodeExecutor(stdin=True, input_timeout=0.2) as executor:
        with pytest.raises(CodeExecutionError, match=r"no answer came within 0\.2 s"):
            await collect(executor, ASK, wait)
    for wrong in (0, -1, float("inf")):
        with pytest.raises(ValueError, match="input_timeout"):
            CodeExecutor(input_timeout=wrong)


async def test_cancelling_a_cell_that_waits() -> None:
    async with CodeExecutor(stdin=True) as executor:

        async def cancel(request: InputRequest) -> None:
            executor.cancel()

        (request,) = await collect(executor, "x = 1\n" + ASK, cancel)
        assert isinstance(request, InputRequest)
        assert (await executor.execute("x")).text == "1"
        async for item in executor.stream(ASK):
            assert isinstance(item, InputRequest)
            break  # which ends the cell
        assert (await executor.execute("x")).text == "1"


async def test_input_that_is_not_allowed() -> None:
    async with CodeExecutor(stdin=True) as executor:
        with pytest.raises(CodeExecutionError, match="this kernel has no terminal"):
            await executor.execute(ASK)
    async with CodeExecutor() as executor:
        with pytest.raises(CodeExecutionError, match="this kernel has no terminal"):
            async for item in executor.stream(ASK):
                assert not isinstance(item, InputRequest)
