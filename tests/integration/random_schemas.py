# SPDX-License-Identifier: Apache-2.0
"""Random JSON Schemas: sensible ones with valid values, and nonsense."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

Sampler = Callable[[], Any]

NAMES = [
    "id",
    "name",
    "class",
    "from",
    "json",
    "schema",
    "model_x",
    "a-b",
    "a_b",
    "",
    "1",
    "é",
    "名前",
    "🎉",
    "Sort",
    "sort",
    "type",
    "x y",
    "_p",
    "str",
]
TEXTS = [
    "",
    "plain",
    '"""',
    "\\",
    "é\n\n  more",
    "\u202e",
    "x" * 150,
    "word " * 40,
    '"',
    "\0",
    "#",
    "'",
]


class Schemas:
    """Sensible schemas, each with a function that makes valid values."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.definitions: dict[str, Any] = {}
        self.samplers: dict[str, Sampler] = {}

    def make(self, depth: int = 4) -> tuple[Any, Sampler]:
        simple = [
            self.anything,
            self.null,
            self.boolean,
            self.integer,
            self.number,
            self.string,
            self.enum,
            self.constant,
        ]
        nested = [
            self.array,
            self.object,
            self.object,
            self.map,
            self.any_of,
            self.reference,
            self.all_of,
            self.types,
        ]
        nested += [self.places, self.keyed_map, self.tagged, self.extended, self.recursive_union]
        schema, sample = self.random.choice(
            simple if depth <= 0 or self.random.random() < 0.4 else nested
        )(depth)
        if isinstance(schema, dict) and self.random.random() < 0.3:
            schema = {
                **schema,
                "description": self.random.choice(TEXTS),
                "title": self.random.choice(["Sort", "A b", "", "Params"]),
            }
        return schema, sample

    def parameters(self) -> tuple[Any, Sampler]:
        schema, sample = self.object(4)
        return {**schema, "$defs": self.definitions}, sample

    def anything(self, depth: int) -> tuple[Any, Sampler]:
        values = [None, True, 0, 1.5, "x", [1, "a"], {"k": [None]}, 2**70, "\ud800"]
        return self.random.choice([True, {}]), lambda: self.random.choice(values)

    def null(self, depth: int) -> tuple[Any, Sampler]:
        return {"type": "null"}, lambda: None

    def boolean(self, depth: int) -> tuple[Any, Sampler]:
        return {
            "type": "boolean",
            "default": self.random.choice([True, "x"]),
        }, lambda: self.random.random() < 0.5

    def integer(self, depth: int) -> tuple[Any, Sampler]:
        low = self.random.randrange(-5, 5)
        high = low + self.random.randrange(1, 2**66)
        bounds = {
            key: value
            for key, value in {"minimum": low, "exclusiveMaximum": high + 1}.items()
            if self.random.random() < 0.5
        }
        return {"type": "integer", "default": low, **bounds}, lambda: self.random.randint(low, high)

    def number(self, depth: int) -> tuple[Any, Sampler]:
        schema = {
            "type": "number",
            **self.random.choice(
                [{}, {"minimum": 0}, {"maximum": 1e300, "exclusiveMinimum": -0.5}]
            ),
        }
        return schema, lambda: self.random.choice(
            [0, 1, 2**70, 0.1, 1e-300, 3.0, self.random.random()]
        )

    def string(self, depth: int) -> tuple[Any, Sampler]:
        low = self.random.randrange(0, 3)
        bounds = self.random.choice(
            [
                {},
                {"minLength": low},
                {"minLength": low, "maxLength": low + 5},
                {"format": "uri"},
                {"pattern": "x*"},
            ]
        )
        return {
            "type": "string",
            "default": self.random.choice(TEXTS),
            **bounds,
        }, lambda: self.random.choice("aé🎉 ") * (low + self.random.randrange(5))

    def enum(self, depth: int) -> tuple[Any, Sampler]:
        kinds = [
            ["a", "b-c", "title", "", "class"],
            [1, 2, 3],
            ["a", 1, None],
            [True, False, 0, 1],
            [0.5, 1],
            [{"a": 1}, [1], "x"],
            NAMES,
        ]
        values = self.random.choice(kinds)
        return {"enum": values, "default": self.random.choice(values)}, lambda: self.random.choice(
            values
        )

    def constant(self, depth: int) -> tuple[Any, Sampler]:
        value = self.random.choice(["x", 1, None, True, 1.5, {"a": None}, [1], '"""'])
        return {"const": value}, lambda: value

    def array(self, depth: int) -> tuple[Any, Sampler]:
        items, sample = self.make(depth - 1)
        low = self.random.randrange(3)
        bounds = self.random.choice([{}, {"minItems": low}, {"minItems": low, "maxItems": low + 3}])
        return {"type": "array", "items": items, **bounds}, lambda: [
            sample() for _ in range(low + self.random.randrange(3))
        ]

    def object(self, depth: int) -> tuple[Any, Sampler]:
        names = self.random.sample(NAMES, self.random.randrange(5))
        made = {name: self.make(depth - 1) for name in names}
        required = [name for name in names if self.random.random() < 0.5]
        schema: dict[str, Any] = {
            "type": "object",
            "properties": {name: made[name][0] for name in names},
            "required": required,
        }
        more = self.random.choice(
            [{}, {"additionalProperties": True}, {"additionalProperties": False}]
        )

        def sample() -> Any:
            value = {
                name: made[name][1]()
                for name in names
                if name in required or self.random.random() < 0.5
            }
            if more.get("additionalProperties", True) and self.random.random() < 0.3:
                value["another one"] = [1, {"x": None}]
            return value

        return {**schema, **more}, sample

    def map(self, depth: int) -> tuple[Any, Sampler]:
        values, sample = self.make(depth - 1)
        # Not a_b: where a class has a-b, a_b is the Python name of a-b.
        names = [name for name in NAMES if name != "a_b"]
        return {"type": "object", "additionalProperties": values}, lambda: {
            self.random.choice(names): sample() for _ in range(3)
        }

    def any_of(self, depth: int) -> tuple[Any, Sampler]:
        made = [self.make(depth - 1) for _ in range(self.random.randrange(1, 4))]
        return {"anyOf": [schema for schema, _ in made]}, lambda: self.random.choice(made)[1]()

    def places(self, depth: int) -> tuple[Any, Sampler]:
        made = [self.make(depth - 1) for _ in range(self.random.randrange(1, 4))]
        schemas = [schema for schema, _ in made]
        forms = [
            {"items": schemas, "minItems": len(made), "maxItems": len(made)},
            {"prefixItems": schemas, "items": False, "minItems": len(made)},
            {"prefixItems": schemas},
            {"items": schemas, "additionalItems": {"type": "string"}},
        ]
        return {"type": "array", **self.random.choice(forms)}, lambda: [
            sample() for _, sample in made
        ]

    def keyed_map(self, depth: int) -> tuple[Any, Sampler]:
        values, sample = self.make(depth - 1)
        forms = [
            {"patternProperties": {"^x-[a-z]+$": values}, "additionalProperties": False},
            {
                "propertyNames": {"pattern": "^x-", "minLength": 3},
                "additionalProperties": values,
                "maxProperties": 3,
            },
        ]
        keys = ["x-a", "x-abc", "x-z"]
        return {"type": "object", **self.random.choice(forms)}, lambda: {
            key: sample() for key in keys if self.random.random() < 0.6
        }

    def tagged(self, depth: int) -> tuple[Any, Sampler]:
        tag = self.random.choice(["kind", "type", "class", "a-b"])
        made = []
        for number in range(self.random.randrange(2, 4)):
            schema, sample = self.object(depth - 1)
            schema["properties"][tag] = {"const": f"t{number}"}
            if tag not in schema["required"]:
                schema["required"].append(tag)
            made.append(
                (schema, lambda sample=sample, number=number: {**sample(), tag: f"t{number}"})
            )
        more = self.random.choice([[], [{"type": "null"}]])
        return {
            self.random.choice(["oneOf", "anyOf"]): [schema for schema, _ in made] + more
        }, lambda: self.random.choice(made)[1]()

    def extended(self, depth: int) -> tuple[Any, Sampler]:
        schema, sample = self.object(depth - 1)
        values, sample_value = self.make(depth - 1)
        schema["additionalProperties"] = values

        def extend() -> Any:
            value = {
                name: inner for name, inner in sample().items() if name in schema["properties"]
            }
            return value | {"another one": sample_value()} if self.random.random() < 0.5 else value

        return schema, extend

    def recursive_union(self, depth: int) -> tuple[Any, Sampler]:
        name = f"U{len(self.definitions)}"
        self.definitions[name] = {
            "anyOf": [
                {
                    "type": "object",
                    "properties": {
                        "op": {"const": "all"},
                        "args": {"type": "array", "items": {"$ref": f"#/$defs/{name}"}},
                    },
                    "required": ["op", "args"],
                },
                {
                    "type": "object",
                    "properties": {
                        "op": {"enum": ["is"]},
                        "value": {"type": ["string", "integer"]},
                    },
                    "required": ["op"],
                },
            ]
        }

        def sample(levels: int = 3) -> Any:
            if levels == 0 or self.random.random() < 0.4:
                return {"op": "is", "value": self.random.choice(["x", 5])}
            return {
                "op": "all",
                "args": [sample(levels - 1) for _ in range(self.random.randrange(3))],
            }

        return {"$ref": f"#/$defs/{name}"}, sample

    def all_of(self, depth: int) -> tuple[Any, Sampler]:
        schema, sample = self.object(depth)
        schema.pop("additionalProperties", None)
        return {"allOf": [schema, {"description": "All."}]}, sample

    def types(self, depth: int) -> tuple[Any, Sampler]:
        array, sample = self.array(depth)
        return {**array, "type": ["array", "null", "integer"]}, lambda: self.random.choice(
            [None, 7, sample()]
        )

    def reference(self, depth: int) -> tuple[Any, Sampler]:
        if len(self.definitions) < 3:
            name = f"D{len(self.definitions)}"
            self.definitions[name] = {}
            schema, sample = self.object(depth - 1)
            # It contains itself in one place only, so that values end.
            schema["properties"]["next"] = {
                "anyOf": [{"$ref": f"#/$defs/{name}"}, {"type": "null"}]
            }
            self.definitions[name] = schema
            self.samplers[name] = lambda: {
                **sample(),
                "next": None if self.random.random() < 0.7 else sample(),
            }
        elif self.samplers:
            name = self.random.choice(list(self.samplers))
        else:
            return self.string(depth)
        return {"$ref": f"#/$defs/{name}"}, self.samplers[name]


KEYWORDS = [
    "type",
    "properties",
    "items",
    "enum",
    "const",
    "anyOf",
    "oneOf",
    "allOf",
    "not",
    "$ref",
    "$defs",
    "definitions",
    "required",
    "additionalProperties",
    "patternProperties",
    "prefixItems",
    "minimum",
    "maximum",
    "exclusiveMinimum",
    "exclusiveMaximum",
    "multipleOf",
    "minLength",
    "maxLength",
    "minItems",
    "maxItems",
    "pattern",
    "format",
    "default",
    "title",
    "description",
    "nullable",
    "deprecated",
    "propertyNames",
    "minProperties",
    "maxProperties",
    "additionalItems",
    "if",
    "then",
    "$id",
    "$anchor",
    "dependentRequired",
    "uniqueItems",
    "examples",
]
TYPES = ["string", "integer", "number", "boolean", "null", "array", "object", "nonsense"]
REFS = [
    "#",
    "#/",
    "#/$defs/Node",
    "#/properties/a",
    "#node",
    "x.json",
    "#/$defs/~0~1%41",
    "#/allOf/0",
    "node#",
    "x.json#/properties/a",
    "#/anyOf/1/items",
]


def make_nonsense(rng: random.Random, depth: int = 4) -> Any:
    """JSON that looks like a schema and often is none."""
    if depth == 0 or rng.random() < 0.15:
        return rng.choice(
            [None, True, False, 0, -1, 1e400, 2**64, 0.1, [], {}, *TEXTS, *TYPES, *NAMES]
        )
    if rng.random() < 0.1:
        return [make_nonsense(rng, depth - 1) for _ in range(rng.randrange(4))]
    schema: dict[str, Any] = {}
    for keyword in rng.sample(KEYWORDS, rng.randrange(6)):
        if rng.random() < 0.1:
            schema[keyword] = make_nonsense(rng, depth - 1)
        elif keyword == "type":
            schema[keyword] = rng.choice([rng.choice(TYPES), rng.sample(TYPES, 2)])
        elif keyword == "$ref":
            schema[keyword] = rng.choice(REFS)
        elif keyword in ("properties", "$defs", "definitions", "patternProperties"):
            schema[keyword] = {
                rng.choice(["a", "Node", "/~A", *NAMES]): make_nonsense(rng, depth - 1)
                for _ in range(3)
            }
        elif keyword in ("anyOf", "oneOf", "allOf", "prefixItems"):
            schema[keyword] = [make_nonsense(rng, depth - 1) for _ in range(rng.randrange(4))]
        elif keyword in ("enum", "required", "examples"):
            schema[keyword] = [
                rng.choice([*NAMES, *TEXTS, None, 1, 1.0, True]) for _ in range(rng.randrange(5))
            ]
        elif keyword in ("title", "description", "pattern", "format", "$id", "$anchor"):
            schema[keyword] = rng.choice([*TEXTS, *NAMES, "node", "Node"])
        elif keyword.startswith(("min", "max", "exclusive", "multiple")):
            schema[keyword] = rng.choice([0, 1, -3, 0.5, 2**70, 1e400, "1", True, 3.0])
        else:
            schema[keyword] = make_nonsense(rng, depth - 1)
    return schema
