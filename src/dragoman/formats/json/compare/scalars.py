"""Strings, numbers and enumerations."""

from __future__ import annotations

from fractions import Fraction

from dragoman.formats.json.compare.judge import Judge
from dragoman.formats.json.document import compact
from dragoman.formats.json.node import Number, String, Values
from dragoman.formats.json.normal import plain


def bound(judge: Judge, name: str, reader: Fraction | None, writer: Fraction | None) -> None:
    """A limit; whether more or less of it is stricter, its rules know."""
    if reader == writer:
        return
    words = name.lower().replace("_", " ")
    if writer is None:
        judge.differ(f"{name}_ADDED", f"The reader has a {words} of {shown(reader)}, the writer has none.")
    elif reader is None:
        judge.differ(f"{name}_REMOVED", f"The writer has a {words} of {shown(writer)}, the reader has none.")
    else:
        change = "INCREASED" if reader > writer else "DECREASED"
        judge.differ(
            f"{name}_{change}",
            f"The {words} is {shown(writer)} for the writer, {shown(reader)} for the reader.",
        )


def strings(judge: Judge, reader: String, writer: String) -> None:
    bound(judge, "MAX_LENGTH", reader.max_length, writer.max_length)
    bound(judge, "MIN_LENGTH", reader.min_length, writer.min_length)
    if reader.pattern != writer.pattern:
        if reader.pattern is None:
            judge.differ("PATTERN_REMOVED", "The reader has no pattern.")
        elif writer.pattern is None:
            judge.differ("PATTERN_ADDED", f"The reader asks for the pattern {reader.pattern!r}.")
        else:
            judge.differ(
                "PATTERN_CHANGED",
                f"The pattern is {writer.pattern!r} for the writer, {reader.pattern!r} for the reader.",
            )
    stricter = [new and not old for new, old in zip(reader.asserts, writer.asserts, strict=True)]
    if reader.format is not None and (reader.format != writer.format or stricter[0]):
        judge.differ("FORMAT_CHANGED", f"The reader asks for the format {reader.format!r}.")
    if any(reader.encoding) and (reader.encoding != writer.encoding or stricter[1]):
        judge.differ("FORMAT_CHANGED", "The reader asks for another encoding or media type of the content.")


def numbers(judge: Judge, reader: Number, writer: Number) -> None:
    if reader.integer and not writer.integer:
        judge.differ("TYPE_NARROWED", "The writer writes any number, the reader takes integers only.")
    elif writer.integer and not reader.integer:
        judge.differ("TYPE_EXTENDED", "The reader takes any number.")
    elif reader.integer and writer.whole and not reader.whole:
        judge.differ(
            "WHOLE_NUMBER_REFUSED",
            "For the writer 1.0 is an integer; for the reader, a schema of draft 4, it is not.",
        )
    bound(judge, "MAXIMUM", reader.maximum, writer.maximum)
    bound(judge, "EXCLUSIVE_MAXIMUM", reader.exclusive_maximum, writer.exclusive_maximum)
    bound(judge, "MINIMUM", reader.minimum, writer.minimum)
    bound(judge, "EXCLUSIVE_MINIMUM", reader.exclusive_minimum, writer.exclusive_minimum)
    _multiples(judge, reader.multiple_of, writer.multiple_of)


def _multiples(judge: Judge, reader: Fraction | None, writer: Fraction | None) -> None:
    if reader == writer:
        return
    if reader is None:
        judge.differ("MULTIPLE_OF_REMOVED", "The reader takes numbers that are not multiples.")
    elif writer is None:
        judge.differ("MULTIPLE_OF_ADDED", f"The reader asks for multiples of {shown(reader)}.")
    else:
        change = "CHANGED"
        if reader % writer == 0:
            change = "EXPANDED"
        elif writer % reader == 0:
            change = "REDUCED"
        judge.differ(
            f"MULTIPLE_OF_{change}",
            f"The writer writes multiples of {shown(writer)}, the reader asks for those of {shown(reader)}.",
        )


def values(judge: Judge, reader: Values, writer: Values) -> None:
    known = {compact(plain(each)) for each in reader.values}
    written = {compact(plain(each)) for each in writer.values}
    if known == written:
        return
    missing = ", ".join(sorted(written - known)[:5])
    if not missing:
        judge.differ("ENUM_ARRAY_EXTENDED", "The reader knows more values.")
    elif known <= written:
        judge.differ("ENUM_ARRAY_NARROWED", f"The reader does not know the values {missing}.")
    else:
        judge.differ("ENUM_ARRAY_CHANGED", f"The reader knows other values, but not {missing}.")


def shown(value: Fraction | None) -> str:
    if value is None:
        return "none"
    return str(value.numerator) if value.denominator == 1 else str(float(value))
