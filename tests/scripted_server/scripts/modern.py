# SPDX-License-Identifier: Apache-2.0
"""A server of revision 2026-07-28. Each tool is an answer that the revision has besides results.

Modes: dual (it also takes the handshake), unknown-initialize; quiet (no listChanged), slow,
fickle, code=CODE, unsupported=REVISIONS, versions=REVISIONS, strange-discover (what server/discover
answers).
"""

import json

from scripted_server import (
    META,
    METHOD_NOT_FOUND,
    MODERN,
    MODES,
    UNSUPPORTED_REVISION,
    Raw,
    RpcError,
    Server,
    notify,
    send,
    text,
)

server = Server("modern", MODERN)
server.checks_envelopes = "dual" not in MODES
state = {"discovered": 0, "rounds": 0}


def notify_changed(listen_id):
    notify("notifications/tools/list_changed", _meta={META + "subscriptionId": listen_id})


@server.tool
def echo(request):
    return json.dumps(request.arguments)


@server.tool(name="request")
def whole_request(request):
    return json.dumps(request.message)


@server.tool
def seen(request):
    """The methods of all messages."""
    return json.dumps(server.methods)


@server.tool
def old(request):
    """A result without resultType is complete."""
    return Raw(json.dumps(text("old")))


@server.tool
def strange(request):
    return {"resultType": "task", "task": {"taskId": "1"}, "content": []}


@server.tool
def rounds(request):
    """Asks to see its state as often as the arguments say; then returns the last request."""
    params = request.params
    if "requestState" in params and params["requestState"] != "näkki %d" % state["rounds"]:
        return "wrong state: " + params["requestState"]
    if state["rounds"] < request.arguments["times"]:
        state["rounds"] += 1
        return {"resultType": "input_required", "requestState": "näkki %d" % state["rounds"]}
    return json.dumps({"id": request.id, "params": params})


@server.tool
def stateless(request):
    """Asks for input but for none in particular: no state, no requests."""
    if "inputResponses" in request.params:
        return json.dumps(request.params)
    return {"resultType": "input_required", "inputRequests": {}}


@server.tool
def nothing(request):
    return {"resultType": "input_required"}


@server.tool
def elicit(request):
    ask = {"method": "elicitation/create", "params": {"message": "Your name?\x1b[2J"}}
    return {"resultType": "input_required", "inputRequests": {"name": ask}, "requestState": "s"}


@server.tool
def capability(request):
    raise RpcError(-32021, "I need a model", {"requiredCapabilities": {"sampling": {}}})


@server.tool
def ask(request):
    """Sends a request, which this revision forbids; the client must not answer."""
    send(id="ask", method="ping", params={})
    return "asked"


@server.tool
def never(request):
    """No answer; see `cancelled`."""


@server.tool
def cancelled(request):
    return json.dumps([params["requestId"] for params in server.cancelled])


@server.tool
def progress(request):
    """Progress, and no answer."""
    for step in range(3):
        request.progress(step, total=3, message="é")


@server.tool
def log(request):
    level = request.params["_meta"].get(META + "logLevel")
    notify("notifications/message", level="warning", data="asked for %s" % level)
    return "logged"


@server.tool
def change(request):
    for listen_id in server.listens:
        notify_changed(listen_id)
        notify_changed(listen_id)
    return json.dumps(server.listens)


@server.tool
def change_wrongly(request):
    notify_changed(12345)
    return ""


@server.tool
def hang_up(request):
    """Ends the subscription, in one of two ways, and then reports a change."""
    for listen_id in server.listens:
        if request.arguments.get("gracefully"):
            meta = {META + "subscriptionId": listen_id}
            send(id=listen_id, result={"resultType": "complete", "_meta": meta})
        else:
            notify("notifications/cancelled", requestId=listen_id)
        notify_changed(listen_id)
    return ""


@server.tool
def deep(request):
    depth = request.arguments["depth"]
    nested = "[" * depth + "]" * depth
    return Raw('{"content":[],"structuredContent":' + nested + "}")


@server.on("server/discover")
def discover(request):
    state["discovered"] += 1
    if "slow" in MODES and state["discovered"] == 1:
        return None  # as if it had been written before the server could read: answered too late
    unsupported = MODES.get("unsupported")
    if "fickle" in MODES and state["discovered"] == 1:
        unsupported = MODERN
    if "code" in MODES:
        raise RpcError(int(MODES["code"]), "no", {"requiredCapabilities": {"roots": {}}})
    if unsupported is not None:
        data = {"supported": unsupported.split(","), "requested": MODERN}
        raise RpcError(UNSUPPORTED_REVISION, "Unsupported protocol version", data)
    answer = server.do_server_discover(request)
    answer["capabilities"]["tools"]["listChanged"] = "quiet" not in MODES
    if "versions" in MODES:
        answer["supportedVersions"] = MODES["versions"].split(",")
    if "strange-discover" in MODES:
        answer["resultType"] = "input_required"
    return answer


@server.on("initialize")
def initialize(request):
    if "dual" in MODES:
        return {
            "protocolVersion": "2025-06-18",
            "capabilities": {"tools": {}},
            "serverInfo": {},
        }
    if "unknown-initialize" in MODES:
        raise RpcError(METHOD_NOT_FOUND, "no such method")
    return server.do_initialize(request)


@server.on("tools/list")
def list_tools(request):
    """Three pages, with members of wrong types beside the tools."""
    page = int(request.params.get("cursor", "0"))
    more = {"nextCursor": str(page + 1)} if page < 2 else {}
    tools = list(server.tools.values())[page::3]
    return {"tools": tools, "ttlMs": -5, "cacheScope": 7, **more}
