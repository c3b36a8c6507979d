# SPDX-License-Identifier: Apache-2.0
"""What the generated packages offer, in few words: `mcptools.search()`, `mcptools.describe()`, and
a short `help()`.

Each package has a catalog, the file `.tools.jsonl`, which the core wrote: a line of JSON for each
tool. The core reads it in the same way for the MCP tool `describe_tools`.

Both also offer what agents have saved beside the packages: code actions
(`gentools/CATEGORY/NAME/api.py`) and output parsers (`run_parsed` in a tool's module or in
`mcpparse`). See `src/apigen/saved-code.h`.
"""

from __future__ import annotations

import difflib
import hashlib
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
ACTIONS = "gentools"
MAX_SOURCE = 256 << 10  # bytes
MAX_ENTRIES = 1000
MAX_SIGNATURE = 2000
MAX_SUMMARY = 200
# Catalogs of packages that have no directory, because the application offers their tools.
OFFERED: dict[str, bytes] = {}
DETAILS = {"signatures": "signature", "stubs": "stub", "full": "full"}


class Text(str):
    """A text that a cell shows as it is, if it is the cell's value."""

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        printer.text(str(self))


def read(directory: str) -> list[dict[str, Any]]:
    """The tools in the catalog of a package. FileNotFoundError: it has none."""
    with open(os.path.join(directory, FILE), "rb") as file:
        data = file.read(MAX_CATALOG)
    return parse(os.path.basename(directory), data)


def parse(server: str, catalog: bytes) -> list[dict[str, Any]]:
    tools = [json.loads(line) for line in catalog.splitlines()]
    return [{**tool, "server": server, "name": f"{server}.{tool['module']}"} for tool in tools]


def read_all(paths: Iterable[str]) -> dict[str, list[dict[str, Any]]]:
    """The tools of each package; of packages with one name, the one that is imported."""
    known = {name: parse(name, catalog) for name, catalog in OFFERED.items()}
    for directory in packages(paths):
        name = os.path.basename(directory)
        if name not in known:
            known[name] = read(directory)
    return known


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
    """The saved actions, then the tools of the packages."""
    paths = list(paths)
    roots = [os.path.join(os.path.dirname(path), ACTIONS) for path in paths]
    tools = [tool for package in read_all(paths).values() for tool in package]
    return [*(action for root in roots for action in actions(root)), *tools]


def names_in(directory: str) -> list[str]:
    try:
        names = sorted(os.listdir(directory))[:MAX_ENTRIES]
    except OSError:
        return []
    return [name for name in names if re.fullmatch("[a-zA-Z][a-zA-Z0-9_]{,99}", name)]


def read_source(path: str) -> str:
    try:
        with open(path, encoding="utf-8", newline="") as file:
            return file.read(MAX_SOURCE)
    except (OSError, UnicodeDecodeError):
        return ""


def actions(root: str) -> Iterator[dict[str, Any]]:
    """The code actions that were saved. Those without a function `run` are left out."""
    for category in names_in(root):
        for name in names_in(os.path.join(root, category)):
            source = read_source(os.path.join(root, category, name, "api.py"))
            module = f"{ACTIONS}.{category}.{name}"
            signature = signature_of(source, "run", module)
            if signature is None:
                continue
            yield {
                "server": f"{ACTIONS}.{category}",
                "module": name,
                "name": module,
                "signature": signature,
                "stub": f"# {module}\n{source}",
            }


# Strings, comments, and what continues a line. A short string ends with its line.
_TOKEN = re.compile(
    r""""{3}(?:\\.|[^\\])*?(?:"{3}|\Z)|'{3}(?:\\.|[^\\])*?(?:'{3}|\Z)"""
    r"""|"(?:\\.|[^\\"\n])*"?|'(?:\\.|[^\\'\n])*'?"""
    r"""|\#[^\n]*|\\.|.""",
    re.DOTALL,
)
_DEFINITION = r"(?:async[ \t]+)?def[ \t]+{}[ \t]*\("


def find_function(source: str, name: str) -> int | None:
    """Where the last function with this name begins at the top level."""
    definition = re.compile(_DEFINITION.format(name))
    found, depth, at, is_start = None, 0, 0, True
    while at < len(source):
        if is_start and definition.match(source, at):
            found = at
        match = _TOKEN.match(source, at)
        assert match is not None
        token = match[0]
        is_start = token == "\n" and depth == 0
        depth = max(0, depth + (token in "([{") - (token in ")]}"))
        at = match.end()
    return found


def signature_of(source: str, name: str, module: str) -> str | None:
    """The function and the first line of its docstring, on one line; as the core shows it."""
    start = find_function(source, name)
    if start is None:
        return None
    out, depth, gap, at = "", 0, False, start
    while match := _TOKEN.match(source, at):
        token, at = match[0], match.end()
        if token[0] in " \t\r\n\f#" or token == "\\\n":
            gap = True
            continue
        if token == ":" and depth == 0:
            break
        if gap and token in ")]}":
            out = out.removesuffix(",")
        elif gap and out and out[-1] not in "([{":
            out += " "
        depth += (token in "([{") - (token in ")]}")
        if depth < 0:
            return None
        out, gap = out + token, False
    else:
        return None
    if len(out.encode()) > MAX_SIGNATURE:
        out = out.partition("(")[0] + "(…)"
    out = out.replace("\r", " ").replace("\n", " ")
    summary = summary_of(source[at:])
    return f"{out}: ...  # {module}" + (f": {summary}" if summary else "")


def summary_of(body: str) -> str:
    """The first line with text of the docstring with which a function's body begins."""
    match = re.match(r"(?:[ \t\r\n\f]|#[^\n]*|\\\n)*[rRuU]?", body)
    token = _TOKEN.match(body, match.end() if match else 0)
    text = token[0] if token else ""
    if text[:1] not in ("'", '"'):
        return ""
    quotes = text[:3] if text[:3] in ("'" * 3, '"' * 3) else text[0]
    if len(text) < 2 * len(quotes) or not text.endswith(quotes):
        return ""
    lines = re.split("[\r\n]", text[len(quotes) : -len(quotes)].lstrip(" \t\r\n\f"))
    line = lines[0].rstrip(" \t\f")
    return line if len(line) <= MAX_SUMMARY else line[:MAX_SUMMARY] + "…"


def add_parser(paths: Iterable[str], tool: dict[str, Any]) -> dict[str, Any]:
    """The tool with its output parser, if it has one."""
    server, name = tool["server"], tool["module"]
    for path in paths:
        package = os.path.join(path, server)
        parsers = os.path.join(os.path.dirname(path), "mcpparse", server)
        for directory, module in ((package, ""), (parsers, "mcpparse.")):
            source = read_source(os.path.join(directory, f"{name}.py"))
            module += f"{server}.{name}"
            line = signature_of(source, "run_parsed", module)
            if line is None:
                continue
            if directory == package:
                source = added_to(package, f"{name}.py", source) or line.partition("  # ")[0]
            text = f"\n\n# Its output parser, in {module}:\n{source.lstrip()}"
            texts = [key for key in ("stub", "full") if key in tool]
            longer: dict[str, Any] = {key: tool[key].rstrip() + text for key in texts}
            return {**tool, "signature": f"{tool['signature']}\n{line}", **longer}
    return tool


def added_to(package: str, file: str, source: str) -> str:
    """What a user appended to the generated text of the file."""
    data = source.encode()
    for line in read_source(os.path.join(package, ".generated")).splitlines():
        digest, _, rest = line.partition(" ")
        size, _, name = rest.partition(" ")
        if name == file and size.isdigit():
            if hashlib.sha256(data[: int(size)]).hexdigest() == digest:
                return data[int(size) :].decode()
    return ""


def text_of(tool: dict[str, Any], detail: str) -> str:
    for part in (DETAILS[detail], "stub", "signature"):
        if part in tool:
            return str(tool[part]).rstrip("\n")
    raise KeyError(detail)


def find(tools: list[dict[str, Any]], name: str) -> list[dict[str, Any]]:
    """The tools and actions with this name: "server.tool", "tool" or "server"."""
    return [
        tool
        for tool in tools
        if name in (tool["server"], tool["module"], tool.get("tool"))
        or name in (f"{tool['server']}.{tool['module']}", f"{tool['server']}.{tool.get('tool')}")
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
    lines = [text_of(add_parser(paths, tool), "signatures") for tool in found[:limit]]
    if len(found) > limit:
        lines.append(f"[{limit} of {len(found)} tools are shown: use more words, or limit=…]")
    return Text("\n".join(lines))


def describe(paths: Iterable[str], name: str, detail: str) -> Text:
    if detail not in DETAILS:
        raise ValueError(f"detail must be one of {', '.join(DETAILS)}")
    tools = all_tools(paths)
    found = find(tools, name)
    if found:
        return Text("\n\n".join(text_of(add_parser(paths, tool), detail) for tool in found))
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
        "The tools of MCP servers and of the application, a package for each.\n\n"
        'search("words") finds tools, describe("server.tool") describes one.'
    )
    for name, function in (("search", search_tools), ("describe", describe_tool)):
        is_directory = any(os.path.isdir(os.path.join(path, name)) for path in package.__path__)
        if is_directory or name in OFFERED:
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
        names = sorted({*OFFERED, *map(os.path.basename, packages(root.__path__))})
        return f"{root.__doc__}\n\nPackages: {', '.join(names) or 'none'}"
    parts = name.split(".")
    tools = read_all(root.__path__).get(parts[1]) if len(parts) <= 3 else None
    if tools is None:
        return None
    if len(parts) == 2:
        return "\n".join(text_of(tool, "signatures") for tool in tools)
    found = [tool for tool in tools if tool["module"] == parts[2]]
    texts = [text_of(add_parser(root.__path__, tool), "full") for tool in found]
    return texts[0] if texts else None
