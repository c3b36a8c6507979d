# SPDX-License-Identifier: Apache-2.0
"""The installed wheel on a machine without our libraries.

scripts/check-wheel runs this as root in a mount namespace in which they are hidden. pytest does not
find it by itself, since it is not called test_….py.
"""

from __future__ import annotations

import ctypes
import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from little_internet import openssl
from over_http import HttpServer

ROOT = Path(__file__).resolve().parents[2]
SERVERS = ROOT / ".cache/test"
ENVIRONMENT = Path(os.environ["IPYBOX_WHEEL_ENVIRONMENT"])
IPYBOX = str(ENVIRONMENT / "bin/ipybox")

# Libraries that neither Python nor `mount` uses.
LIBRARIES = [
    "libcurl-gnutls",
    "libcurl",
    "libgio-2.0",
    "libglib-2.0",
    "libgmodule-2.0",
    "libgobject-2.0",
    "libnghttp2",
    "libseccomp",
    "libzmq",
]
AUTHORITIES = [
    "ssl/certs/ca-certificates.crt",
    "pki/tls/certs/ca-bundle.crt",
    "pki/ca-trust/extracted/pem/tls-ca-bundle.pem",
    "ssl/ca-bundle.pem",
    "ssl/cert.pem",
]


def mount(*arguments: str | Path) -> None:
    subprocess.run(["mount", *arguments], check=True)


@pytest.fixture(scope="session")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory for the tests, in a system without our libraries and without certificates.

    Sandboxes can be made in its file system as root. In it, `etc` is /etc. All mounts end with the
    namespace.
    """
    top = tmp_path_factory.mktemp("wheel")
    mount("-t", "tmpfs", "none", top)
    certificates = top / "certificates"
    certificates.mkdir()
    curve = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2"]
    openssl(
        "req",
        "-x509",
        *curve,
        "-keyout",
        "key",
        "-out",
        "ca.pem",
        "-subj",
        "/CN=ours",
        directory=certificates,
    )
    openssl(
        "req",
        *curve,
        "-keyout",
        "server.key",
        "-out",
        "request",
        "-subj",
        "/CN=server",
        directory=certificates,
    )
    (certificates / "names").write_text("subjectAltName=IP:127.0.0.1,DNS:localhost\n")
    openssl(
        "x509",
        "-req",
        "-in",
        "request",
        "-CA",
        "ca.pem",
        "-CAkey",
        "key",
        "-CAcreateserial",
        "-out",
        "certificate",
        "-days",
        "2",
        "-extfile",
        "names",
        directory=certificates,
    )
    server = (certificates / "certificate").read_text() + (certificates / "server.key").read_text()
    (certificates / "server.pem").write_text(server)

    hidden = [
        path
        for name in LIBRARIES
        for path in Path("/usr").glob(f"lib*/**/{name}.so*")
        if not path.is_symlink()
    ]
    for path in hidden:
        mount("--bind", "/dev/null", path)
    shutil.copytree("/etc", top / "etc", symlinks=True)
    for name in ("ssl", "pki"):
        shutil.rmtree(top / "etc" / name, ignore_errors=True)
    mount("--bind", top / "etc", "/etc")
    for name in ("home", "workspace"):
        (top / name).mkdir()
    return top


def environ(place: Path) -> dict[str, str]:
    return {"PATH": "/usr/bin:/bin", "HOME": str(place / "home"), "LC_ALL": "C.UTF-8"}


def run(place: Path, *command: str, expect: int = 0, **env: str) -> str:
    done = subprocess.run(
        command,
        cwd=place / "workspace",
        env=environ(place) | env,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == expect, done.stdout + done.stderr
    return done.stdout + done.stderr


def test_libraries_are_hidden(place: Path) -> None:
    for name in LIBRARIES:
        for path in (f"{name}.so", f"{name}.so.0", f"{name}.so.2", f"{name}.so.4", f"{name}.so.14"):
            with pytest.raises(OSError, match="cannot open shared|file too short"):
                ctypes.CDLL(path)


def test_version(place: Path) -> None:
    assert re.fullmatch(r"ipybox \d[\w.~]*\n", run(place, IPYBOX, "--version"))


def test_cell_in_sandbox(place: Path) -> None:
    output = run(place, IPYBOX, "run", "-c", "import sys; print(6 * 7); sys.prefix")
    assert output.split("\n")[:2] == ["42", f"'{ENVIRONMENT}'"]


def test_doctor(place: Path) -> None:
    report = json.loads(run(place, IPYBOX, "doctor", "--json"))
    states = {check["name"]: check["state"] for check in report}
    assert [
        states[name] for name in ("python", "kernel", "ipython", "pydantic", "libcurl", "sandbox")
    ] == ["ok"] * 6, report


class McpServer:
    """A running server on stdio."""

    def __init__(self, place: Path, *command: str) -> None:
        self.process = subprocess.Popen(
            command,
            cwd=place / "workspace",
            env=environ(place),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.ask(
            "initialize",
            protocolVersion="2025-06-18",
            capabilities={},
            clientInfo={"name": "t", "version": "1"},
        )
        self.send(method="notifications/initialized")

    def __enter__(self) -> McpServer:
        return self

    def __exit__(self, *_: object) -> None:
        with self.process:
            self.process.stdin.close()
            assert self.process.wait(20) == 0

    def send(self, **message: object) -> None:
        self.process.stdin.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
        self.process.stdin.flush()

    def ask(self, method: str, **params: object) -> dict:
        self.send(id=method, method=method, params=params)
        while (answer := json.loads(self.process.stdout.readline())).get("id") != method:
            pass
        return answer["result"]

    def call(self, tool: str, **arguments: object) -> str:
        result = self.ask("tools/call", name=tool, arguments=arguments)
        text = "".join(item["text"] for item in result["content"])
        assert not result.get("isError"), text
        return text


def check_libraries(pid: int) -> None:
    """The process has loaded nothing but the C library."""
    maps = Path(f"/proc/{pid}/maps").read_text()
    loaded = {Path(path).name for path in re.findall(r" (/\S*\.so\S*)$", maps, re.MULTILINE)}
    assert loaded and all(
        re.match(r"(libc|libm|ld-linux[^.]*|libnss_\w+|libresolv)\.", name) for name in loaded
    ), loaded


def test_only_the_c_library_is_loaded(place: Path) -> None:
    """In a program that has looked up a name and used HTTPS."""
    with (
        HttpServer(lambda request: False, place / "certificates/server.pem") as web,
        McpServer(place, IPYBOX) as server,
    ):
        url = web.url.replace("127.0.0.1", "localhost")
        parameters = {"url": url, "ca_file": str(place / "certificates/ca.pem")}
        server.call("register_mcp_server", server_name="web", server_params=parameters)
        check_libraries(server.process.pid)


# Runs in an environment with jupyter_client, whose pyzmq has a libzmq of its own.
FRONT_END = """
import json, sys
from jupyter_client import BlockingKernelClient
client = BlockingKernelClient(connection_file=sys.argv[1])
client.load_connection_file()
client.start_channels()
client.wait_for_ready(timeout=50)
info = client.kernel_info(reply=True, timeout=50)["content"]
texts = []
client.execute_interactive(
    "print(6 * 7)", timeout=50, output_hook=lambda message: texts.append(message["content"])
)
print(json.dumps({"info": info, "texts": [each["text"] for each in texts if "text" in each]}))
"""


def test_jupyter_kernel(place: Path) -> None:
    """Over ZeroMQ, without libzmq and libstdc++."""
    connection = place / "connection.json"
    names = ("shell", "iopub", "stdin", "control", "hb")
    ports = {f"{name}_port": number for number, name in enumerate(names, 1)}
    settings = {"transport": "ipc", "ip": str(place / "socket"), "key": "secret key"}
    connection.write_text(
        json.dumps({**settings, "signature_scheme": "hmac-sha256", "kernel_name": "", **ports})
    )
    front_end = [str(SERVERS / "jupyter/bin/python"), "-c", FRONT_END, str(connection)]
    with subprocess.Popen(
        [IPYBOX, "kernel", "-f", str(connection)], cwd=place / "workspace", env=environ(place)
    ) as kernel:
        try:
            outcome = json.loads(run(place, *front_end))
            check_libraries(kernel.pid)
        finally:
            kernel.terminate()
    assert kernel.returncode == 0
    assert outcome["info"]["implementation"] == "ipybox" and outcome["texts"] == ["42\n"]


def apigen(
    place: Path, url: str, expect: int = 0, env: dict[str, str] | None = None, **parameters: str
) -> str:
    text = json.dumps({"url": url, **parameters})
    command = [
        "apigen",
        "--server-name=web",
        "--root-dir=api",
        "--connect-timeout=50",
        f"--server-params={text}",
    ]
    return run(place, IPYBOX, *command, expect=expect, **(env or {}))


def test_https(place: Path) -> None:
    authority = str(place / "certificates/ca.pem")
    with HttpServer(lambda request: False, place / "certificates/server.pem") as server:
        assert apigen(place, server.url, ca_file=authority) == "echo\n"
        assert apigen(place, server.url, env={"SSL_CERT_FILE": authority}) == "echo\n"
        refusal = apigen(place, server.url, expect=1)
        assert "certificate" in refusal and "SSL_CERT_FILE" in refusal


@pytest.mark.parametrize("path", AUTHORITIES)
def test_certificates_of_the_machine(place: Path, path: str) -> None:
    file = Path("/etc") / path
    file.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(place / "certificates/ca.pem", file)
    try:
        with HttpServer(lambda request: False, place / "certificates/server.pem") as server:
            assert apigen(place, server.url) == "echo\n"
    finally:
        file.unlink()


def test_tool_call(place: Path) -> None:
    """With a server from npm. The cell's `ipybox` is the package of kernels, not the SDK."""
    parameters = {
        "command": str(SERVERS / "node/bin/node"),
        "args": [
            str(SERVERS / "node/node_modules/.bin/mcp-server-filesystem"),
            str(place / "workspace"),
        ],
    }
    run(
        place,
        IPYBOX,
        "apigen",
        "--server-name=files",
        "--root-dir=mcptools",
        f"--server-params={json.dumps(parameters)}",
    )
    (place / "workspace/here.txt").touch()
    code = "from mcptools.files import list_directory as l; print(l.run(l.Params(path='.')))"
    assert "here.txt" in run(place, IPYBOX, "run", "--approve=allow", "-c", code)


def test_mcp_server_module(place: Path) -> None:
    with McpServer(place, str(ENVIRONMENT / "bin/python"), "-m", "ipybox.mcp_server") as server:
        assert server.call("execute_ipython_cell", code="6 * 7") == "42"


# The example of the guide, with a server that needs no account.
QUICKSTART = """\
import asyncio
from pathlib import Path
from ipybox import ApprovalRequest, CodeExecutionResult, CodeExecutor, generate_mcp_sources
from ipybox.utils import arun

SERVER_PARAMS = {parameters}

CODE = '''
from mcptools.files.list_directory import Params, run
print(run(Params(path=".")))
'''

async def main():
    await generate_mcp_sources(
        server_name="files", server_params=SERVER_PARAMS, root_dir=Path("mcptools")
    )
    async with CodeExecutor() as executor:
        async for item in executor.stream(CODE):
            match item:
                case ApprovalRequest() as req:
                    prompt = f"Tool call: [{{req}}]\\nApprove? (Y/n): "
                    if await arun(input, prompt) in ["y", ""]:
                        await req.accept()
                    else:
                        await req.reject()
                case CodeExecutionResult(text=text):
                    print(text)

asyncio.run(main())
"""


def test_quickstart(place: Path) -> None:
    workspace = place / "workspace"
    parameters = {
        "command": str(SERVERS / "node/bin/node"),
        "args": [str(SERVERS / "node/node_modules/.bin/mcp-server-filesystem"), "${SHARED}"],
    }
    (workspace / ".env").write_text(f"SHARED={workspace}\n")
    (workspace / "quickstart.py").write_text(QUICKSTART.format(parameters=parameters))
    command = [ENVIRONMENT / "bin/python", "quickstart.py"]
    done = subprocess.run(
        command,
        cwd=workspace,
        env=environ(place),
        input="y\n",
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Approve? (Y/n): " in done.stdout and "quickstart.py" in done.stdout
