# SPDX-License-Identifier: Apache-2.0
"""Answers to `request` frames of front ends, in the form of Jupyter's replies."""

from __future__ import annotations

import json
import sys
from typing import Any

from . import comms, mime, tracebacks

MAX_MATCHES = 1000
MAX_HISTORY = 10_000
# The values of all user expressions of a cell together, and the text of one error.
MAX_EXPRESSIONS_SIZE = 8 << 20
MAX_EXPRESSION_ERROR = 10_000


def answer(shell: Any, method: str, params: dict[str, Any]) -> Any:
    handlers = {
        "comm_info": comm_info,
        "complete": complete,
        "history": history,
        "inspect": inspect,
        "is_complete": is_complete,
        "kernel_info": kernel_info,
        "variables": list_variables,
    }
    if method not in handlers:
        raise ValueError(f"no method {method!r}")
    return handlers[method](shell, params)


def complete(shell: Any, params: dict[str, Any]) -> dict[str, Any]:
    from IPython.core.completer import provisionalcompleter, rectify_completions

    _get_jedi(shell)
    code = str(params.get("code", ""))
    position = _position(params, code)
    with provisionalcompleter():
        found = shell.Completer.completions(code, position)
        completions = list(rectify_completions(code, found))[:MAX_MATCHES]
    return {
        "matches": [completion.text for completion in completions],
        "cursor_start": completions[0].start if completions else position,
        "cursor_end": completions[0].end if completions else position,
        "metadata": {
            "_jupyter_types_experimental": [
                {
                    "start": completion.start,
                    "end": completion.end,
                    "text": completion.text,
                    "type": completion.type,
                    "signature": completion.signature,
                }
                for completion in completions
            ]
        },
    }


def _get_jedi(shell: Any) -> None:
    """Imports jedi, which the warm-up left out because its import takes a long time."""
    from IPython.core import completer

    if completer.JEDI_INSTALLED:
        return
    try:
        import jedi
        import jedi.api.classes
        import jedi.api.helpers
    except ImportError:
        return
    jedi.settings.case_insensitive_completion = False
    completer.jedi = jedi
    completer.JEDI_INSTALLED = True
    shell.Completer.use_jedi = True


def inspect(shell: Any, params: dict[str, Any]) -> dict[str, Any]:
    from IPython.utils.tokenutil import token_at_cursor

    code = str(params.get("code", ""))
    name = token_at_cursor(code, _position(params, code))
    try:
        data = shell.object_inspect_mime(name, detail_level=int(params.get("detail_level") or 0))
    except KeyError:
        return {"found": False, "data": {}, "metadata": {}}
    return {"found": True, "data": {"text/plain": data.get("text/plain", "")}, "metadata": {}}


def is_complete(shell: Any, params: dict[str, Any]) -> dict[str, Any]:
    manager = getattr(shell, "input_transformer_manager", None) or shell.input_splitter
    status, indent = manager.check_complete(str(params.get("code", "")))
    return {"status": status, "indent": " " * (indent or 0)}


def history(shell: Any, params: dict[str, Any]) -> dict[str, Any]:
    """The inputs of this kernel, which is the only session."""
    manager = shell.history_manager
    raw, output = bool(params.get("raw", True)), bool(params.get("output", False))
    limit = _limit(params.get("n"))
    kind = params.get("hist_access_type", "tail")
    if kind == "tail":
        lines = manager.get_tail(limit, raw=raw, output=output, include_latest=True)
    elif kind == "search":
        pattern = str(params.get("pattern", "*"))
        lines = manager.search(
            pattern, raw=raw, output=output, n=limit, unique=bool(params.get("unique"))
        )
    elif kind == "range":
        start, stop = int(params.get("start") or 1), params.get("stop")
        lines = manager.get_tail(MAX_HISTORY, raw=raw, output=output, include_latest=True)
        lines = [
            line for line in lines if start <= line[1] and (stop is None or line[1] < int(stop))
        ]
    else:
        raise ValueError(f"hist_access_type must be one of tail, range and search, not {kind!r}")
    return {"history": [list(line) for line in lines]}


def _limit(n: Any) -> int:
    return MAX_HISTORY if n is None else max(0, min(int(n), MAX_HISTORY))


def comm_info(shell: Any, params: dict[str, Any]) -> dict[str, Any]:
    return {"comms": comms.describe(shell, params.get("target_name"))}


def list_variables(shell: Any, params: dict[str, Any]) -> dict[str, Any]:
    from . import variables

    return variables.answer(shell)


def kernel_info(shell: Any, params: dict[str, Any]) -> dict[str, Any]:
    import IPython

    version = sys.version_info
    return {
        "implementation": "ipybox",
        "implementation_version": IPython.__version__,
        "banner": f"Python {version.major}.{version.minor}.{version.micro}, "
        f"IPython {IPython.__version__}, in ipybox",
        "help_links": [],
        "supported_features": [],  # neither "debugger" nor "kernel subshells"
        "language_info": {
            "name": "python",
            "version": f"{version.major}.{version.minor}.{version.micro}",
            "mimetype": "text/x-python",
            "codemirror_mode": {"name": "ipython", "version": version.major},
            "pygments_lexer": f"ipython{version.major}",
            "nbconvert_exporter": "python",
            "file_extension": ".py",
        },
    }


def evaluate(shell: Any, expressions: dict[str, str]) -> dict[str, Any]:
    """The user expressions of a cell. Each has its own result or error; none fails the cell."""
    results = {}
    room = MAX_EXPRESSIONS_SIZE
    for name, expression in expressions.items():
        result = _evaluate(shell, expression, room)
        room -= len(json.dumps(result))
        results[name] = result
    return results


def _evaluate(shell: Any, expression: str, room: int) -> dict[str, Any]:
    try:
        value = eval(expression, shell.user_global_ns, shell.user_ns)
        data, metadata = shell.display_formatter.format(value)
        result = {
            "status": "ok",
            "data": mime.conform(data),
            "metadata": mime.conform_json(dict(metadata or {})),
        }
        if len(json.dumps(result)) > room:
            raise ValueError("the values of the user expressions are too large together")
        return result
    except Exception as error:
        tracebacks.remove_our_frames(error)
        lines = tracebacks.plain(type(error), error, error.__traceback__)
        return {
            "status": "error",
            "ename": type(error).__name__,
            "evalue": tracebacks.clip(tracebacks.text_of(error), MAX_EXPRESSION_ERROR),
            "traceback": tracebacks.clip("\n".join(lines), MAX_EXPRESSION_ERROR).split("\n"),
        }


def _position(params: dict[str, Any], code: str) -> int:
    position = params.get("cursor_pos")
    return len(code) if position is None else max(0, min(int(position), len(code)))
