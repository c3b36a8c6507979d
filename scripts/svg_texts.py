# SPDX-License-Identifier: Apache-2.0
"""What a picture in SVG shows. Tests compare texts, because a run changes nothing else in it."""

from __future__ import annotations

import html
import re


def texts(svg: str) -> list[str]:
    """The texts, in their order, without markup within them."""
    found = re.findall(r"<text\b[^>]*>(.*?)</text>", svg, re.DOTALL)
    return [html.unescape(re.sub(r"<[^>]*>", "", text)) for text in found]
