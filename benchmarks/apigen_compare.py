#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares generated APIs with those of datamodel-code-generator, for the schemas of tests/corpus.

Both get the same instances: valid ones by hypothesis-jsonschema, and invalid ones that are made by
changes. jsonschema validates what goes over the wire. docs/benchmarks.md has the table and says
what its rows mean.

usage: benchmarks/apigen_compare.py [--examples N] [--each N] [--contender PYTHON] [--json FILE]
[NAME]...

Needs build/tests/unit/apigen-tool and tests/requirements.txt. Without --contender, it first
installs requirements-apigen.txt into .cache/bench (once).
"""

from __future__ import annotations

import argparse
import ast
import json
import random
import resource
import subprocess
import sys
import tempfile
import warnings
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
sys.path[:0] = [str(ROOT / "tests/corpus"), str(ROOT / "tests/integration")]

import agreement
from apigen_package import Package, write

VENV = ROOT / ".cache/bench/apigen"
# The generated code of ipybox 0.9 looks like that of the defaults. The generator recommends the
# other.
OPTIONS = {
    "dcg": ["--output-model-type", "pydantic_v2.BaseModel"],
    "dcg, its best": ["--preset", "practical-py310-20261027", "--extra-fields", "allow"],
}
OURS = "ipybox"


@dataclass
class Case:
    """A schema, and instances to try with it."""

    where: str
    name: str
    schema: Any
    instances: list[Any]
    is_valid: list[bool]


@dataclass
class Score:
    """What a contender made of all cases."""

    failures: list[str] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)
    changed: list[str] = field(default_factory=list)
    let_through: list[str] = field(default_factory=list)
    mended: int = 0
    valid: int = 0
    invalid: int = 0
    lines: int = 0
    bytes: int = 0
    seconds: float = 0.0


def draw_cases(path: Path, examples: int, each: int) -> list[Case]:
    cases = []
    tools = agreement.load(path)
    for spec in tools[:each] if each else tools:
        schemas = {"Params": {"type": "object", **spec["inputSchema"]}}
        if isinstance(spec.get("outputSchema"), dict):
            schemas["Result"] = spec["outputSchema"]
        for name, schema in schemas.items():
            rng = random.Random(agreement.SEED)
            names = agreement.property_names(schema)
            # hypothesis-jsonschema does not know all formats. Contenders may check formats that a
            # validator does not check by default.
            checker = agreement.make_validator(schema, formats=True)
            valid = [
                one
                for one in agreement.draw(schema, examples)
                if isinstance(one, dict) and checker.is_valid(one)
            ]
            validator = agreement.make_validator(schema)
            changed = [
                agreement.change(one, rng, names) for one in valid for _ in range(agreement.CHANGES)
            ]
            # One that is still valid may have lost its format, which the validator does not judge.
            invalid = [
                one for one in changed if isinstance(one, dict) and not validator.is_valid(one)
            ]
            judged = [True] * len(valid) + [False] * len(invalid)
            cases.append(
                Case(f"{path.stem}.{spec['name']}", name, schema, [*valid, *invalid], judged)
            )
    return cases


def judge(score: Score, case: Case, answers: list[dict[str, Any]]) -> None:
    validator = agreement.make_validator(case.schema)
    for instance, is_valid, answer in zip(case.instances, case.is_valid, answers, strict=True):
        text = f"{case.where} {case.name}: {agreement.canonical(instance)[:200]}"
        is_refused = "refused" in answer
        if is_valid:
            score.valid += 1
            if is_refused:
                score.refused.append(f"{text}: {answer['refused'][:200]}")
            elif agreement.canonical(answer["sent"]) != agreement.canonical(instance):
                score.changed.append(f"{text} becomes {agreement.canonical(answer['sent'])[:200]}")
        else:
            score.invalid += 1
            if not is_refused and validator.is_valid(answer["sent"]):
                score.mended += 1
            elif not is_refused:
                score.let_through.append(text)


def without_functions(path: Path) -> str:
    """A module without run(), which the contender does not make."""
    lines = path.read_text().splitlines(keepends=True)
    for node in reversed(ast.parse("".join(lines)).body):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            del lines[node.lineno - 1 : node.end_lineno]
    return "".join(lines).rstrip() + "\n"


def children_seconds() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def try_ours(path: Path, cases: list[Case], score: Score, each: int) -> None:
    tools = agreement.load(path)
    tools = tools[:each] if each else tools
    with tempfile.TemporaryDirectory() as directory:
        begun = children_seconds()
        write(Path(directory), tools, server="ours")
        score.seconds += children_seconds() - begun
        texts = [
            without_functions(file)
            for file in Path(directory, "ours").glob("*.py")
            if file.name != "__init__.py"
        ]
        score.lines += sum(text.count("\n") for text in texts)
        score.bytes += sum(len(text.encode()) for text in texts)
        try:
            package = Package(Path(directory), tools, server="ours")
        except Exception as error:  # whatever a module does at import
            score.failures.append(f"{path.stem}: {error}"[:300])
            return
    names = iter(package.names)
    for case in cases:
        if case.name == "Params":
            name = next(names)
        make = agreement.make_params_take if case.name == "Params" else agreement.make_result_take
        take = make(package, name)
        judge(score, case, [try_one(take, instance) for instance in case.instances])


def try_one(take: agreement.Take, instance: Any) -> dict[str, Any]:
    try:
        return {"sent": take(instance)}
    except agreement.Refused as error:
        return {"refused": str(error)}


def try_contender(python: Path, cases: list[Case], score: Score, options: list[str]) -> None:
    with tempfile.TemporaryDirectory() as directory:
        given, taken = Path(directory, "cases.json"), Path(directory, "answers.json")
        given.write_text(
            json.dumps(
                [
                    {"name": case.name, "schema": case.schema, "instances": case.instances}
                    for case in cases
                ]
            )
        )
        command = [str(python), str(HERE / "apigen_contender.py"), str(given), str(taken), *options]
        subprocess.run(command, check=True, stdin=subprocess.DEVNULL)
        answers = json.loads(taken.read_text())
    for case, answer in zip(cases, answers, strict=True):
        score.seconds += answer["seconds"]
        if "failure" in answer:
            score.failures.append(f"{case.where} {case.name}: {answer['failure']}")
            continue
        score.lines += answer["lines"]
        score.bytes += answer["bytes"]
        judge(score, case, answer["answers"])


def percent(part: int, whole: int) -> str:
    return f"{part:,} ({100 * part / whole:.1f} %)" if whole else "–"


def table(scores: dict[str, Score], schemas: int) -> str:
    rows = {
        "modules that do not import, or are not made": [
            str(len(score.failures)) for score in scores.values()
        ],
        "valid instances tried": [f"{score.valid:,}" for score in scores.values()],
        "… refused": [percent(len(score.refused), score.valid) for score in scores.values()],
        "… changed on the wire": [
            percent(len(score.changed), score.valid) for score in scores.values()
        ],
        "invalid instances tried": [f"{score.invalid:,}" for score in scores.values()],
        "… accepted, and sent invalid": [
            percent(len(score.let_through), score.invalid) for score in scores.values()
        ],
        "… accepted, and sent valid": [
            percent(score.mended, score.invalid) for score in scores.values()
        ],
        "lines of classes": [f"{score.lines:,}" for score in scores.values()],
        "kB of classes": [f"{score.bytes / 1000:,.0f}" for score in scores.values()],
        "CPU time, ms for each schema": [
            f"{1000 * score.seconds / schemas:,.2f}" for score in scores.values()
        ],
    }
    lines = [["", *scores], *([title, *cells] for title, cells in rows.items())]
    widths = [max(len(line[column]) for line in lines) for column in range(len(scores) + 1)]
    texts = [
        "| "
        + " | ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True))
        + " |"
        for line in lines
    ]
    rule = (
        "|"
        + "|".join(
            ("-" * (width + 2)) if not column else "-" * (width + 1) + ":"
            for column, width in enumerate(widths)
        )
        + "|"
    )
    return "\n".join([texts[0], rule, *texts[1:]])


def find_contender() -> Path:
    subprocess.run(
        [str(ROOT / "scripts/venv"), str(VENV), str(HERE / "requirements-apigen.txt")], check=True
    )
    return VENV / "bin/python"


def summary(score: Score) -> dict[str, Any]:
    kinds = Counter(text.partition(":")[2].strip()[:60] for text in score.failures)
    return {
        "failures": score.failures, "kinds": dict(kinds),
        "refused": score.refused[:200], "changed": score.changed[:200],
        "let_through": score.let_through[:200],
    }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(
        description="Compares generated APIs with datamodel-code-generator's."
    )
    parser.add_argument("--examples", type=int, default=5, help="valid instances for each schema")
    parser.add_argument("--each", type=int, default=0, help="so many tools of each server; 0: all")
    parser.add_argument("--contender", type=Path, help="a Python that has datamodel-code-generator")
    parser.add_argument("--json", type=Path, help="write examples of what went wrong")
    parser.add_argument("names", nargs="*", metavar="NAME")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    python = arguments.contender or find_contender()
    scores = {OURS: Score(), **{title: Score() for title in OPTIONS}}
    all_cases = []
    for path in agreement.LISTS:
        if not arguments.names or path.stem in arguments.names:
            cases = draw_cases(path, arguments.examples, arguments.each)
            try_ours(path, cases, scores[OURS], arguments.each)
            all_cases += cases
    for title, options in OPTIONS.items():
        print(f"{title}: {len(all_cases)} schemas", file=sys.stderr, flush=True)
        try_contender(python, all_cases, scores[title], options)
    print(f"{len(all_cases)} schemas\n\n{table(scores, len(all_cases))}")
    if arguments.json is not None:
        arguments.json.write_text(
            json.dumps({title: summary(score) for title, score in scores.items()}, indent=1)
        )


if __name__ == "__main__":
    main()
