"""A channel of loans in two versions, with two messages that cannot be read."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.pipeline.source.channels import V1, V2, Place, loans

from dragoman.core.message import Message

GOOD = 30
BAD = 2


@pytest.fixture
def place(tmp_path: Path) -> Place:
    made = Place(tmp_path)
    first, second = made.register("loans-value", V1, V2)
    made.create("loans")
    made.publish(loans(first, V1, range(20)))
    made.publish(loans(second, V2, range(20, GOOD), partition=1, note="hello"))
    made.publish(
        [
            Message("loans", b"nonsense", key=b"k", partition=0),
            Message("loans", b"\x00\x00\x00\x00\x01\x02", partition=1),
        ]
    )
    return made
