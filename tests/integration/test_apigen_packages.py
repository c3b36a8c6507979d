# SPDX-License-Identifier: Apache-2.0
"""Generated packages as a whole: of real servers, huge and random schemas.

They are clean, reproducible, and never half written.
"""

from __future__ import annotations

import json
import random
import re
import subprocess
from typing import Any

import pytest
from apigen_package import LISTS, Package, check_clean, tool, write
from installed_package import check_types, install
from pydantic import ValidationError
from random_schemas import Schemas, make_nonsense
from test_apigen import SEARCH
from test_apigen_names import HOSTILE_NAMES
from test_apigen_values import VALUES


@pytest.mark.parametrize("path", LISTS, ids=lambda path: path.stem)
def test_real_servers(workspace, path):
    """Each tool of real servers can be called with the arguments that its schema requires."""
    tools = json.loads(path.read_text())
    package = Package(workspace, tools)
    for spec, name in zip(tools, package.names, strict=True):
        schema = spec["inputSchema"]
        arguments = {
            key: example(schema["properties"][key], schema) for key in schema.get("required", [])
        }
        assert json.loads(package.send(name, **arguments)) == arguments
        classes = package.source(name).split("\n@overload\n")[0]
        assert not re.search(
            r"\bAny\b", classes.replace("dict[str, Any]", "").replace("import Any", "")
        ) or "{}" in json.dumps(schema)


def example(schema: dict, root: dict) -> Any:
    """A valid value for the simple schemas that real servers have."""
    if "$ref" in schema:
        return example(root["$defs"][schema["$ref"].split("/")[-1]], root)
    if "enum" in schema:
        return schema["enum"][0]
    if "anyOf" in schema:
        return example(schema["anyOf"][0], root)
    if schema.get("type") == "object":
        return {key: example(schema["properties"][key], root) for key in schema.get("required", [])}
    values = {
        "string": "x" * schema.get("minLength", 1),
        "integer": schema.get("minimum", 1),
        "number": schema.get("minimum", 1),
        "boolean": True,
    }
    return (
        [example(schema["items"], root)] * schema.get("minItems", 1)
        if schema["type"] == "array"
        else values[schema["type"]]
    )


def test_clean_for_linters_and_type_checkers(workspace, tmp_path):
    for path in LISTS:
        write(workspace, json.loads(path.read_text()), server=path.stem.replace("-", "_"))
    hostile = {name: {"type": "integer"} for name in HOSTILE_NAMES}
    kinds = {"kind": {"enum": [*HOSTILE_NAMES[:50], "title", "count", "name", "value", "mro"]}}
    typed = {f"p{number}": schema for number, (schema, _) in enumerate(VALUES)}
    write(
        workspace,
        [tool(hostile, name="names"), tool(kinds, name="kinds"), tool(typed, name="typed")],
        server="hostile",
    )
    write(
        workspace,
        [
            SEARCH,
            tool(outputSchema={"type": "array"}),
            tool(outputSchema={"type": "object", "properties": {"a": {}}}, name="r"),
        ],
        "--async",
        server="calls",
    )
    check_clean(workspace)
    done = check_types(install(tmp_path), workspace)
    assert done.returncode == 0, done.stdout + done.stderr


def test_same_input_same_bytes(workspace):
    for number in (1, 2):
        for path in LISTS:
            write(
                workspace / str(number),
                json.loads(path.read_text()),
                server=path.stem.replace("-", "_"),
            )
    done = subprocess.run(["diff", "-r", workspace / "1", workspace / "2"], capture_output=True)
    assert done.returncode == 0, done.stdout


def test_a_failure_leaves_the_old_package(workspace):
    write(workspace, [tool(name="old")])
    for wrong in (
        b"[",
        b"{}",
        b'[{"name": 5}]',
        b'[{"name": ""}]',
        b"[null]",
        json.dumps([{"name": "x"}] * 10_001).encode(),
    ):
        with pytest.raises(subprocess.CalledProcessError) as caught:
            write(workspace, wrong)
        assert caught.value.returncode == 1 and caught.value.stderr
    assert {path.name for path in workspace.iterdir()} == {"srv"}
    assert {path.name for path in (workspace / "srv").iterdir()} == {
        ".generated",
        ".tools.jsonl",
        "__init__.py",
        "old.py",
    }
    write(workspace, [tool(name="new")])
    assert {path.name for path in (workspace / "srv").iterdir()} == {
        ".generated",
        ".tools.jsonl",
        "__init__.py",
        "new.py",
    }
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
        assert b"is not a generated package" in caught.value.stderr
    assert (precious / "__init__.py").read_text() == "# mine\n" and (
        workspace / "file"
    ).read_text() == "mine"


@pytest.mark.parametrize(
    "name", ["", "a-b", "1a", "class", "None", "ünï", "a.b", "../x", "a\nb", "x" * 101]
)
def test_bad_server_names(workspace, name):
    with pytest.raises(subprocess.CalledProcessError) as caught:
        write(workspace, [], server=name)
    assert b"cannot be the name of a server" in caught.value.stderr
    assert list(workspace.iterdir()) == []


def test_huge_schemas_end_loose_or_refused(workspace):
    """Depth, width, merges that multiply and endless enums do not explode."""
    chain = {
        f"C{n}": {"type": "object", "properties": {"c": {"$ref": f"#/$defs/C{n + 1}"}}}
        for n in range(300)
    }
    deep: dict = {"type": "string"}
    for _ in range(200):
        deep = {"type": "object", "properties": {"d": deep}}
    parts = {
        f"P{n}": {
            "allOf": [{"$ref": f"#/$defs/P{n + 1}"}] * 3,
            "properties": {f"x{n}": {"$ref": "#/$defs/P0", "minLength": n}},
        }
        for n in range(60)
    }
    wide = {
        "type": "object",
        "properties": {
            f"w{n}": {"type": "integer", "description": "d" * 2000} for n in range(20_000)
        },
    }
    tools = [
        tool({"p": deep}, name="deep"),
        tool({"p": {"$ref": "#/$defs/P0"}}, name="merged", **{"$defs": parts}),
        tool(
            {f"p{n}": {"$ref": f"#/$defs/C{n}"} for n in range(300)},
            name="forward",
            **{"$defs": chain},
        ),
        tool(
            {f"p{n}": {"$ref": f"#/$defs/C{n}"} for n in reversed(range(300))},
            name="backward",
            **{"$defs": chain},
        ),
        tool({"p": wide}, name="wide"),
        tool({"p": {"enum": [f"v{n}" for n in range(100_000)]}}, name="values"),
        tool({"p": {"anyOf": [{"const": n} for n in range(10_000)]}}, name="constants"),
        tool(
            {"p": {"anyOf": [{"type": "integer", "minimum": n} for n in range(10_000)]}},
            name="alternatives",
        ),
    ]
    package = Package(workspace, tools)
    value: Any = "x"
    for _ in range(200):
        value = {"d": value}
    assert json.loads(package.send("deep", p=value)) == {"p": value}
    for name in ("deep", "forward", "backward"):
        assert "Nested too deeply" in package.source(name)
    assert package.send("merged", p={"x0": {"y": 1}}) == '{"p": {"x0": {"y": 1}}}'
    assert json.loads(package.send("wide", p={"w1": 1, "w19999": "anything"})) == {
        "p": {"w1": 1, "w19999": "anything"}
    }
    assert package.send("values", p="v99999") == '{"p": "v99999"}'
    assert package.send("constants", p=9_999) == '{"p": 9999}'
    assert package.send("alternatives", p=9_999) == '{"p": 9999}'
    assert all(path.stat().st_size < 6_000_000 for path in package.directory.glob("*.py"))


def test_ten_megabytes_and_ten_thousand_levels(workspace):
    """The outcome is a result, or an error that says what is too large and where."""
    inner = {
        f"q{m}": {"type": "string", "enum": [f"v{k}" for k in range(20)], "description": "d" * 500}
        for m in range(10)
    }
    big = {f"p{n}": {"type": "object", "properties": inner} for n in range(1500)}
    spec = tool(big, name="big")
    assert len(json.dumps(spec)) > 10_000_000
    package = Package(workspace, [spec])
    assert (
        package.send("big", p0={"q1": "v1"}, p1499={"q1": "w"})
        == '{"p0": {"q1": "v1"}, "p1499": {"q1": "w"}}'
    )
    with pytest.raises(ValidationError):
        package.send("big", p0={"q1": "w"})
    assert "names more members than are typed here" in package.source("big")
    deep = '{"type": "array", "items": ' * 10_000 + "{}" + "}" * 10_000
    with pytest.raises(subprocess.CalledProcessError) as caught:
        write(
            workspace,
            b'[{"name": "deep", "inputSchema": {"properties": {"p": %s}}}]' % deep.encode(),
        )
    assert re.search(rb"at byte \d+ .*nested more than 512 deep", caught.value.stderr)


def test_random_schemas(workspace):
    """Valid values of sensible schemas arrive unchanged."""
    schemas = [Schemas(seed).parameters() for seed in range(200)]
    tools = [
        {"name": f"t{n}", "inputSchema": schema, "outputSchema": schema}
        for n, (schema, _) in enumerate(schemas)
    ]
    package = Package(workspace, tools)
    for name, (_, sample) in zip(package.names, schemas, strict=True):
        for _ in range(5):
            value = sample()
            assert canonical(json.loads(package.send(name, **value))) == canonical(value)
            package.client.result = value
            result = package[name].run(package[name].Params.model_construct())
            assert canonical(
                result.to_wire() if hasattr(result, "to_wire") else result
            ) == canonical(value)


def canonical(value: Any) -> str:
    """Distinguishes 1, 1.0 and True, but not the order of members."""
    return json.dumps(value, sort_keys=True)


def test_random_nonsense(workspace):
    """Whatever looks like a schema makes a module that compiles and imports."""
    rng = random.Random(1)
    tools = [{"name": f"t{n}", "description": "x"} for n in range(400)]
    for spec in tools:
        for key in rng.sample(["inputSchema", "outputSchema", "description", "title"], 3):
            spec[key] = make_nonsense(rng)
    text = json.dumps(tools).replace("Infinity", "1e400")
    Package(workspace, text.encode())
