# SPDX-License-Identifier: Apache-2.0
"""Where the files of the repository are on the site, and links between its pages.

The documents link to each other and to other files by relative paths, as they must in a clone. On
the site, each link leads to a page:

- a document of docs/ is where it is in docs/, and a document beside README.md has a page, too,
- a manual page, the Python package and the tools of the MCP server have generated pages,
- every other file is a page below source/ with its text.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable
from pathlib import Path, PurePosixPath

ROOT = Path(__file__).resolve().parents[2]

# Documents outside of docs/.
DOCUMENTS = {
    "CONTRIBUTING.md": "contributing.md",
    "NEWS.md": "news.md",
    "SECURITY.md": "security.md",
}
# Files and folders whose content another page has.
OTHERS = {
    "README.md": "index.md",
    "docs/README.md": "index.md",
    "docs/internals": "architecture.md",
    "docs/man": "reference/cli/index.md",
    "python/ipybox/__init__.py": "reference/python/index.md",
    "src/serve/mcp/tools.json": "reference/mcp-tools.md",
}
MANUAL = re.compile(r"docs/man/([\w-]+)\.(\d)\.scd")
LANGUAGES = {
    ".c": "c",
    ".h": "c",
    ".json": "json",
    ".py": "python",
    ".sh": "sh",
    ".toml": "toml",
    ".yml": "yaml",
}

FENCE = re.compile(r"^( *)(```+)[^`\n]*\n.*?^\1\2[ ]*$", re.DOTALL | re.MULTILINE)
# The end of a link or an image: its text may contain anything.
LINK = re.compile(r"(?<=\]\()([^)\s]+)(?=\))")
# A manual page that a document names.
NAMED_MANUAL = re.compile(r"`((?:lib)?ipybox[\w-]*)`\((\d)\)")
COMMENT = re.compile(r"^ *<!--.*?-->\n?", re.DOTALL | re.MULTILINE)


class BadLink(Exception):
    """A link that leads nowhere."""


def page_of(path: str) -> str:
    """The page of the site for a file or folder of the repository."""
    if path in DOCUMENTS:
        return DOCUMENTS[path]
    if path in OTHERS:
        return OTHERS[path]
    if manual := MANUAL.fullmatch(path):
        return f"reference/cli/{manual[1]}.{manual[2]}.md"
    if path.startswith("docs/"):
        return path.removeprefix("docs/")
    return f"source/{path.removesuffix('.md')}.md"


def is_relative(target: str) -> bool:
    return not re.match(r"[a-z]+:|#|/", target)


def resolve(target: str, origin: str) -> str:
    """The path in the repository to which a relative link of the file `origin` leads."""
    path = posixpath.normpath(posixpath.join(posixpath.dirname(origin), target))
    if path.startswith("..") or not (ROOT / path).exists():
        raise BadLink(f"{origin}: the link {target} leads to no file of the repository")
    if (ROOT / path).is_dir() and path not in OTHERS:
        raise BadLink(f"{origin}: the link {target} leads to a folder; link to a file in it")
    return path


def outside_of_code(markdown: str, change: Callable[[str], str]) -> str:
    """The text with the parts outside of fenced code changed."""
    parts, end = [], 0
    for fence in FENCE.finditer(markdown):
        parts += [change(markdown[end : fence.start()]), fence[0]]
        end = fence.end()
    return "".join([*parts, change(markdown[end:])])


def links_of(markdown: str, origin: str) -> list[str]:
    """The paths in the repository to which a document links."""
    found: list[str] = []

    def collect(text: str) -> str:
        found.extend(
            resolve(target.partition("#")[0], origin)
            for target in LINK.findall(text)
            if is_relative(target)
        )
        return text

    outside_of_code(markdown, collect)
    return found


def rewrite(markdown: str, origin: str, page: str) -> str:
    """A document of the repository as the site has it on `page`: links lead to pages.

    Names of manual pages become links. Comments are left out. They are for tests.
    """

    def relative(there: str) -> str:
        return posixpath.relpath(there, posixpath.dirname(page) or ".")

    def manual_link(match: re.Match[str]) -> str:
        path = f"docs/man/{match[1]}.{match[2]}.scd"
        if not (ROOT / path).exists():
            return match[0]
        return f"[{match[1]}({match[2]})]({relative(page_of(path))})"

    def new_target(match: re.Match[str]) -> str:
        target, hash_sign, anchor = match[1].partition("#")
        if not is_relative(match[1]):
            return match[1]
        return relative(page_of(resolve(target, origin))) + hash_sign + anchor

    def change(text: str) -> str:
        return NAMED_MANUAL.sub(manual_link, LINK.sub(new_target, COMMENT.sub("", text)))

    return outside_of_code(markdown, change)


def source_page(path: str) -> str:
    """The text of a page below source/ for a file that is no document."""
    text = (ROOT / path).read_text()
    longest = max(map(len, re.findall("`+", text)), default=2)
    fence = "`" * max(3, longest + 1)
    language = LANGUAGES.get(PurePosixPath(path).suffix, "text")
    if text.startswith("#!") and "python" in text.partition("\n")[0]:
        language = "python"
    return (
        "---\nsearch:\n  exclude: true\n---\n"
        f"# {PurePosixPath(path).name}\n\nThis is the file `{path}` of the repository.\n\n"
        f"{fence}{language}\n{text.rstrip()}\n{fence}\n"
    )
