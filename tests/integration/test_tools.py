# SPDX-License-Identifier: Apache-2.0
"""Registered MCP servers, called from cells: real servers, exact values, refusals."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import scripted_server
from mcp_driver import McpServer, images_in

CLOCK = scripted_server.params("clock")


def fake(*modes: str, **more) -> dict:
    return scripted_server.params("results", *modes, **more)


# Real servers


def test_filesystem_server(mcp, servers, workspace):
    (workspace / "hello.txt").write_text("hällo\n")
    modules = mcp.register("filesystem", servers.filesystem(workspace))
    assert {"read_text_file", "write_file", "list_directory"} <= set(modules)
    assert (
        mcp.cell(
            "from mcptools.filesystem.read_text_file import run, Params\n"
            f"result = run(Params(path={str(workspace / 'hello.txt')!r}))\nprint(result.content)"
        )
        == "hällo"
    )
    mcp.cell(
        "from mcptools.filesystem import write_file as w\n"
        f"w.run(w.Params(path={str(workspace / 'new.txt')!r}, content='by tool'))"
    )
    assert (workspace / "new.txt").read_text() == "by tool"


def test_everything_server(mcp, servers):
    modules = mcp.register("everything", servers.everything())
    assert "echo" in modules
    assert (
        mcp.cell("from mcptools.everything import echo\necho.run(echo.Params(message='hi there'))")
        == "'Echo: hi there'"
    )
    assert "12" in mcp.cell(
        "import mcptools.everything, pkgutil, importlib\n"
        "names = [m.name for m in pkgutil.iter_modules(mcptools.everything.__path__)]\n"
        "sum_name = next(n for n in names if 'sum' in n or n == 'add')\n"
        "m = importlib.import_module('mcptools.everything.' + sum_name)\nm.run(m.Params(a=5, b=7))"
    )
    # Every module can be imported.
    assert (
        mcp.cell(
            "[importlib.import_module('mcptools.everything.' + n) and None for n in names] and 'ok'"
        )
        == "'ok'"
    )


def test_sqlite_and_git_servers(mcp, servers, workspace):
    mcp.register("db", servers.sqlite(workspace / "x.db"))
    mcp.cell(
        "from mcptools.db import create_table as c, write_query as w, read_query as r\n"
        "c.run(c.Params(query='create table t (a int)'))\n"
        "w.run(w.Params(query='insert into t values (41), (1)'));"
    )
    assert "42" in mcp.cell("r.run(r.Params(query='select sum(a) as s from t'))")
    subprocess.run(["git", "init", "-q", "repo"], cwd=workspace, check=True)
    mcp.register("git", servers.git(workspace / "repo"))
    assert "branch" in mcp.cell(
        f"from mcptools.git import git_status as s\n"
        f"s.run(s.Params(repo_path={str(workspace / 'repo')!r}))"
    )


def test_tools_from_threads_tasks_and_children(mcp):
    mcp.register("time", CLOCK)
    assert (
        mcp.cell(
            "import os\nfrom concurrent.futures import ThreadPoolExecutor, ProcessPoolExecutor\n"
            "from mcptools.time import get_current_time as g\n"
            "def call(i):\n    return 'UTC' in str(g.run(g.Params(timezone='UTC')))\n"
            "with ThreadPoolExecutor(8) as pool: a = all(pool.map(call, range(40)))\n"
            "with ProcessPoolExecutor(2) as pool: b = all(pool.map(call, range(4)))\n"
            "pid = os.fork()\n"
            "if pid == 0: os._exit(7 if call(0) else 1)\n"
            "c = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])\n"
            "a, b, c, call(0)"
        )
        == "(True, True, 7, True)"
    )


# Exact values


@pytest.mark.parametrize(
    "value",
    [
        "2**70",
        "-2**70",
        "0.1",
        "1e308",
        "-0.0",
        "0",
        "1",
        "'\\u2028'",
        "'\\x00'",
        "'\\ud800'",
        "'😀é'",
        "''",
        "None",
        "True",
        "[]",
        "{}",
        "{'a': [1, {'b': None}]}",
        "'\\\\ \" \\n'",
        "'x' * 1_000_000",
    ],
)
def test_arguments_and_results_are_exact(mcp_fake, value):
    """The server echoes the text of its arguments. The result is returned as data."""
    assert (
        mcp_fake.cell(
            f"value = {value}\n"
            "from mcptools.fake import echo_json as e\n"
            "import json\n"
            "r = e.run(e.Params(value=value)).structured\n"
            "sent, back = json.loads(r['text'])['value'], r['back']\n"
            "repr(sent) == repr(value), repr(back) == repr(value)"
        )
        == "(True, True)"
    )


def test_numbers_beyond_python(mcp_fake):
    """No digit of an integer is lost.

    A number that no float can hold is an error that says so, not infinity.
    """
    assert (
        mcp_fake.cell(
            "from mcptools.fake import numbers as n\nr = n.run(n.Params()).structured\n"
            "r['big'], r['small']"
        )
        == "(1180591620717411303424, 0.1)"
    )
    assert "1e400" in mcp_fake.failing_cell(
        "from mcptools.fake import too_large as t\nt.run(t.Params())"
    )


def test_a_result_that_violates_its_schema_is_not_lost(mcp_fake):
    """Neither is one for which Python has no value."""
    assert (
        mcp_fake.cell(
            "from ipybox import ResultError, ToolRunnerError\n"
            "from mcptools.fake import broken_word as b, too_large as t\n"
            "try:\n    b.run(b.Params())\nexcept ResultError as error:\n    kept = error\n"
            "print(kept.path, kept.result['order']['number'], isinstance(kept, ToolRunnerError))"
        )
        == "('order', 'lines', 0, 'price') 17 True"
    )
    text = mcp_fake.failing_cell("b.run(b.Params())")
    assert "order.lines[0].price: Input should be a valid number" in text
    assert (
        mcp_fake.cell(
            "try:\n    t.run(t.Params())\nexcept ResultError as error:\n    print(error.result)"
        )
        == '{"large":1e400}'
    )


def test_nan_is_refused_with_a_reason(mcp_fake):
    text = mcp_fake.failing_cell(
        "from mcptools.fake import echo_json as e\ne.run(e.Params(value=float('nan')))"
    )
    assert "nan" in text.lower() and "JSON" in text


def test_contents(mcp_fake):
    """Text is text. All other contents are in `contents`; nothing is dropped."""
    assert (
        mcp_fake.cell("from mcptools.fake import two_texts as t\nt.run(t.Params())")
        == "'one\\ntwo'"
    )
    assert (
        mcp_fake.cell("from mcptools.fake import nothing as t\nrepr(t.run(t.Params()))") == "\"''\""
    )
    assert (
        mcp_fake.cell("from mcptools.fake import mixed as t\nmixed = t.run()\nprint(mixed)")
        == "caption"
    )
    shown = mcp_fake.cell("mixed")
    for part in ("caption", "image/png", "audio/wav", "file:///x", "resource"):
        assert part in shown
    assert (
        mcp_fake.cell(
            "from pathlib import Path\n"
            "print(mixed.images[0].save().read_bytes() == mixed.images[0].data)"
        )
        == "True"
    )
    assert mcp_fake.cell(
        "import json\nprint([c['type'] for c in json.loads(json.dumps(mixed.contents))])"
    ).startswith("['text', ")


def test_tool_errors(mcp_fake):
    failed = mcp_fake.failing_cell("from mcptools.fake import fail as f\nf.run(f.Params())")
    assert "mcptools/fake/fail.py" in failed and "tool_exec" not in failed, (
        "the traceback ends in the generated code"
    )
    assert "ToolRunnerError: " in failed and "went wrong\nsecond" in failed
    wrong = mcp_fake.failing_cell("f.run(5)")
    assert (
        "mcptools/fake/fail.py" in wrong
        and "mcptools/fake/__init__.py" not in wrong
        and "TypeError: run() takes" in wrong
    )
    refused = mcp_fake.failing_cell(
        "from mcptools.fake import Model\nclass Point(Model):\n    x: int\nPoint(x='a')"
    )
    assert "Point(x='a')" in refused and "valid integer" in refused
    assert "pydantic/main.py" not in refused and "http" not in refused, (
        "nor what pydantic does, nor where it is documented"
    )
    caught = mcp_fake.cell(
        "from ipybox.tool_exec.client import ToolRunnerError\n"
        "try: f.run(f.Params())\nexcept ToolRunnerError as e: print(type(e).__name__, '|', str(e))"
    )
    assert caught.startswith("ToolRunnerError | ") and "went wrong" in caught
    assert "rpc bad" in mcp_fake.failing_cell(
        "from mcptools.fake import rpc_error as f\nf.run(f.Params())"
    )


@pytest.fixture(scope="module")
def mcp_fake(ipybox, tmp_path_factory):
    import harness

    place = harness.Place.make(tmp_path_factory.mktemp("shared") / "x")
    with McpServer(ipybox, place) as server:
        server.register("fake", fake())
        pids(server)  # the check for leftovers ignores what runs now
        yield server


# Registration


def test_variables(ipybox, place):
    place.environ["FROM_ENV"] = "hunter-e1"
    (place.workspace / ".env").write_text("FROM_FILE=f1\n")
    with McpServer(ipybox, place) as server:
        params = fake(env={"A": "${FROM_ENV}", "B": "x${FROM_FILE}y"})
        server.register("fake", params)
        assert server.cell(
            "from mcptools.fake import environ as e\nprint(e.run(e.Params()))"
        ).split()[:2] == [
            "A=hunter-e1",
            "B=xf1y",
        ]
        missing = server.tool(
            "register_mcp_server", {"server_name": "m", "server_params": fake(env={"A": "${NOPE}"})}
        )
        assert missing["isError"] and "NOPE" in missing["content"][0]["text"]
    # The secret is neither in the package nor in the registry.
    for path in [*place.workspace.rglob("*.py"), *place.state.rglob("*")]:
        assert not path.is_file() or "hunter-e1" not in path.read_text()


def test_servers_environment_is_small(ipybox, place):
    place.environ["SECRET"] = "s1"
    with McpServer(ipybox, place) as server:
        server.register("fake", fake())
        assert "SECRET" not in server.cell(
            "from mcptools.fake import environ as e\nprint(e.run(e.Params()))"
        )


def run_cells(server: McpServer, code: str, is_done: Callable[[], bool], seconds=60.0) -> None:
    """Repeats a cell until `is_done`, at most for this time."""
    end = time.monotonic() + seconds
    while not is_done() and time.monotonic() < end:
        server.cell(code)


def test_changed_tools_are_told(ipybox, place):
    """Once for several changes at once, on stderr. The package remains unchanged."""
    log = place.root / "stderr"
    with open(log, "wb") as stderr, McpServer(ipybox, place, stderr=stderr.fileno()) as server:
        server.register("fake", fake())
        package = place.workspace / "mcptools/fake"
        before = {path: path.read_text() for path in package.glob("*.py")}
        assert (
            server.cell(
                "from mcptools.fake import change as c, slow as s\nprint(c.run(c.Params()))"
            )
            == "changed"
        )
        run_cells(server, "s.run(s.Params())", lambda: "tools changed" in log.read_text())
        assert {path: path.read_text() for path in package.glob("*.py")} == before
    lines = log.read_text().splitlines()
    assert [line for line in lines if "tools changed" in line] == [
        "ipybox: WARNING: fake: its tools changed; register it again to regenerate its package "
        "(nothing was rewritten)"
    ]
    assert "ipybox: ERROR: fake: spilled" in lines


def test_tools_that_did_not_change_are_not_told(ipybox, place):
    """Servers may send the notification at any time, so ipybox compares the list with that of the
    package.
    """
    log = place.root / "stderr"
    for is_registered in (False, True):
        with open(log, "wb") as stderr, McpServer(ipybox, place, stderr=stderr.fileno()) as server:
            if not is_registered:
                server.register("fake", fake())
            server.cell("from mcptools.fake import change as c, slow as s\nc.run(really=False)")
            # Longer than the time for which ipybox collects changes.
            run_cells(server, "s.run()", lambda: False, seconds=1)
            assert "tools changed" not in log.read_text()
            server.cell("c.run(really=True)")
            # Further changes are reported after a pause of 10 s.
            run_cells(server, "s.run()", lambda: "its tools changed" in log.read_text())
        assert log.read_text().count("tools changed") == 1


def test_limits_of_a_server(mcp):
    """ "limits" in server_params, named in the error."""
    params = fake("many-tools=250", limits={"pages": 2})
    text = mcp.tool("register_mcp_server", {"server_name": "many", "server_params": params})[
        "content"
    ][0]["text"]
    assert "more than 2 pages" in text and '"limits.pages" in its server_params' in text
    params = fake(limits={"page": 2})
    text = mcp.tool("register_mcp_server", {"server_name": "many", "server_params": params})[
        "content"
    ][0]["text"]
    assert "server_params.limits has an unknown member" in text


def test_failed_registration_keeps_the_package(mcp, workspace):
    mcp.register("time", CLOCK)
    before = {
        path: path.read_text() for path in (workspace / "mcptools/time").iterdir() if path.is_file()
    }
    for params in (
        {"command": "no-such-command"},
        fake("exit"),
        fake("bad-tool"),
        {"command": 1},
    ):
        assert mcp.tool("register_mcp_server", {"server_name": "time", "server_params": params})[
            "isError"
        ]
    assert {
        path: path.read_text() for path in (workspace / "mcptools/time").iterdir() if path.is_file()
    } == before
    assert "UTC" in mcp.cell(
        "from mcptools.time import get_current_time as g\ng.run(g.Params(timezone='UTC'))"
    )


def test_a_call_of_a_replaced_registration_says_by_whom(ipybox, place, workspace):
    """In the session that replaced it, and in one that finds an old package."""
    call = "print(only.run(only.Params()))"
    old_package = workspace / "old/x"
    with McpServer(ipybox, place) as mcp:
        mcp.register("x", fake("one-tool"))
        assert mcp.cell(f"from mcptools.x import only\n{call}") == "only one"
        shutil.copytree(workspace / "mcptools/x", old_package)
        mcp.register("x", fake("one-tool", timeout=50))
        new_id = re.search(
            r'server_id="([0-9a-f]{32})"', (workspace / "mcptools/x/__init__.py").read_text()
        )[1]
        replaced = (
            rf'MCP server "x" \(id [0-9a-f]{{32}}\) was replaced by the registration {new_id} '
            rf"\(.*, package in .*mcptools\)"
        )
        assert re.search(replaced, mcp.failing_cell(call))
        # As the error says: imported again, it is the new one.
        assert (
            mcp.cell(
                f"import importlib, mcptools.x\n"
                f"importlib.reload(mcptools.x); importlib.reload(only)\n{call}"
            )
            == "only one"
        )
    with McpServer(ipybox, place) as mcp:
        assert re.search(replaced, mcp.failing_cell(f"from old.x import only\n{call}"))
        assert mcp.cell(f"from mcptools.x import only\n{call}") == "only one"


FULL_DISK = """
import hashlib, os, pathlib

def state():
    "What the packages and the registry hold, and what else lies beside them."
    roots = map(pathlib.Path, (PACKAGES, REGISTRY))
    files = [path for root in roots for path in sorted(root.rglob("*"))]
    return {str(path): path.read_bytes() for path in files
            if path.is_file() and "__pycache__" not in path.parts and path.name != "fill"}

def fill(directory):
    with open(os.path.join(directory, "fill"), "wb", buffering=0) as file:
        for size in (65536, 4096, 1):
            try:
                while True:
                    file.write(b"x" * size)
            except OSError as error:
                assert error.errno == 28
"""


@pytest.mark.parametrize("full", ["PACKAGES", "REGISTRY"])
def test_a_registration_on_a_full_disk_keeps_the_package_and_the_registry(
    ipybox, place, workspace, full
):
    """On a small file system that is really full.

    The old package and its registration still work.
    """
    directories = {"PACKAGES": workspace / "mcptools", "REGISTRY": place.state / "ipybox"}
    directories[full].mkdir(mode=0o700, parents=True)
    mount = 'mount -t tmpfs -o size=1m,mode=0700 tmpfs "$0" && exec "$@"'
    command = (
        "--user",
        "--map-root-user",
        "--mount",
        "sh",
        "-c",
        mount,
        str(directories[full]),
        ipybox,
    )
    with McpServer("unshare", place, *command) as mcp:
        mcp.register("x", fake("one-tool"))
        names = "".join(f"{name} = {str(path)!r}\n" for name, path in directories.items())
        call = "from mcptools.x import only\nprint(only.run(only.Params()))"
        mcp.cell(f"{names}{FULL_DISK}\nbefore = state()\nassert len(before) > 3\nfill({full})")
        for name in ("x", "y"):
            answer = mcp.tool(
                "register_mcp_server",
                {"server_name": name, "server_params": fake("one-tool", timeout=50)},
            )
            assert answer["isError"] and "No space left on device" in answer["content"][0]["text"]
            assert (
                mcp.cell(
                    "print(state() == before, sorted(os.listdir(PACKAGES)) in (['x'], "
                    "['fill', 'x']))"
                )
                == "True True"
            )
        assert mcp.cell(call) == "only one"
        # A new session reads the registry.
        again = (
            f"import subprocess\n"
            f"print(subprocess.run([{ipybox!r}, 'run', '--no-sandbox', '--approve', 'allow', "
            f"'-c', {call!r}]"
        )
        assert (
            mcp.cell(
                again
                + ", capture_output=True, text=True, env=os.environ | ENV).stdout)".replace(
                    "ENV", repr(place.environ)
                )
            )
            == "only one"
        )
        mcp.cell(f"os.remove(os.path.join({full}, 'fill'))")
        mcp.register("x", fake("one-tool", timeout=50))
        mcp.tool("reset", {})
        assert mcp.cell(call) == "only one"


@pytest.mark.parametrize(
    "name", ["", "bad-name", "1x", "class", "../evil", "a/b", "__init__", "x" * 300]
)
def test_bad_server_names(mcp, workspace, name):
    result = mcp.tool("register_mcp_server", {"server_name": name, "server_params": fake()})
    assert result["isError"]
    assert not (workspace / "mcptools").exists() and not (workspace / "evil").exists()


def test_registering_again_replaces(mcp, workspace):
    assert "echo_json" in mcp.register("fake", fake())
    assert mcp.register("fake", fake("one-tool")) == ["only"]
    assert sorted(p.name for p in (workspace / "mcptools/fake").glob("*.py")) == [
        "__init__.py",
        "only.py",
    ]


def test_registration_outlives_the_process(ipybox, place):
    with McpServer(ipybox, place) as server:
        server.register("time", CLOCK)
    with McpServer(ipybox, place) as server:
        assert "UTC" in server.cell(
            "from mcptools.time import get_current_time as g\ng.run(g.Params(timezone='UTC'))"
        )


def test_package_of_another_workspace_is_not_callable(ipybox, place, tmp_path):
    """A moved package names a registration that the session does not have.

    The error says what helps.
    """
    with McpServer(ipybox, place) as server:
        server.register("time", CLOCK)
    other = tmp_path / "other"
    other.mkdir()
    (place.workspace / "mcptools").rename(other / "mcptools")
    with McpServer(ipybox, place, "--workspace", str(other)) as server:
        text = server.failing_cell(
            "from mcptools.time import get_current_time as g\ng.run(g.Params(timezone='UTC'))"
        )
        assert "ipybox apigen --server-name time" in text


def test_a_kernel_in_a_sandbox_cannot_name_a_command(ipybox, place, workspace):
    """server_params from a kernel start nothing unless they equal a registration.

    The sandbox that the registration got makes no difference.
    """
    with McpServer(ipybox, place, "--sandbox") as mcp:
        try_to_name_a_command(mcp, workspace)


def try_to_name_a_command(mcp, workspace):
    mcp.register("fake", fake("one-tool"))
    code = (
        "from ipybox.tool_exec.client import ToolRunner\n"
        "r = ToolRunner('evil', {'command': 'touch', 'args': ['evil']})\n"
        "r.run_sync('x', {})"
    )
    assert "not registered" in mcp.failing_cell(code)
    assert not (workspace / "evil").exists()
    params = fake("one-tool")
    assert (
        mcp.cell(
            f"from ipybox.tool_exec.client import ToolRunner\n"
            f"ToolRunner('fake', {params!r}).run_sync('only', {{}})"
        )
        == "'only one'"
    )


def test_channel_wants_the_token_or_the_kernel(mcp):
    mcp.register("fake", fake("one-tool"))
    assert (
        mcp.cell(
            "import http.client, os, json, re\n"
            "def post(**headers):\n"
            "    c = http.client.HTTPConnection('127.0.0.1', int(os.environ['TOOL_SERVER_PORT']))\n"
            "    c.request('POST', '/run', json.dumps({'server_name': 'fake', 'tool_name': "
            "'only', 'tool_args': {}}),\n"
            "              {'Content-Type': 'application/json', **headers})\n"
            "    return c.getresponse().status\n"
            "token = os.environ['IPYBOX_TOOL_TOKEN']\n"
            "post(), post(Authorization='Bearer ' + '0' * 64), post(Authorization='Bearer ' "
            "+ token[:-1])"
        )
        == "(200, 401, 401)"
    )


def test_two_sessions_do_not_share_tokens(ipybox, place, tmp_path):
    (tmp_path / "two").mkdir()
    with (
        McpServer(ipybox, place) as one,
        McpServer(ipybox, place, "--workspace", str(tmp_path / "two")) as two,
    ):
        one.register("fake", fake("one-tool"))
        port, token = eval(
            one.cell("import os; os.environ['TOOL_SERVER_PORT'], os.environ['IPYBOX_TOOL_TOKEN']")
        )
        other = two.cell("import os; os.environ['IPYBOX_TOOL_TOKEN']").strip("'")
        assert token != other
        text = two.failing_cell(
            f"os.environ['TOOL_SERVER_PORT'] = {port!r}\n"
            f"from ipybox.tool_exec.client import ToolRunner\n"
            "ToolRunner('fake').run_sync('only', {})"
        )
        assert "401" in text or "token" in text.lower()


# The life of servers


def pids(server: McpServer) -> str:
    return server.cell("from mcptools.fake import pid as p\nprint(p.run(p.Params()))")


def test_server_starts_once_and_ends_with_reset(mcp):
    mcp.register("fake", fake())
    first = pids(mcp)
    assert pids(mcp) == first
    assert Path("/proc", first).exists()
    mcp.tool("reset")
    assert not Path("/proc", first).exists()
    assert pids(mcp) != first


def test_server_that_dies_in_a_call(mcp):
    mcp.register("fake", fake())
    first = pids(mcp)
    text = mcp.failing_cell("from mcptools.fake import die as d\nd.run(d.Params())")
    assert "last words" in text and "exit status 3" in text
    assert pids(mcp) != first


def test_call_that_never_ends_can_be_interrupted(mcp):
    mcp.register("fake", fake())
    assert pids(mcp).isdigit()  # it runs, so the call reaches it
    text = mcp.failing_cell("from mcptools.fake import hang as h\nh.run(h.Params())", timeout=2)
    assert "exceeded timeout of 2.00s" in text
    assert "cancelled" in mcp.cell(
        "from mcptools.fake import cancelled as c\nprint(c.run(c.Params()))"
    )


def test_call_without_an_answer_ends(mcp):
    mcp.register("fake", fake() | {"timeout": 2})
    text = mcp.failing_cell("from mcptools.fake import hang as h\nh.run(h.Params())")
    assert (
        "no answer and no progress within 2 s" in text and '"timeout" in its server_params' in text
    )
    assert "cancelled" in mcp.cell(
        "from mcptools.fake import cancelled as c\nprint(c.run(c.Params()))"
    )


def test_noisy_server(mcp):
    """Banner lines on stdout and megabytes of stderr are ignored."""
    mcp.register("fake", fake("banner", "stderr"))
    assert mcp.cell("from mcptools.fake import two_texts as t\nt.run(t.Params())") == "'one\\ntwo'"


def test_hundred_megabytes(mcp):
    mcp.register("fake", fake())
    assert mcp.cell(
        "from mcptools.fake import large as l\nlen(l.run(l.Params(megabytes=100)))"
    ) == str(100 << 20)


def test_server_that_ignores_sigterm_and_has_children(ipybox, place):
    """The fixture `place` finds processes that are left."""
    with McpServer(ipybox, place) as server:
        server.register("fake", fake("ignore-sigterm", "ignore-eof", "child"))
        pids(server)


@pytest.mark.parametrize("revision", ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"])
def test_revisions_of_servers(mcp, revision):
    mcp.register("fake", fake("revision=" + revision))
    assert pids(mcp).isdigit()


def test_server_of_an_unknown_revision(mcp):
    result = mcp.tool(
        "register_mcp_server", {"server_name": "fake", "server_params": fake("revision=1999-01-01")}
    )
    assert result["isError"] and "1999-01-01" in result["content"][0]["text"]


def test_pages(mcp):
    assert len(mcp.register("fake", fake("many-tools=250"))) == 250


def test_progress_of_tools_reaches_the_client(mcp):
    mcp.register("fake", fake())
    id = mcp.start_tool(
        "execute_ipython_cell",
        {"code": "from mcptools.fake import slow as s\ns.run(s.Params());"},
        token=1,
    )
    mcp.answer(id)
    assert any(
        re.search(r"fake\.slow: 1/2 half", n["params"]["message"]) for n in mcp.notifications
    )


def test_image_of_a_tool_can_be_shown(mcp, servers):
    """An image that a tool returns is bytes in Python."""
    mcp.register("fake", fake())
    text = mcp.cell("from mcptools.fake import mixed as t\nt.run().images[0]")
    assert images_in(text)[0].read_bytes().startswith(b"\x89PNG")


def test_generated_api_names_no_secret_or_command(mcp, workspace):
    mcp.register("fake", fake(env={"TOKEN": "hunter2"}))
    for path in (workspace / "mcptools/fake").rglob("*.py"):
        text = path.read_text()
        assert "hunter2" not in text and sys.executable not in text
        compile(text, str(path), "exec")
