# SPDX-License-Identifier: Apache-2.0
"""Generated packages: which values arrive unchanged, and which are refused."""

from __future__ import annotations

import json

import pytest
from apigen_package import tool
from pydantic import ValidationError

ANY_VALUES = [
    2**70,
    -(2**70),
    0.1,
    1e300,
    -0.0,
    1,
    1.0,
    True,
    None,
    "é",
    "\ud800",
    "a\0b",
    [1, [2.5]],
    {"\udc00": {"x": None}},
]
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
    (
        {
            "anyOf": [
                {"type": "array", "items": {"type": "string"}},
                {"type": "string"},
                {"type": "null"},
            ]
        },
        ["a"],
    ),
    (
        {
            "anyOf": [
                {"type": "array", "items": {"type": "integer"}},
                {"type": "array", "items": {"type": "string"}},
            ]
        },
        ["1"],
    ),
    ({"anyOf": [{"enum": ["a", 1]}, {"type": "boolean"}]}, True),
    ({"anyOf": [{"enum": ["a", 1]}, {"type": "boolean"}]}, 1),
    ({"anyOf": [{"enum": [1, 2]}, {"enum": [True, "a"]}]}, True),
    ({"anyOf": [{"enum": [1, 2]}, {"enum": [True, "a"]}]}, 1),
    ({"anyOf": [{"const": True}, {"type": "integer"}]}, 1),
    ({"oneOf": [{"const": "a", "title": "The a"}, {"const": "b", "description": "The b"}]}, "b"),
    ({"type": "array", "prefixItems": [{"type": "string"}, {"type": "integer"}]}, ["a", 1]),
    ({"type": "array", "items": [{"type": "string"}, {"type": "integer"}]}, ["a", 1]),
    (
        {
            "type": "array",
            "allOf": [{"items": [{"type": "integer"}]}],
            "additionalItems": {"type": "boolean"},
        },
        [1, None],
    ),
    (
        {
            "$ref": "b#n",
            "$defs": {
                "B": {
                    "$id": "b",
                    "allOf": [
                        {"$id": "c", "$anchor": "n", "type": "integer"},
                        {"$anchor": "n", "type": "string"},
                    ],
                }
            },
        },
        "x",
    ),
    ({"type": "object", "additionalProperties": {"type": "integer"}}, {"any key": 1}),
    ({"type": "object", "patternProperties": {"^x": {"type": "integer"}}}, {"x": 1}),
    ({"type": "object", "properties": {"a": {"type": "integer"}}}, {"a": 1, "more": [1]}),
    ({"type": "object", "properties": {"a": {"type": "integer", "default": 3}}}, {}),
    (
        {
            "allOf": [
                {"type": "object", "properties": {"a": {"type": "integer"}}},
                {"properties": {"b": {"type": "string"}}},
            ]
        },
        {"a": 1, "b": "x"},
    ),
    (
        {
            "type": "object",
            "properties": {"k": {"const": "x"}},
            "oneOf": [
                {"properties": {"l": {"type": "string"}}},
                {"properties": {"l": {"type": "integer"}}},
            ],
        },
        {"k": "x", "l": 1},
    ),
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
    (
        {
            "type": 5,
            "enum": 5,
            "properties": 5,
            "anyOf": 5,
            "allOf": 5,
            "required": 5,
            "items": 5,
            "$ref": 5,
        },
        1,
    ),
    (
        {"type": "object", "properties": {"a": {"not": {"type": "string"}}}, "if": {}, "then": {}},
        {"a": 1},
    ),
]


@pytest.mark.parametrize(
    ("schema", "value"), VALUES, ids=[str(number) for number in range(len(VALUES))]
)
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
