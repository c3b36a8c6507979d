# SPDX-License-Identifier: Apache-2.0
"""The part of the adapters that runs in kernels: values of cells, final answers, tools.

The program never imports this module. It sends this text as the first cell of a session
(code_session.py). It needs the standard library and IPython only. Code in the kernel can change
everything here: what it can report is what it could print, too.

After each cell a display of the type MIME reports in JSON: `final`, the text of a final answer that
has ended the cell; or `value`, the text of the value of the last expression; or neither. Adapters
choose the form of these texts.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from IPython import get_ipython
from IPython.display import display

MIME = "text/vnd.ipybox.report"
# Of the text of a value or a final answer.
MAX_CHARS = 16 * 1024 * 1024


class FinalAnswer(BaseException):
    """Ends a cell. It is no Exception, so `except Exception` does not catch it."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.text = text


def finish(value: Any) -> None:
    """Ends the cell with a final answer.

    Raises:
        TypeError, ValueError: If the value cannot be passed to the program.
    """
    text = encode(value)
    if len(text) > MAX_CHARS:
        raise ValueError(
            f"the final answer has {len(text)} characters, the limit is {MAX_CHARS}:"
            " save it to a file, and return the path"
        )
    raise FinalAnswer(text)


def encode(value: Any) -> str:
    """The text of a value. Adapters replace this function."""
    return json.dumps(value)


def encode_or_describe(value: Any) -> str | None:
    """The text of the value of a cell. Adapters may replace this function. None: it has none."""
    return None


def report(result: Any) -> None:
    """Called by IPython after each cell."""
    error = result.error_before_exec or result.error_in_exec
    members = {}
    if isinstance(error, FinalAnswer):
        members["final"] = error.text
    elif error is None and result.result is not None:
        text = encode_or_describe(result.result)
        if text is not None and len(text) <= MAX_CHARS:
            members["value"] = text
    display({MIME: json.dumps(members)}, raw=True)


def define(name: str, function: Callable[..., Any]) -> None:
    """Defines a function for cells."""
    function.__name__ = function.__qualname__ = name
    get_ipython().user_ns[name] = function


get_ipython().events.register("post_run_cell", report)
