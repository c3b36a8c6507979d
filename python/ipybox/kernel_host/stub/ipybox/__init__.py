# SPDX-License-Identifier: Apache-2.0
"""The package `ipybox` inside a kernel: the client that generated tool APIs call.

It uses the standard library only, and imports fast. The SDK of the same name runs outside of the
kernel and is not available here: a kernel cannot start sessions, approve calls or register servers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

__version__ = "1.0.0.dev0"

__all__ = [
    "ApprovalRejectedError",
    "ApprovalTimeoutError",
    "Content",
    "ResultError",
    "ToolRunner",
    "ToolRunnerError",
    "ToolText",
]

# Names that only the SDK has.
SDK_NAMES = frozenset(
    (
        "ApprovalChannel",
        "ApprovalClient",
        "ApprovalRequest",
        "ApprovalRequestor",
        "CallRefusedError",
        "CellChange",
        "Change",
        "Changes",
        "Checkpoint",
        "CodeExecutionChunk",
        "CodeExecutionError",
        "CodeExecutionResult",
        "CodeExecutionTimeout",
        "CodeExecutor",
        "Command",
        "CommandOutput",
        "CommandResult",
        "CommandTimeout",
        "DisplayData",
        "ExecutorPool",
        "FileEntry",
        "InputRequest",
        "KernelClient",
        "KernelGateway",
        "KernelLostError",
        "LateOutput",
        "LimitExceededError",
        "MCPClient",
        "PoolClosedError",
        "PoolFullError",
        "PoolStatistics",
        "SessionExpiredError",
        "Tool",
        "ToolServer",
        "Transfer",
        "TransferLimitError",
        "Variables",
        "generate_mcp_sources",
    )
)

if TYPE_CHECKING:
    from .tool_exec.client import (
        ApprovalRejectedError,
        ApprovalTimeoutError,
        ResultError,
        ToolRunner,
        ToolRunnerError,
    )
    from .tool_exec.content import Content, ToolText


def __getattr__(name: str) -> Any:
    if name in __all__:
        from .tool_exec import client, content

        return getattr(content if name in ("Content", "ToolText") else client, name)
    if name in SDK_NAMES:
        # `from ipybox import NAME` would replace the text of an AttributeError.
        raise ImportError(
            f"{name} is not for cells: import it in a program outside the kernel, where ipybox is"
            f" the whole package. In a cell ipybox has {', '.join(__all__)}.",
            name=__name__,
        )
    raise AttributeError(
        f"module 'ipybox' has no attribute {name!r} in a kernel; it has {', '.join(__all__)}"
    )
