# SPDX-License-Identifier: Apache-2.0
"""A stand-in for a model: an HTTP server that returns scripted tool calls to a host.

It speaks the APIs that hosts use: Anthropic's Messages, OpenAI's Chat Completions and Responses,
and Gemini's streamGenerateContent. A request that offers the tool of the script gets the next call
of the script: the first if the conversation has no result of a tool, the second if it has one.
After the last call, and without the tool, the answer is the text "done". So the server keeps no
state but what it received.
"""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

# Arguments of a call of the script's tool, or another tool and its arguments.
Step = dict[str, Any] | tuple[str, dict[str, Any]]
MAX_BODY = 64 << 20
Event = tuple[str | None, dict[str, Any]]


@dataclass
class Result:
    """What the model gets from a tool."""

    text: str
    images: int


@dataclass
class Request:
    api: str
    body: dict[str, Any]
    tools: list[str] = field(default_factory=list)
    results: list[Result] = field(default_factory=list)
    # Of tools that are in a group, the name of the group.
    groups: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Turn:
    """What the model says: a call, or the text "done" without one."""

    number: int
    tool: str | None = None
    arguments: dict[str, Any] = field(default_factory=dict)
    group: str | None = None


def result_of(content: Any) -> Result:
    """Content is a text, or blocks in one of several shapes."""
    if isinstance(content, str):
        return Result(content, 0)
    texts = [part["text"] for part in content if "text" in part]
    images = [part for part in content if "image" in part.get("type", "")]
    return Result("".join(texts), len(images))


# --- Anthropic's Messages ---------------------------------------------------------------------


def read_messages(request: Request) -> None:
    request.tools = [tool["name"] for tool in request.body.get("tools", [])]
    for message in request.body["messages"]:
        for block in message["content"] if isinstance(message["content"], list) else []:
            if block["type"] == "tool_result":
                request.results.append(result_of(block.get("content", "")))


def write_messages(turn: Turn) -> Iterator[Event]:
    block: dict[str, Any] = {"type": "text", "text": ""}
    delta: dict[str, Any] = {"type": "text_delta", "text": "done"}
    if turn.tool:
        block = {"type": "tool_use", "id": f"toolu_{turn.number}", "name": turn.tool, "input": {}}
        delta = {"type": "input_json_delta", "partial_json": json.dumps(turn.arguments)}
    message = {
        "id": f"msg_{turn.number}",
        "type": "message",
        "role": "assistant",
        "model": "stand-in",
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": {"input_tokens": 1, "output_tokens": 1},
    }
    reason = "tool_use" if turn.tool else "end_turn"
    for event in (
        {"type": "message_start", "message": message},
        {"type": "content_block_start", "index": 0, "content_block": block},
        {"type": "content_block_delta", "index": 0, "delta": delta},
        {"type": "content_block_stop", "index": 0},
        {
            "type": "message_delta",
            "delta": {"stop_reason": reason, "stop_sequence": None},
            "usage": {"output_tokens": 1},
        },
        {"type": "message_stop"},
    ):
        yield str(event["type"]), event


# --- OpenAI's Chat Completions ----------------------------------------------------------------


def read_chat(request: Request) -> None:
    request.tools = [tool["function"]["name"] for tool in request.body.get("tools", [])]
    for message in request.body["messages"]:
        if message["role"] == "tool":
            request.results.append(result_of(message["content"]))
        elif message["role"] == "user" and request.results:
            # Tools return text only; hosts send images of results as messages of the user.
            request.results[-1].images += result_of(message["content"]).images


def write_chat(turn: Turn) -> Iterator[Event]:
    delta: dict[str, Any] = {"role": "assistant", "content": "done"}
    if turn.tool:
        function = {"name": turn.tool, "arguments": json.dumps(turn.arguments)}
        call = {"index": 0, "id": f"call_{turn.number}", "type": "function", "function": function}
        delta = {"role": "assistant", "content": None, "tool_calls": [call]}
    for part, reason in ((delta, None), ({}, "tool_calls" if turn.tool else "stop")):
        choice = {"index": 0, "delta": part, "finish_reason": reason}
        yield (
            None,
            {
                "id": f"chat-{turn.number}",
                "object": "chat.completion.chunk",
                "created": 1,
                "model": "stand-in",
                "choices": [choice],
            },
        )


# --- OpenAI's Responses -----------------------------------------------------------------------


def read_responses(request: Request) -> None:
    for tool in request.body.get("tools", []):
        # The tools of an MCP server are a namespace. Tools of the provider have no name.
        if tool["type"] == "namespace":
            request.groups |= {each["name"]: tool["name"] for each in tool["tools"]}
        elif "name" in tool:
            request.tools.append(tool["name"])
    request.tools += request.groups
    for item in request.body["input"]:
        if item["type"] == "function_call_output":
            request.results.append(result_of(item["output"]))


def write_responses(turn: Turn) -> Iterator[Event]:
    response: dict[str, Any] = {"id": f"resp_{turn.number}"}
    item: dict[str, Any] = {
        "type": "message",
        "id": f"msg_{turn.number}",
        "role": "assistant",
        "content": [{"type": "output_text", "text": "done"}],
    }
    if turn.tool:
        item = {
            "type": "function_call",
            "id": f"fc_{turn.number}",
            "call_id": f"call_{turn.number}",
            "name": turn.tool,
            "arguments": json.dumps(turn.arguments),
        } | ({"namespace": turn.group} if turn.group else {})
    usage = {"input_tokens": 1, "output_tokens": 1, "total_tokens": 2}
    for event in (
        {"type": "response.created", "response": response},
        {"type": "response.output_item.done", "output_index": 0, "item": item},
        {"type": "response.completed", "response": response | {"usage": usage}},
    ):
        yield str(event["type"]), event


# --- Gemini's streamGenerateContent -----------------------------------------------------------


def read_gemini(request: Request) -> None:
    for group in request.body.get("tools", []):
        request.tools += [tool["name"] for tool in group.get("functionDeclarations", [])]
    for content in request.body["contents"]:
        for part in content["parts"]:
            if "functionResponse" in part:
                request.results.append(gemini_result(part["functionResponse"]))
            elif "inlineData" in part and request.results:
                # Older models take images of results as parts of their own.
                request.results[-1].images += 1


def gemini_result(answer: dict[str, Any]) -> Result:
    images = [part for part in answer.get("parts", []) if "inlineData" in part]
    return Result("".join(str(text) for text in answer["response"].values()), len(images))


def write_gemini(turn: Turn) -> Iterator[Event]:
    part: dict[str, Any] = {"text": "done"}
    if turn.tool:
        part = {"functionCall": {"name": turn.tool, "args": turn.arguments}}
    candidate = {"content": {"role": "model", "parts": [part]}, "finishReason": "STOP", "index": 0}
    usage = {"promptTokenCount": 1, "candidatesTokenCount": 1, "totalTokenCount": 2}
    yield None, {"candidates": [candidate], "usageMetadata": usage, "modelVersion": "stand-in"}


APIS = {
    "/messages": (read_messages, write_messages),
    "/chat/completions": (read_chat, write_chat),
    "/responses": (read_responses, write_responses),
    ":streamGenerateContent": (read_gemini, write_gemini),
}


class ModelServer:
    """A context manager. `steps` are the arguments of the calls of `tool`, a part of its name. A
    step with a name calls that tool."""

    def __init__(self, tool: str, steps: Sequence[Step]):
        self.tool = tool
        self.steps = steps
        self.requests: list[Request] = []
        self.others: list[str] = []
        self._lock = threading.Lock()
        model = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                size = int(self.headers.get("Content-Length", 0))
                if size > MAX_BODY:
                    self.answer(413, "application/json", b"{}")
                    return
                body = self.rfile.read(size)
                path = self.path.partition("?")[0]
                api = next((api for api in APIS if path.endswith(api)), None)
                if api is None:
                    model.others.append(f"POST {path}")
                    self.answer(404, "application/json", b"{}")
                    return
                events = [
                    (f"event: {name}\n" if name else "") + f"data: {json.dumps(data)}\n\n"
                    for name, data in model.next(api, json.loads(body))
                ]
                if api == "/chat/completions":
                    events.append("data: [DONE]\n\n")
                self.answer(200, "text/event-stream", "".join(events).encode())

            def do_GET(self) -> None:
                model.others.append(f"GET {self.path}")
                self.answer(404, "application/json", b"{}")

            do_HEAD = do_GET

            def answer(self, status: int, kind: str, body: bytes) -> None:
                self.send_response(status)
                self.send_header("Content-Type", kind)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                if self.command != "HEAD":
                    self.wfile.write(body)

            def log_message(self, *args: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"

    def __enter__(self) -> ModelServer:
        self._thread = threading.Thread(target=self._server.serve_forever)
        self._thread.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def next(self, api: str, body: dict[str, Any]) -> Iterator[Event]:
        read, write = APIS[api]
        request = Request(api, body)
        read(request)
        with self._lock:
            self.requests.append(request)
            number = len(self.requests)
        done = len(request.results)
        step = self.steps[done] if done < len(self.steps) else {}
        tool, arguments = step if isinstance(step, tuple) else (self.tool, step)
        name = next((name for name in request.tools if name.endswith(tool)), None)
        if name is None or done >= len(self.steps):
            return write(Turn(number))
        # As a model does that reads what results say.
        told = re.search(r"\[session_id: (\w+)\.", "".join(r.text for r in request.results))
        session = {"session_id": told[1]} if told else {}
        return write(Turn(number, name, arguments | session, request.groups.get(name)))

    def results(self) -> list[Result]:
        """What the model received from the tools, in the conversation that went furthest."""
        return max((request.results for request in self.requests), key=len, default=[])
