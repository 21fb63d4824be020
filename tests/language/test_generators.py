"""Schemas, pictures and code from models."""

from __future__ import annotations

import ast
import asyncio
import json
import subprocess
import sys
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from itertools import combinations
from pathlib import Path

import fastavro
import jsonschema_rs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dragoman.core.errors import ConfigurationError, NotFound
from dragoman.core.format import Format
from dragoman.core.loading import FORMATS as FORMAT_GROUP
from dragoman.core.loading import load
from dragoman.language.generators.code import package, stale, write
from dragoman.language.generators.picture.flow import flow_svg
from dragoman.language.generators.picture.layout import arrange
from dragoman.language.generators.picture.mermaid import flow_mermaid, system_mermaid
from dragoman.language.generators.picture.system import system_svg
from dragoman.language.generators.schemas import FORMATS, schema
from dragoman.language.model import Model, load_model
from dragoman.language.parser import parse, parse_strictly
from tests.language import ebnf

SVG = "{http://www.w3.org/2000/svg}"
MODELS = sorted((Path(__file__).parents[2] / "examples" / "models").glob("*.mdsl"))
TYPES = """API description Types
data type All {
  "b": D<bool>, "i": ID<int>, "l": D<long>, "f": D<float>, "d": D<double>, "s": D<string>, "r": D<raw>,
  "opt": D<string>?, "many": D<int>*, "some": { "x": D<int> }+, "odd name": D<string>, "from": D<int>,
  "left": D<int> | "right": Other, "next": All?, "pair": [ { "a": D<int> }; Other ], "any": P,
  "either": { (D<int> | D<string>) }, "names": Names, "lists": { (D<int>* | D<string>* | D<int>*) }
}
data type Other { "z": D<string> }
data type Names Name*
data type Name D<string>
data type Pair [ { "a": D<int> }; Other ]
"""


def model(text: str) -> Model:
    return Model(parse_strictly(text))


def every_type() -> Iterator[tuple[Model, str]]:
    for each in (*map(load_model, MODELS), model(TYPES)):
        yield from ((each, name) for name in each.types)


@pytest.mark.parametrize(
    ("format", "registered"), [("avro", "AVRO"), ("json", "JSON"), ("protobuf", "PROTOBUF")]
)
def test_each_data_type_becomes_a_schema_that_its_format_reads(format: str, registered: str) -> None:
    reader: Format = load(FORMAT_GROUP, registered)()
    for each, name in every_type():
        assert reader.parse(schema(each, name, format)).text


def test_avro_has_optional_fields_lists_and_unions() -> None:
    document = json.loads(schema(model(TYPES), "All", "avro"))
    fields = {field["name"]: field for field in document["fields"]}
    assert fields["opt"]["type"] == ["null", "string"] and fields["opt"]["default"] is None
    assert fields["many"] == {"name": "many", "type": {"type": "array", "items": "int"}, "default": []}
    assert fields["next"]["type"] == ["null", "All"]
    assert fields["odd_name"]["doc"] == "In the model: odd name"
    assert fields["left"]["type"][0] == fields["right"]["type"][0] == "null"
    assert fields["either"]["type"] == ["int", "string"]
    assert fields["names"]["type"] == {"type": "array", "items": "string"}
    numbers, texts = fields["lists"]["type"]
    assert numbers == {"type": "array", "items": "int"}
    assert texts["fields"] == [{"name": "items", "type": {"type": "array", "items": "string"}}]
    fastavro.parse_schema(document)


def test_json_schema_accepts_what_fits_and_refuses_what_does_not() -> None:
    validator = jsonschema_rs.validator_for(json.loads(schema(model(TYPES), "Pair", "json")))
    assert validator.is_valid([{"a": 1}, {"z": "x"}])
    assert not validator.is_valid([{"a": 1}])
    assert not validator.is_valid([{"a": "1"}, {"z": "x"}])
    loop = jsonschema_rs.validator_for(json.loads(schema(model(TYPES), "All", "json")))
    assert not loop.is_valid({"b": True})


def test_protobuf_numbers_fields_and_has_choices() -> None:
    text = schema(model(TYPES), "All", "protobuf")
    assert "  optional string opt = 8;" in text
    assert "  repeated int32 many = 9;" in text
    assert '  string odd_name = 11 [json_name = "odd name"];' in text
    assert "  oneof choice {\n    int32 left = 13;\n    Other right = 14;\n  }" in text


def test_names_that_no_schema_language_has_are_kept_beside() -> None:
    odd = model('API description Odd data type T { "say \\"hi\\"\\nthere": D<string> }')
    reader: Format = load(FORMAT_GROUP, "PROTOBUF")()
    assert r'[json_name = "say \"hi\"\nthere"]' in schema(odd, "T", "protobuf")
    assert reader.parse(schema(odd, "T", "protobuf")).text
    assert schema(odd, "T", "thrift").endswith('say_hi_there;  // say "hi" there\n}\n')


def test_thrift_has_structs_in_order_and_unions() -> None:
    text = schema(model(TYPES), "All", "thrift")
    assert "  8: optional string opt;" in text
    assert "union AllEither {" in text
    assert text.index("struct Other") < text.index("struct All {")


def test_wrong_wishes_get_an_answer() -> None:
    with pytest.raises(NotFound, match="It has: All"):
        schema(model(TYPES), "Nothing", "avro")
    with pytest.raises(ConfigurationError, match="avro"):
        schema(model(TYPES), "All", "xml")


@settings(deadline=None, max_examples=60)
@given(ebnf.texts())
def test_every_model_becomes_code_that_parses(text: str) -> None:
    for file in package(Model(parse(text)), "shop.mdsl"):
        ast.parse(file.text)


@settings(deadline=None, max_examples=60)
@given(ebnf.texts())
def test_every_model_can_be_drawn_and_has_schemas(text: str) -> None:
    drawn = Model(parse(text))
    ET.fromstring(system_svg(drawn))
    system_mermaid(drawn)
    for flow in drawn.flows.values():
        ET.fromstring(flow_svg(flow))
        flow_mermaid(flow)
    for name in drawn.types:
        for format in FORMATS:
            assert schema(drawn, name, format)


@settings(deadline=None, max_examples=100)
@given(
    st.integers(1, 14).flatmap(
        lambda count: st.tuples(
            st.just(count),
            st.lists(st.tuples(st.integers(0, count - 1), st.integers(0, count - 1)), max_size=30),
        )
    )
)
def test_boxes_never_overlap(graph: tuple[int, list[tuple[int, int]]]) -> None:
    count, pairs = graph
    sizes = {str(node): (50.0, 20.0 + 7 * node) for node in range(count)}
    layout = arrange(sizes, [(str(a), str(b)) for a, b in pairs if a != b], {})
    for one, other in combinations(layout.boxes.values(), 2):
        apart = one.right <= other.x or other.right <= one.x
        apart = apart or one.y + one.height <= other.y + 1e-6 or other.y + other.height <= one.y + 1e-6
        assert apart


@pytest.mark.parametrize("path", MODELS, ids=lambda path: path.stem)
def test_a_picture_shows_all_endpoints_channels_and_messages(path: Path) -> None:
    drawn = load_model(path)
    texts = {each.text for each in ET.fromstring(system_svg(drawn)).iter() if each.text}
    messages = {message.name.text for channel in drawn.channels.values() for message in channel.messages}
    assert {*drawn.endpoints, *drawn.channels, *messages} <= texts


@pytest.mark.parametrize("path", MODELS, ids=lambda path: path.stem)
def test_a_picture_cuts_no_text_and_each_arrow_has_its_own_place_at_an_endpoint(path: Path) -> None:
    picture = ET.fromstring(system_svg(load_model(path)))
    assert not any("…" in (each.text or "") for each in picture.iter())
    ways = [each.get("d", "") for each in picture.iter() if each.get("marker-end")]
    boxes = {(float(each.get("x", 0)), float(each.get("width", 0))) for each in picture.iter(f"{SVG}rect")}
    sides = {side for x, width in boxes if width == 170.0 for side in (x, x + width)}
    ends = [tuple(map(float, end)) for way in ways for end in (way.split()[1:3], way.split()[-2:])]
    at_boxes = [end for end in ends if end[0] in sides]
    assert at_boxes and len(set(at_boxes)) == len(at_boxes)


def test_a_system_that_goes_round_in_circles_is_drawn_without_detours() -> None:
    channels = "".join(
        f'channel C{i} on path "c/{i}" accepts message M{i} expecting payload {{ "a": D<int> }}\n'
        for i in range(50)
    )
    ends = "".join(
        f"message endpoint E{e} uses channels: {', '.join(f'C{i}' for i in range(50) if i % 7 == e)} "
        f"provides channels: {', '.join(f'C{i}' for i in range(50) if (i + 1) % 7 == e)}\n"
        for e in range(7)
    )
    picture = system_svg(Model(parse(f"API description Big\n{channels}{ends}")))
    detours = [each for each in ET.fromstring(picture).iter() if " L " in each.get("d", "")]
    assert [each for each in detours if each.get("marker-end")] == []
    assert picture.count("marker-end") == 100


def test_arrows_follow_the_messages() -> None:
    loans = load_model(next(path for path in MODELS if path.stem == "loan-broker"))
    lines = system_mermaid(loans).splitlines()
    ids = {line.split('"')[1].split("<")[0]: line.strip().split("[")[0].split("(")[0] for line in lines[1:14]}
    assert f'  {ids["Customer"]} -->|"LoanRequest"| {ids["LoanBrokerChannel"]}' in lines
    assert f'  {ids["LoanBrokerChannel"]} -->|"LoanRequest"| {ids["LoanBroker"]}' in lines
    assert f'  {ids["LoanBrokerChannel"]} -->|"LoanReply"| {ids["Customer"]}' in lines


@pytest.fixture(scope="module")
def generated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("generated")
    for path in MODELS:
        write(package(load_model(path), path.name), folder / f"made_{path.stem.replace('-', '_')}")
    return folder


def test_generated_packages_run_at_once(generated: Path) -> None:
    options = [
        "-q",
        "-p",
        "no:cacheprovider",
        "--import-mode=importlib",
        "-W",
        "ignore",
        f"--rootdir={generated}",
    ]
    command = [sys.executable, "-m", "pytest", *options, str(generated)]
    done = subprocess.run(command, cwd=generated, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "25 passed" in done.stdout


def test_generated_code_is_clean(generated: Path) -> None:
    command = [
        sys.executable,
        "-m",
        "ruff",
        "check",
        "--select",
        "E,F,W,I",
        "--line-length",
        "110",
        "--isolated",
    ]
    done = subprocess.run(
        [*command, str(generated)], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stdout


async def test_a_generated_endpoint_answers_through_a_client(
    generated: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(generated))
    from importlib import import_module

    from dragoman import Client

    module, records = import_module("made_loan_broker.loan_broker"), import_module("made_loan_broker.records")
    channels = import_module("made_loan_broker.channels")
    request = records.LoanRequestDto(socialSecurityNumber=1, amount=1000.0, termInMonths=12, requestId=7)
    async with Client(
        broker="memory://generated", registry="memory://", controllers=[module.LoanBroker]
    ) as client:
        reply = await client.request(channels.LOAN_REQUEST, request, reply=records.LoanReplyDto)
    assert reply.requestId == 7


async def test_the_generated_program_runs_endpoints_that_obey_the_model(generated: Path) -> None:
    model = next(path for path in MODELS if path.stem == "loan-broker")
    places = ["--broker", f"embedded://{generated / 'broker'}", "--registry", "memory://"]
    command = [sys.executable, "-m", "made_loan_broker", str(model)]
    program = await asyncio.create_subprocess_exec(
        *command, *places, cwd=generated, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
    )
    try:
        assert program.stdout is not None
        line = await asyncio.wait_for(program.stdout.readline(), 120)
        assert line.startswith(b"At work: Customer, LoanBroker, ")
    finally:
        if program.returncode is None:
            program.kill()
        await program.communicate()
    command[-1] = "nowhere.mdsl"
    done = subprocess.run(command, cwd=generated, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 1 and done.stderr.startswith("The model cannot be read")


async def test_generated_endpoints_meet_at_the_values_of_parameters(
    generated: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Through a broker: nothing is sent to, or created for, the name of a parameter."""
    monkeypatch.syspath_prepend(str(generated))
    from importlib import import_module

    from dragoman import Client

    bank, broker = import_module("made_loan_broker.bank1"), import_module("made_loan_broker.loan_broker")
    records = import_module("made_loan_broker.records")
    wish = records.BankLoanRequest(
        creditScore=90, creditHistoryLength=1, amount=1.0, termInMonths=1, requestId=7
    )
    model = next(path for path in MODELS if path.stem == "loan-broker")
    async with (
        Client(f"embedded://{tmp_path}", "memory://", [bank.Bank1], model=model, as_="Bank1") as client,
        Client(client.broker, client.registry, [broker.LoanBroker], model=model, as_="LoanBroker") as asking,
    ):
        answer = await broker.LoanBroker().ask_loan_proposal_request(asking, wish, bank.BANK_ID)
        assert answer.requestId == 7
        with pytest.raises(ConfigurationError, match="'bankId' is no int, which the parameter 'bankId' is"):
            await broker.LoanBroker().ask_loan_proposal_request(asking, wish, "bankId")
        found = await client.broker.channels()
    assert "banks.1.loans.request" in found
    assert not [name for name in found if "bankId" in name]


PARAMETERS = """API description P
data type T { "id": ID<int> }
channel C on path "c/${client}/{on}/${BIG}/${text}" with client: int, on: bool, BIG: double, text: string
  accepts message M expecting payload T
channel D on path "d/${client}" with client: string accepts message CLIENT expecting payload T
message endpoint Web uses channels: C, D
message endpoint Store provides channels: C, D
"""


async def test_parameters_of_every_type_and_awkward_name_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from importlib import import_module

    from dragoman import Client

    file = tmp_path / "p.mdsl"
    file.write_text(PARAMETERS)
    write(package(load_model(file), file.name), tmp_path / "made_parameters")
    monkeypatch.syspath_prepend(str(tmp_path))
    store, web = import_module("made_parameters.store"), import_module("made_parameters.web")
    message = import_module("made_parameters.records").T(1)
    async with (
        Client("memory://parameters", "memory://", [store.Store], model=file, as_="Store") as client,
        Client(client.broker, client.registry, model=file, as_="Web") as sender,
    ):
        await web.Web().send_m(sender, message, 1, True, 1, "text")
        await web.Web().send_client(sender, message, "one")
        assert {"c.1.True.1.text", "d.one"} <= set(await client.broker.channels())


def test_generated_records_have_the_schema_of_their_data_type(
    generated: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(generated))
    from importlib import import_module

    avro: Format = load(FORMAT_GROUP, "AVRO")()
    for path in MODELS:
        records = import_module(f"made_{path.stem.replace('-', '_')}.records")
        for name in load_model(path).types:
            ours = avro.parse(schema(load_model(path), name, "avro"))
            theirs = avro.parse(avro.schema_of(getattr(records, name)))
            assert not avro.incompatibilities(ours, theirs), name
            assert not avro.incompatibilities(theirs, ours), name


def test_code_for_a_transaction_says_so(generated: Path) -> None:
    engine = (generated / "made_stock_exchange" / "matching_engine.py").read_text()
    assert "@endpoint(place_order_channel(VENUE), transactional=True)" in engine
    statistics = (generated / "made_loan_broker" / "loan_statistics.py").read_text()
    assert (
        "@endpoint(UNDELIVERABLE)\n    async def on_undeliverable(self, message: bytes) -> None:"
        in statistics
    )


def test_generating_again_touches_nothing_that_was_written(tmp_path: Path) -> None:
    path = next(path for path in MODELS if path.stem == "streetlights")
    files = package(load_model(path), path.name)
    assert len(write(files, tmp_path)) == len(files)
    mine = tmp_path / "control_room.py"
    mine.write_text(mine.read_text() + "\n# mine\n")
    assert write(files, tmp_path) == []
    assert mine.read_text().endswith("# mine\n")
    records = tmp_path / "records.py"
    records.write_text(records.read_text() + "\n# gone with the next version\n")
    assert write(files, tmp_path) == ["records.py"]


@pytest.mark.parametrize("name", ["__init__.py", "records.py", "channels.py"])
def test_a_file_that_was_not_generated_is_never_replaced(tmp_path: Path, name: str) -> None:
    path = next(path for path in MODELS if path.stem == "streetlights")
    mine = tmp_path / name
    mine.write_bytes("# größer als alles\n".encode("latin-1"))
    with pytest.raises(ConfigurationError, match="not generated") as caught:
        write(package(load_model(path), path.name), tmp_path)
    assert caught.value.code == "language.foreign-file" and caught.value.where["file"] == mine
    assert [each.name for each in tmp_path.iterdir()] == [name]
    assert mine.read_bytes() == "# größer als alles\n".encode("latin-1")


def test_names_that_are_none_in_python_are_changed_and_kept_apart() -> None:
    odd = model("""API description Odd
data type T { "1st": D<int>, "from": D<int>, "from_": D<string>, "é": D<int>, "ü": D<int>? }
channel C on path "x/{class}/{2}/{a-b}/{a_b}" produces message M delivering payload T
message endpoint E uses channels: C
""")
    texts = {file.path: file.text for file in package(odd, "odd.mdsl")}
    assert "def m_channel(class_: str, value_2: str, a_b: str, a_b_2: str) -> str:" in texts["channels.py"]
    record = next(node for node in ast.parse(texts["records.py"]).body if isinstance(node, ast.ClassDef))
    targets = (node.target for node in record.body if isinstance(node, ast.AnnAssign))
    fields = [target.id for target in targets if isinstance(target, ast.Name)]
    assert fields == ["value_1st", "from_", "from_2", "value", "value_2"]
    for text in texts.values():
        compile(text, "made", "exec")


def test_stale_code_is_told(tmp_path: Path) -> None:
    path = next(path for path in MODELS if path.stem == "streetlights")
    write(package(load_model(path), path.name), tmp_path)
    assert stale(package(load_model(path), path.name), tmp_path) == []
    text = path.read_text().replace("LightMeasurement", "LightReading").replace("lumens", "lux")
    changed = {each.path: each.reason for each in stale(package(model(text), path.name), tmp_path)}
    assert set(changed) == {"records.py", "channels.py", "control_room.py", "energy_report.py"}
    assert changed["control_room.py"] == "It has no on_light_reading."


def test_names_that_python_has_taken_get_an_underscore(tmp_path: Path) -> None:
    text = """API description Odd
data type class { "from": D<string>, "int": int? }
data type int { "value": D<int> }
data type None { "class": class }
channel Import on path "import" accepts message import expecting payload None
channel Ask request message Lambda on path "ask" expecting payload class
  reply message Yield on path "yield" delivering payload int
message endpoint global provides channels: Import, Ask
"""
    file = tmp_path / "odd.mdsl"
    file.write_text(text)
    folder = tmp_path / "odd"
    write(package(load_model(file), file.name), folder)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(folder)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    told = "from odd.records import class_; from dragoman.schema.records import describe"
    command = [sys.executable, "-c", f"{told}; assert describe(class_).names.name == 'class'"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
