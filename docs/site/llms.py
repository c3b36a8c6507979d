# SPDX-License-Identifier: Apache-2.0
"""llms.txt and llms-full.txt: the site for language models (https://llmstxt.org).

Beside each page PAGE.html is its Markdown, PAGE.md. llms.txt lists these, and llms-full.txt has
the text of all of them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass


@dataclass
class Text:
    """A page as Markdown.

    Attributes:
        section: The entry of the navigation to which it belongs.
        path: Where its Markdown is, relative to the site.
    """

    section: str
    path: str
    title: str
    markdown: str


def first_paragraph(markdown: str) -> str:
    """What a page says at its top, as one line without links."""
    for block in re.split(r"\n\s*\n", markdown):
        text = block.strip()
        if text and not re.match(r"#|---|```|\||<|!\[|- |: ", text):
            text = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", text)
            return re.sub(r"\s+", " ", text)
    return ""


def first_sentence(text: str) -> str:
    found = re.match(r".*?[.!?](?= [A-Z`*]|$)", text)
    return found[0] if found else text


def short_list(name: str, description: str, texts: list[Text]) -> str:
    """llms.txt."""
    return "\n".join([f"# {name}", "", f"> {description}", *entries(texts), ""])


def entries(texts: list[Text]) -> Iterator[str]:
    section = None
    for text in texts:
        if text.section != section:
            section = text.section
            yield from ("", f"## {section}", "")
        about = first_sentence(first_paragraph(text.markdown))
        yield f"- [{text.title}]({text.path})" + (f": {about}" if about else "")


def full_text(name: str, description: str, texts: list[Text]) -> str:
    """llms-full.txt."""
    begin = f"# {name}\n\n> {description}\n"
    return begin + "".join(
        f"\n---\n\nPage: {text.path}\n\n{text.markdown.strip()}\n" for text in texts
    )
