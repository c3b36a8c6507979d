# SPDX-License-Identifier: Apache-2.0
"""What came of the tests of another project, which pytest has run in that project's environment."""

from __future__ import annotations

import xml.etree.ElementTree as xml
from pathlib import Path


def read_outcomes(report: Path) -> dict[str, str]:
    """From the file of --junitxml: "passed", "failed" or "skipped", by MODULE-OR-CLASS::TEST."""
    outcomes: dict[str, str] = {}
    for case in xml.parse(report).iter("testcase"):
        place = case.get("classname", "").rpartition(".")[2]
        outcome = "skipped" if case.find("skipped") is not None else "passed"
        if case.find("failure") is not None or case.find("error") is not None:
            outcome = "failed"
        outcomes[f"{place}::{case.get('name')}"] = outcome
    return outcomes
