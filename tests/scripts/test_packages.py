# SPDX-License-Identifier: Apache-2.0
"""scripts/packages installs missing packages as root; other users get the line to run."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parents[2] / "scripts/packages"
TOOLS = [
    "sh",
    "cat",
    "grep",
    "head",
    "mktemp",
    "cp",
    "rm",
    "cc",
    "pkg-config",
    "python3",
    "as",
    "ld",
    "sleep",
]


@pytest.fixture
def system(tmp_path):
    """A PATH without ninja and meson. `apt-get install` records its call and provides them."""
    path = tmp_path / "bin"
    path.mkdir()
    for tool in TOOLS:
        (path / tool).symlink_to(
            os.path.realpath(shutil.which(tool)) if tool != "python3" else "/usr/bin/python3"
        )
    log = tmp_path / "apt.log"

    def add(name: str, text: str) -> None:
        (path / name).write_text("#!/bin/sh\n" + text)
        (path / name).chmod(0o755)

    def run(uid: int, apt: str) -> subprocess.CompletedProcess[str]:
        add("id", f"echo {uid}\n")
        add("apt-get", f'echo "$DEBIAN_FRONTEND $*" >>{log}\n{apt}')
        return subprocess.run(
            [SCRIPT, "build"],
            env={"PATH": str(path), "IPYBOX_RETRY_PAUSE": "0"},
            capture_output=True,
            text=True,
        )

    brings = f'case "$1" in install) cp {path}/id {path}/meson; cp {path}/id {path}/ninja ;; esac\n'
    return run, brings, log


def test_prints_one_line_for_an_ordinary_user(system):
    run, brings, log = system
    done = run(1000, brings)
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1] == "sudo apt-get install meson ninja-build"
    assert not log.exists()


def test_installs_what_is_missing_as_root(system):
    run, brings, log = system
    done = run(0, brings)
    assert (done.returncode, done.stdout) == (0, "installing meson ninja-build\n")
    assert (
        log.read_text()
        == "noninteractive install -y -q --no-install-recommends meson ninja-build\n"
    )
    # Nothing is missing now, so apt-get is not called again.
    assert run(0, "exit 1\n").returncode == 0
    assert len(log.read_text().splitlines()) == 1


def test_updates_the_lists_when_the_first_try_fails(system):
    run, brings, log = system
    done = run(
        0, f'[ "$(cat {log} | grep -c install)" != 1 ] || [ "$1" = update ] || exit 100\n{brings}'
    )
    assert done.returncode == 0
    assert [line.split()[1] for line in log.read_text().splitlines()] == [
        "install",
        "update",
        "install",
    ]


def test_fails_when_apt_does(system):
    run, _, log = system
    done = run(0, "echo E: no route; exit 100\n")
    assert done.returncode == 1
    assert [line.split()[1] for line in log.read_text().splitlines()] == [
        "install",
        "update",
        "update",
        "update",
    ]
    assert "E: no route" in done.stderr
    assert "could not install: meson ninja-build" in done.stderr


@pytest.mark.parametrize(
    ("version", "missing"),
    [
        ("rustc 1.96.0 (ac68faa20 2026-05-25)", False),
        ("rustc 1.88.0-nightly (0123abcde 2025-05-01)", False),
        ("rustc 1.63.0", True),
        (None, True),
    ],
)
def test_an_old_rust_is_replaced(system, tmp_path, version, missing):
    path = tmp_path / "bin"
    (path / "sed").symlink_to(shutil.which("sed"))
    programs = {"apt-get": "exit 1", "id": "echo 1000", "cargo": "exit 0"}
    if version:
        programs["rustc"] = f'echo "{version}"'
    for name, text in programs.items():
        (path / name).write_text(f"#!/bin/sh\n{text}\n")
        (path / name).chmod(0o755)
    done = subprocess.run([SCRIPT, "rust"], env={"PATH": str(path)}, capture_output=True, text=True)
    wanted = (
        "Some packages are missing. Run this, then try again:\nsudo apt-get install cargo-web\n"
    )
    assert (done.returncode, done.stderr) == ((1, wanted) if missing else (0, ""))


@pytest.mark.parametrize(
    ("goals", "groups"),
    [
        ((), "build"),
        (("demo",), "build"),
        (("check",), "build man docs test"),
        (("demo", "check"), "build man docs test"),
    ],
)
def test_make_asks_once_for_all_that_its_goals_need(goals, groups):
    commands = subprocess.run(
        ["make", "-n", *goals], cwd=SCRIPT.parents[1], check=True, capture_output=True, text=True
    ).stdout
    asked = [
        line.split()[1:] for line in commands.splitlines() if line.startswith("scripts/packages")
    ]
    assert asked == [groups.split()]


def test_programs_of_the_tests_are_set_up(system, tmp_path):
    """`make check` as an ordinary user of a machine that has only what a build needs."""
    path = tmp_path / "bin"
    for tool, text in (("apt-get", "exit 1\n"), ("id", "echo 1000\n")):
        (path / tool).write_text("#!/bin/sh\n" + text)
        (path / tool).chmod(0o755)
    done = subprocess.run(
        [SCRIPT, "build", "man", "docs", "test"],
        env={"PATH": str(path)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 1
    command, _, packages = done.stderr.splitlines()[-1].partition("install ")
    assert command == "sudo apt-get "
    needed = (
        "chromium clang-format curl doxygen fish g++ git man-db mandoc meson ninja-build openssl "
        "procps scdoc systemd zsh"
    )
    assert sorted(packages.split()) == needed.split()
