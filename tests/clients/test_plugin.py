# SPDX-License-Identifier: Apache-2.0
"""The plugin for Claude Code: the real program installs it, and its model (a stand-in) registers a
server, runs cells, and saves a code action that another session uses."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Sequence
from pathlib import Path

import harness
import pytest
import scripted_server
from model_server import ModelServer, Step
from test_hosts import PATIENCE, TOOL, ClaudeCode

MARKETPLACE = harness.ROOT / ".claude-plugin/marketplace.json"
PLUGINS = [plugin["name"] for plugin in json.loads(MARKETPLACE.read_text())["plugins"]]
API = '''\
def run(numbers: list[int]) -> int:
    """Adds numbers with the tool add."""
    from .impl import total

    return total(numbers)
'''
IMPL = """\
from mcptools.work import add


def total(numbers: list[int]) -> int:
    found = 0
    for number in numbers:
        found = add.run(a=found, b=number).sum
    return found
"""
PARSER = '''

class ParseResult(Model):
    total: int


def run_parsed(params: Params) -> ParseResult:
    """The sum alone."""
    return ParseResult(total=run(params).sum)
'''
SAVE = f"""
from pathlib import Path
folder = Path("gentools/maths/total")
folder.mkdir(parents=True)
(folder / "__init__.py").write_text("from .api import run")
(folder / "api.py").write_text({API!r})
(folder / "impl.py").write_text({IMPL!r})
from gentools.maths.total import run
run([1, 2, 3])
"""

# In the place of Docker: the container has the same files as this machine. scripts/check-image
# starts real containers in the same way.
DOCKER = f"""\
#!/bin/sh
case "$*" in
"image inspect ipybox") exit ;;
"run -i --rm --pull=never -v $PWD:/app/workspace ipybox"*)
    shift 7
    exec {harness.ROOT}/docker/entrypoint "$@" ;;
esac
echo "docker: $*" >&2
exit 1
"""


def write_program(path: Path, text: str) -> None:
    path.write_text(text)
    path.chmod(0o755)


class Plugin:
    """Claude Code with a plugin of our marketplace, in a home of its own."""

    def __init__(self, ipybox: str, place: harness.Place):
        self.place = place
        programs = place.home / "programs"
        programs.mkdir()
        (programs / "ipybox").symlink_to(ipybox)
        write_program(programs / "docker", DOCKER)
        place.environ |= {
            "PATH": f"{programs}:{place.environ['PATH']}",
            "ANTHROPIC_API_KEY": "none",
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            "ENABLE_TOOL_SEARCH": "false",
            "MCP_TIMEOUT": str(PATIENCE * 1000),
            "MCP_CONNECTION_NONBLOCKING": "false",
        }

    def claude(self, *args: str) -> subprocess.CompletedProcess[str]:
        return harness.run([*ClaudeCode.program(), *args], self.place, timeout=280)

    def install(self, name: str) -> None:
        for args in (
            ("plugin", "marketplace", "add", str(harness.ROOT)),
            ("plugin", "install", f"{name}@ipybox"),
        ):
            done = self.claude(*args)
            assert done.returncode == 0, done.stdout + done.stderr

    def ask(self, prompt: str, steps: Sequence[Step]) -> tuple[list[str], str]:
        """A session of its own. Returns the results of the steps, and what the model was sent."""
        with ModelServer(TOOL, steps) as model:
            self.place.environ["ANTHROPIC_BASE_URL"] = model.url
            done = self.claude("-p", prompt, "--dangerously-skip-permissions")
        results = [result.text for result in model.results()]
        sent = json.dumps([request.body for request in model.requests])
        assert len(results) == len(steps), f"{done}\n{model.others}\n{results}"
        return results, sent


@pytest.fixture
def plugin(ipybox: str, place: harness.Place) -> Plugin:
    # Claude Code takes this for a sandbox of its own, in which root may skip permissions.
    place.environ["IS_SANDBOX"] = "1"
    return Plugin(ipybox, place)


@pytest.mark.parametrize("path", [".", "plugin"])
def test_the_manifests_are_valid(plugin, path):
    done = plugin.claude("plugin", "validate", "--strict", str(harness.ROOT / path))
    assert done.returncode == 0, done.stdout + done.stderr
    # The validator sees errors.
    broken = plugin.place.home / "broken/.claude-plugin"
    broken.mkdir(parents=True)
    (broken / "plugin.json").write_text('{"name": "not a name"}')
    assert plugin.claude("plugin", "validate", str(broken.parent)).returncode != 0


def test_a_code_action_from_start_to_end(plugin, place):
    plugin.install("ipybox")
    outside = place.home / "outside"
    params = scripted_server.params("work")
    module = place.workspace / "mcptools/work/add.py"
    results, sent = plugin.ask(
        f"/ipybox:register work {json.dumps(params)}",
        [
            ("register_mcp_server", {"server_name": "work", "server_params": params}),
            {"code": "from mcptools.work import add\nadd.run(a=40, b=2).sum"},
            {"code": f"open({str(outside)!r}, 'w')"},
            {"code": "open('sandbox-config.json', 'w')"},
            {"code": SAVE},
            ("Bash", {"command": f"cat >>{module} <<'END'{PARSER}END", "description": "append"}),
        ],
    )
    assert "Register an MCP server at ipybox: work" in sent
    registered, sum, written, configured, saved, _ = results
    assert "# work.add: " in registered
    assert sum == "42"
    assert "Error: [Errno " in written and not outside.exists()
    assert "sandbox-config.json" in configured and "Error: " in configured
    assert saved == "6"
    assert module.read_text().endswith(PARSER)

    results, sent = plugin.ask(
        "/ipybox:codeact add 4, 5 and 6",
        [
            ("describe_tools", {"query": "total add"}),
            {"code": "from gentools.maths.total import run\nrun([4, 5, 6])"},
            {"code": "from mcptools.work import add\nadd.run_parsed(add.Params(a=1, b=1)).total"},
        ],
    )
    assert "Prefer, in this order" in sent and "saved before are in gentools" in sent
    described, used, parsed = results
    # Claude Code shows the structured result to its model.
    assert (
        "def run(numbers: list[int]) -> int: ...  # gentools.maths.total: Adds numbers" in described
    )
    assert "def run_parsed(params: Params) -> ParseResult: ...  # work.add: " in described
    assert (used, parsed) == ("15", "2")


@pytest.mark.parametrize("name", [name for name in PLUGINS if name != "ipybox"])
def test_the_plugins_of_ipybox_0_9(plugin, place, name):
    """Their names work, with the skill and the server. One has a sandbox, one a container."""
    plugin.install(name)
    (place.workspace / ".env").write_text("KERNEL_ENV_REGION=north\n")
    outside = place.home / "outside"
    results, sent = plugin.ask(
        f"/{name}:codeact go",
        [
            {"code": "import os\nos.environ['REGION']"},
            {"code": f"open({str(outside)!r}, 'w').close()"},
        ],
    )
    assert "Prefer, in this order" in sent
    assert results[0] == "'north'"
    # A container has other files, but not this stand-in for it.
    assert outside.exists() == (name != "codeact-sandbox"), results


def test_files_of_the_workspace(plugin, place):
    """sandbox-config.json and rules of the workspace are used. A wrong one is an error, and nothing
    runs without a sandbox."""
    server = harness.ROOT / "plugin/skills/codeact/bin/server"
    rules = place.workspace / ".claude/plugins/ipybox/rules.json"
    rules.parent.mkdir(parents=True)

    def start() -> subprocess.CompletedProcess[str]:
        return harness.run(["sh", str(server)], place, stdin="", timeout=60)

    assert start().returncode == 0
    rules.write_text("{")
    refused = start()
    assert refused.returncode != 0 and "rules.json" in refused.stderr
    rules.write_text('{"rules": []}')
    (place.workspace / "sandbox-config.json").write_text("{")
    refused = start()
    assert refused.returncode != 0 and "sandbox-config.json" in refused.stderr
    (place.workspace / "sandbox-config.json").unlink()
    (place.workspace / "sandbox-config.json").symlink_to("nowhere")
    refused = start()
    assert refused.returncode != 0 and "sandbox-config.json" in refused.stderr
    place.environ["PATH"] = "/usr/bin:/bin"
    missing = start()
    assert missing.returncode == 127 and "not in PATH" in missing.stderr


def test_rules_apply_in_a_container(plugin, place):
    """Rules of the workspace are named by their path in the container. A wrong file is an error."""
    rules = place.workspace / ".claude/plugins/ipybox/rules.json"
    rules.parent.mkdir(parents=True)
    rules.write_text('{"rules": []}')

    def start() -> subprocess.CompletedProcess[str]:
        server = harness.ROOT / "plugin/skills/codeact/bin/container"
        return harness.run(["sh", str(server)], place, stdin="", timeout=60)

    assert start().returncode == 0
    rules.write_text("{")
    refused = start()
    assert refused.returncode != 0 and "rules.json" in refused.stderr
    rules.unlink()
    rules.symlink_to("nowhere")
    refused = start()
    assert refused.returncode != 0 and "rules.json" in refused.stderr


@pytest.mark.parametrize(
    ("docker", "status", "said"),
    [
        ("#!/bin/sh\necho 'no such image' >&2; exit 1\n", 1, "./docker-build.sh"),
        (None, 127, "not in PATH"),
    ],
)
def test_a_container_needs_docker_and_the_image(place, docker, status, said):
    programs = place.home / "programs"
    programs.mkdir()
    if docker is not None:
        write_program(programs / "docker", docker)
    server = harness.ROOT / "plugin/skills/codeact/bin/container"
    place.environ["PATH"] = str(programs)
    done = harness.run(["/bin/sh", str(server)], place, stdin="", timeout=60)
    assert done.returncode == status and said in done.stderr and done.stdout == ""
    assert docker is None or "no such image" in done.stderr
