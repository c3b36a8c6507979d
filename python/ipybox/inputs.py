# SPDX-License-Identifier: Apache-2.0
"""`InputRequest`: a cell that waits for input."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from .core import CoreError


class InputRequest:
    """A cell that waits for input: `input()`, `getpass()`, or a debugger.

    Only the first answer counts. It has no effect after the request has expired: its time limit was
    exceeded, or the cell was interrupted.

        async for item in executor.stream("name = input('Name? ')"):
            match item:
                case InputRequest():
                    await item.answer("Ann")

    Attributes:
        prompt: What the code shows the user.
        password: Whether what is typed must not be shown or kept.
    """

    def __init__(
        self, prompt: str, password: bool, send: Callable[[dict[str, Any]], Awaitable[Any]]
    ) -> None:
        """
        Args:
            prompt: What the code shows the user.
            password: Whether it asks for a password.
            send: Sends the answer: the parameters of `session.answer_input`.
        """
        self.prompt = prompt
        self.password = password
        self._send = send

    def __repr__(self) -> str:
        return f"InputRequest(prompt={self.prompt!r}, password={self.password})"

    async def answer(self, value: str) -> None:
        """Gives the code a line of text.

        Args:
            value: The line, without its end. At most 1 MiB in UTF-8.

        Raises:
            ValueError: If the value is too long, or is not a text that UTF-8 can encode. The cell
                still waits.
        """
        try:
            value.encode()
        except UnicodeEncodeError as error:
            raise ValueError(f"the input cannot be encoded in UTF-8: {error}") from None
        await self._answer({"value": value})

    async def refuse(self, reason: str = "the input was refused") -> None:
        """Gives no input: the code gets an EOFError, as at the end of a file.

        Args:
            reason: The text of the exception.
        """
        await self._answer({"refusal": reason})

    async def _answer(self, params: dict[str, Any]) -> None:
        try:
            await self._send(params)
        except CoreError as error:
            if error.kind in ("limit", "invalid"):
                raise ValueError(str(error)) from None
            if error.kind not in ("not_found", "closed"):
                raise
