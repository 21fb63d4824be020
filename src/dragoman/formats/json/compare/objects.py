"""Objects: their properties, and what they allow beside those.

A content model is open if any other property may occur, closed if none may, and partially open if those
must fit a schema.
"""

from __future__ import annotations

from dragoman.formats.json.compare.judge import Judge, Step
from dragoman.formats.json.compare.rest import compare_rest
from dragoman.formats.json.compare.scalars import bound
from dragoman.formats.json.link import Place
from dragoman.formats.json.model import MISSING, Model
from dragoman.formats.json.node import Anything, Nothing, Object
from dragoman.formats.json.validator import compiled, matches


def objects(judge: Judge, reader: Object, writer: Object) -> None:
    plain = plain_here(reader)
    for name in sorted(reader.properties.keys() & writer.properties.keys()):
        judge.need(reader.properties[name], writer.properties[name], Step(name), plain=plain)
    for name in sorted(writer.properties.keys() - reader.properties.keys()):
        _removed(judge, name, reader, writer)
    for name in sorted(reader.properties.keys() - writer.properties.keys()):
        _added(judge, name, reader, writer)
    _required(judge, reader, writer)
    bound(judge, "MAX_PROPERTIES", reader.max_properties, writer.max_properties)
    bound(judge, "MIN_PROPERTIES", reader.min_properties, writer.min_properties)
    compare_rest(judge, reader.rest, writer.rest, "PROPERTIES")
    _needs(judge, reader, writer)
    _implies(judge, reader, writer)
    _patterns(judge, reader, writer)
    _names(judge, reader, writer)


def plain_here(node: Object) -> bool:
    """Whether a missing property may be filled in without upsetting another keyword of the object."""
    return not (
        node.entangled
        or node.max_properties is not None
        or node.needs
        or node.implies
        or node.names is not None
        or node.patterns
        or (node.rest is not None and not node.rest.certain)
    )


def _removed(judge: Judge, name: str, reader: Object, writer: Object) -> None:
    """The writer lists a property that the reader does not."""
    own = writer.properties[name]
    step = Step(name)
    covering = _covering(judge.pair.reader.model, name, reader)
    if not covering:
        judge.differ(
            "PROPERTY_REMOVED_FROM_OPEN_CONTENT_MODEL",
            f"The reader does not know the property {name!r}, and takes any other.",
            writer=own,
        )
    elif all(isinstance(judge.reader(each), Nothing) for each in covering):
        removed = isinstance(judge.writer(own), Nothing)
        rule = "PROPERTY_WITH_FALSE_REMOVED" if removed else "PROPERTY_REMOVED"
        judge.differ(
            f"{rule}_FROM_CLOSED_CONTENT_MODEL",
            f"The reader does not know the property {name!r}, and takes no other.",
            writer=own,
            step=step,
        )
    elif all(judge.fits(each, own) for each in covering):
        judge.differ(
            "PROPERTY_REMOVED_IS_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL",
            f"The reader takes the property {name!r} as one of others.",
            writer=own,
        )
    else:
        judge.differ(
            "PROPERTY_REMOVED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL",
            f"The reader does not know the property {name!r}, and its schema for others does not take it.",
            writer=own,
            step=step,
        )


def _added(judge: Judge, name: str, reader: Object, writer: Object) -> None:
    """The reader lists a property that the writer does not."""
    own = reader.properties[name]
    step = Step(name)
    sources = _covering(judge.pair.writer.model, name, writer)
    if not sources:
        _added_to_open(judge, name, reader)
        return
    if not any(isinstance(judge.writer(each), Nothing) for each in sources):
        if not any(judge.fits(own, each) for each in sources):
            judge.differ(
                "PROPERTY_ADDED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL",
                f"The writer may write a property {name!r} that the reader does not take.",
                reader=own,
                step=step,
            )
            return
        judge.differ(
            "PROPERTY_ADDED_IS_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL",
            f"Whatever the writer writes as {name!r}, the reader takes.",
            reader=own,
        )
    if name not in reader.required or name in writer.required:
        judge.differ(
            "OPTIONAL_PROPERTY_ADDED_TO_UNOPEN_CONTENT_MODEL",
            f"The reader knows another optional property, {name!r}.",
            reader=own,
        )
    elif judge.pair.reader.model.default(own) is not MISSING:
        judge.differ(
            "REQUIRED_PROPERTY_WITH_DEFAULT_ADDED_TO_UNOPEN_CONTENT_MODEL",
            f"The reader requires another property, {name!r}, and has a default for it.",
            reader=own,
        )
        _check_default(judge, name, own, reader)
    else:
        judge.differ(
            "REQUIRED_PROPERTY_ADDED_TO_UNOPEN_CONTENT_MODEL",
            f"The reader requires the property {name!r}, which the writer never writes; it has no default.",
            reader=own,
            step=step,
        )


def _added_to_open(judge: Judge, name: str, reader: Object) -> None:
    own = reader.properties[name]
    if isinstance(judge.reader(own), Anything):
        judge.differ(
            "PROPERTY_WITH_EMPTY_SCHEMA_ADDED_TO_OPEN_CONTENT_MODEL",
            f"The reader takes anything as {name!r}.",
            reader=own,
        )
        return
    judge.differ(
        "PROPERTY_ADDED_TO_OPEN_CONTENT_MODEL",
        f"The writer may write anything as {name!r}, since its content model is open; "
        "the reader expects a certain schema.",
        reader=own,
        step=Step(name),
    )


def _required(judge: Judge, reader: Object, writer: Object) -> None:
    for name in sorted(writer.required - reader.required):
        judge.differ("REQUIRED_ATTRIBUTE_REMOVED", f"The reader does not require {name!r}.")
    for name in sorted(reader.required - writer.required):
        own = reader.properties.get(name)
        closed = bool(_covering(judge.pair.writer.model, name, writer))
        if own is not None and name not in writer.properties and closed:
            continue
        if own is not None and judge.pair.reader.model.default(own) is not MISSING:
            judge.differ(
                "REQUIRED_ATTRIBUTE_WITH_DEFAULT_ADDED",
                f"The reader requires {name!r} and has a default for it.",
                reader=own,
            )
            _check_default(judge, name, own, reader)
        else:
            judge.differ(
                "REQUIRED_ATTRIBUTE_ADDED",
                f"The reader requires {name!r}, the writer may leave it out, and there is no default.",
                step=Step(name),
            )


def _check_default(judge: Judge, name: str, own: Place, reader: Object) -> None:
    """A default helps only if it is filled in, valid, and upsets nothing else."""
    if not judge.exact:
        return
    model = judge.pair.reader.model
    plain = judge.pair.plain and plain_here(reader)
    if plain and compiled(model.linked, own).is_valid(model.default(own)):
        return
    judge.differ(
        "DEFAULT_UNFIT",
        f"The default of {name!r} is not valid, or is not filled in here.",
        reader=own,
        step=Step(name),
    )


def _needs(judge: Judge, reader: Object, writer: Object) -> None:
    for name in sorted(reader.needs.keys() | writer.needs.keys()):
        new, old = reader.needs.get(name), writer.needs.get(name)
        if new == old:
            continue
        if new is None:
            judge.differ("DEPENDENCY_ARRAY_REMOVED", f"The reader asks for nothing beside {name!r}.")
        elif old is None:
            judge.differ("DEPENDENCY_ARRAY_ADDED", f"With {name!r} the reader asks for {_listed(new)}.")
        elif new < old:
            judge.differ("DEPENDENCY_ARRAY_NARROWED", f"The reader asks for less beside {name!r}.")
        else:
            change = "EXTENDED" if new > old else "CHANGED"
            judge.differ(
                f"DEPENDENCY_ARRAY_{change}", f"With {name!r} the reader also asks for {_listed(new - old)}."
            )


def _implies(judge: Judge, reader: Object, writer: Object) -> None:
    for name, place in reader.implies:
        old = [each for other, each in writer.implies if other == name]
        if len(old) == 1:
            judge.need(place, old[0], Step())
        elif not any(judge.fits(place, each) for each in old):
            judge.differ(
                "DEPENDENCY_SCHEMA_ADDED", f"With {name!r} the reader asks for more of the object.", place
            )
    kept = {name for name, _ in reader.implies}
    for name, place in writer.implies:
        if name not in kept:
            judge.differ(
                "DEPENDENCY_SCHEMA_REMOVED", f"The reader asks for nothing beside {name!r}.", writer=place
            )


def _patterns(judge: Judge, reader: Object, writer: Object) -> None:
    """What neither side names: the properties of patterns. Only ``EXACT`` minds."""
    for pattern, place in reader.patterns.items():
        if isinstance(judge.reader(place), Anything):
            continue
        same = writer.patterns.get(pattern)
        sources = [same] if same is not None else _sources(pattern, writer)
        if sources is None or not all(judge.fits(place, each) for each in sources):
            judge.differ(
                "PATTERN_PROPERTY_NARROWED",
                f"The writer may write properties matching {pattern!r} that the reader does not take.",
                reader=place,
            )
    for pattern, place in writer.patterns.items():
        if pattern in reader.patterns or reader.rest is None:
            continue
        if not judge.fits(reader.rest.place, place):
            judge.differ(
                "PATTERN_PROPERTY_REMOVED",
                f"The writer may write properties matching {pattern!r}, the reader takes no such others.",
                writer=place,
            )


def _sources(pattern: str, writer: Object) -> list[Place] | None:
    """All that a writer may write under a name that matches; ``None`` if that is anything."""
    if writer.rest is None or not writer.rest.certain:
        return None
    named = [place for name, place in writer.properties.items() if matches(pattern, name)]
    return [*named, *writer.patterns.values(), writer.rest.place]


def _names(judge: Judge, reader: Object, writer: Object) -> None:
    if reader.names is None or isinstance(judge.reader(reader.names), Anything):
        return
    if writer.names is None or not judge.fits(reader.names, writer.names):
        judge.differ(
            "PROPERTY_NAMES_NARROWED",
            "The writer may write names of properties that the reader does not take.",
            reader=reader.names,
        )


def _covering(model: Model, name: str, node: Object) -> list[Place]:
    """The schemas that an unlisted property must fit; none in an open content model."""
    found = [place for pattern, place in node.patterns.items() if matches(pattern, name)]
    if found or node.rest is None:
        return found
    return [] if isinstance(model.at(node.rest.place), Anything) else [node.rest.place]


def _listed(names: frozenset[str]) -> str:
    return ", ".join(repr(name) for name in sorted(names))
