# SPDX-License-Identifier: Apache-2.0
"""What documents say about themselves and about the program."""

from __future__ import annotations

import re
from pathlib import Path

import harness
import pytest

DOCS = harness.ROOT / "docs"
# A message of this many characters could be found by chance.
LEAST_CHARACTERS = 12
# What a page says at its top about its end.
PROMISE = re.compile(
    r"[Aa]t the end of this page|"
    r"[Tt]his page (has|says|lists|shows|describes|explains|compares|leads|is)\b"
)
PAGES = sorted([*DOCS.glob("*.md"), *(DOCS / "how-to").glob("*.md"), *DOCS.glob("internals/*.md")])
# An index, and the first page of the site, which says what ipybox is.
WITHOUT_PROMISE = {"README.md", "index.md"}


def messages(text: str) -> list[str]:
    return re.findall(r"^### `(.*)`$", text, re.MULTILINE)


@pytest.fixture(scope="module")
def source() -> str:
    """The strings of all sources. Adjacent literals are joined, as compilers do."""
    files: list[Path] = []
    for folder, pattern in (("src", "*.c"), ("src", "*.h"), ("python", "*.py")):
        files += sorted((harness.ROOT / folder).rglob(pattern))
    text = "".join(path.read_text() for path in files)
    return re.sub(r'"\s*\n?\s*(PRIu64|PRId64)?\s*f?"', "", text).replace('\\"', '"')


def is_printed(message: str, source: str) -> bool:
    """Whether the source has all parts of a message, whose variable parts are `…`."""
    parts = [part.strip() for part in message.split("…") if len(part.strip()) >= LEAST_CHARACTERS]
    return bool(parts) and all(part in source for part in parts)


def test_troubleshooting_quotes_what_is_printed(source):
    quoted = messages((DOCS / "troubleshooting.md").read_text())
    assert len(quoted) >= 20
    assert [message for message in quoted if not is_printed(message, source)] == []


@pytest.mark.parametrize("message", ["no such message is printed here: …", "…", "short …"])
def test_other_messages_are_found_out(message, source):
    assert not is_printed(message, source)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(DOCS)))
def test_pages_say_what_the_reader_will_have(page):
    """Before the first heading below the title."""
    if page.parent == DOCS and page.name in WITHOUT_PROMISE:
        return
    top = page.read_text().partition("\n## ")[0]
    assert PROMISE.search(" ".join(top.split())), top[:300]
