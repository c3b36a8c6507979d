# SPDX-License-Identifier: Apache-2.0
"""The built documentation site, used in a browser as a reader does.

`make site` makes it. scripts/check-site has checked its links already.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import chromium
import harness
import pytest
from server_process import running

SITE = harness.ROOT / "build/docs/site"
PYTHON = harness.CACHE / "site/bin/python"
AXE = harness.CACHE / "site-npm/node_modules/axe-core/axe.min.js"
PATIENCE_S = 60.0

# Pages of each kind.
PAGES = (
    "index.html",
    "start.html",
    "compare.html",
    "how-to/sandbox.html",
    "reference/cli/ipybox-run.1.html",
    "reference/mcp-tools.html",
    "reference/python/code_exec.html",
    "security.html",
    "source/examples/hello.c.html",
)
DARK, LIGHT = "slate", "default"
SEARCH = 'document.querySelector("[data-md-component=search-query]")'
RESULTS = 'document.querySelectorAll(".md-search-result__link")'


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    """The address of the site, served from its folder."""
    assert (SITE / "index.html").exists(), "there is no site: run `make site`"
    command = [str(PYTHON), "-u", "-m", "http.server", "--bind", "127.0.0.1", "0"]
    with running(
        [*command, "--directory", str(SITE)], dict(os.environ), r"http://127\.0\.0\.1:(\d+)"
    ) as found:
        yield f"http://127.0.0.1:{found[1]}/"


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[chromium.Page]:
    directory = tmp_path_factory.mktemp("browser") / "chromium"
    with chromium.browser(directory, dict(os.environ)) as page:
        yield page


def open_page(page: chromium.Page, url: str) -> None:
    page.open(url)
    page.wait(
        f'document.readyState === "complete" && location.href === {json.dumps(url)}',
        f"{url} is open",
        PATIENCE_S,
    )


def set_width(page: chromium.Page, width: int) -> None:
    page.call(
        "Emulation.setDeviceMetricsOverride",
        width=width,
        height=900,
        deviceScaleFactor=1,
        mobile=False,
    )


def set_scheme(page: chromium.Page, scheme: str) -> None:
    """Uses the button with which a reader changes the colours."""
    page.wait("document.body.dataset.mdColorScheme", "colours", PATIENCE_S)
    if page.evaluate("document.body.dataset.mdColorScheme") != scheme:
        page.evaluate('document.querySelector(".md-header__option label:not([hidden])").click()')
        page.wait(
            f'document.body.dataset.mdColorScheme === "{scheme}"', f"colours {scheme}", PATIENCE_S
        )


@pytest.mark.parametrize("path", PAGES)
def test_pages_load_nothing_from_other_hosts(server, browser, path):
    open_page(browser, server + path)
    loaded = browser.evaluate('performance.getEntriesByType("resource").map((each) => each.name)')
    assert loaded, "the list of what was loaded is empty"
    assert [url for url in loaded if not url.startswith((server, "data:", "blob:"))] == []


@pytest.mark.parametrize("place", ["server", "files"])
def test_search_needs_no_other_host(server, browser, place):
    """Neither does it need a server."""
    base = server if place == "server" else f"file://{SITE}/"
    open_page(browser, f"{base}index.html")
    browser.evaluate(f"{SEARCH}.focus()")
    browser.type("audit log")
    browser.wait(f"{RESULTS}.length > 2", "results", PATIENCE_S)
    links = browser.evaluate(f"[...{RESULTS}].map((each) => each.href)")
    assert all(link.startswith(base) for link in links)
    assert any("how-to/approvals.html" in link for link in links), links


@pytest.mark.parametrize("scheme", [LIGHT, DARK])
@pytest.mark.parametrize("path", PAGES)
def test_pages_are_accessible(server, browser, path, scheme):
    """axe finds nothing to object to: contrast, names of controls, order of headings, and more.

    One rule is left out: the theme makes several navigations without names, by scripts.
    """
    set_width(browser, 1280)
    open_page(browser, server + path)
    set_scheme(browser, scheme)
    browser.evaluate(AXE.read_text())
    violations = browser.evaluate(
        """axe.run(document, {resultTypes: ["violations"],
                              rules: {"landmark-unique": {enabled: false}}}).then((found) =>
             found.violations.map((each) => each.id + ": "
                                  + each.nodes.map((node) => node.html.slice(0, 120)).join(" | ")))
        """,
        limit_s=PATIENCE_S,
    )
    assert violations == []


@pytest.mark.parametrize("path", PAGES)
def test_pages_fit_a_phone(server, browser, path):
    """Wide tables and code scroll by themselves."""
    set_width(browser, 390)
    open_page(browser, server + path)
    assert browser.evaluate("document.documentElement.scrollWidth") <= 390
    set_width(browser, 1280)


def test_first_key_leads_to_the_content(server, browser):
    set_width(browser, 1280)
    open_page(browser, f"{server}start.html")
    browser.press("Tab")
    assert browser.evaluate("document.activeElement.classList.contains('md-skip')")
    browser.press("Enter")
    browser.wait('location.hash.startsWith("#")', "the content", PATIENCE_S)


def test_pages_have_the_blocks_that_readers_of_a_clone_see():
    """A document means the same on the site and to a CommonMark reader."""
    script = Path(__file__).parent / "compare_markdown.py"
    done = subprocess.run([PYTHON, script], cwd=harness.ROOT, capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_texts_for_language_models_have_all_pages():
    listed = re.findall(r"^- \[.*?\]\((.*?)\)", (SITE / "llms.txt").read_text(), re.MULTILINE)
    full = (SITE / "llms-full.txt").read_text()
    for page in PAGES:
        markdown = page.removesuffix("html") + "md"
        if page.startswith("source/"):
            assert markdown not in listed
            continue
        assert markdown in listed
        assert (SITE / markdown).read_text().strip() in full
    assert "<!-- not run: it installs" not in full
    assert f"Page: {listed[0]}\n" in full


def test_each_command_and_each_tool_has_its_place():
    """What `--help` and the server's table list is on the site."""
    program = os.environ.get("IPYBOX_BIN", str(harness.ROOT / "build/ipybox"))
    shown = subprocess.run([program, "--help"], capture_output=True, text=True, check=True).stdout
    verbs = re.findall(r"^  ([a-z][a-z-]+)  +\S", shown, re.MULTILINE)
    assert len(verbs) > 10
    missing = [verb for verb in verbs if not (SITE / f"reference/cli/ipybox-{verb}.1.md").exists()]
    assert missing == []
    tools = json.loads((harness.ROOT / "src/serve/mcp/tools.json").read_text())
    page = (SITE / "reference/mcp-tools.md").read_text()
    assert [tool["name"] for tool in tools if f"### `{tool['name']}`" not in page] == []


def test_each_public_name_of_the_package_is_documented():
    program = "import sys; sys.path.insert(0, 'python'); import ipybox; print(*ipybox.__all__)"
    done = subprocess.run(
        [harness.ROOT / ".venv/bin/python", "-c", program],
        cwd=harness.ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    pages = "".join(path.read_text() for path in (SITE / "reference/python").glob("*.md"))
    names = done.stdout.split()
    assert len(names) > 40
    assert [name for name in names if f"\n## `{name}`\n" not in pages] == []
