"""What the registry's HTTP interface can do: every operation and the shapes of its bodies."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

Json = dict[str, Any]

STRING: Json = {"type": "string"}
INTEGER: Json = {"type": "integer"}
BOOLEAN: Json = {"type": "boolean"}
STRINGS: Json = {"type": "array", "items": STRING}
INTEGERS: Json = {"type": "array", "items": INTEGER}


@dataclass(frozen=True, slots=True)
class Parameter:
    name: str
    place: Literal["path", "query"]
    description: str
    schema: Json


@dataclass(frozen=True, slots=True)
class Operation:
    method: str
    path: str
    name: str
    summary: str
    tag: str
    parameters: tuple[Parameter, ...] = ()
    body: str | Json | None = None
    answer: str | Json | None = None
    media_type: str = "application/json"
    error_media_type: str | None = None


def _flag(name: str, description: str) -> Parameter:
    return Parameter(name, "query", description, BOOLEAN)


NAME = Parameter("name", "path", "The contract's name.", {"type": "string", "minLength": 1})
VERSION = Parameter(
    "version", "path", "A number, or latest.", {"type": "string", "pattern": "^([1-9][0-9]{0,8}|latest)$"}
)
ID = Parameter("id", "path", "The schema's id.", {"type": "integer", "minimum": 1, "maximum": 2147483647})
CHANNEL = Parameter("channel", "path", "The channel's name.", {"type": "string", "minLength": 1})
NORMALIZE = _flag("normalize", "Apply level-2 normalisation first.")
PERMANENT = _flag("permanent", "The second step: gone for good.")
OFFSET = Parameter("offset", "query", "How many to skip.", INTEGER)
LIMIT = Parameter("limit", "query", "How many at most; negative for all.", INTEGER)
PREFIX = Parameter("prefix", "query", "How the names start.", STRING)

SHAPES: dict[str, Json] = {
    "Error": {
        "type": "object",
        "required": ["error_code", "message"],
        "properties": {
            "error_code": INTEGER,
            "message": STRING,
            "code": STRING,
            "where": {"type": "object"},
            "next": STRING,
            "reasons": {"type": "array", "items": {"$ref": "#/components/schemas/Reason"}},
        },
    },
    "Reference": {
        "type": "object",
        "required": ["name", "contract", "version"],
        "properties": {"name": STRING, "contract": STRING, "version": INTEGER},
    },
    "SchemaBody": {
        "type": "object",
        "required": ["schema"],
        "properties": {
            "type": {"type": "string", "enum": ["AVRO", "JSON", "PROTOBUF", "THRIFT"], "default": "AVRO"},
            "schema": STRING,
            "references": {"type": "array", "items": {"$ref": "#/components/schemas/Reference"}},
            "metadata": {"type": "object"},
        },
    },
    "Schema": {
        "type": "object",
        "required": ["id", "type", "schema"],
        "properties": {
            "id": INTEGER,
            "type": STRING,
            "schema": STRING,
            "guid": STRING,
            "fingerprint": {"type": ["string", "null"]},
            "references": {"type": "array", "items": {"$ref": "#/components/schemas/Reference"}},
            "metadata": {"type": "object"},
        },
    },
    "Version": {
        "allOf": [
            {"$ref": "#/components/schemas/Schema"},
            {
                "type": "object",
                "required": ["contract", "version", "schemaID"],
                "properties": {"contract": STRING, "version": INTEGER, "schemaID": INTEGER},
            },
        ]
    },
    "Contract": {
        "type": "object",
        "required": ["name", "channel", "compatibility", "version", "updateOrder"],
        "properties": {
            "name": STRING,
            "channel": STRING,
            "compatibility": STRING,
            "version": INTEGER,
            "updateOrder": {"enum": ["consumer first", "producer first", "any", "undefined"]},
            "channels": STRINGS,
        },
    },
    "CompatibilityBody": {
        "type": "object",
        "required": ["compatibility"],
        "properties": {"compatibility": STRING},
    },
    "Success": {"type": "object", "required": ["success"], "properties": {"success": BOOLEAN}},
    "Reason": {
        "type": "object",
        "required": ["rule", "message"],
        "properties": {
            "rule": STRING,
            "message": STRING,
            "readerPath": STRING,
            "writerPath": STRING,
            "counterexample": {"type": ["string", "null"]},
        },
    },
    "Verdict": {
        "type": "object",
        "required": ["compatible", "reasons"],
        "properties": {
            "compatible": BOOLEAN,
            "version": {"type": ["integer", "null"]},
            "reasons": {"type": "array", "items": {"$ref": "#/components/schemas/Reason"}},
        },
    },
    "Versions": {"type": "object", "required": ["versions"], "properties": {"versions": INTEGERS}},
    "Status": {"type": "object", "required": ["status"], "properties": {"status": STRING}},
}

CONTRACTS: tuple[Operation, ...] = (
    Operation("GET", "/schemas/{id}", "getSchema", "A schema by its id.", "schemas", (ID,), answer="Schema"),
    Operation(
        "GET",
        "/contracts",
        "listContracts",
        "Names of all contracts.",
        "contracts",
        (PREFIX, OFFSET, LIMIT),
        answer=STRINGS,
    ),
    Operation(
        "GET",
        "/contracts/{name}",
        "getContract",
        "A contract as it stands.",
        "contracts",
        (NAME,),
        answer="Contract",
    ),
    Operation(
        "POST",
        "/contracts/{name}",
        "register",
        "Register a schema: the version that has it, made if need be.",
        "contracts",
        (NAME, NORMALIZE),
        "SchemaBody",
        "Version",
    ),
    Operation(
        "DELETE",
        "/contracts/{name}",
        "deleteContract",
        "Hide a contract; then, permanently, remove it.",
        "contracts",
        (NAME, PERMANENT),
        answer="Versions",
    ),
    Operation(
        "GET",
        "/contracts/{name}/versions",
        "listVersions",
        "Numbers of a contract's versions.",
        "contracts",
        (NAME, OFFSET, LIMIT),
        answer=INTEGERS,
    ),
    Operation(
        "POST",
        "/contracts/{name}/versions",
        "find",
        "The version that has this schema.",
        "contracts",
        (NAME, NORMALIZE),
        "SchemaBody",
        "Version",
    ),
    Operation(
        "GET",
        "/contracts/{name}/versions/{version}",
        "getVersion",
        "One version of a contract with its schema.",
        "contracts",
        (NAME, VERSION),
        answer="Version",
    ),
    Operation(
        "DELETE",
        "/contracts/{name}/versions/{version}",
        "deleteVersion",
        "Hide a version; then, permanently, remove it.",
        "contracts",
        (NAME, VERSION, PERMANENT),
        answer="Versions",
    ),
    Operation(
        "POST",
        "/contracts/{name}/compatibility",
        "setCompatibility",
        "Set the compatibility strategy.",
        "contracts",
        (NAME,),
        "CompatibilityBody",
        "Success",
    ),
    Operation(
        "POST",
        "/contracts/{name}/check",
        "check",
        "Would this schema be accepted? Changes nothing.",
        "contracts",
        (
            NAME,
            NORMALIZE,
            Parameter("version", "query", "Compare with this version alone.", VERSION.schema),
        ),
        "SchemaBody",
        "Verdict",
    ),
)

OPERATION: tuple[Operation, ...] = (
    Operation("GET", "/health", "health", "The process answers.", "operation", answer="Status"),
    Operation("GET", "/ready", "ready", "The database answers too.", "operation", answer="Status"),
    Operation("GET", "/metrics", "metrics", "Counters for Prometheus.", "operation", media_type="text/plain"),
)

OPERATIONS: tuple[Operation, ...] = (*CONTRACTS, *OPERATION)
