"""A table that pipelines have written, as those see it who look after it later."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

from dragoman.core.errors import ConfigurationError, NotFound
from dragoman.pipeline.running import Flow, Pipeline
from dragoman.pipeline.state import State
from dragoman.pipeline.tables import Table, open_table


@dataclass(frozen=True, slots=True)
class KeptTable:
    """``flows`` and ``states`` are those of all pipelines that write to it."""

    to: str
    table_format: str
    flows: tuple[Flow, ...]
    states: tuple[State, ...]

    @property
    def name(self) -> str:
        return self.flows[0].table_name

    @property
    def table(self) -> Table:
        return open_table(self.table_format, self.to, self.name)

    @property
    def quarantine(self) -> Table:
        return open_table(self.table_format, self.to, self.flows[0].quarantine_name)

    @contextmanager
    def held(self) -> Iterator[None]:
        """Be the only one who changes it. Raises ``Conflict`` while a pipeline runs."""
        with ExitStack() as stack:
            for state in self.states:
                stack.enter_context(state.held())
            yield


def kept_table(to: str, name: str = "") -> KeptTable:
    """The table of this name below a folder, or the only one there is. Raises ``NotFound``."""
    below = Pipeline.flows_below(to)
    names = sorted({flow.table_name for _, flow, _ in below})
    shown = ", ".join(names) or "none"
    if not name and len(names) > 1:
        raise ConfigurationError("There are several tables.", next=f"Name one with --table: {shown}.")
    chosen = [each for each in below if name in ("", each[1].table_name)]
    if not chosen:
        raise NotFound("No pipeline has written such a table here.", folder=to, next=f"Tables: {shown}.")
    states, flows, formats = zip(*chosen, strict=True)
    return KeptTable(to, formats[0], flows, states)
