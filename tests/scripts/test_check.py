# SPDX-License-Identifier: Apache-2.0
"""scripts/check never counts failures, crashes and skips as passed."""

from __future__ import annotations

import json
import subprocess

import pytest


@pytest.fixture(scope="module")
def check(load_script):
    return load_script("check")


@pytest.mark.parametrize(
    ("stdout", "result", "passed", "failed"),
    [
        ("1..2\nok 1 /a\nok 2 /b\n", "OK", 2, 0),
        ("1..2\nok 1 /a\nnot ok 2 /b\n", "FAIL", 1, 1),
        ("1..2\nok 1 /a\n# Bail out!\n", "ERROR", 1, 1),
        ("1..1\nok 1 /a # SKIP no reason\n", "OK", 0, 1),
        ("", "TIMEOUT", 0, 1),
        ("20 inputs passed\n", "OK", 1, 0),
    ],
)
def test_counts_tap(check, tmp_path, stdout, result, passed, failed):
    report = tmp_path / "log.json"
    report.write_text(json.dumps({"name": "x", "stdout": stdout, "result": result}) + "\n")
    (count,) = check.count_meson(report).values()
    assert (count.passed, count.failed) == (passed, failed)


@pytest.mark.parametrize(
    ("cases", "status", "passed", "failed"),
    [
        ("<testcase/><testcase/>", 0, 2, 0),
        ("<testcase/><testcase><failure/></testcase>", 1, 1, 1),
        ("<testcase><error/></testcase>", 1, 0, 1),
        ("<testcase><skipped/></testcase>", 0, 0, 1),
        ("<testcase/>", 3, 1, 1),
        ("", 0, 0, 1),
    ],
)
def test_counts_pytest(check, tmp_path, cases, status, passed, failed):
    report = tmp_path / "report.xml"
    report.write_text(f"<testsuites>{cases}</testsuites>")
    count = check.count_pytest(report, status)
    assert (count.passed, count.failed) == (passed, failed)


def test_no_report_is_a_failure(check, tmp_path):
    assert check.count_pytest(tmp_path / "none", 0).failed == 1
    assert check.count_meson(tmp_path / "none") == {}
    assert check.at_least_one_failure(check.Count(), 0).failed == 1


# Fails in its first attempt, passes or fails in its second.
UNSTEADY = """
import pathlib
def test_steady():
    pass
def test_unsteady():
    mark = pathlib.Path(__file__).with_name("mark")
    first = not mark.exists()
    mark.touch()
    assert not first
"""


@pytest.mark.parametrize(
    ("more", "again", "expected"),
    [
        ("", True, (2, 0, ["test_some::test_unsteady"])),
        ("", False, (1, 1, [])),
        ("def test_wrong(): assert False", True, (1, 2, [])),
        (
            "import pytest\n@pytest.fixture\ndef f(): raise OSError\ndef test_wrong(f): pass",
            True,
            (1, 2, []),
        ),
        ("import pytest\ndef test_skipped(): pytest.skip()", True, (1, 2, [])),
        ("".join(f"def test_wrong_{i}(): assert False\n" for i in range(3)), True, (1, 4, [])),
    ],
    ids=[
        "unsteady",
        "one attempt",
        "one fails twice",
        "an error of a fixture",
        "one skipped",
        "too many",
    ],
)
def test_second_attempt(check, tmp_path, more, again, expected):
    tests = tmp_path / "tests"
    tests.mkdir()
    (tests / "test_some.py").write_text(UNSTEADY + more)
    # Without workers, whose start takes long.
    count = check.check_pytest(tmp_path, [str(tests)], tmp_path, again, "-n", "0")
    assert (count.passed, count.failed, count.unsteady) == expected


def test_failures_are_counted_by_directory(check):
    assert check.most_in_a_directory([]) == 0
    names = ["sdk.test_a::test_1", "sandbox.test_a::test_1", "sdk.test_b::test_2"]
    assert check.most_in_a_directory(names) == 2


def test_a_second_attempt_that_ran_nothing_changes_nothing(check):
    first = check.Count(5, 1)
    assert check.after_second_attempt(first, ["a"], check.Count(0, 0)) is first
    assert check.after_second_attempt(first, ["a", "b"], check.Count(1, 0)) is first


# A program of two tests, of which the second fails in its first attempt; one that passes; and the
# tests of the case.
PROJECT = """
project('some', meson_version: '>= 0.60')
sh = find_program('sh')
test('unsteady', sh, protocol: 'tap', suite: 'unit', args: ['-c', '''
    echo 1..2; echo ok 1
    if [ -e mark ]; then echo ok 2; else touch mark; echo not ok 2; fi'''])
test('steady', sh, suite: 'unit', args: ['-c', 'true'])
"""
WRONG = "test('wrong{}', sh, suite: 'unit', args: ['-c', 'false'])\n"


@pytest.mark.parametrize(
    ("more", "again", "expected"),
    [
        ("", True, (3, 0, ["unsteady"])),
        ("", False, (2, 1, [])),
        (WRONG, True, (2, 2, [])),
        ("".join(WRONG.format(i) for i in range(3)), True, (2, 4, [])),
    ],
    ids=["unsteady", "one attempt", "one fails twice", "too many"],
)
def test_second_attempt_of_unit_tests(check, tmp_path, more, again, expected):
    (tmp_path / "meson.build").write_text(PROJECT + more)
    build = tmp_path / "build"
    subprocess.run(
        ["meson", "setup", str(build)], cwd=tmp_path, check=True, stdout=subprocess.DEVNULL
    )
    count = check.check_unit(build, again)
    assert (count.passed, count.failed, count.unsteady) == expected
