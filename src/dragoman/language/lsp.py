"""The language server: the editing functions, told in the Language Server Protocol."""

from __future__ import annotations

import asyncio
from importlib.metadata import version

from lsprotocol import types as t
from pygls.exceptions import JsonRpcException
from pygls.lsp.server import LanguageServer

from dragoman.language.diagnostic import Diagnostic, Fix, Severity
from dragoman.language.editing.columns import Columns
from dragoman.language.editing.completion import Proposal, proposals
from dragoman.language.editing.document import Document, read
from dragoman.language.editing.hover import hover
from dragoman.language.editing.outline import Entry, folds, outline
from dragoman.language.formatter import format_parsed
from dragoman.language.model import Model
from dragoman.language.parser import Parsed, parse
from dragoman.language.tokens import Source, Span

PAUSE = 0.15
"""Seconds of rest before a changed text is read again."""
_SEVERITIES = {
    Severity.ERROR: t.DiagnosticSeverity.Error,
    Severity.WARNING: t.DiagnosticSeverity.Warning,
    Severity.INFO: t.DiagnosticSeverity.Information,
}
_PROPOSED = {
    "keyword": t.CompletionItemKind.Keyword,
    "value": t.CompletionItemKind.EnumMember,
    "pointer": t.CompletionItemKind.Reference,
    "data type": t.CompletionItemKind.Struct,
    "channel": t.CompletionItemKind.Interface,
    "message": t.CompletionItemKind.Event,
    "message broker": t.CompletionItemKind.Module,
}
_SYMBOLS = {
    "data type": t.SymbolKind.Struct,
    "channel": t.SymbolKind.Interface,
    "message": t.SymbolKind.Event,
    "message broker": t.SymbolKind.Module,
    "message endpoint": t.SymbolKind.Class,
    "event type": t.SymbolKind.Event,
    "command type": t.SymbolKind.Event,
    "flow": t.SymbolKind.Function,
}


class Server(LanguageServer):
    """Keeps the last reading of each open text, and the model of when it last parsed."""

    def __init__(self) -> None:
        super().__init__("dragoman", version("dragoman"))
        self.documents: dict[str, Document] = {}
        self.models: dict[str, Model] = {}

    def text_of(self, uri: str) -> str:
        return str(self.workspace.get_text_document(uri).source)

    def document(self, uri: str) -> Document:
        """The reading of the text as it is now."""
        text = self.text_of(uri)
        known = self.documents.get(uri)
        if known is None or known.parsed.source.text != text:
            known = read(text, uri)
            self.keep(uri, known)
        return known

    def keep(self, uri: str, document: Document) -> None:
        self.documents[uri] = document
        if document.parsed.ok or uri not in self.models:
            self.models[uri] = document.model

    def columns(self, source: Source) -> Columns:
        """The text in the units that the editor has asked for."""
        encoding = self.workspace.position_encoding or t.PositionEncodingKind.Utf16
        return Columns(source, t.PositionEncodingKind(encoding).value)

    async def check(self, uri: str, wait: float) -> None:
        """Read the text when it has rested, off the event loop, and tell what is wrong with it."""
        number = self.workspace.get_text_document(uri).version
        await asyncio.sleep(wait)
        if not self._is_current(uri, number):
            return
        document = await asyncio.to_thread(read, self.text_of(uri), uri)
        # It may have been changed or closed while it was read.
        if not self._is_current(uri, number):
            return
        self.keep(uri, document)
        text = self.columns(document.parsed.source)
        found = [_diagnostic(text, each) for each in document.diagnostics]
        self.text_document_publish_diagnostics(t.PublishDiagnosticsParams(uri, found, number))

    def _is_current(self, uri: str, number: int | None) -> bool:
        open_texts = self.workspace.text_documents
        return uri in open_texts and open_texts[uri].version == number


def _range(text: Columns, span: Span) -> t.Range:
    return t.Range(t.Position(*text.place(span.start)), t.Position(*text.place(span.end)))


def _offset(text: Columns, position: t.Position) -> int:
    return text.offset(position.line, position.character)


def _diagnostic(text: Columns, each: Diagnostic) -> t.Diagnostic:
    return t.Diagnostic(
        range=_range(text, each.span),
        message=each.message,
        severity=_SEVERITIES[each.severity],
        code=each.rule,
        source="dragoman",
    )


def _edits(text: Columns, fix: Fix) -> list[t.TextEdit]:
    return [t.TextEdit(_range(text, edit.span), edit.text) for edit in fix.edits]


def _formatted(parsed: Parsed) -> str:
    """The canonical form, with the ends of lines that the text has."""
    text = parsed.source.text
    if "\r\n" not in text:
        return format_parsed(parsed)
    return format_parsed(parse(text.replace("\r\n", "\n"))).replace("\n", "\r\n")


def create() -> Server:
    """A server with all its features."""
    server = Server()
    _watch(server)
    _write(server)
    _look(server)
    return server


def _watch(server: Server) -> None:
    @server.feature(t.TEXT_DOCUMENT_DID_OPEN)
    async def opened(server: Server, params: t.DidOpenTextDocumentParams) -> None:
        await server.check(params.text_document.uri, 0.0)

    @server.feature(t.TEXT_DOCUMENT_DID_CHANGE)
    async def changed(server: Server, params: t.DidChangeTextDocumentParams) -> None:
        await server.check(params.text_document.uri, PAUSE)

    @server.feature(t.TEXT_DOCUMENT_DID_CLOSE)
    def closed(server: Server, params: t.DidCloseTextDocumentParams) -> None:
        uri = params.text_document.uri
        server.documents.pop(uri, None)
        server.models.pop(uri, None)
        server.text_document_publish_diagnostics(t.PublishDiagnosticsParams(uri, []))


def _write(server: Server) -> None:
    triggers = t.CompletionOptions(trigger_characters=[" ", ":", '"', "<", ",", "/", "{"])

    @server.feature(t.TEXT_DOCUMENT_COMPLETION, triggers)
    def complete(server: Server, params: t.CompletionParams) -> t.CompletionList:
        uri = params.text_document.uri
        # Names may be those of a moment ago: typing must not wait until the text is read again.
        model = server.models.get(uri) or server.document(uri).model
        text = server.columns(Source(server.text_of(uri)))
        offset = _offset(text, params.position)
        items = [_item(text, offset, each) for each in proposals(text.source.text, offset, model)]
        return t.CompletionList(is_incomplete=False, items=items)

    @server.feature(t.TEXT_DOCUMENT_FORMATTING)
    def formatted(server: Server, params: t.DocumentFormattingParams) -> list[t.TextEdit]:
        document = server.document(params.text_document.uri)
        if not document.parsed.ok:
            return []
        source = document.parsed.source
        new = _formatted(document.parsed)
        if new == source.text:
            return []
        return [t.TextEdit(_range(server.columns(source), Span(0, len(source.text))), new)]

    @server.feature(t.TEXT_DOCUMENT_RENAME, t.RenameOptions(prepare_provider=True))
    def rename(server: Server, params: t.RenameParams) -> t.WorkspaceEdit | None:
        document = server.document(params.text_document.uri)
        text = server.columns(document.parsed.source)
        found = document.at(_offset(text, params.position))
        if found is None:
            return None
        reason = document.refusal(found, params.new_name)
        if reason is not None:
            raise JsonRpcException(reason, t.LSPErrorCodes.RequestFailed.value)
        edits = [t.TextEdit(_range(text, span), params.new_name) for span in document.uses(found)]
        return t.WorkspaceEdit(changes={params.text_document.uri: edits})

    @server.feature(t.TEXT_DOCUMENT_PREPARE_RENAME)
    def may_rename(server: Server, params: t.PrepareRenameParams) -> t.Range | None:
        document = server.document(params.text_document.uri)
        text = server.columns(document.parsed.source)
        found = document.at(_offset(text, params.position))
        return _range(text, found.name.span) if found else None

    @server.feature(
        t.TEXT_DOCUMENT_CODE_ACTION, t.CodeActionOptions(code_action_kinds=[t.CodeActionKind.QuickFix])
    )
    def actions(server: Server, params: t.CodeActionParams) -> list[t.CodeAction]:
        uri = params.text_document.uri
        document = server.document(uri)
        text = server.columns(document.parsed.source)
        start, end = _offset(text, params.range.start), _offset(text, params.range.end)
        return [
            t.CodeAction(
                title=each.fix.title,
                kind=t.CodeActionKind.QuickFix,
                diagnostics=[_diagnostic(text, each)],
                edit=t.WorkspaceEdit(changes={uri: _edits(text, each.fix)}),
                is_preferred=True,
            )
            for each in document.diagnostics
            if each.fix is not None and each.span.start <= end and start <= each.span.end
        ]


def _item(text: Columns, offset: int, proposal: Proposal) -> t.CompletionItem:
    item = t.CompletionItem(label=proposal.text, kind=_PROPOSED.get(proposal.kind), detail=proposal.kind)
    if proposal.kind == "pointer":
        # A pointer is one word here, though editors end words at its dots and slashes.
        start = max(text.source.text.rfind(quote, 0, offset) for quote in "\"'") + 1
        item.text_edit = t.TextEdit(_range(text, Span(start, offset)), proposal.text)
        item.filter_text = proposal.text
    return item


def _look(server: Server) -> None:
    @server.feature(t.TEXT_DOCUMENT_HOVER)
    def explain(server: Server, params: t.HoverParams) -> t.Hover | None:
        document = server.document(params.text_document.uri)
        told = hover(document, _offset(server.columns(document.parsed.source), params.position))
        return t.Hover(t.MarkupContent(t.MarkupKind.Markdown, told)) if told else None

    @server.feature(t.TEXT_DOCUMENT_DEFINITION)
    def definition(server: Server, params: t.DefinitionParams) -> t.Location | None:
        uri = params.text_document.uri
        document = server.document(uri)
        text = server.columns(document.parsed.source)
        found = document.at(_offset(text, params.position))
        name = document.declaration(found) if found else None
        return t.Location(uri, _range(text, name.span)) if name else None

    @server.feature(t.TEXT_DOCUMENT_REFERENCES)
    def references(server: Server, params: t.ReferenceParams) -> list[t.Location]:
        uri = params.text_document.uri
        document = server.document(uri)
        text = server.columns(document.parsed.source)
        found = document.at(_offset(text, params.position))
        spans = document.uses(found, params.context.include_declaration) if found else []
        return [t.Location(uri, _range(text, span)) for span in spans]

    @server.feature(t.TEXT_DOCUMENT_DOCUMENT_SYMBOL)
    def symbols(server: Server, params: t.DocumentSymbolParams) -> list[t.DocumentSymbol]:
        parsed = server.document(params.text_document.uri).parsed
        text = server.columns(parsed.source)
        return [_symbol(text, entry) for entry in outline(parsed)]

    @server.feature(t.TEXT_DOCUMENT_FOLDING_RANGE)
    def foldable(server: Server, params: t.FoldingRangeParams) -> list[t.FoldingRange]:
        parsed = server.document(params.text_document.uri).parsed
        return [t.FoldingRange(first - 1, last - 1) for first, last in folds(parsed)]


def _symbol(text: Columns, entry: Entry) -> t.DocumentSymbol:
    return t.DocumentSymbol(
        name=entry.name or "?",
        kind=_SYMBOLS.get(entry.kind, t.SymbolKind.Object),
        range=_range(text, entry.span),
        selection_range=_range(text, entry.name_span),
        detail=entry.kind,
        children=[_symbol(text, child) for child in entry.children],
    )


def serve() -> None:
    """Speak over standard input and output until the editor goes."""
    create().start_io()
