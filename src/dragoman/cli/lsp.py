"""``dragoman lsp``: the language server for AsyncMDSL models."""

from __future__ import annotations

from typing import Annotated

import typer

from dragoman.core.errors import ExtraMissing


def lsp(
    stdio: Annotated[bool, typer.Option("--stdio", help="As editors may say; there is no other way.")] = True,
) -> None:
    """Speak the Language Server Protocol over standard input and output.

    Example: dragoman lsp --stdio
    """
    try:
        from dragoman.language.lsp import serve
    except ModuleNotFoundError as error:
        raise ExtraMissing(
            f"The language server needs the package {error.name!r}.", next="Run: pip install 'dragoman[lsp]'"
        ) from error
    serve()
