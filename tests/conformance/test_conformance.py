# SPDX-License-Identifier: Apache-2.0
"""The client scenarios of the official conformance suite that a revision requires, a test each."""

from __future__ import annotations

from pathlib import Path

import harness
import pytest

REVISIONS = ["2025-11-25", "2026-07-28"]
REQUIREMENTS = (
    harness.CACHE / "conformance/node_modules/@modelcontextprotocol/conformance/requirements"
)
# Not required, because they are newer or extensions in the suite. The client passes them.
MORE = {revision: ["json-schema-2020-12-preservation"] for revision in REVISIONS}


def required(revision: str) -> list[str]:
    """The list `client:` of the requirements, which are simple YAML."""
    lines = harness.existing(REQUIREMENTS / f"{revision}.yaml").read_text().splitlines()
    first = lines.index("client:") + 1
    names = []
    for line in lines[first:]:
        if not line.startswith("  - "):
            break
        names.append(line.removeprefix("  - ").partition("#")[0].strip())
    assert "tools_call" in names
    return names


def read_expected_failures() -> dict[tuple[str, str], str]:
    reasons = {}
    for line in (Path(__file__).parent / "expected_failures.txt").read_text().splitlines():
        if line and not line.startswith("#"):
            name, _, reason = line.partition(": ")
            revision, scenario = name.split()
            assert len(reason.split()) > 2, f"why? {line}"
            reasons[revision, scenario] = reason
    return reasons


SCENARIOS = [
    (revision, name) for revision in REVISIONS for name in [*required(revision), *MORE[revision]]
]
EXPECTED_FAILURES = read_expected_failures()


@pytest.mark.parametrize(
    ("revision", "scenario"), SCENARIOS, ids=[f"{name}-{revision}" for revision, name in SCENARIOS]
)
def test_scenario(revision, scenario, run_scenario):
    status, text = run_scenario(scenario, revision)
    reason = EXPECTED_FAILURES.get((revision, scenario))
    if reason is None:
        assert status == 0, text
    else:
        assert status != 0, f"passes now; it was expected to fail, because {reason}"


def test_expected_failures_are_scenarios():
    assert set(EXPECTED_FAILURES) <= set(SCENARIOS)
