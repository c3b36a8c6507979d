# SPDX-License-Identifier: Apache-2.0
"""What the generated packages offer, in few words: `mcptools.search()`, `mcptools.describe()`, and
a short `help()`.

Each package has a catalog, the file `.tools.jsonl`, which the core wrote: a line of JSON for each
tool. The core reads it in the same way for the MCP tool `describe_tools`.
"""

from __future__ import annotations

import difflib
import json
import os
import re
from collections.abc import Iterable, Iterator
from typing import Any

FILE = ".tools.jsonl"
MAX_CATALOG = 4 << 20  # bytes
MAX_FOUND = 20  # tools that search() shows by default
MAX_WORDS = 32
NAME_WEIGHT = 4
DETAILS = {"signatures": "signature", "stubs": "stub", "full": "full"}


class Text(str):
    """A text that a cell shows as it is, if it is the cell's value."""

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        printer.text(str(self))


def read(directory: str) -> list[dict[str, Any]]:
    """The tools in the catalog of a package. FileNotFoundError: it has none."""
    with open(os.path.join(directory, FILE), "rb") as file:
        data = file.read(MAX_CATALOG)
    server = os.path.basename(directory)
    tools = [json.loads(line) for line in data.splitlines()]
    return [{**tool, "server": server, "name": f"{server}.{tool['module']}"} for tool in tools]


def packages(paths: Iterable[str]) -> Iterator[str]:
    """The directories that have a catalog; of packages with one name, the one that is imported."""
    seen = set()
    for path in paths:
        try:
            names = sorted(os.listdir(path))
        except OSError:
            continue
        for name in names:
            directory = os.path.join(path, name)
            if name not in seen and os.path.isfile(os.path.join(directory, FILE)):
                seen.add(name)
                yield directory


def all_tools(paths: Iterable[str]) -> list[dict[str, Any]]:
    return [tool for directory in packages(paths) for tool in read(directory)]


def text_of(tool: dict[str, Any], detail: str) -> str:
    for part in (DETAILS[detail], "stub", "signature"):
        if part in tool:
            return str(tool[part]).rstrip("\n")
    raise KeyError(detail)


def find(tools: list[dict[str, Any]], name: str) -> list[dict[str, Any]]:
    """The tools with this name: "server.tool", "tool" or "server"."""
    server, _, rest = name.partition(".")
    return [
        tool
        for tool in tools
        if name in (tool["server"], tool["module"], tool.get("tool"))
        or (tool["server"] == server and rest in (tool["module"], tool.get("tool")))
    ]


def rate(tool: dict[str, Any], words: list[str]) -> int:
    text = text_of(tool, "full").lower()
    return sum(NAME_WEIGHT if word in tool["name"] else word in text for word in words)


def search(paths: Iterable[str], words: str, limit: int) -> Text:
    tools = all_tools(paths)
    wanted = re.findall(r"[^\W_]+", words.lower())[:MAX_WORDS]
    rated = [(rate(tool, wanted) if wanted else 1, tool) for tool in tools]
    # sorted() keeps the order of equal ones.
    found = [tool for score, tool in sorted(rated, key=lambda pair: -pair[0]) if score > 0]
    if not found:
        return Text(f"No tool was found among {len(tools)}.")
    lines = [text_of(tool, "signatures") for tool in found[:limit]]
    if len(found) > limit:
        lines.append(f"[{limit} of {len(found)} tools are shown: use more words, or limit=…]")
    return Text("\n".join(lines))


def describe(paths: Iterable[str], name: str, detail: str) -> Text:
    if detail not in DETAILS:
        raise ValueError(f"detail must be one of {', '.join(DETAILS)}")
    tools = all_tools(paths)
    found = find(tools, name)
    if found:
        return Text("\n\n".join(text_of(tool, detail) for tool in found))
    known = [name for tool in tools for name in (tool["name"], tool["module"])]
    close = difflib.get_close_matches(name, known, 3)
    hint = f"; did you mean {' or '.join(close)}?" if close else ": mcptools.search() lists tools"
    raise LookupError(f"no tool has the name {name!r}{hint}")


def add_functions(package: Any) -> None:
    """Gives the package `mcptools` its functions, unless a server has the name of one."""

    def search_tools(words: str = "", limit: int = MAX_FOUND) -> Text:
        """The signatures of the tools that have one of the words, the best matches first."""
        return search(package.__path__, words, limit)

    def describe_tool(name: str, detail: str = "full") -> Text:
        """Describes a tool, "server.tool", or all tools of a server.

        detail: "full" documentation, "stubs" or "signatures".
        """
        return describe(package.__path__, name, detail)

    package.__doc__ = (
        "The tools of MCP servers, a package for each server.\n\n"
        'search("words") finds tools, describe("server.tool") describes one.'
    )
    for name, function in (("search", search_tools), ("describe", describe_tool)):
        if any(os.path.isdir(os.path.join(path, name)) for path in package.__path__):
            continue
        function.__name__ = function.__qualname__ = name
        function.__module__ = package.__name__
        setattr(package, name, function)


def help_text(thing: Any) -> str | None:
    """A short help for `mcptools`, a generated package or a generated module; else None."""
    name = getattr(thing, "__name__", None)
    if not isinstance(name, str) or name.split(".")[0] != "mcptools":
        return None
    import sys

    root = sys.modules.get("mcptools")
    if root is None or sys.modules.get(name) is not thing:
        return None
    if thing is root:
        names = [os.path.basename(directory) for directory in packages(root.__path__)]
        return f"{root.__doc__}\n\nPackages: {', '.join(names) or 'none'}"
    parts = name.split(".")
    directories = [each for each in packages(root.__path__) if os.path.basename(each) == parts[1]]
    if not directories or len(parts) > 3:
        return None
    tools = read(directories[0])
    if len(parts) == 2:
        return "\n".join(text_of(tool, "signatures") for tool in tools)
    texts = [text_of(tool, "full") for tool in tools if tool["module"] == parts[2]]
    return texts[0] if texts else None
