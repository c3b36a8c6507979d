# SPDX-License-Identifier: Apache-2.0
"""Variables in a file: `save` writes them with pickle, `load` makes them again.

The core runs both as a silent cell (src/session/saved-state.c), so they have a cell's time limit,
can be interrupted, and never run beside another cell. Loading a pickle runs code that the file
names. That happens here, in the kernel, and nowhere else.

The file: a first line with the version; for each variable a line of JSON with its name and size,
and then its pickle; a last line with the number of variables. All pickles have one memo, so that
variables which share an object still share it when they are loaded. Protocol 3 is the newest one
whose memo has explicit numbers: if a variable cannot be loaded, it is known what it has put into
the memo, and a variable that needs that fails, too, instead of getting half an object.

What is defined in cells, in the module __main__, is not saved: pickle would only write its name,
and another session may have something else with that name. It is reported, and so is every value
that needs it.
"""

from __future__ import annotations

import importlib
import io
import json
import os
import pickle
import pickletools
import secrets
import stat
import sys
from collections.abc import Iterator
from types import FunctionType, ModuleType
from typing import Any, BinaryIO

from . import tracebacks, variables

HEADER = b"ipybox variables 1\n"
HEADER_START = b"ipybox variables "
PROTOCOL = 3
MAX_VARIABLES = 10_000
MAX_LINE = 64 * 1024
MAX_NAME = 1000
MAX_WHY = 1000
PUTS = ("BINPUT", "LONG_BINPUT", "PUT")
GETS = ("BINGET", "LONG_BINGET", "GET")

_report: Report | None = None


class Report:
    """What became of each variable. IPython sends it as JSON."""

    def __init__(self, names: list[str], failed: dict[str, str]) -> None:
        self._content = {"names": names, "failed": failed}

    def _repr_mimebundle_(self, **_: Any) -> dict[str, Any]:
        return {"application/json": self._content, "text/plain": "variables"}


def run(shell: Any, request: str) -> None:
    """`request`: JSON with `action`, `path`, and for `save` optionally `names`."""
    global _report
    _report = None
    message = json.loads(request)
    if message["action"] == "save":
        _report = save(shell, message["path"], message["names"])
    else:
        _report = load(shell, message["path"])


def take_report() -> Report:
    global _report
    taken, _report = _report, None
    if taken is None:
        raise RuntimeError("there is no report")
    return taken


# Saving


class _Pickler(pickle.Pickler):
    """Refuses what is defined in cells. Writes modules as imports."""

    def reducer_override(self, value: Any) -> Any:
        if isinstance(value, (type, FunctionType)):
            if getattr(value, "__module__", None) == "__main__":
                kind = "class" if isinstance(value, type) else "function"
                name = getattr(value, "__qualname__", "?")
                raise pickle.PicklingError(f"the {kind} {name} is defined in a cell, in __main__")
        elif type(value) is ModuleType:
            name = value.__name__
            if name == "__main__" or sys.modules.get(name) is not value:
                raise pickle.PicklingError(f"the module {name} cannot be imported by its name")
            return importlib.import_module, (name,)
        return NotImplemented


def save(shell: Any, path: str, names: list[str] | None) -> Report:
    values, failed = _choose(shell, names)
    for name in list(values):
        if why := _find_why_not(values[name]):
            failed[name] = why
            del values[name]
    _check_target(path)
    temporary = os.path.join(os.path.dirname(path), f".ipybox-{secrets.token_hex(8)}")
    try:
        with open(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            _write(file, values)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        _remove(temporary)
        raise
    return Report(list(values), failed)


def _choose(shell: Any, names: list[str] | None) -> tuple[dict[str, Any], dict[str, str]]:
    if names is None:
        values = dict(variables.users(shell))
    else:
        values = {name: shell.user_ns[name] for name in names if name in shell.user_ns}
    failed = {name: "there is no such variable" for name in names or () if name not in values}
    for name in [name for name in values if not name.isidentifier() or len(name) > MAX_NAME]:
        shown = name[:MAX_NAME].encode(errors="replace").decode()
        failed[shown] = "this is not a name of a variable, or it is too long"
        del values[name]
    if len(values) > MAX_VARIABLES:
        raise ValueError(f"{len(values)} variables are more than {MAX_VARIABLES}: name some")
    return values, failed


def _find_why_not(value: Any) -> str | None:
    tried = io.BytesIO()
    try:
        _Pickler(tried, PROTOCOL).dump(value)
    except Exception as error:
        return _describe(error)
    if b"c__main__\n" in tried.getvalue():  # or text that looks like it
        for operation, argument in _operations(tried.getvalue()):
            if operation == "GLOBAL" and argument.startswith("__main__ "):
                return f"{argument[9:]} is defined in a cell, in __main__"
    return None


def _operations(data: bytes) -> Iterator[tuple[str, Any]]:
    for operation, argument, _ in pickletools.genops(data):
        yield operation.name, argument


def _describe(error: BaseException) -> str:
    return tracebacks.clip(f"{type(error).__name__}: {tracebacks.text_of(error)}", MAX_WHY)


def _check_target(path: str) -> None:
    """A mistyped path must not cost another file."""
    try:
        status = os.lstat(path)
    except FileNotFoundError:
        return
    if not stat.S_ISREG(status.st_mode):
        raise FileExistsError(f"{path} is not a regular file: name another file")
    with open(path, "rb") as file:
        if status.st_size > 0 and file.read(len(HEADER_START)) != HEADER_START:
            raise FileExistsError(f"{path} has something else in it than saved variables")


def _write(file: BinaryIO, values: dict[str, Any]) -> None:
    buffer = io.BytesIO()
    pickler = _Pickler(buffer, PROTOCOL)
    file.write(HEADER)
    for name, value in values.items():
        pickler.dump(value)
        file.write(_line({"name": name, "size": buffer.tell()}))
        file.write(buffer.getbuffer())
        buffer.seek(0)
        buffer.truncate()
    file.write(_line({"end": len(values)}))


def _line(content: dict[str, Any]) -> bytes:
    return json.dumps(content).encode() + b"\n"


def _remove(path: str) -> None:
    try:
        os.unlink(path)
    except OSError:
        pass  # it was not created


# Loading


class _Unpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        if module == "__main__":
            raise pickle.UnpicklingError(f"{name} is defined in a cell, in __main__")
        return super().find_class(module, name)


def load(shell: Any, path: str) -> Report:
    """Sets the variables when all were loaded or failed: an interrupt leaves them as they were."""
    values: dict[str, Any] = {}
    failed: dict[str, str] = {}
    with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise ValueError(f"{path} is not a regular file")
        loader = _Loader()
        for name, start, size in _find_places(file, path):
            file.seek(start)
            try:
                values[name] = loader.load(file.read(size))
            except Exception as error:
                failed[name] = _describe(error)
    shell.user_ns.update(values)
    return Report(list(values), failed)


class _Loader:
    """Loads pickles with one memo, and refuses those that need an object of one that failed."""

    def __init__(self) -> None:
        self._buffer = io.BytesIO()  # the unpickler does not read ahead in it
        self._unpickler = _Unpickler(self._buffer)
        self._lost: set[int] = set()  # numbers in the memo
        self._lost_from: int | None = None  # and all from this one on

    def load(self, data: bytes) -> Any:
        if self._lost or self._lost_from is not None:
            self._check_references(data)
        self._buffer.seek(0)
        self._buffer.truncate()
        self._buffer.write(data)
        self._buffer.seek(0)
        try:
            value = self._unpickler.load()
            if self._buffer.tell() != len(data):
                raise pickle.UnpicklingError("its pickle has another size than the file says")
            return value
        except BaseException:
            self._lose(data)
            raise

    def _lose(self, data: bytes) -> None:
        """What a pickle that failed has put into the memo may be half an object."""
        numbers: set[int] = set()
        try:
            for operation, argument in _operations(data):
                if operation in PUTS:
                    numbers.add(int(argument))
        except Exception:  # it is damaged: the numbers rise, so later ones are above these
            self._lost_from = min(numbers, default=0)
        self._lost |= numbers

    def _check_references(self, data: bytes) -> None:
        own: set[int] = set()
        for operation, argument in _operations(data):
            if operation in PUTS:
                own.add(int(argument))
            elif operation in GETS and int(argument) not in own and self._is_lost(argument):
                self._lose(data)
                raise pickle.UnpicklingError(
                    "it shares an object with a variable that could not be loaded"
                )

    def _is_lost(self, number: int) -> bool:
        return number in self._lost or (self._lost_from is not None and number >= self._lost_from)


def _find_places(file: BinaryIO, path: str) -> list[tuple[str, int, int]]:
    """The variables with their places. Raises if the file is incomplete; nothing is loaded then."""
    header = file.readline(MAX_LINE)
    if not header.startswith(HEADER_START):
        raise ValueError(f"{path} has no saved variables")
    if header != HEADER:
        raise ValueError(f"{path} has another version than this ipybox: {header[:40]!r}")
    end = os.fstat(file.fileno()).st_size
    places: list[tuple[str, int, int]] = []
    while True:
        entry = _read_entry(file, path)
        if "end" in entry:
            break
        name, size = entry.get("name"), entry.get("size")
        if type(name) is not str or not name.isidentifier() or type(size) is not int or size < 1:
            raise ValueError(f"{path} is damaged: variable {len(places) + 1} has no name or size")
        places.append((name, file.tell(), size))
        if file.tell() + size > end:
            raise ValueError(f"{path} is incomplete: it ends in the variable {name}")
        if len(places) > MAX_VARIABLES:
            raise ValueError(f"{path} has more than {MAX_VARIABLES} variables")
        file.seek(size, os.SEEK_CUR)
    if entry["end"] != len(places) or file.tell() != end:
        raise ValueError(f"{path} is damaged: its last line is wrong")
    if len({name for name, _, _ in places}) != len(places):
        raise ValueError(f"{path} is damaged: a variable is in it twice")
    return places


def _read_entry(file: BinaryIO, path: str) -> dict[str, Any]:
    line = file.readline(MAX_LINE)
    if not line.endswith(b"\n"):
        raise ValueError(f"{path} is incomplete: its last line is missing")
    try:
        entry = json.loads(line)
    except ValueError:
        entry = None
    if type(entry) is not dict:
        raise ValueError(f"{path} is damaged: a line between variables is wrong")
    return entry
