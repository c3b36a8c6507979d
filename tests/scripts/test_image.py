# SPDX-License-Identifier: Apache-2.0
"""The files of docker/; scripts/check-image builds and uses the image."""

from __future__ import annotations

import ctypes.util
import fnmatch
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
DOCKER = ROOT / "docker"
PROFILE = json.loads((DOCKER / "seccomp.json").read_text())
ALLOW, DENY = "SCMP_ACT_ALLOW", "SCMP_ACT_ERRNO"
# What the init and the core make sandboxes with (src/sandbox/linux), and runtimes deny.
NEEDED = set(
    """
    clone clone3 fsconfig fsmount fsopen landlock_add_rule landlock_create_ruleset
    landlock_restrict_self mount mount_setattr move_mount open_tree openat2 pidfd_getfd pidfd_open
    pivot_root prctl seccomp sethostname setns umount2 unshare
    """.split()
)
# A sandbox denies these, and a container needs them not only for sandboxes. They work on processes
# of the same user, or on nothing outside of the container.
ORDINARY = set(
    """
    io_cancel io_destroy io_getevents io_pgetevents io_setup io_submit open_tree_attr
    process_vm_readv process_vm_writev ptrace fspick
    """.split()
)


def names(action: str) -> list[str]:
    return [
        name for rule in PROFILE["syscalls"] if rule["action"] == action for name in rule["names"]
    ]


def denied_in_sandboxes() -> set[str]:
    source = (ROOT / "src/sandbox/linux/seccomp-table.c").read_text()
    table = source.partition("IPB_DENIED_CALLS[] = {")[2].partition("};")[0]
    return set(re.findall(r'^    \{"(\w+)", \d+, E', table, re.MULTILINE))


def test_profile_allows_what_sandboxes_need():
    assert NEEDED <= set(names(ALLOW))


def test_profile_denies_what_no_container_needs():
    """Whatever a sandbox denies: the container denies it, too, or it is known why not."""
    table = denied_in_sandboxes()
    assert len(table) > 50
    assert table & set(names(ALLOW)) == (NEEDED | ORDINARY) & table
    assert PROFILE["defaultAction"] == DENY


def test_profile_names_calls_once():
    assert not set(names(ALLOW)) & set(names(DENY))
    for rule in PROFILE["syscalls"]:
        assert rule["names"] == sorted(set(rule["names"]))
    once = [name for name in names(ALLOW) + names(DENY) if name != "personality"]
    assert len(once) == len(set(once))


def test_profile_names_exist():
    """A misspelled name would have no effect."""
    library = ctypes.CDLL(ctypes.util.find_library("seccomp"))
    UNKNOWN = -1
    newer = {
        name
        for name in names(ALLOW) + names(DENY)
        if library.seccomp_syscall_resolve_name(name.encode()) == UNKNOWN
    }
    header = Path("/usr/include/x86_64-linux-gnu/asm/unistd_64.h")
    known = set(re.findall(r"#define __NR_(\w+)", header.read_text())) if header.exists() else set()
    # Newer than Debian 12's libseccomp
    assert newer - known <= set(
        """
        cachestat fchmodat2 file_getattr file_setattr futex_requeue futex_wait futex_wake
        getxattrat listmount listxattrat lsm_get_self_attr lsm_list_modules lsm_set_self_attr
        map_shadow_stack mseal open_tree_attr removexattrat setxattrat statmount
        """.split()
    )


def test_context_has_what_the_image_copies():
    lines = (ROOT / ".dockerignore").read_text().splitlines()
    kept = [line[1:] for line in lines if line.startswith("!")]
    copied = []
    for line in (DOCKER / "Dockerfile").read_text().splitlines():
        if line.startswith("COPY ") and "--from" not in line:
            copied += line.split()[1:-1]
    assert "*" in lines and sorted(copied) == sorted(kept)
    for pattern in kept:
        if "*" not in pattern:
            assert (ROOT / pattern).exists(), pattern
    assert not any(fnmatch.fnmatch(".env", pattern) for pattern in kept)


@pytest.fixture
def entrypoint(tmp_path: Path):
    """Runs the entry point with a stand-in for ipybox that prints its arguments."""
    program = tmp_path / "ipybox"
    program.write_text('#!/bin/sh\nprintf "%s\\n" "$@"\n')
    program.chmod(0o755)

    def run(*arguments: str, domains: str | None = None) -> subprocess.CompletedProcess[str]:
        environ = {"PATH": f"{tmp_path}:/usr/bin:/bin", "HOME": str(tmp_path)}
        if domains is not None:
            environ["IPYBOX_ALLOWED_DOMAINS"] = domains
        return subprocess.run(
            [DOCKER / "entrypoint", *arguments],
            env=environ,
            capture_output=True,
            text=True,
            check=False,
        )

    return run


@pytest.mark.parametrize("arguments", [[], ["--sandbox"], ["serve", "--port=1"], ["doctor"]])
def test_entrypoint_passes_arguments(entrypoint, arguments):
    for domains in (None, ""):
        assert entrypoint(*arguments, domains=domains).stdout.split() == arguments


@pytest.mark.parametrize(
    ("arguments", "verb"),
    [([], "mcp"), (["--images=path"], "mcp"), (["mcp"], "mcp"), (["serve", "--port=1"], "serve")],
)
def test_entrypoint_allows_domains(entrypoint, arguments, verb):
    done = entrypoint(*arguments, domains="pypi.org,*.example.org")
    rest = [argument for argument in arguments if argument.startswith("-")]
    assert done.stdout.split() == [verb, "--allowed-domains=pypi.org,*.example.org", *rest]


def test_entrypoint_leaves_other_commands_alone(entrypoint):
    assert entrypoint("doctor", "--json", domains="pypi.org").stdout.split() == ["doctor", "--json"]


@pytest.mark.parametrize("domains", ['a"b', "a b", "a;b", "$(id)", "a\nb", "é"])
def test_entrypoint_refuses_other_texts(entrypoint, domains):
    done = entrypoint(domains=domains)
    assert done.returncode == 2 and not done.stdout and "separated by commas" in done.stderr


@pytest.fixture
def build_script(tmp_path: Path):
    """Runs docker-build.sh in a clone with stand-ins that print what they are called with."""
    programs, clone = tmp_path / "programs", tmp_path / "clone"
    programs.mkdir()
    (clone / "dist").mkdir(parents=True)
    shutil.copy(ROOT / "docker-build.sh", clone)
    for name in ("docker", "make", "apt-get"):
        (programs / name).write_text(f'#!/bin/sh\necho {name} "$@"\n')
        (programs / name).chmod(0o755)
    for name in ("dirname", "ls"):
        (programs / name).symlink_to(shutil.which(name) or name)

    def run(*arguments: str, uid: int = 1234, **environ: str) -> subprocess.CompletedProcess[str]:
        (programs / "id").write_text(f"#!/bin/sh\necho {uid}\n")
        (programs / "id").chmod(0o755)
        return subprocess.run(
            ["/bin/sh", clone / "docker-build.sh", *arguments],
            env={"PATH": str(programs), **environ},
            capture_output=True,
            text=True,
            check=False,
        )

    return run


def test_build_script_uses_the_wheel(build_script, tmp_path):
    (tmp_path / "clone/dist/ipybox-1.0.0-py3-none-any.whl").touch()
    done = build_script("--build-arg", "PACKAGES=numpy")
    assert "dist/ipybox-1.0.0-py3-none-any.whl" in done.stderr
    (line,) = done.stdout.splitlines()
    assert line == (
        "docker build --tag ipybox --build-arg UID=1234 --build-arg GID=1234"
        " --file docker/Dockerfile --build-arg PACKAGES=numpy ."
    )


def test_build_script_makes_the_wheel(build_script, tmp_path):
    assert build_script().stdout.splitlines()[0] == "make wheel"
    (tmp_path / "programs/apt-get").unlink()
    done = build_script()
    assert done.returncode == 1 and not done.stdout and "_aarch64.whl" in done.stderr


def test_build_script_gives_root_an_ordinary_user(build_script, tmp_path):
    (tmp_path / "clone/dist/ipybox-1.0.0-py3-none-any.whl").touch()
    done = build_script(uid=0)
    assert "UID=1000" in done.stdout and "you are root" in done.stderr
    done = build_script(uid=0, SUDO_UID="7", SUDO_GID="8")
    assert "UID=7 --build-arg GID=8" in done.stdout and "you are root" not in done.stderr


def test_build_script_needs_docker(build_script, tmp_path):
    (tmp_path / "programs/docker").unlink()
    done = build_script()
    assert done.returncode == 127 and "docker is not in PATH" in done.stderr


def test_results_are_of_checks_that_passed(load_script):
    """scripts/check-image --write: what was found for each processor, and where."""
    check = load_script("check-image")
    results = json.loads(check.RESULTS.read_text())
    for name, places in results.items():
        assert name in check.ARCHITECTURES
        for entry in places.values():
            assert re.fullmatch(r"\d{4}-\d\d-\d\d", entry["date"])
            assert not [line for line in entry["checks"] if "FAILED" in line]
        found = [line for entry in places.values() for line in entry["checks"]]
        assert f"figure docker: architecture of the image: {name}" in found
        assert any(line.startswith("ok docker: selftest") for line in found)
        assert any(line.startswith("ok docker: main job, in sandboxes") for line in found)
    podman = results["amd64"]["here, with Debian 13's podman"]["checks"]
    assert "ok podman: podman kube play" in podman


def test_check_image_arguments():
    script = [sys.executable, ROOT / "scripts/check-image"]
    done = subprocess.run([*script, "--architecture=s390x"], capture_output=True, text=True)
    assert done.returncode == 2 and "s390x" in done.stderr
    done = subprocess.run([*script, "--quick", "--write"], capture_output=True, text=True)
    assert done.returncode == 2 and "--write needs all checks" in done.stderr
