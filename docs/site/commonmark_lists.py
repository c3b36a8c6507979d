# SPDX-License-Identifier: Apache-2.0
"""Python-Markdown reads lists as CommonMark does.

CommonMark nests what is indented as far as the text of the item: two columns after "- ".
Python-Markdown wants four. The documents are written for CommonMark, so that they are right in a
clone, too; tests/site compares what both make of them.
"""

from __future__ import annotations

from markdown import Markdown
from markdown.blockprocessors import ListIndentProcessor
from markdown.extensions import Extension
from markdown.extensions.sane_lists import SaneListExtension


class CommonMarkLists(Extension):
    def extendMarkdown(self, md: Markdown) -> None:
        md.tab_length = 2
        # Each processor has copied the length. Indented code keeps its four columns.
        md.parser.blockprocessors.register(ListIndentProcessor(md.parser), "indent", 90)
        # A numbered list and a bullet list beside each other are two lists.
        SaneListExtension().extendMarkdown(md)
