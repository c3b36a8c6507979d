# SPDX-License-Identifier: Apache-2.0
"""Generated packages: hostile names of properties, classes, enums and tools, and hostile texts."""

from __future__ import annotations

import dis
import inspect
import json
import re
from types import CodeType
from typing import Any

import pytest
from apigen_package import tool
from pydantic import ValidationError

HOSTILE_NAMES = [
    "class",
    "None",
    "def",
    "str",
    "int",
    "list",
    "dict",
    "float",
    "bool",
    "Any",
    "Literal",
    "Field",
    "Annotated",
    "schema",
    "json",
    "copy",
    "dict ",
    "construct",
    "validate",
    "model_config",
    "model_fields",
    "model_dump",
    "model_x",
    "to_wire",
    "from_wire",
    "parse_obj",
    "__init__",
    "__class__",
    "__dict__",
    "_private",
    "__slots__",
    "self",
    "cls",
    "",
    " ",
    "_",
    "__",
    "1",
    "1st",
    "a b",
    "a-b",
    "a_b",
    "a.b",
    "a__b",
    "from",
    "from_",
    "from_2",
    "x\ny",
    'q"""q',
    "back\\slash",
    "ünïcode",
    "名前",
    "ⅷ",
    "ﬁ",
    "K",
    "𝐱",
    "x\u202ey",
    "\u200b",
    "🎉",
    "🎉🎉",
    "\ud800",
    "a\0b",
    "a\0c",
    "n" * 10_000,
    "n" * 10_001,
    "Params",
    "Result",
    "Model",
    "CLIENT",
    "run",
    "P",
    "annotations",
    "ClassVar",
    "Enum",
    "${HOME}",
    "{x}",
    "%s",
    "'",
    "\\",
    "#",
    "print(1)",
    "BaseModel",
    "match",
    "type",
    "id",
    "name",
    "value",
    "object",
]


def test_hostile_property_names(make):
    package = make(tool({name: {"type": "integer", "description": name} for name in HOSTILE_NAMES}))
    # pydantic allows no members of such names
    with pytest.raises(ValidationError, match="unicode"):
        package.send("do", **{"\ud800": 1})
    usable = [name for name in HOSTILE_NAMES if name != "\ud800"]
    arguments = {name: number for number, name in enumerate(usable)}
    # By the wire's names.
    text = package.send("do", **arguments)
    assert json.loads(text) == arguments
    # By Python's names.
    fields = package["do"].Params.model_fields
    assert len(fields) == len(usable)
    by_alias = {
        name if field.alias is None else field.alias: name for name, field in fields.items()
    }
    by_name = {by_alias[name]: number for name, number in arguments.items()}
    assert all(name.isidentifier() for name in by_name)
    assert json.loads(package.send("do", **by_name)) == arguments
    # Usable names are unchanged.
    for name in (
        "self",
        "cls",
        "a_b",
        "from_",
        "match",
        "type",
        "id",
        "model_x",
        "ünïcode",
        "名前",
        "object",
    ):
        assert name in fields


def test_hostile_names_of_nested_classes(make):
    names = [
        "Params",
        "Result",
        "Model",
        "str",
        "List",
        "any",
        "Enum",
        "field",
        "1",
        "🎉",
        "class",
        "none",
        "Literal",
        "Any",
    ]
    properties = {
        name: {
            "type": "object",
            "properties": {name: {"type": "object", "properties": {"x": {"type": "integer"}}}},
        }
        for name in names
    }
    package = make(tool(properties))
    arguments = {name: {name: {"x": 1}} for name in names}
    assert json.loads(package.send("do", **arguments)) == arguments


def test_hostile_enum_values(make):
    values = [name for name in HOSTILE_NAMES if name != "\ud800"] + [
        "mro",
        "title",
        "count",
        "index",
        "_ignore_",
        "__x__",
    ]
    package = make(tool({"kind": {"enum": values}}))
    assert len(list(package["do"].Kind)) == len(values)
    for member in package["do"].Kind:
        assert json.loads(package.send("do", kind=member)) == {"kind": member.value}
        assert json.loads(package.send("do", kind=member.value)) == {"kind": member.value}
    assert package["do"].Kind.title.value == "title" and package["do"].Kind.name.value == "name"


def test_hostile_tool_names(make):
    names = [
        "run",
        "params",
        "__init__",
        "__main__",
        "class",
        "import",
        "None",
        "t" * 10_000,
        "t" * 9_999,
        "a b",
        "a_b",
        "a-b",
        "A_B",
        "1",
        "日本",
        "語本",
        "🎉",
        "../../etc/passwd",
        "a/b",
        "a\\b",
        "client",
        "model",
        "typing",
        "json",
        "enum",
        "pydantic",
        "ipybox",
        "x.py",
        ".",
        "..",
        'q"""+q',
        "new\nline",
        "a\0b",
        "\ud800",
        "annotations",
        "true",
    ]
    package = make(*(tool(name=name, description=name, title=name) for name in names))
    assert len(set(package.names)) == len(names)
    assert {path.name for path in package.directory.iterdir() if path.name != "__pycache__"} == {
        ".generated", ".tools.jsonl", "__init__.py", *(f"{name}.py" for name in package.names)
    }  # fmt: skip
    for name, module in zip(names, package.names, strict=True):
        assert (
            len(f"{module}.py".encode()) <= 200
            and module.isidentifier()
            and module == module.lower()
        )
        package.send(module)
        assert package.client.calls[-1] == (name, "{}")
    by_name = dict(zip(names, package.names, strict=True))
    assert by_name["a_b"] == "a_b" and by_name["run"] == "run" and by_name["class"] == "class_"
    assert {by_name[name] for name in ("a b", "a-b", "A_B")} == {"a_b_2", "a_b_3", "a_b_4"}
    assert "from srv import client" and package["client"].Params


def global_names(code: CodeType) -> set[str]:
    names = {step.argval for step in dis.get_instructions(code) if step.opname == "LOAD_GLOBAL"}
    return names.union(
        *(global_names(inner) for inner in code.co_consts if isinstance(inner, CodeType))
    )


def test_no_tool_takes_the_place_of_a_name_that_the_package_uses(make):
    """Its modules are attributes of the package, and their names are in lower case."""
    package = make(
        tool({"a": {"type": "integer", "default": 1}}),
        tool(name="_isinstance"),
        tool(name="_GET_ARGS"),
        tool(name="_Mapping"),
    )
    functions = [
        getattr(value, "__func__", value) for value in vars(package.package.Model).values()
    ]
    own = [
        value.__code__
        for value in functions
        if getattr(value, "__module__", "") == "srv" and hasattr(value, "__code__")
    ]
    used = set().union(*map(global_names, own))
    assert len(own) > 5 and "BaseModel" in used
    assert [name for name in used if name == name.lower()] == []
    assert package.send("do", a=None) == "{}"


BREAKOUTS = [
    '"""',
    '""""',
    '"' * 7,
    "'''",
    '\\"""',
    "\\",
    "\\\\",
    'x"',
    'x\\"',
    '"',
    '" ',
    '"""\nimport os\nos.abort()\n"""',
    "\\N{DIGIT ONE} \\x \\u12 \\",
    "a\rb",
    "a\r\nb",
    "a\fb",
    "a\vb",
    "a\x85b",
    "a\u2028b\u2029c",
    "a\0b",
    "\ud800",
    "\ufeff",
    "\u202e right to left \u2066",
    "\U000e0041\U000e0042",
    "  indented\n    more\n  less",
    "\t\ttabs",
    "\n\n\n",
    " ",
    "",
    "long " * 5000,
    "w" * 30_000,
    '"' * 30_000,
    "\\" * 30_000,
    '" ' * 3000,
    "# coding: rot13",
    "{x} %s ${HOME}",
    "a" * 92 + '"""',
    "a" * 93 + '"',
    "a " * 46 + '"""' + " b" * 50,
    "a " * 46 + "\\" + " b" * 50,
    "é" * 200,
    "\n".join(['"""'] * 9),
]


@pytest.mark.parametrize("text", BREAKOUTS, ids=[str(number) for number in range(len(BREAKOUTS))])
def test_texts_stay_texts(make, text):
    """In every place where a text may be. check_source has checked what the module consists of."""
    package = make(
        tool(
            {
                text: {
                    "type": "string",
                    "description": text,
                    "title": text,
                    "default": text,
                    "pattern": text,
                    "format": text,
                },
                "e": {
                    "type": "string",
                    "enum": ["x" + text, "y"],
                    "description": text,
                    "default": "x" + text,
                },
                "c": {"const": text},
                "o": {"$ref": "#/$defs/o"},
                "r": {"$ref": text},
                "one": {
                    "oneOf": [{"const": text, "title": text}, {"const": "b", "description": text}]
                },
            },
            name="t" + text,
            title=text,
            description=text,
            outputSchema={
                "description": text,
                "type": "array",
                "items": {"description": text, "const": text},
            },
            **{
                "$defs": {
                    "o": {
                        "description": text,
                        "title": text,
                        "type": "object",
                        "properties": {"a" + text: {}},
                    }
                }
            },
        )
    )
    (module,) = package.names
    object = {} if "\ud800" in text else {"a" + text: 1}  # pydantic has no members of such names
    assert json.loads(package.send(module, c=text, o=object)) == {"c": text, "o": object}
    for name in ("__init__", module):
        source = package.source(name)
        assert not set(source) & set(
            "\0\r\f\v\x85\u2028\u2029\u202e\u2066\ufeff\U000e0041\U000e0042"
        )
        assert len(source) < 700_000


def test_descriptions_are_wrapped_and_dedented(make):
    description = (
        "Reads.\n\n    Args:\n        path: "
        + "where it is " * 12
        + "\n        - item "
        + "one two " * 20
        + "\n\n\n\n    Ends.  \n"
    )
    package = make(
        tool({"p": {"type": "string", "description": "word " * 60}}, description=description)
    )
    assert all(len(line) <= 100 for line in package.source("do").splitlines())
    lines = inspect.cleandoc(
        package["do"].run.__doc__
    ).splitlines()  # from Python 3.13 on it is clean without that
    assert lines[:3] == ["Reads.", "", "Args:"] and lines[3].startswith("    path: where")
    assert lines[-2:] == ["", "Ends."]
    assert "word " * 59 + "word" in " ".join(package.source("do").split())


def thing(**properties: Any) -> dict[str, Any]:
    """An object whose class is shared with no other."""
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
    """Each class by its content. Of equal classes it is the first, which is the input's."""
    package = make(tool(properties, **{"$defs": DEFINITIONS}, outputSchema={"properties": output}))
    found = re.findall(r"class (\w+)\(.*\):\n((?:    .*\n)*)", package.source("do"))
    return {body: name for name, body in reversed(found) if name not in ("Params", "Result")}


def test_names_of_classes_are_not_changed_by_what_is_added(make):
    names = class_names(make, CLASSES, {})
    assert set(names.values()) == {
        "Filter",
        "FilterOptions",
        "Update",
        "UpdateOptions",
        "UpdateFilter",
        "UpdateUser",
        "Sort",
        "ListItem",
        "ListItem_2",
        "User",
    }
    more = {
        "deep": thing(
            deeper=thing(
                sort={"enum": ["a", "b"]}, filter=thing(q={}), list=thing(r={}), user=thing(s={})
            )
        ),
        "first": thing(options=thing(t={})),
        "twice": {"$ref": "#/$defs/Twice"},
    }
    orders = [
        {**more, **CLASSES},
        {**CLASSES, **more},
        dict(reversed([*CLASSES.items(), *more.items()])),
    ]
    for properties in orders:
        changed = class_names(
            make,
            properties,
            {name: thing(**CLASSES) for name in ("filter", "sort", "owner", "deep")},
        )
        assert names.items() <= changed.items()
        assert len(set(changed.values())) == len(changed)


def variant(kind: str, **more: Any) -> dict[str, Any]:
    return {"type": "object", "properties": {"type": {"const": kind}, **more}, "required": ["type"]}


def test_names_as_a_person_would_choose(make):
    """Kinds of names that were ugly in tests/corpus."""
    size = {"enum": ["sm", "3xl", "+1", ">=", ""]}
    package = make(
        tool(
            {"params": {"properties": {"a": {}}}},
            outputSchema={
                "properties": {"results": {"type": "array", "items": {"properties": {"b": {}}}}}
            },
            name="own",
        ),
        tool(
            {
                "overlays": {
                    "type": "array",
                    "items": {
                        "anyOf": [
                            variant("map-marker", size=size),
                            variant("path", size={"enum": ["s", "m"]}),
                        ]
                    },
                }
            },
            name="variants",
        ),
        tool(
            {
                "headers": {
                    "type": "array",
                    "items": {
                        "anyOf": [
                            thing(**{f"h{n}": {}}, size={"enum": ["a", f"b{n}"]}) for n in range(3)
                        ]
                    },
                }
            },
            name="numbered",
        ),
        tool(
            {
                "children": {
                    "type": "array",
                    "items": thing(series={"type": "array", "items": {"properties": {"y": {}}}}),
                }
            },
            name="plurals",
        ),
    )

    def classes(name: str) -> list[str]:
        return sorted(
            set(re.findall(r"^class (\w+)\(", package.source(name), re.MULTILINE))
            - {"Params", "Result"}
        )

    assert classes("own") == ["ParamsValue", "ResultValue"]
    assert classes("variants") == [
        "MapMarkerOverlay",
        "MapMarkerOverlaySize",
        "PathOverlay",
        "PathOverlaySize",
    ]
    assert classes("numbered") == [
        "Header",
        "HeaderSize",
        "HeaderSize_2",
        "HeaderSize_3",
        "Header_2",
        "Header_3",
    ]
    assert classes("plurals") == ["Child", "SeriesItem"]
    members = package["variants"].MapMarkerOverlaySize
    assert (members._3xl.value, members.plus_1.value, members.ge.value, members.empty.value) == (
        "3xl",
        "+1",
        ">=",
        "",
    )


def test_names_of_alternatives_do_not_depend_on_their_order(make):
    kinds = [variant(kind, **{kind: {}}) for kind in ("a", "b", "c")]
    for order in (kinds, kinds[::-1]):
        names = class_names(make, {"p": {"anyOf": order}}, {})
        assert sorted(names.values()) == ["AP", "BP", "CP"]
        assert all(f'"{name[0].lower()}"' in body for body, name in names.items())
