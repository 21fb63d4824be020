"""Message keys: plain ones are written as text, records under the channel's key contract."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dragoman.core.errors import DecodeError, EncodeError


def plain_key(key: Any) -> bytes | None:
    """Text in UTF-8, whole numbers in decimal digits, bytes as they are."""
    match key:
        case None | bytes():
            return key
        case str():
            return key.encode()
        case bool():
            pass
        case int():
            return str(key).encode()
    raise EncodeError(
        f"{type(key).__name__} is not a key.", code="message.key", next="Use str, bytes, int or a record."
    )


def plain_reader(wanted: tuple[Any, ...], optional: bool) -> Callable[[bytes | None], Any]:
    """How an endpoint's key parameter is read from the bytes."""
    read = next(_READERS[each] for each in wanted)

    def reader(key: bytes | None) -> Any:
        if key is None:
            if optional:
                return None
            raise no_key()
        try:
            return read(key)
        except ValueError as error:
            raise DecodeError(
                "The key is not of the endpoint's type.",
                code="message.key",
                next="Does the sender write it in another way?",
            ) from error

    return reader


def no_key() -> DecodeError:
    return DecodeError(
        "The message has no key.", code="message.key", next="Annotate the parameter as X | None."
    )


_READERS: dict[Any, Callable[[bytes], Any]] = {str: bytes.decode, bytes: bytes, int: int}
