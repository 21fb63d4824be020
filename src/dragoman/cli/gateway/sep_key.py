"""``dragoman gateway sep-key``: the key of a SEP server."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dragoman.cli.output import Json, emit_json, hint, say


def sep_key(
    path: Annotated[Path, typer.Argument(help="The file with the key; made if it is missing.")],
    classic: Annotated[
        bool, typer.Option("--classic", help="X25519 alone, without ML-KEM-768: a shorter public key.")
    ] = False,
    as_json: bool = Json,
) -> None:
    """Make the key of a SEP server, or read it, and print the public half for its clients.

    Example: dragoman gateway sep-key .dragoman/sep.key
    """
    from dragoman.gateway.sep import ServerKey, Suite

    if path.exists():
        key = ServerKey.read(path)
    else:
        key = ServerKey.generate(Suite.X25519 if classic else Suite.X25519_MLKEM768)
        key.write(path)
    if as_json:
        emit_json({"public": key.public.text(), "suite": key.public.suite.name})
        return
    say(key.public.text())
    hint(f"Clients need this line. Start with: dragoman gateway serve --sep-key {path}")
