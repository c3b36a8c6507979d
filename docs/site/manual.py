# SPDX-License-Identifier: Apache-2.0
"""Manual pages as Markdown: from the language of scdoc(5), of which docs/man uses a part."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

FIRST_LINE = re.compile(r"([\w-]+)\((\d)\) ")
HEADING = re.compile(r"(#+) (.*)")
# What scdoc formats within a line: \x, *bold*, _underlined_, with a section number after it.
INLINE = re.compile(
    r"\\(?P<escaped>.)"
    r"|\*(?P<bold>(?:\\.|[^*\\])+)\*(?:\((?P<section>\d)\))?"
    r"|(?<!\w)_(?P<underlined>(?:\\.|[^\\])+?)_(?!\w)"
    r"|(?P<other>.)",
    re.DOTALL,
)
ROW = re.compile(r"([|:])[\[\]<>-]? ?(.*)")
SECTIONS = {1: "Commands", 3: "Library", 5: "File formats"}


class BadManual(Exception):
    """A manual page that uses what this file does not know."""


def name_of(path: Path) -> tuple[str, int]:
    """ipybox-run.1.scd: ("ipybox-run", 1)."""
    name, section, _ = path.name.rsplit(".", 2)
    return name, int(section)


def summary(source: str) -> str:
    """What the page's section NAME says after the dash."""
    found = re.search(r"^# NAME\n\n[\w-]+ - (.*?)\n\n", source, re.DOTALL | re.MULTILINE)
    if not found:
        raise BadManual("the page has no NAME")
    return found[1].replace("\n", " ")


def markdown_escaped(text: str) -> str:
    return re.sub(r"([\\`*_\[\]<>|#])", r"\\\1", text)


def as_code(text: str) -> str:
    text = re.sub(r"\\(.)", r"\1", re.sub(r"\s+", " ", text))
    return f"`` {text} ``" if "`" in text else f"`{text}`"


class Manual:
    """Translates pages. It knows which pages there are, for the links between them."""

    def __init__(self, pages: set[tuple[str, int]]):
        self.pages = pages

    def inline(self, text: str) -> str:
        return "".join(self.pieces(text))

    def pieces(self, text: str) -> Iterator[str]:
        for match in INLINE.finditer(text):
            if match["bold"] is not None:
                yield self.bold(match["bold"], match["section"])
            elif (underlined := match["underlined"]) is not None:
                plain = re.sub(r"\\(.)", r"\1", underlined)
                # A name in capitals is to be replaced; all else is typed as it is.
                yield (
                    f"*{plain}*" if re.fullmatch(r"[A-Z][A-Z0-9]*", plain) else as_code(underlined)
                )
            else:
                yield markdown_escaped(match["escaped"] or match["other"])

    def bold(self, text: str, section: str | None) -> str:
        plain = re.sub(r"\\(.)", r"\1", text)
        if section is None:
            return as_code(text)
        if (plain, int(section)) in self.pages:
            return f"[{plain}({section})]({plain}.{section}.md)"
        return f"`{plain}`({section})"

    def page(self, source: str, *, title: str | None = None) -> str:
        """The Markdown of a page in scdoc."""
        first, _, body = source.partition("\n")
        named = FIRST_LINE.match(first)
        if not named:
            raise BadManual("the first line names no page")
        heading = title or f"{named[1]}({named[2]})"
        # The reader meets the summary first. NAME and its heading would say it twice.
        text = re.sub(r"^# NAME\n\n.*?\n\n", "", body, flags=re.DOTALL | re.MULTILINE)
        sentence = summary(source)
        sentence = sentence[0].upper() + sentence[1:]
        blocks = "\n\n".join(self.blocks(text.splitlines()))
        return f"# {heading}\n\n{self.inline(sentence)}.\n\n{blocks}\n"

    def blocks(self, lines: list[str]) -> Iterator[str]:
        """The blocks of a page, or of what is indented below a term."""
        position = 0
        while position < len(lines):
            line = lines[position]
            if not line.strip() or line.startswith("; "):
                position += 1
            elif heading := HEADING.match(line):
                text = heading[2]
                yield f"#{heading[1]} {self.inline(text.capitalize() if text.isupper() else text)}"
                position += 1
            elif line.startswith("```"):
                end = lines.index("```", position + 1)
                yield self.literal(lines[position + 1 : end])
                position = end + 1
            else:
                end = position
                while end < len(lines) and lines[end].strip():
                    end += 1
                if line[0] == "|":
                    yield self.table(lines[position:end])
                elif re.match(r"- |\. ", line):
                    yield self.list(lines[position:end])
                elif end > position + 1 and lines[position + 1].startswith("\t"):
                    end = position + 1
                    while end < len(lines) and (lines[end].startswith("\t") or not lines[end]):
                        end += 1
                    yield self.term(line, lines[position + 1 : end])
                else:
                    yield self.paragraph(lines[position:end])
                position = end

    def literal(self, lines: list[str]) -> str:
        text = re.sub(r"\\(.)", r"\1", "\n".join(lines))
        starts = {"$ ": "console", "#include": "c", "{": "json", "[": "json", "from ": "python"}
        starts["import "] = "python"
        kind = next((kind for start, kind in starts.items() if text.startswith(start)), "text")
        return f"```{kind}\n{text}\n```"

    def paragraph(self, lines: list[str]) -> str:
        return "  \n".join(
            self.inline(part.strip().replace("\n", " ")) for part in "\n".join(lines).split("++\n")
        )

    def list(self, lines: list[str]) -> str:
        items: list[str] = []
        for line in lines:
            if marker := re.match(r"(- |\. )(.*)", line):
                items.append(("- " if marker[1] == "- " else "1. ") + marker[2])
            else:
                items[-1] += " " + line.strip()
        return "\n".join(item[: item.index(" ") + 1] + self.inline(item[item.index(" ") + 1 :])
                         for item in items)  # fmt: skip

    def term(self, term: str, lines: list[str]) -> str:
        content = "\n\n".join(self.blocks([line.removeprefix("\t") for line in lines]))
        indented = "\n".join(f"  {line}" if line else "" for line in content.splitlines())
        return f"{self.inline(term)}\n: {indented.strip()}"

    def table(self, lines: list[str]) -> str:
        rows: list[list[str]] = []
        for line in lines:
            row = ROW.match(line)
            if row and not line.startswith("  "):
                if row[1] == "|":
                    rows.append([])
                rows[-1].append(row[2].strip())
            else:
                rows[-1][-1] += " " + line.strip()
        cells = [[self.inline(cell) for cell in row] for row in rows]
        width = max(map(len, cells))
        head = "| " + " | ".join(TABLE_HEAD[:width]) + " |\n" + "|---" * width + "|\n"
        return head + "\n".join("| " + " | ".join(row) + " |" for row in cells)


# The tables of the manual have no header. In HTML one is needed for readers that cannot see it.
TABLE_HEAD = ("Value", "Meaning", "More")


def index(pages: dict[tuple[str, int], str]) -> str:
    """A page that leads to all pages of the manual, by their summaries."""
    lines = [
        "# Commands and file formats",
        "",
        "This page leads to the manual of each command, file format and library. The same pages are"
        " installed for `man`, for example `man ipybox-run`.",
    ]
    for section, title in SECTIONS.items():
        lines += ["", f"## {title}", ""]
        for (name, number), source in sorted(pages.items()):
            if number == section:
                text = Manual(set()).inline(summary(source))
                lines.append(f"- [{name}({number})]({name}.{number}.md): {text}")
    return "\n".join([*lines, ""])
