"""Payments: the credit institute refuses some of them, at random, and all that are not covered."""

from __future__ import annotations

import os
import random

from dragoman import Transaction, endpoint

from .chaos import strike
from .records import PaymentCommand, PaymentRefused, PaymentReply

TABLES = (
    "CREATE TABLE IF NOT EXISTS accounts (card TEXT PRIMARY KEY, balance INTEGER NOT NULL)",
    "CREATE TABLE IF NOT EXISTS payments (session TEXT PRIMARY KEY, card TEXT, total INTEGER NOT NULL)",
    "INSERT OR IGNORE INTO accounts VALUES ('4711', 100000), ('poor', 5)",
)
REFUSED = float(os.environ.get("T2_REFUSED", "0.1"))


@endpoint("t2.payment", group="t2-payment", raises=[PaymentRefused])
def payment(command: PaymentCommand, tx: Transaction) -> PaymentReply:
    if random.random() < REFUSED:
        raise PaymentRefused("The credit institute is in a bad mood.")
    found = tx.execute("SELECT balance FROM accounts WHERE card = ?", (command.card_number,))
    if not found:
        raise PaymentRefused("There is no such card.")
    left = int(found[0][0]) - command.total
    if left < 0:
        raise PaymentRefused("The card is not covered.")
    tx.execute("UPDATE accounts SET balance = ? WHERE card = ?", (left, command.card_number))
    tx.execute(
        "INSERT INTO payments VALUES (?, ?, ?)", (command.session_id, command.card_number, command.total)
    )
    strike("PAY")
    return PaymentReply(left)
