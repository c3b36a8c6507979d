# SPDX-License-Identifier: Apache-2.0
"""Generated packages: imported, called, and compared with what goes over the wire."""

from __future__ import annotations

import asyncio
import builtins
import copy
import functools
import inspect
import json
import pickle
import random
import re
import subprocess
from pathlib import Path
from typing import Any

import apigen_package
import pytest
from apigen_package import LISTS, Package, ResultError, check_clean, write
from pydantic import ValidationError
from random_schemas import Schemas, make_nonsense


def tool(properties: dict[str, Any] | None = None, *, name: str = "do", required: list[str] | None = None, **more: Any):
    """A tool; `more`: other members of its input schema, or of the tool if they are its own."""
    own = {key: more.pop(key) for key in ("title", "description", "outputSchema") if key in more}
    schema = {"type": "object", "properties": properties or {}, "required": required or [], **more}
    return {"name": name, "inputSchema": schema, **own}


@pytest.fixture
def make(workspace: Path):
    """make(tool, …): the package of these tools."""

    def make(*tools: dict, options: tuple[str, ...] = ()) -> Package:
        return Package(workspace, list(tools), *options)

    return make


@pytest.fixture
def sends(make):
    """sends(schema, value): the JSON that `p=value` becomes, for a tool whose parameter p has the schema."""

    def sends(schema: Any, value: Any, **more: Any) -> str:
        text = make(tool({"p": schema}, **more)).send("do", p=value)
        assert text.startswith('{"p": ') and text.endswith("}")
        return text[len('{"p": ') : -1]

    return sends


@pytest.fixture
def refuses(make):
    """refuses(schema, value): such a parameter is refused."""

    def refuses(schema: Any, value: Any, **more: Any) -> None:
        with pytest.raises(ValidationError):
            make(tool({"p": schema}, **more)).send("do", p=value)

    return refuses


SEARCH = tool(
    {
        "query": {"type": "string", "description": "Repository search query."},
        "sort": {
            "type": "string",
            "description": "Sort by field, defaults to best match",
            "enum": ["stars", "forks", "help-wanted-issues", "updated"],
        },
        "order": {"type": "string", "enum": ["asc", "desc"]},
        "minimal_output": {"type": "boolean", "default": True},
        "page": {"type": "number", "minimum": 1},
        "perPage": {"type": "number", "minimum": 1, "maximum": 100},
    },
    name="search_repositories",
    required=["query"],
    description="Find GitHub repositories.",
)

SEARCH_SOURCE = '''\
"""Tool search_repositories of MCP server srv."""

from enum import Enum

from pydantic import Field

from . import CLIENT, Model


class Sort(str, Enum):
    stars = "stars"
    forks = "forks"
    help_wanted_issues = "help-wanted-issues"
    updated = "updated"


class Order(str, Enum):
    asc = "asc"
    desc = "desc"


class Params(Model):
    query: str
    """Repository search query."""

    sort: Sort | None = None
    """Sort by field, defaults to best match"""

    order: Order | None = None
    minimal_output: bool = True
    page: int | float | None = Field(default=None, ge=1)
    perPage: int | float | None = Field(default=None, ge=1, le=100)


def run(params: Params | None = None, **fields: object) -> str:
    """Find GitHub repositories."""
    result: str = CLIENT.run_sync("search_repositories", Params.for_call(params, fields))
    return result
'''


def test_source(make):
    assert make(SEARCH).source("search_repositories") == SEARCH_SOURCE


def test_call_as_in_the_guide(make):
    package = make(SEARCH)
    search = package["search_repositories"]
    result = search.run(
        search.Params(
            query="user:torvalds", sort=search.Sort.stars, order=search.Order.desc, perPage=10, minimal_output=False
        )
    )
    assert result == "done"
    (name, arguments) = package.client.calls[0]
    assert name == "search_repositories"
    assert json.loads(arguments) == {
        "query": "user:torvalds", "sort": "stars", "order": "desc", "perPage": 10, "minimal_output": False
    }  # fmt: skip
    assert (package.client.server_name, package.client.server_id) == ("srv", "0123456789abcdef0123456789abcdef")


def test_plain_values_unset_and_none(make):
    package = make(SEARCH)
    name = "search_repositories"
    params = package[name].Params(query="x", sort="help-wanted-issues")
    assert params.sort == package[name].Sort.help_wanted_issues == "help-wanted-issues"
    assert f"{params.sort}" == "help-wanted-issues"
    assert package.send(name, query="x", sort="forks") == '{"query": "x", "sort": "forks"}'
    assert package.send(name, query="x") == '{"query": "x"}'
    assert package.send(name, query="x", sort=None) == '{"query": "x"}'  # the schema knows no null
    assert package.send(name, query="x", minimal_output=True) == '{"query": "x", "minimal_output": true}'
    params = package[name].Params(query="x")
    params.perPage = 7
    package[name].run(params)
    assert package.client.calls[-1][1] == '{"query": "x", "perPage": 7}'
    params.perPage = None
    package[name].run(params)
    assert package.client.calls[-1][1] == '{"query": "x"}'


@pytest.mark.parametrize(
    "arguments",
    [{}, {"query": 1}, {"query": "x", "sort": "size"}, {"query": "x", "perPage": 101}, {"query": "x", "page": 0}],
)
def test_wrong_arguments(make, arguments):
    package = make(SEARCH)
    with pytest.raises(ValidationError):
        package.send("search_repositories", **arguments)
    params = package["search_repositories"].Params(query="x")
    with pytest.raises(ValidationError):
        params.perPage = 0
    assert package.client.calls == []


def test_none_is_null_only_where_the_schema_knows_it(make):
    """None for an optional parameter means "not given", as in the original; null is sent where it is a value."""
    null = {"type": "null"}
    properties = {
        "plain": {"type": "string"},
        "list": {"type": ["string", "null"]},
        "any_of": {"anyOf": [{"type": "integer"}, null], "default": None},
        "nullable": {"type": "integer", "nullable": True},
        "only": null,
        "anything": {},
        "enum": {"enum": ["a", "b", None]},
        "choice": {"enum": ["a", "b"]},
        "object": {"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": ["integer", "null"]}}},
        "nested": {"$ref": "#/$defs/n"},
        "needed": {"type": ["string", "null"]},
        "defaulted": {"type": ["integer", "null"], "default": 5},
    }
    definitions = {"n": {"anyOf": [{"type": "object", "properties": {"n": {"$ref": "#/$defs/n"}}}, null]}}
    package = make(tool(properties, required=["needed"], **{"$defs": definitions}))
    arguments = {name: None for name in properties}
    left = {name: None for name in properties if name not in ("plain", "choice", "object")}
    assert json.loads(package.send("do", **arguments)) == left
    assert json.loads(package.send("do", needed="x", object={"a": None, "b": None}, nested={"n": None})) == {
        "needed": "x", "object": {"b": None}, "nested": {"n": None}
    }  # fmt: skip
    assert package["do"].Params(**arguments).plain is None
    assert SEARCH_SOURCE.count("_nullable") == 0 == package.source("do").count("_nullable = ()")


def test_fields_by_name(make):
    """run(name=value) is run(Params(name=value)), whatever the names; nothing else is taken."""
    odd = tool({"params": {"type": ["integer", "object"]}, "from": {"type": "string"}, "a-b": {}, "fields": {}, "cls": {}, "self": {}}, name="odd")
    package = make(SEARCH, odd, tool(name="empty"))
    search, odd, empty = package["search_repositories"].run, package["odd"].run, package["empty"].run
    calls = [
        (lambda: search(query="x", sort="forks"), {"query": "x", "sort": "forks"}),
        (lambda: search(params=package["search_repositories"].Params(query="x")), {"query": "x"}),
        (lambda: empty(), {}),
        (lambda: empty(package["empty"].Params()), {}),
        (lambda: odd(params=5, from_="a", fields=1, cls=2, self=3), {"params": 5, "from": "a", "fields": 1, "cls": 2, "self": 3}),
        (lambda: odd(**{"from": "b", "a-b": None}), {"from": "b", "a-b": None}),
        (lambda: odd({"k": 1}), {"params": {"k": 1}}),
    ]
    for call, sent in calls:
        call()
        assert json.loads(package.client.calls[-1][1]) == sent
    before = len(package.client.calls)
    with pytest.raises(ValidationError):
        search(sort="forks")
    for arguments in ([{"query": "x"}], ["x"], [package["empty"].Params()]):
        with pytest.raises(TypeError, match="takes Params"):
            search(*arguments)
    with pytest.raises(TypeError, match="takes Params"):
        search(package["search_repositories"].Params(query="x"), page=1)
    assert len(package.client.calls) == before


def test_async(make):
    package = make(SEARCH, options=("--async",))
    search = package["search_repositories"]
    assert asyncio.run(search.run(search.Params(query="x"))) == "done"
    assert asyncio.run(search.run(query="x")) == "done"
    assert package.client.calls == [("search_repositories", '{"query": "x"}')] * 2


ANY_VALUES = [2**70, -(2**70), 0.1, 1e300, -0.0, 1, 1.0, True, None, "é", "\ud800", "a\0b", [1, [2.5]], {"\udc00": {"x": None}}]
VALUES = [
    *(({}, value) for value in ANY_VALUES),
    *(({"type": "object"}, {"k": value}) for value in ANY_VALUES),
    *(({"type": "array"}, [value]) for value in ANY_VALUES),
    ({"type": "integer"}, 2**70),
    ({"type": "integer", "minimum": -(2**80), "maximum": 2**80}, 2**70),
    ({"type": "number"}, 2**70),
    ({"type": "number"}, 1),
    ({"type": "number"}, 0.1),
    ({"type": "number"}, -0.0),
    ({"type": "number", "minimum": 0.5}, 1e300),
    ({"type": "string"}, "\ud800 \0 \u2028 é 🎉"),
    ({"type": "string", "enum": ["\ud800", "b"]}, "\ud800"),
    ({"type": "string", "enum": ["a", "b", None]}, None),
    ({"type": ["string", "null"], "enum": ["a", "b"]}, None),
    ({"enum": ["auto", 1, 2, None]}, 2),
    ({"enum": ["auto", 1, 2, None]}, None),
    ({"enum": [1, 2, 3], "type": "integer"}, 3),
    ({"enum": [True, 1, "x"]}, 1),
    ({"enum": [0.5, 1.5]}, 0.5),
    ({"enum": [{"a": 1}, [2]]}, {"a": 1}),
    ({"const": "only"}, "only"),
    ({"const": {"a": [1]}}, {"a": [1]}),
    ({"type": ["string", "integer", "null"]}, "5"),
    ({"type": ["string", "integer", "null"]}, 5),
    ({"type": ["integer", "number"]}, 5),
    ({"type": ["boolean", "integer"]}, 1),
    ({"type": ["boolean", "integer"]}, True),
    ({"anyOf": [{"type": "array", "items": {"type": "string"}}, {"type": "string"}, {"type": "null"}]}, ["a"]),
    ({"anyOf": [{"type": "array", "items": {"type": "integer"}}, {"type": "array", "items": {"type": "string"}}]}, ["1"]),
    ({"anyOf": [{"enum": ["a", 1]}, {"type": "boolean"}]}, True),
    ({"anyOf": [{"enum": ["a", 1]}, {"type": "boolean"}]}, 1),
    ({"anyOf": [{"enum": [1, 2]}, {"enum": [True, "a"]}]}, True),
    ({"anyOf": [{"enum": [1, 2]}, {"enum": [True, "a"]}]}, 1),
    ({"anyOf": [{"const": True}, {"type": "integer"}]}, 1),
    ({"oneOf": [{"const": "a", "title": "The a"}, {"const": "b", "description": "The b"}]}, "b"),
    ({"type": "array", "prefixItems": [{"type": "string"}, {"type": "integer"}]}, ["a", 1]),
    ({"type": "array", "items": [{"type": "string"}, {"type": "integer"}]}, ["a", 1]),
    ({"type": "array", "allOf": [{"items": [{"type": "integer"}]}], "additionalItems": {"type": "boolean"}}, [1, None]),
    ({"$ref": "b#n", "$defs": {"B": {"$id": "b", "allOf": [{"$id": "c", "$anchor": "n", "type": "integer"}, {"$anchor": "n", "type": "string"}]}}}, "x"),
    ({"type": "object", "additionalProperties": {"type": "integer"}}, {"any key": 1}),
    ({"type": "object", "patternProperties": {"^x": {"type": "integer"}}}, {"x": 1}),
    ({"type": "object", "properties": {"a": {"type": "integer"}}}, {"a": 1, "more": [1]}),
    ({"type": "object", "properties": {"a": {"type": "integer", "default": 3}}}, {}),
    ({"allOf": [{"type": "object", "properties": {"a": {"type": "integer"}}}, {"properties": {"b": {"type": "string"}}}]}, {"a": 1, "b": "x"}),
    ({"type": "object", "properties": {"k": {"const": "x"}}, "oneOf": [{"properties": {"l": {"type": "string"}}}, {"properties": {"l": {"type": "integer"}}}]}, {"k": "x", "l": 1}),
    ({"type": "string", "format": "date-time"}, "2024-01-01T00:00:00+00:00"),
    ({"type": "string", "format": "uuid"}, "NOT-normalised"),
    ({"type": "string", "pattern": "^(?=.*x)(?!y)\\p{L}+$"}, "ax"),
    ({"$ref": "https://example.org/schema.json"}, {"x": 1}),
    ({"$ref": "#/nowhere"}, 7),
    ({"type": "string", "nullable": True}, None),
    ({"type": "integer", "minimum": 5, "exclusiveMinimum": True}, 6),
    ({"type": "integer", "multipleOf": 5}, 10),
    ({"type": "number", "multipleOf": 0.01}, 0.29),
    ({"type": "number", "maximum": 1e308, "minimum": -1e308}, 1),
    (True, 1),
    ("nonsense", 1),
    ({"type": "mystery"}, 1),
    ({"type": 5, "enum": 5, "properties": 5, "anyOf": 5, "allOf": 5, "required": 5, "items": 5, "$ref": 5}, 1),
    ({"type": "object", "properties": {"a": {"not": {"type": "string"}}}, "if": {}, "then": {}}, {"a": 1}),
]  # fmt: skip


@pytest.mark.parametrize(("schema", "value"), VALUES, ids=[str(number) for number in range(len(VALUES))])
def test_valid_values_arrive_unchanged(sends, schema, value):
    assert sends(schema, value) == json.dumps(value)


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        ({"type": "number"}, float("nan")),
        ({"type": "number"}, float("inf")),
        ({"type": "integer"}, 1.5),
        ({"type": "integer", "minimum": 5}, 4),
        ({"type": "integer", "exclusiveMinimum": 5}, 5),
        ({"type": "integer", "minimum": 5, "exclusiveMinimum": True}, 5),
        ({"type": "integer", "multipleOf": 5}, 12),
        ({"type": "string", "minLength": 2}, "x"),
        ({"type": "string", "maxLength": 2}, "xyz"),
        ({"type": "array", "minItems": 1}, []),
        ({"type": "array", "items": {"type": "integer", "maximum": 3}}, [4]),
        ({"type": "array", "items": {"type": "string", "enum": ["a", "b"]}}, ["c"]),
        ({"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}, {}),
        ({"type": "object", "properties": {"a": {}}, "additionalProperties": False}, {"b": 1}),
        ({"type": "object", "additionalProperties": {"type": "integer"}}, {"a": "x"}),
        ({"const": "only"}, "other"),
        ({"enum": [1, 2]}, 3),
        ({"anyOf": [{"type": "string", "maxLength": 2}, {"type": "null"}]}, "abc"),
        ({"anyOf": [{"type": "string"}, {"type": "null"}]}, 1),
    ],
)
def test_invalid_values_are_refused(refuses, schema, value):
    refuses(schema, value)


def test_nan_in_untyped_places_fails_when_sent(make):
    package = make(tool({"p": {}}))
    with pytest.raises(ValueError):
        package.send("do", p=float("nan"))


def test_other_arguments(make):
    package = make(
        tool({"a": {"type": "integer"}}, name="open"),
        tool({"a": {"type": "integer"}}, name="closed", additionalProperties=False),
        tool(name="empty", additionalProperties=False),
    )
    assert package.send("open", b=[1]) == '{"b": [1]}'
    for name in ("closed", "empty"):
        with pytest.raises(ValidationError):
            package.send(name, b=1)
    assert package.send("empty") == "{}"


HOSTILE_NAMES = [
    "class", "None", "def", "str", "int", "list", "dict", "float", "bool", "Any", "Literal", "Field", "Annotated",
    "schema", "json", "copy", "dict ", "construct", "validate", "model_config", "model_fields", "model_dump", "model_x",
    "to_wire", "from_wire", "parse_obj", "__init__", "__class__", "__dict__", "_private", "__slots__", "self", "cls",
    "", " ", "_", "__", "1", "1st", "a b", "a-b", "a_b", "a.b", "a__b", "from", "from_", "from_2", "x\ny", 'q"""q',
    "back\\slash", "ünïcode", "名前", "ⅷ", "ﬁ", "K", "𝐱", "x\u202ey", "\u200b", "🎉", "🎉🎉", "\ud800", "a\0b", "a\0c",
    "n" * 10_000, "n" * 10_001, "Params", "Result", "Model", "CLIENT", "run", "P", "annotations", "ClassVar", "Enum",
    "${HOME}", "{x}", "%s", "'", "\\", "#", "print(1)", "BaseModel", "match", "type", "id", "name", "value", "object",
]  # fmt: skip


def test_hostile_property_names(make):
    package = make(tool({name: {"type": "integer", "description": name} for name in HOSTILE_NAMES}))
    with pytest.raises(ValidationError, match="unicode"):  # pydantic has no members of such names
        package.send("do", **{"\ud800": 1})
    usable = [name for name in HOSTILE_NAMES if name != "\ud800"]
    arguments = {name: number for number, name in enumerate(usable)}
    # By the wire's names.
    text = package.send("do", **arguments)
    assert json.loads(text) == arguments
    # By Python's names.
    fields = package["do"].Params.model_fields
    assert len(fields) == len(usable)
    by_alias = {name if field.alias is None else field.alias: name for name, field in fields.items()}
    by_name = {by_alias[name]: number for name, number in arguments.items()}
    assert all(name.isidentifier() for name in by_name)
    assert json.loads(package.send("do", **by_name)) == arguments
    # What was usable has stayed.
    for name in ("self", "cls", "a_b", "from_", "match", "type", "id", "model_x", "ünïcode", "名前", "object"):
        assert name in fields


def test_hostile_names_of_nested_classes(make):
    names = ["Params", "Result", "Model", "str", "List", "any", "Enum", "field", "1", "🎉", "class", "none", "Literal", "Any"]
    properties = {
        name: {"type": "object", "properties": {name: {"type": "object", "properties": {"x": {"type": "integer"}}}}}
        for name in names
    }
    package = make(tool(properties))
    arguments = {name: {name: {"x": 1}} for name in names}
    assert json.loads(package.send("do", **arguments)) == arguments


def test_hostile_enum_values(make):
    values = [name for name in HOSTILE_NAMES if name != "\ud800"] + ["mro", "title", "count", "index", "_ignore_", "__x__"]
    package = make(tool({"kind": {"enum": values}}))
    assert len(list(package["do"].Kind)) == len(values)
    for member in package["do"].Kind:
        assert json.loads(package.send("do", kind=member)) == {"kind": member.value}
        assert json.loads(package.send("do", kind=member.value)) == {"kind": member.value}
    assert package["do"].Kind.title.value == "title" and package["do"].Kind.name.value == "name"


def test_hostile_tool_names(make):
    names = [
        "run", "params", "__init__", "__main__", "class", "import", "None", "t" * 10_000, "t" * 9_999, "a b", "a_b", "a-b", "A_B",
        "1", "日本", "語本", "🎉", "../../etc/passwd", "a/b", "a\\b", "client", "model", "typing", "json", "enum", "pydantic",
        "ipybox", "x.py", ".", "..", 'q"""+q', "new\nline", "a\0b", "\ud800", "annotations", "true",
    ]  # fmt: skip
    package = make(*(tool(name=name, description=name, title=name) for name in names))
    assert len(set(package.names)) == len(names)
    assert {path.name for path in package.directory.iterdir() if path.name != "__pycache__"} == {
        ".generated", "__init__.py", *(f"{name}.py" for name in package.names)
    }  # fmt: skip
    for name, module in zip(names, package.names, strict=True):
        assert len(f"{module}.py".encode()) <= 200 and module.isidentifier() and module == module.lower()
        package.send(module)
        assert package.client.calls[-1] == (name, "{}")
    by_name = dict(zip(names, package.names, strict=True))
    assert by_name["a_b"] == "a_b" and by_name["run"] == "run" and by_name["class"] == "class_"
    assert {by_name[name] for name in ("a b", "a-b", "A_B")} == {"a_b_2", "a_b_3", "a_b_4"}
    assert "from srv import client" and package["client"].Params


BREAKOUTS = [
    '"""', '""""', '"' * 7, "'''", '\\"""', "\\", "\\\\", 'x"', 'x\\"', '"', '" ', '"""\nimport os\nos.abort()\n"""',
    "\\N{DIGIT ONE} \\x \\u12 \\", "a\rb", "a\r\nb", "a\fb", "a\vb", "a\x85b", "a\u2028b\u2029c", "a\0b", "\ud800", "\ufeff",
    "\u202e right to left \u2066", "\U000e0041\U000e0042", "  indented\n    more\n  less", "\t\ttabs", "\n\n\n", " ", "",
    "long " * 5000, "w" * 30_000, '"' * 30_000, "\\" * 30_000, '" ' * 3000, "# coding: rot13", "{x} %s ${HOME}",
    "a" * 92 + '"""', "a" * 93 + '"', "a " * 46 + '"""' + " b" * 50, "a " * 46 + "\\" + " b" * 50, "é" * 200, "\n".join(['"""'] * 9),
]  # fmt: skip


@pytest.mark.parametrize("text", BREAKOUTS, ids=[str(number) for number in range(len(BREAKOUTS))])
def test_texts_stay_texts(make, text):
    """Wherever a text may stand; check_source has looked at what the module consists of."""
    package = make(
        tool(
            {
                text: {"type": "string", "description": text, "title": text, "default": text, "pattern": text, "format": text},
                "e": {"type": "string", "enum": ["x" + text, "y"], "description": text, "default": "x" + text},
                "c": {"const": text},
                "o": {"$ref": "#/$defs/o"},
                "r": {"$ref": text},
                "one": {"oneOf": [{"const": text, "title": text}, {"const": "b", "description": text}]},
            },
            name="t" + text,
            title=text,
            description=text,
            outputSchema={"description": text, "type": "array", "items": {"description": text, "const": text}},
            **{"$defs": {"o": {"description": text, "title": text, "type": "object", "properties": {"a" + text: {}}}}},
        )
    )
    (module,) = package.names
    object = {} if "\ud800" in text else {"a" + text: 1}  # pydantic has no members of such names
    assert json.loads(package.send(module, c=text, o=object)) == {"c": text, "o": object}
    for name in ("__init__", module):
        source = package.source(name)
        assert not set(source) & set("\0\r\f\v\x85\u2028\u2029\u202e\u2066\ufeff\U000e0041\U000e0042")
        assert len(source) < 700_000


def test_descriptions_are_wrapped_and_dedented(make):
    description = (
        "Reads.\n\n    Args:\n        path: " + "where it is " * 12 + "\n        - item " + "one two " * 20 + "\n\n\n\n    Ends.  \n"
    )
    package = make(tool({"p": {"type": "string", "description": "word " * 60}}, description=description))
    assert all(len(line) <= 100 for line in package.source("do").splitlines())
    lines = inspect.cleandoc(package["do"].run.__doc__).splitlines()  # from Python 3.13 on it is clean already
    assert lines[:3] == ["Reads.", "", "Args:"] and lines[3].startswith("    path: where")
    assert lines[-2:] == ["", "Ends."]
    assert "word " * 59 + "word" in " ".join(package.source("do").split())


def test_recursion(make):
    node = {"type": "object", "properties": {"name": {"type": "string"}, "kids": {"type": "array", "items": {"$ref": "#/$defs/Node"}}}, "required": ["name"]}  # fmt: skip
    package = make(
        tool({"root": {"$ref": "#/$defs/Node"}}, **{"$defs": {"Node": node}}, outputSchema={**node, "$defs": {"Node": node}}),
        tool({"a": {"$ref": "#/$defs/A"}}, name="mutual", **{"$defs": {
            "A": {"type": "object", "properties": {"b": {"$ref": "#/$defs/B"}, "n": {"type": "integer"}}},
            "B": {"type": "object", "properties": {"a": {"anyOf": [{"$ref": "#/$defs/A"}, {"type": "null"}]}}},
        }}),
        tool({"self": {"$ref": "#"}, "x": {"type": "integer"}}, name="root"),
        tool({"j": {"$ref": "#/$defs/Json"}}, name="alias", **{"$defs": {
            "Json": {"anyOf": [{"type": "string"}, {"type": "array", "items": {"$ref": "#/$defs/Json"}}]}
        }}),
        tool({"l": {"$ref": "#/$defs/L"}}, name="loop", **{"$defs": {"L": {"$ref": "#/$defs/M"}, "M": {"$ref": "#/$defs/L"}}}),
        tool({"l": {"$ref": "#/$defs/L"}}, name="all", **{"$defs": {
            "L": {"allOf": [{"$ref": "#/$defs/L"}, {"properties": {"l": {"$ref": "#/$defs/L"}, "x": {"type": "integer"}}}]}
        }}),
    )  # fmt: skip
    tree = {"name": "a", "kids": [{"name": "b", "kids": [{"name": "c"}]}]}
    assert json.loads(package.send("do", root=tree)) == {"root": tree}
    with pytest.raises(ValidationError):
        package.send("do", root={"name": "a", "kids": [{"name": "b", "kids": [{}]}]})
    package.client.result = tree
    result = package["do"].run(package["do"].Params())
    assert result.kids[0].kids[0].name == "c"
    package.client.result = "done"
    deep = {"b": {"a": {"b": {"a": None}, "n": 2}}}
    assert json.loads(package.send("mutual", a=deep)) == {"a": deep}
    with pytest.raises(ValidationError):
        package.send("mutual", a={"b": {"a": {"n": "x"}}})
    assert json.loads(package.send("root", x=1, self={"self": {"x": 2}})) == {"x": 1, "self": {"self": {"x": 2}}}
    with pytest.raises(ValidationError):
        package.send("root", self={"x": "y"})
    assert json.loads(package.send("alias", j=["a", ["b"]])) == {"j": ["a", ["b"]]}
    assert json.loads(package.send("loop", l=1)) == {"l": 1}
    with pytest.raises(ValidationError):
        package.send("all", l={"l": {"l": {"x": "y"}}})


def test_definitions(make):
    """References in all the ways that stay in the document; a definition is one class however it is reached."""
    user = {"type": "object", "description": "A user.", "properties": {"id": {"type": "integer"}}, "required": ["id"], "$anchor": "user"}
    package = make(
        tool(
            {
                "a": {"$ref": "#/$defs/user~1account"},
                "b": {"$ref": "#/%24defs/user~1account", "description": "The second."},
                "c": {"$ref": "#user"},
                "d": {"anyOf": [{"$ref": "https://example.org/s#user"}, {"type": "null"}], "default": None},
                "e": {"allOf": [{"$ref": "#/$defs/user~1account"}]},
                "f": {"type": "array", "items": {"$ref": "#/properties/a"}},
                "g": {"$ref": "#/definitions/list/items/0"},
            },
            **{"$id": "https://example.org/s", "$defs": {"user/account": user}, "definitions": {"list": {"items": [{"type": "integer"}]}}},
        )
    )  # fmt: skip
    source = package.source("do")
    assert source.count("(Model)") == 2 and source.count("A user.") == 1 and "The second." in source
    for name in "abcde":
        assert json.loads(package.send("do", **{name: {"id": 1}})) == {name: {"id": 1}}
        with pytest.raises(ValidationError):
            package.send("do", **{name: {"id": "x"}})
    with pytest.raises(ValidationError):
        package.send("do", f=[{}])
    with pytest.raises(ValidationError):
        package.send("do", g="x")


def test_defaults(make):
    package = make(
        tool(
            {
                "n": {"type": "integer", "default": 30},
                "f": {"type": "number", "default": 0.1},
                "s": {"type": "string", "default": "x"},
                "e": {"enum": ["a b", "c"], "default": "a b"},
                "o": {"type": ["string", "null"], "default": None},
                "l": {"type": "array", "default": [1]},
                "d": {"type": "object", "default": {"a": 1}},
                "wrong": {"type": "integer", "default": "30"},
                "huge": {"type": "number", "default": 0},
                "required": {"type": "integer", "default": 5},
            },
            required=["required"],
        )
    )
    params = package["do"].Params(required=1)
    assert (params.n, params.f, params.s, params.e, params.o) == (30, 0.1, "x", "a b", None)
    assert (params.l, params.d, params.wrong) == ([1], {"a": 1}, None)
    assert package.send("do", required=1) == '{"required": 1}'
    with pytest.raises(ValidationError):
        package["do"].Params()
    source = package.source("do")
    for note in ("default: 30", "default: 5"):
        assert note in source.lower()


NESTED_DEFAULTS = [
    ({"type": "array", "items": {"type": "string"}, "default": ["a", "b"]}, 'list[str] = Field(default=["a", "b"])'),
    ({"type": "array", "items": {"properties": {"x": {}}}, "default": []}, "list[PItem] = Field(default=[])"),
    ({"type": "array", "items": {"enum": ["k", "l"]}, "default": ["l"]}, "list[PItem] = Field(default=[PItem.l])"),
    ({"type": ["array", "null"], "items": {"type": "integer"}, "default": [1.0]}, "list[int] | None = Field(default=[1])"),
    ({"type": "array", "items": {"type": "number"}, "minItems": 1, "default": [1, 2.5]}, "list[int | float] = Field(default=[1, 2.5], min_length=1)"),
    ({"prefixItems": [{"type": "integer"}], "minItems": 1, "maxItems": 1, "default": [5]}, "tuple[int] = (5,)"),
    ({"type": "object", "additionalProperties": {"type": "boolean"}, "default": {"a\"": True}}, 'dict[str, bool] = Field(default={"a\\"": True})'),
    ({"default": {"a": [None, {"b": 1.5}]}}, 'Any = Field(default={"a": [None, {"b": 1.5}]})'),
    # What does not fit, is long or would be an object of a class is told.
    ({"type": "array", "items": {"type": "string"}, "default": [1]}, "list[str] | None = None"),
    ({"type": "array", "items": {"properties": {"x": {}}}, "default": [{"x": 1}]}, "list[PItem] | None = None"),
    ({"properties": {"x": {}}, "default": {"x": 1}}, "P | None = None"),
    ({"type": "array", "default": ["x" * 100]}, "list[Any] | None = None"),
    ({"type": "array", "default": {"a": 1}}, "list[Any] | None = None"),
]  # fmt: skip


def test_defaults_that_are_lists_and_objects(make):
    package = make(*[tool({"p": schema}, name=f"t{number}") for number, (schema, _) in enumerate(NESTED_DEFAULTS)])
    for number, (_, text) in enumerate(NESTED_DEFAULTS):
        source = package.source(f"t{number}")
        assert f"    p: {text}\n" in source
        assert ("Default:" in source) == text.endswith("None = None")
        assert package.send(f"t{number}") == "{}"


def test_defaults_that_are_changed_in_place_are_sent(make):
    names = {"type": "array", "items": {"type": "string"}, "default": []}
    package = make(tool({"names": names, "o": {"type": "object", "default": {"a": 1}}, "inner": {"properties": {"_names": names, "n": {"default": 1}}}}))
    module = package["do"]
    params = module.Params(inner={})
    assert json.loads(json.dumps(params.to_wire())) == {"inner": {}}
    params.names.append("x")
    params.inner.field_names.append("y")
    params.o["b"] = 2
    module.run(params)
    assert json.loads(package.client.calls[-1][1]) == {"names": ["x"], "inner": {"_names": ["y"]}, "o": {"a": 1, "b": 2}}

    class Own(module.Params):
        @functools.cached_property
        def size(self) -> int:
            return len(self.names)

    own = Own(names=["x"])
    assert own.size == 1 and own.to_wire() == {"names": ["x"]}
    assert package.send("do") == "{}"


def test_none_for_a_field_with_a_default_is_not_given(make):
    """As in the original; where null is a value it is sent."""
    package = make(
        tool(
            {
                "page-size": {"type": "integer", "default": 5},
                "tags": {"type": "array", "default": ["a"]},
                "known": {"type": ["integer", "null"], "default": 5},
                "any": {"default": 5},
                "inner": {"properties": {"n": {"type": "integer", "default": 1}}},
                "required": {"type": "integer"},
            },
            required=["required"],
        )
    )  # fmt: skip
    given = {"page-size": None, "tags": None, "known": None, "any": None, "inner": {"n": None}, "required": 1, "extra": None}
    assert json.loads(package.send("do", **given)) == {"known": None, "any": None, "inner": {}, "required": 1, "extra": None}
    assert json.loads(package.send("do", page_size=None, required=1)) == {"required": 1}
    assert package["do"].Params(page_size=None, required=1).page_size == 5
    with pytest.raises(ValidationError):
        package["do"].Params(required=None)


def test_tools_named_as_builtins(make):
    """Their modules become attributes of the package, which is where its functions look for names first."""
    names = [name.lower() for name in dir(builtins) if name.isidentifier() and not name.startswith("_")]
    names += ["type", "pydantic", "typing", "ipybox", "model_validator", "model_serializer", "model", "client"]
    spec = {"properties": {"a": {"type": "integer"}, "b": {"type": "array", "default": []}}}
    package = make(*[{"name": name, "inputSchema": spec, "outputSchema": spec} for name in dict.fromkeys(names)])
    for name in package.names:
        package.client.result = {"a": 1}
        assert package[name].run(a=1, b=None).a == 1
        params = package[name].Params(a=1)
        params.b.append(2)
        package[name].run(params)
        assert package.client.calls[-1][1] == '{"a": 1, "b": [2]}'
        with pytest.raises(TypeError):
            package[name].run(1)


def test_numbers_that_python_cannot_hold(workspace):
    text = b"""[{"name": "do", "inputSchema": {"type": "object", "properties": {
        "a": {"type": "number", "default": 1e400, "maximum": 1e400},
        "b": {"type": "integer", "default": 1%s, "maximum": 1%s},
        "c": {"enum": [1e400, 1180591620717411303424]},
        "d": {"const": 1180591620717411303424},
        "e": {"type": "integer", "default": 1.0, "minimum": -0, "maximum": 1e2},
        "f": {"type": "string", "minLength": -1, "maxLength": 1e400}
    }}}]""" % (b"0" * 5000, b"0" * 5000)
    package = Package(workspace, text)
    sent = '{"a": 1e+300, "b": 7, "c": 1180591620717411303424, "d": 1180591620717411303424, "e": 100, "f": "x"}'
    assert package.send("do", **json.loads(sent)) == sent
    with pytest.raises(ValidationError):
        package.send("do", e=101)
    assert package["do"].Params().e == 1


def result_of(make, schema, value):
    package = make(tool(outputSchema=schema))
    package.client.result = value
    return package, package["do"].run(package["do"].Params())


def test_results(make):
    schema = {
        "type": "object",
        "properties": {
            "items": {"type": "array", "items": {"type": "object", "properties": {"from": {"type": "string"}, "state": {"enum": ["open", "closed"]}}}},
            "total": {"type": "integer"},
        },
        "required": ["items"],
        "additionalProperties": False,
    }  # fmt: skip
    package, result = result_of(make, schema, {"items": [{"from": "a", "state": "open", "new": 1}], "more": 2})
    assert isinstance(result, package["do"].Result)
    item = result.items[0]
    assert (item.from_, item.state, item.new, result.total, result.more) == ("a", "open", 1, None, 2)
    assert item.state == package["do"].State.open and f"{item.state}" == "open"


def test_wrong_results_are_not_lost(make):
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    for schema in (schema, {"type": "array", "items": {"type": "integer"}}):
        for value in ({"m": "what happened"}, "text", None, ["x"]):
            with pytest.raises(ResultError, match="the tool has run") as caught:
                result_of(make, schema, value)
            assert caught.value.result is value
            assert isinstance(caught.value, apigen_package.ToolRunnerError)


def violate(make, schema, value):
    """The error of a result that violates the schema. It has the result, and its text is bounded."""
    with pytest.raises(ResultError) as caught:
        result_of(make, schema, value)
    error = caught.value
    assert error.result is value
    assert len(str(error)) < 10_000 and error.__cause__ is None and error.__suppress_context__
    return error


ITEMS = {
    "type": "object",
    "properties": {
        "items": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {"name": {"type": "string"}, "size": {"type": "integer", "minimum": 0}},
                "required": ["name"],
            },
        },
        "kind": {"enum": ["a", "b"]},
        "ratio": {"type": "number"},
        "tags": {"type": "object", "additionalProperties": {"type": "string"}},
    },
    "required": ["items"],
}


@pytest.mark.parametrize(
    ("value", "path", "text"),
    [
        ({"items": [{"name": "x"}, {"name": 7}]}, ("items", 1, "name"), "items[1].name: Input should be a valid string"),
        ({"items": [{}]}, ("items", 0, "name"), "items[0].name: Field required"),
        ({"items": [{"name": "x", "size": -1}]}, ("items", 0, "size"), "items[0].size: "),
        ({"items": [{"name": "x", "size": 1.5}]}, ("items", 0, "size"), "items[0].size: "),
        ({"items": [], "kind": "c"}, ("kind",), "kind: "),
        ({"items": [], "ratio": float("nan")}, ("ratio",), "ratio"),
        ({"items": [], "ratio": float("inf")}, ("ratio",), "ratio"),
        ({"items": [], "tags": {"a\n- b": None}}, ("tags", "a\n- b"), "tags.a\\n- b: "),
        ({"items": None}, ("items",), "items: "),
        ({}, ("items",), "items: Field required"),
        ([{"items": []}], (), "the result: "),
        (None, (), "the result: "),
        ("items", (), "the result: "),
        (7, (), "the result: "),
    ],
)
def test_a_violation_has_its_place(make, value, path, text):
    error = violate(make, ITEMS, value)
    assert error.path == path
    assert error.violations[0].startswith(text) and f"- {text}" in str(error)


def test_violations_are_counted_and_the_first_are_told(make):
    error = violate(make, ITEMS, {"items": [{"name": n} for n in range(50_000)]})
    assert error.path == ("items", 0, "name") and len(error.violations) == 10
    assert str(error).endswith("- and 49990 more")


def test_names_of_violated_members_are_bounded(make):
    error = violate(make, ITEMS, {"items": [], "tags": {"x" * 100_000: 1, "\u202e\ud800\x1b[2J": 1}})
    assert str(error).isascii() or "…" in str(error)
    assert not any(c in str(error) for c in "\u202e\ud800\x1b")


def test_deep_results(make):
    node = {"type": "object", "properties": {"kids": {"type": "array", "items": {"$ref": "#"}}, "n": {"type": "integer"}}}
    value: Any = {"n": "wrong"}
    for _ in range(400):
        value = {"kids": [value]}
    violate(make, node, value)


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        ({"type": "integer"}, "x"),
        ({"type": "array", "items": {"type": "integer"}}, {"0": 1}),
        ({"type": ["string", "null"]}, [None]),
        ({"type": "null"}, {}),
        ({"anyOf": [{"type": "string"}, {"type": "integer", "minimum": 1}]}, 0),
    ],
)
def test_results_that_are_no_objects_are_checked(make, schema, value):
    violate(make, schema, value)


def test_a_result_error_survives_pickling_and_copying(make):
    error = violate(make, ITEMS, {"items": [{}]})
    for copied in (pickle.loads(pickle.dumps(error)), copy.copy(error)):
        assert type(copied) is ResultError
        assert (copied.result, copied.path, str(copied)) == (error.result, error.path, str(error))


@pytest.mark.parametrize(
    ("schema", "value", "text"),
    [
        ({"type": "object"}, {"a": 1}, "dict[str, Any]"),
        ({"type": "object", "additionalProperties": {"type": "integer"}}, {"a": 1}, "dict[str, int]"),
        ({"type": "array", "items": {"type": "object", "properties": {"a": {"type": "integer"}}}}, [], "list[ResultItem]"),
        ({"type": "string"}, "x", "str"),
        ({"type": ["integer", "null"]}, None, "int | None"),
        ({}, [1], "Any"),
        (True, [1], "Any"),
        ({"anyOf": [{"type": "string"}, {"type": "integer", "minimum": 1}]}, 2, "str | Annotated[int, Field(ge=1)]"),
    ],
)
def test_results_that_are_no_objects(make, schema, value, text):
    package, result = result_of(make, schema, value)
    assert result == value
    assert f"\nResult = {text}\n" in package.source("do")
    assert "def run(params: Params | None = None, **fields: object) -> Result:" in package.source("do")


def test_texts_are_returned_as_they_are(make):
    package = make(tool())
    for result in ("text", None, [{"type": "image"}]):
        package.client.result = result
        assert package["do"].run(package["do"].Params()) is result


def test_enums_share_a_class_if_they_are_equal(make):
    schema = {"type": "object", "properties": {"sort": {"enum": ["a", "b"]}}}
    other = {"type": "object", "properties": {"sort": {"enum": ["a", "c"]}, "x": {}}}
    package = make(tool({"sort": {"enum": ["a", "b"]}, "same": schema, "other": other}))
    source = package.source("do")
    assert source.count("(str, Enum)") == 2 and "class OtherSort(str, Enum)" in source


def thing(**properties: Any) -> dict[str, Any]:
    """An object whose class no other shares."""
    return {"type": "object", "properties": {"a": {"type": "string"}, **properties}}


CLASSES = {
    "filter": thing(options=thing(x={})),
    "update": thing(options=thing(y={}), filter=thing(z={}), user=thing(u={})),
    "sort": {"enum": ["up", "down"]},
    "list": {"type": "array", "items": {"oneOf": [thing(one={}), thing(two={})]}},
    "owner": {"$ref": "#/$defs/User"},
}
DEFINITIONS = {"User": thing(name={}), "Twice": {"properties": {"sort": {"enum": ["x", "y"]}}}}


def class_names(make, properties: dict[str, Any], output: dict[str, Any]) -> dict[str, str]:
    """Each class by what is in it; of equal ones the first, which is the input's."""
    package = make(tool(properties, **{"$defs": DEFINITIONS}, outputSchema={"properties": output}))
    found = re.findall(r"class (\w+)\(.*\):\n((?:    .*\n)*)", package.source("do"))
    return {body: name for name, body in reversed(found) if name not in ("Params", "Result")}


def test_names_of_classes_are_not_changed_by_what_is_added(make):
    names = class_names(make, CLASSES, {})
    assert set(names.values()) == {
        "Filter", "FilterOptions", "Update", "UpdateOptions", "UpdateFilter", "UpdateUser", "Sort", "ListItem", "ListItem_2", "User",
    }  # fmt: skip
    more = {
        "deep": thing(deeper=thing(sort={"enum": ["a", "b"]}, filter=thing(q={}), list=thing(r={}), user=thing(s={}))),
        "first": thing(options=thing(t={})),
        "twice": {"$ref": "#/$defs/Twice"},
    }
    orders = [{**more, **CLASSES}, {**CLASSES, **more}, dict(reversed([*CLASSES.items(), *more.items()]))]
    for properties in orders:
        changed = class_names(make, properties, {name: thing(**CLASSES) for name in ("filter", "sort", "owner", "deep")})
        assert names.items() <= changed.items()
        assert len(set(changed.values())) == len(changed)


def test_unexpressed_rules_are_noted(make):
    schema = {
        "type": "object",
        "properties": {"a": {"type": "string", "pattern": "^(?=a)", "format": "email"}, "b": {"type": "array", "uniqueItems": True}},
        "dependentRequired": {"a": ["b"]}, "minProperties": 1, "not": {"required": ["z"]}, "propertyNames": {"maxLength": 3},
        "patternProperties": {"^x-": {"type": "integer"}}, "if": {}, "then": {}, "else": {}, "unevaluatedProperties": False,
    }  # fmt: skip
    source = make(tool(schema["properties"], **{key: value for key, value in schema.items() if key not in ("type", "properties")})).source("do")
    for note in ("pattern: ^(?=a)", "format: email", "uniqueItems: true", *(f"{key}: " for key in list(schema)[2:])):
        assert note in source


@pytest.mark.parametrize("path", LISTS, ids=lambda path: path.stem)
def test_real_servers(workspace, path):
    """The tools of real servers: each can be called with what its schema needs, and with nothing more."""
    tools = json.loads(path.read_text())
    package = Package(workspace, tools)
    for spec, name in zip(tools, package.names, strict=True):
        schema = spec["inputSchema"]
        arguments = {key: example(schema["properties"][key], schema) for key in schema.get("required", [])}
        assert json.loads(package.send(name, **arguments)) == arguments
        assert "Any" not in package.source(name).replace("dict[str, Any]", "").replace("import Any", "") or "{}" in json.dumps(schema)


def example(schema: dict, root: dict) -> Any:
    """A valid value of the simple schemas that real servers have."""
    if "$ref" in schema:
        return example(root["$defs"][schema["$ref"].split("/")[-1]], root)
    if "enum" in schema:
        return schema["enum"][0]
    if "anyOf" in schema:
        return example(schema["anyOf"][0], root)
    if schema.get("type") == "object":
        return {key: example(schema["properties"][key], root) for key in schema.get("required", [])}
    values = {"string": "x" * schema.get("minLength", 1), "integer": schema.get("minimum", 1), "number": schema.get("minimum", 1), "boolean": True}
    return [example(schema["items"], root)] * schema.get("minItems", 1) if schema["type"] == "array" else values[schema["type"]]


def test_clean_for_linters_and_type_checkers(workspace):
    for path in LISTS:
        write(workspace, json.loads(path.read_text()), server=path.stem.replace("-", "_"))
    hostile = {name: {"type": "integer"} for name in HOSTILE_NAMES}
    kinds = {"kind": {"enum": [*HOSTILE_NAMES[:50], "title", "count", "name", "value", "mro"]}}
    typed = {f"p{number}": schema for number, (schema, _) in enumerate(VALUES)}
    write(workspace, [tool(hostile, name="names"), tool(kinds, name="kinds"), tool(typed, name="typed")], server="hostile")
    write(workspace, [SEARCH, tool(outputSchema={"type": "array"}), tool(outputSchema={"type": "object", "properties": {"a": {}}}, name="r")], "--async", server="calls")
    check_clean(workspace)


def test_same_input_same_bytes(workspace):
    for number in (1, 2):
        for path in LISTS:
            write(workspace / str(number), json.loads(path.read_text()), server=path.stem.replace("-", "_"))
    done = subprocess.run(["diff", "-r", workspace / "1", workspace / "2"], capture_output=True)
    assert done.returncode == 0, done.stdout


def test_a_failure_leaves_the_old_package(workspace):
    write(workspace, [tool(name="old")])
    for wrong in (b"[", b"{}", b'[{"name": 5}]', b'[{"name": ""}]', b"[null]", json.dumps([{"name": "x"}] * 10_001).encode()):
        with pytest.raises(subprocess.CalledProcessError) as caught:
            write(workspace, wrong)
        assert caught.value.returncode == 1 and caught.value.stderr
    assert {path.name for path in workspace.iterdir()} == {"srv"}
    assert {path.name for path in (workspace / "srv").iterdir()} == {".generated", "__init__.py", "old.py"}
    write(workspace, [tool(name="new")])
    assert {path.name for path in (workspace / "srv").iterdir()} == {".generated", "__init__.py", "new.py"}
    assert (workspace / "srv").stat().st_mode & 0o777 == 0o755


def test_what_is_not_generated_is_not_replaced(workspace):
    (workspace / "srv").mkdir()
    write(workspace, [tool()])  # empty
    precious = workspace / "precious"
    precious.mkdir()
    (precious / "__init__.py").write_text("# mine\n")
    (workspace / "file").write_text("mine")
    (workspace / "link").symlink_to(precious)
    for name in ("precious", "file", "link"):
        with pytest.raises(subprocess.CalledProcessError) as caught:
            write(workspace, [tool()], server=name)
        assert b"is no generated package" in caught.value.stderr
    assert (precious / "__init__.py").read_text() == "# mine\n" and (workspace / "file").read_text() == "mine"


@pytest.mark.parametrize("name", ["", "a-b", "1a", "class", "None", "ünï", "a.b", "../x", "a\nb", "x" * 101])
def test_bad_server_names(workspace, name):
    with pytest.raises(subprocess.CalledProcessError) as caught:
        write(workspace, [], server=name)
    assert b"cannot be the name of a server" in caught.value.stderr
    assert list(workspace.iterdir()) == []


def test_huge_schemas_end_loose_or_refused(workspace):
    """Nothing explodes: depth, width, merges that multiply, enums without end."""
    chain = {f"C{n}": {"type": "object", "properties": {"c": {"$ref": f"#/$defs/C{n + 1}"}}} for n in range(300)}
    deep: dict = {"type": "string"}
    for _ in range(200):
        deep = {"type": "object", "properties": {"d": deep}}
    parts = {f"P{n}": {"allOf": [{"$ref": f"#/$defs/P{n + 1}"}] * 3, "properties": {f"x{n}": {"$ref": "#/$defs/P0", "minLength": n}}} for n in range(60)}
    wide = {"type": "object", "properties": {f"w{n}": {"type": "integer", "description": "d" * 2000} for n in range(20_000)}}
    tools = [
        tool({"p": deep}, name="deep"),
        tool({"p": {"$ref": "#/$defs/P0"}}, name="merged", **{"$defs": parts}),
        tool({f"p{n}": {"$ref": f"#/$defs/C{n}"} for n in range(300)}, name="forward", **{"$defs": chain}),
        tool({f"p{n}": {"$ref": f"#/$defs/C{n}"} for n in reversed(range(300))}, name="backward", **{"$defs": chain}),
        tool({"p": wide}, name="wide"),
        tool({"p": {"enum": [f"v{n}" for n in range(100_000)]}}, name="values"),
        tool({"p": {"anyOf": [{"const": n} for n in range(10_000)]}}, name="constants"),
        tool({"p": {"anyOf": [{"type": "integer", "minimum": n} for n in range(10_000)]}}, name="alternatives"),
    ]  # fmt: skip
    package = Package(workspace, tools)
    value: Any = "x"
    for _ in range(200):
        value = {"d": value}
    assert json.loads(package.send("deep", p=value)) == {"p": value}
    for name in ("deep", "forward", "backward"):
        assert "Nested too deeply" in package.source(name)
    assert package.send("merged", p={"x0": {"y": 1}}) == '{"p": {"x0": {"y": 1}}}'
    assert json.loads(package.send("wide", p={"w1": 1, "w19999": "anything"})) == {"p": {"w1": 1, "w19999": "anything"}}
    assert package.send("values", p="v99999") == '{"p": "v99999"}'
    assert package.send("constants", p=9_999) == '{"p": 9999}'
    assert package.send("alternatives", p=9_999) == '{"p": 9999}'
    assert all(path.stat().st_size < 6_000_000 for path in package.directory.glob("*.py"))


def test_ten_megabytes_and_ten_thousand_levels(workspace):
    """A result, or an error that says what is too much and where."""
    inner = {f"q{m}": {"type": "string", "enum": [f"v{k}" for k in range(20)], "description": "d" * 500} for m in range(10)}
    big = {f"p{n}": {"type": "object", "properties": inner} for n in range(1500)}
    spec = tool(big, name="big")
    assert len(json.dumps(spec)) > 10_000_000
    package = Package(workspace, [spec])
    assert package.send("big", p0={"q1": "v1"}, p1499={"q1": "w"}) == '{"p0": {"q1": "v1"}, "p1499": {"q1": "w"}}'
    with pytest.raises(ValidationError):
        package.send("big", p0={"q1": "w"})
    assert "names more members than are typed here" in package.source("big")
    deep = '{"type": "array", "items": ' * 10_000 + "{}" + "}" * 10_000
    with pytest.raises(subprocess.CalledProcessError) as caught:
        write(workspace, b'[{"name": "deep", "inputSchema": {"properties": {"p": %s}}}]' % deep.encode())
    assert re.search(rb"at byte \d+ .*nested more than 512 deep", caught.value.stderr)


def test_random_schemas(workspace):
    """Valid values of schemas that make sense arrive unchanged."""
    schemas = [Schemas(seed).parameters() for seed in range(200)]
    tools = [{"name": f"t{n}", "inputSchema": schema, "outputSchema": schema} for n, (schema, _) in enumerate(schemas)]
    package = Package(workspace, tools)
    for name, (_, sample) in zip(package.names, schemas, strict=True):
        for _ in range(5):
            value = sample()
            assert canonical(json.loads(package.send(name, **value))) == canonical(value)
            package.client.result = value
            result = package[name].run(package[name].Params.model_construct())
            assert canonical(result.to_wire() if hasattr(result, "to_wire") else result) == canonical(value)


def canonical(value: Any) -> str:
    """Tells 1, 1.0 and True apart, but not the order of members."""
    return json.dumps(value, sort_keys=True)


def test_random_nonsense(workspace):
    """Nothing that looks like a schema makes a module that does not compile or import."""
    rng = random.Random(1)
    tools = [{"name": f"t{n}", "description": "x"} for n in range(400)]
    for spec in tools:
        for key in rng.sample(["inputSchema", "outputSchema", "description", "title"], 3):
            spec[key] = make_nonsense(rng)
    text = json.dumps(tools).replace("Infinity", "1e400")
    Package(workspace, text.encode())
