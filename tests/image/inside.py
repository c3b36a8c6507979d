# SPDX-License-Identifier: Apache-2.0
"""Uses and attacks ipybox's image in containers; scripts/check-image runs it on this machine and in
a virtual machine, with the system's Python.

It prints a line for each check, `ok NAME` or `FAILED NAME: WHY`, `figure NAME VALUE` for what was
measured, and at the end `end`.

usage: inside.py WORK FILES ENGINE...

WORK    an empty directory that the ordinary user 1000 can write
FILES   has docker/ and plugin/ of ipybox
ENGINE  docker=COMMAND (as root), podman=COMMAND (rootless): how to call it. `,apparmor` after the
        name: AppArmor restricts its containers. `,ports`: it can publish ports. `,pods`: podman
        knows all fields of docker/kubernetes.yaml. `,only`: no more. `,few`: not all checks, for
        less time. `,first`: also without sandboxes. `,emulated`: QEMU runs each program of the
        image, so no kernel can be started: Debian 12's QEMU does not know the flags of clone() that
        the core needs.
"""

from __future__ import annotations

import http.client
import json
import os
import shlex
import shutil
import subprocess
import sys
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

IMAGE = "ipybox"
# Also in an emulated machine
SECONDS = 1200
# The cell was not run.
NOT_READY = "was not ready to run kernels"
TOKEN = "0123456789abcdef0123456789abcdef"
SERVER = Path(__file__).resolve().parents[1] / "scripted_server"
# uid 1000 of the image, in a rootless container, is not that of the workspace's owner.
KEEP_ID = "--userns=keep-id"


@dataclass
class Engine:
    name: str
    command: list[str]
    features: set[str] = field(default_factory=set)

    @property
    def is_podman(self) -> bool:
        return self.name == "podman"

    def call(
        self, *arguments: str, seconds: float = SECONDS, text: str = ""
    ) -> tuple[int, str, str]:
        done = subprocess.run(
            [*self.command, *arguments],
            input=text,
            capture_output=True,
            text=True,
            timeout=seconds,
            check=False,
        )
        return done.returncode, done.stdout, done.stderr

    def must(self, *arguments: str) -> str:
        status, output, errors = self.call(*arguments)
        assert status == 0, f"{arguments[0]}: status {status}: {output}{errors}"
        return output

    def allowing(self, profiles: Path) -> list[str]:
        """What docs/how-to/docker.md says: the options that allow sandboxes."""
        options = [f"--security-opt=seccomp={profiles / 'seccomp.json'}"]
        if self.is_podman:
            return [*options, "--security-opt=unmask=ALL"]
        options.append("--security-opt=systempaths=unconfined")
        if "apparmor" in self.features:
            options.append("--security-opt=apparmor=ipybox-container")
        return options


class McpServer:
    """A container as an MCP server on stdio."""

    def __init__(
        self,
        engine: Engine,
        workspace: Path,
        *options: str,
        args: tuple[str, ...] = (),
        command: list[str] | None = None,
    ):
        self.started = time.monotonic()
        self.errors = (workspace.parent / f"{workspace.name}.stderr").open("w+")
        run = [*engine.command, "run", "-i", "--rm", "--network=none", *options]
        self.process = subprocess.Popen(
            command or [*run, "-v", f"{workspace}:/app/workspace", IMAGE, *args],
            cwd=workspace,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.errors,
            text=True,
        )
        self.id = 0
        self.request(
            "initialize",
            protocolVersion="2025-11-25",
            capabilities={},
            clientInfo={"name": "inside", "version": "1"},
        )
        self.send({"jsonrpc": "2.0", "method": "notifications/initialized"})

    def send(self, message: dict[str, Any]) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(message) + "\n")
        self.process.stdin.flush()

    def request(self, method: str, **params: Any) -> dict[str, Any]:
        self.id += 1
        self.send({"jsonrpc": "2.0", "id": self.id, "method": method, "params": params})
        assert self.process.stdout is not None
        for line in self.process.stdout:
            message = json.loads(line)
            if message.get("id") == self.id:
                assert "error" not in message, message["error"]
                return message["result"]
        raise EOFError(f"the container has ended: {self.stderr()}")

    def stderr(self) -> str:
        return Path(self.errors.name).read_text()

    def tool(self, name: str, **arguments: Any) -> tuple[bool, str]:
        result = self.request("tools/call", name=name, arguments=arguments)
        return bool(result.get("isError")), result["content"][0]["text"]

    def cell(self, code: str) -> str:
        """Asks again while Python does not start in time: emulated machines are slow."""
        deadline = time.monotonic() + SECONDS
        failed, text = self.tool("execute_ipython_cell", code=code)
        while failed and NOT_READY in text and time.monotonic() < deadline:
            failed, text = self.tool("execute_ipython_cell", code=code)
        assert not failed, text
        return text

    def close(self) -> int:
        assert self.process.stdin is not None
        self.process.stdin.close()
        status = self.process.wait(SECONDS)
        self.errors.close()
        return status

    def __enter__(self) -> McpServer:
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            status = self.close()
            assert status == 0, f"the container ended with {status}: {self.stderr()}"


class Checks:
    def __init__(self, work: Path, files: Path) -> None:
        self.work, self.files = work, files
        self.profiles = files / "docker"
        self.failed = 0
        self.last = 0

    def workspace(self) -> Path:
        self.last += 1
        path = self.work / f"workspace{self.last}"
        path.mkdir()
        os.chown(path, 1000, 1000)
        return path

    def run(self, name: str, function: Callable[..., None], *arguments: object) -> None:
        started = time.monotonic()
        try:
            function(*arguments)
        except Exception as error:
            self.failed += 1
            traceback.print_exc(file=sys.stdout)
            print(f"FAILED {name}: {error}", flush=True)
        else:
            print(f"ok {name} ({time.monotonic() - started:.1f} s)", flush=True)


def figure(name: str, value: object) -> None:
    print(f"figure {name}: {value}", flush=True)


def own(engine: Engine) -> list[str]:
    """A rootless container needs the user's own number for the workspace."""
    return [KEEP_ID] if engine.is_podman else []


# --- a container as ipybox 0.9 was started -------------------------------------------------------


def as_written(checks: Checks, engine: Engine) -> None:
    """`docker run -i --rm -v WORKSPACE:/app/workspace ipybox`: a kernel without a sandbox, which
    stderr says."""
    workspace = checks.workspace()
    with McpServer(engine, workspace, *own(engine)) as server:
        assert "42" in server.cell("x = 6 * 7; x")
        figure(
            f"{engine.name}: docker run to first result, s",
            f"{time.monotonic() - server.started:.2f}",
        )
        assert server.cell("import os; open('made', 'w').write(str(x)); os.getuid()") == "1000"
        assert server.cell("os.getcwd()") == "'/app/workspace'"
        memory = server.cell(
            "import glob\nkb = 0\nfor path in glob.glob('/proc/[0-9]*/smaps_rollup'):\n"
            "    kb += sum(int(line[4:-3]) for line in open(path) if line.startswith('Pss:'))\n"
            "print(kb // 1000)"
        )
        figure(f"{engine.name}: memory of one session, MB", memory.strip())
        assert "not sandboxed" in server.stderr(), server.stderr()
    made = workspace / "made"
    assert made.read_text() == "42" and made.stat().st_uid == 1000


def from_plugin(checks: Checks, engine: Engine) -> None:
    """As the plugin codeact-docker starts it."""
    workspace = checks.workspace()
    rules = workspace / ".claude/plugins/ipybox/rules.json"
    rules.parent.mkdir(parents=True)
    rules.write_text('{"rules": []}')
    script = checks.files / "plugin/skills/codeact/bin/container"
    with McpServer(engine, workspace, command=["sh", str(script)]) as server:
        assert server.cell("open('made', 'w').write('made'); 6 * 7") == "42"
    assert (workspace / "made").stat().st_uid == 1000


def call_tool(server: McpServer, workspace: Path) -> None:
    """An MCP server is registered, and its tool is called by a cell."""
    shutil.copytree(SERVER, workspace / "server")
    failed, text = server.tool(
        "register_mcp_server",
        server_name="work",
        server_params={
            "command": "python3",
            "args": ["-I", "-S", "/app/workspace/server/scripted_server.py", "work"],
        },
    )
    assert not failed, text
    code = "from mcptools.work.add import Params, run; print(run(Params(a=40, b=2)).sum)"
    assert server.cell(code).strip() == "42"


def strict(checks: Checks, engine: Engine) -> None:
    """--sandbox in a container that forbids sandboxes: each cell fails, and says what to do."""
    workspace = checks.workspace()
    with McpServer(engine, workspace, *own(engine), args=("--sandbox",)) as server:
        failed, text = server.tool("execute_ipython_cell", code="open('made', 'w')")
        assert failed and "the sandbox cannot be made" in text and "--security-opt" in text, text
    assert not (workspace / "made").exists()
    _, output, _ = engine.call("run", "--rm", "--network=none", IMAGE, "doctor", "--json")
    found = {entry["name"]: entry for entry in json.loads(output)}
    assert not found["sandbox"]["detail"].startswith("full"), found["sandbox"]
    assert found["proc"]["detail"].startswith("parts are hidden: /proc/"), found["proc"]
    assert "systempaths=unconfined" in found["proc"]["hint"], found["proc"]


def doctor(checks: Checks, engine: Engine) -> None:
    """The program runs, finds its Python, and says that sandboxes cannot be made."""
    _, output, errors = engine.call("run", "--rm", "--network=none", IMAGE, "doctor", "--json")
    assert output.startswith("["), f"{output}{errors}"
    found = {entry["name"]: entry for entry in json.loads(output)}
    assert found["python"]["state"] == "ok", found["python"]
    assert not found["sandbox"]["detail"].startswith("full"), found["sandbox"]


def other_user(checks: Checks, engine: Engine) -> None:
    """`--user` with a number that the image does not know."""
    workspace = checks.workspace()
    os.chown(workspace, 4242, 4242)
    with McpServer(engine, workspace, "--user=4242:4242") as server:
        assert server.cell("import os; open('made', 'w'); os.getuid()") == "4242"


def variables(checks: Checks, engine: Engine) -> None:
    """KERNEL_ENV_… given to docker, and in .env."""
    workspace = checks.workspace()
    (workspace / ".env").write_text("KERNEL_ENV_FROM_FILE=file\nHIDDEN=secret\n")
    with McpServer(
        engine, workspace, *own(engine), "-e", "KERNEL_ENV_FROM_DOCKER=docker"
    ) as server:
        code = "[os.environ.get(name) for name in ('FROM_FILE', 'FROM_DOCKER', 'HIDDEN')]"
        assert server.cell(f"import os; {code}") == "['file', 'docker', None]"


def orphans(checks: Checks, engine: Engine) -> None:
    """Processes that lost their parent are reaped: the first process of the container does it."""
    with McpServer(engine, checks.workspace(), *own(engine)) as server:
        server.cell(
            "import subprocess\nfor _ in range(20):\n"
            "    subprocess.run(['sh', '-c', 'setsid sleep 0.2 & exit'])"
        )
        states = server.cell(
            "import glob, time\ntime.sleep(2)\n"
            "print([text for path in glob.glob('/proc/[0-9]*/stat')\n"
            "    if ') Z ' in (text := open(path).read())])"
        )
        assert states.strip() == "[]", states


# --- with sandboxes ------------------------------------------------------------------------------


def sandboxed(checks: Checks, engine: Engine, *options: str) -> None:
    """The main job, and what cells must not do."""
    workspace = checks.workspace()
    (workspace / ".env").write_text("SECRET=secret\n")
    allowing = [*own(engine), *engine.allowing(checks.profiles), *options]
    with McpServer(engine, workspace, *allowing, args=("--sandbox",)) as server:
        assert "42" in server.cell("6 * 7")
        figure(
            f"{engine.name}: docker run to first sandboxed result, s",
            f"{time.monotonic() - server.started:.2f}",
        )
        call_tool(server, workspace)
        server.cell("open('made', 'w').write('made')")
        for attack in (
            "open('/home/ipybox/made', 'w')",
            "open('/app/venv/made', 'w')",
            "open('.env').read()",
            "open('.mcp.json', 'w')",
            "import socket; socket.create_connection(('127.0.0.1', 8901), 2)",
        ):
            failed, text = server.tool("execute_ipython_cell", code=attack)
            assert failed, f"{attack}: {text}"
        assert "not sandboxed" not in server.stderr(), server.stderr()
    assert (workspace / "made").read_text() == "made"


def selftest(checks: Checks, engine: Engine, *options: str) -> None:
    allowing = engine.allowing(checks.profiles)
    attack(engine, ["run", "--rm", "--network=none", *allowing, *options, IMAGE])


def attack(engine: Engine, run: list[str]) -> None:
    """In the tier that docs/how-to/docker.md promises. @run runs ipybox with more arguments."""
    _, output, _ = engine.call(*run, "doctor", "--json")
    found = {entry["name"]: entry for entry in json.loads(output)}
    assert found["sandbox"]["detail"].startswith("full"), found["sandbox"]
    assert found["proc"]["state"] == "ok", found["proc"]
    status, output, errors = engine.call(*run, "selftest", "--json")
    assert output.startswith("["), f"{status}: {output}{errors}"
    attacks = json.loads(output)
    through = [f"{each['section']}: {each['attack']}" for each in attacks if not each["held"]]
    weak = [each["attack"] for each in attacks if not each["worksWithout"]]
    assert status == 0 and not through, f"status {status}; not stopped: {through}"
    figure(f"{engine.name}: attacks of selftest stopped", f"{len(attacks)} of {len(attacks)}")
    if weak:
        figure(f"{engine.name}: attacks that fail without a sandbox, too", ", ".join(weak))


def domains(checks: Checks, engine: Engine) -> None:
    """IPYBOX_ALLOWED_DOMAINS: sandboxes that know these names only; there is no network."""
    options = [*own(engine), *engine.allowing(checks.profiles), "-e"]
    allowed = "IPYBOX_ALLOWED_DOMAINS=one.example,*.two.example"
    workspace = checks.workspace()
    with McpServer(engine, workspace, *options, allowed) as server:
        server.cell("open('made', 'w'); import socket, urllib.request, urllib.error")
        for name, answer in (
            ("one.example", "502"),
            ("a.two.example", "502"),
            ("three.example", "403"),
        ):
            text = server.cell(
                f"try:\n    urllib.request.urlopen('http://{name}/', timeout=60)\n"
                "except urllib.error.HTTPError as error:\n    print(error.code)"
            )
            assert text.startswith(answer), f"{name}: {text}"
        assert "not sandboxed" not in server.stderr(), server.stderr()
    run = ["run", "--rm", "--network=none", "-e", 'IPYBOX_ALLOWED_DOMAINS=a"b', IMAGE]
    status, _, errors = engine.call(*run)
    assert status == 2 and "IPYBOX_ALLOWED_DOMAINS" in errors, f"{status}: {errors}"


READ_ONLY = ["--read-only", "--tmpfs=/tmp", "--tmpfs=/home/ipybox:mode=1777"]
BARE = ["--cap-drop=ALL", "--security-opt=no-new-privileges"]

# --- serve ---------------------------------------------------------------------------------------


class Server:
    """`ipybox serve` in a container, in the background."""

    def __init__(self, engine: Engine, container: str):
        self.engine, self.container = engine, container

    @staticmethod
    def run(engine: Engine, workspace: Path, options: list[str], args: list[str]) -> Server:
        container = engine.must(
            *["run", "-d", *own(engine), *options, "-e", f"IPYBOX_SERVE_TOKEN={TOKEN}"],
            *["-v", f"{workspace}:/app/workspace", IMAGE, "serve", *args],
        )
        return Server(engine, container.strip())

    def first_line(self) -> dict[str, Any]:
        deadline = time.monotonic() + SECONDS
        while time.monotonic() < deadline:
            output = self.engine.must("logs", self.container)
            line = next((line for line in output.splitlines() if line.startswith("{")), None)
            if line is not None:
                return json.loads(line)
            running = self.inspect("{{.State.Running}}")
            assert running == "true", self.engine.call("logs", self.container)
            time.sleep(0.1)
        raise TimeoutError(self.engine.call("logs", self.container))

    def inspect(self, form: str) -> str:
        return self.engine.must("inspect", "--format", form, self.container).strip()

    def remove(self) -> None:
        self.engine.call("rm", "-f", self.container)


def post(port: int, message: dict[str, Any], token: str = TOKEN) -> tuple[int, dict[str, str], str]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=SECONDS)
    connection.request(
        "POST",
        "/mcp",
        json.dumps(message),
        {
            "Authorization": f"Bearer {token}",
            "Content-Type": "application/json",
            "Accept": "application/json, text/event-stream",
            "MCP-Protocol-Version": "2026-07-28",
            "Mcp-Method": message["method"],
            "Mcp-Name": message["params"]["name"],
        },
    )
    answer = connection.getresponse()
    body = answer.read().decode()
    connection.close()
    return answer.status, dict(answer.getheaders()), body


def ask(port: int, code: str) -> str:
    """A cell, by a request that stands for itself."""
    meta = {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": {"name": "inside", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {},
    }
    params = {"name": "execute_ipython_cell", "arguments": {"code": code}, "_meta": meta}
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
    assert post(port, message, "wrong" * 8)[0] == 401
    status, _, body = post(port, message)
    assert status == 200, f"{status}: {body}"
    (data,) = (
        json.loads(line.removeprefix("data: "))
        for line in body.splitlines()
        if line.startswith(("data: {", "{")) and '"result"' in line
    )
    return data["result"]["content"][0]["text"]


def serve(checks: Checks, engine: Engine, *options: str) -> None:
    """On the host's network; then SIGTERM ends it in order."""
    workspace = checks.workspace()
    allowing = [*engine.allowing(checks.profiles), "--network=host", *options]
    server = Server.run(engine, workspace, allowing, ["--port=0"])
    try:
        port = server.first_line()["port"]
        status, output, errors = engine.call("exec", server.container, "ipybox-healthy", str(port))
        assert status == 0, f"ipybox-healthy: {status}: {output}{errors}"
        assert engine.call("exec", server.container, "ipybox-healthy", "1")[0] != 0
        assert ask(port, "6 * 7").startswith("42")
        engine.must("kill", "--signal=TERM", server.container)
        deadline = time.monotonic() + SECONDS
        while server.inspect("{{.State.Running}}") == "true":
            assert time.monotonic() < deadline, "SIGTERM has not ended the container"
            time.sleep(0.1)
        assert server.inspect("{{.State.ExitCode}}") == "0", engine.call("logs", server.container)
    finally:
        server.remove()


def published(checks: Checks, engine: Engine) -> None:
    """With a published port, for the network of containers and the health check only."""
    networks = "10.0.0.0/8" if engine.is_podman else "172.16.0.0/12"
    options = [*engine.allowing(checks.profiles), "-p", "127.0.0.1:18901:8901"]
    options += ["--health-cmd=ipybox-healthy", "--health-interval=1s"]
    if engine.is_podman:
        options.append("--network=slirp4netns")
    args = ["--host=0.0.0.0", f"--behind-proxy={networks}", "--behind-proxy=127.0.0.1"]
    server = Server.run(engine, checks.workspace(), options, args)
    try:
        server.first_line()
        assert ask(18901, "6 * 7").startswith("42")
        if not engine.is_podman:
            deadline = time.monotonic() + SECONDS
            while (state := server.inspect("{{.State.Health.Status}}")) != "healthy":
                assert time.monotonic() < deadline, f"it is {state}"
                time.sleep(0.2)
        engine.must("stop", "--time=20", server.container)
        assert server.inspect("{{.State.ExitCode}}") == "0"
    finally:
        server.remove()


def play(checks: Checks, engine: Engine) -> None:
    """docker/kubernetes.yaml, as docs/how-to/docker.md says."""
    pod = str(checks.profiles / "kubernetes.yaml")
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "ipybox"}}
    status, output, errors = engine.call(
        "kube", "play", "-", text=json.dumps({**secret, "stringData": {"token": TOKEN}})
    )
    assert status == 0, f"secret: {status}: {output}{errors}"
    annotation = "seccomp.security.alpha.kubernetes.io/pod=localhost/seccomp.json"
    options = [f"--seccomp-profile-root={checks.profiles}", f"--annotation={annotation}"]
    server = Server(engine, "ipybox-ipybox")
    try:
        engine.must("kube", "play", *options, "--publish=127.0.0.1:18902:8901", pod)
        server.first_line()
        # Nothing runs the probes without systemd. The first success is that of the startup probe.
        deadline = time.monotonic() + SECONDS
        while engine.call("healthcheck", "run", server.container)[0] != 0:
            assert time.monotonic() < deadline, "it does not become healthy"
            time.sleep(0.2)
        assert ask(18902, "6 * 7").startswith("42")
        # The container can write there, a sandbox cannot.
        engine.must("exec", server.container, "touch", "/home/ipybox/made")
        text = ask(18902, "open('/home/ipybox/made', 'w')")
        assert "Error" in text, text
        attack(engine, ["exec", server.container, "ipybox"])
        engine.must("pod", "stop", "ipybox")
        assert server.inspect("{{.State.ExitCode}}") == "0", engine.call("logs", server.container)
    finally:
        engine.call("kube", "down", pod)
        engine.call("secret", "rm", "ipybox")


# --- all -----------------------------------------------------------------------------------------


def check_engine(checks: Checks, engine: Engine) -> None:
    name = engine.name

    def run(title: str, function: Callable[..., None], *options: str) -> None:
        checks.run(f"{name}: {title}", function, checks, engine, *options)

    architecture = engine.must("image", "inspect", "--format", "{{.Architecture}}", IMAGE).strip()
    figure(f"{name}: architecture of the image", architecture)
    size = int(engine.must("image", "inspect", "--format", "{{.Size}}", IMAGE))
    figure(f"{name}: size of the image, MB", size // 1_000_000)
    if "emulated" in engine.features:
        run("doctor", doctor)
        return
    if "ports" in engine.features:
        run("serve, published port", published)
    if "pods" in engine.features:
        run("podman kube play", play)
    if "only" in engine.features:
        return
    run("selftest, without capabilities and new privileges", selftest, *BARE)
    run("main job, in sandboxes, read-only root", sandboxed, *READ_ONLY, *BARE)
    run("--sandbox in a container that forbids sandboxes", strict)
    if "few" not in engine.features or "first" in engine.features:
        run("as ipybox 0.9 was started", as_written)
        run("as the plugin codeact-docker starts it", from_plugin)
    if "few" in engine.features:
        return
    run("variables", variables)
    run("processes that lost their parent", orphans)
    if not engine.is_podman:
        run("another user", other_user)
    run("selftest", selftest)
    run("main job, in sandboxes", sandboxed)
    run("allowed domains", domains)
    run("serve", serve)
    run("serve, read-only root", serve, *READ_ONLY, *BARE)


def main() -> None:
    work, files, *engines = sys.argv[1:]
    checks = Checks(Path(work), Path(files))
    for text in engines:
        name, _, command = text.partition("=")
        name, *features = name.split(",")
        check_engine(checks, Engine(name, shlex.split(command), set(features)))
    print("end" if checks.failed == 0 else f"end: {checks.failed} failed", flush=True)
    sys.exit(checks.failed > 0)


if __name__ == "__main__":
    main()
