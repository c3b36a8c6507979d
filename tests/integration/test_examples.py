# SPDX-License-Identifier: Apache-2.0
"""The programs of examples/ against the installed library, with nothing but the flags of
pkg-config.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import harness
import pytest
from docs_program import sanitizer_flags

EXAMPLES = harness.ROOT / "examples"


@pytest.fixture(scope="module")
def prefix(ipybox, tmp_path_factory) -> Path:
    """Where the library is installed.

    Its .pc file names that place, as if there were no DESTDIR.
    """
    destdir = tmp_path_factory.mktemp("installed")
    command = [
        "meson",
        "install",
        "-C",
        Path(ipybox).parent,
        "--no-rebuild",
        "--quiet",
        "--destdir",
        destdir,
    ]
    subprocess.run(command, check=True, stdin=subprocess.DEVNULL)
    (description,) = destdir.rglob("ipybox.pc")
    text = description.read_text()
    (line,) = (line for line in text.splitlines() if line.startswith("prefix="))
    installed = f"{destdir}{line.partition('=')[2]}"
    description.write_text(text.replace(line, f"prefix={installed}"))
    return Path(installed)


@pytest.fixture
def examples(ipybox, place, prefix, workspace) -> Path:
    """A copy of the examples, compiled by their own Makefile with warnings as errors."""
    (description,) = prefix.rglob("ipybox.pc")
    place.environ["PKG_CONFIG_PATH"] = str(description.parent)
    place.environ["LD_LIBRARY_PATH"] = str(description.parent.parent)
    directory = workspace / "examples"
    shutil.copytree(EXAMPLES, directory)
    flags = [
        "-O1",
        "-Wall",
        "-Wextra",
        "-Wpedantic",
        "-Werror",
        *sanitizer_flags(Path(ipybox).parent),
    ]
    done = harness.run(["make", f"CFLAGS={' '.join(flags)}"], place, cwd=directory)
    assert done.returncode == 0, done.stdout + done.stderr
    return directory


def run(
    place: harness.Place, directory: Path, *command: str, stdin: str | None = None
) -> list[str]:
    done = harness.run([f"./{command[0]}", *command[1:]], place, cwd=directory, stdin=stdin)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.splitlines()


def test_hello(place, examples):
    assert run(place, examples, "hello") == ["I know a name now", "'hello, world'"]


def test_sessions(place, examples):
    assert run(place, examples, "sessions", "12") == ["12 sessions computed 650"]


def test_approvals(place, examples):
    def question(to: str, answer: str) -> list[str]:
        arguments = [f'  "to": "{to}@example.org"', '  "text": "hello"']
        return [
            "Tool call: mail.send_mail",
            "Arguments:",
            *arguments,
            f"May it run? [y/n] {answer}",
        ]

    assert run(place, examples, "approvals", stdin="y\nn\n") == [
        *question("ada", "yes"),
        "sent to ada@example.org",
        *question("everybody", "no"),
        "ApprovalRejectedError: Approval request for mail.send_mail rejected",
    ]
    # Without a user nothing is sent, and nothing hangs.
    assert [line for line in run(place, examples, "approvals") if line.startswith("sent")] == []


def test_thermometer(place, examples):
    assert run(place, examples, "thermometer") == ["kitchen: 21.5 degrees", "cellar: 12 degrees"]


def test_commands(place, examples):
    words = ["apple", "fig", "lemon", "pear"]
    steps = ["step 1", "step 2", "step 3", "exit status 4"]
    assert run(place, examples, "commands") == words + steps


def test_all_run_by_one_command(place, examples):
    """With the output that README.md shows."""
    done = harness.run(["make", "-s", "run"], place, cwd=examples)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == shown_output(EXAMPLES / "README.md", "make -s -C examples run")


def test_errors_are_told(place, examples):
    place.environ["IPYBOX_PYTHON"] = "/no/such/python"
    for name in ("hello", "sessions", "approvals", "thermometer", "commands"):
        done = harness.run([f"./{name}"], place, cwd=examples)
        assert (
            done.returncode == 1
            and "/no/such/python" in done.stderr
            and done.stderr.startswith(f"{name}: ")
        )


def shown_output(document: Path, command: str) -> str:
    """What a document shows below the command."""
    found = re.search(
        rf"^```console\n\$ {re.escape(command)}\n(.*?)^```$",
        document.read_text(),
        re.DOTALL | re.MULTILINE,
    )
    assert found, f"{document} does not show `{command}`"
    return found[1]


def test_the_list_has_all_examples():
    text = (EXAMPLES / "README.md").read_text()
    files = {path.name for path in EXAMPLES.iterdir() if path.suffix in (".c", ".py")}
    assert {name for name in files if f"]({name})" not in text} == set()


@pytest.mark.parametrize(
    ("name", "how_to", "command"),
    [
        ("smolagents_agent.py", "smolagents", "python smolagents_agent.py"),
        ("dspy_rlm.py", "dspy", "python dspy_rlm.py"),
        ("autogen_coder.py", "autogen", "python autogen_coder.py"),
        ("inspect_task.py", "inspect", "python examples/inspect_task.py"),
        ("openai_agents_sandbox.py", "openai-agents", "python examples/openai_agents_sandbox.py"),
        ("deep_agent.py", "deepagents", "python examples/deep_agent.py"),
        ("pydantic_ai_workspace.py", "pydantic-ai", "python examples/pydantic_ai_workspace.py"),
        ("inspect_python.py", "inspect", "python examples/inspect_python.py"),
        ("deep_agent_python.py", "deepagents", "python examples/deep_agent_python.py"),
        ("pydantic_ai_python.py", "pydantic-ai", "python examples/pydantic_ai_python.py"),
        ("openai_agents_python.py", "openai-agents", "python examples/openai_agents_python.py"),
    ],
)
def test_the_list_shows_what_the_how_to_shows(name, how_to, command):
    """tests/integrations checks what the how-to shows."""
    guide = harness.ROOT / f"docs/how-to/{how_to}.md"
    listed = shown_output(EXAMPLES / "README.md", f"python examples/{name}")
    assert listed == shown_output(guide, command)
    needs = (EXAMPLES / name).read_text().partition('"""\n\n')[0]
    assert "pip install" in needs


def run_python(ipybox: str, python: str, place: harness.Place, name: str) -> list[str]:
    place.environ["IPYBOX_BIN"] = str(Path(ipybox).absolute())
    place.environ["PYTHONPATH"] = str(harness.ROOT / "python")
    done = harness.run([python, str(EXAMPLES / name)], place, timeout=240)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.splitlines()


def test_tree_search(ipybox, python, place):
    assert run_python(ipybox, python, place, "tree_search.py") == [
        "(6 - (9 * (1 - 3))) = 24",
        "215 restores",
    ]


def test_undo(ipybox, python, place):
    assert run_python(ipybox, python, place, "undo.py") == [
        "KeyError: undone: True, {'a': 3, 'b': 4}",
        "the kernel died: undone: True, {'a': 3, 'b': 4}",
        "7",
        "(False, {'a': 3, 'b': 4})",
    ]
