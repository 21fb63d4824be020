"""The language server, spoken to by a real client in another process."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator

import pytest
from lsprotocol import types as t
from pygls.exceptions import JsonRpcException
from pygls.lsp.client import LanguageClient

from dragoman.language.editing.completion import proposals
from dragoman.language.model import Model
from dragoman.language.parser import parse

URI = "file:///shop.mdsl"
TEXT = """API description Shop

data type Order {
  "id": ID<int>,
  "lines": { "sku": D<string> }+
}

// 𝄞 a comment in two halves
channel Orders
  of type PUBLISH_SUBSCRIBE
  on path "orders"
  produces message OrderPlaced
    delivering payload Order
    where
      CORRELATION_ID is "$message.payload#/id"

channel Quotes
  request message QuoteRequest
    on path "q"
    expecting payload Order
  reply message QuoteReply
    on path "r"
    delivering payload Order
    where
      CORRELATION_ID is "$message.payload#/id"

message broker Main
  exposes Shop
    at location "localhost"
    via protocol AMQP

message endpoint Billing
  uses from Main:
    Orders
"""
TIMEOUT = 60.0


class Editor:
    """An editor with one open text."""

    def __init__(self, client: LanguageClient, published: asyncio.Queue[t.PublishDiagnosticsParams]) -> None:
        self.client = client
        self.published = published
        self.document = t.TextDocumentIdentifier(URI)
        self.text = TEXT
        self.version = 1
        self.encoding = "utf-16"

    def open(self) -> None:
        item = t.TextDocumentItem(URI, "mdsl", self.version, self.text)
        self.client.text_document_did_open(t.DidOpenTextDocumentParams(item))

    def change(self, text: str) -> None:
        self.text = text
        self.version += 1
        identifier = t.VersionedTextDocumentIdentifier(self.version, URI)
        whole = t.TextDocumentContentChangeWholeDocument(text)
        self.client.text_document_did_change(t.DidChangeTextDocumentParams(identifier, [whole]))

    async def diagnostics(self) -> list[t.Diagnostic]:
        """Those of the text as it is now."""
        while True:
            told = await asyncio.wait_for(self.published.get(), TIMEOUT)
            if told.version == self.version:
                return list(told.diagnostics)

    def after(self, marker: str, nth: int = 0) -> t.Position:
        offset = -1
        for _ in range(nth + 1):
            offset = self.text.index(marker, offset + 1)
        line = self.text.count("\n", 0, offset + len(marker))
        start = self.text.rfind("\n", 0, offset + len(marker)) + 1
        codec, size = {"utf-8": ("utf-8", 1), "utf-16": ("utf-16-le", 2), "utf-32": ("utf-32-le", 4)}[
            self.encoding
        ]
        column = len(self.text[start : offset + len(marker)].encode(codec)) // size
        return t.Position(line, column)

    async def complete(self, marker: str) -> list[str]:
        params = t.CompletionParams(self.document, self.after(marker))
        result = await asyncio.wait_for(self.client.text_document_completion_async(params), TIMEOUT)
        assert isinstance(result, t.CompletionList)
        return [item.label for item in result.items]


@pytest.fixture
async def editor(request: pytest.FixtureRequest) -> AsyncIterator[Editor]:
    """A parameter is the encoding that the editor asks for."""
    wanted = getattr(request, "param", None)
    client = LanguageClient("test", "1")
    published: asyncio.Queue[t.PublishDiagnosticsParams] = asyncio.Queue()

    @client.feature(t.TEXT_DOCUMENT_PUBLISH_DIAGNOSTICS)
    def told(params: t.PublishDiagnosticsParams) -> None:
        published.put_nowait(params)

    await client.start_io(sys.executable, "-m", "dragoman.cli", "lsp", "--stdio")
    general = t.GeneralClientCapabilities(position_encodings=[wanted]) if wanted else None
    abilities = t.InitializeParams(t.ClientCapabilities(general=general))
    told_back = await asyncio.wait_for(client.initialize_async(abilities), TIMEOUT)
    client.initialized(t.InitializedParams())
    editor = Editor(client, published)
    editor.encoding = t.PositionEncodingKind(told_back.capabilities.position_encoding).value
    editor.open()
    yield editor
    await asyncio.wait_for(client.shutdown_async(None), TIMEOUT)
    client.exit(None)
    await client.stop()


async def test_mistakes_are_told_while_typing_and_mended_by_a_quick_fix(editor: Editor) -> None:
    assert [each.code for each in await editor.diagnostics() if each.severity == 1] == []
    editor.change(TEXT.replace("payload Order\n    where", "payload Oder\n    where", 1))
    mistake = next(each for each in await editor.diagnostics() if each.code == "unknown-reference")
    assert mistake.range.start == t.Position(12, 23)
    params = t.CodeActionParams(editor.document, mistake.range, t.CodeActionContext([mistake]))
    actions = await asyncio.wait_for(editor.client.text_document_code_action_async(params), TIMEOUT)
    assert actions is not None
    action = next(each for each in actions if isinstance(each, t.CodeAction) and "Order" in each.title)
    assert action.edit is not None and action.edit.changes is not None
    assert action.edit.changes[URI][0].new_text == "Order"
    editor.change(TEXT + "channel\n")
    assert [each.code for each in await editor.diagnostics()] == ["syntax"]


async def test_completion_knows_the_context(editor: Editor) -> None:
    await editor.diagnostics()
    assert "GUARANTEED_DELIVERY" in await editor.complete("of type ")
    assert "Order" in await editor.complete("delivering payload ")
    assert "Kafka" in await editor.complete("via protocol ")
    assert {"Orders", "Quotes", "Shop"} <= set(await editor.complete("exposes "))
    assert {"Orders", "QuoteReply"} <= set(await editor.complete("uses from Main:\n    "))
    assert "Main" in await editor.complete("uses from ")
    assert "delivery guarantee" in await editor.complete("of type PUBLISH_SUBSCRIBE\n  ")
    assert "message endpoint" in await editor.complete("    Orders\n")


async def test_pointers_into_the_payload_are_completed(editor: Editor) -> None:
    await editor.diagnostics()
    editor.change(TEXT.replace('"$message.payload#/id"', '"', 1))
    found = await editor.complete('CORRELATION_ID is "')
    assert found == ["$message.payload#/id"]


def test_a_condition_is_completed_from_both_sides_of_a_conversation() -> None:
    text = """API description A
data type Ask { "question": D<int> }
data type Tell { "answer": D<int> }
channel C request message Q on path "q" expecting payload Ask
  reply message R on path "r" delivering payload Tell
message endpoint E uses channels: C where consumed if \""""
    model = Model(parse(f'{text}$message.payload#/answer" == 1'))
    found = [each.text for each in proposals(text, len(text), model)]
    assert found == ["$message.payload#/question", "$message.payload#/answer"]


async def test_definition_references_and_rename(editor: Editor) -> None:
    await editor.diagnostics()
    place = editor.after("delivering payload Or")
    definition = await editor.client.text_document_definition_async(
        t.DefinitionParams(editor.document, place)
    )
    assert isinstance(definition, t.Location) and definition.range.start == t.Position(2, 10)
    context = t.ReferenceContext(include_declaration=True)
    references = await editor.client.text_document_references_async(
        t.ReferenceParams(context, editor.document, place)
    )
    assert references is not None and len(references) == 4
    edit = await editor.client.text_document_rename_async(t.RenameParams(editor.document, place, "Purchase"))
    assert edit is not None and edit.changes is not None
    assert len(edit.changes[URI]) == 4
    for name, reason in (("not a name", "is not a name"), ("9", "is not a name")):
        assert reason in await refused(editor, place, name)
    assert "'Data' means something else here" in await refused(editor, place, "Data")
    place = editor.after("channel Or")
    assert "There is a channel 'Quotes' already" in await refused(editor, place, "Quotes")
    assert "already" in await refused(editor, place, "QuoteReply")


@pytest.mark.parametrize("editor", ["utf-8", "utf-16", "utf-32"], indirect=True)
async def test_columns_are_counted_as_the_editor_asked(
    editor: Editor, request: pytest.FixtureRequest
) -> None:
    await editor.diagnostics()
    assert editor.encoding in request.node.name
    editor.change(TEXT + 'data type Zug { "größe 𝄞": Order, "maß": Order }\n')
    await editor.diagnostics()
    context = t.ReferenceContext(include_declaration=False)
    place = editor.after('"größe 𝄞": Or')
    found = await editor.client.text_document_references_async(
        t.ReferenceParams(context, editor.document, place)
    )
    assert found is not None
    assert [each.range.start for each in found[-2:]] == [editor.after('𝄞": '), editor.after('"maß": ')]
    assert found[-1].range.end == editor.after('"maß": Order')


async def refused(editor: Editor, place: t.Position, name: str) -> str:
    with pytest.raises(JsonRpcException) as caught:
        await editor.client.text_document_rename_async(t.RenameParams(editor.document, place, name))
    return str(caught.value)


@pytest.mark.parametrize("text", [f"\ufeff{TEXT}", TEXT.replace("\n", "\r\n")])
async def test_texts_of_windows_are_read_and_keep_their_ends_of_lines(editor: Editor, text: str) -> None:
    await editor.diagnostics()
    editor.change(text)
    assert [each.code for each in await editor.diagnostics() if each.severity == 1] == []
    options = t.FormattingOptions(tab_size=2, insert_spaces=True)
    params = t.DocumentFormattingParams(editor.document, options)
    edits = await editor.client.text_document_formatting_async(params)
    assert edits is not None
    formatted = edits[0].new_text
    assert formatted.startswith("API description Shop")
    assert formatted.count("\r\n") == (formatted.count("\n") if "\r" in text else 0)
    editor.change(formatted)
    assert not await editor.client.text_document_formatting_async(params)


HALF = ("", "API", "API description \U0001f600", '"', "channel {" * 2_000, TEXT[:400])


async def test_every_request_has_an_answer_whatever_is_typed(editor: Editor) -> None:
    await editor.diagnostics()
    client, document = editor.client, editor.document
    for text in HALF:
        editor.change(text)
        for place in (t.Position(0, 0), t.Position(text.count("\n"), 99), t.Position(9_999, 9_999)):
            await client.text_document_completion_async(t.CompletionParams(document, place))
            await client.text_document_hover_async(t.HoverParams(document, place))
            await client.text_document_definition_async(t.DefinitionParams(document, place))
            await client.text_document_prepare_rename_async(t.PrepareRenameParams(document, place))
            await client.text_document_document_symbol_async(t.DocumentSymbolParams(document))
            await client.text_document_folding_range_async(t.FoldingRangeParams(document))
        assert await editor.diagnostics()


async def test_hover_shows_declarations_and_meanings(editor: Editor) -> None:
    await editor.diagnostics()
    params = t.HoverParams(editor.document, editor.after("uses from Main:\n    Or"))
    shown = await editor.client.text_document_hover_async(params)
    assert shown is not None and isinstance(shown.contents, t.MarkupContent)
    assert "channel Orders\n  of type PUBLISH_SUBSCRIBE" in shown.contents.value
    params = t.HoverParams(editor.document, editor.after("PUBLISH_"))
    shown = await editor.client.text_document_hover_async(params)
    assert shown is not None and isinstance(shown.contents, t.MarkupContent)
    assert shown.contents.value == "Every subscriber gets a copy of each message."


async def test_outline_folding_and_formatting(editor: Editor) -> None:
    await editor.diagnostics()
    symbols = await editor.client.text_document_document_symbol_async(t.DocumentSymbolParams(editor.document))
    assert symbols is not None
    assert [each.name for each in symbols] == ["Order", "Orders", "Quotes", "Main", "Billing"]
    folds = await editor.client.text_document_folding_range_async(t.FoldingRangeParams(editor.document))
    assert folds is not None and (2, 5) in {(fold.start_line, fold.end_line) for fold in folds}
    options = t.FormattingOptions(tab_size=2, insert_spaces=True)
    params = t.DocumentFormattingParams(editor.document, options)
    edits = await editor.client.text_document_formatting_async(params)
    assert edits is not None and 'data type Order { "id": ID<int>, "lines"' in edits[0].new_text
    editor.change(edits[0].new_text)
    assert not await editor.client.text_document_formatting_async(params)
