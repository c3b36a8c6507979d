# SPDX-License-Identifier: Apache-2.0
"""The command line: run, apigen, servers, doctor, help."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time

import harness
import pytest
import scripted_server
from terminal import Terminal

CLOCK = json.dumps(scripted_server.params("clock"))

# run


def test_run_code(run_ipybox):
    done = run_ipybox(
        "run", "-c", "print('out')\nimport sys; print('err', file=sys.stderr)\n40 + 2"
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "out\n42\n", "err\n")


def test_run_shows_other_representations_as_text(run_ipybox):
    code = (
        "from IPython.display import HTML, Markdown\ndisplay(Markdown('# T'))\n"
        "HTML('<p>a <b>b</b></p>')"
    )
    assert run_ipybox("run", "-c", code).stdout == "# T\na b\n"


def test_run_notices_are_no_output(run_ipybox, workspace):
    """A program may read JSON from standard output."""
    (workspace / "images").touch()
    done = run_ipybox("run", "-c", "display({'image/png': 'iVBORw0KGgo='}, raw=True)\nprint('{}')")
    assert (done.returncode, done.stdout) == (0, "{}\n")
    assert done.stderr.startswith("[ipybox] image not saved: ") and done.stderr.count("\n") == 1


def test_run_a_value_that_cannot_be_shown(run_ipybox):
    done = run_ipybox(
        "run",
        "-c",
        "class A:\n    def __repr__(self): raise ValueError('no repr')\nprint('before')\nA()",
    )
    assert (done.returncode, done.stdout) == (
        1,
        "before\n",
    ) and "ValueError: no repr" in done.stderr


def test_run_timeout_says_whether_variables_are_kept(run_ipybox):
    done = run_ipybox("run", "--timeout", "0.5", "-c", "import time; time.sleep(1000)")
    assert (
        done.returncode == 124
        and "excluded). The cell was interrupted; variables are kept." in done.stderr
    )


def test_run_file_and_stdin(run_ipybox, workspace):
    (workspace / "a.py").write_text("print('from file')")
    assert run_ipybox("run", "a.py").stdout == "from file\n"
    assert run_ipybox("run", "-", stdin="print('from stdin')").stdout == "from stdin\n"


def test_run_error(run_ipybox):
    done = run_ipybox("run", "-c", "print('before')\n1/0")
    assert done.returncode == 1
    assert done.stdout == "before\n"
    assert "ZeroDivisionError" in done.stderr and "1/0" in done.stderr


@pytest.mark.parametrize(
    ("code", "status"),
    [
        ("exit()", 0),
        ("import sys; sys.exit()", 0),
        ("raise SystemExit(0)", 0),
        ("import sys; sys.exit(7)", 7),
        ("import sys; sys.exit('reason')", 1),
        ("import sys; sys.exit(-1)", 255),
    ],
)
def test_run_code_that_exits(run_ipybox, code, status):
    """As under Python, a script may end with sys.exit(main())."""
    done = run_ipybox("run", "-c", f"print('before')\n{code}\nprint('after')")
    assert (done.returncode, done.stdout) == (status, "before\n")
    assert done.stderr == ("reason\n" if status == 1 else "")


@pytest.mark.parametrize("locale", ["C", "C.UTF-8", "no.such"])
def test_run_in_any_locale(run_ipybox, environ, locale):
    """Containers often have no locale."""
    environ["LC_ALL"] = locale
    done = run_ipybox("run", "-c", "print('é'); raise ValueError('日本')")
    assert (done.returncode, done.stdout) == (1, "é\n") and "日本" in done.stderr
    assert "é" in run_ipybox("run", "--approve", "é", "-c", "1").stderr


def test_end_of_options(run_ipybox, workspace):
    (workspace / "-a.py").write_text("print('x')")
    assert run_ipybox("run", "--", "-a.py").stdout == "x\n"
    assert run_ipybox("sandbox", "--", "ls", "--", "-a.py").stdout == "-a.py\n"
    assert "--json" in run_ipybox("servers", "remove", "--", "--json").stderr
    assert run_ipybox("run", "--", "-a.py", "--").returncode == 2


@pytest.mark.parametrize(
    "words",
    [
        ("run", "-c", "print('x')"),
        ("run", "--no-sandbox", "-c", "print('x')"),
        ("sandbox", "echo", "x"),
        ("servers",),
    ],
)
def test_home_that_is_none(run_ipybox, environ, words):
    """Some users of services have such a home."""
    environ.pop("XDG_STATE_HOME", None)
    environ["HOME"] = "/dev/null"
    done = run_ipybox(*words)
    assert (done.returncode, done.stdout) == (0, "" if words == ("servers",) else "x\n"), (
        done.stderr
    )


def test_run_usage(run_ipybox):
    assert run_ipybox("run").returncode == 2
    assert run_ipybox("run", "-c", "1", "x.py").returncode == 2
    assert run_ipybox("run", "-c", "1", "--approve", "maybe").returncode == 2
    assert run_ipybox("run", "-c", "1", "--approval-timeout=-1").returncode == 2
    assert run_ipybox("mcp", "--approval-timeout=nan").returncode == 2
    assert run_ipybox("run", "-c", "1", "--timeout=nan").returncode == 2
    assert run_ipybox("run", "-c", "1", "--timeout=-1").returncode == 2
    missing = run_ipybox("run", "nosuch.py")
    assert missing.returncode == 1 and "nosuch.py" in missing.stderr
    assert run_ipybox("run", "--python", "/no/python", "-c", "1").returncode == 1


def test_run_timeout(run_ipybox):
    done = run_ipybox("run", "--timeout", "2", "-c", "print('x', flush=True)\nwhile True: pass")
    assert done.returncode == 124
    assert done.stdout == "x\n" and "exceeded timeout of 2.00s" in done.stderr


def test_run_plot(run_ipybox, workspace):
    done = run_ipybox("run", "-c", "import matplotlib.pyplot as plt\nplt.plot([1, 2]);")
    (image,) = (workspace / "images").iterdir()
    assert f"[image saved: {image}]" in done.stdout


def test_run_seed(run_ipybox):
    def numbers(seed: str) -> str:
        code = "import random, numpy\nprint(random.random(), numpy.random.rand())"
        return run_ipybox("run", "--seed", seed, "--preload", "numpy", "-c", code).stdout

    assert numbers("7") == numbers("7") != numbers("8")


def test_run_large_output(run_ipybox):
    done = run_ipybox("run", "-c", "for i in range(1_000_000): print(i)", timeout=100)
    assert done.stdout == "".join(f"{i}\n" for i in range(1_000_000))


def test_run_output_to_a_reader_that_leaves(ipybox, place):
    """`ipybox run … | head -1`"""
    process = subprocess.Popen(
        [ipybox, "run", "-c", "while True: print('y' * 1000)"],
        cwd=place.workspace,
        env=place.environ,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdout.readline().startswith(b"y")
    process.stdout.close()
    with process.stderr:
        error = process.stderr.read().decode()
    assert (process.wait(60), error) == (141, "")


@pytest.fixture
def unread():
    """A pipe to write to, whose reading end is closed."""
    reader, writer = os.pipe()
    os.close(reader)
    yield writer
    os.close(writer)


@pytest.mark.parametrize(
    "words",
    [
        ("--version",),
        ("--help",),
        ("run", "--help"),
        ("run", "-c", "1"),
        ("servers", "--json"),
        ("sandbox", "--explain"),
    ],
)
def test_output_that_nobody_reads(ipybox, place, unread, words):
    """ipybox ends as programs do whose output goes to `head`: without a message."""
    done = subprocess.run(
        [ipybox, *words],
        cwd=place.workspace,
        env=place.environ,
        stdin=subprocess.DEVNULL,
        stdout=unread,
        stderr=subprocess.PIPE,
        text=True,
        timeout=120,
    )
    assert (done.returncode, done.stderr) == (141, "")


def test_server_whose_log_nobody_reads(ipybox, place, unread):
    client = {
        "protocolVersion": "2025-06-18",
        "capabilities": {},
        "clientInfo": {"name": "test", "version": "1"},
    }
    cell = {"name": "execute_ipython_cell", "arguments": {"code": "6 * 7"}}
    process = subprocess.Popen(
        [ipybox, "--preload", "no_such_module"],
        cwd=place.workspace,
        env=place.environ,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=unread,
        text=True,
    )
    for number, (method, params) in enumerate([("initialize", client), ("tools/call", cell)]):
        request = {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
        print(json.dumps(request), file=process.stdin, flush=True)
        answer = json.loads(process.stdout.readline())
    assert "42" in answer["result"]["content"][0]["text"]
    process.communicate()
    assert process.returncode == 0


def test_run_output_to_a_full_disk(ipybox, place):
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [ipybox, "run", "-c", "print('x')"],
            cwd=place.workspace,
            env=place.environ,
            stdin=subprocess.DEVNULL,
            stdout=full,
            stderr=subprocess.PIPE,
            timeout=120,
        )
    assert done.returncode == 1 and b"No space left on device" in done.stderr


def test_run_file_with_a_byte_order_mark(run_ipybox, workspace):
    (workspace / "script.py").write_text("\ufeffprint('x')\r\n")
    assert run_ipybox("run", "script.py").stdout == "x\n"


@pytest.mark.parametrize(
    "words", [("--version",), ("--help",), ("run", "--help"), ("servers", "--json")]
)
def test_output_that_a_full_disk_does_not_take(ipybox, place, words):
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [ipybox, *words],
            cwd=place.workspace,
            env=place.environ,
            stdin=subprocess.DEVNULL,
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            timeout=120,
        )
    assert (
        done.returncode == 1
        and "cannot write" in done.stderr
        and done.stderr.endswith(": No space left on device\n")
    )


@pytest.mark.parametrize("closed", [">&-", "<&- >&- 2>&-"])
def test_run_without_standard_files(ipybox, place, closed):
    """Output is discarded, and does not go into a file of ours that got the free number."""
    code = "import sys; print('out'); print('err', file=sys.stderr); open('done', 'w').close()"
    done = subprocess.run(
        ["bash", "-c", f'"$0" run -c "$1" {closed}', ipybox, code],
        cwd=place.workspace,
        env=place.environ,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0 and (place.workspace / "done").exists()
    assert done.stdout == ("" if ">&-" in closed.replace("2>&-", "") else "out\n")
    assert done.stderr == ("" if "2>&-" in closed else "err\n")


def test_run_handles_an_interrupt(ipybox, place):
    """As under Python, a script may catch it and end as it likes."""
    code = (
        "try:\n    print('go', flush=True)\n    while True: pass\n"
        "except KeyboardInterrupt: print('handled')"
    )
    process = subprocess.Popen(
        [ipybox, "run", "-c", code],
        cwd=place.workspace,
        env=place.environ,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout.readline() == "go\n"
    process.send_signal(signal.SIGINT)
    assert process.communicate(timeout=60) == ("handled\n", "")
    assert process.returncode == 0


def test_run_interrupted(ipybox, place):
    process = subprocess.Popen(
        [ipybox, "run", "-c", "print('begun', flush=True)\nimport time\ntime.sleep(1000)"],
        cwd=place.workspace,
        env=place.environ,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout.readline() == "begun\n"
    process.send_signal(signal.SIGINT)
    _, stderr = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "KeyboardInterrupt" in stderr


# Approvals at a terminal


@pytest.fixture
def time_api(run_ipybox):
    done = run_ipybox("apigen", "--server-name", "time", "--server-params", CLOCK)
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


CALL = (
    "from mcptools.time import get_current_time as g\n"
    "for i in range(2): print(type(g.run(g.Params(timezone='UTC'))))"
)


@pytest.mark.parametrize(
    ("keys", "status", "questions"), [("yy", 0, 2), ("a", 0, 1), ("n", 1, 1), ("vy?y", 0, 2)]
)
def test_approval_at_the_terminal(ipybox, place, time_api, keys, status, questions):
    terminal = Terminal([ipybox, "run", "-c", CALL], place)
    asked = 0
    for key in keys:
        if key != "y" or asked < questions:
            terminal.expect("tool" if key == "?" else "Allow?" if key != "?" else "")
            asked += key in "yna"
        terminal.type(key + "\n")
    assert terminal.wait() == status


def test_waiting_for_an_answer_costs_no_time(ipybox, place, run_ipybox):
    """The cell's four seconds are paused while the user thinks, for five seconds in total."""
    params = json.dumps(scripted_server.params("results"))
    done = run_ipybox("apigen", "--server-name", "fake", "--server-params", params)
    assert done.returncode == 0, done.stderr
    call = "from mcptools.fake import pid\nfor i in range(2): pid.run(pid.Params())"
    terminal = Terminal([ipybox, "run", "--timeout", "4", "-c", call], place)
    for _ in range(2):
        terminal.expect("Allow?")
        time.sleep(2.5)
        terminal.type("y\n")
    assert terminal.wait() == 0


def test_question_that_is_not_answered(ipybox, place, time_api):
    terminal = Terminal([ipybox, "run", "--approval-timeout", "0.2", "-c", CALL], place)
    terminal.expect("ApprovalTimeoutError")
    assert terminal.wait() == 1


def test_end_of_the_input_while_asked(ipybox, place, time_api):
    terminal = Terminal([ipybox, "run", "-c", CALL], place)
    terminal.expect("for this tool: ")
    terminal.type("\x04")
    assert terminal.expect("ApprovalRejectedError").startswith("\r\n")
    assert terminal.wait() == 1


def test_interrupt_while_asked(ipybox, place, time_api):
    terminal = Terminal([ipybox, "run", "-c", CALL], place)
    terminal.expect("Allow?")
    terminal.type("\x03")
    assert terminal.wait() == 130


def test_preload_that_fails_is_told(run_ipybox):
    done = run_ipybox("run", "--preload", "json,no_such_module", "-c", "1")
    assert done.stdout == "1\n"
    assert "no_such_module" in done.stderr


def test_nobody_to_ask(run_ipybox, time_api):
    """Without a terminal the call is refused, and the error says what to do."""
    done = run_ipybox("run", "-c", CALL, start_new_session=True)
    assert done.returncode == 1
    assert "ApprovalRejectedError" in done.stderr and "--approve allow" in done.stderr


def test_approve_allow_and_deny(run_ipybox, time_api):
    assert run_ipybox("run", "--approve", "allow", "-c", CALL).returncode == 0
    denied = run_ipybox("run", "--approve", "deny", "-c", CALL)
    assert denied.returncode == 1 and "get_current_time" in denied.stderr


def test_terminal_gets_no_control_characters(ipybox, place):
    terminal = Terminal([ipybox, "run", "-c", r"print('\x1b]0;title\x07'); print('end')"], place)
    before = terminal.expect("end")
    assert "\x1b" not in before and "\u241b]0;title\u2407" in before
    assert terminal.wait() == 0


# apigen, servers


def test_apigen(run_ipybox, workspace, time_api):
    assert time_api == ["get_current_time", "convert_time"]
    assert (workspace / "mcptools/time/convert_time.py").exists()
    listed = run_ipybox("servers")
    assert re.search(r"^ID +NAME +SERVER\n[0-9a-f]{32}  time  .*scripted_server", listed.stdout)
    assert str(workspace / "mcptools") in listed.stdout


def test_apigen_async(run_ipybox, servers, workspace):
    assert (
        run_ipybox(
            "apigen",
            "--server-name",
            "t",
            "--server-params",
            json.dumps(servers.time()),
            "--async",
            "--root-dir",
            "tools",
        ).returncode
        == 0
    )
    code = "from tools.t import get_current_time as g\nawait g.run(g.Params(timezone='UTC'))"
    assert "UTC" in run_ipybox("run", "--approve", "allow", "-c", code).stdout


def test_apigen_errors(run_ipybox, workspace):
    def fails(*args: str) -> str:
        done = run_ipybox("apigen", *args)
        assert done.returncode != 0 and done.stdout == ""
        return done.stderr

    assert "--server-name" in fails("--server-params", "{}")
    assert "class" in fails("--server-name", "class", "--server-params", CLOCK)
    assert "byte" in fails("--server-name", "x", "--server-params", "{")
    assert "command" in fails("--server-name", "x", "--server-params", "{}")
    assert "no-such-command" in fails(
        "--server-name", "x", "--server-params", '{"command": "no-such-command"}'
    )
    assert "NOPE" in fails(
        "--server-name", "x", "--server-params", '{"command": "true", "args": ["${NOPE}"]}'
    )
    assert "registered" in fails("--server-name", "x")
    silent = json.dumps({"command": "sleep", "args": ["1000"], "sandbox": True})
    assert "runs in a sandbox" in fails(
        "--server-name", "x", "--connect-timeout", "1", "--server-params", silent
    )
    assert not (workspace / "mcptools").exists()


def test_servers(run_ipybox, workspace):
    config = {
        "mcpServers": {
            "a": {"command": "cat", "args": ["x"]},
            "b": {"url": "https://example.org/mcp"},
        }
    }
    (workspace / "mcp.json").write_text(json.dumps(config))
    imported = run_ipybox("servers", "import", "mcp.json")
    assert imported.returncode == 0, imported.stderr
    added = run_ipybox(
        "servers", "add", "c", '{"command": "cat", "env": {"K": "${SECRET}"}}'
    ).stdout.strip()
    listed = json.loads(run_ipybox("servers", "list", "--json").stdout)
    assert [entry["name"] for entry in listed] == ["a", "b", "c"]
    assert listed[2]["id"] == added and listed[2]["params"]["env"] == {"K": "${SECRET}"}
    assert run_ipybox("servers", "remove", "a").returncode == 0
    assert run_ipybox("servers", "remove", "a").returncode == 1
    assert run_ipybox("servers", "remove", added).returncode == 0
    assert [entry["name"] for entry in json.loads(run_ipybox("servers", "--json").stdout)] == ["b"]
    assert run_ipybox("servers", "frobnicate").returncode == 2
    for name, params in ("not-a-name", '{"command": "cat"}'), ("d", "{"), ("d", '{"command": 1}'):
        refused = run_ipybox("servers", "add", name, params)
        assert refused.returncode == 2 and refused.stderr.endswith("Try 'ipybox servers --help'.\n")
    bad = {"mcpServers": {"ok": {"command": "cat"}, "not-a-name": {"command": "cat"}}}
    (workspace / "bad.json").write_text(json.dumps(bad))
    refused = run_ipybox("servers", "import", "bad.json")
    assert refused.returncode == 2 and "not-a-name" in refused.stderr
    assert "ok" not in run_ipybox("servers").stdout


@pytest.mark.parametrize(
    "words",
    [
        ("servers", "import", "FILE"),
        ("mcp", "--servers", "FILE"),
        ("run", "--approve", "FILE", "-c", "1"),
        ("mcp", "--approve", "FILE"),
        ("rules", "FILE"),
        ("run", "--sandbox-config", "FILE", "-c", "1"),
    ],
)
@pytest.mark.parametrize("text", ["{", "[]", "[" * 1000])
def test_a_file_that_is_wrong_is_wrong_usage(run_ipybox, workspace, words, text):
    (workspace / "file.json").write_text(text)
    done = run_ipybox(*[word.replace("FILE", "file.json") for word in words])
    assert (done.returncode, done.stdout) == (2, "")
    assert "file.json" in done.stderr and done.stderr.endswith(f"Try 'ipybox {words[0]} --help'.\n")


def test_registry_is_private(run_ipybox, place):
    run_ipybox("servers", "add", "c", '{"command": "cat"}')
    files = [path for path in place.state.rglob("*") if path.is_file()]
    assert files and all(path.stat().st_mode & 0o077 == 0 for path in files)


# doctor, help


def test_doctor(run_ipybox):
    done = run_ipybox("doctor")
    assert done.returncode == 0, done.stdout
    assert re.search(r"^ok +kernel +first result after \d+ ms$", done.stdout, re.MULTILINE)
    report = json.loads(run_ipybox("doctor", "--json").stdout)
    states = {entry["name"]: entry["state"] for entry in report}
    assert states["ipython"] == "ok" and states["sandbox"] == "ok"
    details = {entry["name"]: entry["detail"] for entry in report}
    assert "full: namespaces" in details["sandbox"]
    assert details["libcurl"].startswith("libcurl/") and details["libssl"].startswith("OpenSSL 3.")
    assert re.fullmatch(r"libzmq \d+\.\d+\.\d+", details["libzmq"])


def test_doctor_without_ipython(run_ipybox, workspace):
    subprocess.run(["python3", "-m", "venv", "--without-pip", "bare"], cwd=workspace, check=True)
    done = run_ipybox("doctor", "--python", str(workspace / "bare/bin/python"))
    assert done.returncode == 3
    assert (
        "MISSING" in done.stdout
        and "pip install" in done.stdout
        and "ipybox doctor --setup" in done.stdout
    )


def test_doctor_where_namespaces_are_forbidden(ipybox, place):
    forbid = 'echo 0 >/proc/sys/user/max_user_namespaces && exec "$@"'
    command = [
        "unshare",
        "--user",
        "--map-user=1000",
        "--keep-caps",
        "sh",
        "-c",
        forbid,
        "sh",
        ipybox,
        "doctor",
    ]
    done = harness.run(command, place)
    assert done.returncode == 0, done.stdout + done.stderr
    line = re.search(r"^optional +sandbox +weaker .*$", done.stdout, re.MULTILINE)
    assert line and "sudo sysctl user.max_user_namespaces" in line[0]


# Runs the rest of its command line below a filter that has a listener. The filter allows all calls
# and asks about none.
LISTEN = """
import ctypes, os, struct, sys
class Program(ctypes.Structure):
    _fields_ = [("size", ctypes.c_ushort), ("filter", ctypes.c_void_p)]
PR_SET_NO_NEW_PRIVS, SYS_SECCOMP, SET_MODE_FILTER, NEW_LISTENER = 38, 317, 1, 8
libc = ctypes.CDLL(None, use_errno=True)
libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
allow = ctypes.create_string_buffer(struct.pack("=HBBI", 0x06, 0, 0, 0x7FFF0000))
program = Program(1, ctypes.addressof(allow))
listener = libc.syscall(SYS_SECCOMP, SET_MODE_FILTER, NEW_LISTENER, ctypes.byref(program))
assert listener >= 0, ctypes.get_errno()
os.set_inheritable(listener, True)
os.execv(sys.argv[1], sys.argv[1:])
"""


def states_of(done):
    return {entry["name"]: (entry["state"], entry["detail"]) for entry in json.loads(done.stdout)}


def test_doctor_where_another_program_listens_to_calls(ipybox, place, run_ipybox):
    """As a container runtime may. A second listener is impossible, which is reported: no sandbox is
    made, and none that is weaker.
    """
    free = states_of(run_ipybox("doctor", "--json"))
    assert free["seccomp"] == ("ok", "with user notification")
    assert free["names"][0] == "ok" and free["names"][1].startswith("judged at each call")
    listened = [sys.executable, "-I", "-c", LISTEN, ipybox]
    states = states_of(harness.run([*listened, "doctor", "--json"], place))
    assert states["seccomp"][0] == states["names"][0] == states["sandbox"][0] == "optional"
    assert "another program answers system calls already" in states["seccomp"][1]
    assert states["names"][1] == "not judged: see seccomp"
    assert states["sandbox"][1].startswith("none: ")
    for command in (["sandbox", "--", "true"], ["run", "-c", "1"]):
        done = harness.run([*listened, *command], place)
        assert done.returncode != 0, done
        assert "nother program answers system calls of this process already" in done.stderr


def test_setup_without_an_index_leaves_what_was_there(run_ipybox, place):
    ours = place.home / ".local/share/ipybox/venv"
    ours.mkdir(parents=True)
    (ours / "mine").write_text("")
    place.environ |= {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": ""}
    done = run_ipybox("doctor", "--setup")
    assert done.returncode == 3 and done.stdout == ""
    assert f"making {ours}" in done.stderr and "PIP_INDEX_URL" in done.stderr
    assert [path.name for path in ours.parent.iterdir()] == ["venv"] and [
        path.name for path in ours.iterdir()
    ] == ["mine"]


@pytest.mark.parametrize(
    ("status", "advice"),
    [(3, "older than Python 3.10"), (4, "apt-get install python3-venv"), (9, "ended with 9")],
)
def test_setup_says_what_the_interpreter_lacks(run_ipybox, workspace, status, advice):
    fake = workspace / "python"
    fake.write_text(f"#!/bin/sh\nexit {status}\n")
    fake.chmod(0o755)
    done = run_ipybox("doctor", "--setup", "--python", str(fake))
    assert done.returncode == 3 and advice in done.stderr and str(fake) in done.stderr


def test_doctor_takes_packages_for_setup_only(run_ipybox):
    done = run_ipybox("doctor", "numpy")
    assert done.returncode == 2 and "--setup" in done.stderr


@pytest.mark.parametrize(
    "words",
    [
        [],
        ["mcp", "--workspace=x"],
        ["run", "--code=1"],
        ["apigen", "--root-dir=x"],
        ["servers", "--json"],
        ["doctor", "--python=x"],
        ["rules"],
        ["login", "--scope=x"],
        ["logout"],
        ["gateway", "--allow-host=x"],
        ["sandbox", "--settings=x"],
        ["selftest"],
        ["rpc"],
        ["serve", "--workspace=x"],
        ["tool-server", "--allow-origin=x"],
    ],
)
def test_help(run_ipybox, words):
    """Also with other arguments before --help. In CI this finds leaks, too."""
    done = run_ipybox(*words, "--help")
    assert done.returncode == 0 and done.stdout.startswith("Usage:") and done.stderr == ""


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["dcotor"], "ipybox: no such verb: dcotor, did you mean doctor?"),
        (["foo"], "ipybox: no such verb: foo"),
        (["help", "serv"], "ipybox: no such verb: serv, did you mean serve?"),
        (["a\x1b[2J"], "ipybox: no such verb: a␛[2J"),
        (["--sandbx"], "ipybox mcp: Unknown option --sandbx, did you mean --sandbox?"),
        (["--workspce=x"], "ipybox mcp: Unknown option --workspce=x, did you mean --workspace?"),
        (["run", "--hepl"], "ipybox run: Unknown option --hepl, did you mean --help?"),
        (["run", "--zzzzzzzz"], "ipybox run: Unknown option --zzzzzzzz"),
        (["run", "-x"], "ipybox run: Unknown option -x"),
        (["servers", "lst"], "ipybox servers: no such command: lst, did you mean list?"),
        (["servers", "remove"], "ipybox servers: remove: wrong number of arguments"),
        (["changes", "comit"], "ipybox changes: no such command: comit, did you mean commit?"),
        (["changes", "list", "x"], "ipybox changes: list: wrong number of arguments"),
        (
            ["changes", "diff", "x"],
            "ipybox changes: no such command: diff; the commands are: list, show, commit, discard",
        ),
        (["actions", "tset"], "ipybox actions: no such command: tset, did you mean test?"),
    ],
)
def test_a_misspelled_word(run_ipybox, words, message):
    """A similar word is suggested, another one is not."""
    done = run_ipybox(*words)
    assert (done.returncode, done.stdout) == (2, "")
    first, second = done.stderr.splitlines()
    assert first == message
    assert second.startswith("Try 'ipybox ") and second.endswith("--help'.")


def test_help_is_a_word_too(run_ipybox):
    assert run_ipybox("help").stdout == run_ipybox("--help").stdout
    assert run_ipybox("help", "run").stdout == run_ipybox("run", "--help").stdout


def test_the_server_at_a_terminal(ipybox, place, run_ipybox):
    """A person who runs the command alone learns what it waits for. A host does not see that."""
    with Terminal([ipybox], place) as terminal:
        terminal.expect("waiting for an MCP client on standard input, which is a terminal here")
        terminal.type("\x04")
        assert terminal.wait() == 0
    assert "waiting" not in run_ipybox().stderr


@pytest.mark.parametrize("verb", ["mcp", "serve", "tool-server"])
def test_a_workspace_that_does_not_exist(run_ipybox, workspace, verb):
    (workspace / "file").touch()
    done = run_ipybox(verb, "--workspace", "nowhere")
    assert done.returncode == 1
    assert f"{workspace}/nowhere does not exist" in done.stderr and "create" in done.stderr
    done = run_ipybox(verb, "--workspace", "file")
    assert done.returncode == 1
    assert "not a directory" in done.stderr and "create" not in done.stderr


def test_version(run_ipybox):
    assert re.fullmatch(r"ipybox \d+\.\d+\.\d+\S*\n", run_ipybox("--version").stdout)


@pytest.mark.parametrize("command", [
    ["run", "-c", "print(1)"], ["mcp"], ["gateway", "--port", "0"], ["sandbox", "--settings"],
], ids=lambda command: command[0])  # fmt: skip
def test_a_sandbox_configuration_that_is_not_there(run_ipybox, workspace, command):
    """The default is never used instead: it may allow what the configuration denies."""
    option = (
        ["nosuch.json", "echo", "1"]
        if command[0] == "sandbox"
        else ["--sandbox-config", "nosuch.json"]
    )
    done = run_ipybox(*command, *option)
    assert done.returncode == 1 and done.stdout == "" and "nosuch.json" in done.stderr, done
