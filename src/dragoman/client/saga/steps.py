"""What a saga is: steps in order, each a command to a participant, with what undoes it.

    CHECKOUT = Saga(
        "checkout",
        Checkout,
        (
            Step("order", "order.commands", create_order, compensation=reject_order),
            Step("payment", "payment.commands", take_payment, pivot=True),
            Step("inventory", "inventory.commands", commit_reservations),
        ),
    )

Before the pivot a step that fails has all earlier ones undone. Once the pivot is done there is no way back:
the steps behind it are repeated until they succeed.
"""

from __future__ import annotations

import typing
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from dragoman.client.arguments import at_least, require, several
from dragoman.client.options import RetryOptions
from dragoman.core.channel import check_name
from dragoman.core.errors import ConfigurationError
from dragoman.schema.records import is_record

D = TypeVar("D")

_PATIENT = RetryOptions(attempts=10, delay=1.0, longest=60.0)


@dataclass(frozen=True, slots=True)
class Step(Generic[D]):
    """``action`` and ``compensation`` make a command from the saga's data; their annotations name its class.

    Both go to the same channel under the same key, so that what undoes never overtakes what does; one record
    class with a field that tells which it is fits the channel's contract.

    A participant is an ordinary endpoint on the channel that is given a transaction and returns its reply.
    A declared error (``raises``) is the answer no. ``take`` changes the saga's data by a reply, which it gets
    as plain Python.
    """

    name: str
    channel: str
    action: Callable[[D], Any]
    compensation: Callable[[D], Any] | None = None
    take: Callable[[D, dict[str, Any]], D] | None = None
    pivot: bool = False
    leaves_no_trace: bool = False
    """It only looks at something, so it needs no compensation."""
    timeout: float = 30.0
    """Seconds until a command that was not answered is sent again; participants handle it once only."""
    retry: RetryOptions = field(default_factory=lambda: _PATIENT)
    """How often a command is sent again that is not answered, or that must succeed and did not; and the rests
    in between. After that, the saga waits for a person."""

    def __post_init__(self) -> None:
        require("The name of a step", self.name, str)
        check_name(self.channel)
        at_least("timeout", self.timeout, 0)
        require("The option retry", self.retry, RetryOptions)
        for make in filter(None, (self.action, self.compensation)):
            if not callable(make):
                raise ConfigurationError(
                    f"The step {self.name!r} makes its command by something that cannot be called.",
                    code="configuration.saga",
                    next="Use functions of the saga's data.",
                )


@dataclass(frozen=True, slots=True)
class Saga(Generic[D]):
    """``data`` is the record class that holds what all steps need."""

    name: str
    data: type[D]
    steps: tuple[Step[D], ...]

    def __post_init__(self) -> None:
        check_name(self.name)
        for step in several("steps", self.steps):
            require("A step", step, Step)
        names = [step.name for step in self.steps]
        pivots = [index for index, step in enumerate(self.steps) if step.pivot]
        problem = ""
        if not self.steps or len(set(names)) < len(names) or any("/" in name for name in names):
            problem = "needs steps, each with a name of its own and without slashes"
        elif not is_record(self.data):
            problem = "keeps its data in a record class"
        elif len(pivots) > 1:
            problem = "has one pivot at most"
        elif pivots and any(step.compensation for step in self.steps[pivots[0] :]):
            problem = "cannot undo its pivot or what comes behind it"
        else:
            problem = self._lasting(pivots[0] if pivots else len(self.steps))
        if problem:
            raise ConfigurationError(f"The saga {self.name!r} {problem}.", code="configuration.saga")
        for step in self.steps:
            command_class(step.action)
            if step.compensation is not None:
                command_class(step.compensation)

    def _lasting(self, pivot: int) -> str:
        """What a step has done, and nothing undoes, would stay if a later one is refused."""
        lasting = [
            step.name for step in self.steps[:pivot] if step.compensation is None and not step.leaves_no_trace
        ]
        if not lasting:
            return ""
        return f"could not undo {', '.join(lasting)}: give a compensation, or say leaves_no_trace=True"

    @property
    def replies(self) -> str:
        """The channel where participants answer."""
        return f"saga.{self.name}.replies"

    def can_turn_back(self, index: int) -> bool:
        """Whether everything up to this step can be undone: it is not behind the pivot."""
        return not any(step.pivot for step in self.steps[:index])


def command_class(make: Callable[..., Any]) -> type:
    """The record class that a function says it returns."""
    found = typing.get_type_hints(make).get("return")
    if isinstance(found, type) and is_record(found):
        return found
    raise ConfigurationError(
        f"{getattr(make, '__qualname__', make)} does not say which command it makes.",
        code="configuration.saga",
        next="Annotate its return value with a record class.",
    )
