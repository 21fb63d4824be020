"""Options written in a URL's query, each read by its own function."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from dragoman.core.broker import Subscription
from dragoman.core.errors import ConfigurationError
from dragoman.core.loading import query_of, redacted

READ_AHEAD_BYTES = 64 << 20
"""How much a connection fetches before it is handled, where the URL does not say otherwise."""


def read_options(url: str, readers: Mapping[str, Callable[[str], Any]]) -> dict[str, Any]:
    """The options that were given. Unknown ones, and values that cannot be read, are refused."""
    options: dict[str, Any] = {}
    for name, text in query_of(url).items():
        if name not in readers:
            raise ConfigurationError(
                f"{redacted(url)!r} has the unknown option {name!r}.",
                code="configuration.option",
                next=f"Known options: {', '.join(sorted(readers)) or 'none'}.",
            )
        try:
            options[name] = readers[name](text)
        except ValueError as error:
            raise ConfigurationError(
                f"The option {name} cannot be {text!r}: {error}",
                code="configuration.option",
                next="Correct it in the URL.",
                url=redacted(url),
            ) from error
    return options


def positive(text: str) -> float:
    """Seconds or the like, more than nothing."""
    number = float(text)
    if not 0 < number < float("inf"):
        raise ValueError("a number above zero is needed.")
    return number


def positive_int(text: str) -> int:
    number = int(text)
    if number < 1:
        raise ValueError("a whole number above zero is needed.")
    return number


def one_of(*choices: str) -> Callable[[str], str]:
    def choose(text: str) -> str:
        if text not in choices:
            raise ValueError(f"choose one of {', '.join(choices)}.")
        return text

    return choose


def refuse_options(subscription: Subscription) -> None:
    """For a broker whose subscriptions have no options of their own."""
    if subscription.options:
        raise ConfigurationError(
            f"Unknown options for a subscription: {', '.join(sorted(subscription.options))}.",
            code="configuration.option",
            next="This broker has none.",
            group=subscription.group,
        )
