# SPDX-License-Identifier: Apache-2.0
"""The clients and hosts that are tested, and what each of them has. docs/clients.md shows them."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import harness

HERE = Path(__file__).parent
PROGRAMS = HERE / "programs"
# `make verify-long` sets it: all clients, not only those of `make check-all`.
ALL = os.environ.get("IPYBOX_TEST_ALL_CLIENTS") == "1"


@dataclass(frozen=True)
class Client:
    """`has` names what a client has beyond the text of results: errors,
    images, progress, cancel, elicitation, structured."""

    title: str
    version: Callable[[], str]
    has: frozenset[str]
    note: str
    # The command of its program; the job follows. Hosts have none: test_hosts.py starts them.
    command: Callable[[], list[str]] | None = None
    in_ci: bool = False

    @property
    def is_tested(self) -> bool:
        return self.in_ci or ALL


def python(environment: str, program: str) -> Callable[[], list[str]]:
    return lambda: [
        str(harness.existing(harness.CACHE / environment / "bin/python")),
        str(PROGRAMS / program),
    ]


def typescript(version: str) -> Callable[[], list[str]]:
    folder = harness.CACHE / "clients"
    return lambda: [
        str(harness.existing(folder / "bin/node")),
        str(PROGRAMS / "typescript.mjs"),
        str(folder),
        version,
    ]


def built(name: str) -> Callable[[], list[str]]:
    """scripts/test-setup builds it."""
    return lambda: [str(harness.existing(harness.CACHE / name / "client"))]


def pinned(path: Path, pattern: str) -> str:
    found = re.search(pattern, path.read_text(), re.MULTILINE)
    assert found, f"{path} has no {pattern}"
    return found[1]


def pip(environment: str, package: str) -> Callable[[], str]:
    """The version that a requirement file pins."""

    def version() -> str:
        path = harness.ROOT / f"tests/requirements-{environment}.txt"
        return pinned(path, rf"^{re.escape(package)}(?:\[\w+\])?==(\S+)$")

    return version


def npm(folder: str, package: str) -> Callable[[], str]:
    def version() -> str:
        text = (harness.ROOT / folder / "package.json").read_text()
        return json.loads(text)["dependencies"][package]

    return version


def go(module: str) -> Callable[[], str]:
    def version() -> str:
        return pinned(PROGRAMS / "go/go.mod", rf"^require {re.escape(module)} v(\S+)$")

    return version


def cargo(crate: str) -> Callable[[], str]:
    def version() -> str:
        return pinned(
            PROGRAMS / "rust/Cargo.lock", rf'^name = "{re.escape(crate)}"\nversion = "(\S+)"$'
        )

    return version


def features(text: str = "") -> frozenset[str]:
    return frozenset(text.split())


EVERYTHING = features("errors images progress cancel elicitation")

CLIENTS = {
    "python-1": Client(
        "Python SDK 1.x",
        pip("mcp1", "mcp"),
        features("errors images progress elicitation"),
        "",
        python("mcp1", "sdk.py"),
        in_ci=True,
    ),
    "python-2": Client(
        "Python SDK 2.x",
        pip("mcp2", "mcp"),
        EVERYTHING,
        "",
        python("mcp2", "sdk.py"),
        in_ci=True,
    ),
    "fastmcp": Client(
        "FastMCP",
        pip("fastmcp", "fastmcp"),
        EVERYTHING,
        "Over HTTP it speaks revision 2026-07-28. Pass the `session_id` that the first answer "
        "gives, to keep variables.",
        python("fastmcp", "fastmcp_client.py"),
        in_ci=True,
    ),
    "typescript-1": Client(
        "TypeScript SDK 1.x",
        npm("tests/clients/npm", "@modelcontextprotocol/sdk"),
        EVERYTHING,
        "",
        typescript("1"),
        in_ci=True,
    ),
    "typescript-2": Client(
        "TypeScript SDK 2.x",
        npm("tests/clients/npm", "@modelcontextprotocol/client"),
        EVERYTHING,
        "",
        typescript("2"),
        in_ci=True,
    ),
    "go": Client(
        "Go SDK",
        go("github.com/modelcontextprotocol/go-sdk"),
        EVERYTHING,
        "Over HTTP it speaks revision 2026-07-28. Pass the `session_id` that the first answer "
        "gives, to keep variables.",
        built("go"),
    ),
    "rust": Client(
        "Rust SDK",
        cargo("rmcp"),
        EVERYTHING,
        "",
        built("rust"),
    ),
    "langchain": Client(
        "LangChain",
        pip("agents1", "langchain-mcp-adapters"),
        features("errors images progress elicitation"),
        "Use `client.session()`. `get_tools()` opens a connection for each call. Then, over HTTP, "
        "calls share variables only if they pass `session_id`, and on stdio they share none.",
        python("agents1", "langchain.py"),
    ),
    "pydantic-ai": Client(
        "Pydantic AI",
        pip("agents2", "pydantic-ai-slim"),
        EVERYTHING | {"structured"},
        "The model gets structured results, where a tool has them, instead of texts.",
        python("agents2", "pydantic_ai_client.py"),
    ),
    "openai-agents": Client(
        "OpenAI Agents SDK",
        pip("agents2", "openai-agents"),
        features("errors images"),
        "Raise `client_session_timeout_seconds`: by default a call may take 5 seconds.",
        python("agents2", "openai_agents.py"),
    ),
    "smolagents": Client(
        "smolagents",
        pip("agents1", "smolagents"),
        features(),
        "Its tools return the text of an error as a result.",
        python("agents1", "smolagents_client.py"),
    ),
    "claude-code": Client(
        "Claude Code",
        npm("tests/clients/npm", "@anthropic-ai/claude-code"),
        features("errors images"),
        "Over HTTP it speaks revision 2026-07-28. Its model has to pass the `session_id` that the "
        "first answer gives, to keep variables. `claude -p` closes the questions of `--approve "
        "ask` without an answer, so the calls are refused: use rules.",
        in_ci=True,
    ),
    "opencode": Client(
        "opencode",
        npm("tests/clients/npm", "opencode-ai"),
        features("errors images"),
        "",
        in_ci=True,
    ),
    "gemini-cli": Client(
        "Gemini CLI",
        npm("tests/clients/npm", "@google/gemini-cli"),
        features("errors images"),
        "It gets structured results, as with `--structured`. It would take a text such as `42` or "
        "`[1, 2]` for a structured result, and fail.",
        in_ci=True,
    ),
    "codex": Client(
        "Codex",
        npm("tests/clients/npm-hosts", "@openai/codex"),
        features("errors images"),
        "`codex exec` refuses calls that need your approval. To allow those of ipybox, set "
        '`default_tools_approval_mode = "approve"` in the table `[mcp_servers.ipybox]`. Over HTTP, '
        "`bearer_token_env_var` names the variable that has the token.",
    ),
}


def table() -> str:
    """The table of docs/clients.md."""
    columns = ["client", "version", "stdio", "HTTP", "images", "progress", "cancel"]
    columns += ["elicitation", "tested in"]
    rows = ["| " + " | ".join(columns) + " |", "|---" * len(columns) + "|"]
    for client in CLIENTS.values():
        marks = [
            "yes" if name in client.has else "no"
            for name in ("images", "progress", "cancel", "elicitation")
        ]
        where = "`make check-all`" if client.in_ci else "`make verify-long`"
        row = [client.title, client.version(), "yes", "yes", *marks, where]
        rows.append("| " + " | ".join(row) + " |")
    return "\n".join(rows) + "\n"


def notes() -> list[str]:
    return [f"{client.title}: {client.note}" for client in CLIENTS.values() if client.note]
