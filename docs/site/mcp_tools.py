# SPDX-License-Identifier: Apache-2.0
"""The page of the MCP server's tools, from what the real program answers to `tools/list`."""

from __future__ import annotations

import json
import subprocess
import tempfile
from pathlib import Path
from typing import Any

REVISION = "2025-11-25"
MAX_SECONDS = 60
# The options with which the server offers tools, and what the page says about those tools.
WITH_OPTIONS = {
    (): ("Always", "The server offers these tools, unless `--tools` names others."),
    ("--tools", "checkpoint,restore,undo,branch"): (
        "With checkpoints",
        "The server offers these only if `--tools` names them.",
    ),
    ("--staged",): ("In a staged workspace", "With `--staged`, the server also offers these."),
}
# Where the program has its descriptions from. Some are offered by `ipybox serve` only.
TABLE = Path(__file__).resolve().parents[2] / "src/serve/mcp/tools.json"


# What a hint means if it is true, and if it is false.
HINTS = {
    "readOnlyHint": ("it only reads", "it changes something"),
    "destructiveHint": ("it may destroy something", "it destroys nothing"),
    "idempotentHint": ("a second call changes nothing more", "a second call has a second effect"),
    "openWorldHint": ("it may reach the outside", "it stays on this machine"),
}


def list_tools(program: Path, *options: str) -> list[dict[str, Any]]:
    """The tools of `ipybox mcp` with these options."""
    requests: list[dict[str, Any]] = [
        {
            "id": 1,
            "method": "initialize",
            "params": {
                "protocolVersion": REVISION,
                "capabilities": {},
                "clientInfo": {"name": "site", "version": "1"},
            },
        },
        {"method": "notifications/initialized"},
        {"id": 2, "method": "tools/list"},
    ]
    lines = "".join(json.dumps({"jsonrpc": "2.0"} | request) + "\n" for request in requests)
    with tempfile.TemporaryDirectory(dir="/var/tmp") as workspace:
        done = subprocess.run(
            [program, "mcp", "--workspace", workspace, *options],
            input=lines,
            capture_output=True,
            text=True,
            timeout=MAX_SECONDS,
        )
    for line in done.stdout.splitlines():
        answer = json.loads(line)
        if answer.get("id") == 2 and "result" in answer:
            return answer["result"]["tools"]
    raise RuntimeError(f"{program} {' '.join(options)} did not list its tools: {done.stderr}")


def page(program: Path) -> str:
    parts = [
        "# MCP tools",
        "This page describes every tool of the MCP server `ipybox`, as the server itself describes"
        " it to a client. [Use ipybox from an MCP host](../how-to/mcp-host.md) says how to connect"
        " one, and [ipybox-mcp(1)](cli/ipybox-mcp.1.md) has the options, such as `--tools`, which"
        " chooses tools.",
    ]
    known: set[str] = set()
    for options, text in WITH_OPTIONS.items():
        tools = [tool for tool in list_tools(program, *options) if tool["name"] not in known]
        if not tools:
            raise RuntimeError(f"{' '.join(options)} adds no tool")
        known |= {tool["name"] for tool in tools}
        parts.append(f"## {text[0]}\n\n{text[1]}")
        for tool in tools:
            parts += tool_parts(tool)
    others = [tool for tool in json.loads(TABLE.read_text()) if tool["name"] not in known]
    parts.append("## Over HTTP\n\n`ipybox serve` also offers these to its clients.")
    for tool in others:
        parts += tool_parts(tool)
    return "\n\n".join(parts) + "\n"


def tool_parts(tool: dict[str, Any]) -> list[str]:
    parts = [f"### `{tool['name']}`", escaped(tool["description"])]
    schema = tool["inputSchema"]
    properties = schema.get("properties", {})
    if properties:
        rows = ["| argument | type | default | meaning |", "|---|---|---|---|"]
        for name, each in properties.items():
            required = name in schema.get("required", [])
            default = "required" if required else "none"
            if "default" in each:
                default = f"`{json.dumps(each['default'])}`"
            meaning = escaped(each.get("description", each.get("title", ""))).replace("|", "\\|")
            rows.append(f"| `{name}` | {type_text(each)} | {default} | {meaning} |")
        parts.append("\n".join(rows))
    else:
        parts.append("It has no arguments.")
    hints = tool.get("annotations", {})
    stated = [text[not hints[name]] for name, text in HINTS.items() if name in hints]
    if stated:
        parts.append(f"Hints for hosts: {', '.join(stated)}.")
    schemas = {"inputSchema": schema} | (
        {"outputSchema": tool["outputSchema"]} if "outputSchema" in tool else {}
    )
    parts.append(
        "<details markdown><summary>Schemas</summary>\n\n```json\n"
        + json.dumps(schemas, indent=2, ensure_ascii=False)
        + "\n```\n\n</details>"
    )
    return parts


def escaped(text: str) -> str:
    """A text that may have `<name>`, which Markdown would read as HTML, outside of code."""
    parts = text.split("`")
    parts[::2] = [part.replace("<", "&lt;") for part in parts[::2]]
    return "`".join(parts)


def type_text(schema: dict[str, Any]) -> str:
    if "enum" in schema:
        return " or ".join(f"`{json.dumps(each)}`" for each in schema["enum"])
    if "anyOf" in schema:
        return " or ".join(type_text(each) for each in schema["anyOf"])
    kind = schema.get("type", "any")
    if isinstance(kind, list):
        return " or ".join(kind)
    if kind == "array" and "items" in schema:
        return f"array of {type_text(schema['items'])}"
    return str(kind)
