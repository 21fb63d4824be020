"""Codecs are native or in Python, and must not differ: what tests them runs both ways."""

from __future__ import annotations

import pytest
from tests.services.fixtures import missing

from dragoman.formats.avro import AvroFormat
from dragoman.formats.avro.native import BUILT


@pytest.fixture(scope="session")
def native() -> AvroFormat:
    if not BUILT:
        missing("The native codecs were not built: see what `pip install -v .` says.")
    return AvroFormat(native=True)


@pytest.fixture(scope="session")
def python() -> AvroFormat:
    return AvroFormat(native=False)


@pytest.fixture(scope="module", params=["native", "python"])
def both_ways(request: pytest.FixtureRequest) -> None:
    """The module's ``avro`` is the one, then the other."""
    request.module.avro = request.getfixturevalue(request.param)
