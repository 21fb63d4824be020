"""How Java starts quickly: it compiles little, and maps the classes of every start into memory."""

from __future__ import annotations

from pathlib import Path
from shlex import quote, split

QUICK = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"


def reading(archive: Path) -> str:
    """Java's options. Of an archive that does not fit nothing is said."""
    return f"-XX:SharedArchiveFile={quote(str(archive))} -Xlog:disable" if archive.exists() else ""


def writing(archive: Path) -> str:
    """What was loaded is kept when Java ends, unless it is killed."""
    return f"-XX:ArchiveClassesAtExit={quote(str(archive))} -Xlog:disable"


def words(options: str) -> tuple[str, ...]:
    return tuple(split(options))
