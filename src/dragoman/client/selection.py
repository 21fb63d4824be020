"""The selective consumer under a model: which messages an endpoint is for, and which are for others."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from dragoman.client.delivery import Delivery
from dragoman.core.errors import MessageError
from dragoman.core.message import Message

Wants = Callable[[Message, Any], bool]
"""Whether a message is wanted, from it and its decoded payload."""


@dataclass(frozen=True, slots=True)
class Selection:
    """What a model says about the messages that an endpoint is for."""

    wants: Wants
    others: Mapping[str, Wants] = field(default_factory=dict)
    """Endpoints by name that share the group and select differently."""

    def unwanted(self, delivery: Delivery) -> MessageError:
        """Why a message that may be for others is a dead letter."""
        takers = [name for name, wants in self.others.items() if wants(delivery.message, delivery.value)]
        if takers:
            said = f"{' and '.join(takers)} may take it, and cannot get it from here."
        else:
            said = f"None of the others ({', '.join(self.others)}) wants it either."
        return MessageError(
            f"{delivery.endpoint} does not want it, and others of its group select differently. {said}",
            code="message.unselected",
            next="In the model, give all of them one condition, give each a channel of its own, "
            "or make it PUBLISH_SUBSCRIBE; then retry the dead letters.",
        )
