# SPDX-License-Identifier: Apache-2.0
"""Generated packages: how results are converted, also those that violate their schema."""

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
            "items": {
                "type": "array",
                "items": {
                    "type": "object",
                    "properties": {
                        "from": {"type": "string"},
                        "state": {"enum": ["open", "closed"]},
                    },
                },
            },
            "total": {"type": "integer"},
        },
        "required": ["items"],
        "additionalProperties": False,
    }
    package, result = result_of(
        make, schema, {"items": [{"from": "a", "state": "open", "new": 1}], "more": 2}
    )
    assert isinstance(result, package["do"].Result)
    item = result.items[0]
    assert (item.from_, item.state, item.new, result.total, result.more) == (
        "a",
        "open",
        1,
        None,
        2,
    )
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
    """The error of a result that violates the schema.

    It has the result, and its text is bounded.
    """
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
                "properties": {
                    "name": {"type": "string"},
                    "size": {"type": "integer", "minimum": 0},
                },
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
        (
            {"items": [{"name": "x"}, {"name": 7}]},
            ("items", 1, "name"),
            "items[1].name: Input should be a valid string",
        ),
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
    error = violate(
        make, ITEMS, {"items": [], "tags": {"x" * 100_000: 1, "\u202e\ud800\x1b[2J": 1}}
    )
    assert str(error).isascii() or "…" in str(error)
    assert not any(c in str(error) for c in "\u202e\ud800\x1b")


def test_deep_results(make):
    node = {
        "type": "object",
        "properties": {"kids": {"type": "array", "items": {"$ref": "#"}}, "n": {"type": "integer"}},
    }
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
        ({"type": "object"}, {"a": 1}, "ToolDict[Any]"),
        (
            {"type": "object", "additionalProperties": {"type": "integer"}},
            {"a": 1},
            "ToolDict[int]",
        ),
        (
            {
                "type": "array",
                "items": {"type": "object", "properties": {"a": {"type": "integer"}}},
            },
            [],
            "ToolList[ResultItem]",
        ),
        ({"type": "string"}, "x", "ToolText"),
        ({"type": ["integer", "null"]}, None, "ToolInt | None"),
        ({"type": ["number", "boolean"]}, True, "bool | ToolInt | ToolFloat"),
        ({}, [1], "Any"),
        (True, [1], "Any"),
        (
            {"anyOf": [{"type": "string"}, {"type": "integer", "minimum": 1}]},
            2,
            "ToolText | Annotated[ToolInt, Field(ge=1)]",
        ),
    ],
)
def test_results_that_are_no_objects(make, schema, value, text):
    package, result = result_of(make, schema, value)
    assert result == value
    assert f"\nResult = {text}\n" in package.source("do")
    assert "def run(params: Params | None = None, /, **fields: Any) -> Result:" in package.source(
        "do"
    )


PNG = {"type": "image", "data": "aGk=", "mimeType": "image/png"}


def text(value: str) -> dict[str, Any]:
    return {"type": "text", "text": value}


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ({"content": [text("a"), text("b")]}, "a\nb"),
        ({"content": [text("a"), PNG], "structuredContent": {"k": 1}}, "a"),
        ({"content": [], "structuredContent": {"k": ["é", 1.5]}}, '{"k": ["é", 1.5]}'),
        ({"content": [], "structuredContent": [1]}, "[1]"),
        ({"content": [PNG], "structuredContent": None}, "[image image/png, 2 bytes]"),
        ({"content": []}, ""),
        ({}, ""),
        ({"content": "wrong"}, ""),
    ],
)
def test_a_tool_without_output_schema_returns_a_text(make, answer, expected):
    """It returns nothing else, and all contents are reachable."""
    package = make(tool())
    package.client.answer = answer
    result = package["do"].run()
    assert result == expected and isinstance(result, str)
    contents = answer.get("content") if isinstance(answer.get("content"), list) else []
    assert (result.contents, result.structured) == (contents, answer.get("structuredContent"))
    assert result.text == "\n".join(part["text"] for part in contents if "text" in part)
    assert len(result.images) == contents.count(PNG)


def test_a_result_has_what_came_beside_it(make):
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}}
    package = make(tool(outputSchema=schema))
    package.client.answer = {
        "content": [text("seven"), PNG],
        "structuredContent": {"n": 7, "text": "mine"},
    }
    run, result_class = package["do"].run, package["do"].Result
    result = run()
    assert (result.n, result.text, result.contents) == (7, "seven", [text("seven"), PNG])
    assert result.contents[1].data == b"hi"
    assert result.model_dump() == {"n": 7, "text": "mine"} == {**result.model_extra, "n": 7}
    # It is not a part of the value.
    plain = result_class(n=7, **{"text": "mine"})
    assert result == plain and (plain.contents, plain.text) == ([], "")
    result.n = 8
    for copied in (result, result.model_copy(), copy.deepcopy(result)):
        assert (copied.n, copied.text, copied.contents) == (8, "seven", [text("seven"), PNG])


def test_members_keep_their_names_and_ours_get_out_of_the_way(make):
    value = {"text": "theirs", "text_": 1, "contents": [2]}
    schema = {"type": "object", "properties": {name: {} for name in value}}
    package = make(tool(outputSchema=schema))
    package.client.answer = {"content": [text("ours")], "structuredContent": value}
    result = package["do"].run()
    assert (result.text, result.text_, result.contents) == ("theirs", 1, [2])
    assert (result.text__, result.contents_) == ("ours", [text("ours")])
    assert result.model_dump() == value


def wrap(schema: dict[str, Any]) -> dict[str, Any]:
    """Wraps a value as FastMCP does."""
    return {
        "type": "object",
        "properties": {"result": schema},
        "required": ["result"],
        "x-fastmcp-wrap-result": True,
    }


INTEGERS = {"type": "array", "items": {"type": "integer"}}
PERSON = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}


@pytest.mark.parametrize(
    ("schema", "value", "annotation"),
    [
        (INTEGERS, [1, 2], "ToolList[int]"),
        ({"type": "string"}, "x", "ToolText"),
        ({"type": "integer"}, 5, "ToolInt"),
        ({"type": "number"}, 1.5, "ToolInt | ToolFloat"),
        (
            {"type": "object", "additionalProperties": {"type": "integer"}},
            {"a": 1},
            "ToolDict[int]",
        ),
        ({"anyOf": [INTEGERS, {"type": "null"}]}, [3], "ToolList[int] | None"),
        ({"type": "boolean"}, True, "bool"),
        ({"anyOf": [{"type": "integer"}, {"type": "null"}]}, None, "ToolInt | None"),
    ],
)
def test_wrapped_results_are_unwrapped(make, schema, value, annotation):
    package = make(tool(outputSchema=wrap(schema)))
    package.client.answer = {"content": [text("t"), PNG], "structuredContent": {"result": value}}
    result = package["do"].run()
    assert result == value and isinstance(result, type(value))
    assert f"\nResult = {annotation}\n" in package.source("do")
    if isinstance(value, (bool, type(None))):
        return
    assert result.result == value and type(result.result) is type(
        result
    )  # as in programs for ipybox 0.9
    assert (result.contents, result.text, len(result.images)) == ([text("t"), PNG], "t", 1)
    assert result.structured == {"result": value}
    for copied in (pickle.loads(pickle.dumps(result)), copy.deepcopy(result)):
        assert copied == value and copied.contents == result.contents


def test_wrapped_objects_have_what_came_beside_them(make):
    package = make(
        tool(
            outputSchema={
                **wrap({"anyOf": [{"$ref": "#/$defs/P"}, {"type": "null"}]}),
                "$defs": {"P": PERSON},
            }
        ),
        tool(outputSchema=wrap(PERSON), name="bare"),
    )
    for name in ("do", "bare"):
        package.client.answer = {
            "content": [text("t")],
            "structuredContent": {"result": {"name": "Ada"}},
        }
        result = package[name].run()
        assert (result.name, result.text) == ("Ada", "t")
    assert isinstance(result, package["bare"].Result)
    package.client.answer = {"content": [], "structuredContent": {"result": None}}
    assert package["do"].run() is None


@pytest.mark.parametrize(
    ("answer", "result", "path"),
    [
        ({"structuredContent": {"result": [1, "x"]}}, [1, "x"], (1,)),
        ({"structuredContent": {"value": [1]}}, {"value": [1]}, ()),
        ({"structuredContent": [1]}, [1], ()),
        ({"content": [text("[1]")]}, "[1]", ()),
        ({"content": []}, None, ()),
    ],
)
def test_wrapped_results_that_violate_their_schema(make, answer, result, path):
    package = make(tool(outputSchema=wrap(INTEGERS)))
    package.client.answer = answer
    with pytest.raises(ResultError) as caught:
        package["do"].run()
    assert (caught.value.result, caught.value.path) == (result, path)


def test_only_what_fastmcp_wraps_is_unwrapped(make):
    schema = wrap(INTEGERS)
    two = {**schema, "properties": {**schema["properties"], "more": {}}}
    for other in (
        {**schema, "x-fastmcp-wrap-result": False},
        {**schema, "x-fastmcp-wrap-result": "yes"},
        two,
    ):
        package, result = result_of(make, other, {"result": [1]})
        assert isinstance(result, package["do"].Result) and result.result == [1]
