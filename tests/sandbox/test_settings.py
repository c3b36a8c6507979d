# SPDX-License-Identifier: Apache-2.0
"""Attack suite B, globs and names: srt's documentation of the file keys applies: precedence, globs,
and what is never writable.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from box import Box, make_settings

# Reports for each file whether it can be read and written; writes the same content again.
SCRIPT = """
import json, sys
def access(path):
    result = ""
    try:
        with open(path) as file: result += "r" if file.read() == "text" else "?"
    except OSError: result += "-"
    try:
        with open(path, "r+") as file: file.write("text")
        result += "w"
    except OSError: result += "-"
    return result
print(json.dumps({path: access(path) for path in sys.argv[1:]}))
"""

# Files in the workspace (~ is the home directory), the keys, and what can be done with each file.
CASES: dict[str, tuple[dict, dict[str, str]]] = {
    "nothing is writable unless it is listed": ({"allowWrite": []}, {"a": "r-", "~/b": "r-"}),
    "the workspace": ({}, {"a": "rw", "d/b": "rw", "~/b": "r-"}),
    "relative, absolute, home": (
        {"allowWrite": ["./d", "~/e"]},
        {"a": "r-", "d/b": "rw", "~/e/f": "rw", "~/g": "r-"},
    ),
    "a file": ({"allowWrite": ["a"]}, {"a": "rw", "b": "r-"}),
    "denyWrite wins": ({"denyWrite": ["d"]}, {"a": "rw", "d/b": "r-", "d/e/f": "r-"}),
    "denyWrite wins for the same path": (
        {"allowWrite": [".", "d"], "denyWrite": ["d"]},
        {"d/b": "r-", "a": "rw"},
    ),
    "denyWrite wins above": (
        {"allowWrite": [".", "d/e"], "denyWrite": ["d"]},
        {"d/b": "r-", "d/e/f": "r-"},
    ),
    "denyWrite of a file": ({"denyWrite": ["d/b"]}, {"d/b": "r-", "d/c": "rw"}),
    "denyWrite with a glob": (
        {"denyWrite": ["**/*.lock"]},
        {"a.lock": "r-", "d/e/b.lock": "r-", "a": "rw"},
    ),
    "allowWrite with a glob": (
        {"allowWrite": ["out*"]},
        {"out1/a": "rw", "out2": "rw", "in/a": "r-"},
    ),
    "allowWrite ends in two stars": (
        {"allowWrite": ["d/**"]},
        {"d/b": "rw", "d/e/f": "rw", "a": "r-"},
    ),
    "denyRead": ({"denyRead": ["d"]}, {"a": "rw", "d/b": "--", "d/e/f": "--"}),
    "denyRead of a file": ({"denyRead": ["d/b"]}, {"d/b": "--", "d/c": "rw"}),
    "denyRead of home": ({"denyRead": ["~"]}, {"~/b": "--", "~/.ssh/id": "--", "a": "rw"}),
    "allowRead within it": (
        {"denyRead": ["~"], "allowRead": ["~/e"]},
        {"~/b": "--", "~/e/f": "r-"},
    ),
    "allowRead for the same path": ({"denyRead": ["d"], "allowRead": ["d"]}, {"d/b": "rw"}),
    "denyRead within allowRead": (
        {"denyRead": ["d", "d/e/s"], "allowRead": ["d/e"]},
        {"d/b": "--", "d/e/f": "rw", "d/e/s": "--"},
    ),
    "a glob within allowRead": (
        {"denyRead": ["~", "~/e/**/*.key"], "allowRead": ["~/e"]},
        {"~/e/f": "r-", "~/e/g/a.key": "--"},
    ),
    "denyRead with a star": (
        {"denyRead": ["*.key"]},
        {"a.key": "--", "d/a.key": "rw", "a.keys": "rw"},
    ),
    "denyRead with two stars": (
        {"denyRead": ["**/.secret*"]},
        {".secret": "--", "d/e/.secrets/x": "--", "d/secret": "rw"},
    ),
    "denyRead with a question mark": (
        {"denyRead": ["a?c"]},
        {"abc": "--", "ac": "rw", "abbc": "rw"},
    ),
    "denyRead with a set": ({"denyRead": ["a[b-d]"]}, {"ab": "--", "ad": "--", "ae": "rw"}),
    "a total denial": (
        {"denyRead": ["~/d/**"], "allowRead": ["~/d/e"]},
        {"~/d/b": "--", "~/d/e/f": "--"},
    ),
    "allowWrite within denyRead": (
        {"denyRead": ["~"], "allowWrite": [".", "~/e"]},
        {"~/e/f": "rw", "~/b": "--"},
    ),
    "never writable": (
        {},
        {
            ".bashrc": "r-",
            "d/.zshrc": "r-",
            ".git/hooks/x": "r-",
            ".git/config": "r-",
            ".git/HEAD": "rw",
            ".env": "r-",
            "d/e/.mcp.json": "r-",
            ".vscode/x": "r-",
            ".claude/commands/x": "r-",
            ".claude/notes": "rw",
            "d/.BASHRC": "r-",
        },
    ),
    "not even if it is listed": (
        {"allowWrite": [".", ".env", ".git/hooks"]},
        {".env": "r-", ".git/hooks/x": "r-"},
    ),
    "at any depth": (
        {"mandatoryDenySearchDepth": 1},
        {".env": "r-", "1/.env": "r-", "1/2/3/4/5/6/7/8/.env": "r-", "1/2/env": "rw"},
    ),
    "allowNames": (
        {"allowNames": [".vscode/**", "d/.env", "*.code-workspace"]},
        {
            ".vscode/x": "rw",
            "d/.env": "rw",
            ".env": "r-",
            "x.code-workspace": "rw",
            ".idea/x": "r-",
        },
    ),
    "allowGitConfig": ({"allowGitConfig": True}, {".git/config": "rw", ".git/hooks/x": "r-"}),
    "dot dot": ({"denyRead": ["d/../secret"]}, {"secret": "--", "d/secret": "rw"}),
}


def real(box: Box, name: str) -> Path:
    return box.place.home / name[2:] if name.startswith("~/") else box.place.workspace / name


@pytest.mark.parametrize("case", CASES)
def test_access(box: Box, user: str, case: str) -> None:
    keys, expected = CASES[case]
    for name in expected:
        real(box, name).parent.mkdir(parents=True, exist_ok=True)
        real(box, name).write_text("text")
        real(box, name).chmod(0o666)
    paths = {name: str(real(box, name)) for name in expected}
    done = box(
        ["/usr/bin/python3", "-I", "-c", SCRIPT, *paths.values()], make_settings(**keys), user=user
    )
    assert done.returncode == 0, done.stderr
    access = json.loads(done.stdout)
    assert {name: access[path] for name, path in paths.items()} == expected, done.stderr
    control = box(["/usr/bin/python3", "-I", "-c", SCRIPT, *paths.values()], sandbox=False)
    assert set(json.loads(control.stdout).values()) == {"rw"}


def test_denying_the_root_hides_what_is_in_it(box: Box, user: str) -> None:
    settings = make_settings(
        denyRead=["/"], allowRead=["/usr", "/lib", "/lib64", "/bin", "/etc/alternatives"]
    )
    (box.place.workspace / "file").write_text("text")
    done = box(["/bin/sh", "-c", "cat file; ls -A /home /var /etc /root 2>&1"], settings, user=user)
    assert (
        done.stdout.startswith("text") and "passwd" not in done.stdout and "lib" not in done.stdout
    ), done.stdout


def test_links_of_a_sandbox_before_open_nothing(box: Box, user: str) -> None:
    """A sandbox could have created a link in a writable directory, so it does not widen what is
    allowed.
    """
    precious = box.place.root / "precious"
    precious.mkdir()
    (precious / "file").write_text("text")
    (precious / "file").chmod(0o666)
    (box.place.workspace / "out").symlink_to(precious)
    done = box(["sh", "-c", "echo x > out/file"], make_settings(allowWrite=[".", "out"]), user=user)
    assert done.returncode != 0 and "out" in done.stderr
    assert (precious / "file").read_text() == "text"


def test_a_denied_link_denies_what_it_leads_to(box: Box, user: str) -> None:
    (box.place.workspace / "secret").write_text("text")
    (box.place.workspace / "link").symlink_to("secret")
    done = box(["sh", "-c", "cat secret link"], make_settings(denyRead=["link"]), user=user)
    assert done.stdout == "" and done.returncode != 0


def test_names_that_are_odd(box: Box, user: str) -> None:
    """Blanks, quotes, new lines, literal stars, 255 bytes, and names beside them that are not
    UTF-8.
    """
    names = ["a b", "a'b\"c", "a\nb", "ü" * 127, "$(touch x)", "-rf", "a\\b"]
    for name in names:
        (box.place.workspace / name).mkdir()
        (box.place.workspace / name / "file").write_text("text")
    Path(os.fsdecode(os.fsencode(box.place.workspace) + b"/\xff.key")).write_text("text")
    settings = make_settings(denyWrite=names, denyRead=["*.key"])
    paths = [str(box.place.workspace / name / "file") for name in names]
    done = box(["/usr/bin/python3", "-I", "-c", SCRIPT, *paths], settings, user=user)
    assert set(json.loads(done.stdout).values()) == {"r-"}, done.stdout
    odd = box(["sh", "-c", "cat *.key"], settings, user=user)
    assert odd.stdout == "" and "Permission denied" in odd.stderr


def test_files_that_come_later_are_covered_by_a_glob(box: Box, user: str) -> None:
    script = "echo text > new.txt; cat new.txt; mv new.txt new.key; cat new.key; echo x > other.key"
    done = box(["sh", "-c", script], make_settings(denyRead=["*.key"]), user=user)
    assert done.stdout == "text\n"
    assert not (box.place.workspace / "other.key").exists()
    control = box(["sh", "-c", script], sandbox=False)
    assert control.stdout == "text\ntext\n"
