"""``--skip-damaged``: what commands do that read messages without a group, some of which are damaged."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated

import typer

from dragoman.cli.output import err
from dragoman.core.errors import DamagedLog

SkipDamaged = Annotated[
    bool, typer.Option("--skip-damaged", help="Leave out messages that cannot be read any more.")
]


class LeftOut:
    """Names each damaged range that is left out, and counts the messages."""

    def __init__(self) -> None:
        self.count = 0

    def __call__(self, damage: DamagedLog) -> None:
        number = damage.until - damage.first
        self.count += number
        place = f"partition {damage.where.get('partition')}, offsets {damage.first} to {damage.until - 1}"
        err.print(f"Left out {number} damaged: {place}.", markup=False, soft_wrap=True)


@contextmanager
def passable() -> Iterator[None]:
    """An error about damage names the way past it."""
    try:
        yield
    except DamagedLog as error:
        raise error.passable("leave the messages out: add --skip-damaged.") from None
