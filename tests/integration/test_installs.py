# SPDX-License-Identifier: Apache-2.0
"""Which lines of a cell are installations that ipybox performs itself."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import harness
import pytest

sys.path.insert(0, str(harness.ROOT / "python/ipybox/kernel_host"))

from ipybox_kernel.installs import find_packages
from kernel_driver import Kernel


@pytest.mark.parametrize("command, packages", [
    ("pip install numpy", ["numpy"]),
    ("pip install -q -U numpy pandas", ["numpy", "pandas"]),
    ("pip install numpy>=1.20", ["numpy>=1.20"]),
    ("pip install 'numpy >= 1.20' \"pandas[excel]<3\"", ["numpy >= 1.20", "pandas[excel]<3"]),
    ("python -m pip install numpy==2.0.*", ["numpy==2.0.*"]),
    (f"{sys.executable} -m pip install numpy", ["numpy"]),
    ("uv pip install numpy", ["numpy"]),
    (f"{sys.executable} -m uv pip install numpy", ["numpy"]),
    ("pip3 install ./a.whl", ["./a.whl"]),
])  # fmt: skip
def test_installations(command, packages):
    assert find_packages(command) == packages


@pytest.mark.parametrize(
    "command",
    [
        "pip list",
        "pip install",
        "pip install -r requirements.txt",
        "pip install --target x numpy",
        "pip install numpy > log",
        "pip install numpy; rm -rf x",
        "pip install $PACKAGE",
        "pip install `cat list`",
        "echo pip install numpy",
        "pip install 'x",
        "pip install numpy && python x.py",
        "conda install numpy",
        "pip install *",
        "pip install numpy\nls",
    ],
)
def test_other_commands(command):
    assert find_packages(command) is None


def test_magics_that_read(kernel: Kernel) -> None:
    """Without a sandbox and with pip they are pip's. Nothing says that the kernel must restart."""
    cell = kernel.run("%pip show ipython")
    assert cell.status == "ok" and "Name: ipython\n" in cell.stdout
    assert "restart" not in cell.stdout
    wanted = subprocess.run(
        [sys.executable, "-m", "pip", "freeze"], capture_output=True, text=True, check=True
    ).stdout
    assert kernel.run("%pip freeze").stdout == wanted


def test_magics_that_read_without_pip(kernel: Kernel) -> None:
    """As in an environment of uv. What they say is the same."""
    wanted = {
        tuple(line.split("=="))
        for line in kernel.run("%pip list --format=freeze").stdout.splitlines()
    }
    kernel.run("import sys; sys.modules['pip'] = None  # as if it were not installed")
    listed = kernel.run("%pip list").stdout.splitlines()
    assert {tuple(line.split(" ")) for line in listed} == wanted
    frozen = kernel.run("%pip freeze").stdout.splitlines()
    assert {tuple(line.split("==")) for line in frozen} == wanted
    cell = kernel.run("%pip show IPython no_such_package")
    assert cell.stdout.startswith("Name: ipython\nVersion: ") and "traitlets" in cell.stdout
    assert cell.stderr == "WARNING: Package(s) not found: no_such_package\n"
    (error,) = kernel.run("%pip list --outdated").errors
    assert error["traceback"] == (
        "UsageError: options of %pip list need pip, which this Python does not have"
    )


def test_a_python_without_pip_says_so(kernel: Kernel, tmp_path: Any) -> None:
    (tmp_path / "pip").write_text("#!/bin/sh\nexit 1\n")
    (tmp_path / "pip").chmod(0o755)
    kernel.run(f"import os, sys; os.environ['PATH'] = '{tmp_path}:' + os.environ['PATH']")
    assert kernel.run("!pip install numpy").stderr == ""
    kernel.run("sys.modules['pip'] = None")
    assert "!uv pip install NAME" in kernel.run("!pip install numpy").stderr


def test_conda_without_an_environment(kernel: Kernel) -> None:
    (error,) = kernel.run("%conda list").errors
    assert "%pip install" in error["evalue"]


def test_conda_in_a_sandbox(kernel: Kernel, tmp_path: Any) -> None:
    (tmp_path / "conda-meta").mkdir()
    (tmp_path / "conda-meta" / "history").touch()
    conda = tmp_path / "conda"
    conda.write_text('#!/bin/sh\necho conda "$@"\n')
    conda.chmod(0o755)
    kernel.run(
        f"import os, sys; sys.prefix = '{tmp_path}'; os.environ['CONDA_EXE'] = '{conda}'\n"
        "os.environ['IPYBOX_INSTALLS'] = '1'"
    )
    assert kernel.run("%conda list").stdout.startswith("conda list")
    for command in ("%conda install numpy", "%conda update --all"):
        cell = kernel.run(command)
        (error,) = cell.errors
        assert (
            error["ename"] == "UsageError" and "%pip install 'numpy>=2' pandas" in error["evalue"]
        )
        assert cell.stdout == ""
    kernel.run("del os.environ['IPYBOX_INSTALLS']")
    assert kernel.run("%conda install numpy").stdout.startswith("conda install")
