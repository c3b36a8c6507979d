# SPDX-License-Identifier: Apache-2.0
"""Classes for results of tools that have texts, images, audio, resources or links.

They are the classes that kernels use, `kernel_host/stub/ipybox/tool_exec/content.py`.
"""

from __future__ import annotations

from ..kernel_host.stub.ipybox.tool_exec.content import (
    Beside,
    Content,
    ToolAnswer,
    ToolDict,
    ToolFloat,
    ToolInt,
    ToolList,
    ToolText,
)

__all__ = [
    "Beside",
    "Content",
    "ToolAnswer",
    "ToolDict",
    "ToolFloat",
    "ToolInt",
    "ToolList",
    "ToolText",
]
