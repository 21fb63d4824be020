"""The page on brokers says what the code says."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path

from dragoman.client.comparison import ROWS, compare, markdown
from dragoman.core.broker import Capabilities
from dragoman.core.loading import BROKERS, load, names

PAGE = Path(__file__).parents[2] / "docs" / "brokers.md"


def test_the_table_of_capabilities_is_the_adapters_own() -> None:
    table = PAGE.read_text().partition("<!-- capabilities -->\n")[2].partition("<!-- /capabilities -->")[0]
    assert table == markdown(compare())


def test_every_capability_and_every_broker_is_in_it() -> None:
    assert set(ROWS) == {field.name for field in fields(Capabilities)}
    adapters = {load(BROKERS, scheme) for scheme in names(BROKERS)}
    for cells in compare().values():
        assert len(cells) == len(adapters)
        assert {load(BROKERS, scheme) for scheme in cells} == adapters
    assert all(f"{scheme}://" in PAGE.read_text() for scheme in names(BROKERS))
