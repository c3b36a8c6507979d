# SPDX-License-Identifier: Apache-2.0
"""Stands in for @brave/brave-search-mcp-server in the documents' examples."""

import os

from scripted_server import Failure, Server, schema, structured

TEXT, WHOLE = {"type": "string"}, {"type": "integer"}
LINK = schema("url", url=TEXT)
IMAGE = schema("title", "properties", title=TEXT, properties=LINK)
SEARCH = schema("query", query=TEXT, count=WHOLE)
server = Server("brave_search")


@server.tool(inputs=SEARCH)
def brave_web_search(request):
    return f"results for {request.arguments['query']}"


@server.tool(inputs=SEARCH, output=schema("items", items={"type": "array", "items": IMAGE}))
def brave_image_search(request):
    if os.environ.get("BRAVE_API_KEY") != "the-key":
        raise Failure("no API key")
    query, count = request.arguments["query"], request.arguments["count"]
    items = [
        {"title": f"{query} {n}", "properties": {"url": f"https://example.com/{str(n)[-1]}"}}
        for n in range(count)
    ]
    return structured({"items": items})
