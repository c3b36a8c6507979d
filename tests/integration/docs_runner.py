# SPDX-License-Identifier: Apache-2.0
"""Runs the blocks of a document in order, as a reader does who follows it from top to bottom.

The blocks share a directory with the repository's examples/, the files of earlier blocks, and
exported variables. `ipybox` is the program under test. `uvx` and `npx` start the MCP servers that
scripts/test-setup fetched, not the newest ones.
"""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
import tomllib
from pathlib import Path

import docs_pictures
import harness
from docs_blocks import BadBlock, Block
from docs_program import CExamples
from mcp_driver import McpServer

# Placeholders for real paths, in commands and in their output.
PLACES = ("/path/to/workspace", "/path/to/ipybox", "/path/to/venv")
# Matches anything within a line; alone on a line, any lines.
ANYTHING = "…"
MAX_SECONDS = 120

UVX = """#!/bin/sh
# usage: uvx SERVER [ARGUMENT]...
name=$1
shift
for directory in {cache}/mcp2/bin {cache}/mcp1/bin; do
    [ ! -x "$directory/$name" ] || exec "$directory/$name" "$@"
done
echo "uvx of the tests: no $name here" >&2
exit 1
"""
NPX = """#!/bin/sh
# usage: npx -y @modelcontextprotocol/SERVER [ARGUMENT]...
[ "$1" != -y ] || shift
script={cache}/node/node_modules/$1/dist/index.js
shift
exec {cache}/node/bin/node "$script" "$@"
"""
# `python` has the package installed.
PYTHON = """#!/bin/sh
PYTHONPATH={root}/python IPYBOX_BIN={ipybox} exec {root}/.venv/bin/python "$@"
"""


def lines_match(shown: str, printed: str) -> bool:
    """Whether a document shows what was printed.

    See ANYTHING. White space at the ends of lines is ignored.
    """
    pattern = ""
    for line in shown.rstrip().splitlines():
        if line.strip() == ANYTHING:
            pattern += r"(?:[^\n]*\n)*?"
        else:
            pattern += "[^\n]*?".join(map(re.escape, line.rstrip().split(ANYTHING))) + r"\n"
    text = "".join(line.rstrip() + "\n" for line in printed.rstrip().splitlines())
    return re.fullmatch(pattern, text) is not None


def commands_of(text: str) -> list[tuple[str, str]]:
    """The commands of a console block, each with its output.

    A line that ends in a backslash continues on the next line.
    """
    commands: list[tuple[str, str]] = []
    goes_on = False
    for line in text.splitlines():
        if goes_on:
            commands[-1] = (f"{commands[-1][0]}\n{line}", "")
        elif line.startswith("$ "):
            commands.append((line[2:], ""))
        elif commands:
            commands[-1] = (commands[-1][0], f"{commands[-1][1]}{line}\n")
        else:
            raise BadBlock("a console block begins with a command: $ …")
        goes_on = line.endswith("\\") and (goes_on or line.startswith("$ "))
    return commands


class Runner:
    def __init__(self, ipybox: str, place: harness.Place):
        self.ipybox = ipybox
        self.place = place
        self.directory = place.workspace
        installed = place.root / "venv"
        self.names = dict(
            zip(PLACES, map(str, (place.workspace, harness.ROOT, installed)), strict=True)
        )
        self.printed = ""  # by the previous block
        self.programs = CExamples(Path(ipybox).parent, place)
        self.kept = place.root / "kept"
        self.kept.mkdir()
        shutil.copytree(harness.ROOT / "examples", place.workspace / "examples")
        commands = place.root / "bin"
        commands.mkdir()
        (installed / "bin").mkdir(parents=True)
        for directory in (commands, installed / "bin"):
            (directory / "ipybox").symlink_to(ipybox)
        for name, text in (("uvx", UVX), ("npx", NPX), ("python", PYTHON)):
            (commands / name).write_text(
                text.format(cache=harness.CACHE, root=harness.ROOT, ipybox=ipybox)
            )
            (commands / name).chmod(0o755)
        # What a reader installs beside ipybox.
        (commands / "mcp-server-time").symlink_to(harness.CACHE / "mcp2/bin/mcp-server-time")
        place.environ["LC_ALL"] = "C.UTF-8"  # ls sorts by it
        place.environ["PATH"] = f"{commands}:{place.environ['PATH']}"

    def real(self, text: str) -> str:
        for name, path in self.names.items():
            text = text.replace(name, path)
        return text

    def shell(self, script: str, stdin: str | None = None) -> subprocess.CompletedProcess[str]:
        """Runs it in the directory and with the variables that earlier blocks left; stderr goes to
        stdout.
        """
        begin = (
            f"[ ! -e {self.kept}/env ] || . {self.kept}/env; [ ! -e {self.kept}/cwd ] || cd "
            f'"$(cat {self.kept}/cwd)"\n'
        )
        begin += f"trap 'export -p >{self.kept}/env; pwd >{self.kept}/cwd' EXIT\n"
        given = {"input": stdin} if stdin is not None else {"stdin": subprocess.DEVNULL}
        return subprocess.run(
            ["bash", "-c", begin + self.real(script)],
            cwd=self.directory,
            env=self.place.environ,
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=MAX_SECONDS,
            start_new_session=True,
            **given,
        )

    def must(self, script: str, status: int = 0, stdin: str | None = None) -> str:
        done = self.shell(script, stdin)
        if done.returncode != status:
            raise BadBlock(f"`{script}` ends with {done.returncode}:\n{done.stdout}")
        return done.stdout

    def file(self, name: str) -> Path:
        kept = self.kept / "cwd"
        return Path(kept.read_text().strip() if kept.exists() else self.directory, self.real(name))

    # Kinds

    def run(self, block: Block) -> None:
        try:
            for command in block.before:
                self.must(command)
            if "not run" in block.marks:
                return
            if "file" in block.marks:
                path = self.file(block.marks["file"])
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(self.real(block.text))
            if "excerpt of" in block.marks:
                self.check_excerpt(block)
            elif "output" in block.marks:
                self.compare("the block above", block.text, self.printed)
            elif block.kind != "text" and not (
                "file" in block.marks and block.kind in ("python", "sh")
            ):
                self.printed = getattr(self, f"run_{block.kind}")(block) or ""
        except (BadBlock, subprocess.TimeoutExpired) as problem:
            raise AssertionError(f"{block}: {problem}") from None

    def compare(self, what: str, shown: str, printed: str) -> None:
        if not lines_match(self.real(shown), printed):
            raise BadBlock(f"{what} printed\n{printed}\n-- and not what is shown:\n{shown}")

    def run_console(self, block: Block) -> str:
        for command, shown in commands_of(block.text):
            words = shlex.split(command, comments=True) if command.startswith("cat ") else []
            if len(words) == 2 and not self.file(words[1]).exists():
                # The reader writes a file that is shown and does not exist.
                path = self.file(words[1])
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(self.real(shown))
                continue
            self.printed = self.must(command, int(block.marks.get("status", 0)))
            self.compare(f"`{command}`", shown, self.printed)
        return self.printed

    def run_sh(self, block: Block) -> str:
        return self.must("set -e\n" + block.text, int(block.marks.get("status", 0)))

    def run_python(self, block: Block) -> str:
        return self.must(
            "ipybox run --approve allow -", int(block.marks.get("status", 0)), stdin=block.text
        )

    def run_c(self, block: Block) -> str:
        return self.programs.run(self.real(block.text), block.line)

    def run_json(self, block: Block) -> None:
        """Uses a configuration: of an MCP host or a sandbox, server parameters, approval rules."""
        try:
            value = json.loads(self.real(block.text))
        except ValueError as error:
            raise BadBlock(str(error)) from None
        if not isinstance(value, dict):
            return
        path = self.place.root / "configuration.json"
        path.write_text(self.real(block.text))
        if isinstance(value.get("rules"), list):
            self.must(f"ipybox rules {shlex.quote(str(path))}")
        if "network" in value or "filesystem" in value:
            self.must(f"ipybox sandbox --explain --settings {shlex.quote(str(path))}")
        if isinstance(value.get("command"), str):
            value = {"mcpServers": {"example": value}}
        servers = value.get("mcpServers", value.get("servers"))
        if isinstance(servers, dict):
            self.use_servers(servers)
        for server in value.get("mcp", {}).values():  # of opencode
            command, *args = server["command"]
            self.use_servers({"example": {"command": command, "args": args}})

    def run_toml(self, block: Block) -> None:
        """The configuration of Codex."""
        try:
            servers = tomllib.loads(self.real(block.text))["mcp_servers"]
        except (tomllib.TOMLDecodeError, KeyError) as error:
            raise BadBlock(repr(error)) from None
        names = ("command", "args", "env")
        self.use_servers(
            {
                server: {name: params[name] for name in names if name in params}
                for server, params in servers.items()
            }
        )

    def use_servers(self, servers: dict) -> None:
        path = self.place.root / "servers.json"
        path.write_text(json.dumps({"mcpServers": servers}))
        state = shlex.quote(str(self.place.root / "other-state"))
        self.must(f"XDG_STATE_HOME={state} ipybox servers import {shlex.quote(str(path))}")
        for params in servers.values():
            is_ipybox = Path(params.get("command", "")).name == "ipybox"
            if is_ipybox and params.get("args", [])[:1] != ["sandbox"]:
                if "/" in params["command"] and not Path(params["command"]).exists():
                    raise BadBlock(f"there is no {params['command']}")
                self.use_ipybox(params.get("args", []))

    def use_ipybox(self, arguments: list[str]) -> None:
        """Starts it as a host does, and runs a cell."""
        try:
            with McpServer(self.ipybox, self.place, *arguments) as server:
                printed = server.cell("print(6 * 7)")
        except (OSError, EOFError, AssertionError) as error:
            raise BadBlock(f"ipybox {shlex.join(arguments)} does not serve: {error!r}") from None
        if printed != "42":
            raise BadBlock(f"a cell printed {printed!r}")

    def run_picture(self, block: Block) -> None:
        """The document shows the picture that its blocks have made, which is removed then."""
        made = list(self.file(".").glob(block.marks["picture"]))
        if len(made) != 1:
            raise BadBlock(f"there is not one {block.marks['picture']}, but {len(made)}")
        self.use_picture(block, made[0])
        made[0].unlink()

    def use_picture(self, block: Block, made: Path) -> None:
        shown = (harness.ROOT / block.document).parent / block.text
        if problem := docs_pictures.difference(shown, made):
            raise BadBlock(f"{block.text}: {problem}")

    def check_excerpt(self, block: Block) -> None:
        """The block is a part of a file: all its lines, in order.

        A line of ANYTHING stands for lines that are left out.
        """
        path = self.file(block.marks["excerpt of"])
        shown = f"{ANYTHING}\n{self.real(block.text).rstrip()}\n{ANYTHING}"
        if not path.exists() or not lines_match(shown, path.read_text()):
            raise BadBlock(
                f"is no part of {path}:\n"
                f"{path.read_text() if path.exists() else 'which is not there'}"
            )
