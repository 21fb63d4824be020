"""What can be offered as a subscriber, and which classes it takes."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

import pytest

from dragoman import record
from dragoman.core.errors import ConfigurationError
from dragoman.topology.subscriber import receive_of, types_of
from tests.topology.records import Note, Price
from tests.topology.world import Inbox

if TYPE_CHECKING:
    from dragoman.topology import Multipart


def on_price(price: Price, multipart: Multipart) -> None:
    """The class of the multipart is not there at run time."""


def on_both(message: Price | Note, multipart: Any) -> None: ...


def on_plain(message: dict[str, Any], multipart: Any) -> None: ...


def with_more(more: int, price: Price, multipart: Any) -> None: ...


class Called:
    def __call__(self, price: Price, multipart: Any) -> None: ...


@functools.wraps(on_price)
def decorated(*arguments: Any) -> None: ...


@pytest.mark.parametrize(
    ("subscriber", "types"),
    [
        (on_price, (Price,)),
        (on_both, (Price, Note)),
        (on_plain, ()),
        (lambda message, multipart: None, ()),
        (Inbox(), (Price,)),
        (Called(), (Price,)),
        (functools.partial(with_more, 1), (Price,)),
        (decorated, (Price,)),
    ],
)
def test_the_classes_are_those_of_the_annotation(subscriber: Any, types: tuple[type, ...]) -> None:
    assert types_of(receive_of(subscriber), None) == types


def test_classes_can_be_named_one_or_several() -> None:
    assert types_of(on_plain, [Price, Note]) == (Price, Note)
    assert types_of(on_plain, Price) == (Price,)


@pytest.mark.parametrize(
    "subscriber", [Inbox, 5, "name", lambda message: None, lambda a, b, c: None, lambda *, a, b: None]
)
def test_what_cannot_be_called_with_a_message_is_refused(subscriber: Any) -> None:
    with pytest.raises(ConfigurationError) as refused:
        receive_of(subscriber)
    assert refused.value.code == "topology.subscriber"


def test_an_annotation_that_nobody_can_resolve_is_not_taken_for_plain_values() -> None:
    @record(namespace="fx")
    class Local:
        text: str

    def on_local(message: Local, multipart: Any) -> None: ...

    with pytest.raises(ConfigurationError, match="'Local'"):
        types_of(on_local, None)
    assert types_of(on_local, [Local]) == (Local,)
