"""Data types: complete, finite, and fit to be generated from."""

from __future__ import annotations

from collections.abc import Iterator

from dragoman.language import syntax as s
from dragoman.language.diagnostic import replace
from dragoman.language.lint.rule import Finding, error, info, warning
from dragoman.language.model import Model
from dragoman.language.tokens import Span
from dragoman.language.words import SHORT_ROLES

_IDENTIFYING = ("int", "long", "string")


@info("An element says its basic type.")
def untyped_parameter(model: Model) -> Iterator[Finding]:
    for atom in model.nodes(s.Atomic):
        if atom.basic is None:
            fix = replace("Make it a string", atom.role_span, f"{atom.role}<string>")
            yield Finding(
                f"'{atom.role}' has no basic type, such as {atom.role}<string>.", atom.role_span, fix
            )


@info("An element has a value.")
def void_parameter(model: Model) -> Iterator[Finding]:
    for atom in model.nodes(s.Atomic):
        if atom.basic == "void":
            yield Finding(f"'{atom.role}<void>' carries nothing.", atom.role_span)


@warning("Identifiers and links are numbers or strings.")
def identifier_type(model: Model) -> Iterator[Finding]:
    for atom in model.nodes(s.Atomic):
        role = SHORT_ROLES.get(atom.role, atom.role)
        if role in ("ID", "L") and atom.basic is not None and atom.basic not in _IDENTIFYING:
            said = f"'{atom.role}<{atom.basic}>' should be of type int, long or string."
            yield Finding(said, atom.role_span)


@warning("Metadata is not raw.")
def raw_metadata(model: Model) -> Iterator[Finding]:
    for atom in model.nodes(s.Atomic):
        if SHORT_ROLES.get(atom.role, atom.role) == "MD" and atom.basic == "raw":
            yield Finding(f"'{atom.role}<raw>' cannot be read by those whom metadata is for.", atom.role_span)


@warning("An element has a shape.")
def generic_parameter(model: Model) -> Iterator[Finding]:
    for node in model.nodes(s.Generic):
        said = "'P' is a placeholder" if node.placeholder else "An element with nothing but a name"
        yield Finding(f"{said}: nothing can be generated or checked for it.", node.span)


@info("A list of atoms is better a tree.")
def atomic_list(model: Model) -> Iterator[Finding]:
    for node in model.nodes(s.AtomicList):
        yield Finding("A list in parentheses is generated as a tree; write it in braces.", node.span)


@info("The names of a tuple's items are not generated.")
def tuple_names(model: Model) -> Iterator[Finding]:
    for node in model.nodes(s.Forest):
        for item in node.items:
            if item.name is not None:
                said = f"The item is known by its place; its name '{item.name.value}' is not generated."
                yield Finding(said, item.name.span)


@info("A message's structure has a name of its own.")
def inline_type(model: Model) -> Iterator[Finding]:
    for channel in model.of(s.Channel):
        for message in channel.messages:
            for structure in (message.content.headers, message.content.payload):
                if isinstance(structure, s.Tree | s.AtomicList | s.Forest):
                    said = (
                        f"'{message.name.text}' has an inline type; a data type can be reused and versioned."
                    )
                    yield Finding(said, Span(structure.span.start, structure.span.start + 1))


@error("A data type does not need itself.")
def cyclic_type(model: Model) -> Iterator[Finding]:
    needs = {name: _needed(type.structure) for name, type in model.types.items()}
    for name in _on_cycle(needs):
        type = model.types[name]
        said = f"The data type '{name}' contains itself, so no value of it ends; make the element optional."
        yield Finding(said, type.name.span)


def _needed(structure: s.Structure) -> set[str]:
    """The types without which no value exists: not those behind an optional element or an alternative."""
    if structure.cardinality.optional or isinstance(structure, s.Choice):
        return set()
    if isinstance(structure, s.Reference):
        return {structure.type.text}
    items: tuple[s.Structure, ...] = getattr(structure, "items", ())
    return {name for item in items for name in _needed(item)}


def _on_cycle(needs: dict[str, set[str]]) -> Iterator[str]:
    """The names that need themselves: what is left without loose ends, in both directions."""
    forward = {name: {other for other in others if other in needs} for name, others in needs.items()}
    backward: dict[str, set[str]] = {name: set() for name in forward}
    for name, others in forward.items():
        for other in others:
            backward[other].add(name)
    _trim(forward, backward)
    _trim(backward, forward)
    yield from (name for name, others in forward.items() if others)


def _trim(edges: dict[str, set[str]], reverse: dict[str, set[str]]) -> None:
    """Take away every name that has no edge, until each has one."""
    ready = [name for name, others in edges.items() if not others]
    while ready:
        done = ready.pop()
        for other in reverse[done]:
            edges[other].discard(done)
            if not edges[other]:
                ready.append(other)
        reverse[done] = set()
