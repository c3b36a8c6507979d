# SPDX-License-Identifier: Apache-2.0
"""Collects the messages of one execution: text, images, an error."""

from __future__ import annotations

import base64
import binascii
import secrets
from pathlib import Path
from typing import Any

from .messages import is_idle, is_notice, message_type

MAX_NAME_TRIES = 100
MAX_NOTICES = 100
# The most characters of a result's text. Later pieces are only yielded.
MAX_TEXT_CHARS = 16 * 1024 * 1024


class Output:
    """Collects the messages of one execution, in order.

    Attributes:
        text: What was printed, displayed and returned so far, up to MAX_TEXT_CHARS.
        is_truncated: Whether there was more.
        images: The image files so far.
        notices: Messages of ipybox so far; they are not in the text.
        error: The traceback; None if there was no error.
        is_done: Whether the kernel is idle again.
    """

    def __init__(self, images_dir: Path) -> None:
        self.images: list[Path] = []
        self.notices: list[str] = []
        self.error: str | None = None
        self.is_done = False
        self.is_truncated = False
        self._pieces: list[str] = []
        self._n_free = MAX_TEXT_CHARS
        self._images_dir = images_dir

    @property
    def text(self) -> str:
        return "".join(self._pieces)

    def take(self, message: dict[str, Any]) -> str:
        """Adds a message, and returns the text that it adds."""
        content = message.get("content")
        if not isinstance(content, dict):
            return ""
        kind = message_type(message)
        if kind == "stream" and is_notice(message):
            self.notices += (
                [str(content.get("text", "")).rstrip("\n")]
                if len(self.notices) < MAX_NOTICES
                else []
            )
            return ""
        if kind == "stream":
            return self._add(str(content.get("text", "")))
        if kind in ("display_data", "update_display_data", "execute_result"):
            return self._take_bundle(content.get("data"))
        if kind == "error":
            self._take_error(content)
        elif is_idle(message):
            self.is_done = True
        elif kind == "execute_reply" and content.get("status") == "aborted":
            self.error = "the execution was aborted because an earlier one failed"
        elif kind == "execute_reply" and content.get("status") == "error" and not self.error:
            self._take_error(content)  # a handler in the kernel has shown it
        return ""

    def _add(self, piece: str) -> str:
        if piece:
            self._pieces += [piece[: self._n_free]] if self._n_free > 0 else []
            self.is_truncated = self.is_truncated or len(piece) > self._n_free
            self._n_free -= min(len(piece), self._n_free)
        return piece

    def _take_bundle(self, data: Any) -> str:
        if not isinstance(data, dict):
            return ""
        if isinstance(data.get("image/png"), str):
            self._save_image(data["image/png"])
        plain = data.get("text/plain")
        if not isinstance(plain, str):
            return ""
        return self._add(plain)

    def _take_error(self, content: dict[str, Any]) -> None:
        traceback = content.get("traceback")
        lines = [str(line) for line in traceback] if isinstance(traceback, list) else []
        text = "\n".join([f"{content.get('ename')}: {content.get('evalue')}", *lines])
        self.error = text.rstrip("\n")

    def _save_image(self, encoded: str) -> None:
        try:
            image = base64.b64decode(encoded)
        except (ValueError, binascii.Error):
            return
        self._images_dir.mkdir(parents=True, exist_ok=True)
        for _ in range(MAX_NAME_TRIES):
            path = self._images_dir / f"{secrets.token_hex(4)}.png"
            try:
                with path.open("xb") as file:
                    file.write(image)
            except FileExistsError:
                continue
            self.images.append(path)
            return
