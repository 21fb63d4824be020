"""How contracts are called."""

from __future__ import annotations

import pytest

from dragoman.schema.naming import Naming, channel_of


@pytest.mark.parametrize(
    ("naming", "value", "key"),
    [
        (Naming.CHANNEL, "orders-value", "orders-key"),
        (Naming.RECORD, "shop.Order", "shop.Order"),
        (Naming.CHANNEL_RECORD, "orders-shop.Order", "orders-shop.Order"),
    ],
)
def test_a_contract_is_named_after_channel_or_record(naming: Naming, value: str, key: str) -> None:
    assert naming.for_value("orders", "shop.Order") == value
    assert naming.for_key("orders", "shop.Order") == key


@pytest.mark.parametrize(
    ("contract", "channel"),
    [
        ("orders-value", "orders"),
        ("orders-key", "orders"),
        ("shop.Order", "shop.Order"),
        ("-value", "-value"),
        ("a-value-key", "a-value"),
    ],
)
def test_the_default_name_tells_the_channel(contract: str, channel: str) -> None:
    assert channel_of(contract) == channel
