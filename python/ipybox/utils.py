# SPDX-License-Identifier: Apache-2.0
"""Small helpers for applications."""

from __future__ import annotations

import asyncio
import contextvars
import functools
import math
import socket
from collections.abc import Callable
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


async def arun(func: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Runs a function that blocks, such as `input`, in a thread, and waits for it.

    Args:
        func: The function.
        *args: Its arguments.
        **kwargs: Its keyword arguments.

    Returns:
        What it returns.

    Raises:
        Exception: What it raises.
    """
    call = functools.partial(contextvars.copy_context().run, func, *args, **kwargs)
    return await asyncio.get_running_loop().run_in_executor(None, call)


def find_free_port(host: str = "localhost") -> int:
    """A TCP port that nobody listens on at the moment. Somebody else may take it before you do: to listen on any port, pass
    port 0 where that is possible.

    Args:
        host: The address to look on.

    Returns:
        The port number.

    Raises:
        OSError: If `host` is no address of this machine.
    """
    family, kind, protocol, _, address = socket.getaddrinfo(host, 0, type=socket.SOCK_STREAM)[0]
    with socket.socket(family, kind, protocol) as sock:
        sock.bind(address)
        port: int = sock.getsockname()[1]
    return port


def check_seconds(value: float | None, name: str) -> float | None:
    """A time limit; None for none.

    Raises:
        ValueError: If it is not above 0, or not a number.
    """
    if value is None or value == math.inf:
        return None
    if isinstance(value, str) or not value > 0:
        raise ValueError(
            f"{name} is a number of seconds above 0, or None for no limit, not {value!r}"
        )
    return float(value)
