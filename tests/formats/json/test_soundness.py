"""What is judged compatible is compatible: every document of the old schema is read with the new one."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.formats.json.strategies import changed, documents, modern, recursive, schemas, structures

from dragoman.core.errors import IncompatibleSchema, MessageError
from dragoman.core.format import Policy
from dragoman.formats.json import JsonFormat

FORMAT = JsonFormat()
QUIET = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much]


@st.composite
def evolutions(draw: st.DrawFn, holes: bool = True) -> tuple[Any, Any, list[Any]]:
    """An old schema, a new one, and documents for the old one."""
    old = draw(structures(holes))
    new = draw(changed(old, holes))
    samples = draw(st.lists(documents(old), min_size=3, max_size=6))
    shape = draw(st.sampled_from(["draft 7", "draft 7", "2020-12", "upgrade", "downgrade", "recursive"]))
    if shape == "2020-12":
        return draw(modern(old)), draw(modern(new)), samples
    if shape == "upgrade":
        return old, draw(modern(new)), samples
    if shape == "downgrade":
        return draw(modern(old)), new, samples
    if shape == "recursive":
        return recursive(old), recursive(new), [{"v": each, "next": {"v": each}} for each in samples]
    return old, new, samples


def unreadable(old: Any, new: Any, documents: list[Any]) -> list[Any]:
    """The documents that the old schema allows and the new one cannot read."""
    writer, reader = FORMAT.parse(json.dumps(old)), FORMAT.parse(json.dumps(new))
    valid = [each for each in documents if writer.validator.is_valid(each)]
    if not valid:
        return []
    try:
        decode = FORMAT.codec(writer, reader).decode
    except IncompatibleSchema:
        return valid
    found = []
    for document in valid:
        try:
            decode(json.dumps(document).encode())
        except MessageError:
            found.append(document)
    return found


def judged(old: Any, new: Any, policy: Policy) -> bool:
    reader, writer = FORMAT.parse(json.dumps(new)), FORMAT.parse(json.dumps(old))
    return not FORMAT.incompatibilities(reader, writer, policy)


@settings(max_examples=120, deadline=None, suppress_health_check=QUIET)
@given(evolutions())
def test_documents_of_an_exactly_compatible_older_schema_are_read(
    evolution: tuple[Any, Any, list[Any]],
) -> None:
    old, new, samples = evolution
    if judged(old, new, Policy.EXACT):
        assert unreadable(old, new, samples) == []


@settings(max_examples=100, deadline=None, suppress_health_check=QUIET)
@given(evolutions(holes=False))
def test_documents_of_a_strictly_compatible_older_schema_are_read_where_its_rules_look(
    evolution: tuple[Any, Any, list[Any]],
) -> None:
    old, new, samples = evolution
    if judged(old, new, Policy.STRICT):
        assert unreadable(old, new, samples) == []


@settings(max_examples=60, deadline=None, suppress_health_check=QUIET)
@given(evolutions())
def test_what_exact_accepts_strict_accepts_and_lenient_too(evolution: tuple[Any, Any, list[Any]]) -> None:
    old, new, _ = evolution
    if judged(old, new, Policy.EXACT):
        assert judged(old, new, Policy.STRICT)
    if judged(old, new, Policy.STRICT):
        assert judged(old, new, Policy.LENIENT)


@settings(max_examples=60, deadline=None, suppress_health_check=QUIET)
@given(evolutions())
def test_a_counter_example_is_valid_for_the_writer_and_unreadable_for_the_reader(
    evolution: tuple[Any, Any, list[Any]],
) -> None:
    old, new, _ = evolution
    reader, writer = FORMAT.parse(json.dumps(new)), FORMAT.parse(json.dumps(old))
    for reason in FORMAT.incompatibilities(reader, writer, Policy.STRICT):
        if reason.counterexample is not None:
            document = json.loads(reason.counterexample)
            assert unreadable(old, new, [document]) == [document]


@settings(max_examples=60, deadline=None, suppress_health_check=QUIET)
@given(schemas())
def test_a_schema_is_compatible_with_itself_and_with_its_normal_form(schema: Any) -> None:
    parsed = FORMAT.parse(json.dumps(schema))
    normal = FORMAT.parse(parsed.normalised(2))
    for policy in Policy:
        assert not FORMAT.incompatibilities(parsed, parsed, policy)
        assert not FORMAT.incompatibilities(normal, parsed, policy)
    assert normal.fingerprint == parsed.fingerprint
    assert normal.normalised(2) == parsed.normalised(2)
