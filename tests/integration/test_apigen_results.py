# SPDX-License-Identifier: Apache-2.0
"""Generated packages: what is made of results, and of those that violate their schema."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import apigen_package
import pytest
from apigen_package import ResultError, tool


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
