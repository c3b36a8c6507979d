# SPDX-License-Identifier: Apache-2.0
"""Hosts run with a stand-in for their model, connect to ipybox, and pass results to the model."""

from __future__ import annotations

import json
import platform
import subprocess
from pathlib import Path
from typing import Any

import harness
import pytest
from client_list import CLIENTS
from model_server import ModelServer

TOOL = "execute_ipython_cell"
PLOT = "import matplotlib.pyplot as plt\nplt.plot([1, 2, 4])\nplt.show()"
CELLS = ["x = 6\nprint('printed')", "x * 7", "1/0", PLOT]
# Hosts wait this long for the server: seconds, on a busy machine.
PATIENCE = 120
MACHINE = {"x86_64": "x64", "aarch64": "arm64"}[platform.machine()]
TARGET = f"{platform.machine()}-unknown-linux-musl"


def native(folder: str, path: str) -> str:
    """A program in an npm package for this machine. Its own installer, which we do not run, links
    to it."""
    modules = harness.CACHE / folder / "node_modules"
    path = path.replace("MACHINE", MACHINE).replace("TARGET", TARGET)
    return str(harness.existing(modules / path))


def write(path: Path, value: Any) -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(value if isinstance(value, str) else json.dumps(value))
    return str(path)


def toml(settings: dict[str, Any]) -> str:
    """Strings, numbers, booleans and arrays of JSON are values of TOML. Objects become tables."""
    tables = {name: value for name, value in settings.items() if isinstance(value, dict)}
    lines = [f"{k} = {json.dumps(v)}" for k, v in settings.items() if k not in tables]
    for name, table in tables.items():
        lines += [f"[{name}]", *(f"{k} = {json.dumps(v)}" for k, v in table.items())]
    return "\n".join(lines) + "\n"


class Host:
    """What a host needs: its program, its configuration, and its version."""

    def __init__(self, place: harness.Place, model: ModelServer, server: dict[str, Any]):
        self.place = place
        self.model = model
        self.server = server

    @property
    def headers(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.server['token']}"}

    def run(self, *command: str, **environ: str) -> subprocess.CompletedProcess[str]:
        self.place.environ |= environ
        return harness.run(list(command), self.place, timeout=280)


class ClaudeCode(Host):
    program = staticmethod(
        lambda: [native("clients", "@anthropic-ai/claude-code-linux-MACHINE/claude")]
    )

    def use(self) -> subprocess.CompletedProcess[str]:
        if "url" in self.server:
            entry = {"type": "http", "url": self.server["url"], "headers": self.headers}
        else:
            command, *args = self.server["command"]
            entry = {"command": command, "args": args}
        config = write(self.place.home / "mcp.json", {"mcpServers": {"ipybox": entry}})
        return self.run(
            *self.program(),
            *("-p", "go", "--mcp-config", config, "--strict-mcp-config"),
            *("--allowedTools", f"mcp__ipybox__{TOOL}"),
            ANTHROPIC_BASE_URL=self.model.url,
            ANTHROPIC_API_KEY="none",
            CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC="1",
            ENABLE_TOOL_SEARCH="false",
            MCP_TIMEOUT=str(PATIENCE * 1000),
            MCP_CONNECTION_NONBLOCKING="false",
        )


class Opencode(Host):
    program = staticmethod(lambda: [native("clients", "opencode-linux-MACHINE/bin/opencode")])

    def use(self) -> subprocess.CompletedProcess[str]:
        if "url" in self.server:
            entry = {
                "type": "remote",
                "url": self.server["url"],
                "headers": self.headers,
                "oauth": False,
            }
        else:
            entry = {"type": "local", "command": self.server["command"]}
        provider = {
            "npm": "@ai-sdk/openai-compatible",
            "options": {"baseURL": f"{self.model.url}/v1", "apiKey": "none"},
            "models": {
                "model": {
                    "tool_call": True,
                    "attachment": True,
                    "modalities": {"input": ["text", "image"], "output": ["text"]},
                    "limit": {"context": 200000, "output": 8000},
                }
            },
        }
        config = {
            "provider": {"standin": provider},
            "mcp": {"ipybox": {**entry, "enabled": True, "timeout": PATIENCE * 1000}},
            "permission": "allow",
            "autoupdate": False,
            "share": "disabled",
        }
        return self.run(
            *self.program(),
            *("run", "--model", "standin/model", "go"),
            OPENCODE_CONFIG=write(self.place.home / "opencode.json", config),
            OPENCODE_DISABLE_AUTOUPDATE="1",
            OPENCODE_DISABLE_MODELS_FETCH="1",
            OPENCODE_DISABLE_LSP_DOWNLOAD="1",
            OPENCODE_DISABLE_DEFAULT_PLUGINS="1",
        )


class Codex(Host):
    program = staticmethod(
        lambda: [native("hosts", "@openai/codex-linux-MACHINE/vendor/TARGET/bin/codex")]
    )

    def use(self) -> subprocess.CompletedProcess[str]:
        if "url" in self.server:
            entry = {"url": self.server["url"], "bearer_token_env_var": "IPYBOX_TOKEN"}
        else:
            command, *args = self.server["command"]
            entry = {"command": command, "args": args}
        settings = {
            "model": "model",
            "model_provider": "standin",
            "model_providers.standin": {
                "name": "standin",
                "base_url": f"{self.model.url}/v1",
                "wire_api": "responses",
            },
            "mcp_servers.ipybox": {
                **entry,
                "required": True,
                "startup_timeout_sec": PATIENCE,
                "default_tools_approval_mode": "approve",
            },
            "check_for_update_on_startup": False,
            "analytics": {"enabled": False},
            "feedback": {"enabled": False},
            "features": {"apps": False, "plugins": False},
        }
        write(self.place.home / ".codex/config.toml", toml(settings))
        return self.run(
            *self.program(),
            *("exec", "--strict-config", "--skip-git-repo-check", "go"),
            IPYBOX_TOKEN=self.server.get("token", ""),
        )


class GeminiCli(Host):
    program = staticmethod(
        lambda: [
            str(harness.existing(harness.CACHE / "clients/bin/node")),
            native("clients", "@google/gemini-cli/bundle/gemini.js"),
        ]
    )

    def use(self) -> subprocess.CompletedProcess[str]:
        if "url" in self.server:
            entry = {"httpUrl": self.server["url"], "headers": self.headers}
        else:
            command, *args = self.server["command"]
            entry = {"command": command, "args": args}
        settings = {
            "mcpServers": {"ipybox": {**entry, "trust": True, "timeout": PATIENCE * 1000}},
            "security": {"auth": {"selectedType": "gemini-api-key"}},
            "general": {"enableAutoUpdate": False, "enableAutoUpdateNotification": False},
            "privacy": {"usageStatisticsEnabled": False},
            "telemetry": {"enabled": False},
        }
        write(self.place.home / ".gemini/settings.json", settings)
        return self.run(
            *self.program(),
            *("--model", "gemini-3-pro-preview", "--prompt", "go"),
            GEMINI_API_KEY="none",
            GOOGLE_GEMINI_BASE_URL=self.model.url,
            GEMINI_CLI_TRUST_WORKSPACE="true",
            # Otherwise it starts itself once more, with options of node.
            GEMINI_CLI_NO_RELAUNCH="true",
        )


HOSTS = {
    "claude-code": ClaudeCode,
    "opencode": Opencode,
    "codex": Codex,
    "gemini-cli": GeminiCli,
}


@pytest.mark.parametrize("name", [name for name in HOSTS if CLIENTS[name].is_tested])
def test_host(name, transport, reach, place):
    client = CLIENTS[name]
    steps = [{"code": code} for code in CELLS]
    with reach() as server, ModelServer(TOOL, steps) as model:
        host = HOSTS[name](place, model, server)
        version = host.run(*host.program(), "--version")
        assert client.version() in version.stdout.split(), version.stdout + version.stderr
        done = host.use()
    seen = f"{done.stdout}\n{done.stderr}\n{model.others}\n" + "\n".join(
        f"{request.api} {request.tools}" for request in model.requests
    )
    results = model.results()
    assert len(results) == len(CELLS), seen
    first, kept, error, plot = results
    assert "printed" in first.text
    assert "42" in kept.text
    assert "ZeroDivisionError: division by zero" in error.text
    assert "images/" in plot.text
    assert plot.images == ("images" in client.has), plot
    assert done.returncode == 0, seen
    assert "done" in done.stdout, seen
