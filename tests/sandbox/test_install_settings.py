# SPDX-License-Identifier: Apache-2.0
"""Proxies, the index and certificates reach installations in each way in which ipybox is used, and
no password reaches a cell.
"""

from __future__ import annotations

import json
from pathlib import Path

import harness
import pytest
from box import NetBox
from kernels import make_environment
from little_internet import PROXY_USER, LittleInternet
from packages import make_wheel

INDEX_USER = "user:index-secret"
PROXY = f"http://{PROXY_USER}@proxy.test:3128"
# The ways in which cells cannot see passwords. Without a sandbox, a cell of the MCP server or the
# SDK can find them if it tries.
SANDBOXED = ["mcp --sandbox", "run", "sdk sandbox"]


@pytest.fixture(scope="session")
def internet(internet: LittleInternet) -> LittleInternet:
    simple = internet.directory / "www/simple/boxdemo"
    simple.mkdir(parents=True)
    wheel = make_wheel(simple, "boxdemo", "42")
    (simple / "index.html").write_text(f'<a href="{wheel.name}">{wheel.name}</a>')
    return internet


class Installer:
    def __init__(self, net: NetBox) -> None:
        self.net = net
        environment = net.place.root / "environment"
        make_environment(environment)
        self.python = environment / "bin/python3"
        for name in ("SSL_CERT_FILE", "PIP_CERT"):
            net.place.environ[name] = str(net.internet.ca)
        net.internet.proxied()

    def __call__(self, way: str, **environ: str) -> dict[str, str]:
        """What was reported about the installation, and what a cell saw then."""
        path = f"{harness.ROOT / 'python'}:{harness.ROOT / 'tests/integration'}"
        program = str(Path(__file__).with_name("install_program.py"))
        self.net.place.environ |= environ
        variables = ["env", f"PYTHONPATH={path}", f"IPYBOX_BIN={self.net.binary}"]
        python = str(harness.ROOT / ".venv/bin/python")
        done = self.net.run(
            [*variables, python, program, way, str(self.net.binary), str(self.python)], timeout=240
        )
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout.splitlines()[-1])


@pytest.fixture
def install(net: NetBox) -> Installer:
    return Installer(net)


@pytest.mark.parametrize("way", ["mcp", *SANDBOXED])
def test_by_a_proxy_from_an_index(install: Installer, way: str) -> None:
    """The index can only be reached through the proxy; both need a password."""
    result = install(way, https_proxy=PROXY, PIP_INDEX_URL=f"https://{INDEX_USER}@far.test/simple")
    assert "answer 42" in result["seen"], result
    assert "secret" not in result["installed"]
    if way in SANDBOXED:
        assert result["seen"].endswith("answer 42\nFalse") or result["seen"].endswith(
            "answer 42\nFalse\n"
        )
        # The proxy was asked for nothing else, and by name, so that the proxy resolves it.
        assert set(install.net.internet.proxied()) == {"CONNECT far.test:443 200"}
    else:
        assert "CONNECT far.test:443 200" in install.net.internet.proxied()


@pytest.mark.parametrize(
    "environ",
    [
        {
            "http_proxy": PROXY,
            "PIP_INDEX_URL": "http://far.test/simple",
            "PIP_TRUSTED_HOST": "far.test",
        },
        {"HTTPS_PROXY": PROXY, "PIP_INDEX_URL": "https://far.test/simple"},
        {"ALL_PROXY": PROXY, "PIP_INDEX_URL": "https://far.test/simple"},
        {
            "PIP_PROXY": PROXY,
            "PIP_INDEX_URL": "https://far.test/simple",
            "https_proxy": "http://refused.test:1",
            "no_proxy": "*",
        },
        {
            "https_proxy": "http://refused.test:1",
            "no_proxy": "other.test, .index.test",
            "PIP_INDEX_URL": "https://index.test/simple",
        },
    ],
    ids=["http", "upper case", "all", "pip's own", "no_proxy"],
)
def test_settings_in_a_sandbox(install: Installer, environ: dict[str, str]) -> None:
    result = install("mcp --sandbox", **environ)
    assert "answer 42" in result["seen"], result
    assert bool(install.net.internet.proxied()) == ("far.test" in environ["PIP_INDEX_URL"])


def test_files_in_a_sandbox(install: Installer) -> None:
    """A pip.conf that contains a proxy and a password is closed to cells, and the installation uses
    it.
    """
    place = install.net.place
    config = place.home / ".config/pip/pip.conf"
    config.parent.mkdir(parents=True)
    config.write_text(
        f"[global]\nindex-url = https://{INDEX_USER}@far.test/simple\nproxy = {PROXY}\n"
    )
    settings = place.home / "settings.json"
    settings.write_text(
        json.dumps(
            {
                "network": {"allowedDomains": [], "deniedDomains": []},
                "filesystem": {"denyRead": ["~/.config/pip"], "allowWrite": ["."], "denyWrite": []},
            }
        )
    )
    place.environ["IPYBOX_TEST_FLAGS"] = f"--sandbox-config={settings}"
    result = install("mcp --sandbox")
    assert "answer 42\nFalse" in result["seen"], result


@pytest.mark.parametrize(
    ("environ", "told"),
    [
        (
            {"https_proxy": "http://proxy.test:3128"},
            ["the proxy of https_proxy: it requires a user and a password"],
        ),
        (
            {"https_proxy": "http://user:wrong-secret@proxy.test:3128"},
            ["the proxy of https_proxy: it does not accept the user and the password"],
        ),
        (
            {"https_proxy": "http://user:wrong-secret@refused.test:3128"},
            ["the proxy of https_proxy: the host refused the connection"],
        ),
        (
            {"all_proxy": "socks5://user:wrong-secret@proxy.test:1080"},
            ["the proxy of all_proxy: it does not begin with http://"],
        ),
        # A server that is not a proxy.
        (
            {"https_proxy": "http://good.test:7000"},
            ["the proxy of https_proxy: it does not answer as an HTTP proxy"],
        ),
        (
            {},
            [
                "names neither a proxy nor an index",
                "https_proxy or PIP_INDEX_URL",
                "where ipybox is started",
            ],
        ),
        (
            {"https_proxy": PROXY, "SSL_CERT_FILE": "", "PIP_CERT": "", "CURL_CA_BUNDLE": ""},
            ["certificate", "SSL_CERT_FILE and PIP_CERT"],
        ),
    ],
    ids=[
        "no password",
        "wrong password",
        "no answer",
        "SOCKS",
        "no proxy",
        "nothing",
        "certificate",
    ],
)
@pytest.mark.parametrize("way", ["mcp", "mcp --sandbox"])
def test_what_is_wrong_is_said(
    install: Installer, way: str, environ: dict[str, str], told: list[str]
) -> None:
    far = (
        {"PIP_INDEX_URL": "https://far.test/simple"}
        if "https_proxy" in environ or "all_proxy" in environ
        else {}
    )
    result = install(way, PIP_RETRIES="1", PIP_DEFAULT_TIMEOUT="20", **environ, **far)
    assert "not there" in result["seen"]
    assert "secret" not in result["installed"]
    if way == "mcp --sandbox" or not any("the proxy of" in text for text in told):
        for text in told:
            assert text in result["installed"], result["installed"]
    elif "all_proxy" in environ:
        assert "SOCKS" in result["installed"]
    else:
        assert f"ipybox's environment sets {next(iter(environ))}" in result["installed"]


@pytest.mark.parametrize("way", ["run --no-sandbox", "sdk"])
def test_a_cells_own_pip_says_what_it_lacks(install: Installer, way: str) -> None:
    """Outside of a sandbox the cell runs `!pip install` itself.

    Settings that may contain a password do not reach it, and a message says how they can.
    """
    settings = {
        "https_proxy": PROXY,
        "PIP_INDEX_URL": f"https://{INDEX_USER}@far.test/simple",
        "KERNEL_ENV_PIP_RETRIES": "0",
    }
    refused = install(way, **settings)
    assert "cells do not get https_proxy, PIP_INDEX_URL" in refused["installed"]
    assert "KERNEL_ENV_https_proxy" in refused["installed"]
    assert "secret" not in refused["installed"]
    passed_on = {
        f"KERNEL_ENV_{name}": value
        for name, value in settings.items()
        if not name.startswith("KERNEL")
    }
    ca = {
        f"KERNEL_ENV_{name}": str(install.net.internet.ca) for name in ("SSL_CERT_FILE", "PIP_CERT")
    }
    result = install(way, **passed_on, **ca)
    assert "answer 42" in result["seen"], result


def test_doctor_sets_up_by_a_proxy(install: Installer, net: NetBox) -> None:
    """`doctor --setup` reaches the configured index through the proxy.

    This index lacks the packages, and the error says so.
    """
    setup = [str(net.binary), "doctor", "--setup", "--python", "/usr/bin/python3"]
    net.place.environ |= {
        "https_proxy": PROXY,
        "PIP_INDEX_URL": f"https://{INDEX_USER}@far.test/simple",
    }
    done = net.run(setup, timeout=240)
    assert done.returncode != 0
    assert "CONNECT far.test:443 200" in net.internet.proxied()
    assert "set https_proxy, for another index PIP_INDEX_URL" in done.stderr
    assert "secret" not in done.stdout + done.stderr
