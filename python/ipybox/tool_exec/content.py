# SPDX-License-Identifier: Apache-2.0
"""What tools return beside their values: texts, images, audio, resources and links.

They are the kernels' own classes, `kernel_host/stub/ipybox/tool_exec/content.py`.
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
