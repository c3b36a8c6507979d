# SPDX-License-Identifier: Apache-2.0
"""The adapters that run commands, with the real frameworks, which scripts/test-setup installs.

The tests run in the frameworks' environment, apart from .venv: the suites that the frameworks offer
to judge sandboxes, except what exceptions.txt lists with a reason; ours, in `inside`; and the
examples, whose output must be that in the how-tos.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as xml
from collections.abc import Iterator
from pathlib import Path

import harness
import pytest

HERE = Path(__file__).parent
PLACE = harness.CACHE / "frameworks"
EXAMPLES = harness.ROOT / "examples"
HOW_TO = harness.ROOT / "docs/how-to"
TIMEOUT_S = 280

# How many tests each suite must have.
SUITES = {
    "inspect": 44,
    "langchain": 86,
    "pydantic_ai": 40,
}
OURS = ["inspect_checks", "deepagents_checks", "pydantic_ai_checks"]
SCRIPTS = {
    "inspect_task.py": "inspect.md",
    "deep_agent.py": "deepagents.md",
    "pydantic_ai_workspace.py": "pydantic-ai.md",
}


@pytest.fixture
def directory() -> Iterator[Path]:
    """Not in /tmp, since each sandbox has its own there. Nothing of ipybox may be left in it, and
    no process."""
    before = harness.descendants()
    with tempfile.TemporaryDirectory(dir="/var/tmp", prefix="ipybox-adapters-") as name:
        path = Path(name)
        (path / "tmp").mkdir()
        yield path
        assert not harness.processes_left(before)
        assert not list((path / "tmp").glob("ipybox-*"))


def read_entry_points() -> str:
    """As an installation would have them; pyproject.toml says which."""
    lines = (harness.ROOT / "pyproject.toml").read_text().splitlines()
    found: list[str] = []
    group = None
    for line in lines:
        if line.startswith("["):
            is_group = line.startswith("[project.entry-points.")
            group = line[len("[project.entry-points.") : -1] if is_group else None
            found += [f"[{group}]"] if group else []
        elif group and "=" in line:
            found.append(line.replace('"', ""))
    assert "[inspect_ai]" in found
    return "\n".join(found) + "\n"


def install(directory: Path) -> Path:
    """What an installed package has beside its files."""
    about = directory / "site/ipybox-1.0.0.dist-info"
    about.mkdir(parents=True, exist_ok=True)
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: ipybox\nVersion: 1.0.0\n")
    (about / "entry_points.txt").write_text(read_entry_points())
    return about.parent


def run_python(directory: Path, *args: str) -> subprocess.CompletedProcess[str]:
    binary = Path(os.environ.get("IPYBOX_BIN", harness.ROOT / "build/ipybox")).resolve()
    environ = {
        "PATH": os.environ["PATH"],
        "LANG": "C.UTF-8",
        "HOME": str(directory),
        "TMPDIR": str(directory / "tmp"),
        "XDG_STATE_HOME": str(directory / "state"),
        "IPYBOX_BIN": str(harness.existing(binary)),
        "PYTHONPATH": f"{harness.ROOT / 'python'}:{install(directory)}",
        "PYTHONDONTWRITEBYTECODE": "1",
        "NO_COLOR": "1",
        # Nothing is sent anywhere.
        "LANGSMITH_TRACING": "false",
        "INSPECT_DISPLAY": "none",
    }
    python = harness.existing(PLACE / "bin/python")
    return subprocess.run(
        [str(python), *args],
        cwd=directory,
        env=environ,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        timeout=TIMEOUT_S,
    )


def run_tests(directory: Path, module: str) -> dict[str, str]:
    """What came of each test: "passed", "failed" or "skipped"."""
    report = directory / "report.xml"
    shutil.copy(HERE / "inside" / f"{module}.py", directory)
    command = ["-m", "pytest", "-c", "/dev/null", "--rootdir", str(directory), "-q", "--tb=short"]
    command += [
        "-p",
        "no:cacheprovider",
        "-W",
        "ignore",
        "-o",
        "asyncio_mode=auto",
        f"--junitxml={report}",
        f"{module}.py",
    ]
    done = run_python(directory, *command)
    print(done.stdout, done.stderr)  # of a test that fails
    assert done.returncode in (0, 1), done.stdout  # it ran, and tests passed or failed
    outcomes: dict[str, str] = {}
    for case in xml.parse(report).iter("testcase"):
        outcome = "skipped" if case.find("skipped") is not None else "passed"
        if case.find("failure") is not None or case.find("error") is not None:
            outcome = "failed"
        outcomes[str(case.get("name"))] = outcome
    return outcomes


def read_exceptions(suite: str) -> set[str]:
    """The tests that the adapter does not pass."""
    reasons: dict[tuple[str, str], str] = {}
    for line in (HERE / "exceptions.txt").read_text().splitlines():
        if line.startswith("    "):
            reasons[key] += line
        elif not line.startswith("#"):
            name, _, test = line.removesuffix(":").partition(" ")
            key = (name, test)
            reasons[key] = ""
    assert all(name in SUITES and len(why.split()) > 5 for (name, _), why in reasons.items())
    return {test for name, test in reasons if name == suite}


@pytest.mark.parametrize("suite", SUITES)
def test_suite(suite: str, directory: Path) -> None:
    outcomes = run_tests(directory, f"suite_{suite}")
    assert len(outcomes) == SUITES[suite]
    failed = {name for name, outcome in outcomes.items() if outcome != "passed"}
    assert failed == read_exceptions(suite)


@pytest.mark.parametrize("module", OURS)
def test_ours(module: str, directory: Path) -> None:
    outcomes = run_tests(directory, module)
    assert outcomes and set(outcomes.values()) == {"passed"}, outcomes


@pytest.mark.parametrize("script", SCRIPTS)
def test_example_prints_what_the_how_to_shows(script: str, directory: Path) -> None:
    text = (HOW_TO / SCRIPTS[script]).read_text()
    shown = text.partition(f"$ python examples/{script}\n")[2].partition("```")[0]
    assert (EXAMPLES / script).read_text().partition('"""\n\n')[2] in text
    done = run_python(directory, str(EXAMPLES / script))
    assert done.returncode == 0, done.stderr
    assert done.stdout == shown and shown, done.stderr


def test_the_package_of_adapters_imports_no_framework() -> None:
    code = "import sys, ipybox.integrations\nprint([n for n in sys.modules if n.startswith('ins')])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "inspect_ai" not in done.stdout
