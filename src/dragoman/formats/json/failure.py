"""What a validator says, as our errors: the place in the message, the rule, and no payload."""

from __future__ import annotations

from typing import Any, NoReturn

import jsonschema_rs

from dragoman.core.errors import ConstraintViolated, MessageError
from dragoman.formats.json.document import pointer

_CONSTRAINTS = frozenset(
    {
        "BacktrackLimitExceeded",
        "Contains",
        "ContentEncoding",
        "ContentMediaType",
        "ExclusiveMaximum",
        "ExclusiveMinimum",
        "Format",
        "MaxItems",
        "MaxLength",
        "MaxProperties",
        "Maximum",
        "MinItems",
        "MinLength",
        "MinProperties",
        "Minimum",
        "MultipleOf",
        "Pattern",
        "PropertyNames",
        "RegexEngineFailure",
        "UniqueItems",
    }
)


def fail(validator: jsonschema_rs.Validator, value: Any, error: type[MessageError]) -> NoReturn:
    """Raise for an invalid value: ``ConstraintViolated`` if only constraints fail, else ``error``."""
    try:
        found = list(validator.iter_errors(value))
    except (ValueError, UnicodeError) as problem:
        raise error("The value is not JSON.", next=str(problem)) from None
    structural = [each for each in found if type(each.kind).__name__ not in _CONSTRAINTS]
    if not found:
        raise error("The value does not fit the schema.")
    first = (structural or found)[0]
    chosen = error if structural else ConstraintViolated
    raise chosen(
        _sentence(first),
        next="Send what the schema allows, or register a schema that allows this.",
        pointer=pointer(first.instance_path) or "/",
        schema=pointer(first.schema_path) or "/",
        more=len(found) - 1 or None,
    )


def _sentence(error: jsonschema_rs.ValidationError) -> str:
    """Says which rule failed and names schema values only: payloads do not belong in logs."""
    kind: Any = error.kind
    match type(kind).__name__:
        case "Required":
            return f"The property {kind.property!r} is missing."
        case "Type":
            return f"The value is not of type {' or '.join(kind.types)}."
        case "AdditionalProperties" | "UnevaluatedProperties":
            return f"The properties {', '.join(map(repr, kind.unexpected[:5]))} are not allowed."
        case "Enum" | "Constant":
            return "The value is not one of those allowed."
        case "AnyOf" | "OneOfNotValid":
            return "The value fits none of the alternatives."
        case "OneOfMultipleValid":
            return "The value fits more than one of the alternatives."
        case "FalseSchema":
            return "No value is allowed here."
        case name:
            limit = getattr(kind, "limit", None)
            return f"The value violates {kind.name or name}{'' if limit is None else f' {limit}'}."
