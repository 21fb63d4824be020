"""Orders: made in good faith, rejected if the purchase fails."""

from __future__ import annotations

from dragoman import Transaction, endpoint

from .chaos import strike
from .records import OrderCommand, OrderReply, OrderVerb

TABLES = (
    "CREATE TABLE IF NOT EXISTS orders"
    " (id INTEGER PRIMARY KEY AUTOINCREMENT, session TEXT UNIQUE, status TEXT NOT NULL)",
)


@endpoint("t2.order", group="t2-order")
def order(command: OrderCommand, tx: Transaction) -> OrderReply:
    if command.verb is OrderVerb.CREATE:
        tx.execute("INSERT INTO orders (session, status) VALUES (?, 'SUCCESS')", (command.session_id,))
    else:
        tx.execute("UPDATE orders SET status = 'FAILURE' WHERE session = ?", (command.session_id,))
    found = tx.execute("SELECT id FROM orders WHERE session = ?", (command.session_id,))
    strike(command.verb.value)
    return OrderReply(int(found[0][0]) if found else 0)
