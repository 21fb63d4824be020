"""What can be written behind the question mark of ``embedded://path?...``."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from dragoman.core.loading import path_of
from dragoman.core.options import one_of, positive, positive_int, read_options

DEFAULT_FOLDER = ".dragoman"


@dataclass(frozen=True, slots=True)
class Options:
    root: Path
    fsync: str = "batch"
    """``always``: on the disk before ``publish`` returns. ``batch``: within a second. ``never``: when the
    system likes. A killed process loses nothing with any of them; a power failure does, with the last two."""
    segment_bytes: int = 64 << 20
    lease: float = 10.0
    """Seconds until a member that hangs is out. One that dies is noticed at once."""
    handover: float = 30.0
    """Seconds that a member may take to finish what it holds when another one joins."""


def options_of(url: str) -> Options:
    given = read_options(
        url,
        {
            "fsync": one_of("always", "batch", "never"),
            "segment_bytes": positive_int,
            "lease": positive,
            "handover": positive,
        },
    )
    # Absolute, so that a later change of the working directory does not lead elsewhere.
    return Options(root=Path(path_of(url) or DEFAULT_FOLDER).absolute(), **given)
