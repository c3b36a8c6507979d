# SPDX-License-Identifier: Apache-2.0
"""Do generated classes agree with a validator about what is valid?

The judge is PyPI's jsonschema, the instances come from hypothesis-jsonschema. A valid instance must
be accepted and sent unchanged. Invalid ones are made of valid ones by small changes. They should be
refused; those that are accepted are counted by the keyword that forbids them.

usage: python tests/corpus/agreement.py [--examples N] [NAME]...

It prints the report over the corpus.
"""

from __future__ import annotations

import argparse
import copy
import functools
import json
import os
import random
import re
import sys
import tempfile
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "integration"))

from apigen_package import Package
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis_jsonschema import from_schema
from jsonschema import Draft202012Validator
from jsonschema.exceptions import ValidationError, best_match
from jsonschema.validators import validator_for

HERE = Path(__file__).resolve().parent
LISTS = sorted(path for path in HERE.glob("*.json") if path.name != "servers.json")
EXAMPLES = int(os.environ.get("IPYBOX_CORPUS_EXAMPLES", "2"))
SEED = 8
# Levels of recursion in instances.
MAX_UNROLLED = 2
# Invalid instances for each valid one.
CHANGES = 4


def load(path: Path) -> list[dict[str, Any]]:
    return json.loads(path.read_text())["tools"]


def package_name(path: Path) -> str:
    """Not `time` and `git`, which are modules of Python."""
    return "mcp_" + re.sub(r"\W", "_", path.stem)


def canonical(value: Any) -> str:
    """Distinguishes 1, 1.0 and True, but not the order of members."""
    return json.dumps(value, sort_keys=True)


def unroll(node: Any, root: Any, seen: tuple[str, ...] = ()) -> Any:
    """The schema with its local references written out.

    Recursive ones are written out MAX_UNROLLED times, and are true below that.
    """
    if isinstance(node, list):
        return [unroll(item, root, seen) for item in node]
    if not isinstance(node, dict):
        return node
    ref = node.get("$ref")
    if isinstance(ref, str):
        if seen.count(ref) >= MAX_UNROLLED:
            return True
        target = root
        for key in ref.lstrip("#").split("/")[1:]:
            key = key.replace("~1", "/").replace("~0", "~")
            target = target[int(key)] if isinstance(target, list) else target[key]
        rest = {key: value for key, value in node.items() if key != "$ref"}
        inner = unroll(target, root, (*seen, ref))
        return {"allOf": [inner, unroll(rest, root, seen)]} if rest else inner
    return {
        key: value if key in ("enum", "const", "default", "examples") else unroll(value, root, seen)
        for key, value in node.items()
        if key not in ("$defs", "definitions", "$schema", "$id")
    }


def drawable(schema: Any) -> Any:
    """The schema as hypothesis-jsonschema knows it, which predates 2020-12 and knows only Python's
    regular expressions.
    """
    schema = with_python_patterns(unroll(schema, schema))

    def clean(node: Any) -> Any:
        if isinstance(node, list):
            return [clean(item) for item in node]
        if not isinstance(node, dict):
            return node
        node = {
            key: clean(value) if key not in ("enum", "const", "default", "examples") else value
            for key, value in node.items()
        }
        if isinstance(node.get("pattern"), str):
            try:
                re.compile(node["pattern"])
            except re.error:
                del node["pattern"]
        if isinstance(node.get("prefixItems"), list):
            more = node.pop("items", True)
            node |= {"items": node.pop("prefixItems"), "additionalItems": more}
        return node

    return clean(schema)


def bare(node: Any) -> Any:
    """The schema without its texts."""
    if isinstance(node, list):
        return [bare(item) for item in node]
    if not isinstance(node, dict):
        return node
    return {
        key: bare(value)
        for key, value in node.items()
        if not (key in ("title", "description") and isinstance(value, str))
    }


def draw(schema: Any, count: int) -> list[Any]:
    """Valid instances, the same in each run.

    Servers repeat their schemas, so instances are remembered.
    """
    return copy.deepcopy(draw_bare(canonical(bare(schema)), count))


@functools.cache
def draw_bare(text: str, count: int) -> list[Any]:
    schema = json.loads(text)
    found: list[Any] = []
    is_valid = make_validator(schema).is_valid
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        strategy = from_schema(drawable(schema))

        @seed(SEED)
        @settings(max_examples=count, phases=[Phase.generate], database=None, deadline=None,
                  suppress_health_check=list(HealthCheck))  # fmt: skip
        @given(strategy)
        def keep(instance: Any) -> None:
            found.append(instance)

        keep()
    return [instance for instance in found if is_valid(instance)]


def as_python(pattern: str) -> str:
    """An expression that means in Python what it means in ECMA-262: \\d is ASCII, and $ the very
    end.
    """
    return "(?a)" + re.sub(
        r"\\.|\[(?:\\.|[^\]])*\]|\$",
        lambda found: r"\Z" if found[0] == "$" else found[0],
        pattern,
        flags=re.DOTALL,
    )


def with_python_patterns(node: Any) -> Any:
    if isinstance(node, list):
        return [with_python_patterns(item) for item in node]
    if not isinstance(node, dict):
        return node
    return {
        key: as_python(value)
        if key == "pattern" and isinstance(value, str)
        else value
        if key in ("enum", "const", "default", "examples")
        else with_python_patterns(value)
        for key, value in node.items()
    }


def make_validator(schema: Any, *, formats: bool = False) -> Any:
    schema = with_python_patterns(schema)
    kind = validator_for(schema, default=Draft202012Validator)
    return kind(schema, format_checker=kind.FORMAT_CHECKER if formats else None)


JUNK: list[Any] = [
    None,
    True,
    0,
    -1,
    1.5,
    10**9,
    "",
    "x",
    "x" * 10_000,
    [],
    [None],
    {},
    {"x": None},
]


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    yield path
    if isinstance(value, (dict, list)):
        for key, inner in value.items() if isinstance(value, dict) else enumerate(value):
            yield from places(inner, (*path, key))


def change(instance: Any, rng: random.Random, names: list[str]) -> Any:
    """An instance in which one place is replaced, absent or new."""
    instance = copy.deepcopy(instance)
    path = rng.choice([path for path in places(instance)])
    inner = instance
    for key in path[:-1]:
        inner = inner[key]
    here = inner[path[-1]] if path else instance
    if isinstance(here, dict) and rng.random() < 0.6:
        here[rng.choice([*names, "zz"])] = rng.choice(JUNK)
    elif isinstance(here, list) and rng.random() < 0.6:
        here.append(rng.choice([*JUNK, *here]))
    elif path and isinstance(inner, dict) and rng.random() < 0.4:
        del inner[path[-1]]
    elif path:
        inner[path[-1]] = rng.choice(JUNK)
    return instance


def property_names(schema: Any) -> list[str]:
    names: set[str] = set()

    def visit(node: Any) -> None:
        if isinstance(node, dict):
            if isinstance(node.get("properties"), dict):
                names.update(node["properties"])
            for inner in node.values():
                visit(inner)
        elif isinstance(node, list):
            for inner in node:
                visit(inner)

    visit(schema)
    return sorted(names)


def reason(error: ValidationError) -> str:
    """The innermost keyword that forbids an instance."""
    while error.context:
        inner = best_match(error.context)
        if inner is None:
            break
        error = inner
    if error.validator == "type" and error.instance is None:
        return "type: null"
    if error.validator == "format":
        return f"format: {error.validator_value}"
    return str(error.validator)


@dataclass
class Report:
    """The outcome for the instances of some schemas."""

    schemas: int = 0
    not_drawn: list[str] = field(default_factory=list)
    valid: int = 0
    wrong: list[str] = field(default_factory=list)
    invalid: Counter[str] = field(default_factory=Counter)
    refused: Counter[str] = field(default_factory=Counter)
    mended: Counter[str] = field(default_factory=Counter)
    let_through: dict[str, list[str]] = field(default_factory=dict)

    def add(self, other: Report) -> None:
        self.schemas += other.schemas
        self.not_drawn += other.not_drawn
        self.valid += other.valid
        self.wrong += other.wrong
        self.invalid += other.invalid
        self.refused += other.refused
        self.mended += other.mended
        for keyword, cases in other.let_through.items():
            self.let_through.setdefault(keyword, []).extend(cases)


class Refused(Exception):
    """An instance that generated code does not accept."""


Take = Callable[[Any], Any]


def judge(
    where: str,
    schema: Any,
    take: Take,
    examples: int,
    report: Report,
    instances: list[Any] | None = None,
) -> None:
    """`take` returns what is sent for an instance."""
    report.schemas += 1
    validator = make_validator(schema)
    if instances is None:
        try:
            instances = draw(schema, examples)
        except Exception as error:  # a library may raise anything
            report.not_drawn.append(f"{where}: {type(error).__name__}: {error}"[:300])
            return
    rng = random.Random(SEED)
    names = property_names(schema)
    for instance in instances:
        report.valid += 1
        try:
            sent = take(instance)
            if canonical(sent) != canonical(instance):
                report.wrong.append(
                    f"{where}: {canonical(instance)[:500]} becomes {canonical(sent)[:500]}"
                )
        except Refused as error:
            report.wrong.append(f"{where}: {canonical(instance)[:500]} is refused: {error}"[:1500])
        for _ in range(CHANGES):
            judge_invalid(where, validator, take, change(instance, rng, names), report)


def judge_invalid(where: str, validator: Any, take: Take, instance: Any, report: Report) -> None:
    error = best_match(validator.iter_errors(instance))
    if error is None or not isinstance(instance, dict):
        return
    keyword = reason(error)
    report.invalid[keyword] += 1
    try:
        sent = take(instance)
    except Refused:
        report.refused[keyword] += 1
        return
    if validator.is_valid(sent):
        report.mended[keyword] += 1
    else:
        report.let_through.setdefault(keyword, []).append(f"{where}: {canonical(instance)[:300]}")


def judge_package(
    package: Package, tools: list[dict[str, Any]], examples: int, report: Report
) -> None:
    server = package.directory.name
    for spec, name in zip(tools, package.names, strict=True):
        # Arguments are objects, whether the schema says so or not.
        judge(
            f"{server}.{name}",
            {"type": "object", **spec["inputSchema"]},
            make_params_take(package, name),
            examples,
            report,
        )
        if isinstance(spec.get("outputSchema"), dict):
            judge(
                f"{server}.{name} result",
                spec["outputSchema"],
                make_result_take(package, name),
                examples,
                report,
            )


def make_params_take(package: Package, name: str) -> Take:
    def take(instance: Any) -> Any:
        try:
            return json.loads(package.send(name, **instance))
        except ValueError as error:
            raise Refused(str(error)) from error

    return take


def make_result_take(package: Package, name: str) -> Take:
    module = package[name]
    params = module.Params.model_construct()
    is_wrapped = 'from_wire(Result, answer, "result")' in package.source(name)

    def take(instance: Any) -> Any:
        package.client.result = copy.deepcopy(instance)
        try:
            result = module.run(params)
        except Exception as error:
            raise Refused(str(error)) from error
        value = json.loads(
            json.dumps(result.to_wire() if hasattr(result, "to_wire") else result, default=to_wire)
        )
        return {**instance, "result": value} if is_wrapped else value

    return take


def to_wire(model: Any) -> Any:
    return model.to_wire()


def judge_list(path: Path, directory: Path, examples: int) -> Report:
    tools = load(path)
    report = Report()
    judge_package(Package(directory, tools, server=package_name(path)), tools, examples, report)
    return report


def show(report: Report) -> None:
    invalid, refused = sum(report.invalid.values()), sum(report.refused.values())
    mended = sum(report.mended.values())
    print(f"\n{report.schemas} schemas, {len(report.not_drawn)} not drawn from")
    print(f"{report.valid} valid instances, {len(report.wrong)} refused or changed")
    print(
        f"{invalid} invalid instances, {refused} refused, {mended} made valid, "
        f"{invalid - refused - mended} let through"
    )
    for keyword, count in report.invalid.most_common():
        cases = report.let_through.get(keyword, [])
        print(
            f"  {keyword:24} {count:6} {report.refused[keyword]:6} "
            f"{report.mended[keyword]:6} {len(cases):6}  {cases[0][:150] if cases else ''}"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description="How generated classes agree with a validator.")
    parser.add_argument("--examples", type=int, default=20)
    parser.add_argument("names", nargs="*", metavar="NAME")
    arguments = parser.parse_args()
    total = Report()
    for path in LISTS:
        if arguments.names and path.stem not in arguments.names:
            continue
        with tempfile.TemporaryDirectory() as directory:
            try:
                report = judge_list(path, Path(directory), arguments.examples)
            except Exception as error:
                print(f"{path.stem}: FAILED: {type(error).__name__}: {error}"[:1000], flush=True)
                continue
        print(
            f"{path.stem}: {report.schemas} schemas, {report.valid} valid, "
            f"{len(report.wrong)} wrong",
            flush=True,
        )
        for line in [*report.wrong[:5], *report.not_drawn[:3]]:
            print(f"    {line}", flush=True)
        total.add(report)
    show(total)


if __name__ == "__main__":
    main()
