# SPDX-License-Identifier: Apache-2.0
"""`Terminals`: commands that continue between the calls of a framework.

Their output goes to a file of the sandbox, and is read from there. On a terminal, what is typed
comes from a pipe beside it (`kernel_host/terminal_helper.py`).
"""

from __future__ import annotations

import asyncio
import functools
import secrets
from collections.abc import Mapping, Sequence
from pathlib import Path

from ..commands import SHELL, CommandResult, CommandTimeout
from .command_session import CommandSession

# Of one read.
MAX_READ_BYTES = 10 * 1024 * 1024
# How long a command may leave unread what is typed.
TYPE_TIMEOUT_S = 10.0
PREPARE = 'mkdir -m 700 "$0" && mkfifo "$0/in" && : >"$0/out"'
REDIRECTED = 'exec >>"$0/out" 2>&1 </dev/null; exec "$@"'
READ = 'tail -c "+$1" "$0/out" | head -c "$2"'
TYPE = '[ -p "$0/in" ] && cat >"$0/in"'


class Terminal:
    """A command that runs, or has ended.

    Attributes:
        is_interactive: Whether it has a terminal, so that one can type.
        ended: Is done when it has ended. Its result, or its exception, says how.
    """

    def __init__(
        self,
        session: CommandSession,
        place: str,
        argv: Sequence[str],
        env: Mapping[str, str],
        is_interactive: bool,
    ) -> None:
        self.is_interactive = is_interactive
        self._session, self._place = session, place
        self._n_read = 0
        if is_interactive:
            start = [session.python, "-I", "-S", "-c", _source(), place]
        else:
            start = [SHELL, "-c", REDIRECTED, place]
        self.ended: asyncio.Task[CommandResult] = asyncio.create_task(
            session.run([*start, *argv], env=env)
        )

    @classmethod
    async def start(
        cls,
        session: CommandSession,
        argv: Sequence[str],
        *,
        env: Mapping[str, str],
        is_interactive: bool,
    ) -> Terminal:
        """Starts a command.

        Raises:
            CoreError, RuntimeError: If the session cannot run it.
        """
        place = f"/tmp/.ipybox-terminal-{secrets.token_hex(8)}"
        made = await session.run([SHELL, "-c", PREPARE, place])
        if not made.ok:
            raise RuntimeError(f"no terminal can be made: {made.stderr.decode(errors='replace')}")
        return cls(session, place, argv, env, is_interactive)

    async def read(self) -> bytes:
        """Reads what it has written since the last call, at most MAX_READ_BYTES."""
        params = [str(self._n_read + 1), str(MAX_READ_BYTES)]
        found = await self._session.run([SHELL, "-c", READ, self._place, *params])
        self._n_read += len(found.stdout)
        return found.stdout

    async def type(self, data: bytes) -> None:
        """Types on the terminal. What a command that has ended does not read is lost."""
        try:
            await self._session.run(
                [SHELL, "-c", TYPE, self._place], input=data, timeout=TYPE_TIMEOUT_S
            )
        except CommandTimeout:
            pass

    async def close(self) -> None:
        """Kills the command with everything that it has started, and forgets its output."""
        self.ended.cancel()
        await asyncio.gather(self.ended, return_exceptions=True)
        try:
            await self._session.run(["rm", "-rf", "--", self._place])
        except RuntimeError:
            pass  # the sandbox has ended, and its files with it


@functools.cache
def _source() -> str:
    path = Path(__file__).parents[1] / "kernel_host/terminal_helper.py"
    return path.read_text(encoding="utf-8")
