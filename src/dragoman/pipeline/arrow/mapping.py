"""How types without a single obvious column type are mapped."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class Mapping:
    """``unions`` of several types become a struct with a member per branch, a VARIANT, or JSON text.

    ``recursion``, where a type contains itself, is refused unless it may become a VARIANT or JSON text.
    ``nanos`` keeps nanoseconds as a ``long``, or cuts them to a timestamp of microseconds. ``whole`` is the
    form of messages that are read as their writers wrote them, without a reader's schema.
    """

    unions: Literal["struct", "variant", "json"] = "struct"
    recursion: Literal["refuse", "variant", "json"] = "refuse"
    nanos: Literal["long", "timestamp"] = "long"
    whole: Literal["variant", "json"] = "variant"
