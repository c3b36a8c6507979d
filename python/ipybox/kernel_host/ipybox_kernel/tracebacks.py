# SPDX-License-Identifier: Apache-2.0
"""Tracebacks for the user: without our frames, and without colour unless the client shows it."""

from __future__ import annotations

import builtins
import os
import re
import traceback
from types import FrameType, TracebackType
from typing import Any

MAX_EVALUE = 100_000
MAX_TRACEBACK = 1_000_000
MAX_PARTS = 1000
EXIT_HINT = "The kernel continues and keeps its state."

_OUR_FOLDER = os.path.dirname(os.path.abspath(__file__)) + os.sep
# The `ipybox` package of kernels. The user's traceback of a tool call ends before it.
_STUB_FOLDER = os.path.join(os.path.dirname(_OUR_FOLDER.rstrip(os.sep)), "stub") + os.sep
_ESCAPE = re.compile(r"\x1b\[[0-9;]*m")
_GROUP: Any = getattr(builtins, "BaseExceptionGroup", ())  # since Python 3.11


def error_payload(
    cell: int, kind: type, value: BaseException, text: str, has_colour: bool
) -> dict[str, Any]:
    return {
        "cell": cell,
        "ename": name_of(kind),
        "evalue": clip(text_of(value), MAX_EVALUE),
        "traceback": clip(text if has_colour else _ESCAPE.sub("", text), MAX_TRACEBACK),
    }


def parts_of(stb: Any, text: str) -> list[str] | None:
    """IPython's parts of a traceback, such as its frames; None if they are not the text."""
    if not isinstance(stb, list) or not 1 < len(stb) <= MAX_PARTS or len(text) > MAX_TRACEBACK:
        return None
    parts = [str(each) for each in stb]
    return parts if "\n".join(parts) == text else None


def name_of(kind: type) -> str:
    try:
        return str(kind.__name__)
    except BaseException:  # its metaclass is the user's
        return "Exception"


def text_of(value: BaseException) -> str:
    try:
        return str(value)
    except BaseException as error:
        return f"<{type(value).__name__}; its __str__ raised {type(error).__name__}>"


def clip(text: str, limit: int) -> str:
    """Shortens a long text to its beginning and its end."""
    if len(text) <= limit:
        return text
    half = limit // 2
    return f"{text[:half]}\n… {len(text) - 2 * half} characters left out …\n{text[-half:]}"


def _is_hidden(frame: FrameType) -> bool:
    """Whether the frame is ours, or its function hides it by `__tracebackhide__`.

    pydantic and generated APIs do so where the error is the caller's. IPython sets it to a text in
    the frame that runs cells, and removes that frame itself.
    """
    code = frame.f_code
    if code.co_filename.startswith(_OUR_FOLDER):
        return True
    return (
        "__tracebackhide__" in code.co_varnames and frame.f_locals.get("__tracebackhide__") is True
    )


def remove_our_frames(value: BaseException | None) -> None:
    """Removes our frames from the tracebacks of the exception, its causes and contexts."""
    seen: set[int] = set()
    waiting = [value]
    while waiting:
        error = waiting.pop()
        if error is None or id(error) in seen:
            continue
        seen.add(id(error))
        error.__traceback__ = _without_our_frames(error.__traceback__)
        waiting += [error.__cause__, error.__context__]
        if isinstance(error, _GROUP):
            waiting += error.exceptions


def _without_our_frames(tb: TracebackType | None) -> TracebackType | None:
    kept = []
    while tb is not None:
        if tb.tb_frame.f_code.co_filename.startswith(_STUB_FOLDER):
            break  # also without the frames that it calls
        if not _is_hidden(tb.tb_frame):
            kept.append(tb)
        tb = tb.tb_next
    following = None
    for entry in reversed(kept):
        entry.tb_next = following
        following = entry
    return following


def has_group(value: BaseException | None) -> bool:
    """Whether an exception, a cause or a context of it is a group. IPython cannot show groups."""
    seen: set[int] = set()
    while value is not None and id(value) not in seen:
        if isinstance(value, _GROUP):
            return True
        seen.add(id(value))
        value = value.__cause__ or value.__context__
    return False


def comes_of_interrupt(value: BaseException | None) -> bool:
    seen: set[int] = set()
    while value is not None and id(value) not in seen:
        if isinstance(value, KeyboardInterrupt):
            return True
        seen.add(id(value))
        value = value.__cause__ or value.__context__
    return False


def plain(kind: type, value: BaseException, tb: TracebackType | None) -> list[str]:
    """Formats a traceback as Python does, without the frame in which IPython runs cells."""
    if tb is not None and tb.tb_next is not None and tb.tb_frame.f_code.co_name == "run_code":
        tb = tb.tb_next
    return "".join(traceback.format_exception(kind, value, tb)).splitlines()


def exit_message(value: BaseException) -> list[str]:
    code = text_of(value)
    return ["SystemExit" + (f": {code}" if code else ""), EXIT_HINT]
