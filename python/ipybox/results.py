# SPDX-License-Identifier: Apache-2.0
"""Results of cells."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .core.errors import ExecutionTimeout


@dataclass
class DisplayData:
    """A value that a cell displayed, or the value of its last expression.

    Attributes:
        data: Representations by MIME type, such as `text/plain`, `text/html`, `application/json`,
            and `image/png` in base64.
        metadata: Metadata of the representations.
    """

    data: dict[str, Any]
    metadata: dict[str, Any] = field(default_factory=dict)


@dataclass
class CodeExecutionChunk:
    """A piece of the output of a running cell.

    Attributes:
        text: The piece.
    """

    text: str


@dataclass
class CodeExecutionResult:
    """The result of a cell that ran to its end.

    Attributes:
        text: Printed and displayed text, and the value of the last expression, without white space
            at both ends. None if there was no output.
        images: The image files of the cell, in order.
        raw_text: `text` with the white space at both ends, which keeps the columns of a table
            aligned.
        is_cancelled: Whether `cancel` ended the cell. `text` is None then.
        display_data: The displayed values, in all representations.
        violations: What the sandbox denied, for people.
        notices: Messages of ipybox, for people: that the kernel died before the cell, violations,
            an image that could not be saved. They are not in the text, except `[ipybox] cwd reset
            to DIR`. If a cell was cancelled or its stream was closed, its notices come with the
            next result.
        is_truncated: Whether the text was longer than 16,777,216 characters. Then it has its
            beginning and its end, and a line between them that says how much was left out.
    """

    text: str | None
    images: list[Path]
    raw_text: str | None = field(default=None, kw_only=True, compare=False, repr=False)
    is_cancelled: bool = field(default=False, kw_only=True, compare=False, repr=False)
    display_data: list[DisplayData] = field(
        default_factory=list, kw_only=True, compare=False, repr=False
    )
    violations: list[str] = field(default_factory=list, kw_only=True, compare=False, repr=False)
    notices: list[str] = field(default_factory=list, kw_only=True, compare=False, repr=False)
    is_truncated: bool = field(default=False, kw_only=True, compare=False, repr=False)


class CodeExecutionError(Exception):
    """A cell failed: it raised an exception, or its kernel has ended. The text is the traceback.

    Attributes:
        name: Class of the exception, such as `ValueError`; None if there was none.
        value: Message of the exception; None if there was none.
        output: Earlier output of the cell; None if there was none.
        images: Earlier image files of the cell.
        display_data: Values that the cell displayed before.
        violations: What the sandbox denied, for people.
        notices: Messages of ipybox; see CodeExecutionResult.
    """

    def __init__(self, *args: object) -> None:
        super().__init__(*args)
        self.name: str | None = None
        self.value: str | None = None
        self.output: str | None = None
        self.images: list[Path] = []
        self.display_data: list[DisplayData] = []
        self.violations: list[str] = []
        self.notices: list[str] = []


class CodeExecutionTimeout(ExecutionTimeout):
    """A cell exceeded its timeout: a TimeoutError, whose text says whether variables are kept.

    Attributes:
        output: Earlier output of the cell; None if there was none.
        violations: What the sandbox denied, for people.
        notices: Messages of ipybox; see CodeExecutionResult.
    """

    def __init__(self, *args: object) -> None:
        super().__init__(*args)
        self.output: str | None = None
        self.violations: list[str] = []
        self.notices: list[str] = []
