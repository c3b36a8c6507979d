# SPDX-License-Identifier: Apache-2.0
"""What the core answers instead of a result."""

from __future__ import annotations

import sys
from typing import Any


class CoreError(RuntimeError):
    """The core could not do what was asked; the text says what is wrong and what to do.

    Attributes:
        kind: `invalid`, `not_found`, `busy`, `limit`, `timeout`, `cancelled`, `server`, `protocol`, `closed`, `system`,
            or `died`: the core itself is gone.
    """

    def __init__(self, message: str, kind: str = "system") -> None:
        super().__init__(message)
        self.kind = kind


class InvalidError(CoreError, ValueError):
    """What was asked for makes no sense."""


class NotFoundError(CoreError, LookupError, FileNotFoundError):
    """A file, a command or a variable is missing."""


class ConnectionFailedError(CoreError, ConnectionRefusedError):
    """Nothing listens there, or the listener refuses the connection."""


if sys.version_info >= (3, 11):
    ExecutionTimeout = TimeoutError
else:
    # asyncio's TimeoutError is a class of its own there, and programs catch either.
    import asyncio

    class ExecutionTimeout(TimeoutError, asyncio.TimeoutError):
        """What was waited for took too long."""


class CoreTimeoutError(CoreError, ExecutionTimeout):
    """The core waited in vain, say for an MCP server to start."""


class CoreDiedError(CoreError):
    """The core process is gone, and the kernels with it; a new executor starts a new one."""


_CLASSES: dict[str, type[CoreError]] = {
    "invalid": InvalidError,
    "not_found": NotFoundError,
    "timeout": CoreTimeoutError,
    "died": CoreDiedError,
}


def make_error(kind: str, message: str) -> CoreError:
    """The exception for an error of this kind."""
    return _CLASSES.get(kind, CoreError)(message, kind)


def read_error(error: Any) -> CoreError:
    """The exception for the `error` member of an answer."""
    error = error if isinstance(error, dict) else {}
    data = error.get("data")
    kind = data.get("kind") if isinstance(data, dict) else None
    if kind is None:
        kind = "invalid" if error.get("code") == -32602 else "protocol"
    return make_error(str(kind), str(error.get("message") or "the core gave no reason"))
