"""Flows: steps that mean something."""

from __future__ import annotations

from collections.abc import Iterator

from dragoman.language import syntax as s
from dragoman.language.lint.rule import Finding, error, info
from dragoman.language.model import Model


@error("A step of a flow has one kind of operator.")
def mixed_operators(model: Model) -> Iterator[Finding]:
    for flow in model.of(s.Flow):
        for step in flow.steps:
            for combined in (step.events, step.commands, step.emitted):
                if combined is not None and len(set(combined.operators)) > 1:
                    operators = ", ".join(sorted(set(combined.operators)))
                    said = f"The operators {operators} are mixed; write one step for each."
                    yield Finding(said, combined.span)


@error("Events that trigger together are joined by 'and'.")
def alternative_events(model: Model) -> Iterator[Finding]:
    for flow in model.of(s.Flow):
        for step in flow.steps:
            if step.events is not None and set(step.events.operators) - {"and"}:
                said = "Alternative events are written as one step for each."
                yield Finding(said, step.events.span)


@info("A flow has steps.")
def empty_flow(model: Model) -> Iterator[Finding]:
    for flow in model.of(s.Flow):
        if not flow.steps:
            yield Finding(f"The flow '{flow.name.text}' has no steps.", flow.name.span)
