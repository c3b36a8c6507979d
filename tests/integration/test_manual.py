# SPDX-License-Identifier: Apache-2.0
"""The manual agrees with --help: every verb has a page, with exactly the verb's options."""

from __future__ import annotations

import re

import cli_help
import harness

MANUAL = harness.ROOT / "docs/man"
# An item: *-c*, *--code*=_CODE_
ITEM = re.compile(r"^\*(-[\w-]+)\*(?:, \*(--[\w-]+)\*)?(?:=_([^_]+)_)?$")


def options_of(page: str) -> dict[str, tuple[str | None, str | None]]:
    """The options of the page's section OPTIONS: long name → short name and argument."""
    text = (MANUAL / page).read_text()
    section = text.partition("\n# OPTIONS\n")[2].partition("\n# ")[0]
    found = [ITEM.match(line) for line in section.splitlines()]
    items = [item.groups() for item in found if item]
    return {second or first: (first if second else None, value) for first, second, value in items}


def test_each_verb_has_a_page_with_its_options(run_ipybox):
    for verb, help in cli_help.read(run_ipybox).items():
        page = f"ipybox-{verb}.1.scd" if verb else "ipybox.1.scd"
        assert (MANUAL / page).exists(), f"docs/man/{page} is missing"
        short = {long: name for name, long in help.short.items()}
        said = {long: (short.get(long), value) for long, value in help.options.items()}
        assert options_of(page) == said, page


def test_each_verb_and_command_is_an_item(run_ipybox):
    for verb, help in cli_help.read(run_ipybox).items():
        text = (MANUAL / (f"ipybox-{verb}.1.scd" if verb else "ipybox.1.scd")).read_text()
        for command in help.commands:
            assert re.search(rf"^\*{command}\*", text, re.MULTILINE), f"{verb} {command}"


def test_pages_of_verbs_that_are_not_there(run_ipybox):
    verbs = cli_help.read(run_ipybox)
    pages = [
        path.name.removeprefix("ipybox-").removesuffix(".1.scd")
        for path in MANUAL.glob("ipybox-*.1.scd")
    ]
    assert set(pages) == set(verbs) - {""}
