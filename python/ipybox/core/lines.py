# SPDX-License-Identifier: Apache-2.0
"""Lines of JSON: cutting them out of a stream, and reading what kernels and MCP servers put into them."""

from __future__ import annotations

import json
from typing import Any

# What the core takes and gives at most, `docs/internals/rpc.md`.
MAX_MESSAGE_BYTES = 64 * 1024 * 1024
MAX_RECEIVED_BYTES = 512 * 1024 * 1024


class HugeInteger(str):
    """The digits of an integer that Python refuses to read (more than sys.get_int_max_str_digits())."""


def encode(message: dict[str, Any]) -> bytes:
    """One line. Lone surrogates become escapes.

    Raises:
        ValueError: If the message holds NaN or infinity, is circular, or is too large.
        TypeError: If it holds what JSON has not.
    """
    line = json.dumps(message, allow_nan=False, separators=(",", ":")).encode("ascii")
    if len(line) >= MAX_MESSAGE_BYTES:
        raise ValueError(
            f"too large for the core: {len(line)} bytes, the limit is {MAX_MESSAGE_BYTES}"
        )
    return line + b"\n"


def decode(line: bytes) -> Any:
    """What a line holds.

    Raises:
        ValueError: If it is no JSON.
        RecursionError: If it is nested too deep for this thread.
    """
    return parse(line.decode("utf-8", "surrogatepass"))


def parse(text: str) -> Any:
    """What a JSON text holds. Integers may have any length: HugeInteger.

    Raises:
        ValueError: If it is no JSON.
        RecursionError: If it is nested too deep for this thread.
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
    """Cuts what is read into lines; each byte is looked at once."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def feed(self, data: bytes) -> list[bytes]:
        """The lines that `data` completes.

        Raises:
            ValueError: If a line is longer than a message may be.
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
