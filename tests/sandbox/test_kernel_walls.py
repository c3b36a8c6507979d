# SPDX-License-Identifier: Apache-2.0
"""Attack suites B and D in kernels, which enter their sandbox in a different way from commands.

The same probes have the same results. Also what only kernels have: an environment that they must
not change. And suite H: real software at work in a kernel.
"""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import harness
import pytest
import test_files as files
import test_syscalls
from box import PROBES, Box, make_settings
from kernels import Kernels, make_environment


def run_probe(kernels: Kernels, name: str, *args: str, settings: dict) -> dict:
    """Runs in the kernel itself, not in a program that it starts."""
    script = (PROBES / f"{name}.py").read_text()
    code = (
        f"import sys\nsys.argv = ['probe', *{args!r}]\nexec({script!r}, {{'__name__': '__main__'}})"
    )
    path = kernels.box.write_settings(settings)
    done = kernels.run(code, "--sandbox-config", path)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_system_calls(kernels: Kernels) -> None:
    results = run_probe(kernels, "syscalls", settings=make_settings())
    wrong = {
        name: (result, "ok" if name.startswith("twin: ") else test_syscalls.expected(name))
        for name, result in results.items()
        if result != ("ok" if name.startswith("twin: ") else test_syscalls.expected(name))
    }
    assert not wrong, "(is, should be): " + str(wrong)


def test_files(kernels: Kernels) -> None:
    outside = files.make_tree(kernels.box)
    kernels.box.prepare(kernels.user)
    before = files.snapshot(outside)
    results = run_probe(kernels, "files", str(outside), settings=files.SETTINGS)
    # Its parent is outside, so it has none here.
    expected = {name: files.expected(name, kernels.user) for name in results}
    expected |= {name: ["ENOENT"] for name in results if name.startswith("/proc/parent/")}
    wrong = {
        name: (result, expected[name])
        for name, result in results.items()
        if result not in expected[name]
    }
    assert not wrong, "(is, should be): " + str(wrong)
    assert files.snapshot(outside) == before


# The environment


def test_an_environment_in_the_workspace(box: Box) -> None:
    """A kernel can neither write nor replace what the next kernel runs."""
    environment = box.place.workspace / ".venv"
    packages, real = make_environment(environment)
    (environment / "bin/tool").write_text("#!/bin/sh\n")
    kernel = Kernels(box, "root")
    kernel.python = environment / "bin/python"
    names = [
        "pyvenv.cfg",
        "bin/tool",
        f"{packages.relative_to(environment)}/new.pth",
        "bin/sitecustomize.py",
        "bin/python",
    ]
    code = f"""
import os
def tried(action, *args):
    try: action(*args); return "done"
    except OSError: return "denied"
def write(name): os.close(os.open('.venv/' + name, os.O_WRONLY | os.O_CREAT))
print([tried(write, name) for name in {names!r}],
      tried(os.rename, '.venv', 'aside'), tried(os.unlink, '.venv/bin/python'),
      tried(os.symlink, '/tmp', '.venv/bin/x'))
"""
    settings = box.write_settings(make_settings(allowWrite=[".", "./.venv"], allowRead=[str(real)]))
    done = kernel.run(code, "--sandbox-config", settings)
    assert done.stdout.split() == (str(["denied"] * 5) + " denied denied denied").split(), (
        done.stderr
    )
    assert "done" in kernel.run(code, "--no-sandbox").stdout
    shutil.rmtree(environment, ignore_errors=True)
    shutil.rmtree(box.place.workspace / "aside", ignore_errors=True)


# Modules that Python, IPython and pandas import if they exist.
WISHED = [
    "_winapi",
    "argcomplete",
    "astroid",
    "bottleneck",
    "nt",
    "numexpr",
    "org",
    "pyarrow",
    "pytz",
    "storemagic",
]


def test_an_editable_install_of_the_workspace(box: Box) -> None:
    """Kernels import these modules. The forkserver, which is in no sandbox, does not."""
    source = box.place.workspace / "src"
    packages, real = make_environment(box.place.root / "environment")
    kernel = Kernels(box, "root")
    kernel.python = box.place.root / "environment/bin/python"
    (packages / "project.pth").write_text(f"{source}\n")
    source.mkdir()
    for name in [*WISHED, "mine"]:
        (source / f"{name}.py").write_text("")
    code = (
        "import sys\n"
        f"print(sorted(set({WISHED!r}) & set(sys.modules)))\n"
        "import mine\n"
        "print(mine.__file__)"
    )
    flags = ["--sandbox-config", box.write_settings(make_settings(allowRead=[str(real)]))]
    assert kernel.run(code, *flags).stdout == f"[]\n{source}/mine.py\n"
    found, mine = kernel.run(code, "--no-sandbox").stdout.splitlines()
    assert found != "[]" and mine == f"{source}/mine.py"
    shutil.rmtree(box.place.root / "environment")


def test_files_that_preloaded_modules_look_for(kernels: Kernels) -> None:
    """A kernel reads those in its working directory; the forkserver reads none of a workspace."""
    (kernels.place.workspace / "matplotlibrc").write_text("lines.linewidth: 77\n")
    code = "import matplotlib; print(matplotlib.rcParams['lines.linewidth'])"
    assert kernels.run(code).stdout == "77.0\n"
    assert kernels.run(code, "--preload", "matplotlib").stdout == "1.5\n"


def test_profiles_and_startup_files(kernels: Kernels) -> None:
    """Files that IPython would run at the start are neither written nor run."""
    home, workspace = kernels.place.home, kernels.place.workspace
    startup = home / ".ipython/profile_default/startup"
    startup.mkdir(parents=True)
    (startup / "00.py").write_text("print('startup')")
    for name in ("sitecustomize.py", "usercustomize.py", "ipybox.py"):
        (workspace / name).write_text("print('customize')")
    kernels.box.prepare(kernels.user)
    code = f"""
try: open({str(startup / "01.py")!r}, "w"); print("written")
except OSError: print("denied")
"""
    path = kernels.box.write_settings(make_settings(allowWrite=[".", "~"]))
    assert kernels.run(code, "--sandbox-config", path).stdout == "denied\n"
    assert kernels.run(code, "--no-sandbox").stdout.endswith("written\n")


# Privileges


@pytest.mark.needs_root
def test_setuid_programs_give_nothing(box: Box, user: str) -> None:
    """A program of root's with the setuid bit; no wall hides it."""
    program = box.place.root.parent / "setuid-id"
    shutil.copy("/usr/bin/id", program)
    program.chmod(0o755)
    box.prepare(user)
    os.chown(program, 0, 0)
    program.chmod(0o4755)
    inside = box([str(program), "-u"], user=user).stdout.strip()
    assert inside.isdigit() and inside == box(["id", "-u"], user=user).stdout.strip()
    if user == "user":
        assert box([str(program), "-u"], user=user, sandbox=False).stdout == "0\n"


# Work


WORK = [
    "numpy",
    "pandas",
    "matplotlib",
    "subprocess",
    "asyncio",
    "pty",
    "sqlite",
    "git",
    "threads",
    "sockets",
    "temporary_files",
    "multiprocessing fork",
    "multiprocessing spawn",
    "multiprocessing forkserver",
]


def test_work(kernels: Kernels) -> None:
    """In one session, one after the other, as cells do it."""
    (kernels.place.workspace / "software.py").write_text((PROBES / "software.py").read_text())
    with kernels.serve() as server:
        for work in WORK:
            name, *args = work.split()
            call = f"software.use_{name}(*{args!r})"
            if name == "asyncio":  # whose loop is already running
                call = "await software.talk()"
            assert server.cell(f"import os, software\n{call}\nprint('works')").endswith("works"), (
                work
            )


def test_programs_of_other_languages(kernels: Kernels) -> None:
    node = Path(os.path.realpath(harness.existing(harness.CACHE / "node/bin/node")))
    if kernels.user != "root" and node.is_relative_to(harness.ROOT):
        node = kernels.box.source / node.relative_to(harness.ROOT)
    path = kernels.box.write_settings(make_settings(allowRead=[str(node)]))
    done = kernels.run(
        f"!{node} -e 'console.log(6 * 7)'\n!bash -c 'echo $((6 * 7))'\n!perl -e 'print 42, chr 10'",
        "--sandbox-config",
        path,
    )
    assert done.stdout == "42\n" * 3, done.stderr
