# SPDX-License-Identifier: Apache-2.0
"""Input of cells: input(), getpass() and debuggers ask the front end that runs the cell.

A request is a frame, and the kernel waits on the wire for its answer. Only the main thread can ask,
because it is the one that reads the wire.
"""

from __future__ import annotations

import builtins
import getpass
import select
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from IPython.core.error import StdinNotImplementedError

from . import tracebacks, wire

if TYPE_CHECKING:
    from .interrupts import Interrupts
    from .output import Output

MAX_PROMPT_CHARS = 20_000
NOT_ALLOWED = "this kernel has no terminal"


class Stdin:
    """Asks for input.

    Attributes:
        is_allowed: Whether the current cell may ask.
        has_rich_client: Whether the front end is one of Jupyter's.
    """

    def __init__(
        self,
        output: Output,
        interrupts: Interrupts,
        fd: int,
        receive: Callable[[], Iterator[dict[str, Any]]],
    ) -> None:
        """
        Args:
            output: Sends the requests.
            interrupts: Those of the cell.
            fd: The wire.
            receive: Reads what is on the wire, keeps the frames that are no answers, and returns
                the answers.
        """
        self.is_allowed = False
        self.has_rich_client = False
        self._output = output
        self._interrupts = interrupts
        self._receive = receive
        self._poll = select.poll()
        self._poll.register(fd, select.POLLIN)
        self._last_id = 0
        self._is_waiting = False

    def install(self) -> None:
        """Replaces the functions of Python that read from a terminal."""
        builtins.input = self.input
        getpass.getpass = self.getpass
        sys.breakpointhook = self.breakpoint

    def input(self, prompt: object = "", /) -> str:
        """Reads a line, as Python's own function of this name."""
        return self._ask("input()", str(prompt), is_password=False)

    def getpass(self, prompt: str = "Password: ", stream: Any = None, **_: Any) -> str:
        """Reads a password, as Python's own function of this name."""
        return self._ask("getpass()", str(prompt), is_password=True)

    def breakpoint(self, *args: Any, **kwargs: Any) -> None:
        """sys.breakpointhook: starts IPython's debugger in the caller."""
        why = self._why_not()
        if why is not None:
            print(f"breakpoint() does nothing here: {why}", file=sys.stderr)
            return
        from IPython.core.debugger import InterruptiblePdb

        InterruptiblePdb().set_trace(sys._getframe().f_back)

    def _why_not(self) -> str | None:
        if not self._output.is_connected:
            return "only the kernel can ask, and this is a child process"
        if threading.current_thread() is not threading.main_thread():
            return "only the main thread can ask"
        if not self._output.cell:
            return "no cell runs"
        if self._output.is_late():
            return "its cell has ended"
        if not self.is_allowed:
            return NOT_ALLOWED
        return "another input is awaited" if self._is_waiting else None

    def _ask(self, function: str, prompt: str, is_password: bool) -> str:
        why = self._why_not()
        if why == NOT_ALLOWED and self.has_rich_client:  # as in ipykernel
            name = {"input()": "raw_input"}.get(function, "getpass")
            raise StdinNotImplementedError(
                f"{name} was called, but this frontend does not support input requests."
            )
        if why is not None:
            raise StdinNotImplementedError(
                f"{function} is not available: {why}. Put the value into the code."
            )
        sys.stdout.flush()
        sys.stderr.flush()
        self._last_id += 1
        prompt = tracebacks.clip(prompt, MAX_PROMPT_CHARS)
        request: dict[str, Any] = {"cell": self._output.cell, "id": self._last_id}
        with self._waiting(request):
            self._output.send(
                wire.INPUT_REQUEST, {**request, "prompt": prompt, "password": is_password}
            )
            answer = self._wait()
        if "value" in answer:
            return str(answer["value"])
        raise EOFError(answer["error"])

    @contextmanager
    def _waiting(self, request: dict[str, Any]) -> Iterator[None]:
        self._is_waiting = True
        try:
            yield
        except BaseException:
            # Interrupted: the answer is not needed any more.
            with self._interrupts.ignored():
                self._output.send(wire.INPUT_END, request)
            raise
        finally:
            self._is_waiting = False

    def _wait(self) -> dict[str, Any]:
        while True:
            for answer in self._receive():
                if answer["id"] == self._last_id:
                    return answer
            self._poll.poll()
