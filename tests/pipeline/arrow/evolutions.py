"""Random pairs of Avro schemas that are heavy with aliases and unions, and data of the first."""

from __future__ import annotations

import copy
import math
import random
from typing import Any

FIELDS = ["a", "b", "c", "d"]
PLAIN = ["boolean", "int", "long", "float", "double", "string", "bytes"]
LOGICAL = [
    {"type": "int", "logicalType": "time-millis"},
    {"type": "long", "logicalType": "time-micros"},
    {"type": "long", "logicalType": "timestamp-millis"},
    {"type": "long", "logicalType": "timestamp-micros"},
    {"type": "long", "logicalType": "timestamp-nanos"},
    {"type": "long", "logicalType": "local-timestamp-millis"},
    {"type": "long", "logicalType": "local-timestamp-micros"},
    {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2},
    {"type": "string", "logicalType": "uuid"},
]
PROMOTIONS = {
    "int": ["long", "float", "double"],
    "long": ["float", "double"],
    "float": ["double"],
    "string": ["bytes"],
    "bytes": ["string"],
}
NAMESPACES = ["n", "m"]
NAMED = ("record", "enum", "fixed")
_UUID = "12345678-1234-1234-1234-1234567890ab"


def kind_of(schema: Any) -> str:
    if isinstance(schema, list):
        return "union"
    return schema if isinstance(schema, str) else str(schema["type"])


def simple(name: str) -> str:
    return name.rpartition(".")[2]


class Evolution:
    """A writer's schema, a reader's made from it by some changes, and values as they lie in the bytes."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.writer = self._record("n.R", 2, {"R"})
        self.reader = copy.deepcopy(self.writer)
        for _ in range(self.random.randint(1, 4)):
            self._change_record(self.reader)
        self.values = [self._value(self.writer) for _ in range(4)]

    def _chance(self, share: float) -> bool:
        return self.random.random() < share

    def _type(self, depth: int, taken: set[str]) -> Any:
        kinds = ["plain", "plain", "logical", "named"]
        if depth:
            kinds += ["union", "union", "union", "record", "array", "map"]
        match self.random.choice(kinds):
            case "plain":
                return self.random.choice(PLAIN)
            case "logical":
                return dict(self.random.choice(LOGICAL))
            case "named":
                return self._enum_or_fixed(taken)
            case "record":
                return self._inner_record(depth - 1, taken)
            case "array":
                return {"type": "array", "items": self._type(depth - 1, taken)}
            case "map":
                return {"type": "map", "values": self._type(depth - 1, taken)}
            case _:
                return self._union(depth - 1, taken)

    def _union(self, depth: int, taken: set[str]) -> Any:
        branches: list[Any] = ["null"] if self._chance(0.6) else []
        for _ in range(self.random.randint(1, 3)):
            self._add_branch(branches, self._type(depth, taken))
        self.random.shuffle(branches)
        return branches or ["null", "int"]

    @staticmethod
    def _add_branch(branches: list[Any], branch: Any) -> bool:
        kind = kind_of(branch)
        again = kind not in NAMED and any(kind_of(each) == kind for each in branches)
        if kind == "union" or again:
            return False
        branches.append(branch)
        return True

    def _name(self, taken: set[str], simples: list[str]) -> str | None:
        names = [f"{space}.{each}" for space in NAMESPACES for each in simples]
        free = [each for each in names if each not in taken]
        if not free:
            return None
        name = self.random.choice(free)
        taken.add(name)
        return name

    def _inner_record(self, depth: int, taken: set[str]) -> Any:
        name = self._name(taken, ["A", "B"])
        return "long" if name is None else self._record(name, depth, taken)

    def _enum_or_fixed(self, taken: set[str]) -> Any:
        if self._chance(0.7):
            name = self._name(taken, ["E", "F"])
            symbols = self.random.sample(["P", "Q", "S"], self.random.randint(1, 3))
            return "string" if name is None else {"type": "enum", "name": name, "symbols": symbols}
        name = self._name(taken, ["X"])
        return "bytes" if name is None else {"type": "fixed", "name": name, "size": 4}

    def _record(self, name: str, depth: int, taken: set[str]) -> Any:
        names = self.random.sample(FIELDS, self.random.randint(1, 3))
        fields = [{"name": each, "type": self._type(depth, taken)} for each in names]
        return {"type": "record", "name": name, "fields": fields}

    def _taken(self) -> set[str]:
        """The names that the reader has: those are not defined again."""
        return set(_names(self.reader))

    def _change_record(self, record: Any) -> None:
        fields = record["fields"]
        names = [each["name"] for each in fields]
        free = [each for each in [*FIELDS, "e", "f"] if each not in names]
        match self.random.choice(["rename", "swap", "add", "alias", "drop", "order", *["type"] * 6]):
            case "rename" if free:
                field = self.random.choice(fields)
                field.setdefault("aliases", []).append(field["name"])
                field["name"] = self.random.choice(free)
            case "swap" if len(fields) > 1:
                one, two = self.random.sample(fields, 2)
                one["name"], two["name"] = two["name"], one["name"]
                if self._chance(0.6):
                    one["aliases"], two["aliases"] = [two["name"]], [one["name"]]
            case "add" if free:
                new = self._type(1, self._taken())
                field = {"name": self.random.choice(free), "type": new, "default": self._default(new)}
                if self._chance(0.6):
                    field["aliases"] = self.random.sample(FIELDS, self.random.randint(1, 2))
                fields.insert(self.random.randint(0, len(fields)), field)
            case "alias":
                field = self.random.choice(fields)
                field["aliases"] = self.random.sample([*FIELDS, "e"], self.random.randint(1, 2))
                if self._chance(0.5):
                    field["default"] = self._default(field["type"])
            case "drop" if len(fields) > 1:
                fields.remove(self.random.choice(fields))
            case "order":
                self.random.shuffle(fields)
            case _:
                field = self.random.choice(fields)
                field["type"] = self._changed(field["type"])
                if "default" in field:
                    field["default"] = self._default(field["type"])

    def _changed(self, schema: Any) -> Any:
        match kind_of(schema):
            case "union":
                return self._changed_union(schema)
            case "record":
                if self._chance(0.4):
                    return self._renamed(schema)
                self._change_record(schema)
            case "enum":
                if self._chance(0.4):
                    return self._renamed(schema)
                schema["symbols"] = self.random.sample(["P", "Q", "S", "T"], self.random.randint(1, 4))
                schema["default"] = schema["symbols"][0]
            case "fixed":
                return self._renamed(schema)
            case "array":
                schema["items"] = self._changed(schema["items"])
            case "map":
                schema["values"] = self._changed(schema["values"])
            case _:
                return self._changed_plain(schema)
        return schema

    def _changed_plain(self, schema: Any) -> Any:
        kind = kind_of(schema)
        choice = self.random.choice(["promote", "logical", "union", "union"])
        if choice == "union":
            branches = [schema]
            return self._changed_union(branches)
        if choice == "logical":
            others = [dict(each) for each in LOGICAL if each["type"] == kind]
            return self.random.choice([*others, kind])
        return self.random.choice([*PROMOTIONS.get(kind, []), schema]) if schema == kind else schema

    def _changed_union(self, branches: list[Any]) -> Any:
        match self.random.choice(["add", "add", "add", "order", "remove", "inner", "inner"]):
            case "add":
                self._add_branch(branches, self._another(branches))
            case "remove" if len(branches) > 1:
                branches.remove(self.random.choice(branches))
            case "inner":
                at = self.random.randrange(len(branches))
                changed = self._changed(copy.deepcopy(branches[at]))
                rest = branches[:at] + branches[at + 1 :]
                if self._add_branch(rest, changed):
                    branches[:] = rest
        self.random.shuffle(branches)
        return branches

    def _another(self, branches: list[Any]) -> Any:
        """A new branch, often one that resembles another: of the same simple name, but not the same."""
        alike = [each for each in branches if kind_of(each) in NAMED]
        taken = self._taken() | set(_names(branches))
        if alike and self._chance(0.6):
            made = copy.deepcopy(self.random.choice(alike))
            names = [f"{space}.{simple(made['name'])}" for space in NAMESPACES]
            free = [each for each in names if each not in taken]
            if free and not (set(_names(made)) - {made["name"]}):
                made["name"] = free[0]
                if made["type"] == "record" and self._chance(0.7):
                    free = [each for each in FIELDS if each not in [f["name"] for f in made["fields"]]]
                    made["fields"].append({"name": self.random.choice(free), "type": "int", "default": 9})
                return made
        return self.random.choice(["null", self._type(1, taken)])

    def _renamed(self, schema: Any) -> Any:
        old = schema["name"]
        pool = {"record": ["A", "B", "C"], "enum": ["E", "F", "G"], "fixed": ["X", "Y"]}[schema["type"]]
        name = self._name(self._taken(), pool)
        if name is not None:
            schema["name"] = name
            if self._chance(0.8):
                schema["aliases"] = [old]
        return schema

    def _default(self, schema: Any) -> Any:
        match kind_of(schema):
            case "union":
                return self._default(schema[0] if self._chance(0.7) else self.random.choice(schema))
            case "record":
                return {each["name"]: self._default(each["type"]) for each in schema["fields"]}
            case "array":
                return []
            case "map":
                return {}
            case "enum":
                return self.random.choice(schema["symbols"])
            case "fixed":
                return "abcd"
            case "null":
                return None
            case "boolean":
                return True
            case "string":
                return _UUID
            case "bytes":
                return "\x01"
            case _:
                return self.random.randint(-1, 0) + 2

    def _value(self, schema: Any) -> Any:
        match kind_of(schema):
            case "union":
                index = self.random.randrange(len(schema))
                return index, self._value(schema[index])
            case "record":
                return {each["name"]: self._value(each["type"]) for each in schema["fields"]}
            case "array":
                return [self._value(schema["items"]) for _ in range(self.random.randint(0, 2))]
            case "map":
                return {key: self._value(schema["values"]) for key in "kl"[: self.random.randint(0, 2)]}
            case "enum":
                return self.random.choice(schema["symbols"])
            case "fixed":
                return self.random.randbytes(4)
            case "null":
                return None
            case "boolean":
                return self._chance(0.5)
            case "string":
                return _UUID if self._chance(0.7) else self.random.choice(["", "text", "\u00e9"])
            case "bytes":
                return self.random.choice([b"\x01", b"\x02\x03", b"A"])
            case "float" | "double":
                return self.random.choice([0.5, -2.0, 1024.25, math.inf])
            case _:
                return self.random.randint(0, 60_000)


def _names(schema: Any) -> list[str]:
    match kind_of(schema):
        case "union":
            return [name for each in schema for name in _names(each)]
        case "record":
            return [schema["name"], *(name for each in schema["fields"] for name in _names(each["type"]))]
        case "enum" | "fixed":
            return [schema["name"]]
        case "array":
            return _names(schema["items"])
        case "map":
            return _names(schema["values"])
        case _:
            return []
