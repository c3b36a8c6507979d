# SPDX-License-Identifier: Apache-2.0
"""scripts/check-git-tests: what it reads, its rules, and the committed table and results.

git's scripts are run by `make verify-long`.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
RULE = ".git/**/hooks/**"
REASONS = {RULE: "rule: hooks", "setgid": "no such files", "follows": "it needs an earlier one"}

OUTPUT = """\
expecting success of 1.1 'first':
	true
ok 1 - first
ok 2 # skip second (missing PERL)
not ok 3 - third # TODO known breakage
ok 99 lines were written
cannot create .git/hooks/x: Permission denied
not ok 4 - fourth
# failed 1 among 4 test(s)
1..4
"""


@pytest.fixture(scope="module")
def check(load_script):
    return load_script("check-git-tests")


@pytest.fixture(scope="module")
def table(check):
    return json.loads(check.TABLE.read_text())


def test_output(check):
    found = check.parse(OUTPUT)
    assert found.results == {1: "pass", 2: "skip", 3: "known", 4: "fail"}
    assert found.titles == {1: "first", 2: "second", 3: "third", 4: "fourth"}
    assert found.is_complete
    assert not check.parse(OUTPUT.replace("1..4", "")).is_complete
    assert check.guess(found, found, 4) == "setgid"
    assert check.guess(found, check.parse(OUTPUT.replace("not ok 4", "ok 4")), 4) == RULE
    assert check.guess(found, found, 1) == "follows"


def runs(check, outside: str, inside: str, allowed: str) -> dict:
    """Each letter is the result of a subtest: pass, fail, skip or known."""
    names = {"p": "pass", "f": "fail", "s": "skip", "k": "known"}
    found = {}
    for way, letters in zip(check.WAYS, (outside, inside, allowed), strict=True):
        results = {number: names[letter] for number, letter in enumerate(letters, 1)}
        titles = {number: f"title {number}" for number in results}
        found[way] = check.Run(results, titles, rules={RULE}, is_complete=True)
    return found


GOOD = [
    ("ppp", "ppp", "ppp", {}),
    ("ppsk", "pppp", "ppsk", {}),
    ("ppp", "pfp", "ppp", {"2 title 2": RULE}),
    ("ppp", "pff", "ppp", {"2 title 2": RULE, "3 title 3": "follows"}),
    ("ppp", "psp", "ppp", {"2 title 2": RULE}),
    ("pps", "ppf", "ppp", {"3 title 3": RULE}),
    ("ppp", "pfp", "pfp", {"2 title 2": "setgid"}),
]


@pytest.mark.parametrize(("outside", "inside", "allowed", "known"), GOOD)
def test_what_is_fine(check, outside, inside, allowed, known):
    found = runs(check, outside, inside, allowed)
    assert check.judge(found, known, REASONS) == []
    assert set(check.propose(found, known)) == set(known)


BAD = [
    ("ppp", "pfp", "ppp", {}, "differs, and has no reason"),
    ("ppp", "pp", "ppp", {}, "differs, and has no reason"),
    ("ppp", "ppp", "ppp", {"2 title 2": RULE}, "does not differ any more"),
    ("ppp", "pfp", "ppp", {"2 another": RULE}, "does not differ any more"),
    ("ppp", "pfp", "ppp", {"2 title 2": "luck"}, "not among the reasons"),
    ("ppp", "pfp", "pfp", {"2 title 2": RULE}, "fails nevertheless"),
    ("ppp", "pfp", "pfp", {"2 title 2": "follows"}, "fails nevertheless"),
    ("ppp", "pfp", "ppp", {"2 title 2": "setgid"}, "a rule is the reason"),
    ("ppp", "ppp", "pfp", {}, "differs only where"),
    ("pfp", "pfp", "pfp", {}, "fails outside"),
    ("", "", "", {}, "no subtest ran"),
]


@pytest.mark.parametrize(("outside", "inside", "allowed", "known", "problem"), BAD)
def test_what_is_a_problem(check, outside, inside, allowed, known, problem):
    problems = check.judge(runs(check, outside, inside, allowed), known, REASONS)
    assert any(problem in text for text in problems), problems


def test_a_rule_that_was_not_reported_is_a_problem(check):
    found = runs(check, "ppp", "pfp", "ppp")
    found["inside"].rules.clear()
    (problem,) = check.judge(found, {"2 title 2": RULE}, REASONS)
    assert "did not report the rule" in problem


def test_a_script_that_does_not_end_is_a_problem(check):
    found = runs(check, "ppp", "ppp", "ppp")
    found["inside"].is_complete = False
    (problem,) = check.judge(found, {}, REASONS)
    assert problem.startswith("inside: the script did not come to its end")


def test_rules_of_the_table_are_documented(table):
    document = (ROOT / "docs/name-rules.md").read_text()
    for name, text in table["reasons"].items():
        assert not text.startswith("rule: ") or f"`{name}`" in document, name


def test_guesses_are_reasons_of_the_table(check, table):
    assert {reason for reason, _ in check.GUESSES} <= {*table["reasons"]}


def test_the_table_and_the_results_fit(check, table):
    results = json.loads(check.RESULTS.read_text())
    assert [*results["scripts"]] == check.SCRIPTS
    assert set(table["scripts"]) <= set(check.SCRIPTS)
    for name, counts in results["scripts"].items():
        lines = table["scripts"].get(name, {})
        assert sum(counts["explained"].values()) == len(lines), name
        assert counts["equal"] + len(lines) == counts["subtests"], name
        assert set(lines.values()) <= set(table["reasons"]), name


def test_quick_is_a_part(check):
    assert set(check.QUICK) < set(check.SCRIPTS)
