# SPDX-License-Identifier: Apache-2.0
"""The check of the manual finds what its sources lack."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parents[2] / "scripts/check-man"

PAGE = """libipybox(3) "ipybox @VERSION@" "ipybox"

# NAME

libipybox - a library

# FUNCTIONS

|[ *ipybox_thing_new*()
:< makes one

# SEE ALSO

*libipybox*(3)
"""
HEADER = """
/** Like ipybox_thing_old(). */
IPYBOX_EXPORT IpyboxThing *
ipybox_thing_new(void);
"""


@pytest.fixture
def project(tmp_path):
    (tmp_path / "docs/man").mkdir(parents=True)
    (tmp_path / "include/ipybox").mkdir(parents=True)
    (tmp_path / "docs/man/meson.build").write_text("man_pages = ['libipybox.3']\n")
    (tmp_path / "docs/man/libipybox.3.scd").write_text(PAGE)
    (tmp_path / "include/ipybox/thing.h").write_text(HEADER)
    return tmp_path


def check(project: Path) -> list[str]:
    done = subprocess.run([sys.executable, SCRIPT, project], capture_output=True, text=True)
    lines = [line for line in done.stdout.splitlines() if "not here" not in line]
    assert (done.returncode == 0) == (lines == ["man pages: fine"]), done
    return lines


def test_finds_functions_that_differ(project):
    assert check(project) == ["man pages: fine"]
    (project / "include/ipybox/thing.h").write_text(HEADER.replace("thing_new", "thing_make"))
    assert check(project) == [
        "libipybox.3.scd: the table lacks ipybox_thing_make()",
        "libipybox.3.scd: no header declares ipybox_thing_new()",
    ]


def test_finds_pages_that_are_not_there_or_not_listed(project):
    (project / "docs/man/libipybox.3.scd").write_text(
        PAGE.replace("*libipybox*(3)", "*ipybox-fly*(1)")
    )
    (project / "docs/man/ipybox.1.scd").write_text("ipybox(1)\n\n# NAME\n\nipybox - a program\n")
    assert check(project)[:4] == [
        "docs/man/meson.build: ipybox.1 is not in the list",
        'ipybox.1.scd:1: must begin: ipybox(1) "ipybox @VERSION@"',
        "libipybox.3.scd:14: there is no ipybox-fly(1)",
        "ipybox.1.scd: does not name libipybox(3)",
    ]


def test_finds_pages_that_the_index_lacks(project):
    (project / "docs/README.md").write_text("The manual: `ipybox`(1)\n")
    assert check(project) == ["README.md: does not name libipybox(3)"]


def test_finds_variables_and_statuses_that_are_not_there(project):
    (project / "src/cli").mkdir(parents=True)
    (project / "src/cli/cli.h").write_text(
        "enum {\n    IPB_EXIT_OK = 0,\n    IPB_EXIT_TIMEOUT = 124,\n};\n"
    )
    (project / "src/cli/cli.c").write_text('g_getenv("NO_COLOR"); getenv("TERM");\n')
    page = (
        'ipybox(1) "ipybox @VERSION@" "ipybox"\n\n# ENVIRONMENT\n\n*TERM*\n\t_dumb_\n\n'
        "# EXIT STATUS\n\n|[ *0*\n:< fine\n\n# SEE ALSO\n\n*libipybox*(3)\n"
    )
    (project / "docs/man/ipybox.1.scd").write_text(page)
    (project / "docs/man/meson.build").write_text("man_pages = ['libipybox.3', 'ipybox.1']\n")
    assert check(project)[:2] == [
        "ipybox.1.scd: lacks the variable NO_COLOR",
        "ipybox.1.scd: lacks the exit status 124",
    ]


def test_finds_what_formatters_warn_of(project):
    page = project / "docs/man/libipybox.3.scd"
    page.write_text(PAGE.replace("a library", "a library\n\n#NOTES"))
    assert "libipybox.3.scd" in check(project)[0]
    page.write_text(PAGE.replace("makes one", "x" * 200))
    assert any("can't break line" in line for line in check(project))
