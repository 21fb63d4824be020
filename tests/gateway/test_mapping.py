"""Between datums and records: whatever a record holds comes back, and wrong data says where it is wrong."""

from __future__ import annotations

from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from typing import Annotated
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman import record
from dragoman.core.errors import ConstraintViolated, DecodeError, EncodeError
from dragoman.gateway.envelope import datum, from_data, from_json, request, to_data, to_json
from dragoman.schema.markers import Aliases, Duration, Float, Int, Max, Min, decimal, fixed, timestamp, uuid


class Side(Enum):
    BUY = 1
    SELL = 2


@record
class Leg:
    share: str
    side: Side
    next: Leg | None = None


@record
class Everything:
    flag: bool
    small: Int
    large: int
    number: float
    single: Float
    raw: bytes
    text: str
    price: Annotated[Decimal, decimal(12, 3)]
    day: date
    at: time
    moment: datetime
    local: Annotated[datetime, timestamp(local=True)]
    id: UUID
    id_text: Annotated[str, uuid()]
    calendar: Duration
    elapsed: timedelta
    code: Annotated[bytes, fixed(3)]
    leg: Leg
    legs: list[Leg]
    names: set[str]
    rates: dict[str, float]
    maybe: str | None
    several: int | str | Leg | None
    holes: list[str | None]
    matrix: list[list[int]]
    note: str | None = "none"
    tags: list[str] = []  # noqa: RUF012 -- a record copies its defaults


texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
legs = st.builds(Leg, texts, st.sampled_from(Side))
for _ in range(4):
    legs = st.builds(Leg, texts, st.sampled_from(Side), st.none() | legs)
moments = st.datetimes(datetime(2, 1, 1), datetime(9998, 1, 1))
everything = st.builds(
    Everything,
    flag=st.booleans(),
    small=st.integers(-(2**31), 2**31 - 1),
    large=st.integers(-(2**63), 2**63 - 1),
    number=st.floats(allow_nan=False),
    single=st.floats(width=32, allow_nan=False),
    raw=st.binary(max_size=8),
    text=texts,
    price=st.decimals(-999_999_999, 999_999_999, places=3),
    day=st.dates(),
    at=st.times(),
    moment=moments.map(lambda each: each.replace(tzinfo=UTC)),
    local=moments,
    id=st.uuids(),
    id_text=st.uuids().map(str),
    calendar=st.builds(Duration, *[st.integers(0, 2**32 - 1)] * 3),
    elapsed=st.integers(0, 10**12).map(lambda each: timedelta(milliseconds=each)),
    code=st.binary(min_size=3, max_size=3),
    leg=legs,
    legs=st.lists(legs, max_size=2),
    names=st.sets(texts, max_size=3),
    rates=st.dictionaries(texts, st.floats(allow_nan=False), max_size=3),
    maybe=st.none() | texts,
    several=st.none() | st.integers(-(2**63), 2**63 - 1) | texts | legs,
    holes=st.lists(st.none() | texts, max_size=3),
    matrix=st.lists(st.lists(st.integers(-5, 5), max_size=2), max_size=2),
    note=st.none() | texts,
    tags=st.lists(texts, max_size=2),
)


@given(everything)
def test_a_record_comes_back_as_it_was(value: Everything) -> None:
    assert from_data(to_data(value), Everything) == value


@given(everything)
def test_a_record_travels_in_an_envelope(value: Everything) -> None:
    envelope = request("service.x", "insert", data=value, client_id="c")
    assert from_data(from_json(to_json(envelope)).data, Everything) == value


def test_texts_are_what_people_would_write() -> None:
    @record
    class Trade:
        shares: int
        price: Annotated[Decimal, decimal(10, 2)]
        at: datetime
        done: bool
        note: str | None = None

    at = datetime(2026, 5, 4, 13, 30, tzinfo=UTC)
    assert to_data(Trade(3, Decimal("1.5"), at, True)) == [
        datum("shares", "3"),
        datum("price", "1.50"),
        datum("at", "2026-05-04T13:30:00.000000+00:00"),
        datum("done", "true"),
    ]


@record
class Plain:
    count: Annotated[int, Min(0), Max(10)]
    name: Annotated[str, Aliases("title")] = "x"
    at: datetime | None = None
    either: int | str = 0
    items: list[int] = []  # noqa: RUF012 -- a record copies its defaults


@pytest.mark.parametrize(
    ("data", "place"),
    [
        ([], "count"),
        ([datum("count", "")], "count"),
        ([datum("count", " 1")], "count"),
        ([datum("count", "1_0")], "count"),
        ([datum("count", "٣")], "count"),
        ([datum("count", "9" * 30)], "count"),
        ([datum("count", "99")], "count"),
        ([datum("count", [])], "count"),
        ([datum("count", "1"), datum("count", "2")], "count"),
        ([datum("count", "1"), datum("at", "2026-01-01T00:00:00")], "at"),
        ([datum("count", "1"), datum("at", "yesterday")], "at"),
        ([datum("count", "1"), datum("either", "7")], "either"),
        ([datum("count", "1"), datum("either", "seven", "long")], "either"),
        ([datum("count", "1"), datum("items", "[1,2]")], "items"),
        ([datum("count", "1"), datum("items", [datum("item", "x")])], "items[]"),
    ],
)
def test_data_that_does_not_fit_says_where(data, place: str) -> None:
    with pytest.raises((DecodeError, ConstraintViolated)) as caught:
        from_data(data, Plain)
    assert caught.value.where["field"] == place


def test_unknown_data_is_passed_over_and_former_names_are_read() -> None:
    data = [datum("title", "y"), datum("count", "1"), datum("colour", "red"), datum("either", "7", "string")]
    assert from_data(data, Plain) == Plain(1, "y", None, "7")


def test_what_is_not_of_its_type_is_not_written() -> None:
    for wrong in (Plain("1"), Plain(True), Plain(1, either=[]), Plain(1, items=(1,))):
        with pytest.raises(EncodeError):
            to_data(wrong)
    with pytest.raises(ConstraintViolated):
        to_data(Plain(11))


def test_a_record_nested_without_end_is_refused() -> None:
    leg = Leg("a", Side.BUY)
    for _ in range(2_000):
        leg = Leg("a", Side.BUY, leg)
    with pytest.raises(EncodeError, match="deep"):
        to_data(leg)


def test_data_nested_deeper_than_allowed_is_not_read() -> None:
    data = [datum("share", "a"), datum("side", "BUY")]
    for _ in range(100):
        data = [datum("share", "a"), datum("side", "BUY"), datum("next", data)]
    with pytest.raises(DecodeError, match="deep"):
        from_data(data, Leg)
