"""For each endpoint a controller that runs at once, and a test: both to be filled in."""

from __future__ import annotations

import json
import keyword
import re

from dragoman.language import syntax as s
from dragoman.language.generators.code.channels import (
    Parameter,
    channel_expression,
    channel_of,
    constant,
    parameters,
)
from dragoman.language.generators.code.records import (
    all_definitions,
    class_name,
    example,
    example_statement,
    payload_record,
    python_name,
)
from dragoman.language.generators.code.text import docstring
from dragoman.language.generators.definitions import Definition
from dragoman.language.model import Interaction, Model
from dragoman.language.pointer import read_pointer
from dragoman.language.printer import inline_value
from dragoman.language.running.headers import to_be_given

_WIDTH = 100


def snake(name: str) -> str:
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()


def module_name(endpoint: str) -> str:
    name = snake(endpoint)
    return (
        f"{name}_"
        if keyword.iskeyword(name) or name in ("__main__", "channels", "records", "tests")
        else name
    )


def _received(model: Model, endpoint: str) -> list[Interaction]:
    """What arrives by itself. A reply is waited for by the one who asked, so it has no handler."""
    return [
        each
        for each in model.interactions_of(endpoint)
        if each.receives and not (each.message.part == "reply" and not each.provides)
    ]


def _sent(model: Model, endpoint: str) -> list[Interaction]:
    return [
        each
        for each in model.interactions_of(endpoint)
        if not each.receives and not (each.message.part == "reply" and each.provides)
    ]


def handlers(model: Model, endpoint: str) -> tuple[str, ...]:
    return tuple(_handler(each.message) for each in _received(model, endpoint))


def _handler(message: s.Message) -> str:
    return f"on_{snake(message.name.text)}"


def _reply(interaction: Interaction) -> s.Message | None:
    if interaction.message.part != "request":
        return None
    return next(each for each in interaction.channel.messages if each.part == "reply")


def letters(interaction: Interaction) -> bool:
    """Dead and invalid letters are the frames of others: they come as bytes."""
    return interaction.channel.has("DEAD_LETTER") or interaction.channel.has("INVALID_MESSAGE")


def _once(interaction: Interaction) -> bool:
    """Whether the model wants a transaction around the handler."""
    guarantee = interaction.channel.guarantee
    exactly = guarantee is not None and guarantee.text == "EXACTLY_ONCE"
    return exactly or interaction.endpoint.has("TRANSACTIONAL_CLIENT")


def controller_module(model: Model, endpoint: str) -> str:
    """The controller of an endpoint: one method for each message that it receives."""
    known = all_definitions(model)
    received, sent = _received(model, endpoint), _sent(model, endpoint)
    constants, records = set[str](), set[str]()
    values = _Values({*map(constant, model.messages), *map(class_name, known), class_name(endpoint)})
    methods = []
    for each in received:
        reply = _reply(each)
        constants |= {channel_of(each.message)} | ({channel_of(reply)} if reply else set())
        records |= set() if letters(each) else {payload_record(each.message)}
        records |= {payload_record(reply)} if reply else set()
        methods.append(_method(known, each, reply, values))
    for each in sent:
        constants.add(channel_of(each.message))
        records.add(payload_record(each.message))
        reply = _reply(each)
        if reply is not None:
            records.add(payload_record(reply))
        methods.append(_sender(each, reply, bool(to_be_given(model, each.message))))
    node = model.endpoints[endpoint]
    about = node.description.value if node.description else f"The endpoint {endpoint}."
    dragoman = [*(["Client"] if sent else []), *(["controller", "endpoint"] if received else [])]
    from_channels = imported(".channels", constants)
    from_records = imported(".records", set(map(class_name, records)))
    body = "\n".join(methods) or "    pass\n"
    return (
        f"{docstring(about)}\n\nfrom __future__ import annotations\n\n"
        + (f"from dragoman import {', '.join(dragoman)}\n\n" if dragoman else "")
        + f"{from_channels}{from_records}{values.lines()}\n\n"
        + (f'@controller(group="{endpoint_group(endpoint)}")\n' if received else "")
        + f"class {class_name(endpoint)}:\n{body}"
    )


def imported(module: str, names: set[str]) -> str:
    """An import statement, over several lines where it is long."""
    if not names:
        return ""
    line = f"from {module} import {', '.join(sorted(names))}"
    if len(line) <= _WIDTH:
        return line + "\n"
    return f"from {module} import (\n" + "".join(f"    {name},\n" for name in sorted(names)) + ")\n"


def endpoint_group(endpoint: str) -> str:
    return snake(endpoint).replace("_", "-")


class _Values:
    """The values of parameters in the channels that a controller receives from: constants to be changed."""

    def __init__(self, taken: set[str]) -> None:
        self._taken = taken
        self._names: dict[tuple[str, str], str] = {}
        self._about: dict[str, Parameter] = {}

    def channel(self, message: s.Message) -> str:
        return channel_expression(message, [self._name(each) for each in parameters(message)])

    def _name(self, given: Parameter) -> str:
        key = given.original, given.type
        if key not in self._names:
            name = constant(given.name)
            while name in self._taken:
                name += "_"
            self._taken.add(name)
            self._names[key] = name
            self._about[name] = given
        return self._names[key]

    def lines(self) -> str:
        found = []
        for name, given in self._about.items():
            about = given.description or f"The parameter {given.original}."
            said = f"{about} Put in the value whose messages are for this endpoint."
            found.append(f"{name} = {_FIRST.get(given.type) or json.dumps(given.name)}\n{docstring(said)}\n")
        return "\n" + "".join(found) if found else ""


_FIRST = {"bool": "True", "int": "1", "float": "1"}
"""Values that stand in generated code. Text stands for itself."""


def _method(known: dict[str, Definition], each: Interaction, reply: s.Message | None, values: _Values) -> str:
    name, record = values.channel(each.message), payload_record(each.message)
    to = f", reply_to={values.channel(reply)}" if reply else ""
    taken = "bytes" if letters(each) else class_name(record)
    answer = payload_record(reply) if reply else ""
    returns = class_name(answer) if answer else "None"
    about = [each.message.description.value if each.message.description else f"{each.message.name.text}."]
    for condition in each.use.conditions:
        right = inline_value(condition.right)
        about.append(f"Only if {condition.left.value} {condition.operator} {right}.")
    lines = [
        _decorator(name, f"{to}{', transactional=True' if _once(each) else ''}"),
        f"    async def {_handler(each.message)}(self, message: {taken}) -> {returns}:",
        "        " + docstring("\n\n".join(about), 8),
    ]
    if reply is not None:
        given = _correlated(known[record], each, reply)
        lines.append(example_statement(known, "        return ", answer, given))
    return "\n".join(lines) + "\n"


def _decorator(channel: str, options: str) -> str:
    line = f"    @endpoint({channel}{options})"
    if len(line) <= _WIDTH:
        return line
    given = f"{channel}{options}".replace(", reply_to=", ",\n        reply_to=")
    return f"    @endpoint(\n        {given},\n    )"


def _correlated(request: Definition, each: Interaction, reply: s.Message) -> dict[str, str]:
    """The reply carries the identifier of its request."""
    clause = reply.pointed("CORRELATION_ID") or each.message.pointed("CORRELATION_ID")
    pointer = read_pointer(clause.pointer.value) if clause else None
    if pointer is None or pointer.part != "payload" or len(pointer.tokens) != 1:
        return {}
    fields = {field.original: python_name(field.name) for field in request.fields}
    token = pointer.tokens[0]
    return {token: f"message.{fields[token]}"} if token in fields else {}


def _sender(each: Interaction, reply: s.Message | None, headers: bool) -> str:
    record, verb = class_name(payload_record(each.message)), snake(each.message.name.text)
    given = {
        f"{one.name}_value" if one.name in ("self", "client", "headers", "message") else one.name: one.type
        for one in parameters(each.message)
    }
    name = channel_expression(each.message, given)
    arguments = f"client: Client, message: {record}"
    arguments += "".join(f", {parameter}: {type}" for parameter, type in given.items())
    arguments += ", headers: dict[str, str]" if headers else ""
    more = ", headers=headers" if headers else ""
    if reply is None:
        body = _call("await client.publish", f"{name}, message{more}")
        return _function(f"send_{verb}", arguments, "None") + body
    answer = class_name(payload_record(reply))
    body = _call("return await client.request", f"{name}, message, reply={answer}{more}")
    return _function(f"ask_{verb}", arguments, answer) + body


def _call(function: str, arguments: str) -> str:
    line = f"        {function}({arguments})\n"
    if len(line) <= _WIDTH:
        return line
    return f"        {function}(\n            {arguments}\n        )\n"


def _function(name: str, arguments: str, returns: str) -> str:
    line = f"    async def {name}(self, {arguments}) -> {returns}:\n"
    if len(line) <= _WIDTH:
        return line
    return f"    async def {name}(\n        self, {arguments}\n    ) -> {returns}:\n"


def test_module(model: Model, endpoint: str) -> str:
    """A test of each handler. It passes at once, and is there to be changed."""
    known = all_definitions(model)
    received = _received(model, endpoint)
    records = [payload_record(each.message) for each in received if not letters(each)]
    replies = {payload_record(reply) for each in received if (reply := _reply(each))}
    head = f'"""Tests of {endpoint}."""\n\nfrom __future__ import annotations\n\n'
    head += "import asyncio\n\n" if received else ""
    imports = {
        f"..{module_name(endpoint)}": {class_name(endpoint)},
        "..records": _needed(known, records) | set(map(class_name, replies)),
    }
    head += "".join(imported(module, imports[module]) for module in sorted(imports))
    tests = [_test(known, endpoint, each) for each in received]
    tests = tests or [
        f"def test_it_can_be_made() -> None:\n    assert {class_name(endpoint)}() is not None\n"
    ]
    return head + "".join(f"\n\n{test}" for test in tests)


def _test(known: dict[str, Definition], endpoint: str, each: Interaction) -> str:
    reply = _reply(each)
    call = f"asyncio.run({class_name(endpoint)}().{_handler(each.message)}(message))"
    check = f"assert isinstance({call}, {class_name(payload_record(reply))})" if reply else call
    before = "    message = "
    made = f'{before}b""' if letters(each) else example_statement(known, before, payload_record(each.message))
    return f"def test_{snake(each.message.name.text)}_is_handled() -> None:\n{made}\n    {check}\n"


def _needed(known: dict[str, Definition], records: list[str]) -> set[str]:
    """The classes that the examples of these records are made of."""
    text = " ".join(example(known, record) for record in records)
    classes = set(map(class_name, known))
    return {name for name in re.findall(r"(\w+)\(", text) if name in classes}
