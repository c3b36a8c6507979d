# SPDX-License-Identifier: Apache-2.0
"""Shell completion offers what --help lists, in bash, zsh and fish.

A new verb or option without completion fails here.
"""

from __future__ import annotations


import cli_help
import completion_shells
import pytest

LEVELS = {"DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL"}


@pytest.fixture(params=completion_shells.SHELLS)
def ask(request, ipybox, place, workspace):
    """ask(line, …): the completions of each line, by one shell in a workspace with some files."""
    (workspace / "directory").mkdir()
    for name in ("cell.py", "some.json", "notebook.ipynb"):
        (workspace / name).touch()
    programs = place.root / "bin"
    programs.mkdir()
    (programs / "ipybox").symlink_to(ipybox)
    place.environ["PATH"] = f"{programs}:{place.environ['PATH']}"

    def ask(*lines: str) -> list[set[str]]:
        offers = completion_shells.SHELLS[request.param](list(lines), place)
        assert len(offers) == len(lines)
        return offers

    return ask


def test_verbs_and_commands(ask, run_ipybox):
    helps = cli_help.read(run_ipybox)
    verbs = [verb for verb in helps if helps[verb].commands]
    offers = ask(*[f"ipybox {verb} " if verb else "ipybox " for verb in verbs])
    assert {verb: offer for verb, offer in zip(verbs, offers)} == {
        verb: set(helps[verb].commands) for verb in verbs
    }


def test_options(ask, run_ipybox):
    helps = cli_help.read(run_ipybox)
    expected = {verb: set(help.options) for verb, help in helps.items()}
    expected[""] |= expected["mcp"]
    offers = ask(*[f"ipybox {verb} --" if verb else "ipybox --" for verb in expected])
    assert {verb: offer for verb, offer in zip(expected, offers)} == expected


def test_values(ask, run_ipybox):
    """Completions follow the name that --help has for a value.

    A directory, a file, one of some words, a name; nothing for numbers and texts.
    """
    helps = cli_help.read(run_ipybox)
    options = [
        (verb, name, value)
        for verb, help in helps.items()
        for name, value in help.options.items()
        if verb and value
    ]
    spaced = ask(*[f"ipybox {verb} {name} " for verb, name, _ in options])
    joined = ask(*[f"ipybox {verb} {name}=" for verb, name, _ in options])
    for (verb, name, value), *offers in zip(options, spaced, joined):
        for offer in offers:
            told = f"{verb} {name}={value}: {offer}"
            if value == "DIR":
                assert "directory" in offer and "cell.py" not in offer, told
            elif value == "FILE":
                assert {"directory", "some.json"} <= offer, told
            elif value == "PYTHON":
                assert {"directory", "python3"} <= offer, told
            elif value == "LEVEL":
                assert offer == LEVELS, told
            elif value == "WHERE":
                assert offer == {"content", "path", "both"}, told
            elif value == "FORMAT":
                assert offer == {"ipynb", "md", "html"}, told
            elif value == "POLICY|FILE":
                assert {"allow", "ask", "deny", "some.json", "directory"} <= offer, told
            else:
                assert not offer, told


def test_arguments(ask):
    beginning, file, after, cell = ask(
        "ipybox apig", "ipybox run ", "ipybox run --seed 1 --appr", "ipybox run --seed=1 ce"
    )
    assert beginning == {"apigen"}
    assert {"cell.py", "notebook.ipynb", "directory"} <= file
    assert after == {"--approve", "--approval-timeout"}
    assert cell == {"cell.py"}


def test_command_in_a_sandbox(ask):
    befores = ("", "-- ", "-s some.json ", "-s some.json -- ", "--workspace=. -d -- ")
    offers = ask(*[f"ipybox sandbox {before}tru" for before in befores])
    assert all("true" in offer and "--help" not in offer for offer in offers), offers
    assert ask(*[f"ipybox sandbox {before}cat ce" for before in befores]) == [{"cell.py"}] * len(
        befores
    )


def test_registered_servers(ask, run_ipybox):
    for name in ("first", "second"):
        assert run_ipybox("servers", "add", name, '{"command": "cat"}').returncode == 0
    remove, generate, begun, imported = ask(
        "ipybox servers remove ",
        "ipybox apigen --server-name ",
        "ipybox apigen --server-name=sec",
        "ipybox servers import ",
    )
    assert remove == generate == {"first", "second"}
    assert begun == {"second"}
    assert {"some.json", "directory"} <= imported
