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
        The function's result.

    Raises:
        Exception: The function's exception.
    """
    call = functools.partial(contextvars.copy_context().run, func, *args, **kwargs)
    return await asyncio.get_running_loop().run_in_executor(None, call)


def find_free_port(host: str = "localhost") -> int:
    """Finds a TCP port that no process listens on at the moment.

    Another process may take it before you do. If possible, listen on port 0 instead.

    Args:
        host: The address on which the port is free.

    Returns:
        The port number.

    Raises:
        OSError: If `host` is not an address of this machine.
    """
    family, kind, protocol, _, address = socket.getaddrinfo(host, 0, type=socket.SOCK_STREAM)[0]
    with socket.socket(family, kind, protocol) as sock:
        sock.bind(address)
        port: int = sock.getsockname()[1]
    return port


def check_seconds(value: float | None, name: str) -> float | None:
    """Checks a time limit.

    Args:
        value: Seconds; None or infinity for no limit.
        name: The parameter's name, for the error.

    Returns:
        The seconds; None for no limit.

    Raises:
        ValueError: If the value is not a number above 0.
    """
    if value is None or value == math.inf:
        return None
    if isinstance(value, str) or not value > 0:
        raise ValueError(
            f"{name} must be a number of seconds above 0, or None for no limit, not {value!r}"
        )
    return float(value)
