"""The language: from text to AsyncAPI, many channels, large files, a keystroke, and the command.

python benchmarks/bench_language.py
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from dragoman.language.editing.completion import proposals
from dragoman.language.editing.document import read
from dragoman.language.generators.asyncapi import generate, render
from dragoman.language.lint import lint_text
from dragoman.language.model import Model
from dragoman.language.parser import parse
from dragoman.language.tokens import Source

LOAN_BROKER = Path(__file__).parents[1] / "examples" / "models" / "loan-broker.mdsl"


def many(channels: int) -> str:
    """A model with so many channels, each with a type of its own and two endpoints."""
    text = ["API description Many"]
    text += [
        f'data type Type{n} {{ "id": ID<int>, "name": D<string>, "tags": D<string>* }}'
        for n in range(channels)
    ]
    for n in range(channels):
        text.append(f'channel Channel{n} of type POINT_TO_POINT on path "place/{n}"')
        text.append(f"  accepts message Message{n} expecting payload Type{n}")
    uses = ", ".join(f"Channel{n}" for n in range(channels))
    text += [
        'message broker B exposes Many at location "amqp://localhost:5672" via protocol AMQP',
        f"message endpoint Sends uses from B: {uses}",
        f"message endpoint Takes provides from B: {uses}",
    ]
    return "\n".join(text) + "\n"


def median(work: Callable[[], Any], rounds: int) -> float:
    """Seconds, after one round that does not count."""
    work()
    found = []
    for _ in range(rounds):
        start = time.perf_counter()
        work()
        found.append(time.perf_counter() - start)
    return statistics.median(found)


def main() -> None:
    loans = LOAN_BROKER.read_text()
    rows = [
        ("loan broker, text to AsyncAPI", median(lambda: render(generate(Model(parse(loans)))), 20), "30 ms")
    ]
    for channels in (1_000, 10_000):
        text = many(channels)
        seconds = median(lambda text=text: render(generate(Model(parse(text)))), 1)  # type: ignore[misc]
        rows.append((f"{channels:,} channels, text to AsyncAPI", seconds, "10 s" if channels > 1000 else ""))
    large = many(4_700)
    rows.append((f"parse {len(large) / 1e6:.2f} MB", median(lambda: parse(large), 3), "2 s"))
    edited = many(670)
    lines = edited.count("\n")

    model = read(edited, "edited.mdsl").model

    def keystroke() -> None:
        """As the language server answers one: by the model of a moment ago."""
        source = Source(edited)
        proposals(source.text, len(edited) // 2, model)

    rows.append((f"a keystroke with completion in {lines:,} lines", median(keystroke, 10), "50 ms"))
    rows.append((f"lint {lines:,} lines", median(lambda: lint_text(edited), 5), ""))
    command = [str(Path(sys.executable).with_name("dragoman")), "model", "lint", str(LOAN_BROKER)]
    shell = median(lambda: subprocess.run(command, check=True, capture_output=True), 10)
    rows.append(("dragoman model lint, from the shell", shell, "300 ms"))
    print("| case | time | wanted |")
    print("| --- | ---: | ---: |")
    for name, seconds, wanted in rows:
        print(f"| {name} | {seconds * 1000:,.1f} ms | {wanted} |")


if __name__ == "__main__":
    main()
