"""The seven strategies, on contracts of Avro schemas."""

from __future__ import annotations

import json

import pytest

from dragoman.core.contract import Compatibility, UpdateOrder
from dragoman.core.format import Format, ParsedSchema
from dragoman.core.loading import FORMATS, load
from dragoman.schema.compatibility import Numbered, check

avro: Format = load(FORMATS, "AVRO")()


def version(*fields: str) -> ParsedSchema:
    """``a`` is a field that must be there, ``a=`` one with a default."""
    listed = [
        {"name": name.rstrip("="), "type": "int", **({"default": 0} if name.endswith("=") else {})}
        for name in fields
    ]
    return avro.parse(json.dumps({"type": "record", "name": "R", "fields": listed}))


def history(*versions: ParsedSchema) -> list[Numbered]:
    return [Numbered(number, avro, schema) for number, schema in enumerate(versions, 1)]


ADDED, REMOVED, OPTIONAL = version("a", "b"), version(), version("a", "c=")


@pytest.mark.parametrize(
    ("strategy", "accepted"),
    [
        (Compatibility.NONE, [True, True, True]),
        (Compatibility.BACKWARD, [False, True, True]),
        (Compatibility.FORWARD, [True, False, True]),
        (Compatibility.FULL, [False, False, True]),
        (Compatibility.BACKWARD_TRANSITIVE, [False, True, True]),
        (Compatibility.FORWARD_TRANSITIVE, [True, False, True]),
        (Compatibility.FULL_TRANSITIVE, [False, False, True]),
    ],
)
def test_a_strategy_says_what_may_follow(strategy: Compatibility, accepted: list[bool]) -> None:
    before = history(version("a"))
    assert [check(avro, new, before, strategy).compatible for new in (ADDED, REMOVED, OPTIONAL)] == accepted


def test_only_the_transitive_ones_look_behind_the_latest() -> None:
    before = history(version(), version("a="))
    assert check(avro, version("a"), before, Compatibility.BACKWARD).compatible
    verdict = check(avro, version("a"), before, Compatibility.BACKWARD_TRANSITIVE)
    assert not verdict.compatible
    assert verdict.version == 1
    assert [reason.rule for reason in verdict.reasons] == ["READER_FIELD_MISSING_DEFAULT_VALUE"]


def test_the_first_version_may_be_anything() -> None:
    assert check(avro, version("a"), [], Compatibility.FULL_TRANSITIVE).compatible


def test_another_schema_type_never_follows() -> None:
    class Other:
        schema_type = "OTHER"

    older = Numbered(3, Other(), version("a"))  # type: ignore[arg-type]
    verdict = check(avro, version("a"), [older], Compatibility.BACKWARD)
    assert (verdict.compatible, verdict.version) == (False, 3)
    assert verdict.reasons[0].rule == "SCHEMA_TYPE_CHANGED"


def test_a_strategy_tells_who_is_updated_first() -> None:
    assert {each: each.update_order for each in Compatibility} == {
        Compatibility.NONE: UpdateOrder.UNDEFINED,
        Compatibility.BACKWARD: UpdateOrder.CONSUMER_FIRST,
        Compatibility.BACKWARD_TRANSITIVE: UpdateOrder.CONSUMER_FIRST,
        Compatibility.FORWARD: UpdateOrder.PRODUCER_FIRST,
        Compatibility.FORWARD_TRANSITIVE: UpdateOrder.PRODUCER_FIRST,
        Compatibility.FULL: UpdateOrder.ANY,
        Compatibility.FULL_TRANSITIVE: UpdateOrder.ANY,
    }
