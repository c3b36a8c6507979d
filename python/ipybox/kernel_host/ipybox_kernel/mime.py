# SPDX-License-Identifier: Apache-2.0
"""Converts MIME bundles for the kernel wire: text, JSON values, and base64 for the rest."""

from __future__ import annotations

import base64
import binascii
import json
import math
import numbers
from collections.abc import Iterable, Mapping
from typing import Any

# Depth to which a value that is not JSON is converted. Deeper values become text.
MAX_DEPTH = 100
# Limits of a JSON value. The limits of the core for a frame are 256 and 2,097,152.
MAX_JSON_DEPTH = 200
MAX_JSON_VALUES = 2_000_000

_TEXT_TYPES = frozenset(("application/javascript", "application/xml", "application/x-latex"))


def conform(data: Mapping[Any, Any]) -> dict[str, Any]:
    return {
        str(kind): _conform_value(str(kind), value)
        for kind, value in data.items()
        if value is not None
    }


def conform_json(value: Any) -> Any:
    """The value as JSON; what JSON or the core does not accept becomes null or text."""
    try:
        text = json.dumps(value, allow_nan=False)
    except (ValueError, TypeError, RecursionError):
        value = _clean(value, 0)
        text = json.dumps(value)
    # At most: strings may contain brackets, too.
    n_containers = text.count("[") + text.count("{")
    if n_containers <= MAX_JSON_DEPTH and n_containers + text.count(",") < MAX_JSON_VALUES:
        return value
    n_values, is_deep = _measure(value)
    if n_values > MAX_JSON_VALUES:
        return f"{n_values} values, more than can be sent"
    return _clean(value, 0) if is_deep else value


def count_values(value: Any) -> int:
    """The number of JSON values in a value, up to MAX_JSON_DEPTH."""
    return _measure(value)[0]


def _measure(value: Any) -> tuple[int, bool]:
    """The number of values, and whether they are nested too deeply."""
    n_values, level = 0, [value]
    for _ in range(MAX_JSON_DEPTH):
        n_values += len(level)
        containers = [each for each in level if isinstance(each, (dict, list, tuple))]
        if not containers:
            return n_values, False
        level = [
            item
            for each in containers
            for item in (each.values() if isinstance(each, dict) else each)
        ]
    return n_values, True


def _conform_value(kind: str, value: Any) -> Any:
    kind = kind.partition(";")[0].strip().lower()
    if kind == "application/json" or kind.endswith("+json"):
        return conform_json(value)
    if kind.startswith("text/") or kind.endswith("+xml") or kind in _TEXT_TYPES:
        return (
            value.decode("utf-8", "replace")
            if isinstance(value, (bytes, bytearray))
            else _text(value)
        )
    if isinstance(value, (bytes, bytearray, memoryview)):
        return base64.b64encode(value).decode("ascii")
    return _conform_base64(_text(value))


def _conform_base64(text: str) -> str:
    joined = "".join(text.split())
    try:
        base64.b64decode(joined, validate=True)
        return joined
    except (binascii.Error, ValueError):
        return base64.b64encode(text.encode("utf-8", "replace")).decode("ascii")


def _text(value: Any) -> str:
    if type(value) is str:
        return value
    if isinstance(value, (Mapping, list, tuple)):
        return json.dumps(conform_json(value))
    return str(value)


def _clean(value: Any, depth: int) -> Any:
    if value is None or value is True or value is False:
        return value
    if isinstance(value, str):
        return str(value)
    if isinstance(value, numbers.Integral):
        return int(value)
    if isinstance(value, numbers.Real):
        number = float(value)
        return number if math.isfinite(number) else None
    if isinstance(value, (bytes, bytearray)):
        return base64.b64encode(value).decode("ascii")
    if depth < MAX_DEPTH:
        if isinstance(value, Mapping):
            return {_key(key): _clean(item, depth + 1) for key, item in value.items()}
        if isinstance(value, Iterable):
            return [_clean(item, depth + 1) for item in value]
    try:
        return str(value)
    except RecursionError:
        return f"<{type(value).__name__}>"


def _key(key: Any) -> str:
    return key if type(key) is str else str(key)
