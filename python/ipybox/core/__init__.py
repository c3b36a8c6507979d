# SPDX-License-Identifier: Apache-2.0
"""The client of `ipybox rpc`, the C program that does the work.

One core process serves all executors, clients of MCP servers and WebSockets of this Python process,
in any number of threads and event loops. `acquire_core` starts it when it is needed. When it has no
owner any more, it stays for 30 seconds and then ends. It also ends when this process ends, for
whatever reason.

    core = acquire_core()
    try:
        result = await core.call("sources.generate", {...})
    finally:
        core.release()
"""

from __future__ import annotations

from .binary import find_binary
from .client import Approval, Core, Handler, acquire_core, close_core
from .errors import (
    CoreDiedError,
    CoreError,
    CoreTimeoutError,
    ExecutionTimeout,
    InvalidError,
    NotFoundError,
)

__all__ = [
    "Approval",
    "Core",
    "CoreDiedError",
    "CoreError",
    "CoreTimeoutError",
    "ExecutionTimeout",
    "Handler",
    "InvalidError",
    "NotFoundError",
    "acquire_core",
    "close_core",
    "find_binary",
]
