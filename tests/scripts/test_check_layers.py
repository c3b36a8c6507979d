# SPDX-License-Identifier: Apache-2.0
"""The layer check accepts what is below and refuses the rest."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parents[2] / "scripts/check-layers"


def check(src: Path, name: str, text: str) -> tuple[int, str]:
    path = src / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    done = subprocess.run([sys.executable, SCRIPT, src], capture_output=True, text=True)
    return done.returncode, done.stdout


@pytest.mark.parametrize(
    ("name", "include"),
    [
        ("json/json.c", "base/error.h"),
        ("kernel/kernel.h", "http/head.h"),
        ("tools/registry.c", "mcp/client.h"),
        ("cli/main.c", "base/error.h"),
        ("cli/main.c", "cli/verbs.h"),
        ("cli/main.c", "session/session.h"),
        ("cli/cmd-run.c", "base/fd.h"),
        ("cli/cmd-run.c", "cli/prompt.h"),
        ("sandbox/linux/probe.c", "sandbox/linux/cgroup.h"),
    ],
)
def test_accepts(tmp_path, name, include):
    text = f'#include <glib.h>\n#include "{include}"\n'
    assert check(tmp_path, name, text) == (0, "layers: fine\n")


@pytest.mark.parametrize(
    ("name", "include", "reason"),
    [
        ("base/error.c", "json/json.h", "json is not below it"),
        ("kernel/kernel.h", "mcp/client.h", "mcp is not below it"),
        ("session/session.c", "serve/mcp/server.h", "serve is not below it"),
        ("session/session.c", "session.h", "should be named"),
        ("session/session.c", "../base/error.h", "should be named"),
        ("misc/x.c", "base/error.h", "no folder of this name"),
        ("cli/cmd-run.c", "session/session.h", "below the public API"),
        ("cli/cmd-apigen.c", "cli/program.h", "below the public API"),
        ("cli/prompt.h", "json/lines.h", "below the public API"),
        ("kernel/kernel.h", "sandbox/linux/cgroup.h", "a header of a backend"),
        ("sandbox/plan.c", "sandbox/linux/cgroup.h", "a header of a backend"),
    ],
)
def test_refuses(tmp_path, name, include, reason):
    status, output = check(tmp_path, name, f'/* a */\n  # include "{include}"\n')
    assert status == 1
    assert reason in output


def test_names_the_line(tmp_path):
    _, output = check(tmp_path, "base/a.c", '#include <glib.h>\n\n#include "cli/x.h"\n')
    assert output.startswith(f"{tmp_path}/base/a.c:3: ")


@pytest.mark.parametrize(
    "call", ["g_socket_client_new()", "g_file_new_for_path(p)", "g_resolver_get_default()"]
)
def test_refuses_what_a_wheel_cannot_have_of_gio(tmp_path, call):
    status, output = check(tmp_path, "base/a.c", f"#include <gio/gio.h>\n    x = {call};\n")
    assert status == 1
    assert output.startswith(
        f"{tmp_path}/base/a.c:2: {call.split('(')[0]}() is of the parts of GIO"
    )


@pytest.mark.parametrize(
    "call",
    [
        "g_task_new(a)",
        "g_cancellable_new()",
        "g_file_test(p)",
        "g_unix_signal_add(s)",
        "g_file_get_contents(p)",
    ],
)
def test_accepts_the_rest_of_glib(tmp_path, call):
    assert check(tmp_path, "base/a.c", f"    x = {call};\n") == (0, "layers: fine\n")


def test_finds_files_that_call_each_other_in_a_circle(tmp_path):
    (tmp_path / "base").mkdir()
    (tmp_path / "base/a.c").write_text("void\nipb_a_run(void)\n{\n    ipb_b_run();\n}\n")
    (tmp_path / "base/b.c").write_text("void\nipb_b_run(void)\n{\n    ipb_c_run();\n}\n")
    status, output = check(
        tmp_path, "base/c.c", "void\nipb_c_run(void)\n{\n    later(ipb_a_run);\n}\n"
    )
    assert status == 1
    assert "base/a.c: 3 files call each other in a circle" in output
    assert "base/c.c -> base/a.c: ipb_a_run" in output


def test_a_name_in_a_comment_is_no_call(tmp_path):
    (tmp_path / "base").mkdir()
    (tmp_path / "base/a.c").write_text("void\nipb_a_run(void)\n{\n    ipb_b_run();\n}\n")
    text = "/* ipb_a_run() calls this. */\nvoid\nipb_b_run(void)\n{\n}\n"
    assert check(tmp_path, "base/b.c", text) == (0, "layers: fine\n")
