"""A value that does not fit its field, and where."""

from __future__ import annotations


class Misfit(ValueError):
    """``path`` grows on the way out."""

    def __init__(self, what: str, path: tuple[str, ...] = ()) -> None:
        super().__init__(what)
        self.what = what
        self.path = path

    @property
    def field(self) -> str | None:
        return ".".join(self.path) or None

    def within(self, step: str) -> Misfit:
        return type(self)(self.what, (step, *self.path))


class Violation(Misfit):
    """Of a constraint; the type is right."""
