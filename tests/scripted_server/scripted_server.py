# SPDX-License-Identifier: Apache-2.0
"""The MCP server of our tests. A script says which tools it has and how it misbehaves.

usage: scripted_server.py SCRIPT [MODE]...

SCRIPT is the name of a file in `scripts`. README.md describes scripts and modes. The server needs
only the standard library, and starts with `python3 -I -S`. It imports little, because the unit
tests start hundreds of it.

Tests import this module for `params()`, which gives the `server_params` of a script.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
MODERN = "2026-07-28"
META = "io.modelcontextprotocol/"

METHOD_NOT_FOUND = -32601
INVALID_PARAMS = -32602
UNSUPPORTED_REVISION = -32022

# MODE or MODE=VALUE, as given on the command line.
MODES = {}


class Raw(str):
    """A result whose JSON text is sent as it is."""


class Failure(Exception):
    """Ends a tool with this text as its result, marked `isError`."""


class RpcError(Exception):
    """Ends a request with a JSON-RPC error."""

    def __init__(self, code: int, message: str, data: object = None) -> None:
        super().__init__(message)
        self.error = {"code": code, "message": message}
        if data is not None:
            self.error["data"] = data


def text(*texts: str, **more: object) -> dict:
    """A result of text blocks."""
    return {"content": [{"type": "text", "text": each} for each in texts], **more}


def structured(value: object) -> dict:
    """A result with structuredContent, and the same value as a text."""
    return text(json.dumps(value), structuredContent=value)


def schema(*required: str, **properties: object) -> dict:
    """The schema of an object."""
    return {"type": "object", "properties": properties, "required": list(required)}


def write(data: str) -> None:
    """Writes to stdout exactly this text."""
    sys.stdout.buffer.write(data.encode("utf-8", "surrogatepass"))
    sys.stdout.buffer.flush()


def send(**message: object) -> None:
    write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")


def notify(method: str, **params: object) -> None:
    send(method=method, **({"params": params} if params else {}))


def hang() -> None:
    """Does nothing more, until a signal ends the process."""
    while True:
        signal.pause()


def spawn_child(has_session: bool = False) -> int:
    """Starts a child that ignores SIGTERM and holds our pipes; returns its process id."""
    code = "import signal\nsignal.signal(15, signal.SIG_IGN)\nwhile True: signal.pause()"
    command = [sys.executable, "-I", "-S", "-c", code]
    return subprocess.Popen(command, start_new_session=has_session).pid


class Request:
    """A message of the client: a request, or a notification if `id` is None."""

    def __init__(self, line: bytes) -> None:
        self.line = line
        self.message = json.loads(line)
        self.id = self.message.get("id")
        self.method = self.message.get("method")
        self.params = self.message.get("params") or {}

    @property
    def arguments(self) -> dict:
        """The arguments of tools/call."""
        return self.params.get("arguments") or {}

    def arguments_text(self) -> str:
        """The arguments as the client wrote them, from brace to brace."""
        line = self.line.decode()
        start = line.index("{", line.index('"arguments"'))
        return line[start : json.JSONDecoder().raw_decode(line, start)[1]]

    def reply(self, result: object) -> None:
        """Sends a result now. The handler then returns None."""
        if isinstance(result, Raw):
            write(f'{{"jsonrpc":"2.0","id":{json.dumps(self.id)},"result":{result}}}\n')
        else:
            send(id=self.id, result=result)

    def progress(self, progress: object, **more: object) -> None:
        """Sends a notification of progress with the token of the request."""
        token = self.params["_meta"]["progressToken"]
        params = {"progressToken": token, "progress": progress} | more
        notify("notifications/progress", **params)


class Server:
    """What a script fills in: tools, and handlers for methods that differ from a good server."""

    def __init__(self, name: str, revision: str | None = None, page_size: int = 100) -> None:
        """Without `revision` it accepts the one that the client asks for.

        With MODERN it speaks as that revision demands: no handshake, envelopes, subscriptions.
        """
        self.name = name
        self.is_modern = revision == MODERN
        self.revision = MODES.get("revision", revision)
        self.page_size = page_size
        self.checks_envelopes = True  # those of revision 2026-07-28
        self.tools = {}
        self.functions = {}
        self.handlers = {}
        self.cancelled = []  # the params of notifications/cancelled
        self.methods = []  # of all messages so far
        self.listens = []  # the ids of subscriptions/listen

    def tool(
        self,
        function: object = None,
        *,
        name: str | None = None,
        inputs: dict | None = None,
        output: dict | None = None,
        **more: object,
    ) -> object:
        """Decorates `function(request)`, which is called for each call of the tool.

        It returns a text, a result (dict or Raw), or None for no answer. `more` are members of the
        description, such as `annotations`.
        """

        def add(function):
            called = name or function.__name__
            described = {"name": called, "description": f"Does {called}."}
            described["inputSchema"] = inputs or {"type": "object"}
            if output is not None:
                described["outputSchema"] = output
            self.tools[called] = described | more
            self.functions[called] = function
            return function

        return add if function is None else add(function)

    def on(self, method: str) -> object:
        """Decorates `function(request)`, which handles a method instead of `do_METHOD` below."""

        def add(function):
            self.handlers[method] = function
            return function

        return add

    def read(self) -> Request:
        """The next message of the client. The end of stdin ends the process."""
        line = sys.stdin.buffer.readline()
        while line and not line.strip():
            line = sys.stdin.buffer.readline()
        if not line:
            if "ignore-eof" in MODES:
                hang()
            sys.exit(0)
        return Request(line)

    def handle(self, request: Request) -> None:
        self.methods.append(request.method or "answer")
        if request.method == "notifications/cancelled":
            self.cancelled.append(request.params)
        if request.id is None or request.method is None:
            return
        try:
            result = self.result_of(request)
        except RpcError as error:
            send(id=request.id, error=error.error)
            return
        if result is not None:
            request.reply(result)

    def result_of(self, request: Request) -> object:
        is_modern = self.is_modern and request.method != "initialize"
        if is_modern and self.checks_envelopes and not has_envelope(request):
            raise RpcError(INVALID_PARAMS, "there is no envelope")
        known = getattr(self, "do_" + request.method.replace("/", "_"), not_found)
        result = self.handlers.get(request.method, known)(request)
        if is_modern and isinstance(result, dict):
            result = {"resultType": "complete"} | result
        return result

    def do_ping(self, request: Request) -> dict:
        return {}

    def do_initialize(self, request: Request) -> dict:
        if self.is_modern:
            data = {"supported": [MODERN], "requested": request.params["protocolVersion"]}
            raise RpcError(UNSUPPORTED_REVISION, "no handshake", data)
        return {
            "protocolVersion": self.revision or request.params["protocolVersion"],
            "capabilities": {"tools": {"listChanged": True}},
            "serverInfo": {"name": self.name, "version": "1"},
        }

    def do_server_discover(self, request: Request) -> dict:
        if not self.is_modern:
            not_found(request)
        return {
            "supportedVersions": ["2031-01-01", MODERN],
            "capabilities": {"tools": {"listChanged": True}, "logging": {}},
            "ttlMs": 1,
            "cacheScope": "x",
        }

    def do_tools_list(self, request: Request) -> dict:
        start = int(request.params.get("cursor", 0))
        end = start + self.page_size
        tools = list(self.tools.values())
        page = {"tools": tools[start:end]}
        return page | ({"nextCursor": str(end)} if end < len(tools) else {})

    def do_tools_call(self, request: Request) -> object:
        if "log" in MODES:
            with open(MODES["log"], "ab") as log:
                log.write(request.line.rstrip(b"\n") + b"\n")
        try:
            result = self.functions[request.params["name"]](request)
        except Failure as failure:
            result = text(str(failure), isError=True)
        return text(result) if type(result) is str else result

    def do_subscriptions_listen(self, request: Request) -> None:
        self.listens.append(request.id)
        notify(
            "notifications/subscriptions/acknowledged",
            _meta={META + "subscriptionId": request.id},
            notifications=request.params["notifications"],
        )

    def run(self) -> None:
        start_in_modes()
        while True:
            self.handle(self.read())


def not_found(request: Request) -> None:
    raise RpcError(METHOD_NOT_FOUND, "Method not found")


def has_envelope(request: Request) -> bool:
    """Whether the request has the `_meta` that revision 2026-07-28 demands, as ipybox sends it."""
    meta = request.params.get("_meta", {})
    return (
        meta.get(META + "protocolVersion") == MODERN
        and meta.get(META + "clientCapabilities") == {}
        and meta.get(META + "clientInfo", {}).get("name") == "ipybox"
    )


def start_in_modes() -> None:
    """The modes of the process and its pipes, which every script has."""
    if "ignore-sigterm" in MODES:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if "child" in MODES:
        spawn_child()
    if "daemon" in MODES:
        spawn_child(has_session=True)
    if "banner" in MODES:
        write("Welcome to fake!\n\n{ not json }\n[1, 2]\r\n")
    if "stderr" in MODES:
        sys.stderr.write(("e" * 99 + "\n") * 30_000)
        sys.stderr.write(("noise " * 200_000 + "\n") * 5)
    if "endless-garbage" in MODES:
        while True:
            write("spam " * 20 + "\n")
    if "long-line" in MODES:
        while True:
            write("x" * 1_000_000)
    if "exit" in MODES:
        sys.stderr.write("fake: no configuration found\n")
        sys.exit(4)


# For the tests


def params(script: str, *modes: str, at: str = HERE, command: str | None = None, **more) -> dict:
    """The `server_params` of a script; `at` is where copy() put the server."""
    command = command or sys.executable
    return {"command": command, "args": arguments(script, *modes, at=at), **more}


def arguments(script: str, *modes: str, at: str = HERE) -> list[str]:
    """The arguments of Python that start a script."""
    return ["-I", "-S", os.path.join(at, "scripted_server.py"), script, *modes]


def copy(directory: object) -> str:
    """Copies the server with all scripts, for sandboxes that do not see the checkout."""
    import shutil

    copied = os.path.join(directory, "scripted_server")
    ignored = shutil.ignore_patterns("__pycache__", "*.md")
    shutil.copytree(HERE, copied, ignore=ignored, dirs_exist_ok=True)
    return copied


def main() -> None:
    script, *modes = sys.argv[1:]
    MODES.update(mode.partition("=")[::2] for mode in modes if mode)
    # Scripts import this module, which is __main__ here.
    sys.modules["scripted_server"] = sys.modules["__main__"]
    path = os.path.join(HERE, "scripts", script + ".py")
    with open(path) as file:
        names = {"__name__": "script"}
        exec(compile(file.read(), path, "exec"), names)
    names["server"].run()


if __name__ == "__main__":
    main()
