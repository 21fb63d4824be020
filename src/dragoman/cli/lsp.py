"""``dragoman lsp``: the language server for AsyncMDSL models."""

from __future__ import annotations

from typing import Annotated

import typer

from dragoman.core.extras import extra_missing


def lsp(
    stdio: Annotated[bool, typer.Option("--stdio", help="As editors may say; there is no other way.")] = True,
) -> None:
    """Speak the Language Server Protocol over standard input and output.

    Example: dragoman lsp --stdio
    """
    try:
        from dragoman.language.lsp import serve
    except ModuleNotFoundError as error:
        raise extra_missing("The language server", error.name, "lsp") from error
    serve()
