# SPDX-License-Identifier: Apache-2.0
"""Tools of the application: functions of this program that cells may call."""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from .tool_types import Mismatch, Type, Types, read_members, resolve, write_any

DEFAULT_GROUP = "app"

_SECTION = re.compile(r"^(\w[\w ]*):\s*$")
_ARGUMENT_SECTIONS = ("args", "arguments", "parameters", "params")
# "name: text" or "name (type): text", as in the docstrings of Google and of this package.
_ARGUMENT = re.compile(r"^\*{0,2}(\w+)(?:\s*\([^)]*\))?:\s*(.*)$")
# ":param name: text" or ":param type name: text", as in Sphinx.
_FIELD = re.compile(r"^:(\w+)(?:\s+[^:]*?(\w+))?:\s*(.*)$")


class Tool:
    """A function of this program that cells may call as a tool.

        Tool("search", "Searches the catalogue.", {"type": "object", "properties": {…}}, search)

    Functions that are given without a Tool get theirs from their signature and docstring.

    Attributes:
        name: The name of the tool.
        description: What it does, for the model that writes the code.
        input_schema: A JSON Schema of its arguments: an object.
        output_schema: A JSON Schema of its result; None: the result is a text for the code.
    """

    def __init__(
        self,
        name: str,
        description: str,
        input_schema: Mapping[str, Any],
        function: Callable[..., Any],
        output_schema: Mapping[str, Any] | None = None,
    ) -> None:
        """
        Args:
            name: ASCII letters, digits, `_`, `-`, `.` and `/`. The code imports it as
                `mcptools.GROUP.NAME`, in lower case.
            description: What it does.
            input_schema: The schema of the arguments.
            function: Is called with the arguments by name. It may be a coroutine function. **The
                arguments come from untrusted code and are not compared with the schema.**
            output_schema: The schema of the result, which is not compared with it.
        """
        if not callable(function):
            raise TypeError(f"the tool {name!r}: {function!r} cannot be called")
        self.name = name
        self.description = description
        self.input_schema = dict(input_schema)
        self.output_schema = dict(output_schema) if output_schema is not None else None
        self._function = function
        self._read: Callable[[dict[str, Any]], dict[str, Any]] | None = None
        self._write: Callable[[Any, str], Any] = write_any

    @classmethod
    def from_function(
        cls, function: Callable[..., Any], name: str | None = None, description: str | None = None
    ) -> Tool:
        """Makes a tool of a function with annotations. Its docstring is the description.

        Arguments are checked, and become Python values: an Enum, a dataclass, a tuple. An
        annotation of the result is the schema of the result; a function that returns images or
        other `Content` returns a list of them. Descriptions of the arguments come from a section
        `Args:` of the docstring, from `:param name:`, or from `Annotated[str, "the description"]`.

        Args:
            function: A function, a method or a coroutine function. All its parameters must be
                possible by name.
            name: Its name. None: that of the function.
            description: What it does. None: the docstring.

        Raises:
            TypeError: If a parameter cannot be described; the text says which and why.
        """
        given_name = name or getattr(function, "__name__", None)
        if not callable(function) or not given_name or given_name == "<lambda>":
            raise TypeError(
                f"{function!r} is no function with a name: give Tool.from_function(…, name=…)"
            )
        text, descriptions = _split_docstring(inspect.getdoc(function) or "")
        types = Types()
        hints = resolve(_annotated(function), given_name)
        parameters = _read_parameters(function, given_name)
        fields = {
            each.name: types.make(hints.get(each.name, Any), f"{given_name}({each.name})")
            for each in parameters
        }
        schema = types.finish(_input_schema(parameters, fields, descriptions))
        made = cls(given_name, text if description is None else description, schema, function)
        required = list(schema["required"])
        made._read = lambda given: read_members(fields, fields, required, given, given_name)
        returned = hints.get("return", Any)
        if not _is_contents(returned):
            result_types = Types()
            result = result_types.make(returned, f"{given_name}(), its result")
            made.output_schema = result_types.finish(result.schema)
            made._write = result.write
        return made

    def __repr__(self) -> str:
        return f"Tool({self.name!r})"

    @property
    def is_async(self) -> bool:
        """Whether it runs in the event loop; else it runs in a thread."""
        function = self._function
        while isinstance(function, functools.partial):
            function = function.func
        call = type(function).__call__ if callable(function) else None
        return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(call)

    def describe(self) -> dict[str, Any]:
        """The tool as MCP describes tools."""
        made = {
            "name": self.name,
            "description": self.description,
            "inputSchema": self.input_schema,
        }
        if self.output_schema is not None:
            made["outputSchema"] = self.output_schema
        return made

    def call(self, arguments: dict[str, Any]) -> Any:
        """Calls the function. The result of a coroutine function must be awaited.

        Raises:
            Mismatch: If an argument is wrong.
        """
        given = self._read(arguments) if self._read is not None else arguments
        return self._function(**given)

    def make_result(self, value: Any) -> dict[str, Any]:
        """What the function returned, as the result of a tool in MCP.

        Raises:
            Mismatch: If it has no JSON form.
        """
        contents = _find_contents(value)
        if contents is not None:
            return {"content": contents}
        written = self._write(value, "the result")
        if isinstance(written, str) and self.output_schema is None:
            return {"content": [{"type": "text", "text": written}]}
        if written is None and self.output_schema is None:
            return {"content": []}
        return {"content": [], "structuredContent": written}


def collect_tools(given: Any) -> dict[str, dict[str, Tool]]:
    """The tools that an application offers, by group and name.

    Args:
        given: Tools and functions, or `{group: tools and functions}`. None: there are none.

    Raises:
        TypeError: If one cannot be described.
        ValueError: If a group has two tools of one name.
    """
    if given is None:
        return {}
    groups = given if isinstance(given, Mapping) else {DEFAULT_GROUP: given}
    return {str(name): _collect_group(str(name), tools) for name, tools in groups.items() if tools}


def _collect_group(group: str, given: Iterable[Any]) -> dict[str, Tool]:
    if callable(given) or isinstance(given, (str, Tool)):
        raise TypeError(f"tools: {group} must be a list of functions and tools, not {given!r}")
    tools: dict[str, Tool] = {}
    for each in given:
        tool = each if isinstance(each, Tool) else Tool.from_function(each)
        if tool.name in tools:
            raise ValueError(f"tools: {group} has two tools with the name {tool.name!r}")
        tools[tool.name] = tool
    return tools


# Contents: images, texts and others, for functions that return `Content` or a list of them


def _is_contents(annotation: Any) -> bool:
    # Imported here, because most programs do not need it.
    from .kernel_host.stub.ipybox.tool_exec.content import Content

    return annotation is Content or annotation == list[Content]


def _find_contents(value: Any) -> list[Any] | None:
    if not value or not isinstance(value, (dict, list)):
        return None
    from .kernel_host.stub.ipybox.tool_exec.content import Content

    parts = value if isinstance(value, list) else [value]
    return list(parts) if all(isinstance(part, Content) for part in parts) else None


# Signatures


def _annotated(function: Any) -> Any:
    """What has the annotations: of an object with `__call__`, that method."""
    while isinstance(function, functools.partial):
        function = function.func
    function = inspect.unwrap(function)
    is_function = inspect.isroutine(function) or inspect.isclass(function)
    return function if is_function else type(function).__call__


def _read_parameters(function: Any, name: str) -> list[inspect.Parameter]:
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError) as error:
        raise TypeError(f"{name} has no signature: {error}; give a Tool with a schema") from error
    for parameter in parameters:
        if parameter.kind not in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
            raise TypeError(
                f"{name}: the parameter {parameter} cannot be given by name: change it, or give a"
                " Tool with an input_schema"
            )
    return parameters


def _input_schema(
    parameters: list[inspect.Parameter], fields: Mapping[str, Type], descriptions: dict[str, str]
) -> dict[str, Any]:
    properties: dict[str, Any] = {}
    for parameter in parameters:
        field = fields[parameter.name]
        described = dict(field.schema)
        if parameter.name in descriptions:
            described.setdefault("description", descriptions[parameter.name])
        if parameter.default is not parameter.empty:
            try:
                described["default"] = field.write(parameter.default, parameter.name)
            except Mismatch:
                pass  # the function's own default, which the schema cannot say
        properties[parameter.name] = described
    required = [each.name for each in parameters if each.default is each.empty]
    return {
        "type": "object",
        "properties": properties,
        "required": required,
        "additionalProperties": False,
    }


# Docstrings


def _split_docstring(text: str) -> tuple[str, dict[str, str]]:
    """The text without what it says about arguments, and that, by their names."""
    kept: list[str] = []
    arguments: dict[str, str] = {}
    lines = text.splitlines()
    at = 0
    while at < len(lines):
        section = _SECTION.match(lines[at])
        field = _FIELD.match(lines[at])
        if section and section[1].lower() in _ARGUMENT_SECTIONS:
            at = _read_section(lines, at + 1, arguments)
        elif field and field[1] == "param" and field[2]:
            at = _read_field(lines, at, field, arguments)
        else:
            kept.append(lines[at])
            at += 1
    return "\n".join(kept).strip(), arguments


def _read_section(lines: list[str], at: int, arguments: dict[str, str]) -> int:
    """Reads the indented lines of a section. Returns the line behind it."""
    indent, name = None, None
    while at < len(lines) and (not lines[at].strip() or lines[at][0] in " \t"):
        line = lines[at].strip()
        width = len(lines[at]) - len(lines[at].lstrip())
        if line and indent is None:
            indent = width
        entry = _ARGUMENT.match(line) if width == indent else None
        if entry:
            name = entry[1]
            arguments[name] = entry[2]
        elif line and name is not None:
            arguments[name] = f"{arguments[name]} {line}".strip()
        at += 1
    return at


def _read_field(lines: list[str], at: int, field: re.Match[str], arguments: dict[str, str]) -> int:
    """Reads `:param name: text` and its indented lines. Returns the line behind it."""
    text = [field[3]]
    at += 1
    while at < len(lines) and lines[at][:1] in (" ", "\t") and lines[at].strip():
        text.append(lines[at].strip())
        at += 1
    arguments[field[2]] = " ".join(text).strip()
    return at
