# SPDX-License-Identifier: Apache-2.0
"""scripts/check-kernels: its rules, the committed results, and the table in the documents.

The virtual machines are booted by .ci/run and `make verify-long`.
"""

from __future__ import annotations

import copy
import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = ROOT / "scripts/check-kernels"


@pytest.fixture(scope="module")
def check(load_script):
    return load_script("check-kernels")


@pytest.fixture(scope="module")
def known(check):
    return json.loads(check.RESULTS.read_text())


def test_all_kernels_have_results(check, known):
    assert [*known] == [kernel.name for kernel in check.KERNELS]


def test_the_document_has_the_table_of_the_results(check, known):
    document = check.DOCUMENT.read_text()
    assert check.with_table(document, known) == document


def test_results_follow_the_rules(check, known):
    for name, entry in known.items():
        assert check.judge(entry["rows"]) == [], name


def test_each_kernel_has_the_same_rows(known):
    first, *others = (set(entry["rows"]) for entry in known.values())
    assert all(rows == first for rows in others)


BROKEN = [
    # A row of Debian 13's results, what it might have said instead, a part of the complaint.
    ("user: doctor", ("names", "optional: not judged"), "not judged"),
    ("user: doctor", ("landlock", "optional: not there"), "not there"),
    ("root: doctor", ("sandbox", "optional: none"), "none"),
    ("user: names, without a sandbox", ("stopped", 1), "prove nothing"),
    ("user: names", ("through", ["an attack"]), "an attack"),
    ("root: names, from a cell", ("left", [".mcp.json"]), "names, from a cell"),
    ("user: selftest", ("through", ["an attack"]), "an attack"),
    ("root: cell", "1: an error", "an error"),
    ("root: tool", "3: the sandbox cannot be made", "cannot be made"),
    ("user: tool without a sandbox", "1: an error", "an error"),
    ("user: weaker", "1: an error", "an error"),
]


@pytest.mark.parametrize(("row", "change", "complaint"), BROKEN)
def test_rules(check, known, row, change, complaint):
    rows = copy.deepcopy(known["6.12"]["rows"])
    if isinstance(change, tuple):
        rows[row][change[0]] = change[1]
    else:
        rows[row] = change
    (problem,) = check.judge(rows)
    assert problem.startswith(row) and complaint in problem


def test_a_kernel_that_cannot_judge_names_must_say_so(check, known):
    rows = copy.deepcopy(known["5.15"]["rows"])
    del rows["root: names"]["says"]
    assert check.judge(rows) == ["root: names: it does not say that names are not judged"]


def test_selftest_may_report_names_that_are_not_judged(check, known):
    rows = copy.deepcopy(known["5.15"]["rows"])
    rows["user: selftest"]["through"] = ["names: create .mcp.json"]
    assert check.judge(rows) == []
    rows["user: selftest"]["through"].append("files: make a device")
    (problem,) = check.judge(rows)
    assert problem.startswith("user: selftest")


def test_a_kernel_without_sandboxes_must_say_so(check, known):
    rows = copy.deepcopy(known["5.10"]["rows"])
    rows["user: cell"] = "yes"
    assert check.judge(rows) == ["user: cell: yes"]


def test_a_difference_from_the_results_is_named(check, known):
    kernel = next(kernel for kernel in check.KERNELS if kernel.name == "6.1")
    rows = known["6.1"]["rows"]
    assert check.compare(kernel, rows | {"release": "6.1.0-1"}, known) == []
    assert check.compare(kernel, rows | {"landlock": 9}, known) == [
        f"landlock: 9; results.json has {rows['landlock']}"
    ]
    assert "use --write" in check.compare(kernel, rows, {})[0]


def test_units_are_all_test_programs(check):
    programs = (ROOT / "tests/unit").glob("test-*.c")
    assert check.list_units() == sorted(path.stem.removeprefix("test-") for path in programs)


def test_units_left_out_exist(check):
    for name, reason in check.UNITS_LEFT_OUT.items():
        assert name in check.list_units() and len(reason) > 20, name


def test_all_units_have_results(check, known):
    entry = known[check.UNITS_KERNEL]["unit tests"]
    missing = set(check.list_expected_units()) - set(entry["programs"])
    assert not missing, f"run scripts/check-kernels --write --units {','.join(sorted(missing))}"
    assert [*entry["programs"]] == check.list_expected_units()
    assert entry["left out"] == check.UNITS_LEFT_OUT
    rows = {name: value | {"failed": []} for name, value in entry["programs"].items()}
    assert check.judge_units(rows) == []


@pytest.mark.parametrize(
    ("value", "is_broken"),
    [
        ({"passed": 3, "skipped": [], "failed": []}, False),
        ({"passed": 0, "skipped": ["/a"], "failed": []}, False),
        ({"passed": 3, "skipped": [], "failed": ["/a"]}, True),
        ({"passed": 0, "skipped": [], "failed": []}, True),
        ("no end after 900 s: ", True),
        ("failed: OSError()", True),
    ],
)
def test_units_must_pass(check, value, is_broken):
    good = {"passed": 1, "skipped": [], "failed": []}
    problems = check.judge_units({"base-fd": good, "json-json": value})
    assert bool(problems) == is_broken
    assert all(problem.startswith("json-json: ") for problem in problems)


def test_results_of_units_are_kept(check):
    good = {"passed": 2, "skipped": ["/a"], "failed": []}
    old = {"json-json": {"passed": 1, "skipped": []}, "no-more": {"passed": 1, "skipped": []}}
    entry = {"programs": old}
    known = {check.UNITS_KERNEL: {"unit tests": entry}}
    check.keep_unit(known, "base-fd", good)
    assert [*entry["programs"]] == ["base-fd", "json-json"]
    assert entry["programs"]["base-fd"] == {"passed": 2, "skipped": ["/a"]} | check.made_now()
    check.keep_unit(known, "json-json", "no end after 900 s: ")
    assert [*entry["programs"]] == ["base-fd"]

    assert check.compare_units({"base-fd": good}, entry["programs"]) == []
    (problem,) = check.compare_units({"base-fd": good | {"skipped": []}}, entry["programs"])
    assert problem.startswith("base-fd: skips []; ")
    (problem,) = check.compare_units({"json-json": good}, entry["programs"])
    assert "use --write" in problem


def test_arguments():
    done = subprocess.run([sys.executable, SCRIPT, "--only=2.4"], capture_output=True, text=True)
    assert done.returncode == 2 and "there is no kernel 2.4" in done.stderr
    done = subprocess.run([sys.executable, SCRIPT, "--units=no"], capture_output=True, text=True)
    assert done.returncode == 2 and "there is no unit test no" in done.stderr
    done = subprocess.run([sys.executable, SCRIPT, "--quick", "--write"], capture_output=True)
    assert done.returncode == 2
