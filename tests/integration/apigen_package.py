# SPDX-License-Identifier: Apache-2.0
"""Generates packages from lists of tools and imports them with a ToolRunner that records."""

from __future__ import annotations

import ast
import contextlib
import importlib.util
import json
import os
import subprocess
import sys
import types
import warnings
from pathlib import Path
from types import ModuleType
from typing import Any

import harness

TOOL = (
    Path(os.environ.get("IPYBOX_BIN", harness.ROOT / "build/ipybox")).parent
    / "tests/unit/apigen-tool"
)
LISTS = sorted((harness.ROOT / "tests/data/tools").glob("*.json"))


def load_stub() -> ModuleType:
    """The kernels' package `ipybox`, under another name: here `ipybox` is the SDK."""
    path = harness.ROOT / "python/ipybox/kernel_host/stub/ipybox"
    spec = importlib.util.spec_from_file_location(
        "apigen_package_stub", path / "__init__.py", submodule_search_locations=[str(path)]
    )
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


STUB = load_stub()
CONTENT = importlib.import_module("apigen_package_stub.tool_exec.content")
ResultError = STUB.ResultError
ToolRunnerError = STUB.ToolRunnerError
ToolAnswer = CONTENT.ToolAnswer
NOTHING = object()


class ToolRunner:
    """Keeps the calls as JSON text, as the real one sends them, and returns `result`."""

    def __init__(self, *, server_name: str, server_id: str) -> None:
        self.server_name = server_name
        self.server_id = server_id
        self.calls: list[tuple[str, str]] = []
        self.result: Any = "done"
        self.answer: Any = NOTHING  # the result object of MCP, instead of `result`

    def call_sync(self, tool_name: str, tool_args: dict[str, Any]) -> Any:
        self.calls.append((tool_name, json.dumps(tool_args, allow_nan=False)))
        return (
            ToolAnswer.from_value(self.result)
            if self.answer is NOTHING
            else ToolAnswer(self.answer)
        )

    async def call(self, tool_name: str, tool_args: dict[str, Any]) -> Any:
        return self.call_sync(tool_name, tool_args)


def write(root: Path, tools: Any, *options: str, server: str = "srv") -> list[str]:
    """Writes the package and returns the names of its modules.

    Raises CalledProcessError if refused.
    """
    text = tools if isinstance(tools, bytes) else json.dumps(tools).encode()
    done = subprocess.run(
        [str(harness.existing(TOOL)), *options, server, str(root)],
        input=text,
        capture_output=True,
        check=True,
    )
    return done.stdout.decode().splitlines()


def tell(root: Path, tools: Any, listing: str, *options: str) -> str:
    """What --signatures or --stubs prints."""
    return "\n".join(write(root, tools, listing, *options)) + "\n"


def check_clean(directory: Path) -> None:
    """All packages in the directory are clean under ruff and mypy --strict."""
    stub = harness.ROOT / "python/ipybox/kernel_host/stub"
    checks = [
        ["ruff", "check", "--no-cache", "--isolated", "."],
        ["ruff", "check", "--no-cache", "--isolated", "--target-version", "py310", "."],
        [
            "mypy",
            "--strict",
            "--python-version",
            "3.10",
            "--explicit-package-bases",
            "--cache-dir",
            str(directory / ".mypy"),
            ".",
        ],
    ]
    for command in checks:
        done = subprocess.run(
            [sys.executable, "-m", *command],
            cwd=directory,
            env={"MYPYPATH": f"{stub}:.", "PATH": "/usr/bin:/bin"},
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stdout + done.stderr


def check_source(path: Path) -> ast.Module:
    """Compiles without a warning. At module level there are only definitions."""
    source = path.read_bytes().decode("utf-8")
    assert source.endswith("\n") and not source.endswith("\n\n")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        compile(source, str(path), "exec")
        tree = ast.parse(source)
    for number, node in enumerate(tree.body):
        if isinstance(node, ast.Expr):
            is_text = isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
            before = tree.body[number - 1]
            assert is_text and (number == 0 or isinstance(before, ast.Assign)), ast.unparse(node)
        elif isinstance(node, ast.Assign):
            assert [ast.unparse(target) for target in node.targets] in (["CLIENT"], ["Result"])
        else:
            kinds = (
                ast.Import,
                ast.ImportFrom,
                ast.ClassDef,
                ast.FunctionDef,
                ast.AsyncFunctionDef,
            )
            assert isinstance(node, kinds), ast.unparse(node)
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            assert ast.unparse(node.func) in CALLED, ast.unparse(node)
    return tree


CALLED = {
    "ToolRunner",
    "ConfigDict",
    "Field",
    "TypeAdapter",
    "TypeAdapter(kind).validate_python",
    "ResultError",
    "PrivateAttr",
    "CLIENT.call",
    "CLIENT.call_sync",
    "Params.for_call",
    "cls.to_wire",
    "AnyResult.from_wire",
    "answer.to_text",
    "answer.attach",
    "self.model_dump",
    "cls.model_fields.items",
    "cls",
    "cls(**fields).to_wire",
    "model_validator",
    "TypeError",
    "ValueError",
    "cls._may_be_null",
    "self._may_be_null",
    "_GetArgs",
    "_IsInstance",
    "field.is_required",
    "given.items",
    "self.model_fields_set.discard",
    "BaseModel.__setattr__",
    "', '.join",
    "cls._names",
    "cls._list",
    "cls._check_names",
    "cls._is_own",
    "cls.model_config.get",
    "get_close_matches",
    "model_serializer",
    "handler",
    "self.model_fields_set.add",
    "self.__dict__.keys",
    "fields.keys",
    "cls.__private_attributes__['_nullable'].get_default",
}


class Package:
    """A generated package, imported."""

    def __init__(self, root: Path, tools: Any, *options: str, server: str = "srv") -> None:
        self.directory = root / server
        self.names = write(root, tools, *options, server=server)
        for path in self.directory.glob("*.py"):
            check_source(path)
        self.package, self.modules = self._import(root, server)
        self.client: ToolRunner = self.package.CLIENT

    def _import(self, root: Path, server: str) -> tuple[ModuleType, dict[str, ModuleType]]:
        client = types.ModuleType("ipybox.tool_exec.client")
        client.ToolRunner = ToolRunner
        client.ResultError = ResultError
        replaced = {name: types.ModuleType(name) for name in ("ipybox", "ipybox.tool_exec")}
        replaced[client.__name__] = client
        replaced["ipybox.tool_exec.content"] = CONTENT
        saved = {
            name: sys.modules.pop(name)
            for name in list(sys.modules)
            if name.split(".")[0] in ("ipybox", server)
        }
        sys.modules.update(replaced)
        sys.path.insert(0, str(root))
        importlib.invalidate_caches()
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                package = importlib.import_module(server)
                modules = {name: importlib.import_module(f"{server}.{name}") for name in self.names}
                for module in modules.values():
                    complete(module)
        finally:
            sys.path.remove(str(root))
            for name in list(sys.modules):
                if name.split(".")[0] in ("ipybox", server):
                    del sys.modules[name]
            sys.modules.update(saved)
        return package, modules

    def __getitem__(self, name: str) -> ModuleType:
        return self.modules[name]

    def source(self, name: str) -> str:
        return (self.directory / f"{name}.py").read_text()

    def send(self, module: str, /, **arguments: Any) -> str:
        """Calls the tool, and returns the arguments as they were sent. The result may be wrong."""
        params = self[module].Params(**arguments)
        with contextlib.suppress(ToolRunnerError):
            self[module].run(params)
        return self.client.calls[-1][1]


def complete(module: ModuleType) -> None:
    """Resolves all annotations now, while the module can be found; pydantic would do it at the
    first use.
    """
    for value in vars(module).values():
        if isinstance(value, type) and hasattr(value, "model_rebuild"):
            value.model_rebuild()


def tool(
    properties: dict[str, Any] | None = None,
    *,
    name: str = "do",
    required: list[str] | None = None,
    **more: Any,
):
    """A tool. `more` has other members of its input schema, or of the tool if they belong there."""
    own = {key: more.pop(key) for key in ("title", "description", "outputSchema") if key in more}
    schema = {"type": "object", "properties": properties or {}, "required": required or [], **more}
    return {"name": name, "inputSchema": schema, **own}
