# SPDX-License-Identifier: Apache-2.0
"""Attack suites A to F and H, kernels in sandboxes: `ipybox run`, which has one by default, and
`ipybox --sandbox`. Each denial has its control without the sandbox.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess

import harness
import pytest
import scripted_server
from box import make_settings
from kernels import Kernels, make_environment
from mcp_driver import YES, Client
from packages import make_wheel

CLOCK = scripted_server.params("clock")

NAMESPACES = ["user", "pid", "mnt", "net", "ipc", "uts", "cgroup"]


def attempt(statement: str) -> str:
    """Returns code that prints the result of @statement: "done" or the name of the error."""
    return (
        "try:\n"
        f"    {statement}\n"
        "    print('done')\n"
        "except OSError as error:\n"
        "    import errno; print(errno.errorcode[error.errno])\n"
    )


# Posture


POSTURE = f"""
import json, os
lines = [line for line in open("/proc/self/status") if ":\\t" in line]
status = dict(line.rstrip("\\n").split(":\\t", 1) for line in lines)
print(json.dumps({{
    "capabilities": [status[name] for name in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")],
    "no_new_privs": status["NoNewPrivs"], "seccomp": status["Seccomp"],
    "namespaces": {{name: os.readlink("/proc/self/ns/" + name) for name in {NAMESPACES}}},
    "processes": sorted(int(name) for name in os.listdir("/proc") if name.isdigit()),
    "fds": [os.readlink("/proc/self/fd/" + fd) for fd in os.listdir("/proc/self/fd")
            if os.path.exists("/proc/self/fd/" + fd)],
    "pid": os.getpid(), "environment": dict(os.environ), "umask": os.umask(0o22),
    "signals": status["SigBlk"],
}}))
"""


def test_posture(kernels: Kernels) -> None:
    """A kernel is as restricted as a command."""
    kernels.environ |= {"SECRET_FOR_TESTS": "visible", "SSH_AUTH_SOCK": "/nowhere"}
    inside = kernels.value(POSTURE)
    outside = kernels.value(POSTURE, "--no-sandbox")
    assert inside["capabilities"] == ["0" * 16] * 5
    assert (inside["no_new_privs"], inside["seccomp"]) == ("1", "2")
    for name in NAMESPACES:
        assert inside["namespaces"][name] != os.readlink(f"/proc/self/ns/{name}"), name
        if kernels.user == "root":  # the test puts the others into some
            assert outside["namespaces"][name] == os.readlink(f"/proc/self/ns/{name}"), name
    # Only its own processes: the first one, and itself.
    assert inside["processes"] == [1, inside["pid"]]
    assert len(outside["processes"]) > 2
    for kind in inside["fds"]:
        assert kind.startswith(("pipe:", "socket:", "/dev/null", "/proc/", "anon_inode:[event")), (
            kind
        )
    assert (
        not {"SECRET_FOR_TESTS", "SSH_AUTH_SOCK", "IPYBOX_TOOL_TOKEN"}
        & inside["environment"].keys()
    )
    assert "IPYBOX_TOOL_TOKEN" in outside["environment"]


# Files


def test_files(kernels: Kernels) -> None:
    workspace = kernels.place.workspace
    (workspace / ".env").write_text("PASSWORD=swordfish\n")
    (workspace / "data.txt").write_text("data\n")
    outside = kernels.place.home / "outside.txt"
    outside.write_text("x")
    code = "print(open('data.txt').read().strip()); open('new.txt', 'w').write('new')"
    assert kernels.run(code).stdout == "data\n3\n"
    assert (workspace / "new.txt").read_text() == "new"
    tries = {
        "open('.env').read()": {"EACCES"},
        f"open({str(outside)!r}, 'a').close()": {"EROFS", "EACCES"},
        f"os.rename('data.txt', {str(outside)!r})": {"EXDEV", "EROFS", "EACCES"},
    }
    for statement, results in tries.items():
        code = "import os\n" + attempt(statement)
        assert kernels.run(code).stdout.strip() in results, statement
    for statement in ("open('.env').read()", f"open({str(outside)!r}, 'a').close()"):
        assert kernels.run(attempt(statement), "--no-sandbox").stdout == "done\n"


@pytest.mark.parametrize(
    "code",
    [
        "import urllib.request; urllib.request.urlopen('http://name.example')",
        "import socket; socket.create_connection(('192.0.2.1', 80))",
    ],
)
def test_a_missing_network_is_told(kernel: Kernels, code: str) -> None:
    """With a network, the proxy answers, and reports domains that it denies."""
    text = "the sandbox has no network; network.allowedDomains can allow domains"
    assert kernel.run(code).stderr.count(text) == 1
    settings = {"allowedDomains": ["other.example"], "deniedDomains": []}
    (kernel.place.workspace / "box.json").write_text(
        json.dumps(
            {
                "network": settings,
                "filesystem": {"denyRead": [], "allowWrite": ["."], "denyWrite": []},
            }
        )
    )
    assert text not in kernel.run(code, "--sandbox-config", "box.json").stderr


def test_denied_files_are_told(kernel: Kernels) -> None:
    outside = kernel.place.home / "outside.txt"
    outside.write_text("x")
    (kernel.place.workspace / ".env").write_text("PASSWORD=swordfish\n")
    done = kernel.run(f"open({str(outside)!r}, 'a')")
    assert (
        "operation not permitted: the sandbox does not write" in done.stderr
        and str(outside) in done.stderr
    )
    assert "filesystem.allowWrite can allow it" in done.stderr
    done = kernel.run("open('.env')")
    assert (
        done.stderr.count("operation not permitted: ") == 1
        and "filesystem.denyRead: .env" in done.stderr
    )
    assert "operation not permitted" not in kernel.run("open('/no/such/file')").stderr
    assert "operation not permitted" not in kernel.run("open('.env')", "--no-sandbox").stderr


def test_packages_are_ipyboxs_own(kernel: Kernels) -> None:
    """Nothing replaces them, neither a directory nor a link that leads elsewhere.

    Those of ipybox remain.
    """
    workspace = kernel.place.workspace
    target = kernel.place.root / "elsewhere"
    target.mkdir()
    with kernel.serve(*kernel.servers_flags()) as server:
        assert (
            server.cell("import os\n" + attempt(f"os.symlink({str(target)!r}, 'mcptools')")).strip()
            == "EEXIST"
        )
        assert server.cell(attempt("os.rename('mcptools', 'mine')")).strip() in (
            "EBUSY",
            "EACCES",
            "EROFS",
        )
        server.register("time", CLOCK)
        assert server.cell("import mcptools.time; print(1)") == "1"
        assert (workspace / "mcptools/time/__init__.py").exists() and not list(target.iterdir())
    with kernel.serve() as server:
        assert server.cell(attempt("open('mcptools/time/__init__.py', 'a').close()")).strip() in (
            "EROFS",
            "EACCES",
        )


def test_the_place_of_packages_is_no_link(kernel: Kernels) -> None:
    """If no session registers servers, the directory is not created.

    What ipybox generates later must not go elsewhere.
    """
    link = "import os\n" + attempt("os.symlink('/etc', 'mcptools')")
    assert kernel.run(link).stdout in ("EACCES\n", "EROFS\n")
    assert not (kernel.place.workspace / "mcptools").is_symlink()
    assert kernel.run(link, "--no-sandbox").stdout == "done\n"
    assert (kernel.place.workspace / "mcptools").is_symlink()


@pytest.mark.needs_root
def test_roots_secrets_stay_roots(kernel: Kernels) -> None:
    code = attempt("open('/etc/shadow').read()")
    assert kernel.run(code).stdout == "EACCES\n"
    assert kernel.run(code, "--no-sandbox").stdout == "done\n"


def test_registry_is_hidden(kernel: Kernels) -> None:
    done = harness.run(
        [
            kernel.box.program("root"),
            "servers",
            "add",
            "time",
            json.dumps(CLOCK),
        ],
        kernel.place,
    )
    assert done.returncode == 0, done.stderr
    (registry,) = [path for path in kernel.place.state.rglob("*.json")]
    code = attempt(f"print(len(open({str(registry)!r}).read()) > 10)")
    assert kernel.run(code).stdout in ("ENOENT\n", "EACCES\n")
    assert kernel.run(code, "--no-sandbox").stdout == "True\ndone\n"


def test_its_own_walls(kernel: Kernels) -> None:
    """Files that say what is allowed cannot be changed, although they are in the workspace: rules,
    logs, configuration, generated packages.
    """
    workspace = kernel.place.workspace
    (workspace / "rules.json").write_text('{"rules": []}')
    (workspace / "audit.jsonl").write_text("")
    (workspace / "r.jsonl").touch(0o600)
    (workspace / "box.json").write_text(json.dumps(make_settings()))
    (workspace / "mcptools/x").mkdir(parents=True)
    (workspace / "mcptools/x/__init__.py").write_text("")
    flags = ["--approve", "rules.json", "--audit-log", "audit.jsonl", "--record", "r.jsonl"]
    for name in ("rules.json", "audit.jsonl", "r.jsonl", "box.json", "mcptools/x/__init__.py"):
        for statement in (f"open({name!r}, 'a').close()", f"import os; os.rename({name!r}, 'y')"):
            done = kernel.run(attempt(statement), *flags, "--sandbox-config", "box.json")
            assert done.stdout in ("EROFS\n", "EACCES\n", "EBUSY\n", "EXDEV\n"), (statement, done)
    assert (
        kernel.run(attempt("open('mcptools/x/__init__.py', 'a').close()"), "--no-sandbox").stdout
        == "done\n"
    )


# Network


def test_no_network(kernels: Kernels) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        code = "import socket\n" + attempt(
            f"socket.create_connection(('127.0.0.1', {port}), 5).close()"
        )
        assert kernels.run(code).stdout == "ECONNREFUSED\n"
        assert kernels.run(code, "--no-sandbox").stdout == "done\n"


def test_denied_domain_is_told(kernel: Kernels) -> None:
    (kernel.place.workspace / "box.json").write_text(
        json.dumps(make_settings(allowedDomains=["allowed.invalid"]))
    )
    code = """
import urllib.request
try:
    urllib.request.urlopen("http://forbidden.invalid/", timeout=100)
except OSError as error:
    print(error)
"""
    done = kernel.run(code, "--sandbox-config", "box.json")
    assert "403" in done.stdout, done
    assert "operation not permitted" in done.stderr and "forbidden.invalid:80" in done.stderr
    assert "network.allowedDomains" in done.stderr


def test_denied_socket_is_told(kernel: Kernels) -> None:
    path = kernel.place.workspace / "s"
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(path))
        server.listen()
        code = "import socket\n" + attempt("socket.socket(socket.AF_UNIX).connect('s')")
        done = kernel.run(code)
        assert done.stdout == "EPERM\n" or done.stdout == "EACCES\n", done
        assert (
            "operation not permitted" in done.stderr and "network.allowUnixSockets" in done.stderr
        )
        assert kernel.run(code, "--no-sandbox").stdout == "done\n"
    path.unlink()


# Work


def test_plot(kernels: Kernels) -> None:
    done = kernels.run("import matplotlib.pyplot as plt; plt.plot([1, 4, 9]); plt.show()")
    (image,) = (kernels.place.workspace / "images").iterdir()
    assert done.stdout == f"[image saved: {image}]\n", done.stderr
    assert image.read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_multiprocessing(kernel: Kernels, method: str) -> None:
    (kernel.place.workspace / "work.py").write_text("def square(x): return x * x\n")
    code = f"""
import multiprocessing, work
context = multiprocessing.get_context({method!r})
with context.Pool(2) as pool:
    print(pool.map(work.square, range(4)))
"""
    done = kernel.run(code)
    assert done.stdout == "[0, 1, 4, 9]\n", done.stderr


def test_children(kernels: Kernels) -> None:
    done = kernels.run(
        "import subprocess\n"
        "!echo $((6 * 7))\n"
        "print(subprocess.run(['id', '-u'], capture_output=True).returncode)"
    )
    assert done.stdout == "42\n0\n", done.stderr


# Tools


def test_tools(kernel: Kernels) -> None:
    with kernel.serve(*kernel.servers_flags()) as server:
        assert "get_current_time" in server.register("time", CLOCK)[0]
        code = (
            "from mcptools.time import get_current_time as t\n"
            "print(t.run(t.Params(timezone='UTC')).timezone)"
        )
        assert server.cell(code) == "UTC"
        server.tool("reset")
        assert server.cell(code) == "UTC"


POST = """
import json, os, urllib.request, urllib.error
def post(body, path="/run"):
    host = f"http://{os.environ['TOOL_SERVER_HOST']}:{os.environ['TOOL_SERVER_PORT']}"
    headers = {"Content-Type": "application/json"}
    request = urllib.request.Request(host + path, json.dumps(body).encode(), headers)
    try:
        return json.loads(urllib.request.urlopen(request, timeout=100).read())
    except urllib.error.HTTPError as error:
        return {"status": error.code}
"""


def test_kernels_name_no_commands(kernel: Kernels) -> None:
    """A kernel can set neither a server's parameters nor another path."""
    mark = kernel.place.workspace / "mark"
    with kernel.serve() as server:
        server.cell(POST)
        params = {"command": "touch", "args": [str(mark)]}
        call = {"server_name": "x", "server_params": params, "tool_name": "t", "tool_args": {}}
        assert server.cell(f"print(post({call!r})['error_type'])") == "not_found"
        for path in ("/approval", "/reset", "/stop", "/", "/run/../approval"):
            assert server.cell(f"print(post({{}}, {path!r}))") == "{'status': 404}", path
    assert not mark.exists()


def test_sessions_do_not_meet(kernel: Kernels) -> None:
    """Two sessions use the same port inside; each reaches its own channel."""
    with kernel.serve(*kernel.servers_flags()) as first, kernel.serve() as second:
        first.register("time", CLOCK)
        second.cell(POST)
        port = first.cell("import os; print(os.environ['TOOL_SERVER_PORT'])")
        assert second.cell("print(os.environ['TOOL_SERVER_PORT'])") == port
        package = (kernel.place.workspace / "mcptools/time/__init__.py").read_text()
        server_id = package.partition('server_id="')[2].partition('"')[0]
        call = {
            "server_id": server_id,
            "server_name": "time",
            "tool_name": "get_current_time",
            "tool_args": {"timezone": "UTC"},
        }
        assert "timezone" in first.cell(POST + f"print(post({call!r})['result'])")
        assert second.cell(f"print(post({call!r})['error_type'])") == "not_found"


# Ends


def test_timeout_keeps_the_state(kernel: Kernels) -> None:
    with kernel.serve() as server:
        server.cell("x = 1")
        assert "timeout" in server.failing_cell("while True: pass", timeout=1)
        assert server.cell("print(x)") == "1"


@pytest.mark.parametrize(
    "death", ["os._exit(3)", "os.kill(os.getpid(), 9)", "import ctypes; ctypes.string_at(0)"]
)
def test_death_of_a_kernel(kernel: Kernels, death: str) -> None:
    with kernel.serve() as server:
        assert "kernel" in server.failing_cell(f"import os; {death}").lower()
        assert server.cell("print(1)") == "1"


def test_death_of_everybody_in_the_sandbox(kernel: Kernels) -> None:
    """Pid 1 of a sandbox survives what happens in it.

    Children that left every group end with the session.
    """
    with kernel.serve() as server:
        code = (
            "import os, signal\n"
            "try: os.kill(1, signal.SIGKILL)\n"
            "except PermissionError: pass\n"
            "print(1)"
        )
        assert server.cell(code) == "1"
        daemon = (
            "import subprocess; subprocess.Popen(['setsid', 'sleep', '1000'], env={}, "
            "stdout=-3, stderr=-3); print(2)"
        )
        assert server.cell(daemon) == "2"


def test_core_is_killed(kernel: Kernels) -> None:
    """Nothing remains, which the fixture `place` checks."""
    server = kernel.serve()
    server.cell("import subprocess; p = subprocess.Popen(['sleep', '1000'])")
    server.process.send_signal(signal.SIGKILL)
    server.process.wait()


@pytest.mark.parametrize(
    "bomb",
    [
        "import os\nwhile True: os.fork()",
        "import threading\n"
        "while True: threading.Thread(target=threading.Event().wait, daemon=True).start()",
        "x = []\nwhile True: x.append(bytearray(1 << 28))",
        "import os\nfds = []\nwhile True: fds.append(os.open('/dev/null', 0))",
        "f = open('/tmp/fill', 'wb', 0)\nwhile True: f.write(bytes(1 << 24))",
    ],
    ids=["fork", "threads", "memory", "descriptors", "tmp"],
)
def test_bombs(kernel: Kernels, bomb: str) -> None:
    """They end in an error. The next cell and another session work."""
    # Less memory than the default, which takes long to fill when others need the machine.
    path = kernel.box.write_settings(make_settings(allowWrite=["."], limits={"memory": "2G"}))
    with kernel.serve("--sandbox-config", path) as server, kernel.serve() as other:
        assert other.cell("print(1)") == "1"
        text = server.failing_cell(bomb, timeout=100)
        assert "timeout" not in text.lower(), text
        assert other.cell("print(2)") == "2"
        server.tool("reset")
        assert server.cell("print(3)") == "3"


# The configuration


def test_configuration_that_is_not_there(kernel: Kernels) -> None:
    """Nothing runs: the default could allow what the file would deny, and a cell could write the
    file for the next time.
    """
    done = kernel.run(
        "open('nowhere.json', 'w').write('{}'); print(1)", "--sandbox-config", "nowhere.json"
    )
    assert done.stdout == "" and done.returncode == 1
    assert (
        "the sandbox configuration" in done.stderr and "nowhere.json does not exist" in done.stderr
    )
    assert not (kernel.place.workspace / "nowhere.json").exists()


@pytest.mark.parametrize(
    "text, complaint",
    [
        ('{"network": {"allowedDomains": [1]}}', "allowedDomains"),
        ('{"nosuchkey": 1}', "nosuchkey"),
        ("{", "JSON"),
    ],
)
def test_wrong_configuration(kernel: Kernels, text: str, complaint: str) -> None:
    (kernel.place.workspace / "box.json").write_text(text)
    done = kernel.run("print(1)", "--sandbox-config", "box.json")
    assert done.returncode != 0 and done.stdout == ""
    assert complaint in done.stderr


def test_flags_that_contradict(kernel: Kernels) -> None:
    done = kernel.run("print(1)", "--sandbox-config", "box.json", "--no-sandbox")
    assert done.returncode == 2 and "cannot be used together" in done.stderr


# Packages


def test_installation(kernel: Kernels) -> None:
    """The installer writes the overlay, and nothing else."""
    wheel = make_wheel(kernel.place.workspace, "ipb_boxed", "in a sandbox")
    packages = kernel.place.workspace / ".ipybox/packages"
    with kernel.serve() as server:
        output = server.tool("install_package", {"package_name": str(wheel)})
        assert not output["isError"], output
        assert server.cell("import ipb_boxed; print(ipb_boxed.value)") == "in a sandbox"
        assert (packages / "ipb_boxed.py").exists()
        failed = server.tool("install_package", {"package_name": "./no-such.whl"})
        assert failed["isError"] and "no-such.whl" in failed["content"][0]["text"]


def test_installation_by_a_cell(kernel: Kernels) -> None:
    """ipybox does `!pip install` and `%pip install`, with the rules for tool calls."""
    first, second = (
        make_wheel(kernel.place.workspace, name, "by a cell")
        for name in ("ipb_first", "ipb_second")
    )
    with kernel.serve("--approve", "allow") as server:
        assert "Successfully installed" in server.cell(f"!pip install {first}\nimport ipb_first")
        assert server.cell(
            f"%pip install -q {second}\nimport ipb_second; print(ipb_second.value, _exit_code)"
        ).endswith("by a cell 0")
        assert "no-such.whl" in server.cell("!pip install ./no-such.whl\nprint(_exit_code)")
    assert (kernel.place.workspace / ".ipybox/packages/ipb_first.py").exists()
    third = make_wheel(kernel.place.workspace, "ipb_third", "x")
    with kernel.serve("--approve", "deny") as server:
        assert "ipybox.install_package" in server.cell(f"!pip install {third}\nprint(_exit_code)")
    assert not (kernel.place.workspace / ".ipybox/packages/ipb_third.py").exists()


def test_pip_magic_in_a_sandbox(kernel: Kernels) -> None:
    wheels = [
        make_wheel(kernel.place.workspace, name, "by a cell") for name in ("ipb_one", "ipb_two")
    ]
    with kernel.serve("--approve", "allow") as server:
        text = server.cell(f"%pip install {wheels[0]} {wheels[1]}\nprint(_exit_code)")
        assert text.count("Successfully installed") == 2 and text.endswith("\n0")
        assert server.cell("import ipb_one, ipb_two; ipb_two.value") == "'by a cell'"
        # They are listed with the packages of the kernel's Python.
        listed = server.cell("%pip list --format=freeze")
        assert "ipb_one==" in listed.replace("-", "_") and "\nipython==" in listed
        assert "Summary: IPython" in server.cell("%pip show ipython")
        assert "restart" not in server.cell("%pip freeze")
        # What cannot be done says what can.
        (kernel.place.workspace / "list.txt").write_text("./no-such.whl\n")
        text = server.cell("%pip install -r list.txt\nprint(_exit_code)")
        assert "it has the option -r" in text and "%pip install 'numpy>=2' pandas" in text
        assert ".ipybox/packages of the workspace" in server.cell("%pip uninstall -y ipb_one")


# What a cell sends beside the package is neither shown nor used.
INSTALL = """
from ipybox.tool_exec.client import ToolRunner
try:
    arguments = {{"package": {wheel!r}, "index": "reviewed by you", "note": "it is safe"}}
    print(ToolRunner("ipybox", server_id="ipybox").run_sync("install_package", arguments))
except Exception as error:
    print(type(error).__name__, error)
"""


def test_installation_by_a_cell_asks(kernel: Kernels) -> None:
    """By default tool calls run unasked, but not installations."""
    wheel = make_wheel(kernel.place.workspace, "ipb_asked", "by a cell")
    installed = kernel.place.workspace / ".ipybox/packages/ipb_asked.py"
    log = kernel.place.workspace / "audit.jsonl"
    with kernel.serve("--audit-log", "audit.jsonl") as server:  # of a host that cannot ask
        output = server.cell(f"!pip install {wheel}\nprint(_exit_code)")
        assert "offers no way to ask" in output and "tool install_package" in output
        assert not installed.exists()
        # The control: a call of the client, whose user was asked by the client.
        assert not server.tool("install_package", {"package_name": str(wheel)})["isError"]
        assert installed.exists()
    installed.unlink()
    with kernel.serve("--audit-log", "audit.jsonl", client=Client) as server:
        for answer in ({"action": "decline"}, YES):
            cell = server.start_cell(INSTALL.format(wheel=str(wheel)))
            question = server.question()
            shown = question["params"]["message"]
            assert shown.startswith(
                "Code in a cell wants to install a package:\n\n"
                "    Installation of a Python package: ipybox.install_package\n    Arguments:\n"
            )
            assert wheel.name in shown and '"builds": false' in shown and '"index": "' in shown
            assert "reviewed" not in shown and "safe" not in shown
            assert not installed.exists()
            server.reply(question, result=answer)
            text = server.text(cell)
            assert ("ApprovalRejectedError" in text) is (answer is not YES), text
        assert installed.exists()
    decisions = [json.loads(line) for line in log.read_text().splitlines()]
    assert [(line["decision"], line["by"]) for line in decisions] == [
        ("deny", "nobody"),
        ("deny", "user"),
        ("allow", "user"),
    ]
    assert all(line["arguments"]["package"] == str(wheel) for line in decisions)
    assert all(line["tool"] == "install_package" for line in decisions)


def test_installation_by_a_cell_by_rule(kernel: Kernels) -> None:
    wheel = make_wheel(kernel.place.workspace, "ipb_ruled", "by a cell")
    other = make_wheel(kernel.place.workspace, "ipb_other", "by a cell")
    rule = {
        "server": "ipybox",
        "tool": "install_package",
        "arguments": {"package": str(wheel)},
        "decision": "allow",
    }
    (kernel.place.workspace / "rules.json").write_text(json.dumps({"rules": [rule]}))
    with kernel.serve("--approve", "rules.json") as server:
        assert "Successfully installed" in server.cell(f"!pip install {wheel}")
        assert "offers no way to ask" in server.cell(f"!pip install {other}")


BUILD = """
import pathlib
from setuptools import setup
pathlib.Path({mark!r}).write_text("was here")
setup(name="ipb_built", version="1.0", py_modules=[])
"""


def test_wheels_only(kernel: Kernels) -> None:
    """A URL is refused. If a directory is built, its code runs in the sandbox, too."""
    workspace, mark = kernel.place.workspace, kernel.place.home / "mark"
    (workspace / "source").mkdir()
    (workspace / "source/setup.py").write_text(BUILD.format(mark=str(mark)))
    with kernel.serve() as server:
        refused = server.tool("install_package", {"package_name": "git+https://git.invalid/x.git"})
        assert refused["isError"] and "--allow-builds" in refused["content"][0]["text"]
        server.tool("install_package", {"package_name": "./source"})
    assert not mark.exists()
    with kernel.serve("--allow-builds") as server:
        allowed = server.tool("install_package", {"package_name": "git+https://git.invalid/x.git"})
        assert allowed["isError"] and "--allow-builds" not in allowed["content"][0]["text"]


@pytest.mark.parametrize("link", [".ipybox", ".ipybox/packages"])
def test_installations_are_not_led_astray(kernel: Kernels, link: str) -> None:
    """A link that a cell created in place of the packages' directory is not followed."""
    wheel = make_wheel(kernel.place.workspace, "ipb_boxed", "x")
    target = kernel.place.home / "target"
    target.mkdir()
    with kernel.serve() as server:
        server.cell(
            "import os\n"
            f"os.makedirs('.ipybox', exist_ok=True) if '/' in {link!r} else None\n"
            f"os.symlink({str(target)!r}, {link!r})"
        )
        output = server.tool("install_package", {"package_name": str(wheel)})
        assert output["isError"] and "symbolic link" in output["content"][0]["text"]
    assert not list(target.iterdir())


PIP = """
import pathlib, sys
try:
    pathlib.Path({mark!r}).write_text("was here")
except OSError:
    pass
print("a cell's pip")
"""


def test_installer_is_not_a_cells_module(kernel: Kernels) -> None:
    """The programs that install, outside of a sandbox or in one, are not files that a cell wrote,
    whatever their name.
    """
    workspace, mark = kernel.place.workspace, kernel.place.home / "mark"
    wheel = make_wheel(workspace, "ipb_boxed", "x")
    names = ["pip.py", "sitecustomize.py", "json.py", "encodings.py"]
    with kernel.serve() as server:
        server.cell(f"for name in {names!r}: open(name, 'w').write({PIP.format(mark=str(mark))!r})")
        output = server.tool("install_package", {"package_name": str(wheel)})
        assert not output["isError"] and "a cell's pip" not in output["content"][0]["text"]
    assert not mark.exists()
    # Positive control.
    subprocess.run([kernel.python, "-m", "pip"], cwd=workspace, check=False, capture_output=True)
    assert mark.exists()


def test_installer_is_not_of_an_editable_install(kernel: Kernels) -> None:
    """Python runs no such file at its start, in an environment that has a project in the workspace
    on its path.
    """
    source, mark = kernel.place.workspace / "src", kernel.place.home / "mark"
    wheel = make_wheel(kernel.place.workspace, "ipb_boxed", "x")
    packages, real = make_environment(kernel.place.root / "environment")
    # Not sitecustomize: Debian's Python has one of its own.
    (packages / "project.pth").write_text(f"{source}\nimport project_hook\n")
    source.mkdir()
    kernel.python = kernel.place.root / "environment/bin/python"
    settings = kernel.box.write_settings(make_settings(allowRead=[str(real)]))
    with kernel.serve("--sandbox-config", settings) as server:
        server.cell(f"open('src/project_hook.py', 'w').write({PIP.format(mark=str(mark))!r})")
        output = server.tool("install_package", {"package_name": str(wheel)})
        assert not output["isError"] and "a cell's pip" not in output["content"][0]["text"]
    assert not mark.exists()
    # Positive control.
    subprocess.run([kernel.python, "-I", "-m", "pip"], check=False, capture_output=True)
    assert mark.exists()
    shutil.rmtree(kernel.place.root / "environment")


SWAP = """
import os, threading
def swap():
    while not os.path.isdir(".ipybox/packages"): pass
    os.rename(".ipybox", "aside"); os.symlink({target!r}, ".ipybox"); os.mkdir("swapped")
threading.Thread(target=swap).start()
"""


def test_installations_are_not_led_astray_meanwhile(kernel: Kernels) -> None:
    """It also runs none that is created after the installation began."""
    wheel = make_wheel(kernel.place.workspace, "ipb_boxed", "x")
    target = kernel.place.home / "target"
    (target / "packages").mkdir(parents=True)
    with kernel.serve() as server:
        server.cell(SWAP.format(target=str(target)))
        output = server.tool("install_package", {"package_name": str(wheel)})
        assert output["isError"] or not (kernel.place.workspace / "swapped").exists(), output
    assert not list((target / "packages").iterdir())
