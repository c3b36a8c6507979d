# SPDX-License-Identifier: Apache-2.0
"""Values that the types of less usual keywords accept, and the notes about them.

See test_apigen.py for the usual ones.
"""

from __future__ import annotations

import json
from typing import Any

import pytest
from apigen_package import Package, check_clean, write
from pydantic import ValidationError

INTEGER, STRING = {"type": "integer"}, {"type": "string"}


def class_of(kind: str, **more: Any) -> dict[str, Any]:
    return {"type": "object", "properties": {"kind": {"const": kind}, **more}, "required": ["kind"]}


SHAPES = {
    "oneOf": [
        class_of("circle", r={"type": "number"}),
        class_of("square", a={"type": "number"}, colour=STRING),
    ]
}
TREE = {
    "anyOf": [
        class_of("leaf", n=INTEGER),
        class_of("branch", kids={"type": "array", "items": {"$ref": "#/$defs/tree"}}),
    ]
}
JSON_VALUE = {
    "anyOf": [
        STRING,
        {"type": "object", "properties": {"v": {"$ref": "#/$defs/json"}}, "required": ["v"]},
        {"type": "null"},
    ]
}
SPEC = {
    "oneOf": [
        {
            "type": "object",
            "properties": {
                "layer": {"type": "array", "items": {"$ref": "#/$defs/spec"}},
                "mark": False,
            },
            "required": ["layer"],
        },
        {
            "type": "object",
            "properties": {
                "mark": STRING,
                "data": {"anyOf": [{"$ref": "#/$defs/tree"}, {"type": "null"}]},
            },
            "required": ["mark"],
        },
    ]
}
DEFS = {
    "tree": TREE,
    "json": JSON_VALUE,
    "spec": SPEC,
    "embedded": {
        "$id": "https://example.org/item.json",
        "type": "object",
        "properties": {"n": {"$ref": "#/$defs/inner"}},
        "required": ["n"],
        "$defs": {"inner": INTEGER},
    },
    "named": {"$id": "urn:x:named", "$anchor": "here", "type": "string"},
    "anchored": {"$anchor": "here", "type": "integer"},
    "in_folder": {"$id": "folder/item.json", "type": "boolean"},
    "values": {
        "enum": [{"$anchor": "there", "type": "string"}],
        "default": {"$id": "https://example.org/there.json", "type": "string"},
    },
    "default": {"$anchor": "there", "type": "integer"},
    "const": {
        "$id": "https://example.org/there.json",
        "$dynamicAnchor": "moving",
        "type": "integer",
    },
}

# Schema, its type in the source, valid values, invalid ones.
TYPES: dict[str, tuple[Any, str, list[Any], list[Any]]] = {
    "tuple": (
        {"type": "array", "items": [STRING, INTEGER], "minItems": 2, "maxItems": 2},
        "tuple[str, int]",
        [["a", 1]],
        [["a"], [1, "a"], ["a", 1, 2], "ab"],
    ),
    "tuple_2020": (
        {"type": "array", "prefixItems": [STRING, SHAPES], "items": False, "minItems": 2},
        "tuple[str, ",
        [["a", {"kind": "circle"}]],
        [["a", {"kind": "x"}], ["a"]],
    ),
    "open_places": (
        {"type": "array", "prefixItems": [STRING]},
        "list[Any]",
        [[], ["a", None], ["a"]],
        [],
    ),
    "closed_places": (
        {"type": "array", "prefixItems": [STRING, INTEGER], "items": False},
        "list[str | int]",
        [[], ["a"], ["a", 1]],
        [[None], ["a", 1, 1]],
    ),
    "rest": (
        {"type": "array", "prefixItems": [STRING], "items": INTEGER},
        "list[str | int]",
        [["a"], ["a", 1, 2]],
        [["a", None]],
    ),
    "rest_draft_7": (
        {"items": [STRING], "additionalItems": INTEGER},
        "list[str | int]",
        [["a", 1]],
        [["a", None]],
    ),
    "no_items": ({"type": "array", "items": False}, "list[Any]", [[]], [[1]]),
    "counted": (
        {"type": "object", "minProperties": 1, "maxProperties": 2},
        "dict[str, Any]",
        [{"a": 1}, {"a": 1, "b": None}],
        [{}, {"a": 1, "b": 2, "c": 3}],
    ),
    "nothing": (
        {"type": "object", "additionalProperties": False},
        "dict[str, Any]",
        [{}],
        [{"a": 1}],
    ),
    "one_pattern": (
        {
            "type": "object",
            "patternProperties": {"^x-[a-z]": INTEGER},
            "additionalProperties": False,
        },
        "dict[Annotated[str, Field(pattern=",
        [{}, {"x-a": 1}],
        [{"y": 1}, {"x-a": "s"}],
    ),
    "keys": (
        {
            "type": "object",
            "propertyNames": {"maxLength": 2, "pattern": "^[a-z]*$"},
            "additionalProperties": STRING,
        },
        "dict[Annotated[str, Field(",
        [{"ab": "c"}],
        [{"abc": "d"}, {"A": "b"}, {"a": 1}],
    ),
    "extra": (
        {"type": "object", "properties": {"a": STRING}, "additionalProperties": INTEGER},
        "__pydantic_extra__: dict[str, int]",
        [{"a": "x", "b": 1}, {}, {"c": 2}],
        [{"b": "x"}, {"a": 1}],
    ),
    "extra_classes": (
        {
            "type": "object",
            "properties": {"a": {}},
            "additionalProperties": {"$ref": "#/$defs/tree"},
        },
        "__pydantic_extra__: dict[str, ",
        [{"b": {"kind": "leaf", "n": 1}}],
        [{"b": {"kind": "leaf", "n": "x"}}],
    ),
    "bounds_of_all": (
        {
            "allOf": [
                {"type": "integer", "minimum": 3},
                {"minimum": 5, "maximum": 9},
                {"maximum": 7, "exclusiveMaximum": 8},
            ]
        },
        "Field(default=None, ge=5, le=7, lt=8)",
        [5, 7],
        [4, 8],
    ),
    "lengths_of_all": (
        {
            "allOf": [
                {"type": "string", "minLength": 1},
                {"minLength": 2, "maxLength": 9},
                {"maxLength": 3},
            ]
        },
        "min_length=2, max_length=3",
        ["ab", "abc"],
        ["a", "abcd"],
    ),
    "draft_4_of_all": (
        {"allOf": [{"type": "integer", "minimum": 5, "exclusiveMinimum": True}, {"minimum": 1}]},
        "ge=1, gt=5",
        [6],
        [5],
    ),
    "shape": (
        SHAPES,
        'Field(default=None, discriminator="kind")',
        [{"kind": "circle", "r": 1.5}, {"kind": "square", "colour": "red"}],
        [{"kind": "x"}, {}, {"kind": "square", "a": "x"}],
    ),
    "shapes": (
        {"type": "array", "items": {"anyOf": [*SHAPES["oneOf"], {"type": "null"}]}},
        'Field(discriminator="kind")',
        [[{"kind": "circle"}, None]],
        [[{"kind": 1}]],
    ),
    "tree": (
        {"$ref": "#/$defs/tree"},
        "",
        [
            {"kind": "leaf", "n": 1},
            {"kind": "branch", "kids": [{"kind": "leaf"}, {"kind": "branch", "kids": []}]},
        ],
        [{"kind": "branch", "kids": [{"kind": "x"}]}],
    ),
    "json": (
        {"$ref": "#/$defs/json"},
        "",
        ["x", None, {"v": {"v": {"v": None}}}],
        [1, {"v": {"v": 1}}, {}],
    ),
    "spec": (
        {"$ref": "#/$defs/spec"},
        "",
        [{"mark": "bar", "data": {"kind": "leaf"}}, {"layer": [{"mark": "x"}, {"layer": []}]}],
        [{"layer": [1]}, {"layer": [{"layer": [{"layer": 5}]}]}],
    ),
    "embedded_id": ({"$ref": "https://example.org/item.json"}, "", [{"n": 1}], [{"n": "x"}, {}]),
    "relative_id": ({"$ref": "item.json#/$defs/inner"}, "int | None", [1], ["x"]),
    "urn": ({"$ref": "urn:x:named"}, "str | None", ["x"], [1]),
    "anchor_there": ({"$ref": "urn:x:named#here"}, "str | None", ["x"], [1]),
    "base": (
        {"$id": "folder/", "properties": {"b": {"$ref": "item.json"}}},
        "",
        [{"b": True}],
        [{"b": {"n": 1}}],
    ),
    "anchor_in_a_value": ({"$ref": "#there"}, "int | None", [1], ["x"]),
    "id_in_a_value": ({"$ref": "https://example.org/there.json"}, "int | None", [1], ["x"]),
    "dynamic_anchor": ({"$ref": "https://example.org/there.json#moving"}, "int | None", [1], ["x"]),
    "anchor": ({"$ref": "#here"}, "int | None", [1], ["x"]),
}


def make_tools() -> list[dict[str, Any]]:
    return [
        {
            "name": name,
            "inputSchema": {
                "$id": "https://example.org/root.json",
                "properties": {"p": schema},
                "$defs": DEFS,
            },
            "outputSchema": {"type": "object", "properties": {"p": schema}, "$defs": DEFS},
        }
        for name, (schema, *_) in TYPES.items()
    ]


@pytest.fixture(scope="module")
def package(tmp_path_factory):
    return Package(tmp_path_factory.mktemp("types"), make_tools())


def test_clean_for_linters_and_type_checkers(tmp_path):
    together = {name: schema for name, (schema, *_) in TYPES.items()}
    write(
        tmp_path,
        [*make_tools(), {"name": "all", "inputSchema": {"properties": together, "$defs": DEFS}}],
    )
    check_clean(tmp_path)


@pytest.mark.parametrize("name", TYPES)
def test_values(package, name):
    _, text, valid, invalid = TYPES[name]
    assert text in package.source(name)
    for value in valid:
        assert json.loads(package.send(name, p=value)) == {"p": value}
        package.client.result = {"p": value}
        assert json.loads(json.dumps(package[name].run().to_wire())) == {"p": value}
    for value in invalid:
        with pytest.raises(ValidationError):
            package.send(name, p=value)


def test_errors_of_alternatives_speak_of_the_right_one(package):
    with pytest.raises(ValidationError) as caught:
        package.send("shape", p={"kind": "square", "a": "x"})
    assert {error["loc"][1] for error in caught.value.errors()} == {"square"}


def test_annotations_are_told(tmp_path):
    properties = {
        "name": {"type": "string", "title": "Name"},
        "user_name": {"type": "string", "title": "User Name"},
        "q": {"type": "string", "title": "Query text"},
        "both": {"type": "string", "title": "Title", "description": "Words."},
        "old": {"type": "integer", "deprecated": True, "examples": [1, 2], "description": "Years."},
        "older": {"type": "integer", "example": {"a": 1}},
        "ref": {"$ref": "#/$defs/d", "examples": [{"x": 1}]},
    }
    definition = {"type": "object", "properties": {"x": {}}, "deprecated": True, "examples": ["e"]}
    source = Package(
        tmp_path,
        [
            {
                "name": "t",
                "inputSchema": {
                    "properties": properties,
                    "$defs": {"d": definition},
                    "examples": [{"q": "x"}],
                },
            }
        ],
    ).source("t")
    for text in (
        '"""Query text"""',
        '"""Words."""',
        "Examples: [1,2]",
        "Deprecated.",
        'Example: {"a":1}',
        'Examples: [{"x":1}]',
        'Examples: ["e"]',
        'Examples: [{"q":"x"}]',
    ):
        assert text.replace(" ", "") in source.replace(" ", ""), text
    assert "User Name" not in source and '"""Name' not in source and "Title" not in source


DIALECTS = {
    "draft 4": {
        "$schema": "http://json-schema.org/draft-04/schema#",
        "id": "x",
        "definitions": {"d": {"type": "integer", "minimum": 1, "exclusiveMinimum": True}},
        "properties": {"p": {"$ref": "#/definitions/d"}},
    },
    "draft 6": {
        "$schema": "http://json-schema.org/draft-06/schema#",
        "definitions": {"d": {"type": "integer", "exclusiveMinimum": 1}},
        "properties": {"p": {"$ref": "#/definitions/d"}},
    },
    "draft 7": {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "definitions": {"d": {"$id": "#d", "type": "integer", "exclusiveMinimum": 1}},
        "properties": {"p": {"$ref": "#d"}},
    },
    "2019-09": {
        "$schema": "https://json-schema.org/draft/2019-09/schema",
        "$defs": {"d": {"$anchor": "d", "type": "integer", "exclusiveMinimum": 1}},
        "properties": {"p": {"$ref": "#d"}},
    },
    "2020-12": {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$defs": {"d": {"type": "integer", "exclusiveMinimum": 1}},
        "properties": {"p": {"$ref": "#/$defs/d"}},
    },
    "OpenAPI 3.0": {
        "properties": {
            "p": {"type": "integer", "minimum": 1, "exclusiveMinimum": True, "nullable": True}
        }
    },
}


@pytest.mark.parametrize("dialect", DIALECTS)
def test_dialects(tmp_path, dialect):
    package = Package(
        tmp_path, [{"name": "t", "inputSchema": {"type": "object", **DIALECTS[dialect]}}]
    )
    assert package.send("t", p=2) == '{"p": 2}'
    for value in (1, "x"):
        with pytest.raises(ValidationError):
            package.send("t", p=value)
