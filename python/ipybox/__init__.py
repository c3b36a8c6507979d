# SPDX-License-Identifier: Apache-2.0
"""ipybox: run Python in stateful IPython kernels and call MCP tools through generated APIs.

    from ipybox import CodeExecutor

    async with CodeExecutor() as executor:
        result = await executor.execute("print('hello world')")

What is imported from here is loaded when it is first asked for.
"""

from __future__ import annotations

__version__ = "1.0.0.dev0"

# Type checkers take it for true. typing has the same, and takes longer to import than all of this.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .code_exec import CodeExecutor
    from .mcp_apigen import generate_mcp_sources
    from .mcp_client import MCPClient
    from .results import CodeExecutionChunk, CodeExecutionError, CodeExecutionResult, DisplayData
    from .tool_exec.approval.client import ApprovalRequest

__all__ = [
    "ApprovalRequest",
    "CodeExecutionChunk",
    "CodeExecutionError",
    "CodeExecutionResult",
    "CodeExecutor",
    "DisplayData",
    "MCPClient",
    "generate_mcp_sources",
]

_MODULES = {
    "ApprovalRequest": "tool_exec.approval.client",
    "CodeExecutionChunk": "results",
    "CodeExecutionError": "results",
    "CodeExecutionResult": "results",
    "CodeExecutor": "code_exec",
    "DisplayData": "results",
    "MCPClient": "mcp_client",
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
