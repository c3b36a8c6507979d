# SPDX-License-Identifier: Apache-2.0
"""Displays and results: IPython's display publisher and display hook, which send frames."""

from __future__ import annotations

import opcode
import sys
import warnings
from collections.abc import Callable
from types import FrameType
from typing import Any

from IPython.core.displayhook import DisplayHook
from IPython.core.displaypub import DisplayPublisher
from IPython.lib import pretty

from . import comms, mime, wire

# Types that have plain text only, unless user code has registered a formatter for them.
PLAIN_TYPES = frozenset((int, float, complex, bool, str, bytes, list, tuple, dict, set, frozenset))
# Types whose text is the repr, unless user code has registered a printer.
REPR_TYPES = (int, str, bool, bytes)

# The view of a widget. Front ends show an error for a view whose model they do not have, and models
# come by comms (comms.py). Without the view, they show the widget's text.
WIDGET_VIEW = "application/vnd.jupyter.widget-view+json"

# The bytecode instruction that calls sys.displayhook.
SHOWS_EXPRESSION = opcode.opmap.get("PRINT_EXPR", opcode.opmap.get("CALL_INTRINSIC_1"))


def send_bundle(
    shell: Any, kind: int, data: Any, metadata: Any, with_next: bool = False, **fields: Any
) -> None:
    """Sends a display or a result. If it is too large for a frame, prints that to stderr."""
    output = shell.output
    if not output.is_connected:
        print(data.get("text/plain", ""))  # a forked child
        return
    payload: dict[str, Any] = {"data": mime.conform(data), **fields}
    view = payload["data"].get(WIDGET_VIEW)
    if view is not None and not comms.is_known(shell, view):
        del payload["data"][WIDGET_VIEW]
    payload["metadata"] = mime.conform_json(dict(metadata or {}))
    try:
        output.send_of_caller(kind, payload, with_next)
    except wire.FrameTooLarge as error:
        what = "result" if kind == wire.RESULT else "display"
        print(f"The {what} is too large to be shown: {error}.", file=sys.stderr)


class KernelDisplayPublisher(DisplayPublisher):
    def publish(
        self,
        data: Any,
        metadata: Any = None,
        source: Any = None,
        *,
        transient: Any = None,
        update: bool = False,
        **_: Any,
    ) -> None:
        self._validate_data(data, metadata)
        display_id = (transient or {}).get("display_id")
        if display_id is not None:
            display_id = str(display_id)
        kind = wire.UPDATE_DISPLAY if update and display_id is not None else wire.DISPLAY
        send_bundle(self.shell, kind, data, metadata, display_id=display_id)

    def clear_output(self, wait: bool = False) -> None:
        output = self.shell.output
        if self.shell.capturing_outputs:
            return  # an Output widget captures, and the client shows no widgets (comm_package.py)
        if output.is_connected:
            output.send_of_caller(wire.CLEAR_OUTPUT, {"wait": bool(wait)})


class KernelDisplayHook(DisplayHook):
    # While the value of an expression is shown: an exception in its representations fails the cell.
    is_showing = False
    _ends_the_cell = False

    def __call__(self, result: Any = None) -> None:
        self._ends_the_cell = self._is_called_for_last_expression(sys._getframe(1))
        was_showing, self.is_showing = self.is_showing, True
        try:
            super().__call__(result)
        finally:
            self.is_showing = was_showing

    def _is_called_for_last_expression(self, frame: FrameType) -> bool:
        """Whether Python itself calls the hook, for the last expression of a cell."""
        return (
            frame.f_lasti >= 0
            and frame.f_code.co_code[frame.f_lasti] == SHOWS_EXPRESSION
            and frame.f_code.co_name in ("<module>", "<cell line: 1>")
            and self.shell.ast_node_interactivity in ("last_expr", "last_expr_or_assign")
            and self.shell.is_outermost_cell()
        )

    def quiet(self) -> bool:
        """Whether the cell ends in a semicolon. IPython's own check tokenises the cell again."""
        history = self.shell.history_manager.input_hist_parsed
        return bool(history) and ";" in history[-1] and super().quiet()

    def compute_format_data(self, result: Any) -> tuple[dict[str, Any], dict[str, Any]]:
        formatter = self._plain_formatter(result)
        if formatter is None:
            return super().compute_format_data(result)
        text = formatter(result)
        # None: the formatter failed, and the error was sent.
        return ({} if text is None else {"text/plain": text}), {}

    def _plain_formatter(self, result: Any) -> Callable[[Any], str | None] | None:
        """The formatter of a value that has text only; None if it may have more."""
        kind = type(result)
        if kind not in PLAIN_TYPES:
            return None
        formatter = self.shell.display_formatter
        others = [formatter.ipython_display_formatter, formatter.mimebundle_formatter]
        for name, other in formatter.formatters.items():
            if name == "text/plain":
                plain = other
            else:
                others.append(other)
        for other in others:
            printers = other.type_printers
            if kind in printers or object in printers or other.singleton_printers:
                return None
        if kind in REPR_TYPES and not plain.singleton_printers.keys() - _singletons:
            if plain.type_printers.get(kind) is _type_printers.get(kind) and plain.pprint:
                return repr
        return plain

    def cull_cache(self) -> None:
        """Forgets the oldest results as IPython does, but without its warning."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            super().cull_cache()

    def write_output_prompt(self) -> None:
        pass

    def write_format_data(self, format_dict: Any, md_dict: Any = None) -> None:
        count = self.prompt_count
        is_last = self._ends_the_cell
        send_bundle(self.shell, wire.RESULT, format_dict, md_dict, is_last, execution_count=count)

    def log_output(self, format_dict: Any) -> None:
        # IPython's own method would keep each bundle, including images, until the kernel ends.
        text = format_dict.get("text/plain")
        if text is not None:
            if self.shell.logger.log_output:
                self.shell.logger.log_write(text, "output")
            self.shell.history_manager.output_hist_reprs[self.prompt_count] = text

    def finish_displayhook(self) -> None:
        self._is_active = False


_type_printers = dict(pretty._type_pprinters)
_singletons = pretty._singleton_pprinters.keys()
