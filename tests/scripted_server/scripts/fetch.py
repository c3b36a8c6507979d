# SPDX-License-Identifier: Apache-2.0
"""Stands in for mcp-server-fetch in the documents' examples."""

from scripted_server import Server, schema

server = Server("fetch")


@server.tool(inputs=schema("url", url={"type": "string"}))
def fetch(request):
    return f"fetched {request.arguments['url']}"
