# SPDX-License-Identifier: Apache-2.0
"""Lines of JSON: splits a stream into lines, encodes and decodes them."""

from __future__ import annotations

import json
from typing import Any

# The longest messages to the core and from it, `docs/internals/rpc.md`.
MAX_MESSAGE_BYTES = 64 * 1024 * 1024
MAX_RECEIVED_BYTES = 512 * 1024 * 1024


class HugeInteger(str):
    """The digits of an integer that Python refuses to read (more than
    sys.get_int_max_str_digits())."""


def encode(message: dict[str, Any]) -> bytes:
    """A message as one line of JSON. Lone surrogates become escapes.

    Raises:
        ValueError: If the message contains NaN or infinity, is circular, or is too large.
        TypeError: If it contains a value that JSON does not have.
    """
    line = json.dumps(message, allow_nan=False, separators=(",", ":")).encode("ascii")
    if len(line) >= MAX_MESSAGE_BYTES:
        raise ValueError(
            f"too large for the core: {len(line)} bytes, the limit is {MAX_MESSAGE_BYTES}"
        )
    return line + b"\n"


def decode(line: bytes) -> Any:
    """The JSON value of a line.

    Raises:
        ValueError: If it is not JSON.
        RecursionError: If it is nested too deeply for this thread.
    """
    return parse(line.decode("utf-8", "surrogatepass"))


def parse(text: str) -> Any:
    """The JSON value of a text. Integers that are too long for Python become HugeInteger.

    Raises:
        ValueError: If it is not JSON.
        RecursionError: If it is nested too deeply for this thread.
    """
    try:
        return json.loads(text)
    except json.JSONDecodeError:
        raise
    except ValueError:
        return json.loads(text, parse_int=_read_integer)


def _read_integer(digits: str) -> int | HugeInteger:
    try:
        return int(digits)
    except ValueError:
        return HugeInteger(digits)


class LineCutter:
    """Cuts a stream of bytes into lines, in linear time."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def feed(self, data: bytes) -> list[bytes]:
        """Adds bytes, and returns the lines that they complete.

        Raises:
            ValueError: If a line exceeds MAX_RECEIVED_BYTES.
        """
        end = data.rfind(b"\n") + 1
        if end == 0:
            self._keep(data)
            return []
        self._buffer += data[:end]
        lines = bytes(self._buffer).split(b"\n")
        self._buffer = bytearray(data[end:])
        return [line for line in lines if line]

    def _keep(self, data: bytes) -> None:
        self._buffer += data
        if len(self._buffer) > MAX_RECEIVED_BYTES:
            raise ValueError(f"a line of more than {MAX_RECEIVED_BYTES} bytes")
