"""The inventory: units on the shelf, reserved, and sold."""

from __future__ import annotations

from dragoman import Transaction, endpoint

from .chaos import strike
from .records import InventoryCommand, InventoryReply, InventoryVerb, OutOfStock

TABLES = (
    "CREATE TABLE IF NOT EXISTS products (name TEXT PRIMARY KEY, units INTEGER, sold INTEGER)",
    "CREATE TABLE IF NOT EXISTS reservations (session TEXT PRIMARY KEY, product TEXT, units INTEGER)",
    "INSERT OR IGNORE INTO products VALUES ('tea', 1000, 0), ('gold', 3, 0)",
)


@endpoint("t2.inventory", group="t2-inventory", raises=[OutOfStock])
def inventory(command: InventoryCommand, tx: Transaction) -> InventoryReply:
    mine = tx.execute("SELECT units FROM reservations WHERE session = ?", (command.session_id,))
    reserved = int(mine[0][0]) if mine else 0
    if command.verb is InventoryVerb.RESERVE:
        left = _on_shelf(tx, command.product)
        if left < command.units:
            raise OutOfStock(command.product, left)
        row = (command.session_id, command.product, command.units)
        tx.execute("INSERT INTO reservations VALUES (?, ?, ?)", row)
        _change(tx, command.product, units=-command.units)
    else:
        tx.execute("DELETE FROM reservations WHERE session = ?", (command.session_id,))
        if command.verb is InventoryVerb.RELEASE:
            _change(tx, command.product, units=reserved)
        else:
            _change(tx, command.product, sold=reserved)
    strike(command.verb.value)
    return InventoryReply(_on_shelf(tx, command.product))


def _on_shelf(tx: Transaction, product: str) -> int:
    found = tx.execute("SELECT units FROM products WHERE name = ?", (product,))
    return int(found[0][0]) if found else 0


def _change(tx: Transaction, product: str, units: int = 0, sold: int = 0) -> None:
    tx.execute(
        "UPDATE products SET units = units + ?, sold = sold + ? WHERE name = ?", (units, sold, product)
    )
