# SPDX-License-Identifier: Apache-2.0
"""A small MCP server on stdio that misbehaves as told.

`fake-mcp-server.py [MODE]...`: a mode changes how the server starts, lists and ends (see MODES);
each tool does one thing that a server may do to its client within a call.
"""

import json
import os
import signal
import subprocess
import sys
import time

MODES = set(sys.argv[1:])
REVISION = next((mode[8:] for mode in MODES if mode.startswith("version=")), None)

stdin = sys.stdin.buffer
stdout = sys.stdout.buffer
cancelled: list = []
answers: list = []
messages = 0


def write(text: str) -> None:
    stdout.write(text.encode("utf-8", "surrogatepass"))
    stdout.flush()


def send(**message: object) -> None:
    write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")


def text_result(text: str, **more: object) -> dict:
    return {"content": [{"type": "text", "text": text}], **more}


def read_message() -> "tuple[dict, bytes]":
    global messages
    line = stdin.readline()
    if not line:
        if "ignore-eof" in MODES:
            time.sleep(1000)
        sys.exit(0)
    messages += 1
    return json.loads(line), line


# -- tools: f(arguments, request) returns the result, or None if there is none --------------------


def tool_echo(arguments: dict, request: dict) -> dict:
    """The arguments, as text."""
    return text_result(json.dumps(arguments), structuredContent=arguments)


def tool_line(arguments: dict, request: dict) -> dict:
    """The bytes of the request."""
    return text_result(request["line"].decode("utf-8"))


def tool_pid(arguments: dict, request: dict) -> dict:
    return text_result(str(os.getpid()))


def tool_environment(arguments: dict, request: dict) -> dict:
    return text_result("", structuredContent={"env": dict(os.environ), "cwd": os.getcwd()})


def tool_contents(arguments: dict, request: dict) -> dict:
    return {
        "content": [
            {"type": "text", "text": "t"},
            {"type": "image", "data": "aGk=", "mimeType": "image/png"},
            {"type": "audio", "data": "aGk=", "mimeType": "audio/wav"},
            {"type": "resource", "resource": {"uri": "a:b", "text": "r"}},
            {"type": "resource_link", "uri": "a:b", "name": "n"},
            {"type": "hologram", "x": 1},
        ],
        "structuredContent": {"big": 2**70},
        "isError": True,
        "_meta": {"k": "v"},
    }


def tool_result(arguments: dict, request: dict) -> None:
    """Answers the raw text that is given."""
    write('{"jsonrpc":"2.0","id":%d,"result":%s}\n' % (request["id"], arguments["text"]))


def tool_raw(arguments: dict, request: dict) -> dict:
    """Writes the raw text before the answer."""
    write(arguments["text"])
    return text_result("written")


def tool_error(arguments: dict, request: dict) -> None:
    error = {"code": -32602, "message": "no \x1b[31mgood\x1b[0m\x07", "data": {"why": [1, 2]}}
    send(id=request["id"], error=error)


def tool_die(arguments: dict, request: dict) -> None:
    sys.stderr.write("line %d\n" * 30 % tuple(range(30)) + "fatal: out of cheese\n")
    sys.stderr.flush()
    if "signal" in arguments:
        os.kill(os.getpid(), arguments["signal"])
    os._exit(arguments.get("status", 3))


def tool_answer_and_die(arguments: dict, request: dict) -> None:
    send(id=request["id"], result=text_result("last words"))
    os._exit(0)


def tool_big(arguments: dict, request: dict) -> None:
    """An answer of that many MB, written in pieces."""
    write('{"jsonrpc":"2.0","id":%d,"result":{"content":[{"type":"text","text":"' % request["id"])
    piece = "x" * 1_000_000
    for _ in range(arguments["megabytes"]):
        write(piece)
    write('"}]}}\n')


def tool_progress(arguments: dict, request: dict) -> dict:
    token = request["params"]["_meta"]["progressToken"]
    for step in range(3):
        params = {"progressToken": token, "progress": step * 0.5, "message": "step %d" % step}
        if step == 2:
            params = {"progressToken": str(token), "progress": 1, "total": 1}
        send(method="notifications/progress", params=params)
    send(method="notifications/progress", params={"progressToken": 99999, "progress": 1})
    send(method="notifications/progress", params={"progressToken": token, "progress": "much"})
    return text_result("done")


def tool_much_progress(arguments: dict, request: dict) -> dict:
    token = request["params"]["_meta"]["progressToken"]
    for step in range(3000):
        params = {
            "progressToken": token,
            "progress": step,
            "message": "\x1b]0;title\x07" + "x" * 5000,
        }
        send(method="notifications/progress", params=params)
    return text_result("done")


def tool_slow_progress(arguments: dict, request: dict) -> dict:
    token = request["params"]["_meta"]["progressToken"]
    for step in range(arguments["steps"]):
        time.sleep(arguments["seconds"])
        send(method="notifications/progress", params={"progressToken": token, "progress": step})
    return text_result("done")


def tool_never(arguments: dict, request: dict) -> None:
    """No answer; see tool_cancelled."""


def tool_late(arguments: dict, request: dict) -> None:
    """Answers after the request was cancelled."""
    while not cancelled:
        message, _ = read_message()
        if message.get("method") == "notifications/cancelled":
            cancelled.append(message["params"])
    send(id=request["id"], result=text_result("x" * arguments.get("size", 1)))


def tool_cancelled(arguments: dict, request: dict) -> dict:
    return text_result(json.dumps(cancelled))


def tool_ask(arguments: dict, request: dict) -> dict:
    """Asks the client for things and returns its answers."""
    methods = ["ping", "roots/list", "sampling/createMessage", "elicitation/create", "x\x1b[0my"]
    for number, method in enumerate(methods):
        send(id="ask-%d" % number, method=method, params={})
    while len(answers) < len(methods):
        message, _ = read_message()
        answers.append(message)
    return text_result("", structuredContent={"answers": answers})


def tool_ping_flood(arguments: dict, request: dict) -> None:
    """Pings whose answers are big, and nobody reads them."""
    for number in range(100):
        send(id="x" * 1_000_000 + str(number), method="ping")
    time.sleep(1000)


def tool_log(arguments: dict, request: dict) -> dict:
    send(method="notifications/message", params={"level": "error", "logger": "me", "data": "oh"})
    send(method="notifications/message", params={"level": "strange", "data": {"a": [1]}})
    return text_result("")


def tool_changed(arguments: dict, request: dict) -> dict:
    for _ in range(50):
        send(method="notifications/tools/list_changed")
    return text_result("")


def tool_stderr(arguments: dict, request: dict) -> dict:
    """That many megabytes on stderr; the client must drain them."""
    line = b"e" * 99 + b"\n"
    for _ in range(arguments["megabytes"]):
        sys.stderr.buffer.write(line * 10_000)
    sys.stderr.buffer.write(b"\xff\x1b[32mgreen\x1b[0m\n" + b"long" * 5000 + b"\n")
    sys.stderr.buffer.flush()
    return text_result("")


def tool_garbage(arguments: dict, request: dict) -> dict:
    for _ in range(arguments["lines"]):
        write("hello %s\n" % ("x" * arguments.get("size", 10)))
    return text_result("")


def tool_batch(arguments: dict, request: dict) -> None:
    answer = {"jsonrpc": "2.0", "id": request["id"], "result": text_result("batch")}
    log = {"jsonrpc": "2.0", "method": "notifications/message", "params": {"data": "in a batch"}}
    write(json.dumps([log, answer]) + "\n")


def tool_stop_reading(arguments: dict, request: dict) -> None:
    send(id=request["id"], result=text_result(""))
    time.sleep(1000)


def tool_close_stdout(arguments: dict, request: dict) -> None:
    os.close(1)
    time.sleep(1000)


def tool_close_stdin(arguments: dict, request: dict) -> None:
    os.close(0)
    send(id=request["id"], result=text_result(""))
    time.sleep(1000)


def tool_spawn(arguments: dict, request: dict) -> dict:
    """A grandchild that holds the pipes and ignores SIGTERM; its process id."""
    code = "import signal, time; signal.signal(15, signal.SIG_IGN); print('', end=''); time.sleep(1000)"
    child = subprocess.Popen([sys.executable, "-I", "-S", "-c", code])
    return text_result(str(child.pid))


# -- the server ----------------------------------------------------------------------------------

TOOLS = {name[5:]: value for name, value in list(globals().items()) if name.startswith("tool_")}


def initialize(request: dict) -> None:
    params = request["params"]
    if "silent" in MODES:
        sys.stderr.write("waiting for the moon\n")
        sys.stderr.flush()
        return
    if "picky" in MODES and params["protocolVersion"] != "2024-11-05":
        data = {"supported": ["1999-01-01", "2024-11-05"], "requested": params["protocolVersion"]}
        send(id=request["id"], error={"code": -32602, "message": "version", "data": data})
        return
    if "refuse" in MODES:
        send(id=request["id"], error={"code": -32000, "message": "not today"})
        return
    capabilities = {} if "no-tools" in MODES else {"tools": {"listChanged": True}}
    send(
        id=request["id"],
        result={
            "protocolVersion": REVISION or params["protocolVersion"],
            "capabilities": capabilities,
            "serverInfo": {"name": "fake", "version": "1"},
            "instructions": json.dumps(params),
        },
    )


def list_page(cursor: "str | None") -> dict:
    tool = {"inputSchema": {"type": "object"}, "x": 2**70}
    if "pages" in MODES:
        page = int(cursor[4:]) if cursor else 0
        tools = [{"name": "tool-%d-%d" % (page, number), **tool} for number in range(3)]
        return {"tools": tools, **({"nextCursor": "page%d" % (page + 1)} if page < 4 else {})}
    if "empty-cursor" in MODES:
        return {"tools": []} if cursor == "" else {"tools": [], "nextCursor": ""}
    if "loop" in MODES:
        return {"tools": [], "nextCursor": "b" if cursor == "a" else "a"}
    if "endless" in MODES:
        return {"tools": [], "nextCursor": str(int(cursor or "0") + 1)}
    if "many" in MODES:
        return {"tools": [{"name": "n", **tool}] * 6000, "nextCursor": str(cursor) + "x"}
    if "bad-tool" in MODES:
        return {"tools": [{"name": "good"}, {"name": 5}]}
    if "bad-list" in MODES:
        return {"tools": {}}
    return {"tools": [{"name": name, "description": "é", **tool} for name in TOOLS]}


def handle(request: dict, line: bytes) -> None:
    method = request.get("method")
    if method == "initialize":
        initialize(request)
    elif method == "tools/list":
        if "no-tools" in MODES:
            send(id=request["id"], error={"code": -32601, "message": "no such method"})
        elif "silent-list" not in MODES:
            send(id=request["id"], result=list_page((request.get("params") or {}).get("cursor")))
    elif method == "notifications/cancelled":
        cancelled.append(request["params"])
    elif method == "tools/call":
        request["line"] = line
        params = request["params"]
        result = TOOLS[params["name"]](params["arguments"], request)
        if result is not None:
            send(id=request["id"], result=result)
    elif "id" in request and "method" in request:
        probed(request)


def probed(request: dict) -> None:
    """A request that servers of handshake revisions do not know: server/discover."""
    if MODES & {"probe-exit", "slow-probe-exit"}:
        os._exit(1)
    if "probe-silent" not in MODES:
        code = next((int(mode[6:]) for mode in MODES if mode.startswith("probe=")), -32601)
        send(id=request["id"], error={"code": code, "message": "what is that?"})


def main() -> None:
    if "ignore-sigterm" in MODES:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if "banner" in MODES:
        write("Welcome to fake!\n\n{ not json }\n[1, 2]\r\n")
    if "endless-garbage" in MODES:
        while True:
            write("spam " * 20 + "\n")
    if "long-line" in MODES:
        while True:
            write("x" * 1_000_000)
    if "stderr" in MODES:
        sys.stderr.write(("e" * 99 + "\n") * 30_000)
    if "exit" in MODES:
        sys.stderr.write("fake: no configuration found\n")
        sys.exit(4)
    if "slow-probe-exit" in MODES:
        time.sleep(0.7)
    while True:
        handle(*read_message())


main()
