# SPDX-License-Identifier: Apache-2.0
"""Two tools of GitHub's MCP server, whose results are texts that happen to be JSON.

Mode: older (search_repositories without `minimal_output`, as before a version of the server).
"""

import json

from scripted_server import MODES, Server, schema

TEXT = {"type": "string"}
PER_PAGE = {"type": "number", "minimum": 1, "maximum": 100}
NAMES = ["linux", "subsurface", "uemacs", "pesconvert"]
SEARCH = schema(
    "query",
    query=TEXT,
    sort={"type": "string", "enum": ["stars", "forks", "help-wanted-issues", "updated"]},
    order={"type": "string", "enum": ["asc", "desc"]},
    perPage=PER_PAGE,
    minimal_output={"type": "boolean", "default": True},
)
if "older" in MODES:
    del SEARCH["properties"]["minimal_output"]
server = Server("github")


@server.tool(inputs=SEARCH, description="Find repositories.")
def search_repositories(request):
    count = request.arguments.get("perPage", 30)
    names = [*NAMES, *(f"repo{n}" for n in range(len(NAMES), count))][:count]
    found = [
        {"name": name, "stargazers_count": 10**6 // 10**n, "private": False}
        for n, name in enumerate(names)
    ]
    asked = {name: request.arguments.get(name) for name in ("sort", "order")}
    return json.dumps({"total_count": len(found), "items": found} | asked)


@server.tool(
    inputs=schema("owner", "repo", owner=TEXT, repo=TEXT, perPage=PER_PAGE),
    description="Get commits of a repository.",
)
def list_commits(request):
    repo = request.arguments["repo"]
    commits = [
        {
            "sha": f"{n:040x}",
            "commit": {"message": f"{repo} {n}\n\nbody"},
            "html_url": f"https://example.org/{repo}/{n}",
        }
        for n in range(request.arguments.get("perPage", 30))
    ]
    return json.dumps(commits)
