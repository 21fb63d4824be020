"""Aliases of contracts, remembered: hardly anyone has one, and every request must ask."""

from __future__ import annotations

from dragoman.core.database import Transaction
from dragoman.registry.engine import Engine
from dragoman.registry.name import ContractName, parse_name
from dragoman.registry.store import settings


class Aliases:
    """All aliases, read again after any change of settings here or on another node."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._known: dict[ContractName, ContractName] | None = None
        self._generation = 0
        engine.on_change(self._forget)

    async def follow(self, name: ContractName) -> ContractName:
        """The contract that a name stands for; aliases of aliases are not followed."""
        known = self._known
        if known is None:
            generation = self._generation
            known = await self._engine.read(_everything)
            if generation == self._generation:
                self._known = known
        return known.get(name, name)

    def _forget(self, name: ContractName) -> None:
        if not name.contract:
            self._generation += 1
            self._known = None


def _everything(tx: Transaction) -> dict[ContractName, ContractName]:
    return {
        name: parse_name(own.alias, name.context)
        for name, own, _ in settings.everything(tx)
        if own is not None and own.alias
    }
