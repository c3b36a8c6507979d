# SPDX-License-Identifier: Apache-2.0
"""Generates typed Python APIs for the tools of MCP servers."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path
from typing import Any

from .core import acquire_core

__all__ = ["generate_mcp_sources", "sanitize_name"]


async def generate_mcp_sources(
    server_name: str,
    server_params: dict[str, Any],
    root_dir: Path,
    async_api: bool = False,
    *,
    connect_timeout: float = 30,
) -> list[str]:
    """Generates a Python package from the tools of an MCP server, and registers the server.

    This connects to the server, lists its tools, and writes the directory `root_dir/server_name`
    with a module for each tool. A module has a class `Params` for the arguments, a class `Result`
    if the tool declares what it returns (else results are `str`), and the function `run`. An
    existing package is replaced as a whole; if this fails, it stays as it was.

    `${NAME}` in the parameters is replaced when the server is connected, from the environment and
    from `.env` in the current directory. The package does not contain the values.

    Args:
        server_name: Name of the package, a Python identifier.
        server_params: `command`, `args` and `env` of a program, or `url` and `headers` of a server
            over HTTP.
        root_dir: Directory of the package; it is created if it does not exist.
        async_api: Whether `run` is a coroutine function.
        connect_timeout: Seconds that the server may take to start.

    Returns:
        The names of the modules.

    Raises:
        ValueError: If the name or the parameters are wrong.
        FileNotFoundError: If the command or a variable does not exist. It is also a LookupError.
        TimeoutError: If the server takes longer than `connect_timeout`.
        RuntimeError: If the server fails; the text has the last lines of its output.
    """
    core = acquire_core()
    try:
        result = await core.call(
            "sources.generate",
            {
                "server_name": server_name,
                "server_params": server_params,
                "root_dir": os.path.abspath(root_dir),
                "async_api": async_api,
                "env": dict(os.environ),
                "workspace": os.getcwd(),
                "python": sys.executable or None,
                "connect_timeout": connect_timeout,
            },
        )
    finally:
        core.release()
    return [str(name) for name in result["tools"]]


def sanitize_name(name: str) -> str:
    """The name of a tool's module: lower-case, with `_` for every character but a-z, A-Z, 0-9 and
    `_`.

    If Python cannot import a module of that name, generated packages change it further. See
    `generate_mcp_sources`, which returns the real names.

    Args:
        name: The tool's name.

    Returns:
        The module's name.
    """
    return re.sub(r"[^a-zA-Z0-9_]", "_", name).lower()
