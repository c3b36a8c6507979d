# SPDX-License-Identifier: Apache-2.0
"""`ipybox gateway` with kernels that `ipybox kernelspec install` has listed."""

from __future__ import annotations

import http.client
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import harness
import pytest
import scripted_server
from gateway_driver import Channels, Gateway, contents
from server_process import jupyter_python, jupyter_server

PROGRAM = str(Path(__file__).with_name("jupyter_program.py"))
PNG = b"\x89PNG\r\n\x1a\nrest"
CONFIG = {
    "network": {"allowedDomains": [], "deniedDomains": []},
    "filesystem": {"denyRead": [], "allowWrite": ["."], "denyWrite": []},
}
ARGV = ["/usr/bin/ipybox", "kernel", "-f", "{connection_file}"]


@pytest.fixture
def start(ipybox: str, place: harness.Place, python: str) -> Callable[..., Gateway]:
    return lambda *args: Gateway(ipybox, place, "--python", python, *args)


@pytest.fixture
def folder(place: harness.Place) -> Path:
    """The user's folder of kernelspecs."""
    return place.home / ".local/share/jupyter/kernels"


@pytest.fixture
def install(run_ipybox: Any, folder: Path) -> Callable[..., Path]:
    """Its directory."""

    def install(name: str, *options: str) -> Path:
        done = run_ipybox("kernelspec", "install", "--name", name, *options)
        assert done.returncode == 0, done.stderr
        assert Path(done.stdout.strip()) == folder / name / "kernel.json"
        return folder / name

    return install


def write(folder: Path, name: str, **members: Any) -> Path:
    directory = folder / name
    directory.mkdir(parents=True)
    path = directory / "kernel.json"
    path.write_text(json.dumps({"argv": ARGV, "display_name": name, **members}))
    return path


def listed(gateway: Gateway) -> list[str]:
    status, specs = gateway.request("GET", "/api/kernelspecs")
    assert status == 200 and specs["default"] == "python3"
    assert list(specs["kernelspecs"])[0] == "python3"
    return sorted(set(specs["kernelspecs"]) - {"python3"})


def evaluate(client: Channels, code: str) -> str:
    messages = client.run(code)
    assert not contents(messages, "error"), messages
    return contents(messages, "execute_result")[0]["data"]["text/plain"]


def run_in(gateway: Gateway, code: str, **body: Any) -> str:
    """The value of @code in a new kernel, which ends then."""
    kernel = gateway.start_kernel(**body)
    with gateway.channels(kernel) as client:
        value = evaluate(client, code)
    assert gateway.request("DELETE", f"/api/kernels/{kernel}")[0] == 204
    return value


WRITES = "open('/var/tmp/ipybox-test-of-kernelspecs', 'w')"


def is_sandboxed(gateway: Gateway, name: str | None) -> bool:
    # A user namespace has a map of its own, or else nothing outside can be written.
    code = (
        "def probe():\n"
        f"    try: {WRITES}.close()\n"
        "    except OSError: return True\n"
        "    import os; os.unlink('/var/tmp/ipybox-test-of-kernelspecs'); return False\n"
        "probe()"
    )
    return run_in(gateway, code, **({"name": name} if name else {})) == "True"


# --- what is listed -------------------------------------------------------------------------------


def test_an_installed_kernelspec(start: Callable[..., Gateway], install: Any) -> None:
    """It is listed at once, and its kernels have a sandbox although the gateway has none."""
    with start() as gateway:
        assert listed(gateway) == []
        assert gateway.request("POST", "/api/kernels", {"name": "mine"})[0] == 404
        install("mine", "--display-name", "Mine")
        assert listed(gateway) == ["mine"]
        status, spec = gateway.request("GET", "/api/kernelspecs/mine")
        assert (status, spec) == (
            200,
            {
                "name": "mine",
                "spec": {
                    "argv": [],
                    "env": {},
                    "display_name": "Mine",
                    "language": "python",
                    "interrupt_mode": "message",
                    "metadata": {},
                },
                "resources": {},
            },
        )
        status, model = gateway.request("POST", "/api/kernels", {"name": "Mine"})
        assert status == 201 and model["name"] == "mine"
        assert is_sandboxed(gateway, "mine")
        assert not is_sandboxed(gateway, None) and not is_sandboxed(gateway, "python3")
        body = {"path": "a", "type": "notebook", "kernel": {"name": "mine"}}
        session = gateway.request("POST", "/api/sessions", body)[1]
        assert session["kernel"]["name"] == "mine"
        change = {"kernel": {"name": "python3"}}
        changed = gateway.request("PATCH", f"/api/sessions/{session['id']}", change)[1]
        assert changed["kernel"]["name"] == "python3"


def test_the_names_of_the_gateways_own_kernel(start: Callable[..., Gateway], install: Any) -> None:
    """Its name is its own. Other names that stand for any Python may be a kernelspec's."""
    install("python3")
    install("ipybox")
    with start() as gateway:
        assert listed(gateway) == ["ipybox"]
        assert gateway.request("POST", "/api/kernels", {})[1]["name"] == "python3"
        assert not is_sandboxed(gateway, "python3") and is_sandboxed(gateway, "ipybox")
    with start("--kernel-name=own") as gateway:
        specs = gateway.request("GET", "/api/kernelspecs")[1]
        assert specs["default"] == "own"
        assert sorted(specs["kernelspecs"]) == ["ipybox", "own", "python3"]
        assert gateway.request("POST", "/api/kernels", {"name": "python"})[1]["name"] == "own"
        assert is_sandboxed(gateway, "python3") and not is_sandboxed(gateway, "own")
    with start("--force-kernel-name") as gateway:
        assert listed(gateway) == []
        assert gateway.request("POST", "/api/kernels", {"name": "ipybox"})[1]["name"] == "python3"


def test_folders(
    start: Callable[..., Gateway], place: harness.Place, folder: Path, tmp_path: Path
) -> None:
    """Those of JUPYTER_PATH count before the user's. A name's first folder decides."""
    place.environ["JUPYTER_PATH"] = f"{tmp_path}/one:{tmp_path}/missing::{tmp_path}/two"
    write(tmp_path / "one/kernels", "both", display_name="of one")
    write(tmp_path / "two/kernels", "both", display_name="of two")
    write(folder, "BOTH", display_name="of the user")
    write(tmp_path / "one/kernels", "theirs", argv=["python", "-m", "ipykernel_launcher"])
    write(tmp_path / "two/kernels", "theirs")
    write(tmp_path / "two/kernels", "last")
    with start() as gateway:
        assert listed(gateway) == ["both", "last"]
        spec = gateway.request("GET", "/api/kernelspecs/both")[1]["spec"]
        assert spec["display_name"] == "of one"
        assert gateway.request("GET", "/api/kernelspecs/theirs")[0] == 404
        status, error = gateway.request("POST", "/api/kernels", {"name": "theirs"})
        assert status == 404 and "kernelspecs of ipybox" in error["message"]


def test_logos(start: Callable[..., Gateway], install: Any) -> None:
    directory = install("mine")
    (directory / "logo-64x64.png").write_bytes(PNG)
    (directory / "logo-32x32.png").write_bytes(b"no PNG")
    (directory / "logo-svg.svg").write_text("<svg/>")
    (directory / "kernel.js").write_text("evil()")
    with start("--base-url=/base") as gateway:
        spec = gateway.request("GET", "/base/api/kernelspecs/mine")[1]
        url = "/base/kernelspecs/mine/logo-64x64.png"
        assert spec["resources"] == {"logo-64x64": url}
        connection = http.client.HTTPConnection("127.0.0.1", gateway.port, timeout=60)
        connection.request("GET", url)
        response = connection.getresponse()
        assert (response.status, response.getheader("Content-Type")) == (200, "image/png")
        assert response.read() == PNG
        connection.close()
        for name, status in (
            *(("mine/kernel.js", 404), ("mine/kernel.json", 404), ("mine/logo-svg.svg", 404)),
            *(("mine/..%2fkernel.json", 404), ("mine/logo-32x32.png", 500)),
            *(("none/logo-64x64.png", 404), ("python3/logo-64x64.png", 404)),
        ):
            assert gateway.request("GET", f"/base/kernelspecs/{name}")[0] == status, name


# --- what is refused ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "kernel.json"),
        ("[]", "not a JSON object"),
        ('{"argv": ' + "[" * 1000 + "]" * 1000 + "}", "kernel.json"),
        (" " * (64 * 1024 + 1), "kernel.json"),
        (json.dumps({"argv": [*ARGV, "--evil"]}), "--evil"),
        (json.dumps({"argv": [*ARGV, "word"]}), "unexpected argument: word"),
        (json.dumps({"argv": [*ARGV, "--approval-timeout=-1"]}), "--approval-timeout"),
        (json.dumps({"argv": ARGV[:2]}), "connection file"),
        (json.dumps({"argv": [*ARGV, 1]}), '"argv" must have'),
        (json.dumps({"argv": [*ARGV, "--python=a\0b"]}), '"argv" must have'),
        (json.dumps({"argv": [*ARGV, *["--no-sandbox"] * 61]}), '"argv" must have'),
        (json.dumps({"argv": [*ARGV[:3], "/tmp/x"]}), "{connection_file}"),
        (json.dumps({"argv": ARGV, "env": {"A": 1}}), '"env" must be'),
        (json.dumps({"argv": ARGV, "env": {"A": "${HOME}"}}), '"env" must be'),
        (json.dumps({"argv": ARGV, "env": {"A=B": "x"}}), '"env" must be'),
        (json.dumps({"argv": ARGV, "env": {"A": "x\0y"}}), '"env" must be'),
        (json.dumps({"argv": ARGV, "env": {str(i): "" for i in range(101)}}), '"env" must be'),
    ],
)
def test_hostile_files(start: Callable[..., Gateway], folder: Path, text: str, why: str) -> None:
    """They are not listed, and the error names the file."""
    path = write(folder, "bad")
    path.write_text(text)
    write(folder, "good")
    with start() as gateway:
        assert listed(gateway) == ["good"]
        for method, url, body in (
            ("POST", "/api/kernels", {"name": "bad"}),
            ("GET", "/api/kernelspecs/bad", None),
        ):
            status, error = gateway.request(method, url, body)
            assert status == 500 and str(path) in error["message"] and why in error["message"]
        assert gateway.request("GET", "/api/kernels") == (200, [])
        path.unlink()
        assert gateway.request("POST", "/api/kernels", {"name": "bad"})[0] == 404


def test_other_programs(start: Callable[..., Gateway], folder: Path) -> None:
    """Kernelspecs that are not `ipybox kernel` do not exist for the gateway."""
    for number, argv in enumerate(
        [
            *(["python", "-m", "ipykernel_launcher", "-f", "{connection_file}"], "ipybox", None),
            *([], ["ipybox"], ["ipybox", "run"], ["notipybox", *ARGV[1:]], ["sh", *ARGV[1:]]),
        ]
    ):
        write(folder, f"other{number}", argv=argv)
    (folder / "with space").mkdir()
    (folder / "empty").mkdir()
    (folder / "file").write_text("")
    with start() as gateway:
        assert listed(gateway) == []
        assert gateway.request("POST", "/api/kernels", {"name": "other1"})[0] == 404


def test_links_and_other_things(
    start: Callable[..., Gateway], folder: Path, tmp_path: Path
) -> None:
    """Nothing below the folder is reached by a link, and a FIFO is not waited for."""
    real = write(tmp_path, "real")
    write(folder, "good")
    (folder / "link").symlink_to(real.parent)
    (folder / "inner").mkdir()
    (folder / "inner/kernel.json").symlink_to(real)
    (folder / "fifo").mkdir()
    os.mkfifo(folder / "fifo/kernel.json")
    (folder / "directory/kernel.json").mkdir(parents=True)
    (folder / "good/logo-64x64.png").symlink_to("/etc/passwd")
    os.mkfifo(folder / "good/logo-32x32.png")
    with start() as gateway:
        assert listed(gateway) == ["good"]
        for name in ("link", "inner", "fifo", "directory"):
            status, error = gateway.request("POST", "/api/kernels", {"name": name})
            assert status in (403, 500) and f"{folder}/{name}" in error["message"], error
        assert gateway.request("GET", "/api/kernelspecs/good")[1]["resources"] == {}


@pytest.mark.parametrize("what", ["", "mine", "mine/kernel.json"])
def test_files_that_others_can_write(
    start: Callable[..., Gateway], install: Any, folder: Path, what: str
) -> None:
    install("mine")
    path = folder / what
    path.chmod(0o777)
    with start() as gateway:
        assert listed(gateway) == []
        status, error = gateway.request("POST", "/api/kernels", {"name": "mine"})
        assert status == 403 and f"{path} can be written by every user" in error["message"]
        path.chmod(0o775)
        assert listed(gateway) == ["mine"]


@pytest.mark.needs_root
def test_files_of_other_users(start: Callable[..., Gateway], install: Any) -> None:
    directory = install("mine")
    os.chown(directory, 12345, 12345)
    with start() as gateway:
        status, error = gateway.request("POST", "/api/kernels", {"name": "mine"})
        assert status == 403 and f"{directory} belongs to another user" in error["message"]


def test_limits(start: Callable[..., Gateway], folder: Path) -> None:
    for number in range(101):
        write(folder, f"k{number:03}")
    with start() as gateway:
        assert listed(gateway) == [f"k{number:03}" for number in range(100)]
    for number in range(1000):
        (folder / f"d{number}").mkdir()
    with start() as gateway:
        assert listed(gateway) == []
        assert gateway.request("POST", "/api/kernels", {"name": "k001"})[0] == 404


def test_a_folder_that_cells_could_write(
    start: Callable[..., Gateway], place: harness.Place
) -> None:
    """What is in it may be a cell's, so it is not used once a sandbox had it."""
    folder = place.workspace / "jupyter/kernels"
    place.environ["JUPYTER_DATA_DIR"] = str(folder.parent)
    path = write(folder, "mine")
    with start("--sandbox") as gateway:
        assert listed(gateway) == ["mine"]
        code = (
            "import json, os\n"
            f"os.makedirs({str(folder)!r} + '/evil')\n"
            f"open({str(folder)!r} + '/evil/kernel.json', 'w').write("
            f"json.dumps({{'argv': {ARGV!r} + ['--python', 'evil']}}))"
        )
        run_in(gateway, code)
        assert (folder / "evil/kernel.json").exists()
        assert listed(gateway) == []
    with start() as gateway:
        assert listed(gateway) == []
        for name in ("mine", "evil"):
            status, error = gateway.request("POST", "/api/kernels", {"name": name})
            assert status == 403 and "code in sandboxes could write" in error["message"]
            assert str(path.parent.parent / name) in error["message"]


# --- the gateway's sandbox ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("--no-sandbox", None),
        ("--sandbox-config", "other.json"),
        ("--workspace", "elsewhere"),
        ("--approve", "allow"),
        ("--approve", "rules.json"),
    ],
)
def test_a_kernelspec_that_allows_more(
    start: Callable[..., Gateway], place: harness.Place, folder: Path, option: str, value: str
) -> None:
    """A gateway with a sandbox offers it only if it is named."""
    (place.workspace / "other.json").write_text(json.dumps(CONFIG))
    (place.workspace / "rules.json").write_text('{"rules": []}')
    (place.workspace / "elsewhere").mkdir()
    more = [option] if value is None else [option, value]
    if value is not None and value != "allow":
        more[1] = str(place.workspace / value)
    path = write(folder, "more", argv=[*ARGV, *more])
    with start("--sandbox") as gateway:
        assert listed(gateway) == []
        for method, url, body in (
            ("POST", "/api/kernels", {"name": "more"}),
            ("POST", "/api/sessions", {"path": "a", "type": "file", "kernel": {"name": "more"}}),
            ("GET", "/api/kernelspecs/more", None),
        ):
            status, error = gateway.request(method, url, body)
            assert status == 403, error
            assert f"{path} has {option}" in error["message"]
            assert "--allow-kernelspec more" in error["message"]
        assert gateway.request("GET", "/api/kernels") == (200, [])
        gateway.start_kernel()
    with start("--sandbox", "--allow-kernelspec=more") as gateway:
        assert listed(gateway) == ["more"]
        assert is_sandboxed(gateway, "more") == (option != "--no-sandbox")
        assert is_sandboxed(gateway, None)
    with start() as gateway:
        assert listed(gateway) == ["more"]


def test_the_gateways_sandbox_is_the_default(
    start: Callable[..., Gateway], place: harness.Place, install: Any
) -> None:
    """A kernelspec without --sandbox-config has the gateway's, and may name the same file."""
    config = place.home / "sandbox.json"
    (place.workspace / "secret").write_text("x")
    filesystem = {**CONFIG["filesystem"], "denyRead": [str(place.workspace / "secret")]}
    config.write_text(json.dumps({**CONFIG, "filesystem": filesystem}))
    install("plain")
    install("same", "--sandbox-config", str(config))
    code = "import os\nos.access('secret', os.R_OK) and open('secret').read()"
    with start("--sandbox-config", str(config)) as gateway:
        assert listed(gateway) == ["plain", "same"]
        for name in ("python3", "plain", "same"):
            kernel = gateway.start_kernel(name=name)
            with gateway.channels(kernel) as client:
                assert not contents(client.run("open('made', 'w')"), "error")
                (error,) = contents(client.run("open('secret').read()"), "error")
                assert error["ename"] in ("PermissionError", "OSError", "FileNotFoundError")
    with start("--sandbox") as gateway:
        assert listed(gateway) == ["plain"]
        assert run_in(gateway, code, name="plain") == "'x'"


# --- what its kernels run with --------------------------------------------------------------------


def test_options(
    start: Callable[..., Gateway], place: harness.Place, folder: Path, python: str
) -> None:
    """The workspace, the interpreter, the modules, the variables."""
    elsewhere = place.home / "elsewhere"
    elsewhere.mkdir()
    link = place.home / "python-of-the-spec"
    link.write_text(f'#!/bin/sh\nexec "{python}" "$@"\n')
    link.chmod(0o755)
    argv = [*ARGV, "--workspace", str(elsewhere), "--python", python, "--preload", "colorsys"]
    argv += ["--log-level", "INFO", "--HistoryManager.hist_file=:memory:"]
    env = {"KERNEL_ENV_OF_SPEC": "s", "OTHER": "o"}
    write(folder, "full", argv=argv, env=env, metadata={"a": 1})
    place.environ["KERNEL_ENV_IPYBOX_TOOL_TOKEN"] = "tool token"
    place.environ["INHERITED"] = "i"
    with start("--inherit-env=INHERITED", "--record-dir=records") as gateway:
        spec = gateway.request("GET", "/api/kernelspecs/full")[1]["spec"]
        assert (spec["env"], spec["metadata"]) == ({}, {"a": 1})
        code = (
            "import os, sys\n"
            "[os.getcwd(), 'colorsys' in sys.modules]"
            " + [os.environ.get(name) for name in"
            " ('OF_SPEC', 'OTHER', 'INHERITED', 'KERNEL_FOO', 'KERNEL_GATEWAY')]"
        )
        value = run_in(gateway, code, name="full", env={"KERNEL_FOO": "f"})
        assert value == repr([str(elsewhere), True, "s", None, "i", "f", "1"])
        assert run_in(gateway, code) == repr(
            [str(place.workspace), False, None, None, "i", None, "1"]
        )
        value = run_in(gateway, "import os\n'tool token' in str(os.environ)", name="full")
        assert value == "False"
    # The gateway's options for all kernels are for these, too.
    assert len(list((place.workspace / "records").iterdir())) == 3


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("--sandbox-config", "/missing/sandbox.json"),
        ("--workspace", "/missing/workspace"),
        ("--python", "/missing/python"),
        ("--approve", "/missing/rules.json"),
    ],
)
def test_what_is_missing(
    start: Callable[..., Gateway], folder: Path, option: str, value: str
) -> None:
    path = write(folder, "bad", argv=[*ARGV, option, value])
    with start() as gateway:
        status, error = gateway.request("POST", "/api/kernels", {"name": "bad"})
        assert status == 500 and str(path) in error["message"] and value in error["message"], error
        assert gateway.request("GET", "/api/kernels") == (200, [])
        # The client's own mistake is still the client's.
        write(folder, "good")
        body = {"name": "good", "working_dir": "/missing"}
        assert gateway.request("POST", "/api/kernels", body)[0] == 400


def test_limit_of_kernels_and_restart(start: Callable[..., Gateway], install: Any) -> None:
    """They count as other kernels do, and a restarted one is still of its kernelspec."""
    install("mine", "--preload", "colorsys")
    with start("--max-kernels=1") as gateway:
        for _ in range(2):
            kernel = gateway.start_kernel(name="mine")
            assert gateway.request("POST", "/api/kernels", {"name": "mine"})[0] == 403
            assert gateway.request("POST", f"/api/kernels/{kernel}/restart")[1]["name"] == "mine"
            with gateway.channels(kernel) as client:
                assert evaluate(client, "import sys\n'colorsys' in sys.modules") == "True"
            assert gateway.request("DELETE", f"/api/kernels/{kernel}")[0] == 204


CALL = "from mcptools.fake import echo\nprint(echo.run(echo.Params(text='hello')))"


@pytest.mark.parametrize("sandbox", [(), ("--sandbox",)], ids=["free", "sandbox"])
def test_tools(
    start: Callable[..., Gateway],
    run_ipybox: Any,
    install: Any,
    place: harness.Place,
    sandbox: tuple[str, ...],
) -> None:
    """Calls are those of `ipybox kernel`: the client is asked, and the log has the decision."""
    params = scripted_server.params("hostile", command=os.path.realpath(sys.executable))
    made = run_ipybox(
        *["apigen", "--server-name=fake", f"--server-params={json.dumps(params)}"],
        "--root-dir=mcptools",
    )
    assert made.returncode == 0, made.stderr
    log = place.home / "audit.jsonl"
    install("asks", "--audit-log", str(log))
    install("denies", "--approve", "deny")
    with start(*sandbox) as gateway:
        with gateway.channels(gateway.start_kernel(name="asks")) as client:
            msg_id = client.execute(CALL, allow_stdin=True)
            (*_, question) = client.receive_until(msg_id, "input_request")
            assert "echo" in question["content"]["prompt"]
            client.send("input_reply", {"value": "y"}, "stdin")
            messages = client.receive_until(msg_id, "status", execution_state="idle")
            assert "hello" in contents(messages, "stream")[0]["text"], messages
            (error,) = contents(client.run(CALL), "error")  # this client cannot be asked
            assert error["ename"] == "ApprovalRejectedError", error
        with gateway.channels(gateway.start_kernel(name="denies")) as client:
            (error,) = contents(client.run(CALL), "error")
            assert error["ename"] == "ApprovalRejectedError", error
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    assert lines and "echo" in log.read_text()


# --- Jupyter --------------------------------------------------------------------------------------


def test_jupyter(start: Callable[..., Gateway], place: harness.Place, install: Any) -> None:
    """A Jupyter server with our gateway lists it, shows its logo, and runs a notebook with it."""
    directory = install("mine", "--display-name", "Mine")
    (directory / "logo-64x64.png").write_bytes(PNG)
    arguments = ["--ServerApp.disable_check_xsrf=True"]
    with start() as gateway:
        arguments += [f"--gateway-url=http://127.0.0.1:{gateway.port}"]
        with jupyter_server(place.workspace, place.environ, "", *arguments) as port:
            url = f"http://127.0.0.1:{port}"
            with urlopen(f"{url}/api/kernelspecs", timeout=60) as answer:
                specs = json.load(answer)
            assert specs["default"] == "python3"
            assert sorted(specs["kernelspecs"]) == ["mine", "python3"]
            spec = specs["kernelspecs"]["mine"]
            assert spec["spec"]["display_name"] == "Mine"
            with urlopen(f"{url}{spec['resources']['logo-64x64']}", timeout=60) as answer:
                assert answer.headers["Content-Type"].startswith("image/png")
                assert answer.read() == PNG
            command = [str(jupyter_python()), PROGRAM, url, "", "mine"]
            result = harness.run(command, place, timeout=240)
            assert result.returncode == 0, result.stderr
        assert gateway.request("GET", "/api/kernels") == (200, [])
    outcome = json.loads(result.stdout)
    assert outcome["outputs"][2][-1]["data"]["text/plain"] == "42"
    assert outcome["interrupted"]["ename"] == "KeyboardInterrupt"


@pytest.mark.parametrize("name", ["", "a/b", "x" * 101])
def test_wrong_names(run_ipybox: Any, name: str) -> None:
    done = run_ipybox("gateway", "--port=0", f"--allow-kernelspec={name}")
    assert done.returncode == 2 and "--allow-kernelspec" in done.stderr
