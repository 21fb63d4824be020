"""The documented grammar and the parser are one thing."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

from hypothesis import given, settings

from dragoman.language import grammar, parser, words
from dragoman.language.parser import parse
from dragoman.language.parsing import channels, cursor, endpoints, flows, services, types
from dragoman.language.parsing.cursor import GRAMMAR
from tests.language import ebnf

DOCS = Path(__file__).parents[2] / "docs"
MODULES = (cursor, types, channels, endpoints, services, flows, parser)
READING = {"at", "take", "expect", "expect_mark", "keyword", "_verbatim", "_items"}


def test_the_reference_is_what_the_parser_declares() -> None:
    assert (DOCS / "grammar.md").read_text() == grammar.reference()


def test_there_are_fewer_than_a_hundred_rules() -> None:
    documented = (DOCS / "grammar.md").read_text().count(" =\n")
    assert documented == len(GRAMMAR) < 100


def test_each_rule_is_reached_from_the_root() -> None:
    assert set(grammar._in_order()) == set(GRAMMAR)


def test_the_words_of_the_grammar_are_the_words_the_parser_looks_for() -> None:
    documented = {word for name in GRAMMAR for word in ebnf.words_of(ebnf.rules()[name])}
    looked_for = {word for module in MODULES for call in _reading_calls(module) for word in _literals(call)}
    assert looked_for <= documented
    unread = {word for word in documented - looked_for if word not in _tables()}
    assert unread <= {"events", "emits", "emit", "event", "uses", "provides", "implementation"}


def _tables() -> set[str]:
    """Words that the parser takes from the tables of ``words``, and marks it knows by their kind."""
    tables = (value for value in vars(words).values() if isinstance(value, tuple))
    pointed = set(channels._POINTED)
    return {word for table in tables for word in table} | set("?*+!{}()[]<>|") | pointed | SHARED


SHARED = {"status", "error", "analytics", "relation", "SLA", "gateway", "template", "provider"}


def _reading_calls(module: ModuleType) -> Iterator[ast.Call]:
    for node in ast.walk(ast.parse(inspect.getsource(module))):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in READING:
            yield node


def _literals(call: ast.Call) -> set[str]:
    assert isinstance(call.func, ast.Attribute)
    arguments = call.args[:1] if call.func.attr == "keyword" else call.args
    constants = (node for each in arguments for node in ast.walk(each) if isinstance(node, ast.Constant))
    return {node.value for node in constants if isinstance(node.value, str)}


@settings(deadline=None, max_examples=150)
@given(ebnf.texts(comments=False))
def test_the_parser_reads_every_sentence_of_the_grammar(text: str) -> None:
    parsed = parse(text)
    assert not parsed.problems, parsed.problems
