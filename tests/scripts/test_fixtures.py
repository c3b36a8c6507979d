# SPDX-License-Identifier: Apache-2.0
"""tests/README.md names every shared fixture and every module that tests share."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

TESTS = Path(__file__).resolve().parents[1]
README = (TESTS / "README.md").read_text()
SUITES = ["integration", "sandbox", "sdk", "conformance", "scripts"]


def listed(suite: str) -> set[str]:
    """The fixtures that the list of a suite names."""
    section = README.partition(f"## Fixtures of `tests/{suite}`")[2].partition("\n## ")[0]
    heads = re.findall(r"^- (.*?):(?= |$)", section.replace("=)", ")"), re.MULTILINE)
    return set(re.findall(r"`(\w+)", " ".join(heads)))


def fixtures(suite: str) -> set[str]:
    tree = ast.parse((TESTS / suite / "conftest.py").read_text())
    functions = [node for node in tree.body if isinstance(node, ast.FunctionDef)]
    return {
        function.name
        for function in functions
        if any("fixture" in ast.unparse(decorator) for decorator in function.decorator_list)
    }


@pytest.mark.parametrize("suite", SUITES)
def test_every_fixture_is_listed(suite):
    assert fixtures(suite) and listed(suite) == fixtures(suite)


def test_every_imported_module_is_listed():
    """A module of ours that two test files import."""
    paths = [path for suite in SUITES for path in (TESTS / suite).glob("*.py")]
    modules = {path.stem for path in [*paths, *(TESTS / "scripted_server").glob("*.py")]}
    importers: dict[str, set[str]] = {}
    for path in paths:
        for name in re.findall(r"^(?:import|from) (\w+)", path.read_text(), re.MULTILINE):
            if name in modules and not name.startswith("test_") and path.name.startswith("test_"):
                importers.setdefault(name, set()).add(path.name)
    shared = {name for name, files in importers.items() if len(files) > 1}
    section = README.partition("## Modules")[2]
    assert shared <= set(re.findall(r"`(\w+)`", section)), shared
