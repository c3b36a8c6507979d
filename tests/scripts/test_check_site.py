# SPDX-License-Identifier: Apache-2.0
"""scripts/check-site finds what is wrong in a site."""

from __future__ import annotations

import pytest

GOOD = (
    '<html lang="en"><head><title>A</title></head><body><h1 id="top">A</h1><h2>B</h2>'
    '<a href="#top">up</a> <a href="b.html#top">b</a> <a href="https://example.com">out</a>'
    '<img src="a.png" alt="a plot"></body></html>'
)


@pytest.fixture
def problems(tmp_path, load_script):
    """What is wrong in a site of two pages, of which the first is given."""

    def find(page: str, listed: str = "- [A](a.html): a page\n", style: str = "") -> list[str]:
        (tmp_path / "a.html").write_text(page)
        (tmp_path / "b.html").write_text(GOOD.replace("b.html", "a.html"))
        (tmp_path / "a.png").touch()
        (tmp_path / "style.css").write_text(style)
        (tmp_path / "llms.txt").write_text(listed)
        site = load_script("check-site").Site(tmp_path)
        site.check()
        return site.problems

    return find


def test_a_good_site(problems):
    assert problems(GOOD) == []


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ('href="b.html#top"', 'href="c.html"', "leads nowhere"),
        ('href="b.html#top"', 'href="b.html#middle"', "leads to no place"),
        ('href="#top"', 'href="#middle"', "leads to no place"),
        ('src="a.png"', 'src="https://example.com/a.png"', "from another host"),
        ('src="a.png"', 'src="//example.com/a.png"', "from another host"),
        ('src="a.png"', 'src="b.png"', "which does not exist"),
        ("</head>", '<script src="https://example.com/a.js"></script></head>', "another host"),
        (
            "</head>",
            '<link rel="stylesheet" href="https://example.com/a.css"></head>',
            "another host",
        ),
        ("</head>", '<link rel="preconnect" href="https://example.com"></head>', "another host"),
        ("</head>", "<style>@import 'https://example.com/a.css'</style></head>", "another host"),
        ("<h2>", '<h2 style="background: url(https://example.com/a.png)">', "another host"),
        (' alt="a plot"', "", "has no text"),
        (' lang="en"', "", "does not say its language"),
        ("<title>A</title>", "", "has no title"),
        ("<h2>B</h2>", "<h3>B</h3>", "level 3 follows one of 1"),
        ("<h2>B</h2>", "<h1>B</h1>", "2 headings of level 1"),
    ],
)
def test_what_is_wrong_in_a_page(problems, old, new, problem):
    (found,) = problems(GOOD.replace(old, new))
    assert found.startswith("a.html: ") and problem in found


def test_what_is_wrong_in_other_files(problems):
    (found,) = problems(GOOD, style="@font-face { src: url('https://example.com/a.woff2') }")
    assert found.startswith("style.css: ") and "another host" in found
    assert problems(GOOD, listed="- [C](c.md)\n") == ["llms.txt: there is no c.md"]
    assert problems(GOOD, listed="nothing\n") == ["llms.txt lists no page"]
