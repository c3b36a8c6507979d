# SPDX-License-Identifier: Apache-2.0
"""Attack suite B, denied files that do not exist yet and must not be created.

They are moved away when the sandbox has ended, and nothing is put in their place.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from box import Box, make_settings

NAMES = [
    ".mcp.json",
    ".bashrc",
    ".env",
    ".gitconfig",
    ".vscode/settings.json",
    ".git/hooks/pre-commit",
    ".claude/commands/x.md",
    "mcptools/x.py",
]


def tree(directory: Path) -> set[str]:
    return {str(path.relative_to(directory)) for path in directory.rglob("*")}


def moved(box: Box) -> list[Path]:
    return sorted((box.place.state / "ipybox/quarantine").glob("*/*"))


@pytest.mark.parametrize("name", NAMES)
def test_new_files_are_moved_away(box: Box, user: str, name: str) -> None:
    (box.place.workspace / "kept").write_text("kept")
    script = f"mkdir -p $(dirname {name}) && echo evil > {name} && echo new > other"
    done = box(["sh", "-c", script], user=user)
    assert done.returncode == 0
    assert not (box.place.workspace / name).exists()
    assert tree(box.place.workspace) - {".git", ".claude"} == {"kept", "other"}
    (found,) = moved(box)
    assert str(found) in done.stderr and f"/{name.split('/')[0]}" in done.stderr
    evil = found if found.is_file() else next(path for path in found.rglob("*") if path.is_file())
    assert evil.read_text() == "evil\n"


@pytest.mark.parametrize("name", ["commondir", "config.worktree"])
def test_what_tells_git_where_hooks_and_configuration_are(box: Box, user: str, name: str) -> None:
    (box.place.workspace / ".git").mkdir()
    (box.place.workspace / ".git/HEAD").write_text("ref: refs/heads/main\n")
    done = box(["sh", "-c", f"echo ../evil > .git/{name}"], user=user)
    assert tree(box.place.workspace) == {".git", ".git/HEAD"}, done.stderr
    (found,) = moved(box)
    assert found.read_text() == "../evil\n" and str(found) in done.stderr


def test_no_placeholders(box: Box, user: str) -> None:
    """The host's tree contains no files that the command did not create."""
    done = box(["sh", "-c", "ls -A"], make_settings(denyWrite=["nothing/here"]), user=user)
    assert (done.stdout, done.stderr) == ("", "")
    assert tree(box.place.workspace) == set() and moved(box) == []


def test_a_link_on_the_way(box: Box, user: str) -> None:
    """A link is moved, not its target, which may belong to the user."""
    precious = box.place.root / "precious"
    (precious / "hooks").mkdir(parents=True)
    (precious / "hooks/pre-commit").write_text("mine")
    done = box(["ln", "-s", str(precious), ".git"], user=user)
    assert (precious / "hooks/pre-commit").read_text() == "mine"
    assert not (box.place.workspace / ".git").is_symlink()
    (found,) = moved(box)
    assert found.is_symlink() and os.readlink(found) == str(precious) and str(found) in done.stderr


def test_a_link_that_was_there(box: Box, user: str) -> None:
    """A mount protects its target; the link itself is restored."""
    (box.place.workspace / "dotfiles").mkdir()
    (box.place.workspace / "dotfiles/bashrc").write_text("mine")
    (box.place.workspace / ".bashrc").symlink_to("dotfiles/bashrc")
    done = box(
        ["sh", "-c", "echo evil > dotfiles/bashrc; rm .bashrc; echo evil > .bashrc"], user=user
    )
    assert "restored" in done.stderr
    assert os.readlink(box.place.workspace / ".bashrc") == "dotfiles/bashrc"
    assert (box.place.workspace / ".bashrc").read_text() == "mine"
    (found,) = moved(box)
    assert found.read_text() == "evil\n"


def test_a_directory_that_nobody_may_change(box: Box, user: str) -> None:
    done = box(
        ["sh", "-c", "mkdir .vscode && echo x > .vscode/settings.json && chmod 0500 .vscode"],
        user=user,
    )
    assert not (box.place.workspace / ".vscode").exists() and ".vscode" in done.stderr
    for path in box.place.workspace.iterdir():
        path.chmod(0o700)


def test_on_another_file_system(box: Box) -> None:
    """It is renamed where it is."""
    box.place.environ["XDG_STATE_HOME"] = "/proc/nowhere"
    done = box(["sh", "-c", "echo evil > .env"])
    (left,) = tree(box.place.workspace)
    assert left.startswith(".env.ipybox-quarantine-") and left in done.stderr


def test_examples_of_hooks_are_no_hooks(box: Box) -> None:
    done = box(["git", "init", "--quiet"])
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    assert (box.place.workspace / ".git/HEAD").exists() and moved(box) == []


def test_many(box: Box, user: str) -> None:
    done = box(["touch", ".bashrc", ".profile", ".zshrc", ".env"], user=user)
    assert len(moved(box)) == 4 and len(done.stderr.splitlines()) == 4
    again = box(["touch", ".bashrc"], user=user)
    assert len(moved(box)) == 5 and again.returncode == 0


def test_even_if_the_command_fails(box: Box, user: str) -> None:
    done = box(["sh", "-c", "touch .env; kill -9 $$"], user=user)
    assert done.returncode == 137 and not (box.place.workspace / ".env").exists()


def test_what_was_there_stays(box: Box, user: str) -> None:
    (box.place.workspace / ".env").write_text("mine")
    done = box(["sh", "-c", "echo evil > .env; rm -f .env; mv .env x"], user=user)
    assert (
        done.returncode != 0
        and (box.place.workspace / ".env").read_text() == "mine"
        and moved(box) == []
    )


@pytest.mark.parametrize("name", [".vscode", "plain"])
def test_a_tree_that_is_deeper_than_a_path(box: Box, user: str, name: str) -> None:
    """It is moved as it is, or left as it is."""
    script = (
        "import os\n"
        f"for part in [{name!r}] + ['d' * 250] * 20:\n"
        "    os.mkdir(part); os.chdir(part)\n"
        "open('.bashrc', 'w')"
    )
    try:
        done = box(["/usr/bin/python3", "-I", "-c", script], user=user)
        assert done.returncode == 0, done.stderr
        assert (box.place.workspace / name).exists() == (name == "plain")
        assert len(moved(box)) == (name != "plain")
    finally:
        subprocess.run(
            ["rm", "-rf", str(box.place.workspace / name), str(box.place.state / "ipybox")],
            check=True,
        )


def test_names_that_are_no_text(box: Box, user: str) -> None:
    """Bytes that are not UTF-8, new lines and escapes, in names beside and below what is moved."""
    script = (
        "import os\n"
        "os.mkdir('.vscode')\n"
        "for name in (b'.vscode/\\xff', b'.vscode/a\\nb\\x1b[2J', b'\\xfe'): open(name, 'w')"
    )
    done = box(["/usr/bin/python3", "-I", "-c", script], user=user)
    assert done.returncode == 0, done.stderr
    (found,) = moved(box)
    assert len(list(found.iterdir())) == 2 and "\033" not in done.stderr
    assert [os.fsencode(path.name) for path in box.place.workspace.iterdir()] == [b"\xfe"]
