# SPDX-License-Identifier: Apache-2.0
"""A small MCP server of revision 2026-07-28 on stdio that misbehaves as told.

`modern-mcp-server.py [MODE]...`: a mode changes what server/discover and initialize answer; each tool is
one thing that a server of this revision may answer to a call. Each request is checked for its envelope.
"""

import json
import os
import sys

MODES = set(sys.argv[1:])
PREFIX = "io.modelcontextprotocol/"
REVISION = "2026-07-28"
UNSUPPORTED = -32022

seen: list = []  # the methods of all messages
cancelled: list = []
listens: list = []  # ids
state = {"discovered": 0, "rounds": 0}


def mode_value(name: str) -> "str | None":
    return next((mode[len(name) + 1 :] for mode in MODES if mode.startswith(name + "=")), None)


def send(**message: object) -> None:
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()


def complete(**more: object) -> dict:
    return {"resultType": "complete", **more}


def text_result(text: str, **more: object) -> dict:
    return complete(content=[{"type": "text", "text": text}], **more)


def fail(request: dict, code: int, message: str, data: object = None) -> None:
    error = {"code": code, "message": message}
    send(id=request["id"], error=error if data is None else {**error, "data": data})


def is_enveloped(request: dict) -> bool:
    meta = request.get("params", {}).get("_meta", {})
    return (
        meta.get(PREFIX + "protocolVersion") == REVISION
        and meta.get(PREFIX + "clientCapabilities") == {}
        and meta.get(PREFIX + "clientInfo", {}).get("name") == "ipybox"
    )


def changed(listen_id: object) -> None:
    meta = {PREFIX + "subscriptionId": listen_id}
    send(method="notifications/tools/list_changed", params={"_meta": meta})


# -- tools: f(params, request) returns the result, or None if it was sent -------------------------


def tool_echo(params: dict, request: dict) -> dict:
    return text_result(json.dumps(params["arguments"]))


def tool_request(params: dict, request: dict) -> dict:
    return text_result(json.dumps(request))


def tool_seen(params: dict, request: dict) -> dict:
    return text_result(json.dumps(seen))


def tool_old(params: dict, request: dict) -> dict:
    """A result without resultType is complete."""
    return {"content": [{"type": "text", "text": "old"}]}


def tool_strange(params: dict, request: dict) -> dict:
    return {"resultType": "task", "task": {"taskId": "1"}, "content": []}


def tool_rounds(params: dict, request: dict) -> dict:
    """Wants to see its state as often as the arguments say; then what was different between the rounds."""
    if "requestState" in params and params["requestState"] != "näkki %d" % state["rounds"]:
        return text_result("wrong state: " + params["requestState"])
    if state["rounds"] < params["arguments"]["times"]:
        state["rounds"] += 1
        return {"resultType": "input_required", "requestState": "näkki %d" % state["rounds"]}
    return text_result(json.dumps({"id": request["id"], "params": params}))


def tool_stateless(params: dict, request: dict) -> dict:
    """Asks for nothing, politely: no state, no requests."""
    if "inputResponses" in params:
        return text_result(json.dumps(params))
    return {"resultType": "input_required", "inputRequests": {}}


def tool_nothing(params: dict, request: dict) -> dict:
    return {"resultType": "input_required"}


def tool_elicit(params: dict, request: dict) -> dict:
    ask = {"method": "elicitation/create", "params": {"message": "Your name?\x1b[2J"}}
    return {"resultType": "input_required", "inputRequests": {"name": ask}, "requestState": "s"}


def tool_capability(params: dict, request: dict) -> None:
    fail(request, -32021, "I need a model", {"requiredCapabilities": {"sampling": {}}})


def tool_ask(params: dict, request: dict) -> dict:
    """Sends a request, which this revision forbids; no answer may come."""
    send(id="ask", method="ping", params={})
    return text_result("asked")


def tool_never(params: dict, request: dict) -> None:
    """No answer; see tool_cancelled."""


def tool_cancelled(params: dict, request: dict) -> dict:
    return text_result(json.dumps(cancelled))


def tool_progress(params: dict, request: dict) -> None:
    """Progress, and no answer."""
    token = params["_meta"]["progressToken"]
    for step in range(3):
        progress = {"progressToken": token, "progress": step, "total": 3, "message": "é"}
        send(method="notifications/progress", params=progress)


def tool_log(params: dict, request: dict) -> dict:
    level = params["_meta"].get(PREFIX + "logLevel")
    send(
        method="notifications/message", params={"level": "warning", "data": "asked for %s" % level}
    )
    return text_result("logged")


def tool_change(params: dict, request: dict) -> dict:
    for listen_id in listens:
        changed(listen_id)
        changed(listen_id)
    return text_result(json.dumps(listens))


def tool_change_wrongly(params: dict, request: dict) -> dict:
    changed(12345)
    return text_result("")


def tool_hang_up(params: dict, request: dict) -> dict:
    """Ends the subscription, in one of two ways, and tells a change after that."""
    for listen_id in listens:
        if params["arguments"].get("gracefully"):
            send(id=listen_id, result=complete(_meta={PREFIX + "subscriptionId": listen_id}))
        else:
            send(method="notifications/cancelled", params={"requestId": listen_id})
        changed(listen_id)
    return text_result("")


def tool_deep(params: dict, request: dict) -> None:
    depth = params["arguments"]["depth"]
    sys.stdout.write(
        '{"jsonrpc":"2.0","id":%d,"result":{"content":[],"structuredContent":' % request["id"]
    )
    sys.stdout.write("[" * depth + "]" * depth + "}}\n")
    sys.stdout.flush()


TOOLS = {name[5:]: value for name, value in list(globals().items()) if name.startswith("tool_")}

# -- the server ------------------------------------------------------------------------------------


def discover(request: dict) -> None:
    state["discovered"] += 1
    if "slow" in MODES and state["discovered"] == 1:
        return  # as if it had been written before the server could read: answered too late
    if "exit" in MODES:
        os._exit(1)
    if "fickle" in MODES and state["discovered"] == 1:
        fail(
            request, UNSUPPORTED, "not this time", {"supported": [REVISION], "requested": REVISION}
        )
        return
    if (code := mode_value("code")) is not None:
        fail(request, int(code), "no", {"requiredCapabilities": {"roots": {}}})
    elif (versions := mode_value("unsupported")) is not None:
        data = {"supported": versions.split(","), "requested": REVISION}
        fail(request, UNSUPPORTED, "Unsupported protocol version", data)
    else:
        versions = mode_value("versions") or "2031-01-01," + REVISION
        capabilities = {"tools": {"listChanged": "quiet" not in MODES}, "logging": {}}
        result = complete(
            supportedVersions=versions.split(","),
            capabilities=capabilities,
            ttlMs=1,
            cacheScope="x",
        )
        if "strange-discover" in MODES:
            result["resultType"] = "input_required"
        send(id=request["id"], result=result)


def handle(request: dict) -> None:
    method, params = request.get("method"), request.get("params") or {}
    seen.append(method if method is not None else "answer")
    if method == "initialize":
        if "dual" in MODES:
            result = {
                "protocolVersion": "2025-06-18",
                "capabilities": {"tools": {}},
                "serverInfo": {},
            }
            send(id=request["id"], result=result)
        elif "unknown-initialize" in MODES:
            fail(request, -32601, "no such method")
        else:
            fail(
                request, UNSUPPORTED, "no handshake", {"supported": [REVISION], "requested": "old"}
            )
    elif method == "notifications/cancelled":
        cancelled.append(params["requestId"])
    elif "id" not in request:
        pass
    elif not is_enveloped(request) and "dual" not in MODES:
        fail(request, -32602, "there is no envelope")
    elif method == "server/discover":
        discover(request)
    elif method == "subscriptions/listen":
        listens.append(request["id"])
        meta = {PREFIX + "subscriptionId": request["id"]}
        send(
            method="notifications/subscriptions/acknowledged",
            params={"_meta": meta, "notifications": params["notifications"]},
        )
    elif method == "tools/list":
        page = int(params.get("cursor", "0"))
        tools = [{"name": name, "inputSchema": {"type": "object"}} for name in TOOLS]
        more = {"nextCursor": str(page + 1)} if page < 2 else {}
        send(
            id=request["id"], result=complete(tools=tools[page::3], ttlMs=-5, cacheScope=7, **more)
        )
    elif method == "tools/call":
        result = TOOLS[params["name"]](params, request)
        if result is not None:
            send(id=request["id"], result=result)
    else:
        fail(request, -32601, "no such method")


for line in sys.stdin:
    handle(json.loads(line))
