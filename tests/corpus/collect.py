#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Collects the tool lists of real MCP servers, the corpus for tests of generated code.

Each server of servers.json is installed by name, at its pinned version, into a scratch directory.
It is started with its own HOME and without credentials: variables that only need to be set have
invalid values. It is asked for its tools over stdio, and removed.

The list is stored as <name>.json if the licence of the package allows it. Otherwise servers.json
has the name and the version, and this script gets the list. `licence-by-hand` is what the project
says where its package does not. `not-stored` is another reason not to store a list.

usage: tests/corpus/collect.py [--latest] [--all] [--scratch DIRECTORY] [NAME]...

--latest takes the newest versions and pins them. --all keeps the lists of all licences, for use
here only.

Needs npm and node 20 or later, and uv.
"""

from __future__ import annotations

import argparse
import json
import os
import queue
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
SERVERS = HERE / "servers.json"
START_SECONDS = 90
INSTALL_SECONDS = 600
# Licences under which a list may be stored and distributed.
PERMISSIVE = {
    "MIT",
    "MIT-0",
    "Apache-2.0",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "ISC",
    "0BSD",
    "Unlicense",
    "CC0-1.0",
}
SPELLINGS = {
    "MIT License": "MIT",
    "The MIT License (MIT)": "MIT",
    "Apache License 2.0": "Apache-2.0",
    "Apache 2.0": "Apache-2.0",
    "Apache License, Version 2.0": "Apache-2.0",
    "Apache Software License": "Apache-2.0",
    "Apache-2": "Apache-2.0",
    "BSD-3": "BSD-3-Clause",
    "Apache License Version 2.0": "Apache-2.0",
    "Apache": "Apache-2.0",
}


class Failure(Exception):
    """The server's list could not be collected."""


def run(command: list[str], environ: dict[str, str], directory: Path) -> str:
    done = subprocess.run(
        ["nice", *command],
        env=environ,
        cwd=directory,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=INSTALL_SECONDS,
    )
    if done.returncode != 0:
        raise Failure(f"{' '.join(command)}: {(done.stderr or done.stdout).strip()[-1500:]}")
    return done.stdout


def install_npm(
    package: str, version: str, directory: Path, environ: dict[str, str], more: list[str]
) -> dict[str, Any]:
    """Installs without running the scripts of packages."""
    run(
        [
            "npm",
            "install",
            "--prefix",
            ".",
            "--ignore-scripts",
            "--no-audit",
            "--no-fund",
            "--loglevel=error",
            f"{package}@{version or 'latest'}",
            *more,
        ],
        environ,
        directory,
    )
    home = directory / "node_modules" / package
    about = json.loads((home / "package.json").read_text())
    licence = about.get("license") or ""
    if not isinstance(licence, str):
        licence = str(licence.get("type", ""))
    programs = about.get("bin") or {}
    if isinstance(programs, str):
        programs = {package.rpartition("/")[2]: programs}
    return {
        "version": about["version"],
        "licence": licence or licence_of_text(home),
        "bin": directory / "node_modules/.bin",
        "programs": list(programs),
    }


def install_pypi(
    package: str, version: str, directory: Path, environ: dict[str, str], more: list[str]
) -> dict[str, Any]:
    """Installs from wheels and source distributions, with uv."""
    python = str(directory / "bin/python")
    run(
        ["uv", "venv", "-q", "--allow-existing", "--python", sys.executable, str(directory)],
        environ,
        directory,
    )
    wanted = f"{package}=={version}" if version else package
    run(["uv", "pip", "install", "-q", "--python", python, wanted, *more], environ, directory)
    about = json.loads(run([python, "-c", METADATA, package], environ, directory))
    return {
        "version": about["version"],
        "licence": about["licence"],
        "bin": directory / "bin",
        "programs": about["programs"],
    }


METADATA = """
import json, sys
from importlib import metadata
about = metadata.distribution(sys.argv[1])
fields = about.metadata
classifiers = fields.get_all("Classifier") or []
licences = [text.split(" :: ")[-1] for text in classifiers if text.startswith("License :: OSI")]
text = fields.get("License") or ""
short = text if 0 < len(text) < 60 else ""
licence = fields.get("License-Expression") or short or (licences or [""])[0]
if not licence:
    files = [file for file in about.files or [] if "licen" in file.name.lower()]
    start = (text or (files and files[0].read_text()) or "")[:400]
    licence = "MIT" if "MIT License" in start or "Permission is hereby granted" in start else (
        "Apache-2.0" if "Apache License" in start else "")
programs = [entry.name for entry in about.entry_points if entry.group == "console_scripts"]
print(json.dumps({"version": about.version, "licence": licence, "programs": programs}))
"""


def licence_of_text(home: Path) -> str:
    for path in sorted(home.glob("[Ll][Ii][Cc][Ee][Nn]*")):
        start = path.read_text(errors="replace")[:400]
        if "MIT License" in start or "Permission is hereby granted" in start:
            return "MIT"
        if "Apache License" in start:
            return "Apache-2.0"
    return ""


class Client:
    """A small MCP client on the stdio of a server."""

    def __init__(self, command: list[str], environ: dict[str, str], directory: Path) -> None:
        self.errors = tempfile.TemporaryFile()
        self.process = subprocess.Popen(
            command,
            env=environ,
            cwd=directory,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.errors,
            start_new_session=True,
        )
        self.lines: queue.Queue[bytes | None] = queue.Queue()
        self.next_id = 0
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.lines.put(line)
        self.lines.put(None)

    def _send(self, message: dict[str, Any]) -> None:
        assert self.process.stdin is not None
        try:
            self.process.stdin.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")
            self.process.stdin.flush()
        except OSError as error:
            raise Failure(f"the server is gone: {self.stderr()}") from error

    def request(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        self.next_id += 1
        self._send({"id": self.next_id, "method": method, "params": params})
        while True:
            try:
                line = self.lines.get(timeout=START_SECONDS)
            except queue.Empty:
                raise Failure(
                    f"no answer to {method} in {START_SECONDS} s: {self.stderr()}"
                ) from None
            if line is None:
                raise Failure(f"the server ended: {self.stderr()}")
            try:
                message = json.loads(line)
            except ValueError:
                continue  # some servers print greetings
            if not isinstance(message, dict):
                continue
            if "method" in message and "id" in message:
                self._answer(message)
            elif message.get("id") == self.next_id:
                if "error" in message:
                    raise Failure(f"{method}: {json.dumps(message['error'])[:500]}")
                return message["result"]

    def _answer(self, message: dict[str, Any]) -> None:
        if message["method"] == "roots/list":
            self._send({"id": message["id"], "result": {"roots": [{"uri": "file:///tmp"}]}})
        elif message["method"] == "ping":
            self._send({"id": message["id"], "result": {}})
        else:
            self._send({"id": message["id"], "error": {"code": -32601, "message": "not here"}})

    def notify(self, method: str) -> None:
        self._send({"method": method})

    def stderr(self) -> str:
        self.errors.seek(0)
        return self.errors.read()[-1500:].decode(errors="replace").strip()

    def close(self) -> None:
        with_group = (signal.SIGTERM, signal.SIGKILL)
        if self.process.stdin is not None:
            try:
                self.process.stdin.close()
            except OSError:
                pass
        for number in with_group:
            try:
                self.process.wait(5)
            except subprocess.TimeoutExpired:
                pass
            try:
                os.killpg(self.process.pid, number)
            except ProcessLookupError:
                break
        self.process.wait()


def list_tools(client: Client) -> list[dict[str, Any]]:
    client.request(
        "initialize",
        {
            "protocolVersion": "2025-06-18",
            "capabilities": {"roots": {}, "sampling": {}, "elicitation": {}},
            "clientInfo": {"name": "corpus", "version": "1"},
        },
    )
    client.notify("notifications/initialized")
    tools: list[dict[str, Any]] = []
    cursor = None
    while True:
        result = client.request("tools/list", {"cursor": cursor} if cursor else {})
        tools += result["tools"]
        cursor = result.get("nextCursor")
        if not cursor:
            return tools


def environment(scratch: Path) -> dict[str, str]:
    """Nothing of the user's, except where tools are and how registries are reached."""
    kept = {
        "PATH",
        "LANG",
        "SSL_CERT_FILE",
        "REQUESTS_CA_BUNDLE",
        "NODE_EXTRA_CA_CERTS",
        "http_proxy",
        "https_proxy",
        "HTTP_PROXY",
        "HTTPS_PROXY",
        "no_proxy",
        "NO_PROXY",
    }
    kept |= {
        name
        for name in os.environ
        if name.startswith(("npm_config_", "PIP_", "UV_", "NPM_CONFIG_"))
    }
    environ = {name: value for name, value in os.environ.items() if name in kept}
    home = scratch / "home"
    home.mkdir(exist_ok=True)
    return environ | {
        "HOME": str(home),
        "npm_config_cache": str(scratch / "npm-cache"),
        "UV_CACHE_DIR": str(scratch / "uv-cache"),
        "UV_LINK_MODE": "copy",
        "PUPPETEER_SKIP_DOWNLOAD": "1",
        "PLAYWRIGHT_SKIP_BROWSER_DOWNLOAD": "1",
    }


def simplify(licence: str) -> str:
    return SPELLINGS.get(licence.strip(), licence.strip())


def may_be_stored(licence: str) -> bool:
    """All licences of an AND, one of an OR."""
    return any(
        all(part.strip() in PERMISSIVE for part in choice.split(" AND "))
        for choice in licence.replace("(", "").replace(")", "").split(" OR ")
    )


def without_paths(text: str, scratch: Path) -> str:
    """Descriptions may name the directory in which the server runs."""
    return text.replace(json.dumps(str(scratch))[1:-1], "/tmp/scratch")


def list_text(data: dict[str, Any]) -> str:
    """The text of NAME.json: one line for the package and one for each tool."""
    about = json.dumps({name: value for name, value in data.items() if name != "tools"})
    return f'{about[:-1]}, "tools": {tools_text(data["tools"])}}}\n'


def tools_text(tools: list[dict[str, Any]]) -> str:
    lines = ",\n".join(json.dumps(tool, ensure_ascii=False) for tool in tools)
    return f"[\n{lines}\n]"


def servers_text(servers: dict[str, Any]) -> str:
    """The text of servers.json: one line for each server, sorted by name."""
    lines = (f"{json.dumps(name)}: {json.dumps(servers[name])}" for name in sorted(servers))
    return "{\n" + ",\n".join(lines) + "\n}\n"


def collect(name: str, server: dict[str, Any], scratch: Path, latest: bool, keep_all: bool) -> str:
    registry, _, package = server["package"].partition(":")
    directory = Path(tempfile.mkdtemp(prefix=f"{name}-", dir=scratch))
    environ = environment(scratch)
    try:
        install = install_npm if registry == "npm" else install_pypi
        version = "" if latest else server.get("version", "")
        found = install(package, version, directory, environ, server.get("with", []))
        server["version"] = found["version"]
        server["licence"] = server.get("licence-by-hand") or simplify(found["licence"])
        words = list(server.get("run", []))
        if not words or words[0].startswith("-"):
            plain = package.rpartition("/")[2]
            words.insert(
                0,
                plain
                if plain in found["programs"] or not found["programs"]
                else found["programs"][0],
            )
        words = [re.sub(r"\$SCRATCH\b", str(directory), word) for word in words]
        command = ["nice", str(found["bin"] / words[0]), *words[1:]]
        mine = {
            key: re.sub(r"\$SCRATCH\b", str(directory), value)
            for key, value in server.get("env", {}).items()
        }
        for file, text in server.get("files", {}).items():
            (directory / file).write_text(text)
        client = Client(command, environ | mine, directory)
        try:
            tools = list_tools(client)
        finally:
            client.close()
        text = without_paths(json.dumps(tools), directory)
        tools = json.loads(without_paths(text, scratch))
        server["tools"] = len(tools)
        stored = may_be_stored(server["licence"]) and "not-stored" not in server
        server["stored"] = stored
        if not stored and not keep_all:
            (HERE / f"{name}.json").unlink(missing_ok=True)
        else:
            data = {
                "package": server["package"],
                "version": server["version"],
                "licence": server["licence"],
                "tools": tools,
            }
            (HERE / f"{name}.json").write_text(list_text(data))
        return f"{len(tools)} tools, {server['licence'] or 'licence unknown'}, {server['version']}"
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def main() -> int:
    parser = argparse.ArgumentParser(description="Collects the tool lists of real MCP servers.")
    parser.add_argument(
        "--latest", action="store_true", help="take the newest versions and pin them"
    )
    parser.add_argument("--all", action="store_true", help="keep the lists of all licences")
    parser.add_argument("--scratch", type=Path, help="where to install; a new directory")
    parser.add_argument("names", nargs="*", metavar="NAME")
    arguments = parser.parse_args()
    servers = json.loads(SERVERS.read_text())
    scratch = Path(arguments.scratch or tempfile.mkdtemp(prefix="corpus-"))
    scratch.mkdir(exist_ok=True)
    failed = 0
    for name in arguments.names or sorted(servers):
        server = servers[name]
        try:
            print(
                f"{name}: {collect(name, server, scratch, arguments.latest, arguments.all)}",
                flush=True,
            )
        except (Failure, OSError, KeyError, ValueError, subprocess.TimeoutExpired) as error:
            failed += 1
            print(f"{name}: FAILED: {error}", flush=True)
            continue
        SERVERS.write_text(servers_text(servers))
    if arguments.scratch is None:
        shutil.rmtree(scratch, ignore_errors=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
