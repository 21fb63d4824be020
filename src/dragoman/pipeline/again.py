"""The command that starts a pipeline again, with the same checkpoints."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any

from dragoman.core.defaults import default_broker, default_registry
from dragoman.core.loading import redacted

if TYPE_CHECKING:
    from dragoman.pipeline.running import Flow, Pipeline


def how_to_start(pipeline: Pipeline, once: bool) -> str:
    """What to do, as a sentence: the command, if options can say what the pipeline does."""
    first = replace(pipeline.flows[0], channel="")
    alike = all(replace(flow, channel="") == first for flow in pipeline.flows)
    if not alike or first.table or first.contract or first.options:
        return "start the pipeline again as before."
    words = ["dragoman", "pipeline", "run"]
    words += [word for flow in pipeline.flows for word in ("--channel", flow.channel)]
    words += [*_pipeline_options(pipeline), *_flow_options(first)]
    return f"run: {shlex.join([*words, '--once'] if once else words)}"


def _pipeline_options(pipeline: Pipeline) -> Iterator[str]:
    given = {
        "--to": (pipeline.to, ""),
        "--table-format": (pipeline.table_format, "delta"),
        "--name": (pipeline.name, "pipeline"),
        "--checkpoint": (pipeline.checkpoint, ""),
        "--broker": (redacted(pipeline.broker), redacted(default_broker())),
        "--registry": (redacted(pipeline.registry), redacted(default_registry())),
    }
    for option, (value, default) in given.items():
        if value != default:
            yield from (option, value)


def _flow_options(flow: Flow) -> Iterator[str]:
    for field in fields(flow):
        value: Any = getattr(flow, field.name)
        if field.name == "channel" or value == field.default:
            continue
        for each in value if isinstance(value, tuple) else (value,):
            yield from (f"--{field.name.replace('_', '-')}", str(each))
