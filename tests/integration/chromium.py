# SPDX-License-Identifier: Apache-2.0
"""Chromium without a window, driven over its DevTools protocol.

A page is used as a user does, with keys and the mouse, and is asked in JavaScript what it shows.
"""

from __future__ import annotations

import base64
import contextlib
import json
import shutil
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from server_process import running
from websockets.sync.client import ClientConnection, connect

FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
    "--disable-breakpad",
    # As on a machine with a mouse, which pages can ask for.
    "--blink-settings=primaryHoverType=2,availableHoverTypes=2,primaryPointerType=4,"
    "availablePointerTypes=4",
)
# How long the browser may take to answer what it does at once.
ANSWER_SECONDS = 60.0
# How long it may take to end.
END_SECONDS = 20.0
WINDOW = (1280, 1000)

CONTROL, SHIFT = 2, 8
# The name of a key: its code, its number on Windows, the text that it types.
KEYS = {
    "Enter": ("Enter", 13, "\r"),
    "Escape": ("Escape", 27, ""),
    "Tab": ("Tab", 9, ""),
    "ArrowRight": ("ArrowRight", 39, ""),
}


def program() -> str:
    path = shutil.which("chromium")
    assert path, "chromium is missing; `make check` installs it"
    return path


class PageError(AssertionError):
    """What the page should have shown or done."""


class Page:
    """A tab of the browser."""

    def __init__(self, socket: ClientConnection):
        self.socket = socket
        self.session: str | None = None
        self.last_id = 0
        self.console: list[str] = []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        attached = self.call("Target.attachToTarget", targetId=target, flatten=True)
        self.session = attached["sessionId"]
        self.call("Runtime.enable")
        self.call("Page.enable")
        width, height = WINDOW
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=False,
        )

    def call(self, method: str, *, limit_s: float = ANSWER_SECONDS, **params: Any) -> Any:
        """The result of a command of the protocol."""
        self.last_id += 1
        command = {"id": self.last_id, "method": method, "params": params}
        if self.session:
            command["sessionId"] = self.session
        self.socket.send(json.dumps(command))
        deadline = time.monotonic() + limit_s
        while True:
            message = json.loads(self.socket.recv(timeout=max(0.0, deadline - time.monotonic())))
            if message.get("id") == self.last_id:
                if "error" in message:
                    raise PageError(f"{method}: {message['error']['message']}")
                return message["result"]
            if message.get("method") == "Runtime.consoleAPICalled":
                texts = [str(arg.get("value", "")) for arg in message["params"]["args"]]
                self.console.append(f"{message['params']['type']}: {' '.join(texts)}"[:500])

    def evaluate(self, expression: str, *, limit_s: float = ANSWER_SECONDS) -> Any:
        """The value of an expression in JavaScript, or of its promise."""
        result = self.call(
            "Runtime.evaluate",
            expression=expression,
            awaitPromise=True,
            returnByValue=True,
            limit_s=limit_s,
        )
        if details := result.get("exceptionDetails"):
            text = details.get("exception", {}).get("description") or details["text"]
            raise PageError(f"{expression}: {text}")
        return result["result"].get("value")

    def wait(self, expression: str, what: str, limit_s: float) -> Any:
        """The first value of the expression that is true; of an object, only that it is there."""
        value = self.evaluate(
            f"""new Promise((resolve) => {{
              const end = performance.now() + {limit_s * 1000};
              const look = () => {{
                let value = null;
                try {{ value = {expression}; }} catch (error) {{ value = null; }}
                if (value || performance.now() > end) {{
                  resolve(value && typeof value === "object" ? true : value || null);
                }}
                else setTimeout(look, 16);
              }};
              look();
            }})""",
            limit_s=limit_s + ANSWER_SECONDS,
        )
        if not value:
            raise PageError(f"not after {limit_s:.0f} s: {what}")
        return value

    def open(self, url: str) -> None:
        self.call("Page.navigate", url=url)

    def type(self, text: str) -> None:
        """Types where the focus is. The text may have lines."""
        self.call("Input.insertText", text=text)

    def press(self, key: str, modifiers: int = 0) -> None:
        code, number, text = KEYS[key]
        event = {
            "key": key,
            "code": code,
            "windowsVirtualKeyCode": number,
            "modifiers": modifiers,
        }
        if text and not modifiers:
            event["text"] = text
        kind = "keyDown" if "text" in event else "rawKeyDown"
        self.call("Input.dispatchKeyEvent", type=kind, **event)
        self.call("Input.dispatchKeyEvent", type="keyUp", **event)

    def place_of(self, element: str) -> tuple[float, float, float, float]:
        """Left, top, width and height of an element, which is scrolled into view."""
        return tuple(
            self.evaluate(
                f"""(() => {{
                  const element = {element};
                  element.scrollIntoView({{block: "center", behavior: "instant"}});
                  const box = element.getBoundingClientRect();
                  return [box.left, box.top, box.width, box.height];
                }})()"""
            )
        )

    def mouse(self, kind: str, x: float, y: float) -> None:
        button = {"button": "none" if kind == "mouseMoved" else "left", "clickCount": 1}
        buttons = 0 if kind == "mouseReleased" else 1
        self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, buttons=buttons, **button)

    def click(self, element: str) -> None:
        left, top, width, height = self.place_of(element)
        x, y = left + width / 2, top + height / 2
        self.mouse("mousePressed", x, y)
        self.mouse("mouseReleased", x, y)

    def drag(self, element: str, dx: float) -> None:
        left, top, width, height = self.place_of(element)
        x, y = left + width / 2, top + height / 2
        self.mouse("mousePressed", x, y)
        for step in range(1, 5):
            self.mouse("mouseMoved", x + dx * step / 4, y)
        self.mouse("mouseReleased", x + dx, y)

    def screenshot(self, path: Path, element: str | None = None) -> None:
        """A PNG of the window, or of an element."""
        clip = {}
        if element:
            x, y, width, height = self.place_of(element)
            clip = {"clip": {"x": x, "y": y, "width": width, "height": height, "scale": 1}}
        data = self.call("Page.captureScreenshot", format="png", **clip)["data"]
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(base64.b64decode(data))


@contextlib.contextmanager
def browser(directory: Path, environ: dict[str, str]) -> Iterator[Page]:
    """A page of a browser of its own, which writes into this new directory only.

    The directory is removed afterwards.
    """
    directory.mkdir(mode=0o700)
    places = dict.fromkeys(("HOME", "TMPDIR", "XDG_RUNTIME_DIR"), str(directory))
    profile = directory / "profile"
    command = [program(), *FLAGS, f"--user-data-dir={profile}", "--remote-debugging-port=0"]
    command.append("--window-size=" + ",".join(map(str, WINDOW)))
    with running(
        command,
        {**environ, **places},
        r"DevTools listening on (ws://\S+)",
        end=signal.SIGTERM,
        patience_s=END_SECONDS,
    ) as found:
        with connect(found[1], max_size=None, proxy=None) as socket:
            yield Page(socket)
    shutil.rmtree(directory, ignore_errors=True)
