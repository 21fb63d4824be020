"""Optional packages: the error when one is missing, and how to install it.

Dragoman is installed from its source or a wheel. No package index is known to carry it, so a hint
must never install it by name: the owner of that name there could run code on the reader's machine.
"""

from __future__ import annotations

from dragoman.core.errors import ExtraMissing

DISTRIBUTION = "dragoman"


def installation(extra: str) -> str:
    """How to add an extra, from the source or the wheel that the reader has."""
    return (
        f"In the folder of Dragoman's source, run: pip install '.[{extra}]'. "
        f"With a wheel, run: pip install './WHEEL_FILE[{extra}]'."
    )


def extra_missing(what: str, package: str | None, extra: str) -> ExtraMissing:
    """The error for ``what``, which needs a ``package`` that comes with an ``extra``."""
    return ExtraMissing(f"{what} needs the package {package!r}.", next=installation(extra))
