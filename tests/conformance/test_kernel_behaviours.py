# SPDX-License-Identifier: Apache-2.0
"""What people do in cells: `ipybox kernel` beside ipykernel, and the document that compares them.

The rows are in kernel_behaviours/rows.py. What each kernel did is recorded in
kernel_behaviours/observed.json, from which docs/jupyter-kernel.md is made. With
IPYBOX_TEST_WRITE=1, these two files are written: run it twice. With IPYBOX_TEST_IPYKERNEL=1,
ipykernel is checked, too.
"""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
import textwrap
from pathlib import Path

import harness
import pytest

HERE = Path(__file__).parent / "kernel_behaviours"
SUITES = Path(__file__).parent / "jupyter_suites"
OBSERVED = HERE / "observed.json"
DOCUMENT = harness.ROOT / "docs/jupyter-kernel.md"
PYTHON = harness.CACHE / "jupyter-suites/bin/python"
KERNELS = {"ipykernel": "python3", "ipybox": "ipybox"}
TIMEOUT_S = 280
WRITES = bool(os.environ.get("IPYBOX_TEST_WRITE"))
# ipykernel reports what C code and children write when it comes round to it: on a busy machine it
# does not do the same each time. So `make verify-long` checks it, and not each change.
TESTED = list(KERNELS) if WRITES or os.environ.get("IPYBOX_TEST_IPYKERNEL") else ["ipybox"]

HEAD = """\
# How the kernel differs from ipykernel

This page lists differences between `ipybox kernel` and ipykernel 7 that you can see in notebooks.
A test has run each example on both kernels and has written this page from the results
(`tests/conformance/test_kernel_behaviours.py`). For each change of ipybox, it runs the examples on
ipybox again. ⏎ is the end of a line.
"""

SUITES_HEAD = """
## What the tests of other projects find

These tests run with `ipybox kernel` as the kernel `python3`
(`tests/conformance/test_jupyter_suites.py`). Skipped tests are not counted.

| suite | version | ipykernel passes | ipybox passes |
|---|---|---|---|
"""


def observe(kernel: str) -> list[list[str]]:
    """A list for each row: its name, what is done, why the kernels differ, what was seen."""
    # Not in /tmp, since each sandbox has its own there.
    with tempfile.TemporaryDirectory(dir="/var/tmp", prefix="ipybox-behaviours-") as directory:
        home, workspace = Path(directory, "home"), Path(directory, "notebooks")
        home.mkdir()
        workspace.mkdir()
        environ = os.environ | {
            "HOME": str(home),
            "XDG_STATE_HOME": f"{directory}/state",
            "JUPYTER_PATH": f"{directory}/share/jupyter",
            "JUPYTER_RUNTIME_DIR": f"{directory}/runtime",
            "JUPYTER_PLATFORM_DIRS": "1",
            "PYTHONDONTWRITEBYTECODE": "1",
            "MY_VARIABLE": "1",
        }
        # With the last one, ipykernel does not capture what children print.
        for name in ("NO_COLOR", "FORCE_COLOR", "TERM", "PAGER", "PYTEST_CURRENT_TEST"):
            environ.pop(name, None)
        binary = Path(os.environ.get("IPYBOX_BIN", harness.ROOT / "build/ipybox")).resolve()
        install = [str(harness.existing(binary)), "kernelspec", "install", "--prefix", directory]
        install += ["--python", str(harness.existing(PYTHON))]
        subprocess.run(install, env=environ, check=True, capture_output=True)
        before = harness.descendants()
        done = subprocess.run(
            [str(PYTHON), str(HERE / "observe.py"), KERNELS[kernel]],
            cwd=workspace,
            env=environ,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
        )
        assert done.returncode == 0, done.stderr
        assert not harness.processes_left(before)
    return [json.loads(line) for line in done.stdout.splitlines()]


def make_document(rows: list[dict[str, str | None]]) -> str:
    same = [row for row in rows if row["ipykernel"] == row["ipybox"]]
    others = [row for row in rows if row["ipykernel"] != row["ipybox"]]
    lines = [HEAD, "## What differs", ""]
    for row in others:
        lines += item("- ", row["what"])
        lines += item("  - ipykernel: ", row["ipykernel"])
        lines += item("  - ipybox: ", row["ipybox"])
        lines += item("  - ", row["why"])
    lines += ["", "## What is the same", ""]
    for row in same:
        lines += item("- ", f"{row['what']}: {row['ipybox']}".replace("?: ", "? "))
    return "\n".join(lines) + "\n" + describe_suites()


def describe_suites() -> str:
    """From the files of test_jupyter_suites.py."""
    suites = json.loads((SUITES / "ipykernel.json").read_text())
    failures: dict[str, list[str]] = {}
    numbers = dict.fromkeys(suites, 0)
    for line in (SUITES / "exceptions.txt").read_text().splitlines():
        if not line.startswith("#"):
            test, _, reason = line.partition(": ")
            suite, _, name = test.partition(" ")
            numbers[suite] += 1
            failures.setdefault(reason, []).append(f"`{name.strip('()')}`")
    text = SUITES_HEAD
    for suite, recorded in suites.items():
        passed = recorded["passed"]
        text += f"| {suite} | {recorded['version']} | {passed} | {passed - numbers[suite]} |\n"
    lines = ["", "The others, and why they fail:", ""]
    for reason, names in failures.items():
        lines += item("- ", f"{reason}: {', '.join(names)}")
    return text + "\n".join(lines) + "\n"


def item(prefix: str, text: str | None) -> list[str]:
    indent = " " * (prefix.index("-") + 2)
    wrapper = textwrap.TextWrapper(
        100, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
    )
    return wrapper.wrap(f"{prefix}{text}")


@pytest.mark.parametrize("kernel", TESTED)
def test_rows(kernel: str) -> None:
    seen = observe(kernel)
    recorded = json.loads(OBSERVED.read_text())
    if WRITES:
        known = {row["name"]: row for row in recorded}
        rows = []
        for name, what, why, saw in seen:
            assert not saw.startswith("raised"), f"{name} {saw}"
            rows.append({**known.get(name, dict.fromkeys(KERNELS)), "name": name, "what": what})
            rows[-1] |= {"why": why, kernel: saw}
        OBSERVED.write_text(json.dumps(rows, indent=1, ensure_ascii=False) + "\n")
        return
    assert [[row["name"], row["what"], row["why"], row[kernel]] for row in recorded] == seen


def test_document() -> None:
    rows = json.loads(OBSERVED.read_text())
    assert len(rows) >= 60
    for row in rows:
        differs = row["ipykernel"] != row["ipybox"]
        assert differs == (row["why"] is not None), f"why, or why not: {row}"
    if WRITES:
        DOCUMENT.write_text(make_document(rows))
    assert DOCUMENT.read_text() == make_document(rows)
