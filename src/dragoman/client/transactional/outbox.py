"""The outbox: messages that are written in the application's transaction, and published after it.

    orders = await client.outbox("orders", Order)
    with client.database.transaction() as tx:
        tx.execute("INSERT INTO carts ...")
        orders.publish(tx, order, key=order.customer)

If the transaction is committed, the message goes out, also after a crash; if not, it never was.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable
from typing import Any, Generic, TypeVar

from dragoman.client.contracts import Bound
from dragoman.client.headers import MESSAGE_ID, GivenHeaders, headers_of
from dragoman.client.keys import plain_key
from dragoman.core.database import Transaction
from dragoman.core.log import pack_headers
from dragoman.core.message import header, with_headers

T = TypeVar("T")


class Outbox(Generic[T]):
    """Messages of one class for one channel. Synchronous, for use with a transaction, from any thread."""

    def __init__(self, channel: str, bound: Bound, tell: Callable[[], None]) -> None:
        self.channel = channel
        self._bound = bound
        self._tell = tell

    def publish(
        self, tx: Transaction, value: T, *, key: Any = None, headers: GivenHeaders | None = None
    ) -> str:
        """Write the message down; its id. Messages of one key go out in the order they are written.

        Two transactions that write the same key at the same time have no order: lock what they both change
        first. ``key`` is ``str``, ``bytes`` or ``int``. Raises ``EncodeError``, ``ConstraintViolated``.
        """
        pairs = headers_of(headers)
        given = header(pairs, MESSAGE_ID)
        id = secrets.token_hex(16).encode() if given is None else given
        packed = pack_headers(with_headers(pairs, (MESSAGE_ID, id)))
        tx.execute(
            "INSERT INTO dragoman_outbox (channel, message_key, payload, headers, created)"
            " VALUES (?, ?, ?, ?, ?)",
            (self.channel, plain_key(key), self._bound.encode(value), packed, time.time()),
        )
        self._tell()
        return id.decode()
