"""One pair of nodes under judgement: what differs here, and which pairs of children must fit."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

from dragoman.core.format import Policy
from dragoman.formats.json.link import Place
from dragoman.formats.json.model import Model
from dragoman.formats.json.node import Node


class Side(NamedTuple):
    """A node with the model that its children come from."""

    model: Model
    node: Node


class Pair(NamedTuple):
    """``plain`` while a reader may fill in defaults here without upsetting anything around it."""

    reader: Side
    writer: Side
    plain: bool = True


class Step(NamedTuple):
    """How a child lies in the data: a property's name, an item's index, or in place (``None``).

    With ``rest`` it is a property or item beyond the listed ones.
    """

    key: str | int | None = None
    rest: bool = False


IN_PLACE = Step()
OTHER_PROPERTY = Step("", rest=True)
OTHER_ITEM = Step(0, rest=True)


class Difference(NamedTuple):
    rule: str
    message: str
    reader: Place
    writer: Place
    step: Step = IN_PLACE


@dataclass
class Judge:
    """Collects what the comparing functions find about one pair."""

    pair: Pair
    policy: Policy
    fitting: Callable[[Pair], bool]
    differences: list[Difference] = field(default_factory=list)
    needed: list[tuple[Pair, Step]] = field(default_factory=list)
    asked: list[Pair] = field(default_factory=list)

    @property
    def exact(self) -> bool:
        return self.policy is Policy.EXACT

    def reader(self, child: Place | Node) -> Node:
        return self.pair.reader.model.at(child)

    def writer(self, child: Place | Node) -> Node:
        return self.pair.writer.model.at(child)

    def differ(
        self,
        rule: str,
        message: str,
        reader: Place | None = None,
        writer: Place | None = None,
        step: Step = IN_PLACE,
    ) -> None:
        """Note a difference; ``rules.allowed`` says later whether it counts."""
        own = self.pair
        self.differences.append(
            Difference(rule, message, reader or own.reader.node.place, writer or own.writer.node.place, step)
        )

    def need(self, reader: Place | Node, writer: Place | Node, step: Step, plain: bool = False) -> None:
        """The children must fit too; what is wrong with them is reported where they are."""
        self.needed.append((self._child(reader, writer, plain and self.pair.plain), step))

    def fits(self, reader: Place | Node, writer: Place | Node) -> bool:
        """Whether one child fits another, as far as is known by now. Nothing is reported about it."""
        return self._ask(self._child(reader, writer, False))

    def need_reversed(self, reader: Place, writer: Place) -> bool:
        """Whether, under ``not``, the writer's schema takes all of the reader's."""
        own = self.pair
        swapped = Pair(
            Side(own.writer.model, self.writer(writer)), Side(own.reader.model, self.reader(reader)), False
        )
        return self._ask(swapped)

    def _ask(self, pair: Pair) -> bool:
        self.asked.append(pair)
        return self.fitting(pair)

    def _child(self, reader: Place | Node, writer: Place | Node, plain: bool) -> Pair:
        own = self.pair
        return Pair(
            Side(own.reader.model, self.reader(reader)), Side(own.writer.model, self.writer(writer)), plain
        )
