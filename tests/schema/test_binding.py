"""Conversions that several formats share."""

from __future__ import annotations

from decimal import Decimal

import pytest

from dragoman.schema.binding import decimal_text, fitting
from dragoman.schema.types import DecimalType


def test_a_decimal_has_as_many_digits_as_its_type_says() -> None:
    money = DecimalType(38, 2)
    most = Decimal("9" * 36 + ".99")
    assert fitting(money)(most) == most
    conversion = decimal_text(money)
    assert conversion.read is not None
    assert conversion.write is not None
    assert conversion.read(conversion.write(most)) == most
    assert conversion.write(Decimal("1.5")) == "1.50"


@pytest.mark.parametrize(
    "value", [Decimal("1.005"), Decimal("100.00"), Decimal("NaN"), Decimal("Infinity"), 1]
)
def test_a_decimal_that_does_not_fit_is_refused(value: object) -> None:
    with pytest.raises(ValueError, match=r"fit decimal|finite Decimal"):
        fitting(DecimalType(4, 2))(value)


@pytest.mark.parametrize("text", ["NaN", "-Infinity", "sNaN", "much"])
def test_a_text_that_is_no_number_is_no_decimal(text: str) -> None:
    read = decimal_text(DecimalType(4, 2)).read
    assert read is not None
    with pytest.raises(ValueError, match="decimal"):
        read(text)
