# SPDX-License-Identifier: Apache-2.0
"""Stands in for @modelcontextprotocol/server-filesystem in the documents' examples."""

import os

from scripted_server import Failure, Server, schema, structured

TEXT = {"type": "string"}
PATH, CONTENT = schema("path", path=TEXT), schema("content", content=TEXT)
server = Server("filesystem")


@server.tool(inputs=PATH, output=CONTENT)
def list_directory(request):
    names = sorted(os.listdir(request.arguments["path"]))
    return structured({"content": "\n".join(f"[FILE] {name}" for name in names)})


@server.tool(inputs=PATH, output=CONTENT)
def read_file(request):
    try:
        with open(request.arguments["path"]) as file:
            return structured({"content": file.read()})
    except OSError as error:
        raise Failure(str(error)) from None
