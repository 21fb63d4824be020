"""Code of the user's around each message: it may look, add metadata, or say no."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from dragoman.topology.topic import Topic


@dataclass(slots=True)
class Passage:
    """One message on its way. ``metadata`` travels with it; what ``before_send`` puts there is sent.

    ``objects`` are all that are sent; of a message that comes, the first.
    """

    topic: Topic
    objects: Sequence[Any]
    metadata: dict[str, bytes] = field(default_factory=dict)
    origin: str = ""
    sequence: int = 0


class Interceptor:
    """Override what you need. Called in the event loop, once for each message: be quick.

    An error raised in ``before_send`` reaches the sender; in ``before_receive`` it counts as a failure of the
    subscriber. Errors of the ``after`` methods are logged, for the message is out or handled by then.
    """

    def before_send(self, passage: Passage) -> bool:
        """False: it is not sent, and the sender is not told."""
        return True

    def after_send(self, passage: Passage) -> None: ...

    def before_receive(self, passage: Passage) -> bool:
        """False: no subscriber gets it."""
        return True

    def after_receive(self, passage: Passage) -> None: ...
