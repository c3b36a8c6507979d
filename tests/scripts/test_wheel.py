# SPDX-License-Identifier: Apache-2.0
"""What pyproject.toml repeats from other files agrees with them.

scripts/check-wheel builds, installs and uses the wheel.
"""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PYPROJECT = (ROOT / "pyproject.toml").read_text()


def find(pattern: str, text: str) -> str:
    found = re.search(pattern, text, re.MULTILINE | re.DOTALL)
    assert found is not None, pattern
    return found[1]


def test_versions_are_one() -> None:
    of_program = find(r"^  version: '(.*?)'", (ROOT / "meson.build").read_text())
    of_wheel = find(r'^version = "(.*?)"', PYPROJECT)
    assert of_wheel == re.sub("~dev$", ".dev0", of_program)
    assert of_wheel == find(
        r'^__version__ = "(.*?)"', (ROOT / "python/ipybox/__init__.py").read_text()
    )


def test_requirements_are_those_of_kernels() -> None:
    lines = (ROOT / "python/requirements.txt").read_text().splitlines()
    wanted = [line for line in lines if line and not line.startswith("#")]
    assert re.findall(r'"(.*?)"', find(r"^dependencies = \[(.*?)\]", PYPROJECT)) == wanted
