# SPDX-License-Identifier: Apache-2.0
"""Which lines of a cell are installations that ipybox performs itself."""

from __future__ import annotations

import sys

import harness
import pytest

sys.path.insert(0, str(harness.ROOT / "python/ipybox/kernel_host"))

from ipybox_kernel.installs import find_packages


@pytest.mark.parametrize("command, packages", [
    ("pip install numpy", ["numpy"]),
    ("pip install -q -U numpy pandas", ["numpy", "pandas"]),
    ("pip install numpy>=1.20", ["numpy>=1.20"]),
    ("pip install 'numpy >= 1.20' \"pandas[excel]<3\"", ["numpy >= 1.20", "pandas[excel]<3"]),
    ("python -m pip install numpy==2.0.*", ["numpy==2.0.*"]),
    (f"{sys.executable} -m pip install numpy", ["numpy"]),
    ("uv pip install numpy", ["numpy"]),
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
