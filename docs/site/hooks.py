# SPDX-License-Identifier: Apache-2.0
"""What mkdocs calls while it builds the site (`hooks` in mkdocs.yml).

It adds pages that are no file of docs/: documents beside README.md, the references, and the files
to which documents link. It also changes links (places.py), and writes the texts for language
models (llms.py).
"""

from __future__ import annotations

import logging
import os
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files, InclusionLevel
from mkdocs.structure.nav import Navigation
from mkdocs.structure.pages import Page

sys.path.insert(0, str(Path(__file__).parent))

import llms
import manual
import mcp_tools
import places
import python_api

# A warning fails the build, because mkdocs.yml has `strict`.
log = logging.getLogger("mkdocs.plugins.ipybox")

# Where `make docs` puts the reference of the C API.
C_API = places.ROOT / "build/docs/api"
C_API_ON_SITE = "reference/c"

# The path in the repository of each page that is made from one document.
origins: dict[str, str] = {}
# The pages as Markdown, by their paths on the site.
texts: dict[str, str] = {}


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    origins.clear()
    texts.clear()
    return config


def on_files(files: Files, *, config: MkDocsConfig) -> Files:
    def add(path: str, text: str, level: InclusionLevel = InclusionLevel.UNDEFINED) -> None:
        files.append(File.generated(config, path, content=text, inclusion=level))

    for file in files.documentation_pages(inclusion=lambda level: not level.is_excluded()):
        origins[file.src_uri] = f"docs/{file.src_uri}"
    for origin, path in places.DOCUMENTS.items():
        origins[path] = origin
        add(path, (places.ROOT / origin).read_text())
    add_references(add, files, config)
    add_sources(add)
    config.nav = with_folders(config.nav, sorted(file.src_uri for file in files))
    return files


def add_references(add: Callable[..., None], files: Files, config: MkDocsConfig) -> None:
    sources = {
        manual.name_of(path): path.read_text()
        for path in sorted((places.ROOT / "docs/man").glob("*.scd"))
    }
    translator = manual.Manual(set(sources))
    for (name, section), source in sources.items():
        add(f"reference/cli/{name}.{section}.md", translator.page(source))
    add("reference/cli/index.md", manual.index(sources))

    api = python_api.PythonApi(str(places.ROOT / "python"))
    for problem in api.problems:
        log.warning("Python API: %s", problem)
    for path, text in api.files.items():
        add(f"reference/python/{path}", text)

    program = Path(os.environ.get("IPYBOX_BIN", places.ROOT / "build/ipybox"))
    add("reference/mcp-tools.md", mcp_tools.page(program))

    if not (C_API / "index.html").exists():
        log.warning("there is no reference of the C API: run `make docs`")
    for path in sorted(C_API.rglob("*")):
        if path.is_file():
            uri = f"{C_API_ON_SITE}/{path.relative_to(C_API).as_posix()}"
            files.append(File.generated(config, uri, abs_src_path=str(path)))
    add("reference/c-api.md", c_api_page())


def c_api_page() -> str:
    headers = sorted((places.ROOT / "include/ipybox").glob("*.h*"))
    lines = [
        "# C API: every header",
        "",
        "This page leads to each function, type and constant of libipybox: who owns what, which"
        " errors there are, and from which thread a call may come. [The overview](../api.md)"
        " says what belongs together, and [Embed ipybox in a C"
        " program](../how-to/library.md) shows programs.",
        "",
    ]
    for header in headers:
        name = header.name.removesuffix(".in")
        page = name.replace("_", "__").replace(".", "_8")
        if (C_API / f"{page}.html").exists():
            lines.append(f"- [`ipybox/{name}`](c/{page}.html)")
    lines += ["", "The [index of all names](c/globals.html) is in the order of the alphabet."]
    return "\n".join([*lines, ""])


def add_sources(add: Callable[..., None]) -> None:
    """Pages for the files to which pages link, and to which those link."""
    waiting = [
        path
        for origin in list(origins.values())
        for path in linked(origin, (places.ROOT / origin).read_text())
    ]
    known: set[str] = set()
    while waiting:
        path = waiting.pop()
        page = places.page_of(path)
        if not page.startswith("source/") or path in known:
            continue
        known.add(path)
        if path.endswith(".md"):
            origins[page] = path
            text = (places.ROOT / path).read_text()
            waiting += linked(path, text)
            add(page, "---\nsearch:\n  exclude: true\n---\n" + text, InclusionLevel.NOT_IN_NAV)
        else:
            add(page, places.source_page(path), InclusionLevel.NOT_IN_NAV)


def linked(origin: str, text: str) -> list[str]:
    try:
        return places.links_of(text, origin)
    except places.BadLink as problem:
        log.warning("%s", problem)
        return []


def with_folders(nav: Any, pages: list[str]) -> Any:
    """The navigation with the pages of each folder in the place of `FOLDER/*`."""
    if isinstance(nav, list):
        return [item for each in nav if (item := with_folders(each, pages)) is not None]
    if isinstance(nav, dict):
        ((title, value),) = nav.items()
        found = with_folders(value, pages)
        return {title: found} if found else None
    if isinstance(nav, str) and nav.endswith("/*"):
        inside = re.compile(re.escape(nav[:-1]) + r"[^/]+\.md")
        found = [page for page in pages if inside.fullmatch(page)]
        return sorted(found, key=lambda page: (not page.endswith("/index.md"), page))
    return nav


def on_page_markdown(markdown: str, *, page: Page, config: MkDocsConfig, files: Files) -> str:
    uri = page.file.src_uri
    if uri in origins:
        try:
            markdown = places.rewrite(markdown, origins[uri], uri)
        except places.BadLink as problem:
            log.warning("%s", problem)
    texts[uri] = markdown
    if not page.meta.get("description"):
        page.meta["description"] = llms.first_sentence(llms.first_paragraph(markdown))
    return markdown


# What the theme and Markdown leave out for readers who cannot see a page.
SEARCH_DIALOG = '<div class="md-search" data-md-component="search" role="dialog"'


def on_post_page(output: str, *, page: Page, config: MkDocsConfig) -> str:
    if SEARCH_DIALOG not in output:
        log.warning("%s: the theme's search dialog has changed; see hooks.py", page.file.src_uri)
    output = output.replace(SEARCH_DIALOG, f'{SEARCH_DIALOG} aria-label="Search"')
    # A header without a text is no header.
    return re.sub(r"<th([^>]*)></th>", r"<td\1></td>", output)


in_navigation: list[llms.Text] = []


def on_nav(nav: Navigation, *, config: MkDocsConfig, files: Files) -> Navigation:
    in_navigation.clear()
    for page in nav.pages:
        section = page.ancestors[-1].title if page.ancestors else config.site_name
        in_navigation.append(llms.Text(section, page.file.src_uri, page.title or "", ""))
    return nav


def on_post_build(*, config: MkDocsConfig) -> None:
    site = Path(config.site_dir)
    pages = [
        llms.Text(text.section, text.path, title_of(texts[text.path]), texts[text.path])
        for text in in_navigation
    ]
    for path, markdown in texts.items():
        (site / path).write_text(markdown)
    description = config.site_description or ""
    (site / "llms.txt").write_text(llms.short_list(config.site_name, description, pages))
    (site / "llms-full.txt").write_text(llms.full_text(config.site_name, description, pages))


def title_of(markdown: str) -> str:
    found = re.search(r"^# (.*)$", markdown, re.MULTILINE)
    return found[1] if found else ""
