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
from pathlib import Path

import harness
import pytest
from framework_runs import outcomes, pytest_command, read_exceptions, run_python

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
    "openai_agents": 36,
}
# The tests of the OpenAI Agents SDK are in its sdist.
SDIST_FILES = [
    "tests/sandbox/test_unix_local.py",
    "tests/sandbox/test_run_cwd.py",
    "tests/sandbox/test_runtime.py",
    "tests/sandbox/integration_tests/test_runner_pause_resume.py",
]
OURS = ["inspect_checks", "deepagents_checks", "pydantic_ai_checks", "openai_agents_checks"]
SCRIPTS = {
    "inspect_task.py": "inspect.md",
    "deep_agent.py": "deepagents.md",
    "pydantic_ai_workspace.py": "pydantic-ai.md",
    "openai_agents_sandbox.py": "openai-agents.md",
    "inspect_python.py": "inspect.md",
    "deep_agent_python.py": "deepagents.md",
    "pydantic_ai_python.py": "pydantic-ai.md",
    "openai_agents_python.py": "openai-agents.md",
}


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


def run_here(directory: Path, *args: str) -> subprocess.CompletedProcess[str]:
    environ = {
        "PATH": os.environ["PATH"],
        "LANG": "C.UTF-8",
        # Nothing is sent anywhere.
        "LANGSMITH_TRACING": "false",
        "OPENAI_AGENTS_DISABLE_TRACING": "1",
        "INSPECT_DISPLAY": "none",
    }
    return run_python(
        PLACE / "bin/python",
        directory,
        *args,
        import_path=[install(directory), directory],
        environ=environ,
        timeout=TIMEOUT_S,
    )


def run_tests(directory: Path, module: str) -> dict[str, str]:
    """What came of each test: "passed", "failed" or "skipped"."""
    shutil.copy(HERE / "inside" / f"{module}.py", directory)
    options = ["-o", "asyncio_mode=auto", "--timeout=120"]
    if module == "suite_openai_agents":
        sdist = harness.existing(PLACE / "sdists/openai_agents/tests")
        shutil.copytree(sdist, directory / "tests")
        options += ["-p", module, *SDIST_FILES]
    else:
        options.append(f"{module}.py")
    found = outcomes(directory, run_here(directory, *pytest_command(directory, *options)))
    return {name.partition("::")[2]: outcome for name, outcome in found.items()}


@pytest.mark.parametrize("suite", SUITES)
def test_suite(suite: str, directory: Path) -> None:
    found = run_tests(directory, f"suite_{suite}")
    assert len(found) == SUITES[suite]
    failed = [name for name, outcome in found.items() if outcome != "passed"]
    # An exception that passes is an error, too: its line is to be removed.
    assert sorted(failed) == sorted(read_exceptions(HERE / "exceptions.txt", SUITES)[suite])


@pytest.mark.parametrize("module", OURS)
def test_ours(module: str, directory: Path) -> None:
    found = run_tests(directory, module)
    assert found and set(found.values()) == {"passed"}, found


@pytest.mark.parametrize("script", SCRIPTS)
def test_example_prints_what_the_how_to_shows(script: str, directory: Path) -> None:
    text = (HOW_TO / SCRIPTS[script]).read_text()
    shown = text.partition(f"$ python examples/{script}\n")[2].partition("```")[0]
    assert (EXAMPLES / script).read_text().partition('"""\n\n')[2] in text
    done = run_here(directory, str(EXAMPLES / script))
    assert done.returncode == 0, done.stderr
    assert done.stdout == shown and shown, done.stderr


@pytest.mark.parametrize("module", ["inspect", "deepagents", "pydantic_ai", "openai_agents"])
def test_without_the_framework(module: str, directory: Path) -> None:
    """The package imports none of them, and the error says what to install."""
    program = f"""
import sys
import ipybox.integrations, ipybox
for name in ("inspect_ai", "deepagents", "pydantic_ai", "agents"):
    assert name not in sys.modules
    sys.modules[name] = None
try:
    import ipybox.integrations.{module}
except ImportError as error:
    print(error)
"""
    done = run_here(directory, "-c", program)
    package = {"inspect": "inspect-ai", "pydantic_ai": "pydantic-ai-slim"}
    assert f"pip install {package.get(module, module.replace('_', '-'))}" in done.stdout, done
