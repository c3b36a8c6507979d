# SPDX-License-Identifier: Apache-2.0
"""Each run has the same packages: tests/requirements*.txt pin one version of each."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

TESTS = Path(__file__).resolve().parents[1]
# A range is enough for the oldest Python, because no release of these packages supports it any
# more.
PINNED = re.compile(
    r"[\w.-]+(\[[\w,-]+\])?==[\w.]+"
    r'( ?; python(_full)?_version (<|>=) ["\']3\.11(\.5)?["\'])?( +--hash=sha256:[0-9a-f]{64})*'
)
OLD = re.compile(r'[\w.-]+(<|~=)[\d.]+; python_version < "3\.11"')


@pytest.mark.parametrize(
    "path", sorted(TESTS.glob("requirements*.txt")), ids=lambda path: path.stem
)
def test_each_is_one_version(path):
    text = path.read_text().replace("\\\n", "")
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    assert lines
    assert [line for line in lines if not PINNED.fullmatch(line) and not OLD.fullmatch(line)] == []
