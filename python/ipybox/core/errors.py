# SPDX-License-Identifier: Apache-2.0
"""Errors of the core."""

from __future__ import annotations

import sys
from typing import Any


class CoreError(RuntimeError):
    """A request failed; the text says what failed and what to do.

    Attributes:
        kind: A kind of `docs/internals/rpc.md`, such as `invalid`, `not_found`, `busy`, `limit`,
            `timeout` or `server`; or `closed`: this object was closed; or `died`: the core has
            ended.
    """

    def __init__(self, message: str, kind: str = "system") -> None:
        super().__init__(message)
        self.kind = kind


class InvalidError(CoreError, ValueError):
    """An argument is wrong."""


class NotFoundError(CoreError, LookupError, FileNotFoundError):
    """A file, a command or a variable does not exist."""


class ConnectionFailedError(CoreError, ConnectionRefusedError):
    """Nothing listens there, or the listener refuses the connection."""


if sys.version_info >= (3, 11):
    ExecutionTimeout = TimeoutError
else:
    # Before Python 3.11 asyncio has a TimeoutError of its own, and programs catch either one.
    import asyncio

    class ExecutionTimeout(TimeoutError, asyncio.TimeoutError):
        """A time limit was exceeded."""


class CoreTimeoutError(CoreError, ExecutionTimeout):
    """A time limit was exceeded, for example by an MCP server that starts."""


class CoreDiedError(CoreError):
    """The core process has ended, and its kernels with it. A new executor starts a new core."""


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
