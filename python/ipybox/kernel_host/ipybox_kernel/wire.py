# SPDX-License-Identifier: Apache-2.0
"""Frames of the kernel wire: types, encoding, and a reader."""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator
from typing import Any

VERSION = 1
MAX_FRAME = 64 * 1024 * 1024  # type, marker and payload

START = 1
EXECUTE = 2
SHUTDOWN = 3
REQUEST = 4
INPUT = 5
PIPES = 6
COMM_TO_KERNEL = 7
BRANCH = 8
PARK = 9
RESTORE = 10  # read in C, by a parked copy

HELLO = 64
DISPLAY = 65
UPDATE_DISPLAY = 66
CLEAR_OUTPUT = 67
RESULT = 68
ERROR = 69
DONE = 70
REPLY = 71
INPUT_REQUEST = 72
INPUT_END = 73
STREAM = 74
COMM = 75
PIPES_WANTED = 76
PIPES_TAKEN = 77
BRANCHED = 78

_HEAD = struct.Struct("<IBI")
_LENGTH_SIZE = 4
_HEAD_REST = _HEAD.size - _LENGTH_SIZE

_encode_text = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode
_encode_ascii = json.JSONEncoder(allow_nan=False, separators=(",", ":")).encode


class FrameTooLarge(ValueError):
    def __init__(self, size: int) -> None:
        super().__init__(f"{size / 1e6:.0f} MB; at most {MAX_FRAME / 1e6:.0f} MB can be sent")


def encode_payload(payload: dict[str, Any]) -> bytes:
    """Encodes JSON in UTF-8. Lone surrogates, which UTF-8 cannot encode, become escapes."""
    try:
        data = _encode_text(payload).encode()
    except UnicodeEncodeError:
        data = _encode_ascii(payload).encode()
    if len(data) + _HEAD_REST > MAX_FRAME:
        raise FrameTooLarge(len(data))
    return data


def frame(kind: int, marker: int, payload: bytes) -> bytes:
    return _HEAD.pack(len(payload) + _HEAD_REST, kind, marker) + payload


class FrameReader:
    """Takes bytes as they arrive, and yields (type, payload) for each complete frame."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def clear(self) -> None:
        """Drops what was fed, also for those who are in the middle of `frames`."""
        self._buffer.clear()

    def feed(self, data: bytes) -> None:
        self._buffer += data

    def frames(self) -> Iterator[tuple[int, dict[str, Any]]]:
        while len(self._buffer) >= _HEAD.size:
            length, kind, _ = _HEAD.unpack_from(self._buffer)
            if not _HEAD_REST <= length <= MAX_FRAME:
                raise ValueError(f"a frame of {length} bytes")
            end = _LENGTH_SIZE + length
            if len(self._buffer) < end:
                return
            payload = json.loads(self._buffer[_HEAD.size : end])
            del self._buffer[:end]
            yield kind, payload
