# SPDX-License-Identifier: Apache-2.0
"""Other hosts than Claude Code find the skill in .agents/skills, as docs/how-to says, and use
ipybox in a sandbox with the configuration that is there."""

from __future__ import annotations

import json
import shutil

import harness
import pytest
from client_list import CLIENTS
from model_server import ModelServer
from test_hosts import HOSTS, TOOL

SKILL = harness.ROOT / "plugin/skills/codeact"


def description() -> str:
    """The beginning of the skill's description, as hosts show it to models."""
    lines = (SKILL / "SKILL.md").read_text().splitlines()
    return lines[lines.index("description: >-") + 1].strip()


NAMES = [name for name in HOSTS if name != "claude-code" and CLIENTS[name].is_tested]


@pytest.mark.parametrize("name", NAMES)
def test_the_skill_is_found(name, ipybox, place):
    shutil.copytree(SKILL, place.workspace / ".agents/skills/codeact")
    shutil.copy(harness.ROOT / "plugin/AGENTS.md", place.workspace)
    steps = [{"code": "open('.agents/skills/codeact/SKILL.md', 'a')"}, {"code": "6 * 7"}]
    command = [ipybox, "--workspace", str(place.workspace), "--sandbox"]
    with ModelServer(TOOL, steps) as model:
        done = HOSTS[name](place, model, {"command": command}).use()
    sent = json.dumps([request.body for request in model.requests])
    assert json.dumps(description())[1:-1] in sent, f"{done}\n{model.others}"
    # Code in the sandbox cannot change what the model obeys.
    refused, answer = model.results()
    assert "Error: " in refused.text and "42" in answer.text
    assert (place.workspace / ".agents/skills/codeact/SKILL.md").read_text() == (
        SKILL / "SKILL.md"
    ).read_text()


@pytest.mark.parametrize("name", [name for name in NAMES if name != "gemini-cli"])
def test_agents_md_is_read(name, ipybox, place):
    shutil.copy(harness.ROOT / "plugin/AGENTS.md", place.workspace)
    command = [ipybox, "--workspace", str(place.workspace), "--sandbox"]
    with ModelServer(TOOL, [{"code": "6 * 7"}]) as model:
        done = HOSTS[name](place, model, {"command": command}).use()
    sent = json.dumps([request.body for request in model.requests])
    first = (harness.ROOT / "plugin/AGENTS.md").read_text().splitlines()[0]
    assert first in sent, f"{done}\n{model.others}"
