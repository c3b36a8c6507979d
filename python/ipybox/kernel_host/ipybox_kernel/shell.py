# SPDX-License-Identifier: Apache-2.0
"""IPython's shell, adapted for kernels: no files, errors as frames, and fast short cells."""

from __future__ import annotations

import linecache
import os
import re
import sys
import warnings
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import IPython
from IPython.core import interactiveshell
from IPython.core.autocall import ExitAutocall, IPyAutocall
from IPython.core.error import UsageError
from IPython.core.events import EventManager, available_events
from IPython.core.interactiveshell import InteractiveShell
from IPython.core.macro import Macro
from IPython.core.profiledir import ProfileDir
from traitlets import Type, default

from . import commands, installs, tracebacks, wire
from .display import KernelDisplayHook, KernelDisplayPublisher
from .history import KernelHistory
from .payload import KernelPayload

# A folder that does not exist and cannot be created, so IPython reads and writes no files of its
# own.
NO_FOLDER = os.path.join(os.devnull, "ipython")

# IPython's own syntax needs one of these characters, or one of these at the start of a line.
_SPECIAL_CHARACTER = re.compile(r"[%!?\f]|^\s|^\s*(?:>>>|\.\.\.|In \[|/|,|;)", re.MULTILINE)
_FIRST_WORD = re.compile(r"[^\W\d]\w*")


class MemoryStore(dict):  # type: ignore[type-arg]
    """`get_ipython().db` in memory. IPython keeps it in files."""

    def keys(self, pattern: str | None = None) -> Any:
        import fnmatch

        return [key for key in super().keys() if pattern is None or fnmatch.fnmatch(key, pattern)]


class NoProfile(ProfileDir):
    @default("location")
    def _default_location(self) -> str:
        return NO_FOLDER


class Exiter(ExitAutocall):
    """exit() and quit(): end the cell."""

    def __call__(self, code: Any = None) -> None:
        raise SystemExit() if code is None else SystemExit(code)


class KernelEvents(EventManager):
    """Callbacks around cells. An interrupt in a callback before a cell ends the cell, too."""

    def trigger(self, event: str, *args: Any, **kwargs: Any) -> None:
        for callback in self.callbacks[event][:]:
            try:
                callback(*args, **kwargs)
            except Exception:
                print(f"Error in callback {callback} (for {event}):")
                self.shell.show_error_of_callback()


class KernelShell(InteractiveShell):
    displayhook_class = Type(KernelDisplayHook)
    display_pub_class = Type(KernelDisplayPublisher)

    CustomTB: Any  # IPython's: shows an error by the user's handler
    is_rich = False  # whether the client is a front end of Jupyter; see jupyter_shell.py
    output: Any = None  # the kernel's Output
    interrupts: Any = None
    rules: Any = None  # the session's ShellRules
    blas_thread_setters: Any = ()  # see blas.py
    comms: Any = None  # the manager of the package `comm`, if that was imported; see comms.py
    capturing_outputs: Any = ()  # the comms of Output widgets that capture what a cell shows
    error_was_sent = False  # whether the error that ended this cell was sent
    error_was_shown = False  # whether a handler of set_custom_exc has shown it
    # What a representation of the cell's value raised. It was sent.
    error_of_value: BaseException | None = None

    _depth = 0  # of nested cells
    _is_in_callback = False

    # Construction

    @default("ipython_dir")
    def _default_ipython_dir(self) -> str:
        return NO_FOLDER

    @default("exiter")
    def _default_exiter(self) -> Exiter:
        return Exiter(self)

    def init_ipython_dir(self, ipython_dir: Any) -> None:
        pass

    def init_profile_dir(self, profile_dir: Any) -> None:
        self.profile_dir = NoProfile()

    def init_virtualenv(self) -> None:
        pass

    def init_history(self) -> None:
        self.history_manager = KernelHistory(shell=self, parent=self)
        self.configurables.append(self.history_manager)

    def init_payload(self) -> None:
        # In the forkserver, because it takes milliseconds.
        self.payload = KernelPayload(parent=self)
        self.payload_manager = self.payload
        self.configurables.append(self.payload)

    def init_events(self) -> None:
        self.events = KernelEvents(self, available_events)
        self.events.register("pre_execute", self._clear_warning_registry)

    def init_hooks(self) -> None:
        super().init_hooks()
        self.set_hook("editor", refuse_editor)

    def init_magics(self) -> None:
        super().init_magics()
        load: Any = getattr(self.magics_manager, "load_lazy", None)  # since IPython 9.1x

        def load_uninterrupted(*args: Any, **kwargs: Any) -> None:
            # IPython would take magics that an interrupt leaves half loaded for loaded.
            with self.interrupts.deferred() if self.interrupts else nullcontext():
                load(*args, **kwargs)

        if load is not None:
            self.magics_manager.load_lazy = load_uninterrupted

    def init_transforms(self) -> None:
        """Stores the input transformations, before user code can add one."""
        manager = self.input_transformer_manager
        self._stock_transforms = [
            list(manager.cleanup_transforms),
            list(manager.line_transforms),
            list(manager.token_transformers),
        ]

    def _tee(self, channel: str) -> AbstractContextManager[None]:
        # IPython 9 would keep a copy of all output here.
        return nullcontext()

    # Cells

    def transform_cell(self, raw_cell: str) -> str:
        if not self._is_plain_python(raw_cell):
            return super().transform_cell(raw_cell)
        return raw_cell if raw_cell.endswith("\n") else raw_cell + "\n"

    def _is_plain_python(self, cell: str) -> bool:
        """True if no input transformation can change the cell."""
        if not cell or _SPECIAL_CHARACTER.search(cell):
            return False
        manager = self.input_transformer_manager
        stock = self._stock_transforms
        if (
            self.input_transformers_post
            or manager.cleanup_transforms != stock[0]
            or manager.line_transforms != stock[1]
            or manager.token_transformers != stock[2]
            or self.autocall
        ):
            return False
        if "\n" in cell.rstrip("\n"):
            return True
        # A single line may call a magic, an alias or a macro by its name alone.
        word = _FIRST_WORD.match(cell)
        if word is None:
            return True
        name = word.group()
        if isinstance(self.user_ns.get(name), (IPyAutocall, Macro)):
            return False
        return self.find_magic(name) is None and self.alias_manager.get_alias(name) is None

    def should_run_async(self, raw_cell: str, **kwargs: Any) -> bool:
        cell = kwargs.get("transformed_cell") or raw_cell
        if "await" not in cell and "async" not in cell:
            return False
        return super().should_run_async(raw_cell, **kwargs)

    async def run_cell_async(self, *args: Any, **kwargs: Any) -> Any:
        self._depth += 1
        try:
            return await super().run_cell_async(*args, **kwargs)
        finally:
            self._depth -= 1

    def is_outermost_cell(self) -> bool:
        return self._depth == 1

    def begin_cell(self) -> None:
        self.error_was_sent = self.error_was_shown = False
        self.error_of_value = None
        self._depth = 0

    def begin_comm(self) -> None:
        """Before the handlers of a comm message. A cell that they run is a nested one."""
        self.begin_cell()
        self._depth = 1

    def trigger_post_events(self, result: Any, silent: bool) -> None:
        self._is_in_callback = True
        try:
            self.events.trigger("post_execute")
            if not silent:
                self.events.trigger("post_run_cell", result)
        finally:
            self._is_in_callback = False

    def show_error_of_callback(self) -> None:
        was_in_callback, self._is_in_callback = self._is_in_callback, True
        try:
            self.showtraceback()
        finally:
            self._is_in_callback = was_in_callback

    def new_main_mod(self, filename: str, modname: str) -> Any:
        # The module that `%run` uses. IPython empties it when a script runs again, and
        # multiprocessing needs the attribute.
        main_mod = super().new_main_mod(filename, modname)
        vars(main_mod).setdefault("__spec__", None)
        return main_mod

    # Errors

    def showtraceback(
        self,
        exc_tuple: Any = None,
        filename: str | None = None,
        tb_offset: int | None = None,
        exception_only: bool = False,
        running_compiled_code: bool = False,
    ) -> None:
        try:
            kind, value, _ = self._get_exc_info(exc_tuple)
        except ValueError:
            print("No traceback available to show.", file=sys.stderr)
            return
        if kind is GeneratorExit and self.interrupts.was_requested:
            return  # the result of an interrupt between two coroutines
        if value is None:
            value = kind()
        tracebacks.remove_our_frames(value)
        tb = value.__traceback__
        if exception_only and issubclass(kind, SystemExit):
            if not self.output.is_connected:
                return  # it ends a forked child
            self._showtraceback(kind, value, "\n".join(tracebacks.exit_message(value)))
        elif kind is UsageError:
            self._showtraceback(kind, value, [f"UsageError: {value}"])
        elif tracebacks.has_group(value) and not issubclass(kind, SyntaxError):
            self._showtraceback(kind, value, "\n".join(tracebacks.plain(kind, value, tb)))
        else:
            super().showtraceback(
                (kind, value, tb), filename, tb_offset, exception_only, running_compiled_code
            )

    def set_custom_exc(self, exc_tuple: Any, handler: Any) -> None:
        super().set_custom_exc(exc_tuple, handler)
        show = self.CustomTB

        def show_error(etype: Any, value: Any, tb: Any, tb_offset: int | None = None) -> Any:
            result = show(etype, value, tb, tb_offset)
            # IPython removes a handler that fails.
            if self.CustomTB is show_error and self._depth == 1:
                self.error_was_shown = True
            return result

        self.CustomTB = show_error

    def show_usage_error(self, exc: BaseException) -> None:
        self._showtraceback(type(exc), exc, [f"UsageError: {exc}"])

    def _showtraceback(self, etype: Any, evalue: Any, stb: Any) -> None:
        text = stb if isinstance(stb, str) else self.InteractiveTB.stb2text(stb)
        if self.output.is_connected and self.output.is_late():
            print(text, file=sys.stderr)
            return
        if self.output.is_connected and self._is_own_error(evalue):
            self.send_error(etype, evalue, text, tracebacks.parts_of(stb, text))
            return
        if tracebacks.comes_of_interrupt(evalue):
            self.interrupts.allow_repetition()
        if self.output.is_connected and self._is_error_of_value():
            self.error_of_value = evalue
            self._send_error(etype, evalue, text, tracebacks.parts_of(stb, text))
        else:
            print(text, file=sys.stderr)

    def _is_own_error(self, error: Any) -> bool:
        """Whether the error ends the cell: it is not of a formatter, callback or nested cell."""
        if self.error_was_sent or self._is_in_callback or self._depth > 1:
            return False
        result = self.displayhook.exec_result  # None until the cell's code is compiled
        return result is None or error is result.error_in_exec or error is result.error_before_exec

    def _is_error_of_value(self) -> bool:
        """Whether this is the first exception of a representation of the cell's value.

        As in IPython's kernel, it fails the cell but does not end it.
        """
        if (
            self.error_was_sent
            or self.error_of_value is not None
            or self._is_in_callback
            or self._depth > 1
        ):
            return False
        return bool(self.displayhook.is_showing)

    def send_error(
        self, kind: type, value: BaseException, text: str, parts: list[str] | None = None
    ) -> None:
        with self.interrupts.ignored():
            self._send_error(kind, value, text, parts)
            self.error_was_sent = True

    def _send_error(
        self, kind: type, value: BaseException, text: str, parts: list[str] | None
    ) -> None:
        payload = tracebacks.error_payload(self.output.cell, kind, value, text, self.is_rich)
        if self.is_rich and parts is not None:
            payload["parts"] = parts
        with self.interrupts.ignored():
            self.output.send(wire.ERROR, payload)

    def send_shown_error(self, error: BaseException) -> None:
        """Sends an error that the user's handler has shown. It still fails the cell."""
        payload = tracebacks.error_payload(self.output.cell, type(error), error, "", False)
        payload["shown"] = True
        with self.interrupts.ignored():
            self.output.send(wire.ERROR, payload)
            self.error_was_sent = True

    def send_bare_error(self, error: BaseException) -> None:
        """Sends the error of a cell if IPython did not show it."""
        try:
            tracebacks.remove_our_frames(error)
            text = "\n".join(tracebacks.plain(type(error), error, error.__traceback__))
        except BaseException as failure:  # its attributes raise
            names = [tracebacks.name_of(type(each)) for each in (error, failure)]
            text = f"{names[0]}; showing it raised {names[1]}"
        self.send_error(type(error), error, text)

    # Differences without a terminal

    def system(self, cmd: str) -> None:
        commands.system(self, self.var_expand(cmd, depth=1))

    system_piped = system_raw = system

    def getoutput(self, cmd: str, split: bool = True, depth: int = 0) -> Any:
        return commands.getoutput(self, self.var_expand(cmd, depth=depth + 1), split)

    def ask_exit(self) -> None:
        raise SystemExit()

    def set_next_input(self, s: str, replace: bool = False) -> None:
        """Called by `%load` and `%recall`. There is no prompt, so the text is printed."""
        print(s)

    def set_request(self, request: dict[str, Any]) -> None:
        """Called before a cell, with its `execute` frame."""

    def set_comm_message(self, cell: int, message: dict[str, Any]) -> None:
        """Called before the handlers of a client's comm message."""

    def take_payload(self) -> list[dict[str, Any]]:
        """What the client is asked to do after the cell. One that shows text cannot do it."""
        self.payload.clear_payload()
        return []

    def enable_gui(self, gui: Any = None) -> None:
        if gui and gui not in ("inline", "asyncio"):
            print(f"No event loop for {gui} here: this kernel has no screen.", file=sys.stderr)

    # Cleaning up after the warm-up

    def reset(self, new_session: bool = True, aggressive: bool = False) -> None:
        # IPython's own method removes attributes of the module __main__ that multiprocessing needs.
        names = ("__doc__", "__loader__", "__package__", "__spec__")
        kept = {name: self.user_ns[name] for name in names if name in self.user_ns}
        super().reset(new_session, aggressive)
        self.user_ns.update(kept)

    def forget(self) -> None:
        """Returns to the state of a new shell. Loaded and compiled code is kept."""
        self.reset(new_session=True)
        self.execution_count = 1
        self.displayhook.exec_result = None
        self.displayhook._ = self.displayhook.__ = self.displayhook.___ = ""
        self.user_ns.update({"_": "", "__": "", "___": ""})
        history = self.history_manager
        history._i = history._ii = history._iii = history._i00 = ""
        history.input_hist_parsed[:] = [""]
        history.input_hist_raw[:] = [""]
        for store in ("output_hist", "output_hist_reprs", "outputs", "exceptions"):
            getattr(history, store, {}).clear()
        history.db_input_cache.clear()
        for name in [name for name in linecache.cache if name.startswith("<ipython-input-")]:
            del linecache.cache[name]
        linecache_of_cells = getattr(linecache, "_ipython_cache", None)  # before IPython 8.?
        if linecache_of_cells:
            linecache_of_cells.clear()
        self.compile._filename_map.clear()
        for name in ("last_type", "last_value", "last_traceback", "last_exc"):
            if hasattr(sys, name):
                delattr(sys, name)


def make_shell() -> KernelShell:
    if hasattr(interactiveshell, "PickleShareDB"):  # IPython 8 creates its store at once
        interactiveshell.PickleShareDB = lambda *_: MemoryStore()
    commands.take_over_script_magics()
    installs.take_over_packaging_magics()
    # IPython's warning about SystemExit is for users of its prompt.
    warnings.filterwarnings("ignore", "To exit: use", UserWarning)
    colors = "nocolor" if IPython.version_info[0] >= 9 else "NoColor"
    shell = KernelShell.instance(colors=colors, display_page=True, warn_venv=False, quiet=True)
    shell.db = MemoryStore()
    shell.extension_manager.load_extension("storemagic")  # as Jupyter's kernel does
    shell.init_transforms()
    return shell


def refuse_editor(*_: Any, **__: Any) -> None:
    raise UsageError("there is no editor here: this kernel has no terminal. Use %%writefile.")
