# SPDX-License-Identifier: Apache-2.0
"""scripts/install removes exactly what it installed, also with DESTDIR and after an earlier
version.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parents[2] / "scripts/install"


@pytest.fixture
def project(tmp_path):
    """The build folder of a project that installs two files into directories of their own."""
    source = tmp_path / "source"
    source.mkdir()
    for name in ("one.py", "two"):
        (source / name).write_text(name)
    write_build(source, "one.py", "two")
    build = tmp_path / "build"
    subprocess.run(
        ["meson", "setup", build, source, "--prefix", tmp_path / "prefix"],
        check=True,
        capture_output=True,
    )
    return build


def write_build(source: Path, *files: str) -> None:
    lines = [f"install_data('{name}', install_dir: 'share/project/{name[:3]}')" for name in files]
    (source / "meson.build").write_text("\n".join(["project('project')", *lines]))


def install(build: Path, prefix: Path, *options: str) -> str:
    command = [SCRIPT, "--build", build, "--prefix", prefix, *options]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def tree(root: Path) -> set[str]:
    return {str(path.relative_to(root)) for path in root.rglob("*")}


@pytest.mark.parametrize("with_destdir", [False, True])
def test_removes_what_it_put(project, tmp_path, with_destdir):
    prefix = tmp_path / "prefix"
    root = tmp_path / "root" if with_destdir else Path("/")
    options = ["--destdir", str(root)] if with_destdir else []
    place = root / prefix.relative_to("/")
    (place / "share").mkdir(parents=True)
    (place / "share/foreign").write_text("")
    install(project, prefix, *options)
    assert (place / "share/project/one/one.py").read_text() == "one.py"
    cache = place / "share/project/one/__pycache__"
    cache.mkdir()
    (cache / "one.cpython-311.pyc").write_text("")
    install(project, prefix, "--uninstall", *options)
    assert tree(place) == {"share", "share/foreign"}
    assert with_destdir == (not prefix.exists())


def test_leaves_what_others_put_and_says_so(project, tmp_path):
    prefix = tmp_path / "prefix"
    install(project, prefix)
    (prefix / "share/project/two/foreign").write_text("")
    assert "share/project/two" in install(project, prefix, "--uninstall")
    assert tree(prefix) == {
        "share",
        "share/project",
        "share/project/two",
        "share/project/two/foreign",
    }


def test_new_version_removes_files_of_the_old_one(project, tmp_path):
    prefix = tmp_path / "prefix"
    install(project, prefix)
    write_build(tmp_path / "source", "one.py")
    install(project, prefix)
    assert (prefix / "share/project/one/one.py").exists() and not (
        prefix / "share/project/two"
    ).exists()
    install(project, prefix, "--uninstall")
    assert not prefix.exists()


def test_uninstall_without_a_list_is_an_error(tmp_path):
    done = subprocess.run(
        [SCRIPT, "--uninstall", "--prefix", tmp_path], capture_output=True, text=True
    )
    assert done.returncode == 1 and "nothing is installed there" in done.stderr
