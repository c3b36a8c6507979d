"""The tools of @SERVER_NAME@, one module each: Params, run, Result.

Call run(Params(...)), or run with the fields by name. Images and other contents that come with a text
are in its `contents`: objects with `type`, `mime_type`, `data` (bytes) and `save(path)`.
"""

from builtins import isinstance as _IsInstance
from collections.abc import Mapping as _Mapping
from typing import Any
from typing import get_args as _GetArgs

from ipybox.tool_exec.client import ResultError, ToolRunner
from ipybox.tool_exec.content import Beside, Content, ToolAnswer
from pydantic import (
    BaseModel,
    ConfigDict,
    PrivateAttr,
    SerializerFunctionWrapHandler,
    TypeAdapter,
    ValidationError,
    ValidationInfo,
    model_serializer,
    model_validator,
)

CLIENT = ToolRunner(server_name="@SERVER_NAME@", server_id="@REGISTRATION_ID@")


class Model(BaseModel):
    """Arguments or results of a tool. Members that the schema does not name are kept."""

    model_config = ConfigDict(
        allow_inf_nan=False,
        extra="allow",
        protected_namespaces=(),
        use_enum_values=True,
        validate_assignment=True,
    )
    _nullable: tuple[str, ...] = ()

    @classmethod
    def _may_be_null(cls, name: str) -> bool:
        """Whether None is a value of the field. If not, it means "not given"."""
        field = cls.model_fields[name]
        if field.is_required() or field.annotation is Any:
            return True
        if field.default is None:
            return name in cls.__private_attributes__["_nullable"].get_default()
        return None.__class__ in _GetArgs(field.annotation)

    @classmethod
    def _names(cls) -> dict[str, str]:
        """Maps each name that can set a field, also the tool's own, to the field."""
        fields = cls.model_fields.items()
        return {name: n for n, f in fields for name in (n, f.alias) if name is not None}

    @classmethod
    def _list(cls) -> str:
        names = [*cls.model_fields]
        return ", ".join(names[:100] + ["…"] * (names[100:] != [])) or "it has none"

    @classmethod
    def _check_names(cls, given: Any) -> None:
        """Raises ValueError for a name that no field has, with the valid names."""
        names = cls._names()
        unknown = [f"{name}"[:100] for name in given if name not in names]
        if unknown:
            from difflib import get_close_matches

            close = [names[name] for name in get_close_matches(unknown[0], names, 1)]
            hint = f" (did you mean {close[0]!r}?)" if close else ""
            raise ValueError(f"unknown argument {unknown[0]!r}{hint}; valid: {cls._list()}")

    @model_validator(mode="before")
    @classmethod
    def _drop_none(cls, given: Any, info: ValidationInfo) -> Any:
        if info.context == "result" or not _IsInstance(given, _Mapping):
            return given
        if cls.model_config.get("extra") == "forbid":
            cls._check_names(given)
        fields = cls.model_fields.items()
        drop = {name for n, f in fields if not cls._may_be_null(n) for name in (n, f.alias)}
        return {n: value for n, value in given.items() if value is not None or n not in drop}

    def __setattr__(self, name: str, value: Any) -> None:
        BaseModel.__setattr__(self, name, value)
        if value is None and name in self.__dict__ and not self._may_be_null(name):
            self.model_fields_set.discard(name)

    @model_serializer(mode="wrap")
    def _dump(self, handler: SerializerFunctionWrapHandler) -> Any:
        """A default that was changed in place, such as a list, counts as set."""
        fields = self.__class__.model_fields
        for name in self.__dict__.keys() & (fields.keys() - self.model_fields_set):
            if self.__dict__[name] != fields[name].default:
                self.model_fields_set.add(name)
        return handler(self)

    def to_wire(self) -> dict[str, Any]:
        """The fields that were set, under the tool's own names."""
        return self.model_dump(by_alias=True, exclude_unset=True, warnings=False)

    @classmethod
    def _is_own(cls, params: Any) -> bool:
        return _IsInstance(params, cls) or f"{params.__class__}" == f"{cls}"

    @classmethod
    def for_call(
        cls, params: Any, fields: dict[str, Any], *, is_open: bool = False
    ) -> dict[str, Any]:
        """The arguments of `run(Params(...))` or `run(name=value, ...)`.

        A name that the schema does not have is an error, unless the schema allows others.
        """
        __tracebackhide__ = True
        if params is None and fields.keys() == {"params"} and cls._is_own(fields["params"]):
            params, fields = fields["params"], {}
        if params is not None:
            if fields or not cls._is_own(params):
                raise TypeError(f"run() takes Params(...), or its fields by name: {cls._list()}")
            return cls.to_wire(params)
        if not is_open:
            try:
                cls._check_names(fields)
            except ValueError as error:
                raise TypeError(f"run(): {error}") from None
        return cls(**fields).to_wire()


class AnyResult(Model):
    """What a tool returned."""

    _beside: Beside = PrivateAttr(default_factory=Beside)

    @staticmethod
    def from_wire(kind: Any, answer: ToolAnswer, member: str | None = None) -> Any:
        """Checks a tool's result. member: the member of the structured content that has it."""
        __tracebackhide__ = True
        value = answer.value
        if member is not None:
            if not _IsInstance(value, _Mapping) or member not in value:
                raise ResultError(value, f"it has no member {member!r}")
            value = value[member]
        try:
            result = TypeAdapter(kind).validate_python(value, context="result")
        except ValidationError as error:
            raise ResultError(value, error) from None
        if _IsInstance(result, AnyResult):
            result._beside = answer.beside
            return result
        return answer.attach(result)


class ToolResult(AnyResult):
    """The result of a tool, with the contents that came with it.

    If the server sends a member `contents` or `text` that the schema does not
    name, it is in `model_extra`.
    """

    @property
    def contents(self) -> list[Content]:
        """All contents that the tool sent, in its order: texts, images and others."""
        return self._beside.contents

    @property
    def text(self) -> str:
        """The texts among the contents, joined by newlines."""
        return self._beside.text
