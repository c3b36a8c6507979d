# SPDX-License-Identifier: Apache-2.0
"""Answers to `request` frames: completions, documentation, whether a cell is complete."""

from __future__ import annotations

from typing import Any

MAX_MATCHES = 1000


def answer(shell: Any, method: str, params: dict[str, Any]) -> Any:
    handlers = {"complete": complete, "inspect": inspect, "is_complete": is_complete}
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
        "types": [completion.type for completion in completions],
        "cursor_start": completions[0].start if completions else position,
        "cursor_end": completions[0].end if completions else position,
    }


def _get_jedi(shell: Any) -> None:
    """The warm-up kept it out, for it takes long to import."""
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
        data = shell.object_inspect_mime(name, detail_level=int(params.get("detail_level", 0)))
    except KeyError:
        return {"found": False, "data": {}}
    return {"found": True, "data": {"text/plain": data.get("text/plain", "")}}


def is_complete(shell: Any, params: dict[str, Any]) -> dict[str, Any]:
    manager = getattr(shell, "input_transformer_manager", None) or shell.input_splitter
    status, indent = manager.check_complete(str(params.get("code", "")))
    return {"status": status, "indent": " " * (indent or 0)}


def _position(params: dict[str, Any], code: str) -> int:
    position = params.get("cursor_pos")
    return len(code) if position is None else max(0, min(int(position), len(code)))
