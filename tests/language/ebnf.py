"""Sentences of the language, drawn from the grammar that the parser itself declares."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from random import Random

from hypothesis import strategies as st

from dragoman.language.parser import Parser
from dragoman.language.parsing.cursor import GRAMMAR

ROOT = "ServiceSpecification"
assert Parser

NAMES = ("Alpha", "Beta", "gamma_2", "_delta", "^D", "^flow", "^channel", "Message", "Order")
STRINGS = (
    '"a"',
    '"a longer text that takes some room"',
    "'single'",
    "'with \"quotes\"'",
    '"two\nlines"',
    r'"escaped \" and \\ and \n"',
    '""',
    '"// no comment"',
)
NUMBERS = ("0", "42", "-1", "2.5", "1e3", "-0.25")
VERBATIM = ("governance EXPERIMENTAL_PREVIEW", 'SLA objective Fast "under" 5 seconds', "x , y ( z )")


@dataclass(frozen=True)
class Part:
    kind: str
    value: str = ""
    parts: tuple[Part, ...] = ()


def read(ebnf: str) -> Part:
    tokens = re.findall(r"'[^']*'|[A-Za-z]+|[()?*+|&]", ebnf)
    position = 0

    def alternatives() -> Part:
        nonlocal position
        options = [unordered()]
        while position < len(tokens) and tokens[position] == "|":
            position += 1
            options.append(unordered())
        return options[0] if len(options) == 1 else Part("or", parts=tuple(options))

    def unordered() -> Part:
        nonlocal position
        groups = [sequence()]
        while position < len(tokens) and tokens[position] == "&":
            position += 1
            groups.append(sequence())
        return groups[0] if len(groups) == 1 else Part("any order", parts=tuple(groups))

    def sequence() -> Part:
        parts = []
        while position < len(tokens) and tokens[position] not in ("|", "&", ")"):
            parts.append(repeated())
        return parts[0] if len(parts) == 1 else Part("sequence", parts=tuple(parts))

    def repeated() -> Part:
        nonlocal position
        part = single()
        while position < len(tokens) and tokens[position] in ("?", "*", "+"):
            part = Part(tokens[position], parts=(part,))
            position += 1
        return part

    def single() -> Part:
        nonlocal position
        token = tokens[position]
        position += 1
        if token == "(":
            part = alternatives()
            position += 1
            return part
        if token.startswith("'"):
            return Part("word", token[1:-1])
        return Part("rule" if token in GRAMMAR else "terminal", token)

    result = alternatives()
    assert position == len(tokens), ebnf
    return result


@cache
def rules() -> dict[str, Part]:
    return {name: read(ebnf) for name, ebnf in GRAMMAR.items()}


@cache
def heights() -> dict[str, int]:
    """The least depth of a sentence of each rule."""
    known: dict[str, int] = {}
    while len(known) < len(rules()):
        before = len(known)
        for name, part in rules().items():
            height = _height(part, known)
            if name not in known and height is not None:
                known[name] = height + 1
        assert len(known) > before, "a rule has no finite sentence"
    return known


def _height(part: Part, known: dict[str, int]) -> int | None:
    if part.kind in ("?", "*") or part.kind in ("word", "terminal"):
        return 0
    if part.kind == "rule":
        return known.get(part.value)
    found = [_height(each, known) for each in part.parts]
    if part.kind == "or":
        return min((each for each in found if each is not None), default=None)
    return None if None in found else max((each or 0 for each in found), default=0)


def words_of(part: Part) -> set[str]:
    if part.kind == "word":
        return {part.value}
    return {word for each in part.parts for word in words_of(each)}


def sentence(random: Random, rule: str = ROOT, size: int = 60) -> list[str]:
    """Tokens of a sentence. A newline is a token of its own where the grammar needs one."""
    out: list[str] = []
    _draw(random, Part("rule", rule), out, 14, size)
    return out


def _draw(random: Random, part: Part, out: list[str], depth: int, size: int) -> None:
    small = len(out) > size or depth <= 0
    match part.kind:
        case "word":
            out.extend(("\n", part.value) if part.value == "IPA" else (part.value,))
        case "terminal":
            out.extend(_terminal(random, part.value))
        case "rule":
            if part.value == "Declaration":
                out.append("\n")
            _draw(random, rules()[part.value], out, depth - 1, size)
        case "?":
            if not small and random.random() < 0.5:
                _draw(random, part.parts[0], out, depth, size)
        case "*" | "+":
            count = 0 if small else random.randrange(3)
            for _ in range(count + (part.kind == "+")):
                _draw(random, part.parts[0], out, depth, size)
        case "or":
            options = part.parts
            if small:
                options = (min(options, key=lambda each: _height(each, heights()) or 0),)
            _draw(random, random.choice(options), out, depth, size)
        case "any order":
            for each in random.sample(part.parts, len(part.parts)):
                _draw(random, each, out, depth, size)
        case _:
            for each in part.parts:
                _draw(random, each, out, depth, size)


def _terminal(random: Random, name: str) -> list[str]:
    match name:
        case "NAME":
            return [random.choice(NAMES)]
        case "STRING":
            return [random.choice(STRINGS)]
        case "INT":
            return [str(random.randrange(1000))]
        case "NUMBER":
            return [random.choice(NUMBERS)]
        case "VERBATIM":
            return [*random.choice(VERBATIM).split(" "), "\n"]
    raise AssertionError(name)


GAPS = (" ", " ", " ", "\n", "  \n\n", "\t")
COMMENTS = (" // note\n", "\n// own line\n", " /* inside */ ", "\n/* two\n lines */\n", "\n\n// last\n\n")


def text(seed: int, size: int, comments: bool) -> str:
    random = Random(seed)
    gaps = GAPS + COMMENTS if comments else GAPS
    parts = [random.choice(gaps)]
    for token in sentence(random, size=size):
        parts += [token, "" if token == "\n" else random.choice(gaps)]
    return "".join(parts)


def texts(comments: bool = True) -> st.SearchStrategy[str]:
    """Models with random layout and, if wanted, comments anywhere between their tokens.

    Drawn from a seed: thousands of small choices would take hypothesis seconds for each model.
    """
    return st.builds(text, st.integers(0, 2**32), st.integers(5, 120), st.just(comments))
