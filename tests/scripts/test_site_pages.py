# SPDX-License-Identifier: Apache-2.0
"""The pages of the documentation site that are made from other files (docs/site)."""

from __future__ import annotations

import importlib.util
import sys
from types import ModuleType

import harness
import pytest


def load(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(
        f"site_{name}", harness.ROOT / f"docs/site/{name}.py"
    )
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


places, manual, llms = load("places"), load("manual"), load("llms")


@pytest.mark.parametrize(
    ("path", "page"),
    [
        ("docs/how-to/sandbox.md", "how-to/sandbox.md"),
        ("SECURITY.md", "security.md"),
        ("README.md", "index.md"),
        ("docs/man/ipybox-run.1.scd", "reference/cli/ipybox-run.1.md"),
        ("python/ipybox/__init__.py", "reference/python/index.md"),
        ("examples/hello.c", "source/examples/hello.c.md"),
        ("tests/README.md", "source/tests/README.md"),
    ],
)
def test_each_file_has_a_page(path, page):
    assert places.page_of(path) == page


def test_links_lead_to_pages():
    text = (
        "[a](../../SECURITY.md#x), [b](sandbox.md),\n[c](../../examples/hello.c) [d](#here)"
        " [e](https://example.com) `ipybox-run`(1) `nothing`(1)\n<!-- not run: no -->\n"
        "```sh\n[x](sandbox.md)\n```\n"
    )
    assert places.rewrite(text, "docs/how-to/serve.md", "how-to/serve.md") == (
        "[a](../security.md#x), [b](sandbox.md),\n[c](../source/examples/hello.c.md) [d](#here)"
        " [e](https://example.com) [ipybox-run(1)](../reference/cli/ipybox-run.1.md) `nothing`(1)\n"
        "```sh\n[x](sandbox.md)\n```\n"
    )


@pytest.mark.parametrize("target", ["no-such.md", "../../../etc/passwd", "../internals/../../src"])
def test_links_that_lead_nowhere(target):
    with pytest.raises(places.BadLink):
        places.rewrite(f"[x]({target})", "docs/how-to/serve.md", "how-to/serve.md")


def test_source_pages_quote_any_text():
    page = places.source_page("docs/how-to/sandbox.md")
    assert "\n````text\n# Run code in a sandbox" in page and page.endswith("\n````\n")


PAGE = r"""ipybox-x(1) "ipybox @VERSION@" "ipybox"

# NAME

ipybox-x - does one thing

# EXIT STATUS

Text with *--bold*, _PLACE_, _a/path_, *ipybox-run*(1), *other*(7).

A file\_name, <tag> and
a|b. First++
second.

*-x*, *--long*=_FILE_
	The meaning,
	on two lines.

	```
	$ echo 1
	```

- one
- two
  continued

|[ *0*
:< good
|  *1*
:  bad,
   very

; not run: no reason
```
{"a": 1}
```
"""


def test_manual_pages_become_markdown():
    translated = manual.Manual({("ipybox-run", 1)}).page(PAGE)
    assert (
        translated
        == r"""# ipybox-x(1)

Does one thing.

## Exit status

Text with `--bold`, *PLACE*, `a/path`, [ipybox-run(1)](ipybox-run.1.md), `other`(7).

A file\_name, \<tag\> and a\|b. First  
second.

`-x`, `--long`=*FILE*
: The meaning, on two lines.

  ```console
  $ echo 1
  ```

- one
- two continued

| Value | Meaning |
|---|---|
| `0` | good |
| `1` | bad, very |

```json
{"a": 1}
```
"""
    )


def test_each_manual_page_can_be_translated():
    sources = {
        manual.name_of(path): path.read_text() for path in (harness.ROOT / "docs/man").glob("*.scd")
    }
    assert len(sources) > 20
    translator = manual.Manual(set(sources))
    for name, source in sources.items():
        page = translator.page(source)
        assert page.startswith(f"# {name[0]}({name[1]})\n"), name
        assert not any(line.startswith(("\t", "; ", "|[")) for line in page.splitlines()), name
    index = manual.index(sources)
    assert all(f"({name}.{section}.md): " in index for name, section in sources)


def test_texts_for_models():
    texts = [
        llms.Text("Begin", "a.md", "A", "# A\n\n![x](y.png)\n\nThis page is [short](b.md). More."),
        llms.Text("Begin", "b.md", "B", "# B\n"),
        llms.Text("More", "c.md", "C", "# C\n\n- no paragraph\n"),
    ]
    assert llms.short_list("x", "about x", texts) == (
        "# x\n\n> about x\n\n## Begin\n\n- [A](a.md): This page is short.\n- [B](b.md)\n\n"
        "## More\n\n- [C](c.md)\n"
    )
    full = llms.full_text("x", "about x", texts)
    assert full.count("\nPage: ") == 3 and "This page is [short](b.md). More." in full
