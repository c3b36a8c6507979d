# SPDX-License-Identifier: Apache-2.0
"""The server scenarios of the official suite that a revision requires, a test each.

All run against `conformance-server`, our server code with the suite's fixtures. Those that need no
fixture run against `ipybox serve` as well.
"""

from __future__ import annotations

import http.client
import json
import os
import subprocess
from pathlib import Path

import harness
import pytest
from line_program import LineProgram
from requirements import REVISIONS, required
from serve_driver import Serve, Stateless
from token_proxy import TokenProxy

# Not required, because they are newer or extensions in the suite. The server passes them.
MORE = {
    "2025-11-25": ["server-session-lifecycle", "json-schema-2020-12"],
    "2026-07-28": [
        "json-schema-2020-12",
        "http-header-validation",
        "tasks-lifecycle",
        "tasks-capability-negotiation",
        "tasks-wire-fields",
        "tasks-request-state-removal",
        "tasks-mrtr-input",
        "tasks-request-headers",
        "tasks-dispatch-and-envelope",
        "tasks-required-task-error",
        "tasks-mrtr-composition",
    ],
}
SCENARIOS = [
    (revision, name)
    for revision in REVISIONS
    for name in [*required(revision, "server"), *MORE[revision]]
]
# Those that `ipybox serve` can pass without the fixtures.
OWN = [
    *[
        ("2025-11-25", name)
        for name in [
            "server-initialize",
            "server-session-lifecycle",
            "logging-set-level",
            "ping",
            "tools-list",
            "resources-list",
            "server-sse-multiple-streams",
            "dns-rebinding-protection",
        ]
    ],
    *[
        ("2026-07-28", name)
        for name in [
            "server-stateless",
            "tools-list",
            "resources-list",
            "sep-2164-resource-not-found",
            "caching",
            "http-header-validation",
            "input-required-result-unsupported-methods",
            "server-sse-multiple-streams",
            "dns-rebinding-protection",
        ]
    ],
]
# The checks that `ipybox serve` fails, by scenario: why the specification allows it.
OWN_FAILURES = {
    "server-stateless": {
        "sep-2575-server-rejects-undeclared-capability": "the error is for requests that need a "
        "capability of the client; no tool of ipybox needs one",
        "sep-2575-missing-capability-http-400": "as above",
    },
    "caching": {
        "sep-2549-prompts-list-caching-hints": "prompts are an optional capability, which ipybox "
        "does not declare",
    },
}


class FixtureServer(LineProgram):
    """The program that is built from tests/conformance/server.c."""

    def __init__(self, build: Path, place: harness.Place):
        program = harness.existing(build / "conformance-server")
        fixtures = Path(__file__).parent / "fixtures.json"
        super().__init__([str(program), str(fixtures)], place)
        line = json.loads(self.read_line(60))
        self.port, self.token = line["port"], line["token"]

    def connection(self) -> http.client.HTTPConnection:
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)


@pytest.fixture(scope="module")
def build() -> Path:
    return Path(os.environ.get("IPYBOX_BIN", harness.ROOT / "build/ipybox")).resolve().parent


@pytest.fixture(scope="module")
def fixture_server(build, tmp_path_factory):
    before = harness.descendants()
    with FixtureServer(build, harness.Place.make(tmp_path_factory.mktemp("fixtures"))) as server:
        yield server
    assert not harness.processes_left(before)


@pytest.fixture(scope="module")
def own_server(build, tmp_path_factory):
    before = harness.descendants()
    place = harness.Place.make(tmp_path_factory.mktemp("own"))
    Path(place.workspace, "data.txt").write_text("a resource")
    with Serve(str(build / "ipybox"), place) as server:
        yield server
    assert not harness.processes_left(before)


@pytest.fixture
def failed_checks(suite, tmp_path):
    """failed_checks(server, revision, scenario) returns {id of the check: why it failed}."""

    def run(server: LineProgram, revision: str, scenario: str) -> dict[str, str]:
        with TokenProxy(server) as port:
            command = [*suite, "server", "--url", f"http://localhost:{port}/mcp"]
            # Without --force, the suite leaves extensions out.
            command += ["--scenario", scenario, "--spec-version", revision, "--force"]
            done = subprocess.run(
                [*command, "-o", str(tmp_path / "results")],
                env=os.environ | {"HOME": str(tmp_path), "NO_PROXY": "localhost"},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                timeout=100,
            )
        files = list(tmp_path.glob("results/*/checks.json"))
        assert len(files) == 1, done.stdout
        checks = json.loads(files[0].read_text())
        assert any(check["status"] == "SUCCESS" for check in checks), done.stdout
        failed = {
            check["id"]: check.get("errorMessage") or done.stdout
            for check in checks
            if check["status"] in ("FAILURE", "WARNING")
        }
        assert failed or done.returncode == 0, done.stdout
        return failed

    return run


@pytest.mark.parametrize(("revision", "scenario"), SCENARIOS)
def test_server_scenario(revision, scenario, fixture_server, failed_checks):
    assert not failed_checks(fixture_server, revision, scenario)


@pytest.mark.parametrize(("revision", "scenario"), OWN)
def test_own_scenario(revision, scenario, own_server, failed_checks):
    failed = failed_checks(own_server, revision, scenario)
    expected = OWN_FAILURES.get(scenario, {})
    assert {name: why for name, why in failed.items() if name not in expected} == {}
    assert set(expected) <= set(failed), "a check passes now: remove it from OWN_FAILURES"


def test_server_ends_with_open_questions(build, tmp_path):
    capabilities = {"elicitation": {}, "sampling": {}, "roots": {}}
    with FixtureServer(build, harness.Place.make(tmp_path / "p")) as server:
        client = Stateless(server, **capabilities)
        result = client.result("test_input_required_result_multiple_inputs")
        assert len(result["inputRequests"]) == 3
        assert server.close() == 0


def test_scenarios_are_read():
    assert len(SCENARIOS) - sum(map(len, MORE.values())) == 30 + 37
    assert set(OWN) <= set(SCENARIOS)
