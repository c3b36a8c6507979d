# SPDX-License-Identifier: Apache-2.0
"""The code blocks of the documents: where they are, their kinds, and their marks for the tests.

In Markdown a block is fenced. Its first word names its kind, and HTML comments right before it are
its marks, such as `<!-- not run: needs a token of GitHub -->`.

An image with the mark `<!-- picture: PATTERN -->` is a block of the kind `picture`, too.

In a manual page the marks are comments of scdoc (`; not run: …`), and the text shows the kind. In a
header, blocks are between @code{.c} and @endcode. CONTRIBUTING.md says what the kinds and marks
mean.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path

KINDS = {"console", "sh", "json", "toml", "python", "c", "text", "picture"}
MARKS = {"not run", "file", "excerpt of", "before", "output", "status", "kind", "picture"}

MARK_MARKDOWN = re.compile(r"\s*<!--\s*([a-z ]+?)\s*(?::\s*(.*?))?\s*-->\s*$")
MARK_MANUAL = re.compile(r"; ([a-z ]+?)(?:: (.*))?$")
# The alternative text may have several lines.
IMAGE = re.compile(r"!\[[^]]*\]\(([^)\s]+)\)")
FENCE = re.compile(r"(\s*)```(.*)$")
CODE = re.compile(r"@code\{\.(\w+)\}\n(.*?)@endcode", re.DOTALL)


class BadBlock(Exception):
    pass


@dataclass
class Block:
    document: str
    line: int
    kind: str
    text: str
    marks: dict[str, str] = field(default_factory=dict)
    before: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        return f"{self.document}:{self.line}"


def make_block(
    document: str, line: int, kind: str, text: str, marks: list[tuple[str, str]]
) -> Block:
    block = Block(
        document, line, kind, text, before=[value for name, value in marks if name == "before"]
    )
    block.marks = {name: value for name, value in marks if name != "before"}
    block.kind = block.marks.pop("kind", kind)
    for name in block.marks:
        if name not in MARKS:
            raise BadBlock(f"{block}: there is no mark {name!r}")
    if "not run" in block.marks:
        if len(block.marks["not run"].split()) < 3:
            raise BadBlock(f"{block}: say why it is not run")
    elif block.kind not in KINDS:
        raise BadBlock(
            f"{block}: its kind is {block.kind!r}, not one of {', '.join(sorted(KINDS))}"
        )
    if block.kind == "text" and text.startswith("$ "):
        raise BadBlock(f"{block}: commands are of the kind console")
    return block


def kind_in_manual(text: str) -> str:
    for start, kind in (("$ ", "console"), ("#include", "c"), ("{", "json"), ("[", "json")):
        if text.startswith(start):
            return kind
    return "python" if re.match(r"(from|import) ", text) else ""


def fenced(document: str, source: str, *, manual: bool = False) -> list[Block]:
    blocks: list[Block] = []
    marks: list[tuple[str, str]] = []
    lines: list[str] | None = None
    start, indent, kind = 0, "", ""
    all_lines = source.splitlines()
    for number, line in enumerate(all_lines, start=1):
        fence = FENCE.match(line)
        if lines is not None:
            if not fence:
                lines.append(line.removeprefix(indent))
                continue
            text = "\n".join([*lines, ""])
            if manual:
                text = re.sub(r"\\(.)", r"\1", text)
                kind = kind_in_manual(text)
            blocks.append(make_block(document, start, kind, text, marks))
            lines, marks = None, []
        elif fence:
            lines, start, indent, kind = [], number, fence[1], (fence[2].split() or [""])[0]
        elif mark := (MARK_MANUAL if manual else MARK_MARKDOWN).match(line):
            marks.append((mark[1], mark[2] or ""))
        elif line.strip():
            if any(name == "picture" for name, _ in marks):
                image = IMAGE.match("\n".join(all_lines[number - 1 :]))
                if not image:
                    raise BadBlock(f"{document}:{number}: this is not an image")
                blocks.append(make_block(document, number, "picture", image[1], marks))
            marks = []
    if lines is not None:
        raise BadBlock(f"{document}:{start}: the block has no end")
    return blocks


def in_header(document: str, source: str) -> list[Block]:
    blocks = []
    for found in CODE.finditer(source):
        text = re.sub(r"^ \* ?", "", found[2], flags=re.MULTILINE).rstrip(" *")
        blocks.append(
            make_block(document, source[: found.start()].count("\n") + 1, found[1], text, [])
        )
    return blocks


def documents(root: Path) -> list[Path]:
    patterns = ["*.md", "docs/**/*.md", "benchmarks/*.md", "examples/*.md", "docs/man/*.scd"]
    patterns.append("include/ipybox/*.h")
    return sorted(path for pattern in patterns for path in root.glob(pattern))


def blocks_of(path: Path, root: Path) -> list[Block]:
    document, source = str(path.relative_to(root)), path.read_text()
    if path.suffix == ".h":
        return in_header(document, source)
    return fenced(document, source, manual=path.suffix == ".scd")
