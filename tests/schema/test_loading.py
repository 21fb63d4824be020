"""URLs: what they load, and what of them may be shown."""

from __future__ import annotations

import pytest

from dragoman.core.errors import ConfigurationError
from dragoman.core.loading import BROKERS, load, redacted, scheme_of


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("postgresql://ada:secret@host/db", "postgresql://ada:***@host/db"),
        (
            "kafka://host:9092/?sasl.password=secret&linger.ms=5",
            "kafka://host:9092/?sasl.password=***&linger.ms=5",
        ),
        ("sqlite://registry.db?timeout=5", "sqlite://registry.db?timeout=5"),
        ("http://user@host", "http://user@host"),
        ("ada:secret@host/db", "ada:***@host/db"),
    ],
)
def test_secrets_are_not_shown(url: str, shown: str) -> None:
    assert redacted(url) == shown


def test_an_unknown_scheme_is_refused_with_those_that_exist() -> None:
    with pytest.raises(ConfigurationError) as caught:
        load(BROKERS, "pigeon")
    assert "embedded" in caught.value.next


def test_what_is_no_url_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="not a URL"):
        scheme_of("localhost")
