# SPDX-License-Identifier: Apache-2.0
"""What the user's variables are, in few words, without running code of the user.

No method of a value or of its class is called unless its type is exactly a known one: a `__repr__`,
`__len__`, `__class__` or property of the user could take any time and change anything.
"""

from __future__ import annotations

import itertools
import sys
import time
from types import GetSetDescriptorType, ModuleType
from typing import Any

MAX_VARIABLES = 500
MAX_SECONDS = 0.5
MAX_NAME = 100
MAX_VALUE = 100
MAX_ITEMS = 5
MAX_DIGITS = 50
MAX_AXES = 32

_name_of_type = type.__dict__["__name__"].__get__
_dict_of_type = type.__dict__["__dict__"].__get__
_module_of_type = type.__dict__["__module__"].__get__  # also of types written in C
_CONTAINERS: dict[type, tuple[str, str]] = {
    list: ("[", "]"),
    tuple: ("(", ")"),
    set: ("{", "}"),
    frozenset: ("{", "}"),
    dict: ("{", "}"),
}
# Types with a size that their own C code computes.
_SIZED = (str, bytes, bytearray, range, *_CONTAINERS)
# Library types with a shape, by the module that has them.
_SHAPED = {
    "numpy": ("ndarray",),
    "pandas": ("DataFrame", "Series"),
    "polars": ("DataFrame", "Series"),
    "torch": ("Tensor",),
}


def answer(shell: Any) -> dict[str, Any]:
    """Name, type, size and short value of each variable, in the order of their creation."""
    found: list[dict[str, Any]] = []
    deadline = time.monotonic() + MAX_SECONDS
    named = list(users(shell))
    for name, value in named[:MAX_VARIABLES]:
        if time.monotonic() > deadline:
            break
        found.append({"name": name[:MAX_NAME], **describe(value)})
    return {"variables": found, "left_out": len(named) - len(found)}


def users(shell: Any) -> list[tuple[str, Any]]:
    hidden = shell.user_ns_hidden
    return [
        (name, value)
        for name, value in dict(shell.user_ns).items()
        if type(name) is str
        and not name.startswith("_")
        and not (name in hidden and hidden[name] is value)
    ]


def describe(value: Any) -> dict[str, Any]:
    kind = type(value)
    try:
        return {
            "type": type_name(kind),
            "size": _size(value, kind),
            "value": _short(value, 1),
        }
    except Exception as error:  # another thread changes it
        return {"type": type_name(kind), "size": None, "value": f"<{type(error).__name__}>"}


def type_name(kind: type) -> str:
    try:
        module = _module_of_type(kind)
    except AttributeError:
        module = None
    prefix = f"{module}." if type(module) is str and module not in ("builtins", "__main__") else ""
    return f"{prefix}{_name_of_type(kind)}"[:MAX_NAME]


def _size(value: Any, kind: type) -> str | None:
    if kind in _SIZED:
        return str(len(value))
    shape = _shape(value, kind)
    if shape is None:
        return None
    return f"({', '.join(map(str, shape))}{',' if len(shape) == 1 else ''})"


def _shape(value: Any, kind: type) -> tuple[int, ...] | None:
    """The shape of a known type's value. Code of the library computes it, and no other."""
    for library, names in _SHAPED.items():
        module = sys.modules.get(library)
        if type(module) is not ModuleType:
            continue
        if not any(vars(module).get(name) is kind for name in names):
            continue
        shape = next(
            (
                _dict_of_type(each)["shape"]
                for each in kind.__mro__
                if "shape" in _dict_of_type(each)
            ),
            None,
        )
        if not _is_of_library(shape, library):
            return None
        axes = tuple(itertools.islice(iter(value.shape), MAX_AXES))
        return axes if all(type(axis) is int for axis in axes) else None
    return None


def _is_of_library(attribute: Any, library: str) -> bool:
    if type(attribute) is GetSetDescriptorType:
        return True  # written in C
    if type(attribute) is not property:
        return False
    module = getattr(attribute.fget, "__module__", None)
    return type(module) is str and module.split(".")[0] == library


def _short(value: Any, depth: int) -> str | None:
    """A short representation of exact builtin types; None for others."""
    kind = type(value)
    if value is None or kind in (bool, float, complex):
        return repr(value)
    if kind is int:
        bits = value.bit_length()
        return repr(value) if bits < MAX_DIGITS * 3 else f"<int of {bits} bits>"
    if kind in (str, bytes, bytearray):
        text = repr(value[:MAX_VALUE])
        return _clip(text, len(value) > MAX_VALUE)
    if kind is range:
        parts = (value.start, value.stop, value.step)
        return _clip(f"range({', '.join(str(_short(part, 0)) for part in parts)})", False)
    if kind in _CONTAINERS:
        return _container(value, kind, depth)
    return None


def _container(value: Any, kind: type, depth: int) -> str:
    left, right = _CONTAINERS[kind]
    if depth == 0:
        return f"{left}…{right}" if value else f"{left}{right}"
    first = list(itertools.islice(value.items() if kind is dict else iter(value), MAX_ITEMS))
    if kind is dict:
        parts = [f"{_item(key)}: {_item(item)}" for key, item in first]
    else:
        parts = [_item(item) for item in first]
    more = ["…"] if len(value) > len(first) else []
    return _clip(left + ", ".join(parts + more) + right, False)


def _item(value: Any) -> str:
    short = _short(value, 0)
    return f"<{type_name(type(value))}>" if short is None else short


def _clip(text: str, is_cut: bool) -> str:
    return text[:MAX_VALUE] + "…" if is_cut or len(text) > MAX_VALUE else text
