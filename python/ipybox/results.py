# SPDX-License-Identifier: Apache-2.0
"""Results and exceptions of cells."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .core.errors import ExecutionTimeout


@dataclass
class DisplayData:
    """Something that a cell displayed, or the value of its last expression.

    Attributes:
        data: Representations by MIME type, such as `text/plain`, `text/html`, `application/json`;
            images are in Base64.
        metadata: Metadata of the representations, by MIME type.
    """

    data: dict[str, Any]
    metadata: dict[str, Any] = field(default_factory=dict)


@dataclass
class CodeExecutionChunk:
    """A piece of output.

    Attributes:
        text: The piece.
    """

    text: str


@dataclass
class Variables:
    """The variables that were saved to a file, or loaded from one.

    Attributes:
        names: Those that were saved or loaded.
        failed: Those that were not, with the reasons.
    """

    names: list[str]
    failed: dict[str, str]


@dataclass
class Change:
    """One path that a session with a staged workspace has changed.

    Attributes:
        path: Below the workspace.
        kind: `added`, `changed` or `removed`.
        type: `file`, `directory`, `link` or `special` (which is never committed).
        size: Bytes that the file has in the session.
        old_size: Bytes that it has in the workspace.
        mode: Its permissions.
        problem: Why it cannot be committed, or was not. None: nothing prevents it.
        conflict: Whether the file of the workspace was changed outside of the session, too.
        done: Of a commit or discard: whether it was done.
        diff: A unified diff of a text, if it was asked for. Else None.
    """

    path: str
    kind: str
    type: str
    size: int
    old_size: int
    mode: int
    problem: str | None = None
    conflict: bool = False
    done: bool = False
    diff: str | None = None


@dataclass
class CellChange:
    """One path that a cell has changed in a staged workspace.

    Attributes:
        path: Below the workspace.
        kind: `added`, `changed` or `removed`. What was in a directory that was removed is not
            listed. A directory that was replaced by a new one is `changed`.
        type: `file`, `directory`, `link` or `special`.
    """

    path: str
    kind: str
    type: str


@dataclass
class Changes:
    """What a session with a staged workspace has changed; or what was committed or discarded.

    Attributes:
        changes: The changes, 1,000 at most.
        total: How many there are.
        total_bytes: The size of all files that were added or changed.
        problems: How many of them cannot be committed, or were not.
        cut: If not all could be found: why. Else None.
    """

    changes: list[Change]
    total: int
    total_bytes: int
    problems: int
    cut: str | None = None


@dataclass
class LateOutput:
    """A piece of output of a cell that has ended: its threads or tasks still run.

    Attributes:
        execution_count: The number of the cell in its kernel, from 1, as IPython shows it. None: it
            is not known which cell wrote this.
        stream: `stdout` or `stderr`: text. `display`: something was displayed. `update`: a display
            is replaced. `clear`: earlier output of the cell is to be cleared. `dropped`: further
            pieces were left out, because they were not read in time.
        text: The piece, or the text of the display. None if there is none.
        data: Of `display` and `update`: representations by MIME type.
        metadata: Metadata of the representations.
        display_id: Of `display` and `update`: the id with which the display can be updated. None if
            it has none.
        image: The image file of the display; None if it has none.
        wait: Of `clear`: whether output is cleared only when the next output comes.
        n_dropped: Of `dropped`: how many pieces were left out.
    """

    execution_count: int | None
    stream: str
    text: str | None = None
    data: dict[str, Any] = field(default_factory=dict, kw_only=True)
    metadata: dict[str, Any] = field(default_factory=dict, kw_only=True)
    display_id: str | None = field(default=None, kw_only=True)
    image: Path | None = field(default=None, kw_only=True)
    wait: bool = field(default=False, kw_only=True)
    n_dropped: int = field(default=0, kw_only=True)


@dataclass
class CodeExecutionResult:
    """The result of a cell that ran to its end.

    Attributes:
        text: What the cell printed and displayed, and the value of its last expression, without
            white space at both ends. None if there was no output.
        images: The image files that it displayed, in order.
        raw_text: `text` with the white space at both ends, which keeps the columns of a table
            aligned.
        is_cancelled: Whether `cancel` ended the cell. Then `text` is None.
        display_data: Everything that it displayed, in all representations.
        violations: What its sandbox denied, for people.
        notices: Messages of ipybox, for people: for example that the kernel died before the cell,
            violations, or that an image could not be saved. They are not in the text, except
            `[ipybox] cwd reset to DIR`. If a cell was cancelled or its stream was closed, its
            notices come with the next result.
        is_truncated: Whether the text was longer than 16,777,216 characters. Then it has its
            beginning and its end, and between them a line that says how much was left out.
        is_undone: Whether `undo_on_error` has undone the cell, which was cancelled.
        changes: What the cell changed in a staged workspace, 100 at most. What a process or thread
            of an earlier cell wrote after that cell had ended counts to this one.
        changes_cut: Why `changes` is not exactly what the cell changed: it does not have all, or
            other executors that share the files changed something, too. Else None.
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
    is_undone: bool = field(default=False, kw_only=True, compare=False, repr=False)
    changes: list[CellChange] = field(default_factory=list, kw_only=True, compare=False, repr=False)
    changes_cut: str | None = field(default=None, kw_only=True, compare=False, repr=False)


class CodeExecutionError(Exception):
    """A cell failed: it raised an exception, or its kernel has ended. The text is the traceback.

    Attributes:
        name: Class of the exception, such as `ValueError`; None if there was no exception.
        value: Message of the exception; None if there was no exception.
        output: What the cell printed before it failed; None if nothing.
        images: The image files that it displayed before it failed.
        display_data: What it displayed before it failed.
        violations: What its sandbox denied, for people.
        notices: Messages of ipybox; see CodeExecutionResult.
        is_undone: Whether `undo_on_error` has undone the cell: the state is as it was before it.
        changes: What it changed in a staged workspace; see CodeExecutionResult.
        changes_cut: Why `changes` is not exactly what the cell changed: it does not have all, or
            other executors that share the files changed something, too. Else None.
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
        self.is_undone = False
        self.changes: list[CellChange] = []
        self.changes_cut: str | None = None


class KernelLostError(CodeExecutionError):
    """The kernel has ended while the cell ran: it exited, crashed, was killed, or was reset. Its
    state is lost, and the next cell runs in a fresh kernel."""


class LimitExceededError(KernelLostError):
    """The kernel was killed because it exceeded a limit of its sandbox; the text says which."""


class CallRefusedError(CodeExecutionError):
    """The cell failed with the error of a tool call that was not approved.

    This is known from the class that the kernel reports, which code in the cell can imitate.
    """


class CodeExecutionTimeout(ExecutionTimeout):
    """A cell took longer than its time limit. The text says whether the variables are kept.

    Attributes:
        output: What the cell printed until then; None if nothing.
        violations: What its sandbox denied, for people.
        notices: Messages of ipybox; see CodeExecutionResult.
        is_undone: Whether `undo_on_error` has undone the cell: the state is as it was before it.
        changes: What it changed in a staged workspace; see CodeExecutionResult.
        changes_cut: Why `changes` is not exactly what the cell changed: it does not have all, or
            other executors that share the files changed something, too. Else None.
    """

    def __init__(self, *args: object) -> None:
        super().__init__(*args)
        self.output: str | None = None
        self.violations: list[str] = []
        self.notices: list[str] = []
        self.is_undone = False
        self.changes: list[CellChange] = []
        self.changes_cut: str | None = None
