# SPDX-License-Identifier: Apache-2.0
"""`make` builds what the demo needs. scripts/demo shows a sandboxed cell or says why it cannot."""

from __future__ import annotations

import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
# In a user namespace where no further one can be created, so no sandbox either.
NO_NAMESPACES = [
    "unshare",
    "--user",
    "--map-root-user",
    "sh",
    "-c",
    'echo 0 >/proc/sys/user/max_user_namespaces && exec "$@"',
    "sh",
]


def built_by_make() -> list[Path]:
    """The programs that `make` builds, by make and ninja. A build folder may have many others."""
    commands = subprocess.run(
        ["make", "-n", "all"], cwd=ROOT, check=True, capture_output=True, text=True
    ).stdout
    (target,) = re.findall(r"^ninja -C build (\S+)$", commands, re.MULTILINE)
    query = subprocess.run(
        ["ninja", "-C", "build", "-t", "query", target],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    )
    paths = [
        ROOT / "build" / line.split()[-1]
        for line in query.stdout.splitlines()
        if line.startswith("    ")
    ]
    return [path for path in paths if path.is_file()]


@pytest.fixture
def clone() -> Iterator[Path]:
    """A checkout after `make`. Not below /tmp: each sandbox has a /tmp of its own."""
    with tempfile.TemporaryDirectory(prefix="ipb-demo-", dir="/var/tmp") as directory:
        clone = Path(directory)
        for name in ("scripts", "examples", "python", ".venv", ".cache"):
            (clone / name).symlink_to(ROOT / name)
        (clone / "build").mkdir()
        for path in built_by_make():
            shutil.copy(path, clone / "build")
        yield clone


def demo(clone: Path, *prefix: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*prefix, clone / "scripts/demo"], stdin=subprocess.DEVNULL, capture_output=True, text=True
    )


def test_runs_in_a_sandbox(clone):
    done = demo(clone)
    assert done.returncode == 0, done.stderr
    assert "Kathmandu" in done.stdout
    last = done.stdout.strip().splitlines()[-1]
    shown = re.fullmatch(
        r"The cell ran in a sandbox \(user:\[\d+\]\)\. The plot is (build/demo/\S+\.png)", last
    )
    assert shown, last
    assert (clone / shown[1]).read_bytes().startswith(b"\x89PNG")


def test_without_a_sandbox_says_why(clone):
    done = demo(clone, *NO_NAMESPACES)
    assert done.returncode == 3
    assert "Kathmandu" not in done.stdout
    assert "user.max_user_namespaces" in done.stderr
    assert "docs/how-to/install.md" in done.stderr


def test_an_installation_that_is_not_whole_is_no_demo(clone):
    (clone / "build/ipybox-enter.so").unlink()
    done = demo(clone)
    assert done.returncode == 3
    assert "Kathmandu" not in done.stdout
    assert "ipybox-enter.so" in done.stderr


def test_a_cell_outside_is_noticed(clone):
    """If ipybox ran the cell without a sandbox."""
    program = clone / "build/ipybox"
    program.rename(clone / "build/real")
    program.write_text(
        '#!/bin/sh\nverb=$1\nshift\n[ $verb != run ] || set -- --no-sandbox "$@"\n'
        'exec "${0%/*}/real" $verb "$@"\n'
    )
    program.chmod(0o755)
    done = demo(clone)
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1] == "demo: the cell ran without a sandbox"
