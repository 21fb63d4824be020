"""The grammar's reference, made from the rules that stand at the parser's functions."""

from __future__ import annotations

from textwrap import wrap

from dragoman.language.parser import Parser
from dragoman.language.parsing.cursor import GRAMMAR, MAX_DEPTH, rule_name

_PREAMBLE = """# The grammar

A model is one `.mdsl` file with one root, `ServiceSpecification`. The grammar is the union of the
published dialects of AsyncMDSL, and of plain MDSL so far as models use both. `dragoman model format`
writes one canonical form of it.

Notation: `'word'` stands for itself, `?` is optional, `*` any number, `+` at least one, `|` parts
alternatives, and `&` parts things that may come in any order. Words are reserved only where they have a
meaning, so most of them can be names; `^` before a name says that it is one.

- `NAME` is a letter or `_`, followed by letters, digits and `_`.
- `STRING` stands in `"` or `'`, may go over several lines, and knows the backslash escapes.
- `INT` is a whole number, `NUMBER` any number: `42`, `-1`, `2.5`, `1e3`.
- `VERBATIM` is text up to a line that starts with the next clause or declaration. It is kept as it is.
- Comments are `// to the end of the line` and `/* in between */`.

Structures may be nested {depth} levels deep. There are {count} rules.

"""


def reference() -> str:
    """The text of ``docs/grammar.md``."""
    blocks = []
    for name in _in_order():
        lines = wrap(GRAMMAR[name], 96, break_long_words=False, break_on_hyphens=False)
        blocks.append(f"{name} =\n" + "\n".join("    " + line for line in lines) + "\n")
    body = "```ebnf\n" + "\n".join(blocks) + "```\n"
    return _PREAMBLE.format(depth=MAX_DEPTH, count=len(GRAMMAR)) + body


def _in_order() -> list[str]:
    """The root first, then each rule after the one that uses it first."""
    order: list[str] = []
    waiting = [rule_name(Parser.service_specification)]
    while waiting:
        name = waiting.pop(0)
        if name in order:
            continue
        order.append(name)
        words = GRAMMAR[name].replace("(", " ").replace(")", " ").replace("?", " ").replace("*", " ")
        waiting += [word for word in words.replace("+", " ").split() if word in GRAMMAR]
    return order
