# SPDX-License-Identifier: Apache-2.0
"""The scenarios that each revision requires, as the official suite lists them."""

from __future__ import annotations

import harness

REVISIONS = ["2025-11-25", "2026-07-28"]
FOLDER = harness.CACHE / "conformance/node_modules/@modelcontextprotocol/conformance/requirements"


def required(revision: str, side: str) -> list[str]:
    """The list of "client" or "server" in the requirements, which are simple YAML."""
    lines = harness.existing(FOLDER / f"{revision}.yaml").read_text().splitlines()
    names = []
    for line in lines[lines.index(f"{side}:") + 1 :]:
        if not line.startswith("  - "):
            break
        names.append(line.removeprefix("  - ").partition("#")[0].strip())
    return names
