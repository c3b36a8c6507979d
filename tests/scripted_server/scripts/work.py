# SPDX-License-Identifier: Apache-2.0
"""A server with small tools, for tests of what runs them.

Mode: notes=FILE (where `note` writes).
"""

import os

from scripted_server import MODES, Failure, Server, schema, structured

TEXT, WHOLE = {"type": "string"}, {"type": "integer"}
server = Server("work")


@server.tool(inputs=schema("text", text=TEXT))
def echo(request):
    return request.arguments["text"]


@server.tool(inputs=schema("a", "b", a=WHOLE, b=WHOLE), output=schema("sum", sum=WHOLE))
def add(request):
    return structured({"sum": request.arguments["a"] + request.arguments["b"]})


@server.tool(inputs=schema("text", text=TEXT))
def note(request):
    """Appends a line to the file that the mode names."""
    with open(MODES["notes"], "a") as file:
        file.write(request.arguments["text"] + "\n")
    return request.arguments["text"]


@server.tool(inputs=schema("text", text=TEXT))
def fail(request):
    raise Failure(request.arguments["text"])


@server.tool(inputs=schema())
def hang(request):
    """No answer."""


@server.tool(name="Odd-Name.v2", inputs=schema())
def odd(request):
    return "odd"


@server.tool(inputs=schema("name", name=TEXT))
def environ(request):
    return os.environ.get(request.arguments["name"], "not set")
