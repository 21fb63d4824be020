"""Options: from names and constants to the fields of ``google.protobuf.*Options`` messages."""

from __future__ import annotations

from collections.abc import Iterator

from google.protobuf import descriptor_pb2 as pb
from google.protobuf import message_factory, text_format
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message import Message

from dragoman.core.errors import InvalidSchema
from dragoman.formats.protobuf.lexer import quote
from dragoman.formats.protobuf.link import Linker, enums_of, float_text, join, messages_of, resolve
from dragoman.formats.protobuf.parser import AnyOptions, Path

Owner = tuple[Message, Path, str]
"""A part of a file that may have options, the path of those options, and the scope of their names."""


def owners(file: pb.FileDescriptorProto) -> Iterator[Owner]:
    """All parts of a file that have options."""
    yield file, (8,), file.package
    for message, path, outer in messages_of(file):
        scope = join(outer, message.name)
        yield message, (*path, 7), scope
        for index, field in enumerate(message.field):
            yield field, (*path, 2, index, 8), scope
        for index, oneof in enumerate(message.oneof_decl):
            yield oneof, (*path, 8, index, 2), scope
        for index, each in enumerate(message.extension_range):
            yield each, (*path, 5, index, 3), scope
        for index, extension in enumerate(message.extension):
            yield extension, (*path, 6, index, 8), scope
    for index, extension in enumerate(file.extension):
        yield extension, (7, index, 8), file.package
    for enum, path, outer in enums_of(file):
        yield enum, (*path, 3), outer
        for index, value in enumerate(enum.value):
            yield value, (*path, 2, index, 3), outer
    for index, service in enumerate(file.service):
        yield service, (6, index, 3), file.package
        for number, method in enumerate(service.method):
            yield method, (6, index, 2, number, 4), file.package


def interpret_standard(linker: Linker) -> dict[Path, list[tuple[int, pb.UninterpretedOption]]]:
    """Set the options that Protobuf itself defines; give back the custom ones, by the path of their owner."""
    custom: dict[Path, list[tuple[int, pb.UninterpretedOption]]] = {}
    for owner, path, _ in owners(linker.file):
        if not owner.HasField("options") or not (written := _options(owner).uninterpreted_option):
            continue
        options = _options(owner)
        waiting = [pb.UninterpretedOption.FromString(each.SerializeToString()) for each in written]
        options.ClearField("uninterpreted_option")
        seen: set[str] = set()
        for index, option in enumerate(waiting):
            if any(part.is_extension for part in option.name):
                custom.setdefault(path, []).append((index, option))
                continue
            name = dotted(option)
            if name in seen and not _repeats(options, name):
                raise linker.error(f"The option {name!r} is given twice.", (*path, index))
            seen.add(name)
            _merge(linker, options, option, dotted(option), (*path, index))
    return custom


def interpret_custom(
    linker: Linker, custom: dict[Path, list[tuple[int, pb.UninterpretedOption]]], pool: DescriptorPool
) -> None:
    """Set the options that extensions define. ``pool`` holds the file, so that it may use its own."""
    for owner, path, scope in owners(linker.file):
        for index, option in custom.get(path, ()):
            names = []
            for part in option.name:
                name = part.name_part
                if part.is_extension:
                    name = f"[{_extension(linker, name, scope, pool, (*path, index))}]"
                names.append(name)
            options = _options(owner)
            dynamic = dynamic_options(options, pool)
            _merge(linker, dynamic, option, ".".join(names), (*path, index), names)
            options.Clear()
            options.MergeFromString(dynamic.SerializeToString(deterministic=True))


def dynamic_options(options: Message, pool: DescriptorPool) -> Message:
    """The same options, in a class that knows the extensions of this pool."""
    try:
        descriptor = pool.FindMessageTypeByName(options.DESCRIPTOR.full_name)
    except KeyError:
        return options
    return message_factory.GetMessageClass(descriptor).FromString(options.SerializePartialToString())


def _extension(linker: Linker, name: str, scope: str, pool: DescriptorPool, path: Path) -> str:
    found = resolve(name, scope, linker.symbols, ("extension",))
    if found is not None:
        return found
    try:
        pool.FindExtensionByName(name.lstrip("."))
        return name.lstrip(".")
    except KeyError:
        raise linker.error(
            f"The option ({name}) is not defined.", path, "Import the file that extends the options with it."
        ) from None


def _options(owner: Message) -> AnyOptions:
    options: AnyOptions = owner.options  # type: ignore[attr-defined]
    return options


def dotted(option: pb.UninterpretedOption) -> str:
    return ".".join(part.name_part for part in option.name)


def _repeats(options: Message, name: str) -> bool:
    field = options.DESCRIPTOR.fields_by_name.get(name)
    return field is not None and field.is_repeated


def _merge(
    linker: Linker,
    options: Message,
    option: pb.UninterpretedOption,
    shown: str,
    path: Path,
    names: list[str] | None = None,
) -> None:
    names = names or [part.name_part for part in option.name]
    aggregate = option.HasField("aggregate_value")
    text = f"{names[-1]} {{ {option.aggregate_value} }}" if aggregate else f"{names[-1]}: {constant(option)}"
    for name in reversed(names[:-1]):
        text = f"{name} {{ {text} }}"
    if names[0] == "uninterpreted_option":
        raise linker.error("uninterpreted_option is not for schemas.", path)
    try:
        text_format.Merge(text, options)
    except (text_format.ParseError, UnicodeDecodeError) as error:
        raise _refused(linker, shown, path, str(error)) from None


def _refused(linker: Linker, shown: str, path: Path, why: str) -> InvalidSchema:
    why = why.partition(" : ")[2] or why
    return linker.error(f"The option {shown} cannot be set: {why}", path)


def constant(option: pb.UninterpretedOption) -> str:
    """The value as Protobuf's text format writes it."""
    if option.HasField("identifier_value"):
        return option.identifier_value
    if option.HasField("string_value"):
        return quote(option.string_value)
    if option.HasField("double_value"):
        return float_text(option.double_value)
    return str(
        option.negative_int_value if option.HasField("negative_int_value") else option.positive_int_value
    )
