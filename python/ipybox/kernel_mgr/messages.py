# SPDX-License-Identifier: Apache-2.0
"""Jupyter's messages on a WebSocket, in the default framing."""

from __future__ import annotations

import base64
import json
import uuid
from datetime import datetime, timezone
from typing import Any

from ..core.lines import parse

PROTOCOL = "5.3"


def make_request(session: str, msg_type: str, content: dict[str, Any]) -> tuple[str, str]:
    """Makes a request for the shell channel.

    Returns:
        Its text and its id.
    """
    msg_id = uuid.uuid4().hex
    header = {
        "msg_id": msg_id,
        "msg_type": msg_type,
        "session": session,
        "username": "ipybox",
        "date": datetime.now(timezone.utc).isoformat(),
        "version": PROTOCOL,
    }
    message = {
        "channel": "shell",
        "header": header,
        "parent_header": {},
        "metadata": {},
        "content": content,
        "buffers": [],
    }
    return json.dumps(message), msg_id


def parse_message(params: dict[str, Any]) -> dict[str, Any] | None:
    """Parses the params of a `websocket.message` of the core. None: it is not a Jupyter message."""
    text: str | bytes | None = params.get("text")
    try:
        if text is None:
            text = _first_part(base64.b64decode(params["base64"]))
        message = parse(text if isinstance(text, str) else text.decode("utf-8", "surrogatepass"))
    except (ValueError, KeyError, RecursionError):
        return None
    return message if isinstance(message, dict) else None


def parent_id(message: dict[str, Any]) -> str:
    """The id of the request that a message belongs to."""
    parent = message.get("parent_header")
    return str(parent.get("msg_id", "")) if isinstance(parent, dict) else ""


def message_type(message: dict[str, Any]) -> str:
    """The type of a message, which servers put in the header or beside it."""
    header = message.get("header")
    found = header.get("msg_type") if isinstance(header, dict) else None
    return str(found or message.get("msg_type") or "")


def is_idle(message: dict[str, Any]) -> bool:
    """Whether this is the last message of its request on iopub."""
    content = message.get("content")
    return (
        message_type(message) == "status"
        and isinstance(content, dict)
        and content.get("execution_state") == "idle"
    )


def is_notice(message: dict[str, Any]) -> bool:
    """Whether this is a notice of ipybox's gateway, which marks notices among a cell's output."""
    metadata = message.get("metadata")
    mark = metadata.get("ipybox") if isinstance(metadata, dict) else None
    return isinstance(mark, dict) and mark.get("notice") is True


def _first_part(frame: bytes) -> bytes:
    """The JSON of a message that has binary buffers after it."""
    n_parts = int.from_bytes(frame[:4], "big")
    start = int.from_bytes(frame[4:8], "big")
    end = int.from_bytes(frame[8:12], "big") if n_parts > 1 else len(frame)
    return frame[start:end]
