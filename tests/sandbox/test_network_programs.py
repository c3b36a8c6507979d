# SPDX-License-Identifier: Apache-2.0
"""Attack suites C and H: real programs reach what is allowed, with and without the proxy variables,
and fail with a clear error otherwise.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import subprocess
import tarfile
import zipfile
from pathlib import Path

import harness
import pytest
from box import NetBox, make_settings
from kernels import Kernels
from little_internet import LittleInternet

SETTINGS = make_settings(allowedDomains=["good.test", "git.test", "index.test", "registry.test"])

LARGE = os.urandom(1 << 20) * 24

# With the variables of proxies, and without.
PROXIES = ["proxies", "no proxies"]
WITHOUT = [
    "env",
    *(
        f"--unset={name}"
        for name in (
            "HTTP_PROXY",
            "HTTPS_PROXY",
            "ALL_PROXY",
            "http_proxy",
            "https_proxy",
            "all_proxy",
        )
    ),
]


def make_wheel(path: Path) -> None:
    with zipfile.ZipFile(path, "w") as wheel:
        wheel.writestr("demo.py", "answer = 42\n")
        wheel.writestr(
            "demo-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: demo\nVersion: 1.0\n"
        )
        wheel.writestr(
            "demo-1.0.dist-info/WHEEL",
            "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        )
        wheel.writestr(
            "demo-1.0.dist-info/RECORD",
            "demo.py,,\ndemo-1.0.dist-info/METADATA,,\ndemo-1.0.dist-info/WHEEL,,\n",
        )


def make_npm_package(www: Path) -> None:
    manifest = {"name": "demo", "version": "1.0.0", "main": "index.js"}
    with tarfile.open(www / "demo-1.0.0.tgz", "w:gz") as archive:
        for name, text in {
            "package.json": json.dumps(manifest),
            "index.js": "module.exports = 42\n",
        }.items():
            info = tarfile.TarInfo(f"package/{name}")
            info.size = len(text)
            archive.addfile(info, io.BytesIO(text.encode()))
    digest = hashlib.sha1((www / "demo-1.0.0.tgz").read_bytes()).hexdigest()
    version = manifest | {
        "dist": {"tarball": "https://registry.test/demo-1.0.0.tgz", "shasum": digest}
    }
    (www / "demo").write_text(
        json.dumps(
            {"name": "demo", "dist-tags": {"latest": "1.0.0"}, "versions": {"1.0.0": version}}
        )
    )


def make_repository(directory: Path) -> None:
    def git(*words: str) -> None:
        identity = [
            "-c",
            "user.name=t",
            "-c",
            "user.email=t@good.test",
            "-c",
            "init.defaultBranch=main",
        ]
        subprocess.run(["git", *identity, *words], check=True, capture_output=True)

    work = directory / "work"
    git("init", str(work))
    (work / "README").write_text("cloned\n")
    git("-C", str(work), "add", "README")
    git("-C", str(work), "commit", "-m", "first")
    git("clone", "--bare", str(work), str(directory / "git/repo.git"))


@pytest.fixture(scope="session")
def internet(internet: LittleInternet) -> LittleInternet:
    www = internet.directory / "www"
    (www / "large").write_bytes(LARGE)
    (www / "simple/demo").mkdir(parents=True)
    make_wheel(www / "simple/demo/demo-1.0-py3-none-any.whl")
    (www / "simple/demo/index.html").write_text(
        '<a href="demo-1.0-py3-none-any.whl">demo-1.0-py3-none-any.whl</a>'
    )
    make_npm_package(www)
    make_repository(internet.directory)
    return internet


@pytest.fixture(params=PROXIES)
def prefix(request: pytest.FixtureRequest) -> list[str]:
    return [] if request.param == "proxies" else WITHOUT


def node(box: NetBox) -> str:
    """The path of node if the checkout is mounted where every user can go."""
    path = Path(os.path.realpath(harness.existing(harness.CACHE / "node/bin/node")))
    return str(
        box.source / path.relative_to(harness.ROOT) if path.is_relative_to(harness.ROOT) else path
    )


def npm(box: NetBox) -> list[str]:
    prefix = Path(os.path.realpath(harness.CACHE / "node/bin/node")).parents[1]
    places = [
        prefix / "lib/node_modules/npm/bin/npm-cli.js",
        Path("/usr/share/nodejs/npm/bin/npm-cli.js"),
    ]
    script = next(path for path in places if path.exists())
    if script.is_relative_to(harness.ROOT):
        script = box.source / script.relative_to(harness.ROOT)
    return [node(box), str(script)]


@pytest.mark.parametrize("url", ["http://good.test/", "https://good.test/"])
def test_curl(net: NetBox, user: str, prefix: list[str], url: str) -> None:
    done = net([*prefix, "curl", "-sS", url, "--data-binary", "@ca.pem"], SETTINGS, user=user)
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout)["body"] == net.internet.ca.stat().st_size


@pytest.mark.parametrize("url", ["http://evil.test/", "https://evil.test/"])
def test_curl_elsewhere(net: NetBox, prefix: list[str], url: str) -> None:
    done = net([*prefix, "curl", "-sS", "--fail", url], SETTINGS)
    assert done.returncode != 0 and done.stdout == ""
    assert (
        "ipybox sandbox: operation not permitted: " in done.stderr
        and "network.allowedDomains; to allow it, add" in done.stderr
    )
    assert net([*prefix, "curl", "-sS", "--fail", url], sandbox=False).returncode == 0


@pytest.mark.parametrize(
    "url", ["http://good.test/large", "https://good.test/large", "https://good.test:8443/large"]
)
def test_much_data(net: NetBox, url: str) -> None:
    """In both directions at the same time."""
    command = (
        f"curl -sS {url} | tee large | sha256sum; "
        f"curl -sS --data-binary @large {url.removesuffix('large')}; rm large"
    )
    done = net(["sh", "-c", command], SETTINGS)
    assert done.stdout.startswith(hashlib.sha256(LARGE).hexdigest()), done.stderr
    assert f'"body": {len(LARGE)}' in done.stdout


def test_many_at_once(net: NetBox) -> None:
    done = net(
        [
            "sh",
            "-c",
            "seq 300 | xargs -P 40 -I{} curl -sS --fail -o /dev/null -w '%{http_code}\\n' "
            "https://good.test/{}",
        ],
        SETTINGS,
    )
    assert done.stdout == "200\n" * 300, done.stderr


def test_git(net: NetBox, user: str, prefix: list[str]) -> None:
    script = """set -e
        git clone -q https://git.test/git/repo.git clone
        cat clone/README
        git ls-remote https://evil.test/git/repo.git && exit 9
        echo failed"""
    done = net([*prefix, "sh", "-c", script], SETTINGS, user=user)
    assert (done.stdout, done.returncode) == ("cloned\nfailed\n", 0), done.stderr
    assert (
        net(["git", "ls-remote", "https://evil.test/git/repo.git"], sandbox=False).returncode == 0
    )


def test_pip(net: NetBox, user: str, prefix: list[str]) -> None:
    pip = [
        *net.python(),
        "-m",
        "pip",
        "install",
        "--disable-pip-version-check",
        "--no-cache-dir",
        "--target",
        "out",
        "--retries=0",
    ]
    done = net(
        [*prefix, *pip, "--index-url=https://index.test/simple", "demo"],
        SETTINGS,
        user=user,
        with_python=True,
    )
    assert done.returncode == 0, done.stderr
    assert (net.place.workspace / "out/demo.py").read_text() == "answer = 42\n"
    done = net(
        [*prefix, *pip, "--index-url=https://evil.test/simple", "demo"],
        SETTINGS,
        user=user,
        with_python=True,
    )
    assert (
        done.returncode == 1
        and "operation not permitted" in done.stderr
        and "evil.test" in done.stderr
    )


def test_npm(net: NetBox, user: str, prefix: list[str]) -> None:
    install = [
        *npm(net),
        "install",
        "--registry=https://registry.test/",
        "--no-audit",
        "--no-fund",
        "--fetch-retries=0",
        "--no-update-notifier",
    ]
    install += ["--cache=cache", "--prefix=out", "demo"]
    done = net([*prefix, *install], SETTINGS, user=user, with_python=True)
    assert done.returncode == 0, done.stderr
    assert (net.place.workspace / "out/node_modules/demo/index.js").exists()


def test_node(net: NetBox, user: str) -> None:
    """fetch() ignores the variables."""
    script = """const urls = ["https://good.test/", "http://good.test/", "https://evil.test/"];
        Promise.all(urls.map(url => fetch(url).then(r => r.status, e => e.cause.code)))
            .then(all => console.log(all.join()))"""
    done = net([node(net), "-e", script], SETTINGS, user=user, with_python=True)
    assert done.stdout == "200,200,ENOTFOUND\n", done.stderr
    assert (
        net([node(net), "-e", script], user=user, sandbox=False, with_python=True).stdout
        == "200,200,200\n"
    )


def test_python(net: NetBox, user: str, prefix: list[str]) -> None:
    script = """import urllib.request
for url in ("https://good.test/", "http://good.test/", "https://evil.test/", "http://evil.test/"):
    try:
        print(urllib.request.urlopen(url, timeout=100).status)
    except OSError:
        print("denied")"""
    done = net([*prefix, "/usr/bin/python3", "-c", script], SETTINGS, user=user)
    assert done.stdout.split() == ["200", "200", "denied", "denied"], done.stderr
    assert net(["/usr/bin/python3", "-c", script], sandbox=False).stdout.split() == ["200"] * 4


@pytest.mark.parametrize("is_sandboxed", [True, False])
def test_kernel(net: NetBox, user: str, is_sandboxed: bool) -> None:
    code = """import subprocess, urllib.request
for url in ("https://good.test/", "https://evil.test/"):
    try:
        print(urllib.request.urlopen(url, timeout=100).status)
    except OSError:
        print("denied")
!curl -sS --noproxy '*' -o /dev/null -w '%{http_code}\\n' https://good.test/"""
    kernel = Kernels(net, user)
    net.place.environ |= kernel.environ | {
        f"KERNEL_ENV_{name}": str(net.place.workspace / "ca.pem")
        for name in ("SSL_CERT_FILE", "CURL_CA_BUNDLE")
    }
    flags = ["--sandbox-config", net.write_settings(SETTINGS)] if is_sandboxed else ["--no-sandbox"]
    done = net.run(kernel.command("run", *flags, "-c", code), timeout=120)
    assert done.stdout.split() == ["200", "denied" if is_sandboxed else "200", "200"], done.stderr
    assert (
        "operation not permitted: network-outbound evil.test:443" in done.stderr
    ) == is_sandboxed


def test_installation_in_a_kernel(net: NetBox, user: str) -> None:
    """The installer reaches the index. The kernel never does."""
    kernel = Kernels(net, user)
    net.place.environ |= kernel.environ | {"PIP_INDEX_URL": "https://index.test/simple"}
    code = """import urllib.request
def fetch(url):
    try: return urllib.request.urlopen(url, timeout=100).status
    except OSError: return "denied"
!pip install -q demo
import demo
print(demo.answer, fetch("https://index.test/simple/demo/"))
"""
    flags = ["--sandbox-config", net.write_settings(make_settings())]
    done = net.run(kernel.command("run", "--approve", "allow", *flags, "-c", code), timeout=120)
    assert "42 denied" in done.stdout, (done.stdout, done.stderr)
    assert (net.place.workspace / ".ipybox/packages/demo.py").exists()
