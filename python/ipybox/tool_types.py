# SPDX-License-Identifier: Apache-2.0
"""Python types as JSON Schemas, for the tools of an application: annotations become schemas, JSON
from a kernel becomes Python values, and results become JSON. Standard library only."""

from __future__ import annotations

import dataclasses
import enum
import math
import re
import types
import typing
from collections.abc import Callable, Mapping
from typing import Any

MAX_DEPTH = 100  # of a value, and of a type
MAX_SHOWN = 100  # characters of a value in an error

_PLAIN_NAMES: dict[Any, str] = {str: "string", bool: "boolean", int: "integer", float: "number"}
# Some are in typing_extensions before Python 3.11.
_QUALIFIERS = ("Required", "NotRequired", "ReadOnly")


class Mismatch(ValueError):
    """A value does not have its type; the text says where."""


@dataclasses.dataclass(frozen=True)
class Type:
    """A type of Python.

    Attributes:
        schema: Its JSON Schema.
        read: From JSON to the Python value. Raises Mismatch. Its second argument says where the
            value is.
        write: From the Python value to JSON, likewise.
    """

    schema: dict[str, Any]
    read: Callable[[Any, str], Any]
    write: Callable[[Any, str], Any]


class Types:
    """Makes types. Classes are described once, in `definitions`, the `$defs` of a schema."""

    def __init__(self) -> None:
        self.definitions: dict[str, Any] = {}
        self._classes: dict[Any, Type] = {}
        self._depth = 0

    def make(self, annotation: Any, where: str) -> Type:
        """The type of an annotation whose names are resolved.

        Raises:
            TypeError: If it is not one of those that the how-to lists.
        """
        self._depth += 1
        try:
            if self._depth > MAX_DEPTH:
                raise TypeError(f"{where}: the type is nested too deeply")
            return self._make(annotation, where)
        finally:
            self._depth -= 1

    def finish(self, schema: dict[str, Any]) -> dict[str, Any]:
        """The schema with the definitions that it needs."""
        return {**schema, "$defs": dict(self.definitions)} if self.definitions else schema

    def _make(self, annotation: Any, where: str) -> Type:
        origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
        if annotation is Any or annotation is object:
            return Type({}, lambda value, _: value, _write_any)
        if annotation is None or annotation is type(None):
            return _exact({"type": "null"}, "null", lambda value: value is None)
        # Not all annotations are hashable.
        if isinstance(annotation, type) and annotation in _PLAIN_NAMES:
            return _make_plain(annotation)
        if origin is typing.Annotated:
            return self._make_annotated(arguments, where)
        if origin in (typing.Union, types.UnionType):
            return self._make_union(arguments, where)
        if origin is typing.Literal:
            return _make_literal(arguments, where)
        if annotation is list or origin is list:
            return self._make_list(arguments or (Any,), where)
        if annotation is tuple or origin is tuple:
            return self._make_tuple(arguments or (Any, ...), where)
        if annotation is dict or origin is dict:
            return self._make_dict(arguments or (str, Any), where)
        if isinstance(annotation, type):
            made = self._make_class(annotation, where)
            if made is not None:
                return made
        raise TypeError(
            f"{where}: the annotation {_show(annotation)} cannot become a JSON Schema; use str,"
            " int, float, bool, None, list, dict, tuple, Union, Literal, Enum, TypedDict or a"
            " dataclass, or give an ipybox.Tool with an input_schema"
        )

    def _make_annotated(self, arguments: tuple[Any, ...], where: str) -> Type:
        made = self.make(arguments[0], where)
        texts = [each for each in arguments[1:] if isinstance(each, str)]
        if not texts:
            return made
        return dataclasses.replace(made, schema={**made.schema, "description": texts[0]})

    def _make_union(self, arguments: tuple[Any, ...], where: str) -> Type:
        members = [self.make(argument, where) for argument in arguments]

        def read(value: Any, place: str) -> Any:
            return _first(members, "read", value, place)

        def write(value: Any, place: str) -> Any:
            return _first(members, "write", value, place)

        return Type({"anyOf": [member.schema for member in members]}, read, write)

    def _make_list(self, arguments: tuple[Any, ...], where: str) -> Type:
        item = self.make(arguments[0], where)

        def read(value: Any, place: str) -> Any:
            _check(isinstance(value, list), value, place, "a list")
            return [item.read(each, f"{place}[{i}]") for i, each in enumerate(value)]

        def write(value: Any, place: str) -> Any:
            _check(isinstance(value, (list, tuple)), value, place, "a list")
            return [item.write(each, f"{place}[{i}]") for i, each in enumerate(value)]

        return Type({"type": "array", "items": item.schema}, read, write)

    def _make_tuple(self, arguments: tuple[Any, ...], where: str) -> Type:
        if len(arguments) == 2 and arguments[1] is ...:
            made = self._make_list(arguments[:1], where)
            return dataclasses.replace(made, read=lambda *given: tuple(made.read(*given)))
        items = [self.make(argument, where) for argument in arguments if argument != ()]
        n = len(items)
        wanted = f"a list of {n} values"

        def read(value: Any, place: str) -> Any:
            _check(isinstance(value, list) and len(value) == n, value, place, wanted)
            return tuple(items[i].read(value[i], f"{place}[{i}]") for i in range(n))

        def write(value: Any, place: str) -> Any:
            _check(isinstance(value, (list, tuple)) and len(value) == n, value, place, wanted)
            return [items[i].write(value[i], f"{place}[{i}]") for i in range(n)]

        schemas = [item.schema for item in items]
        more = {"prefixItems": schemas, "items": False} if items else {}
        return Type({"type": "array", **more, "minItems": n, "maxItems": n}, read, write)

    def _make_dict(self, arguments: tuple[Any, ...], where: str) -> Type:
        if arguments[0] not in (str, Any):
            raise TypeError(f"{where}: the keys of a dict must be str, as in JSON")
        item = self.make(arguments[1], where)

        def convert(way: str, value: Any, place: str) -> Any:
            is_dict = isinstance(value, Mapping) and all(isinstance(key, str) for key in value)
            _check(is_dict, value, place, "a dict with texts as keys")
            turn = getattr(item, way)
            return {key: turn(each, f"{place}[{_show(key)}]") for key, each in value.items()}

        return Type(
            {"type": "object", "additionalProperties": item.schema},
            lambda value, place: convert("read", value, place),
            lambda value, place: convert("write", value, place),
        )

    # Classes

    def _make_class(self, kind: type, where: str) -> Type | None:
        if kind in self._classes:
            return self._classes[kind]
        if issubclass(kind, enum.Enum):
            return self._define(kind, lambda: _make_enum(kind, where))
        if dataclasses.is_dataclass(kind):
            return self._define(kind, lambda: self._make_dataclass(kind))
        if typing.is_typeddict(kind) or hasattr(kind, "__required_keys__"):
            return self._define(kind, lambda: self._make_typed_dict(kind))
        return None

    def _define(self, kind: type, make: Callable[[], Type]) -> Type:
        """A reference to the definition of a class, which may refer to itself."""
        name, number = kind.__name__, 1
        while name in self.definitions:
            number += 1
            name = f"{kind.__name__}_{number}"
        self.definitions[name] = {}
        made: list[Type] = []
        reference = Type(
            {"$ref": f"#/$defs/{_pointer(name)}"},
            lambda value, where: made[0].read(value, where),
            lambda value, where: made[0].write(value, where),
        )
        self._classes[kind] = reference
        made.append(make())
        self.definitions[name] = made[0].schema
        return reference

    def _make_dataclass(self, kind: Any) -> Type:
        hints = _hints(kind)
        fields = {
            field.name: self.make(hints[field.name], f"{kind.__name__}.{field.name}")
            for field in dataclasses.fields(kind)
        }
        required = [
            field.name
            for field in dataclasses.fields(kind)
            if field.init
            and field.default is dataclasses.MISSING
            and field.default_factory is dataclasses.MISSING
        ]
        given = {field.name for field in dataclasses.fields(kind) if field.init}

        def read(value: Any, where: str) -> Any:
            members = read_members(fields, given, required, value, where)
            try:
                return kind(**members)
            except (TypeError, ValueError) as error:  # of its own check
                raise Mismatch(f"{where}: {error}") from error

        def write(value: Any, where: str) -> Any:
            _check(isinstance(value, kind), value, where, f"a {kind.__name__}")
            return {
                name: member.write(getattr(value, name), f"{where}.{name}")
                for name, member in fields.items()
            }

        return Type(_object_schema(kind, fields, required), read, write)

    def _make_typed_dict(self, kind: Any) -> Type:
        fields = {
            name: self.make(_unqualified(hint), f"{kind.__name__}.{name}")
            for name, hint in _hints(kind).items()
        }
        required = [name for name in fields if name in kind.__required_keys__]

        def read(value: Any, where: str) -> Any:
            return read_members(fields, fields, required, value, where)

        def write(value: Any, where: str) -> Any:
            return read_members(fields, fields, required, value, where, "write")

        return Type(_object_schema(kind, fields, required), read, write)


def read_members(
    fields: Mapping[str, Type],
    given: Any,
    required: list[str],
    value: Any,
    where: str,
    way: str = "read",
) -> dict[str, Any]:
    """The members of an object.

    Args:
        fields: The types of the members.
        given: The names that the object may have.
        required: The names that it must have.
        value: The object.
        where: Where it is.
        way: `read` or `write`.

    Raises:
        Mismatch: If a member is unknown, missing or wrong.
    """
    _check(isinstance(value, Mapping), value, where, "an object")
    for name in value:
        if name not in given:
            raise Mismatch(f"{where}: there is no {_show(name)}")
    for name in required:
        if name not in value:
            raise Mismatch(f"{where}: {name!r} is missing")
    return {
        name: getattr(fields[name], way)(member, f"{where}.{name}")
        for name, member in value.items()
    }


def resolve(function: Any, what: str) -> dict[str, Any]:
    """The annotations of a function.

    Raises:
        TypeError: If a name in them is not defined.
    """
    try:
        return typing.get_type_hints(function, include_extras=True)
    except (NameError, AttributeError) as error:
        raise TypeError(f"{what}: an annotation cannot be resolved: {error}") from error


def _hints(kind: Any) -> dict[str, Any]:
    return resolve(kind, kind.__name__)


def _unqualified(annotation: Any) -> Any:
    while getattr(typing.get_origin(annotation), "_name", None) in _QUALIFIERS:
        annotation = typing.get_args(annotation)[0]
    return annotation


def _object_schema(kind: Any, fields: Mapping[str, Type], required: list[str]) -> dict[str, Any]:
    schema: dict[str, Any] = {
        "type": "object",
        "title": kind.__name__,
        "properties": {name: member.schema for name, member in fields.items()},
        "required": required,
        "additionalProperties": False,
    }
    text = kind.__dict__.get("__doc__")
    # The docstring that dataclass() makes is the signature.
    if text and not text.startswith(f"{kind.__name__}("):
        schema["description"] = text.strip()
    return schema


def _make_plain(kind: Any) -> Type:
    name = _PLAIN_NAMES[kind]
    if kind is float:
        return Type({"type": name}, _to_float, _to_float)
    if kind is int:
        return Type({"type": name}, _to_int, _to_int)
    return _exact({"type": name}, f"a {name}", lambda value: isinstance(value, kind))


def _exact(schema: dict[str, Any], wanted: str, is_right: Callable[[Any], bool]) -> Type:
    def convert(value: Any, where: str) -> Any:
        _check(is_right(value), value, where, wanted)
        return str(value) if isinstance(value, str) else value

    return Type(schema, convert, convert)


def _to_int(value: Any, where: str) -> int:
    is_whole = isinstance(value, float) and value.is_integer()
    _check(
        is_whole or (isinstance(value, int) and not isinstance(value, bool)),
        value,
        where,
        "an integer",
    )
    return int(value)


def _to_float(value: Any, where: str) -> float:
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    _check(is_number, value, where, "a number")
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    _check(math.isfinite(number), value, where, "a finite number")
    return number


def _make_literal(values: tuple[Any, ...], where: str) -> Type:
    for value in values:
        if value is not None and type(value) not in (str, int, bool):
            raise TypeError(f"{where}: Literal[{_show(value)}] has no JSON form: give its value")
    wanted = " or ".join(repr(value) for value in values)
    return _exact(
        {"enum": list(values)},
        wanted,
        lambda given: any(type(given) is type(value) and given == value for value in values),
    )


def _make_enum(kind: Any, where: str) -> Type:
    values = [member.value for member in kind]
    if not values or any(type(value) not in (str, int) for value in values):
        raise TypeError(f"{where}: the values of the enum {kind.__name__} must be str or int")
    wanted = " or ".join(repr(value) for value in values[:20])

    def read(value: Any, place: str) -> Any:
        is_value = any(type(value) is type(each) and value == each for each in values)
        _check(is_value, value, place, wanted)
        return kind(value)

    def write(value: Any, place: str) -> Any:
        _check(isinstance(value, kind), value, place, f"a {kind.__name__}")
        return value.value

    schema: dict[str, Any] = {"title": kind.__name__, "enum": values}
    if len({type(value) for value in values}) == 1:
        schema["type"] = _PLAIN_NAMES[type(values[0])]
    return Type(schema, read, write)


def _write_any(value: Any, where: str, depth: int = 0) -> Any:
    """A value without a type: what JSON has, and tuples, enums and dataclasses."""
    if depth > MAX_DEPTH:
        raise Mismatch(f"{where}: it is nested too deeply, or contains itself")
    if isinstance(value, enum.Enum):
        return _write_any(value.value, where, depth + 1)
    if value is None or isinstance(value, (bool, str)):
        return value
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float):
        return _to_float(value, where)
    if isinstance(value, (list, tuple)):
        return [_write_any(each, f"{where}[{i}]", depth + 1) for i, each in enumerate(value)]
    if isinstance(value, Mapping) and all(isinstance(key, str) for key in value):
        return {
            str(key): _write_any(each, f"{where}[{_show(key)}]", depth + 1)
            for key, each in value.items()
        }
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        names = [field.name for field in dataclasses.fields(value)]
        return {
            name: _write_any(getattr(value, name), f"{where}.{name}", depth + 1) for name in names
        }
    raise Mismatch(f"{where}: {_show(value)} has no JSON form")


def write_any(value: Any, where: str) -> Any:
    """A value without a type as JSON.

    Raises:
        Mismatch: If it has no JSON form.
    """
    return _write_any(value, where)


def _first(members: list[Type], way: str, value: Any, where: str) -> Any:
    failures = []
    for member in members:
        try:
            return getattr(member, way)(value, where)
        except Mismatch as error:
            failures.append(error)
    # A failure inside of a member says more than one about the whole value.
    raise max(failures, key=lambda error: len(str(error).partition(": ")[0]))


def _check(is_right: bool, value: Any, where: str, wanted: str) -> None:
    if not is_right:
        raise Mismatch(f"{where}: {wanted} is needed, not {_show(value)}")


def _show(value: Any) -> str:
    try:
        text = re.sub(r"\s+", " ", repr(value))
    except Exception:
        text = f"a {type(value).__name__}"
    return text if len(text) <= MAX_SHOWN else text[:MAX_SHOWN] + "…"


def _pointer(name: str) -> str:
    return name.replace("~", "~0").replace("/", "~1")
