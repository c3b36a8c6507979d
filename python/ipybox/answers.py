# SPDX-License-Identifier: Apache-2.0
"""The answer to `session.execute` (`docs/internals/rpc.md`), and the results and exceptions that it
becomes. Names of its members are here and nowhere else."""

from __future__ import annotations

import re
import threading
from pathlib import Path
from typing import Any

from .results import (
    CallRefusedError,
    CellChange,
    CodeExecutionError,
    CodeExecutionResult,
    CodeExecutionTimeout,
    DisplayData,
    KernelLostError,
    LimitExceededError,
)

# How many notices, and how many violations, are kept for a later answer.
MAX_KEPT_NOTICES = 100
# How the core ends the message about a kernel that a limit has killed (src/sandbox/limits.c).
LIMIT = re.compile(r": limits\.\w+ is \d+")
REFUSALS = ("ApprovalRejectedError", "ApprovalTimeoutError")


class CellAnswer:
    """The answer of a cell that has ended.

    Attributes:
        status: `ok`, `error`, `timeout`, `cancelled`, `interrupted` or `lost`.
        message: What happened, for people; None if the status is `ok` or `error`.
        notices: Messages of ipybox.
        violations: What a sandbox denied.
    """

    def __init__(self, members: dict[str, Any]) -> None:
        """
        Args:
            members: The answer as the core sent it.
        """
        self.status: str = members["status"]
        self.message: str | None = members.get("message")
        self.notices: list[str] = list(members.get("notices") or [])
        self.violations: list[str] = list(members.get("violations") or [])
        self._raw_text: str | None = members.get("text")
        self._is_truncated = bool(members.get("truncated"))
        self._images = [Path(path) for path in members.get("images") or []]
        self._display_data = [
            DisplayData(each["data"], each.get("metadata") or {})
            for each in members.get("display_data") or []
        ]
        self._error: dict[str, Any] = members.get("error") or {}
        self._is_undone = bool(members.get("undone"))
        self._changes = [CellChange(**change) for change in members.get("changes") or []]
        self._changes_cut: str | None = members.get("changes_cut")

    @property
    def _text(self) -> str | None:
        return None if self._raw_text is None else self._raw_text.strip()

    def result(self) -> CodeExecutionResult:
        """The result of a cell that ran to its end."""
        return CodeExecutionResult(
            text=self._text,
            images=self._images,
            raw_text=self._raw_text,
            display_data=self._display_data,
            violations=self.violations,
            notices=self.notices,
            is_truncated=self._is_truncated,
            changes=self._changes,
            changes_cut=self._changes_cut,
        )

    def cancelled_result(self) -> CodeExecutionResult:
        """The result of a cell that was cancelled: it has no text and no images."""
        return CodeExecutionResult(
            text=None,
            images=[],
            is_cancelled=True,
            is_undone=self._is_undone,
            changes=self._changes,
            changes_cut=self._changes_cut,
            violations=self.violations,
            notices=self.notices,
        )

    def error(self, end_reason: str | None) -> CodeExecutionError | CodeExecutionTimeout:
        """The exception for a cell that neither ran to its end nor was cancelled.

        Args:
            end_reason: Why the session ended while the cell ran; None if it did not.
        """
        if self.status == "timeout":
            error: CodeExecutionError | CodeExecutionTimeout = CodeExecutionTimeout(self.message)
        else:
            error = self._failure(end_reason)
        error.output = self._text
        error.violations = self.violations
        error.notices = self.notices
        error.is_undone = self._is_undone
        error.changes = self._changes
        error.changes_cut = self._changes_cut
        return error

    def _failure(self, end_reason: str | None) -> CodeExecutionError:
        name = self._error.get("name")
        message = self._error.get("text") or self.message or "the cell failed"
        if end_reason is not None and name in (None, "KeyboardInterrupt"):
            message = end_reason
        error = self._failure_class(end_reason)(message)
        error.name = name
        error.value = self._error.get("value")
        error.images = self._images
        error.display_data = self._display_data
        return error

    def _failure_class(self, end_reason: str | None) -> type[CodeExecutionError]:
        if self._error.get("name") in REFUSALS:
            return CallRefusedError
        if self.status != "lost" or end_reason is not None:
            return CodeExecutionError
        return LimitExceededError if LIMIT.search(self.message or "") else KernelLostError


class KeptNotices:
    """Notices and violations of answers that no caller received. The next answer that a caller
    receives begins with them. May be used from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._notices: list[str] = []
        self._violations: list[str] = []

    def keep(self, answer: CellAnswer) -> None:
        """Keeps the notices and violations of an answer, up to MAX_KEPT_NOTICES of each."""
        with self._lock:
            for kept, new in (
                (self._notices, answer.notices),
                (self._violations, answer.violations),
            ):
                kept += new[: MAX_KEPT_NOTICES - len(kept)]

    def add_to(self, answer: CellAnswer) -> None:
        """Moves what is kept to the beginning of an answer's lists."""
        with self._lock:
            answer.notices[:0], self._notices = self._notices, []
            answer.violations[:0], self._violations = self._violations, []
