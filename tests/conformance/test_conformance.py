# SPDX-License-Identifier: Apache-2.0
"""The client scenarios of the official conformance suite that a revision requires, a test each."""

from __future__ import annotations

from pathlib import Path

import pytest
from requirements import REVISIONS, required

# Not required, because they are newer or extensions in the suite. The client passes them.
MORE = {revision: ["json-schema-2020-12-preservation"] for revision in REVISIONS}


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
    (revision, name)
    for revision in REVISIONS
    for name in [*required(revision, "client"), *MORE[revision]]
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


def test_scenarios_are_read():
    assert ("2025-11-25", "tools_call") in SCENARIOS


def test_expected_failures_are_scenarios():
    assert set(EXPECTED_FAILURES) <= set(SCENARIOS)
