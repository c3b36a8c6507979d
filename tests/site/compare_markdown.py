# SPDX-License-Identifier: Apache-2.0
"""Prints the documents that the site's Markdown reads in another way than CommonMark does.

It runs in the environment of the site, which has both readers.
"""

from __future__ import annotations

import re
import sys
from collections import Counter
from pathlib import Path

import yaml
from markdown import Markdown
from markdown_it import MarkdownIt

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "docs/site"))

# What a reader sees as a block. Paragraphs are left out, since programs disagree on those in lists.
BLOCKS = ("h1", "h2", "h3", "h4", "ul", "ol", "li", "pre", "table", "tr", "td", "th", "blockquote")
COMMENT = re.compile(r"^ *<!--.*?-->\n?", re.DOTALL | re.MULTILINE)


class Loader(yaml.SafeLoader):
    """Reads mkdocs.yml, which names a Python function."""


def apply(loader: Loader, suffix: str, node: yaml.Node) -> object:
    from pymdownx.slugs import slugify

    assert suffix == "pymdownx.slugs.slugify"
    return slugify(case="lower")


Loader.add_multi_constructor("tag:yaml.org,2002:python/object/apply:", apply)


def site_reader() -> Markdown:
    config = yaml.load((ROOT / "mkdocs.yml").read_text(), Loader)
    names, options = [], {}
    for extension in config["markdown_extensions"]:
        if isinstance(extension, dict):
            ((name, values),) = extension.items()
            options[name] = values
            extension = name
        names.append(extension)
    options["toc"]["permalink"] = False
    return Markdown(extensions=["fenced_code", *names], extension_configs=options)


def blocks_of(html: str) -> Counter[str]:
    return Counter(tag for tag in re.findall(r"<(\w+)[ >]", html) if tag in BLOCKS)


def main() -> int:
    reader = site_reader()
    other = MarkdownIt("commonmark").enable("table")
    differs = False
    for path in sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]):
        text = COMMENT.sub("", path.read_text())
        here, there = blocks_of(reader.reset().convert(text)), blocks_of(other.render(text))
        if here != there:
            differs = True
            print(f"{path.relative_to(ROOT)}: {dict(here - there)} more, {dict(there - here)} less")
    return 1 if differs else 0


if __name__ == "__main__":
    sys.exit(main())
