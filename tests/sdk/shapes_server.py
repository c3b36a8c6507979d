# SPDX-License-Identifier: Apache-2.0
"""MCP servers with the tools of those that the documents use, and answers of their shapes. The standard library only.

usage: shapes_server.py {brave_search | fetch | filesystem | github | work} [ARGUMENT]...
"""

from __future__ import annotations

import json
import os
import sys
import threading
from collections.abc import Callable
from typing import Any

TEXT, WHOLE = {"type": "string"}, {"type": "integer"}
IMAGE = {
    "type": "object",
    "properties": {
        "title": TEXT,
        "properties": {"type": "object", "properties": {"url": TEXT}, "required": ["url"]},
    },
    "required": ["title", "properties"],
}
IMAGES = {
    "type": "object",
    "properties": {"items": {"type": "array", "items": IMAGE}},
    "required": ["items"],
}


class Failure(Exception):
    """The tool fails with this text."""


def find_images(args: dict[str, Any]) -> dict[str, Any]:
    if os.environ.get("BRAVE_API_KEY") != "the-key":
        raise Failure("no API key")
    names = [f"{args['query']} {number}" for number in range(args["count"])]
    return {
        "items": [
            {"title": name, "properties": {"url": f"https://example.com/{name[-1]}"}}
            for name in names
        ]
    }


def find_repositories(args: dict[str, Any]) -> str:
    count = args.get("perPage", 30)
    items = [{"name": f"repo{n}", "stargazers_count": 1000 * (count - n)} for n in range(count)]
    return json.dumps(
        {
            "total_count": len(items),
            "items": items,
            "sort": args.get("sort"),
            "order": args.get("order"),
        }
    )


def list_commits(args: dict[str, Any]) -> str:
    commits = [
        {
            "sha": f"{n:040x}",
            "commit": {"message": f"change {n}\n\nwhy"},
            "html_url": f"https://example.com/{n}",
        }
        for n in range(args["perPage"])
    ]
    return json.dumps(commits)


def fail(args: dict[str, Any]) -> str:
    raise Failure(args["text"])


def note(args: dict[str, Any]) -> str:
    """Writes a line to the file that the server was started with."""
    with open(sys.argv[2], "a") as file:
        file.write(args["text"] + "\n")
    return args["text"]


def hang(args: dict[str, Any]) -> str:
    threading.Event().wait()
    return ""


def list_directory(args: dict[str, Any]) -> dict[str, Any]:
    return {"content": "\n".join(f"[FILE] {name}" for name in sorted(os.listdir(args["path"])))}


def read_file(args: dict[str, Any]) -> dict[str, Any]:
    try:
        with open(args["path"]) as file:
            return {"content": file.read()}
    except OSError as error:
        raise Failure(str(error)) from None


def schema(*required: str, **properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": list(required)}


Tool = tuple[Callable[[dict[str, Any]], Any], dict[str, Any], "dict[str, Any] | None"]
SERVERS: dict[str, dict[str, Tool]] = {
    "brave_search": {
        "brave_web_search": (
            lambda a: f"results for {a['query']}",
            schema("query", query=TEXT, count=WHOLE),
            None,
        ),
        "brave_image_search": (find_images, schema("query", query=TEXT, count=WHOLE), IMAGES),
    },
    "fetch": {"fetch": (lambda a: f"fetched {a['url']}", schema("url", url=TEXT), None)},
    "filesystem": {
        "list_directory": (
            list_directory,
            schema("path", path=TEXT),
            schema("content", content=TEXT),
        ),
        "read_file": (read_file, schema("path", path=TEXT), schema("content", content=TEXT)),
    },
    "github": {
        "search_repositories": (
            find_repositories,
            schema(
                "query",
                query=TEXT,
                sort={
                    "type": "string",
                    "enum": ["stars", "forks", "help-wanted-issues", "updated"],
                },
                order={"type": "string", "enum": ["asc", "desc"]},
                perPage={"type": "number", "minimum": 1, "maximum": 100},
                minimal_output={"type": "boolean", "default": True},
            ),
            None,
        ),
        "list_commits": (
            list_commits,
            schema("owner", "repo", owner=TEXT, repo=TEXT, perPage=WHOLE),
            None,
        ),
    },
    "work": {
        "echo": (lambda a: a["text"], schema("text", text=TEXT), None),
        "add": (
            lambda a: {"sum": a["a"] + a["b"]},
            schema("a", "b", a=WHOLE, b=WHOLE),
            {"type": "object", "properties": {"sum": WHOLE}, "required": ["sum"]},
        ),
        "note": (note, schema("text", text=TEXT), None),
        "fail": (fail, schema("text", text=TEXT), None),
        "hang": (hang, schema(), None),
        "Odd-Name.v2": (lambda a: "odd", schema(), None),
        "environ": (
            lambda a: os.environ.get(a["name"], "not set"),
            schema("name", name=TEXT),
            None,
        ),
    },
}

lock = threading.Lock()


def send(message: dict[str, Any]) -> None:
    with lock:
        sys.stdout.write(json.dumps(message) + "\n")
        sys.stdout.flush()


def call(tool: Tool, args: dict[str, Any]) -> dict[str, Any]:
    try:
        result = tool[0](args)
    except Failure as error:
        return {"content": [{"type": "text", "text": str(error)}], "isError": True}
    if isinstance(result, str):
        return {"content": [{"type": "text", "text": result}]}
    return {"content": [{"type": "text", "text": json.dumps(result)}], "structuredContent": result}


def answer(tools: dict[str, Tool], message: dict[str, Any]) -> Any:
    params = message.get("params", {})
    if message["method"] == "initialize":
        return {
            "protocolVersion": params["protocolVersion"],
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "shapes", "version": "1"},
        }
    if message["method"] == "tools/list":
        return {
            "tools": [
                {"name": name, "description": f"Does {name}.", "inputSchema": inputs}
                | ({"outputSchema": output} if output else {})
                for name, (_, inputs, output) in tools.items()
            ]
        }
    if message["method"] == "tools/call":
        return call(tools[params["name"]], params.get("arguments", {}))
    return {}


def serve(tools: dict[str, Tool], message: dict[str, Any]) -> None:
    if message["method"] == "server/discover":
        error = {"code": -32601, "message": "Method not found"}
        send({"jsonrpc": "2.0", "id": message["id"], "error": error})
        return
    send({"jsonrpc": "2.0", "id": message["id"], "result": answer(tools, message)})


def main() -> None:
    tools = SERVERS[sys.argv[1]]
    for line in sys.stdin:
        message = json.loads(line)
        if "id" in message and "method" in message:
            threading.Thread(target=serve, args=(tools, message), daemon=True).start()


if __name__ == "__main__":
    main()
