# SPDX-License-Identifier: Apache-2.0
"""What pyproject.toml repeats from other files agrees with them.

scripts/check-wheel builds, installs and uses the wheel.
"""

from __future__ import annotations

import re
import subprocess
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


THROWING = """
#include <stdexcept>
#include <string>
extern "C" int compare(const void *, const void *) { throw std::runtime_error("thrown"); }
int main() {
    int numbers[] = {2, 1};
    try { qsort(numbers, 2, sizeof numbers[0], compare); }
    catch (const std::exception &error) { return error.what() == std::string("thrown") ? 7 : 1; }
}
"""


def test_exceptions_need_no_newer_glibc(tmp_path: Path) -> None:
    """A program with libgcc in it and with our search for its tables catches what C code passed."""
    source, program = tmp_path / "throwing.cpp", tmp_path / "throwing"
    source.write_text("#include <cstdlib>" + THROWING)
    built = tmp_path / "unwind.o"
    command = ["cc", "-D_GNU_SOURCE", "-c", ROOT / "src/base/unwind.c", "-o", built]
    subprocess.run(command, check=True)
    command = ["c++", "-static-libgcc", "-static-libstdc++", source, built, "-o", program]
    subprocess.run(command, check=True)
    assert subprocess.run([program], check=False).returncode == 7
    symbols = subprocess.run(
        ["readelf", "--wide", "--dyn-syms", program], capture_output=True, text=True, check=True
    ).stdout
    assert "qsort" in symbols
    assert "_dl_find_object" not in symbols
