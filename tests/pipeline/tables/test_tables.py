"""What every table format promises, on the real libraries."""

from __future__ import annotations

import datetime
import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dragoman.core.errors import ConfigurationError, Conflict, Unsupported
from dragoman.pipeline.arrow.variant import VARIANT_TYPE, to_variant
from dragoman.pipeline.tables import TABLE_FORMATS, Table, open_table, writing
from dragoman.pipeline.tables.table import DataFile, Layout
from dragoman.pipeline.tables.writing import FileWriter, place_in, refuse_moved, refuse_unkept

META = pa.struct([("partition", pa.int64()), ("offset", pa.int64())])
SCHEMA = pa.schema([("id", pa.int64()), ("name", pa.string()), ("_meta", META)])


@pytest.fixture(params=TABLE_FORMATS)
def table(request: pytest.FixtureRequest, tmp_path: Path) -> Table:
    return open_table(request.param, str(tmp_path), "orders")


@pytest.fixture(params=["delta", "iceberg"])
def merging(request: pytest.FixtureRequest, tmp_path: Path) -> Table:
    return open_table(request.param, str(tmp_path), "orders")


def rows(*values: tuple[int, str | None], start: int = 0) -> Any:
    return pa.record_batch(
        {
            "id": pa.array([value[0] for value in values], pa.int64()),
            "name": pa.array([value[1] for value in values], pa.string()),
            "_meta": pa.array([{"partition": 0, "offset": start + n} for n in range(len(values))], META),
        }
    )


def written(
    table: Table, layout: Layout, *batches: Any, by: tuple[str, ...] = (), merging: bool = False
) -> tuple[DataFile, ...]:
    with FileWriter(place_in(table, layout, by, merging=merging)) as writer:
        for batch in batches:
            writer.write(batch)
        return writer.finish()


def ids(table: Table) -> list[int]:
    return sorted(table.read()["id"].to_pylist())


def names(table: Table) -> dict[int, str | None]:
    return {row["id"]: row["name"] for row in table.read().to_pylist()}


def test_rows_are_there_after_the_commit_and_not_before(table: Table) -> None:
    schema = table.prepare(SCHEMA, ())
    files = written(table, schema, rows((1, "a"), (2, "b")))
    assert table.read().num_rows == 0
    table.append(files, "app", 0)
    assert ids(table) == [1, 2]
    assert table.count() == 2


def test_the_batch_number_is_kept_for_each_application(table: Table) -> None:
    schema = table.prepare(SCHEMA, ())
    assert table.last_batch("app") == -1
    table.append(written(table, schema, rows((1, "a"))), "app", 7)
    assert table.last_batch("app") == 7
    assert table.last_batch("other") == -1


def test_a_batch_that_is_tried_again_is_there_once(table: Table) -> None:
    layout = table.prepare(SCHEMA, ())
    files = written(table, layout, rows((1, "a"), (2, "b")))
    table.append(files, "app", 0)
    table.append(written(table, layout, rows((3, "c"))), "app", 1)
    if table.replaces_rows:
        assert table.compact() == 2
    table.append(files, "app", 0)
    assert ids(table) == [1, 2, 3]
    assert table.last_batch("app") == 1


def test_an_empty_batch_still_moves_the_number(table: Table) -> None:
    table.prepare(SCHEMA, ())
    table.append((), "app", 3)
    assert table.last_batch("app") == 3
    assert table.count() == 0


def test_added_columns_are_null_in_older_rows(table: Table) -> None:
    table.append(written(table, table.prepare(SCHEMA, ()), rows((1, "a"))), "app", 0)
    wider = SCHEMA.append(pa.field("note", pa.string()))
    schema = table.prepare(wider, ())
    batch = rows((2, "b"), start=1).append_column("note", pa.array(["x"]))
    table.append(written(table, schema, batch), "app", 1)
    found = {row["id"]: row["note"] for row in table.read().to_pylist()}
    assert found == {1: None, 2: "x"}


def test_columns_added_inside_a_struct_are_null_in_older_rows(table: Table) -> None:
    table.append(written(table, table.prepare(SCHEMA, ()), rows((1, "a"))), "app", 0)
    wider = pa.schema(
        [*list(SCHEMA)[:2], pa.field("_meta", pa.struct([*META, pa.field("key", pa.string())]))]
    )
    schema = table.prepare(wider, ())
    meta = pa.array([{"partition": 0, "offset": 1, "key": "k"}], wider.field("_meta").type)
    batch = pa.record_batch([pa.array([2]), pa.array(["b"]), meta], schema=wider)
    table.append(written(table, schema, batch), "app", 1)
    found = {row["id"]: row["_meta"]["key"] for row in table.read().to_pylist()}
    assert found == {1: None, 2: "k"}


def test_dropped_columns_stay_and_are_null_from_then_on(table: Table) -> None:
    table.append(written(table, table.prepare(SCHEMA, ()), rows((1, "a"))), "app", 0)
    narrower = pa.schema([SCHEMA.field("id"), SCHEMA.field("_meta")])
    schema = table.prepare(narrower, ())
    batch = rows((2, "b"), start=1).select(["id", "_meta"])
    table.append(written(table, schema, batch), "app", 1)
    assert names(table) == {1: "a", 2: None}


def test_promoted_columns_keep_older_rows(table: Table) -> None:
    narrow = pa.schema([("id", pa.int64()), ("n", pa.int32()), ("f", pa.float32()), ("_meta", META)])
    small = pa.record_batch(
        [
            pa.array([1]),
            pa.array([7], pa.int32()),
            pa.array([0.5], pa.float32()),
            rows((1, "")).column("_meta"),
        ],
        schema=narrow,
    )
    table.append(written(table, table.prepare(narrow, ()), small), "app", 0)
    wide = pa.schema([("id", pa.int64()), ("n", pa.int64()), ("f", pa.float64()), ("_meta", META)])
    large = pa.record_batch(
        [pa.array([2]), pa.array([2**40]), pa.array([0.1]), rows((2, ""), start=1).column("_meta")],
        schema=wide,
    )
    table.append(written(table, table.prepare(wide, ()), large), "app", 1)
    found = {row["id"]: (row["n"], row["f"]) for row in table.read().to_pylist()}
    assert found == {1: (7, 0.5), 2: (2**40, 0.1)}


def test_a_type_that_cannot_be_held_gets_a_column_of_its_own(table: Table) -> None:
    table.append(written(table, table.prepare(SCHEMA, ()), rows((1, "a"))), "app", 0)
    changed = pa.schema([("id", pa.int64()), ("name", pa.float64()), ("_meta", META)])
    for number in (1, 2):
        layout = table.prepare(changed, ())
        assert layout.renamed == (("name", "name_2"),)
        meta = rows((2, ""), start=number).column(2)
        batch = pa.record_batch([pa.array([number + 1]), pa.array([0.5]), meta], schema=changed)
        table.append(written(table, layout, batch), "app", number)
    found = {row["id"]: (row["name"], row["name_2"]) for row in table.read().to_pylist()}
    assert found == {1: ("a", None), 2: (None, 0.5), 3: (None, 0.5)}


def test_a_column_is_never_put_where_the_contract_has_another(table: Table) -> None:
    existing = pa.schema([("name", pa.int64()), ("name_2", pa.float64()), ("_meta", META)])
    table.prepare(existing, ())
    changed = pa.schema([("name", pa.float64()), ("name_2", pa.float64()), ("_meta", META)])
    layout = table.prepare(changed, ())
    assert layout.renamed == (("name", "name_3"),)


def test_a_table_keeps_to_the_type_by_which_it_finds_its_rows(table: Table) -> None:
    table.prepare(SCHEMA, ("name",))
    layout = table.prepare(
        pa.schema([("id", pa.int64()), ("name", pa.float64()), ("_meta", META)]), ("name",)
    )
    with pytest.raises(Conflict, match="gave name another type"):
        place_in(table, layout, ("name",))
    with pytest.raises(Conflict, match="gave name another type"):
        refuse_moved(table, layout, ["name"])
    refuse_moved(table, layout, ["id"])


def test_rows_are_partitioned_by_columns(table: Table) -> None:
    schema = table.prepare(SCHEMA, ("name",))
    files = written(table, schema, rows((1, "a"), (2, "b"), (3, "a"), (4, None)), by=("name",))
    assert sorted(file.rows for file in files) == [1, 1, 2]
    table.append(files, "app", 0)
    assert names(table) == {1: "a", 2: "b", 3: "a", 4: None}


def test_types_survive_the_table(table: Table) -> None:
    moment = datetime.datetime(2026, 1, 2, 3, 4, 5, 678901, tzinfo=datetime.UTC)
    schema = pa.schema(
        [
            ("id", pa.int64()),
            ("when", pa.timestamp("us", tz="UTC")),
            ("day", pa.date32()),
            ("price", pa.decimal128(12, 3)),
            ("whole", VARIANT_TYPE),
            ("raw", pa.binary()),
            ("tags", pa.list_(pa.string())),
            ("counts", pa.map_(pa.string(), pa.int64())),
            ("_meta", META),
        ]
    )
    value = {
        "id": 1,
        "when": moment,
        "day": moment.date(),
        "price": Decimal("12.345"),
        "whole": to_variant({"a": 1}),
        "raw": b"\x00\xff",
        "tags": ["x", "y"],
        "counts": [("a", 1)],
        "_meta": {"partition": 0, "offset": 0},
    }
    batch = pa.RecordBatch.from_pylist([value], schema=schema)
    table.append(written(table, table.prepare(schema, ()), batch), "app", 0)
    assert table.read().select(schema.names).to_pylist() == [value]


def test_types_that_a_format_lacks_are_kept_in_others(table: Table) -> None:
    time, span = datetime.time(1, 2, 3, 4), datetime.timedelta(seconds=1.5)
    schema = pa.schema(
        [
            ("at", pa.time64("ns")),
            ("by", pa.map_(pa.string(), pa.time64("ns"))),
            ("lasts", pa.duration("us")),
            ("nothing", pa.null()),
            ("_meta", META),
        ]
    )
    value = {"at": time, "by": [("a", time)], "lasts": span, "nothing": None}
    batch = pa.RecordBatch.from_pylist([value | {"_meta": {"partition": 0, "offset": 0}}], schema=schema)
    for number in range(2):
        table.append(written(table, table.prepare(schema, ()), batch), "app", number)
    kept = {
        "delta": {"at": "01:02:03.000004000", "by": [("a", "01:02:03.000004000")], "lasts": 1_500_000},
        "iceberg": {"lasts": 1_500_000},
    }
    expected = value | kept.get(type(table).__name__.removesuffix("Table").lower(), {})
    assert table.read().select(list(value)).to_pylist() == [expected, expected]


def test_decimals_with_more_digits_are_kept_in_the_same_column(table: Table) -> None:
    for number, price in enumerate([Decimal("1.50"), Decimal("1234567890.25")]):
        schema = pa.schema([("price", pa.decimal128(5 + 10 * number, 2)), ("_meta", META)])
        row = {"price": price, "_meta": {"partition": 0, "offset": number}}
        layout = table.prepare(schema, ())
        table.append(written(table, layout, pa.RecordBatch.from_pylist([row], schema=schema)), "app", number)
    assert sorted(table.read()["price"].to_pylist()) == [Decimal("1.50"), Decimal("1234567890.25")]


@pytest.mark.parametrize("kind", [pa.binary(), pa.float64(), pa.decimal128(5, 2), pa.list_(pa.string())])
def test_what_cannot_be_a_folder_is_no_partition(kind: Any) -> None:
    schema = pa.schema([("v", kind)])
    refuse_unkept(schema, ())
    with pytest.raises(ConfigurationError, match=r"partitioned by v.*text, whole numbers"):
        refuse_unkept(schema, ("v",))


def test_a_record_without_fields_is_refused_wherever_it_is() -> None:
    with pytest.raises(ConfigurationError, match="record without fields"):
        refuse_unkept(pa.schema([("v", pa.list_(pa.map_(pa.string(), pa.struct([]))))]), ())


def upserted(table: Table, batch_number: int, *values: tuple[int, str | None], start: int = 0) -> None:
    """A name of None removes the row."""
    layout = table.prepare(SCHEMA, ())
    batch = rows(*values, start=start)
    batch = batch.append_column("_deleted", pa.array([value[1] is None for value in values]))
    table.upsert(written(table, layout, batch, merging=True), ("id",), "app", batch_number)


def test_the_latest_row_of_each_key_is_kept(merging: Table) -> None:
    upserted(merging, 0, (1, "old"), (2, "stays"), (1, "new"))
    assert names(merging) == {1: "new", 2: "stays"}
    upserted(merging, 1, (1, "newer"), (3, "added"), start=3)
    assert {row["id"]: row["name"] for row in merging.read().to_pylist()} == {
        1: "newer",
        2: "stays",
        3: "added",
    }
    assert merging.last_batch("app") == 1


def test_a_merge_that_is_tried_again_undoes_nothing(merging: Table) -> None:
    upserted(merging, 0, (1, "old"))
    upserted(merging, 1, (1, "new"), start=1)
    upserted(merging, 0, (1, "old"))
    assert names(merging) == {1: "new"}
    assert merging.last_batch("app") == 1


def test_a_tombstone_removes_its_row(merging: Table) -> None:
    upserted(merging, 0, (1, "a"), (2, "b"))
    upserted(merging, 1, (1, None), (3, None), start=2)
    assert ids(merging) == [2]


def test_a_message_without_payload_and_key_removes_nothing(merging: Table) -> None:
    upserted(merging, 0, (1, "a"))
    nobody = rows((0, None), start=1).set_column(0, "id", pa.array([None], pa.int64()))
    nobody = nobody.append_column("_deleted", pa.array([True]))
    files = written(merging, merging.prepare(SCHEMA, ()), nobody, merging=True)
    merging.upsert(files, ("id",), "app", 1)
    assert ids(merging) == [1]
    assert merging.last_batch("app") == 1


def test_many_rows_are_kept_by_several_keys(merging: Table) -> None:
    layout = merging.prepare(SCHEMA, ())
    many = 2_000

    def upsert(batch: int, *values: tuple[int, str | None]) -> None:
        made = rows(*values, start=batch * many)
        made = made.append_column("_deleted", pa.array([False] * len(values)))
        merging.upsert(written(merging, layout, made, merging=True), ("id", "name"), "app", batch)

    upsert(0, *((number, name) for number in range(many // 2) for name in ("x", None)))
    upsert(1, *((number, "x") for number in range(0, many // 2, 2)), (1, "y"))
    found = [(row["id"], row["name"]) for row in merging.read().to_pylist()]
    assert len(found) == len(set(found)) == many + 1


def test_rows_can_be_removed(table: Table) -> None:
    schema = table.prepare(SCHEMA, ())
    table.append(written(table, schema, rows((1, "a"), (2, "b"), (3, "c"), (1, "d"))), "app", 0)
    for _ in range(2):
        table.remove(pa.table({"id": [1, 3], "name": ["a", "c"]}), ("id", "name"))
    assert names(table) == {1: "d", 2: "b"}
    assert table.last_batch("app") == 0


def test_rows_are_partitioned_by_values_that_look_like_others(table: Table) -> None:
    schema = table.prepare(SCHEMA, ("name",))
    values = [(1, "7"), (2, "2026-01-01"), (3, "a b/c=d%20"), (4, "true")]
    table.append(written(table, schema, rows(*values), by=("name",)), "app", 0)
    assert names(table) == dict(values)


def test_rows_are_partitioned_by_dates_and_truths(table: Table) -> None:
    day = datetime.date(2026, 1, 2)
    schema = pa.schema([("id", pa.int64()), ("day", pa.date32()), ("paid", pa.bool_()), ("_meta", META)])
    batch = pa.record_batch(
        [
            pa.array([1, 2]),
            pa.array([day, None], pa.date32()),
            pa.array([True, False]),
            rows((1, ""), (2, "")).column("_meta"),
        ],
        schema=schema,
    )
    by = ("day", "paid")
    table.append(written(table, table.prepare(schema, by), batch, by=by), "app", 0)
    found = {row["id"]: (row["day"], row["paid"]) for row in table.read().to_pylist()}
    assert found == {1: (day, True), 2: (None, False)}


def test_small_files_are_joined(merging: Table) -> None:
    schema = merging.prepare(SCHEMA, ())
    for batch in range(4):
        merging.append(written(merging, schema, rows((batch, "x"), start=batch)), "app", batch)
    before = set(merging.files())
    assert merging.compact() == 4
    assert ids(merging) == [0, 1, 2, 3]
    assert merging.last_batch("app") == 3
    assert before < set(merging.files()), "the versions before can still be read"
    assert merging.compact() == 0


class Counted(pq.ParquetWriter):  # type: ignore[misc]
    """Knows how many of its kind are open."""

    open_now, open_most = 0, 0

    def __init__(self, *rest: Any, **more: Any) -> None:
        super().__init__(*rest, **more)
        Counted.open_now += 1
        Counted.open_most = max(Counted.open_most, Counted.open_now)

    def close(self) -> None:
        Counted.open_now -= self.is_open
        super().close()


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> type[Counted]:
    monkeypatch.setattr(pq, "ParquetWriter", Counted)
    Counted.open_now = Counted.open_most = 0
    return Counted


def test_few_files_are_open_however_many_values_a_partition_has(table: Table, counted: type[Counted]) -> None:
    layout = table.prepare(SCHEMA, ("name",))
    many = [rows(*((n, f"v{n % 100}") for n in range(start, start + 200))) for start in (0, 200, 400)]
    files = written(table, layout, *many, by=("name",))
    assert (len(files), counted.open_now) == (100, 0), "each value has one file"
    assert counted.open_most <= 64
    table.append(files, "app", 0)
    assert names(table) == {n: f"v{n % 100}" for n in range(600)}


def test_rows_of_one_value_are_together_though_not_all_can_be_held(
    table: Table, counted: type[Counted], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writing, "HELD_BYTES", 1)
    monkeypatch.setattr(writing, "OPEN_AT_ONCE", 2)
    layout = table.prepare(SCHEMA, ("name",))
    batches = [rows((1, "a"), (2, None), (3, "c")), rows((4, "c"), (5, None)), rows((6, "a"))]
    files = written(table, layout, *batches, by=("name",))
    assert (len(files), counted.open_most) == (4, 2)
    table.append(files, "app", 0)
    assert names(table) == {1: "a", 2: None, 3: "c", 4: "c", 5: None, 6: "a"}


def test_a_partition_that_scatters_a_batch_is_refused_with_what_to_do(
    table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writing, "MOST_FILES", 10)
    layout = table.prepare(SCHEMA, ("name",))
    assert len(written(table, layout, rows(*((n, str(n)) for n in range(10))), by=("name",))) == 10
    with pytest.raises(ConfigurationError, match="more than 10 files") as refused:
        written(table, layout, rows(*((n, str(n)) for n in range(11))), by=("name",))
    assert "max_rows_per_trigger" in refused.value.next


def test_what_is_to_be_merged_is_not_scattered(merging: Table) -> None:
    layout = merging.prepare(SCHEMA, ("name",))
    batch = rows((1, "a"), (2, "b"), (1, "c")).append_column("_deleted", pa.array([False] * 3))
    (file,) = written(merging, layout, batch, by=("name",), merging=True)
    merging.upsert([file], ("id",), "app", 0)
    assert names(merging) == {1: "c", 2: "b"}


def test_small_files_of_several_versions_and_partitions_are_joined(merging: Table) -> None:
    for batch in range(2):
        files = written(
            merging, merging.prepare(SCHEMA, ("name",)), rows((batch, "x"), (9, "y")), by=("name",)
        )
        merging.append(files, "app", batch)
    wider = SCHEMA.append(pa.field("note", pa.string()))
    more = rows((2, "x")).append_column("note", pa.array(["new"]))
    merging.append(written(merging, merging.prepare(wider, ("name",)), more, by=("name",)), "app", 2)
    assert merging.compact() == 5
    found = merging.read().sort_by("id").select(["id", "name", "note"]).to_pylist()
    assert [tuple(row.values()) for row in found] == [
        (0, "x", None),
        (1, "x", None),
        (2, "x", "new"),
        (9, "y", None),
        (9, "y", None),
    ]


def test_history_can_be_given_up(tmp_path: Path) -> None:
    table = open_table("iceberg", str(tmp_path), "orders")
    for batch in range(3):
        table.append(written(table, table.prepare(SCHEMA, ()), rows((batch, "x"))), "app", batch)
    old = set(table.files())
    table.compact()
    table.forget_history(0)
    assert not old & set(table.files())
    assert ids(table) == [0, 1, 2]


def test_plain_parquet_says_that_it_cannot_replace_rows(tmp_path: Path) -> None:
    table = open_table("parquet", str(tmp_path), "orders")
    with pytest.raises(Unsupported, match="cannot replace"):
        upserted(table, 0, (1, "a"))


def test_a_parquet_batch_tried_again_leaves_the_same_files(tmp_path: Path) -> None:
    table = open_table("parquet", str(tmp_path), "orders")
    schema = table.prepare(SCHEMA, ())
    files = written(table, schema, rows((1, "a")))
    table.append(files, "app", 0)
    table.append(files, "app", 0)
    assert ids(table) == [1]


def test_an_unknown_format_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="orc"):
        open_table("orc", str(tmp_path), "orders")


@pytest.mark.parametrize("local_first", [True, False])
def test_local_times_and_moments_have_columns_of_their_own(table: Table, local_first: bool) -> None:
    local, moment = pa.timestamp("us"), pa.timestamp("us", "UTC")
    first, second = (local, moment) if local_first else (moment, local)
    when = datetime.datetime(2026, 1, 2, 3, 4, 5)
    values = {local: when, moment: when.replace(tzinfo=datetime.UTC)}
    for number, type in enumerate((first, second)):
        layout = table.prepare(pa.schema([("id", pa.int64()), ("at", type)]), ())
        batch = pa.record_batch({"id": pa.array([number], pa.int64()), "at": pa.array([values[type]], type)})
        table.append(written(table, layout, batch), "p", number)
    found = sorted(table.read(["id", "at", "at_2"]).to_pylist(), key=lambda row: row["id"])
    assert [(row["at"], row["at_2"]) for row in found] == [(values[first], None), (None, values[second])]


SECOND_ROW = {
    "storageType": "i",
    "pathOrInlineDv": "^Bg9^0rr910000000000iXQKl0rr91000005c8Xg0rr91",
    "sizeInBytes": 34,
    "cardinality": 1,
}
"""A deletion vector with the second row of a file, as Spark writes it into the log."""


def test_rows_that_another_writer_has_marked_as_deleted_are_gone(tmp_path: Path) -> None:
    table = open_table("delta", str(tmp_path), "orders")
    layout = table.prepare(pa.schema([*SCHEMA, ('a "b"', pa.timestamp("us", "UTC"))]), ())
    table.append(written(table, layout, rows((1, "a"), (2, "b"), (3, None))), "app", 0)
    log = Path(table.folder, "_delta_log")
    actions = [json.loads(line) for file in log.glob("*.json") for line in file.read_text().splitlines()]
    (added,) = [action["add"] for action in actions if "add" in action]
    features = {"readerFeatures": ["deletionVectors"], "writerFeatures": ["deletionVectors"]}
    marked = [
        {"protocol": {"minReaderVersion": 3, "minWriterVersion": 7, **features}},
        {"remove": {"path": added["path"], "deletionTimestamp": 1, "dataChange": True}},
        {"add": {**added, "deletionVector": SECOND_ROW}},
    ]
    Path(log, f"{len(list(log.glob('*.json'))):020}.json").write_text("\n".join(map(json.dumps, marked)))
    assert table.count() == 2
    assert names(table) == {1: "a", 3: None}
    assert table.read().schema.equals(layout.schema)
    assert table.read(["_meta"]).column_names == ["_meta"]
    table.append(written(table, layout, rows((4, "d"), start=3)), "app", 1)
    assert table.compact() == 2
    assert names(table) == {1: "a", 3: None, 4: "d"}
