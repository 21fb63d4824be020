"""The outbox: messages that are written in the application's transaction, and published after it.

    orders = await client.outbox("orders", Order)
    with client.database.transaction() as tx:
        tx.execute("INSERT INTO carts ...")
        orders.publish(tx, order, key=order.customer)

If the transaction is committed, the message goes out, also after a crash; if not, it never was.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, Generic, TypeVar

from dragoman.client.contracts import Bound
from dragoman.client.headers import MESSAGE_ID, GivenHeaders, expiring, headers_of, new_message_id, text_of
from dragoman.client.keys import plain_key
from dragoman.client.role import Sending
from dragoman.client.sequence.parts import PART, cut
from dragoman.core.clock import Clock
from dragoman.core.database import Transaction
from dragoman.core.log import pack_headers
from dragoman.core.message import Message, header, with_headers

T = TypeVar("T")

_INSERT = """INSERT INTO dragoman_outbox (channel, message_key, payload, headers, created)
    VALUES (?, ?, ?, ?, ?)"""


class Outbox(Generic[T]):
    """Messages of one class for one channel. Synchronous, for use with a transaction, from any thread."""

    def __init__(
        self, channel: str, bound: Bound, tell: Callable[[], None], clock: Clock, sending: Sending
    ) -> None:
        self.channel = channel
        self._bound = bound
        self._tell = tell
        self._clock = clock
        self._sending = sending

    def publish(
        self, tx: Transaction, value: T, *, key: Any = None, headers: GivenHeaders | None = None
    ) -> str:
        """Write the message down; its id. Messages of one key go out in the order they are written.

        Two transactions that write the same key at the same time have no order: lock what they both change
        first. ``key`` is ``str``, ``bytes`` or ``int``. Raises ``EncodeError``, ``ConstraintViolated``.
        """
        pairs = headers_of(headers)
        given = header(pairs, MESSAGE_ID)
        id = new_message_id() if given is None else given
        marks = [(MESSAGE_ID, id)]
        if self._sending.expires_in is not None:
            marks.append(expiring(self._clock.now() + self._sending.expires_in))
        whole = Message(self.channel, self._bound.encode(value), plain_key(key), with_headers(pairs, *marks))
        if self._sending.check_headers is not None:
            self._sending.check_headers(whole.headers)
        for each in cut(whole, PART) if self._sending.in_parts else (whole,):
            tx.execute(
                _INSERT, (each.channel, each.key, each.payload, pack_headers(each.headers), time.time())
            )
        self._tell()
        return text_of(id)
