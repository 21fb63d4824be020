"""Fills in what a reader's schema has a default for and an older document lacks.

Only where a schema holds whatever the value: the root, properties, items, ``allOf`` and references. What
an alternative or a condition would default is not known before one is chosen.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from dragoman.formats.json.link import Linked, Place
from dragoman.formats.json.model import MISSING, Model
from dragoman.formats.json.node import Array, Combined, Criterion, Node, Object


@dataclass(eq=False, slots=True)
class Plan:
    """What to fill in at one node. ``parts`` hold for the same value."""

    required: dict[str, Any] = field(default_factory=dict)
    optional: dict[str, Any] = field(default_factory=dict)
    properties: dict[str, Plan] = field(default_factory=dict)
    rest: Plan | None = None
    items: tuple[Plan, ...] = ()
    further: Plan | None = None
    parts: tuple[Plan, ...] = ()

    def children(self) -> list[Plan]:
        one = [each for each in (self.rest, self.further) if each is not None]
        return [*self.properties.values(), *self.items, *self.parts, *one]


def plan_of(linked: Linked) -> Plan | None:
    """The plan of a schema, or ``None`` if it has no default that could be filled in."""
    model = Model(linked)
    plans: dict[Node, Plan] = {}
    pending = [model.root]
    root = plans[model.root] = Plan()
    while pending:
        node = pending.pop()
        for child in _fill_in(model, node, plans[node], plans):
            pending.append(child)
    return root if any(plan.required or plan.optional for plan in plans.values()) else None


def _fill_in(model: Model, node: Node, plan: Plan, plans: dict[Node, Plan]) -> list[Node]:
    """Complete one plan; the nodes met here for the first time."""
    met: list[Node] = []

    def of(child: Place | Node) -> Plan:
        inner = model.at(child)
        if inner not in plans:
            plans[inner] = Plan()
            met.append(inner)
        return plans[inner]

    if isinstance(node, Object):
        for name, place in node.properties.items():
            default = model.default(place)
            if default is not MISSING:
                (plan.required if name in node.required else plan.optional)[name] = default
            plan.properties[name] = of(place)
        if node.rest is not None and node.rest.certain and not node.patterns:
            plan.rest = of(node.rest.place)
    elif isinstance(node, Array):
        plan.items = tuple(of(place) for place in node.prefix)
        if node.rest is not None and node.rest.certain:
            plan.further = of(node.rest.place)
    elif isinstance(node, Combined) and node.criterion is Criterion.ALL:
        plan.parts = tuple(of(branch) for branch in node.branches)
    return met


def fill(plan: Plan, value: Any, *, optional: bool) -> None:
    """Fill in required properties, or with ``optional`` the others, in place."""
    pending: list[tuple[Plan, Any]] = [(plan, value)]
    entered: set[tuple[int, int]] = set()
    while pending:
        current, each = pending.pop()
        if current.parts:
            if (id(current), id(each)) in entered:
                continue
            entered.add((id(current), id(each)))
            pending += [(part, each) for part in current.parts]
        if isinstance(each, dict):
            defaults: Mapping[str, Any] = current.optional if optional else current.required
            for name, default in defaults.items():
                if name not in each:
                    each[name] = copy.deepcopy(default)
            for name, inner in each.items():
                below = current.properties.get(name, current.rest)
                if below is not None:
                    pending.append((below, inner))
        elif isinstance(each, list):
            pending += zip(current.items, each, strict=False)
            if current.further is not None:
                pending += [(current.further, inner) for inner in each[len(current.items) :]]
