# SPDX-License-Identifier: Apache-2.0
"""What users added to a generated package remains when it is generated again."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
from apigen_package import TOOL

OLD = [{"name": "a", "description": "Old."}, {"name": "b"}]
NEW = [{"name": "a", "description": "New."}, {"name": "c"}]
ADDED = "\n\ndef run_parsed(params: Params) -> int:\n    return len(run(params))\n"


@pytest.fixture
def package(workspace: Path):
    """generate(tools) → the messages; package.directory."""

    class Package:
        directory = workspace / "srv"

        def generate(self, tools: list[dict]) -> list[str]:
            done = subprocess.run(
                [TOOL, "srv", workspace],
                input=json.dumps(tools).encode(),
                capture_output=True,
                check=True,
            )
            assert [path.name for path in workspace.iterdir()] == ["srv"]
            return done.stderr.decode().splitlines()

        def names(self) -> set[str]:
            always = {"__init__.py", ".generated", ".tools.jsonl"}
            return {path.name for path in self.directory.iterdir()} - always

        def read(self, name: str) -> str:
            return (self.directory / name).read_text()

        def write(self, name: str, text: str) -> None:
            (self.directory / name).parent.mkdir(exist_ok=True)
            (self.directory / name).write_text(text)

    made = Package()
    assert made.generate(OLD) == []
    return made


def test_what_is_appended_stays(package):
    package.write("a.py", package.read("a.py") + ADDED)
    package.write("__init__.py", package.read("__init__.py") + "\nVERSION = 5\n")
    for tools, text in ((OLD, "Old."), (NEW, "New."), (NEW, "New."), (OLD, "Old.")):
        assert package.generate(tools) == []
        assert (
            package.read("a.py").endswith(ADDED)
            and package.read("a.py").count("run_parsed") == 1
            and text in package.read("a.py")
        )
        assert package.read("__init__.py").endswith("\nVERSION = 5\n")
    assert package.names() == {"a.py", "b.py"}


def test_blanks_are_no_addition(package):
    source = package.read("a.py")
    package.write("a.py", source + "\n\n \t\r\n")
    package.generate(OLD)
    assert package.read("a.py") == source


def test_other_files_stay(package):
    package.write("helpers.py", "X = 1\n")
    package.write("notes/deep.txt", "n")
    package.write("__pycache__/a.pyc", "old")
    (package.directory / "link.py").symlink_to("/etc/passwd")
    assert package.generate(NEW) == []
    assert package.names() == {"a.py", "c.py", "helpers.py", "notes", "link.py"}
    assert package.read("helpers.py") == "X = 1\n" and package.read("notes/deep.txt") == "n"
    assert (package.directory / "link.py").is_symlink()


def test_changes_within_are_kept_aside(package):
    changed = package.read("a.py").replace("Old.", "Mine.") + ADDED
    for round, name in enumerate(["a.py.before", "a.py.before-2"]):
        package.write("a.py", changed + f"# {round}\n")
        (told,) = package.generate(OLD)
        assert name in told
        assert (
            package.read(name) == changed + f"# {round}\n"
            and "Old." in package.read("a.py")
            and "run_parsed" not in package.read("a.py")
        )
    assert package.names() == {"a.py", "b.py", "a.py.before", "a.py.before-2"}


def test_additions_to_a_tool_that_is_gone_are_kept_aside(package):
    package.write("b.py", package.read("b.py") + ADDED)
    package.write("a.py", "")
    assert len(package.generate(NEW)) == 2
    assert package.names() == {"a.py", "c.py", "a.py.before", "b.py.before"} and package.read(
        "b.py.before"
    ).endswith(ADDED)


def test_a_new_tool_does_not_replace_a_users_file(package):
    package.write("c.py", "mine\n")
    (package.directory / "a.py").unlink()
    (package.directory / "a.py").mkdir()
    (package.directory / "a.py/x").write_text("x")
    assert len(package.generate(NEW)) == 2
    assert (
        package.read("c.py.before") == "mine\n"
        and "run(" in package.read("c.py")
        and package.read("a.py.before/x") == "x"
    )


def test_packages_without_a_list(package):
    """Packages of ipybox 0.9, or of an ipybox before there were lists."""
    (package.directory / ".generated").unlink()
    package.write("b.py", package.read("b.py") + ADDED)
    package.write("mine.py", "X = 1\n")
    assert len(package.generate(NEW)) == 1
    assert package.names() == {"a.py", "c.py", "mine.py", "b.py.before"}


@pytest.mark.parametrize(
    "text",
    [
        "",
        "\0",
        "x y z\n",
        "# \n" * 1000,
        f"{'0' * 64} 99999999999999999999999 a.py\n{'0' * 64} -1 b.py\n",
        "0 0 ../../x\n0 0 /etc/passwd\n",
    ],
)
def test_lists_that_are_wrong(package, text):
    package.write(".generated", text)
    package.generate(NEW)
    assert {"a.py", "c.py"} <= package.names() and "New." in package.read("a.py")
    assert package.generate(NEW) == []
