# SPDX-License-Identifier: Apache-2.0
"""ipybox: run Python in stateful IPython kernels and call MCP tools through generated APIs.

    from ipybox import CodeExecutor

    async with CodeExecutor() as executor:
        result = await executor.execute("print('hello world')")

Names are imported from their modules when they are first used.
"""

from __future__ import annotations

__version__ = "1.0.0.dev0"

# Type checkers regard it as true. Importing it from typing would take longer than this whole
# module.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .code_exec import Checkpoint, CodeExecutor
    from .commands import Command, CommandOutput, CommandResult, CommandTimeout
    from .files import Transfer, TransferLimitError
    from .inputs import InputRequest
    from .kernel_host.stub.ipybox.tool_exec.content import Content, ToolText
    from .kernel_mgr.client import KernelClient
    from .kernel_mgr.server import KernelGateway
    from .mcp_apigen import generate_mcp_sources
    from .mcp_client import MCPClient
    from .pool import (
        ExecutorPool,
        PoolClosedError,
        PoolFullError,
        PoolStatistics,
        SessionExpiredError,
    )
    from .results import (
        CallRefusedError,
        CellChange,
        Change,
        Changes,
        CodeExecutionChunk,
        CodeExecutionError,
        CodeExecutionResult,
        CodeExecutionTimeout,
        DisplayData,
        KernelLostError,
        LateOutput,
        LimitExceededError,
        Variables,
    )
    from .session_files import FileEntry
    from .tool_exec.approval.client import ApprovalClient, ApprovalRequest
    from .tool_exec.approval.server import ApprovalChannel
    from .tool_exec.client import (
        ApprovalRejectedError,
        ApprovalRequestor,
        ApprovalTimeoutError,
        ResultError,
        ToolRunner,
        ToolRunnerError,
    )
    from .tool_exec.server import ToolServer
    from .tools import Tool

__all__ = [
    "ApprovalChannel",
    "ApprovalClient",
    "ApprovalRejectedError",
    "ApprovalRequest",
    "ApprovalRequestor",
    "ApprovalTimeoutError",
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
    "Content",
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
    "ResultError",
    "SessionExpiredError",
    "Tool",
    "ToolRunner",
    "ToolRunnerError",
    "ToolServer",
    "ToolText",
    "Transfer",
    "TransferLimitError",
    "Variables",
    "generate_mcp_sources",
]

_MODULES = {
    "ApprovalChannel": "tool_exec.approval.server",
    "ApprovalClient": "tool_exec.approval.client",
    "ApprovalRejectedError": "tool_exec.client",
    "ApprovalRequest": "tool_exec.approval.client",
    "ApprovalRequestor": "tool_exec.client",
    "ApprovalTimeoutError": "tool_exec.client",
    "CallRefusedError": "results",
    "CellChange": "results",
    "Change": "results",
    "Changes": "results",
    "Checkpoint": "code_exec",
    "CodeExecutionChunk": "results",
    "CodeExecutionError": "results",
    "CodeExecutionResult": "results",
    "CodeExecutionTimeout": "results",
    "CodeExecutor": "code_exec",
    "Command": "commands",
    "CommandOutput": "commands",
    "CommandResult": "commands",
    "CommandTimeout": "commands",
    "Content": "kernel_host.stub.ipybox.tool_exec.content",
    "DisplayData": "results",
    "ExecutorPool": "pool",
    "FileEntry": "session_files",
    "InputRequest": "inputs",
    "KernelClient": "kernel_mgr.client",
    "KernelGateway": "kernel_mgr.server",
    "KernelLostError": "results",
    "LateOutput": "results",
    "LimitExceededError": "results",
    "MCPClient": "mcp_client",
    "PoolClosedError": "pool",
    "PoolFullError": "pool",
    "PoolStatistics": "pool",
    "ResultError": "tool_exec.client",
    "SessionExpiredError": "pool",
    "Tool": "tools",
    "ToolRunner": "tool_exec.client",
    "ToolRunnerError": "tool_exec.client",
    "ToolServer": "tool_exec.server",
    "ToolText": "kernel_host.stub.ipybox.tool_exec.content",
    "Transfer": "files",
    "TransferLimitError": "files",
    "Variables": "results",
    "generate_mcp_sources": "mcp_apigen",
}


def __getattr__(name: str) -> Any:
    module = _MODULES.get(name)
    if module is None:
        raise AttributeError(f"module 'ipybox' has no attribute {name!r}")
    from importlib import import_module

    value = getattr(import_module(f".{module}", __name__), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
