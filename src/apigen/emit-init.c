/* SPDX-License-Identifier: Apache-2.0
 *
 * The package's __init__.py: the client, and the base of all models. The names that its functions use hold a capital
 * letter, builtins too: the modules, which are named after tools in small letters ("type"), become its attributes, and
 * are what such a name means then.
 */
#include "apigen/emit.h"
#include "apigen/text.h"

static const char IMPORTS[] = //
    "from builtins import isinstance as _IsInstance\n"
    "from collections.abc import Mapping as _Mapping\n"
    "from typing import Any\n"
    "from typing import get_args as _GetArgs\n"
    "\n"
    "from ipybox.tool_exec.client import ResultError, ToolRunner\n"
    "from pydantic import (\n"
    "    BaseModel,\n"
    "    ConfigDict,\n"
    "    SerializerFunctionWrapHandler,\n"
    "    ValidationError,\n"
    "    ValidationInfo,\n"
    "    model_serializer,\n"
    "    model_validator,\n"
    ")\n"
    "from typing_extensions import Self\n"
    "\n";

static const char CLASSES[] = //
    "\n"
    "\n"
    "class Model(BaseModel):\n"
    "    \"\"\"Goes to a tool or comes from it. Members that the schema does not name are "
    "kept.\"\"\"\n"
    "\n"
    "    model_config = ConfigDict(\n"
    "        allow_inf_nan=False,\n"
    "        extra=\"allow\",\n"
    "        protected_namespaces=(),\n"
    "        use_enum_values=True,\n"
    "        validate_assignment=True,\n"
    "    )\n"
    "    _nullable: tuple[str, ...] = ()\n"
    "\n"
    "    @classmethod\n"
    "    def _may_be_null(cls, name: str) -> bool:\n"
    "        \"\"\"Is None a value of the field? Else it means \"not given\".\"\"\"\n"
    "        field = cls.model_fields[name]\n"
    "        if field.is_required() or field.annotation is Any:\n"
    "            return True\n"
    "        if field.default is None:\n"
    "            return name in cls.__private_attributes__[\"_nullable\"].get_default()\n"
    "        return None.__class__ in _GetArgs(field.annotation)\n"
    "\n"
    "    @model_validator(mode=\"before\")\n"
    "    @classmethod\n"
    "    def _drop_none(cls, given: Any, info: ValidationInfo) -> Any:\n"
    "        if info.context == \"result\" or not _IsInstance(given, _Mapping):\n"
    "            return given\n"
    "        fields = cls.model_fields.items()\n"
    "        drop = {name for n, f in fields if not cls._may_be_null(n) for name in (n, f.alias)}\n"
    "        return {n: value for n, value in given.items() if value is not None or n not in "
    "drop}\n"
    "\n"
    "    def __setattr__(self, name: str, value: Any) -> None:\n"
    "        BaseModel.__setattr__(self, name, value)\n"
    "        if value is None and name in self.__dict__ and not self._may_be_null(name):\n"
    "            self.model_fields_set.discard(name)\n"
    "\n"
    "    @model_serializer(mode=\"wrap\")\n"
    "    def _dump(self, handler: SerializerFunctionWrapHandler) -> Any:\n"
    "        \"\"\"A default that was changed in place, as lists can be, counts as set.\"\"\"\n"
    "        fields = self.__class__.model_fields\n"
    "        for name in self.__dict__.keys() & (fields.keys() - self.model_fields_set):\n"
    "            if self.__dict__[name] != fields[name].default:\n"
    "                self.model_fields_set.add(name)\n"
    "        return handler(self)\n"
    "\n"
    "    def to_wire(self) -> dict[str, Any]:\n"
    "        \"\"\"What was set, under the tool's own names; what was not set is left out.\"\"\"\n"
    "        return self.model_dump(by_alias=True, exclude_unset=True, warnings=False)\n"
    "\n"
    "    @classmethod\n"
    "    def for_call(cls, params: Any, fields: dict[str, Any]) -> dict[str, Any]:\n"
    "        \"\"\"The arguments that `run(Params(...))` or `run(name=value, ...)` means.\"\"\"\n"
    "        __tracebackhide__ = True\n"
    "        if f\"{params.__class__}\" == f\"{cls}\" and not fields:\n"
    "            return cls.to_wire(params)\n"
    "        if params is not None:\n"
    "            names = {name for n, f in cls.model_fields.items() for name in (n, f.alias)}\n"
    "            if _IsInstance(params, Model) or \"params\" not in names:\n"
    "                known = \", \".join(cls.model_fields) or \"it has none\"\n"
    "                raise TypeError(f\"run() takes Params(...), or its fields by name: "
    "{known}\")\n"
    "            fields = {**fields, \"params\": params}\n"
    "        return cls(**fields).to_wire()\n"
    "\n"
    "    @classmethod\n"
    "    def from_wire(cls, result: Any) -> Self:\n"
    "        \"\"\"A tool's result, checked.\"\"\"\n"
    "        __tracebackhide__ = True\n"
    "        try:\n"
    "            return cls.model_validate(result, context=\"result\")\n"
    "        except ValidationError as error:\n"
    "            raise ResultError(result, error) from None\n";

char *
ipb_emit_init(const char *server_name, const char *registration_id)
{
    g_autoptr(GString) out = g_string_new(NULL);
    g_string_append_printf(
        out,
        "\"\"\"The tools of the MCP server %s, one module each: Params, run, Result.\n\n"
        "Call run(Params(...)), or run with the fields by name. Images and other contents that "
        "come with a "
        "text\n"
        "are in its `contents`: objects with `type`, `mime_type`, `data` (bytes) and "
        "`save(path)`.\n"
        "\"\"\"\n\n",
        server_name);
    g_string_append(out, IMPORTS);
    g_string_append(out, "CLIENT = ToolRunner(server_name=");
    ipb_text_append_literal(out, ipb_text_from(server_name));
    g_string_append(out, ", server_id=");
    ipb_text_append_literal(out, ipb_text_from(registration_id));
    g_string_append(out, ")\n");
    g_string_append(out, CLASSES);
    return g_string_free(g_steal_pointer(&out), FALSE);
}
