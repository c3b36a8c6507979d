# SPDX-License-Identifier: Apache-2.0
"""The part of the adapters that runs in kernels: values of cells, final answers, tools.

The program never imports this module. It sends this text as the first cell of a session
(code_session.py). Code in the kernel can change everything here: what it can report is what it
could print, too.

After each cell a display of the type MIME reports in JSON: `final`, the text of a final answer that
has ended the cell; or `value`, the text of the value of the last expression; or neither. Adapters
replace `encode`, `decode` and `encode_value`, which choose the form of these texts.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
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


def encode(value: Any) -> Any:
    """Makes a value JSON."""
    return value


def decode(value: Any) -> Any:
    """Makes a value of JSON."""
    return value


def encode_value(value: Any) -> Any:
    """Makes the value of a cell JSON. None: it is not reported."""
    return None


def finish(value: Any) -> None:
    """Ends the cell with a final answer.

    Raises:
        TypeError, ValueError: If the value cannot be passed to the program.
    """
    text = json.dumps(encode(value))
    if len(text) > MAX_CHARS:
        raise ValueError(
            f"the final answer has {len(text)} characters, the limit is {MAX_CHARS}:"
            " save it to a file, and return the path"
        )
    raise FinalAnswer(text)


def report(result: Any) -> None:
    """Called by IPython after each cell."""
    error = result.error_before_exec or result.error_in_exec
    members = {}
    if isinstance(error, FinalAnswer):
        members["final"] = error.text
    elif error is None and result.result is not None:
        value = encode_value(result.result)
        text = json.dumps(value)
        if value is not None and len(text) <= MAX_CHARS:
            members["value"] = text
    display({MIME: json.dumps(members)}, raw=True)


def define(name: str, function: Callable[..., Any], doc: str = "") -> None:
    """Defines a function for cells."""
    function.__name__ = function.__qualname__ = name
    function.__doc__ = doc
    get_ipython().user_ns[name] = function


def define_tools(tools: dict[str, tuple[Sequence[str], str]]) -> None:
    """Defines functions that call tools of the program.

    Args:
        tools: The parameters of each, which may be given by position, and a docstring.
    """
    for name, (parameters, doc) in tools.items():
        define(name, make_caller(name, parameters), doc)


def make_caller(name: str, parameters: Sequence[str]) -> Callable[..., Any]:
    def call(*args: Any, **kwargs: Any) -> Any:
        __tracebackhide__ = True  # IPython leaves this frame out of tracebacks
        return call_tool(name, bind(name, parameters, args, kwargs))

    return call


def bind(
    name: str, parameters: Sequence[str], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> dict[str, Any]:
    """All arguments by name.

    Raises:
        TypeError: If there are too many, or one is given twice.
    """
    if len(args) > len(parameters):
        raise TypeError(f"{name}() takes {len(parameters)} positional arguments, not {len(args)}")
    by_position = dict(zip(parameters, args, strict=False))
    for each in by_position:
        if each in kwargs:
            raise TypeError(f"{name}() got two values for the argument {each!r}")
    return {**by_position, **kwargs}


def call_tool(name: str, arguments: dict[str, Any]) -> Any:
    """Calls a tool of the program.

    Raises:
        ToolRunnerError: If the call fails or is not approved.
    """
    __tracebackhide__ = True
    # In a kernel this is the client of the tool channel.
    from ipybox import ToolRunner

    runner = ToolRunner("app", server_id="application:app")
    sent = {each: encode(value) for each, value in arguments.items()}
    result: Any = runner.run_sync(name, sent)
    return decode(result["value"])


get_ipython().events.register("post_run_cell", report)
