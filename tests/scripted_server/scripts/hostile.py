# SPDX-License-Identifier: Apache-2.0
"""A server of the handshake revisions. Its tools and modes are what a bad server does to clients.

Modes: silent, silent-list, refuse, picky, no-tools; pages, empty-cursor, loop, endless, many,
bad-tool, bad-list (what tools/list answers); probe=CODE, probe-silent, probe-exit, slow-probe-exit
(what server/discover gets).
"""

import json
import os
import sys
import time

from scripted_server import (
    INVALID_PARAMS,
    METHOD_NOT_FOUND,
    MODES,
    Raw,
    RpcError,
    Server,
    hang,
    notify,
    send,
    spawn_child,
    text,
    write,
)

ANY = {"type": "object"}
BIG = 2**70
server = Server("fake")


def tool(function):
    return server.tool(function, inputs=ANY, description="é", x=BIG)


@tool
def echo(request):
    """The arguments, as text and as structured content."""
    return text(json.dumps(request.arguments), structuredContent=request.arguments)


@tool
def line(request):
    """The bytes of the request."""
    return request.line.decode()


@tool
def pid(request):
    return str(os.getpid())


@tool
def environment(request):
    return text("", structuredContent={"env": dict(os.environ), "cwd": os.getcwd()})


@tool
def contents(request):
    return {
        "content": [
            {"type": "text", "text": "t"},
            {"type": "image", "data": "aGk=", "mimeType": "image/png"},
            {"type": "audio", "data": "aGk=", "mimeType": "audio/wav"},
            {"type": "resource", "resource": {"uri": "a:b", "text": "r"}},
            {"type": "resource_link", "uri": "a:b", "name": "n"},
            {"type": "hologram", "x": 1},
        ],
        "structuredContent": {"big": BIG},
        "isError": True,
        "_meta": {"k": "v"},
    }


@tool
def result(request):
    """The raw text that is given, as the result."""
    return Raw(request.arguments["text"])


@tool
def raw(request):
    """Writes the raw text before the answer."""
    write(request.arguments["text"])
    return "written"


@tool
def error(request):
    raise RpcError(INVALID_PARAMS, "no \x1b[31mgood\x1b[0m\x07", {"why": [1, 2]})


@tool
def die(request):
    sys.stderr.write("line %d\n" * 30 % tuple(range(30)) + "fatal: out of cheese\n")
    sys.stderr.flush()
    if "signal" in request.arguments:
        os.kill(os.getpid(), request.arguments["signal"])
    os._exit(request.arguments.get("status", 3))


@tool
def answer_and_die(request):
    request.reply(text("last words"))
    os._exit(0)


@tool
def big(request):
    """An answer of that many MB, written in pieces."""
    write('{"jsonrpc":"2.0","id":%d,"result":{"content":[{"type":"text","text":"' % request.id)
    piece = "x" * 1_000_000
    for _ in range(request.arguments["megabytes"]):
        write(piece)
    write('"}]}}\n')


@tool
def progress(request):
    """Progress, some of it with wrong tokens and values."""
    token = request.params["_meta"]["progressToken"]
    request.progress(0, message="step 0")
    request.progress(0.5, message="step 1")
    notify("notifications/progress", progressToken=str(token), progress=1, total=1)
    notify("notifications/progress", progressToken=99999, progress=1)
    request.progress("much")
    return "done"


@tool
def much_progress(request):
    for step in range(3000):
        request.progress(step, message="\x1b]0;title\x07" + "x" * 5000)
    return "done"


@tool
def slow_progress(request):
    for step in range(request.arguments["steps"]):
        time.sleep(request.arguments["seconds"])
        request.progress(step)
    return "done"


@tool
def never(request):
    """No answer; see `cancelled`."""


@tool
def late(request):
    """Answers after the request was cancelled."""
    while not server.cancelled:
        message = server.read()
        if message.method == "notifications/cancelled":
            server.cancelled.append(message.params)
    return "x" * request.arguments.get("size", 1)


@tool
def cancelled(request):
    return json.dumps(server.cancelled)


@tool
def ask(request):
    """Sends requests to the client, and returns its answers."""
    methods = ["ping", "roots/list", "sampling/createMessage", "elicitation/create", "x\x1b[0my"]
    for number, method in enumerate(methods):
        send(id="ask-%d" % number, method=method, params={})
    answers = [server.read().message for _ in methods]
    return text("", structuredContent={"answers": answers})


@tool
def ping_flood(request):
    """Pings whose answers are big and are never read."""
    for number in range(100):
        send(id="x" * 1_000_000 + str(number), method="ping")
    hang()


@tool
def log(request):
    notify("notifications/message", level="error", logger="me", data="oh")
    notify("notifications/message", level="strange", data={"a": [1]})
    return ""


@tool
def changed(request):
    for _ in range(50):
        notify("notifications/tools/list_changed")
    return ""


@tool
def stderr(request):
    """That many megabytes on stderr, which the client must drain."""
    piece = (b"e" * 99 + b"\n") * 10_000
    for _ in range(request.arguments["megabytes"]):
        sys.stderr.buffer.write(piece)
    sys.stderr.buffer.write(b"\xff\x1b[32mgreen\x1b[0m\n" + b"long" * 5000 + b"\n")
    sys.stderr.buffer.flush()
    return ""


@tool
def garbage(request):
    for _ in range(request.arguments["lines"]):
        write("hello %s\n" % ("x" * request.arguments.get("size", 10)))
    return ""


@tool
def batch(request):
    answer = {"jsonrpc": "2.0", "id": request.id, "result": text("batch")}
    message = {"method": "notifications/message", "params": {"data": "in a batch"}}
    write(json.dumps([{"jsonrpc": "2.0"} | message, answer]) + "\n")


@tool
def stop_reading(request):
    request.reply(text(""))
    hang()


@tool
def close_stdout(request):
    os.close(1)
    hang()


@tool
def close_stdin(request):
    os.close(0)
    request.reply(text(""))
    hang()


@tool
def spawn(request):
    """The process id of a child that holds the pipes and ignores SIGTERM."""
    return str(spawn_child())


@server.on("initialize")
def initialize(request):
    asked = request.params["protocolVersion"]
    if "silent" in MODES:
        sys.stderr.write("waiting for the moon\n")
        sys.stderr.flush()
        return None
    if "picky" in MODES and asked != "2024-11-05":
        data = {"supported": ["1999-01-01", "2024-11-05"], "requested": asked}
        raise RpcError(INVALID_PARAMS, "version", data)
    if "refuse" in MODES:
        raise RpcError(-32000, "not today")
    answer = server.do_initialize(request) | {"instructions": json.dumps(request.params)}
    return answer | ({"capabilities": {}} if "no-tools" in MODES else {})


@server.on("tools/list")
def list_tools(request):
    cursor = request.params.get("cursor")
    some = {"inputSchema": ANY, "x": BIG}
    if "no-tools" in MODES:
        raise RpcError(METHOD_NOT_FOUND, "no such method")
    if "silent-list" in MODES:
        return None
    if "pages" in MODES:
        page = int(cursor[4:]) if cursor else 0
        tools = [{"name": "tool-%d-%d" % (page, number), **some} for number in range(3)]
        return {"tools": tools, **({"nextCursor": "page%d" % (page + 1)} if page < 4 else {})}
    if "empty-cursor" in MODES:
        return {"tools": []} if cursor == "" else {"tools": [], "nextCursor": ""}
    if "loop" in MODES:
        return {"tools": [], "nextCursor": "b" if cursor == "a" else "a"}
    if "endless" in MODES:
        return {"tools": [], "nextCursor": str(int(cursor or "0") + 1)}
    if "many" in MODES:
        return {"tools": [{"name": "n", **some}] * 6000, "nextCursor": str(cursor) + "x"}
    if "bad-tool" in MODES:
        return {"tools": [{"name": "good"}, {"name": 5}]}
    if "bad-list" in MODES:
        return {"tools": {}}
    return server.do_tools_list(request)


@server.on("server/discover")
def discover(request):
    if MODES.keys() & {"probe-exit", "slow-probe-exit"}:
        os._exit(1)
    if "probe-silent" in MODES:
        return None
    raise RpcError(int(MODES.get("probe", METHOD_NOT_FOUND)), "what is that?")


if "slow-probe-exit" in MODES:
    time.sleep(0.7)
