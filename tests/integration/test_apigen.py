# SPDX-License-Identifier: Apache-2.0
"""Generated packages: imported, called, and compared with what is sent.

Values, names, results and whole packages have files of their own.
"""

from __future__ import annotations

import asyncio
import builtins
import functools
import json
import re
from collections import UserDict

import pytest
from apigen_package import Package, tool
from pydantic import ValidationError

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
from typing import Any, Literal, overload

from ipybox.tool_exec.content import ToolText
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


@overload
def run(params: Params) -> ToolText: ...
@overload
def run(
    *,
    query: str,
    sort: Sort | Literal["stars", "forks", "help-wanted-issues", "updated"] | None = None,
    order: Order | Literal["asc", "desc"] | None = None,
    minimal_output: bool = True,
    page: float | None = None,
    perPage: float | None = None,
) -> ToolText: ...
def run(params: Params | None = None, /, **fields: Any) -> ToolText:
    """Find GitHub repositories."""
    answer = CLIENT.call_sync("search_repositories", Params.for_call(params, fields))
    return answer.to_text()
'''


def test_source(make):
    assert make(SEARCH).source("search_repositories") == SEARCH_SOURCE


def test_call_as_in_the_guide(make):
    package = make(SEARCH)
    search = package["search_repositories"]
    result = search.run(
        search.Params(
            query="user:torvalds",
            sort=search.Sort.stars,
            order=search.Order.desc,
            perPage=10,
            minimal_output=False,
        )
    )
    assert result == "done"
    (name, arguments) = package.client.calls[0]
    assert name == "search_repositories"
    assert json.loads(arguments) == {
        "query": "user:torvalds",
        "sort": "stars",
        "order": "desc",
        "perPage": 10,
        "minimal_output": False,
    }
    assert (package.client.server_name, package.client.server_id) == (
        "srv",
        "0123456789abcdef0123456789abcdef",
    )


def test_plain_values_unset_and_none(make):
    package = make(SEARCH)
    name = "search_repositories"
    params = package[name].Params(query="x", sort="help-wanted-issues")
    assert params.sort == package[name].Sort.help_wanted_issues == "help-wanted-issues"
    assert f"{params.sort}" == "help-wanted-issues"
    assert package.send(name, query="x", sort="forks") == '{"query": "x", "sort": "forks"}'
    assert package.send(name, query="x") == '{"query": "x"}'
    # the schema does not allow null
    assert package.send(name, query="x", sort=None) == '{"query": "x"}'
    assert (
        package.send(name, query="x", minimal_output=True)
        == '{"query": "x", "minimal_output": true}'
    )
    params = package[name].Params(query="x")
    params.perPage = 7
    package[name].run(params)
    assert package.client.calls[-1][1] == '{"query": "x", "perPage": 7}'
    params.perPage = None
    package[name].run(params)
    assert package.client.calls[-1][1] == '{"query": "x"}'
    params.more = None  # the schema does not name it
    package[name].run(params)
    assert package.client.calls[-1][1] == '{"query": "x", "more": null}'
    package[name].run(package[name].Params.model_validate(UserDict({"query": "x", "sort": None})))
    assert package.client.calls[-1][1] == '{"query": "x"}'


@pytest.mark.parametrize(
    "arguments",
    [
        {},
        {"query": 1},
        {"query": "x", "sort": "size"},
        {"query": "x", "perPage": 101},
        {"query": "x", "page": 0},
    ],
)
def test_wrong_arguments(make, arguments):
    package = make(SEARCH)
    with pytest.raises(ValidationError):
        package.send("search_repositories", **arguments)
    params = package["search_repositories"].Params(query="x")
    with pytest.raises(ValidationError):
        params.perPage = 0
    assert package.client.calls == []


def test_errors_name_the_alternatives_as_they_are_called(make):
    """`value.Point.x`, and no trace of how the classes are made."""
    point = {
        "type": "object",
        "title": "Point",
        "properties": {"x": {"type": "integer"}},
        "required": ["x"],
    }
    package = make(tool({"value": {"anyOf": [point, {"type": "boolean"}]}}))
    with pytest.raises(ValidationError) as failed:
        package["do"].run(value={"x": "a"})
    assert [error["loc"] for error in failed.value.errors()] == [
        ("value", "Point", "x"),
        ("value", "bool"),
    ]


def test_none_is_null_only_where_the_schema_knows_it(make):
    """None for an optional parameter means "not given", as in ipybox 0.9.

    null is sent where it is a value.
    """
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
        "object": {
            "type": "object",
            "properties": {"a": {"type": "integer"}, "b": {"type": ["integer", "null"]}},
        },
        "nested": {"$ref": "#/$defs/n"},
        "needed": {"type": ["string", "null"]},
        "defaulted": {"type": ["integer", "null"], "default": 5},
    }
    definitions = {
        "n": {"anyOf": [{"type": "object", "properties": {"n": {"$ref": "#/$defs/n"}}}, null]}
    }
    package = make(tool(properties, required=["needed"], **{"$defs": definitions}))
    arguments = {name: None for name in properties}
    left = {name: None for name in properties if name not in ("plain", "choice", "object")}
    assert json.loads(package.send("do", **arguments)) == left
    assert json.loads(
        package.send("do", needed="x", object={"a": None, "b": None}, nested={"n": None})
    ) == {"needed": "x", "object": {"b": None}, "nested": {"n": None}}
    assert package["do"].Params(**arguments).plain is None
    assert SEARCH_SOURCE.count("_nullable") == 0 == package.source("do").count("_nullable = ()")


def test_fields_by_name(make):
    """run(name=value) is run(Params(name=value)), for all names. Other names are refused."""
    odd = tool(
        {
            "params": {"type": ["integer", "object"]},
            "from": {"type": "string"},
            "a-b": {},
            "fields": {},
            "cls": {},
            "self": {},
        },
        name="odd",
    )
    nested = tool(
        {"params": {"title": "Values", "properties": {"b": {}}}, "c": {}},
        name="nested",
        required=["params"],
    )
    package = make(SEARCH, odd, tool(name="empty"), nested)
    search, odd, empty, nested = (
        package[name].run for name in ("search_repositories", "odd", "empty", "nested")
    )
    calls = [
        (lambda: search(query="x", sort="forks"), {"query": "x", "sort": "forks"}),
        (lambda: search(params=package["search_repositories"].Params(query="x")), {"query": "x"}),
        (lambda: empty(), {}),
        (lambda: empty(package["empty"].Params()), {}),
        (
            lambda: odd(params=5, from_="a", fields=1, cls=2, self=3),
            {"params": 5, "from": "a", "fields": 1, "cls": 2, "self": 3},
        ),
        (lambda: odd(**{"from": "b", "a-b": None}), {"from": "b", "a-b": None}),
        (lambda: odd(params={"k": 1}), {"params": {"k": 1}}),
        (lambda: odd(params=package["odd"].Params(params=1)), {"params": 1}),
        (lambda: nested(params=package["nested"].Values(b=2)), {"params": {"b": 2}}),
        (lambda: nested(package["nested"].Params(params={"b": 2})), {"params": {"b": 2}}),
    ]
    for call, sent in calls:
        call()
        assert json.loads(package.client.calls[-1][1]) == sent
    before = len(package.client.calls)
    with pytest.raises(ValidationError):
        search(sort="forks")
    for arguments in ([{"query": "x"}], ["x"], [package["empty"].Params()]):
        with pytest.raises(TypeError, match="takes Params.* fields by name: query, sort, order, "):
            search(*arguments)
    with pytest.raises(TypeError, match="takes Params.* fields by name: it has none$"):
        empty({})
    with pytest.raises(TypeError, match="takes Params"):
        odd({"k": 1})
    with pytest.raises(TypeError, match="takes Params"):
        search(package["search_repositories"].Params(query="x"), page=1)
    assert len(package.client.calls) == before


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("qeury", " (did you mean 'query'?)"),
        ("minimalOutput", " (did you mean 'minimal_output'?)"),
        ("xyz", ""),
        ("per-page", " (did you mean 'perPage'?)"),
    ],
)
def test_an_unknown_argument_names_the_valid_ones(make, name, hint):
    closed = {
        **SEARCH,
        "name": "closed",
        "inputSchema": {**SEARCH["inputSchema"], "additionalProperties": False},
    }
    package = make(SEARCH, closed)
    expected = (
        f"unknown argument {name!r}{hint}; valid: query, sort, order, minimal_output, page, perPage"
    )
    for module in ("search_repositories", "closed"):
        with pytest.raises(TypeError) as caught:
            package[module].run(**{"query": "x", name: 1})
        assert str(caught.value) == f"run(): {expected}"
    with pytest.raises(ValidationError) as invalid:
        package["closed"].Params(**{name: 1})
    assert expected in str(invalid.value)
    assert package.client.calls == []


def test_unknown_arguments_of_closed_objects_within(make):
    inner = {
        "type": "object",
        "properties": {"from-date": {}, "to": {}},
        "additionalProperties": False,
    }
    package = make(tool({"range": {"type": "array", "items": inner}}))
    with pytest.raises(ValidationError) as caught:
        package["do"].run(range=[{"to": 1}, {"form_date": 2}])
    (detail,) = caught.value.errors()
    assert (
        detail["loc"] == ("range", 1)
        and "unknown argument 'form_date' (did you mean 'from_date'?); valid: from_date, to"
        in detail["msg"]
    )
    package = make(
        tool({f"a{n}": {} for n in range(5000)}, additionalProperties=False, name="many")
    )
    with pytest.raises(TypeError) as many:
        package["many"].run(**{"x" * 10_000: 1})
    assert len(str(many.value)) < 1000 and str(many.value).endswith(", a99, …")


def test_arguments_that_the_schema_allows_unnamed_are_sent(make):
    package = make(
        tool({"a": {}, "more": {}}, additionalProperties={"type": "integer"}),
        tool({}, name="any", additionalProperties=True),
        tool({}, name="silent"),
        {"name": "untold", "inputSchema": {"type": "object"}},
    )
    package["do"].run(a=1, b=2)
    package["any"].run(b="x")
    package["silent"].run(package["silent"].Params(b="x"))
    package["untold"].run(b="x")
    assert [json.loads(arguments) for _, arguments in package.client.calls] == [
        {"a": 1, "b": 2},
        {"b": "x"},
        {"b": "x"},
        {"b": "x"},
    ]
    with pytest.raises(ValidationError):
        package["do"].run(b="x")
    with pytest.raises(TypeError, match="valid: it has none"):
        package["silent"].run(b="x")


def test_async(make):
    package = make(SEARCH, options=("--async",))
    search = package["search_repositories"]
    assert asyncio.run(search.run(search.Params(query="x"))) == "done"
    assert asyncio.run(search.run(query="x")) == "done"
    assert package.client.calls == [("search_repositories", '{"query": "x"}')] * 2


def test_recursion(make):
    node = {
        "type": "object",
        "properties": {
            "name": {"type": "string"},
            "kids": {"type": "array", "items": {"$ref": "#/$defs/Node"}},
        },
        "required": ["name"],
    }
    package = make(
        tool(
            {"root": {"$ref": "#/$defs/Node"}},
            **{"$defs": {"Node": node}},
            outputSchema={**node, "$defs": {"Node": node}},
        ),
        tool(
            {"a": {"$ref": "#/$defs/A"}},
            name="mutual",
            **{
                "$defs": {
                    "A": {
                        "type": "object",
                        "properties": {"b": {"$ref": "#/$defs/B"}, "n": {"type": "integer"}},
                    },
                    "B": {
                        "type": "object",
                        "properties": {"a": {"anyOf": [{"$ref": "#/$defs/A"}, {"type": "null"}]}},
                    },
                }
            },
        ),
        tool({"self": {"$ref": "#"}, "x": {"type": "integer"}}, name="root"),
        tool(
            {"j": {"$ref": "#/$defs/Json"}},
            name="alias",
            **{
                "$defs": {
                    "Json": {
                        "anyOf": [
                            {"type": "string"},
                            {"type": "array", "items": {"$ref": "#/$defs/Json"}},
                        ]
                    }
                }
            },
        ),
        tool(
            {"l": {"$ref": "#/$defs/L"}},
            name="loop",
            **{"$defs": {"L": {"$ref": "#/$defs/M"}, "M": {"$ref": "#/$defs/L"}}},
        ),
        tool(
            {"l": {"$ref": "#/$defs/L"}},
            name="all",
            **{
                "$defs": {
                    "L": {
                        "allOf": [
                            {"$ref": "#/$defs/L"},
                            {"properties": {"l": {"$ref": "#/$defs/L"}, "x": {"type": "integer"}}},
                        ]
                    }
                }
            },
        ),
    )
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
    assert json.loads(package.send("root", x=1, self={"self": {"x": 2}})) == {
        "x": 1,
        "self": {"self": {"x": 2}},
    }
    with pytest.raises(ValidationError):
        package.send("root", self={"x": "y"})
    assert json.loads(package.send("alias", j=["a", ["b"]])) == {"j": ["a", ["b"]]}
    assert json.loads(package.send("loop", l=1)) == {"l": 1}
    with pytest.raises(ValidationError):
        package.send("all", l={"l": {"l": {"x": "y"}}})


def test_definitions(make):
    """References of all kinds within the document.

    A definition is one class, however it is referenced.
    """
    user = {
        "type": "object",
        "description": "A user.",
        "properties": {"id": {"type": "integer"}},
        "required": ["id"],
        "$anchor": "user",
    }
    package = make(
        tool(
            {
                "a": {"$ref": "#/$defs/user~1account"},
                "b": {"$ref": "#/%24defs/user~1account", "description": "The second."},
                "c": {"$ref": "#user"},
                "d": {
                    "anyOf": [{"$ref": "https://example.org/s#user"}, {"type": "null"}],
                    "default": None,
                },
                "e": {"allOf": [{"$ref": "#/$defs/user~1account"}]},
                "f": {"type": "array", "items": {"$ref": "#/properties/a"}},
                "g": {"$ref": "#/definitions/list/items/0"},
            },
            **{
                "$id": "https://example.org/s",
                "$defs": {"user/account": user},
                "definitions": {"list": {"items": [{"type": "integer"}]}},
            },
        )
    )
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
    (
        {"type": "array", "items": {"type": "string"}, "default": ["a", "b"]},
        'list[str] = Field(default=["a", "b"])',
    ),
    (
        {"type": "array", "items": {"properties": {"x": {}}}, "default": []},
        "list[PItem] = Field(default=[])",
    ),
    (
        {"type": "array", "items": {"enum": ["k", "l"]}, "default": ["l"]},
        "list[PItem] = Field(default=[PItem.l])",
    ),
    (
        {"type": ["array", "null"], "items": {"type": "integer"}, "default": [1.0]},
        "list[int] | None = Field(default=[1])",
    ),
    (
        {"type": "array", "items": {"type": "number"}, "minItems": 1, "default": [1, 2.5]},
        "list[int | float] = Field(default=[1, 2.5], min_length=1)",
    ),
    (
        {"prefixItems": [{"type": "integer"}], "minItems": 1, "maxItems": 1, "default": [5]},
        "tuple[int] = (5,)",
    ),
    (
        {"type": "object", "additionalProperties": {"type": "boolean"}, "default": {'a"': True}},
        'dict[str, bool] = Field(default={"a\\"": True})',
    ),
    ({"default": {"a": [None, {"b": 1.5}]}}, 'Any = Field(default={"a": [None, {"b": 1.5}]})'),
    # Defaults that do not fit, are long, or would be objects of a class are described instead.
    ({"type": "array", "items": {"type": "string"}, "default": [1]}, "list[str] | None = None"),
    (
        {"type": "array", "items": {"properties": {"x": {}}}, "default": [{"x": 1}]},
        "list[PItem] | None = None",
    ),
    ({"properties": {"x": {}}, "default": {"x": 1}}, "P | None = None"),
    ({"type": "array", "default": ["x" * 100]}, "list[Any] | None = None"),
    ({"type": "array", "default": {"a": 1}}, "list[Any] | None = None"),
]


def test_defaults_that_are_lists_and_objects(make):
    package = make(
        *[
            tool({"p": schema}, name=f"t{number}")
            for number, (schema, _) in enumerate(NESTED_DEFAULTS)
        ]
    )
    for number, (_, text) in enumerate(NESTED_DEFAULTS):
        source = package.source(f"t{number}")
        assert f"    p: {text}\n" in source
        assert ("Default:" in source) == text.endswith("None = None")
        assert package.send(f"t{number}") == "{}"


def test_defaults_that_are_changed_in_place_are_sent(make):
    names = {"type": "array", "items": {"type": "string"}, "default": []}
    package = make(
        tool(
            {
                "names": names,
                "o": {"type": "object", "default": {"a": 1}},
                "inner": {"properties": {"_names": names, "n": {"default": 1}}},
            }
        )
    )
    module = package["do"]
    params = module.Params(inner={})
    assert json.loads(json.dumps(params.to_wire())) == {"inner": {}}
    params.names.append("x")
    params.inner.field_names.append("y")
    params.o["b"] = 2
    module.run(params)
    assert json.loads(package.client.calls[-1][1]) == {
        "names": ["x"],
        "inner": {"_names": ["y"]},
        "o": {"a": 1, "b": 2},
    }

    class Own(module.Params):
        @functools.cached_property
        def size(self) -> int:
            return len(self.names)

    own = Own(names=["x"])
    assert own.size == 1 and own.to_wire() == {"names": ["x"]}
    assert package.send("do") == "{}"


def test_none_for_a_field_with_a_default_is_not_given(make):
    """As in ipybox 0.9. Where null is a value, it is sent."""
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
    given = {
        "page-size": None,
        "tags": None,
        "known": None,
        "any": None,
        "inner": {"n": None},
        "required": 1,
        "extra": None,
    }
    assert json.loads(package.send("do", **given)) == {
        "known": None,
        "any": None,
        "inner": {},
        "required": 1,
        "extra": None,
    }
    assert json.loads(package.send("do", page_size=None, required=1)) == {"required": 1}
    assert package["do"].Params(page_size=None, required=1).page_size == 5
    with pytest.raises(ValidationError):
        package["do"].Params(required=None)


def test_tools_named_as_builtins(make):
    """Their modules become attributes of the package, where its functions look up names first."""
    names = [
        name.lower() for name in dir(builtins) if name.isidentifier() and not name.startswith("_")
    ]
    names += [
        "type",
        "pydantic",
        "typing",
        "ipybox",
        "model_validator",
        "model_serializer",
        "model",
        "client",
    ]
    spec = {"properties": {"a": {"type": "integer"}, "b": {"type": "array", "default": []}}}
    package = make(
        *[
            {"name": name, "inputSchema": spec, "outputSchema": spec}
            for name in dict.fromkeys(names)
        ]
    )
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
    sent = (
        '{"a": 1e+300, "b": 7, "c": 1180591620717411303424, "d": 1180591620717411303424, "e": '
        '100, "f": "x"}'
    )
    assert package.send("do", **json.loads(sent)) == sent
    with pytest.raises(ValidationError):
        package.send("do", e=101)
    assert package["do"].Params().e == 1


def test_enums_share_a_class_if_they_are_equal(make):
    schema = {"type": "object", "properties": {"sort": {"enum": ["a", "b"]}}}
    other = {"type": "object", "properties": {"sort": {"enum": ["a", "c"]}, "x": {}}}
    package = make(tool({"sort": {"enum": ["a", "b"]}, "same": schema, "other": other}))
    source = package.source("do")
    assert source.count("(str, Enum)") == 2 and "class OtherSort(str, Enum)" in source


def test_all_alternatives_keep_their_descriptions(make):
    """They are in the field's docstring; those of objects are in their classes."""
    css, role = (
        {"type": "string", "pattern": "^#", "description": "A CSS\nselector."},
        {"type": "string", "maxLength": 9, "description": "An ARIA role."},
    )
    point = {"type": "object", "description": "A place.", "properties": {"x": {"type": "integer"}}}
    package = make(
        tool({"target": {"anyOf": [css, role]}}),
        tool(
            {"target": {"oneOf": [css, role, {"type": "null"}], "description": "What to click."}},
            name="own",
        ),
        tool({"target": {"anyOf": [css, point]}}, name="object"),
        tool({"target": {"anyOf": [css, {"type": "null"}]}}, name="one"),
    )
    assert '    """Either: A CSS selector.\n    Or: An ARIA role.\n    """\n' in package.source(
        "do"
    )
    assert (
        '    """What to click.\n    Either: A CSS selector.\n    Or: An ARIA role.\n    """\n'
        in package.source("own")
    )
    assert '    """A place."""\n' in package.source(
        "object"
    ) and '    """A CSS selector."""\n' in package.source("object")
    assert re.search(r"A CSS\s+selector", package.source("one"))


def test_unexpressed_rules_are_noted(make):
    schema = {
        "type": "object",
        "properties": {
            "a": {"type": "string", "pattern": "^(?=a)", "format": "email"},
            "b": {"type": "array", "uniqueItems": True},
        },
        "dependentRequired": {"a": ["b"]},
        "minProperties": 1,
        "not": {"required": ["z"]},
        "propertyNames": {"maxLength": 3},
        "patternProperties": {"^x-": {"type": "integer"}},
        "if": {},
        "then": {},
        "else": {},
        "unevaluatedProperties": False,
    }
    source = make(
        tool(
            schema["properties"],
            **{key: value for key, value in schema.items() if key not in ("type", "properties")},
        )
    ).source("do")
    for note in (
        "pattern: ^(?=a)",
        "format: email",
        "uniqueItems: true",
        *(f"{key}: " for key in list(schema)[2:]),
    ):
        assert note in source
