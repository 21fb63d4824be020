from __future__ import annotations

from pathlib import Path

import pytest

from dragoman.core.errors import ConfigurationError
from dragoman.pipeline.offsets import Moment, in_order, limited
from dragoman.pipeline.options import parse_options
from dragoman.pipeline.ranges import split
from dragoman.pipeline.reading import Range


def test_an_unknown_option_is_refused_with_all_that_are_known() -> None:
    with pytest.raises(
        ConfigurationError, match=r"no option chanel.*channel, contract.*startingOffsets"
    ) as caught:
        parse_options({"chanel": "x"})

    assert caught.value.code == "configuration.option"


@pytest.mark.parametrize(
    ("name", "value", "allowed"),
    [
        ("mode", "drop", "quarantine, fail, raw"),
        ("version", "newest", "latest, writer, or a version's number"),
        ("version", "0", "latest, writer"),
        ("maxRowsPerTrigger", "many", "a whole number from 1 on"),
        ("includeMeta", "yes", "true, false"),
        ("startingOffsets", "first", "earliest, latest, a time"),
        ("startingOffsets", '{"loans": {"x": 1}}', "earliest, latest, a time"),
        ("endingOffsets", '{"0": -3}', "earliest, latest, a time"),
        ("partitions", "1-", "numbers and ranges"),
        ("partitions", "4-2", "numbers and ranges"),
        ("waitSeconds", "nan", "a number of seconds"),
        ("unions", "list", "struct, variant, json"),
    ],
)
def test_an_impossible_value_is_refused_with_what_is_allowed(name: str, value: str, allowed: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        parse_options({"channel": "c", name: value})

    assert name in str(caught.value) and allowed in str(caught.value)


def test_names_count_in_any_case_and_a_path_is_a_channel() -> None:
    found = parse_options({"PATH": "c", "startingoffsets": "2026-01-31T08:00:00Z", "Partitions": "0,2-4"})

    assert found.channel == "c"
    assert found.starting_offsets == Moment(1_769_846_400_000)
    assert found.partitions == (0, 2, 3, 4)


def test_a_password_is_not_shown() -> None:
    given = {"channel": "c", "registry": "http://me:hidden@r", "registryPassword": "secret"}
    found = parse_options(given)

    assert found.registry.password == "secret" and "secret" not in repr(found)
    assert "hidden" not in repr(found)


def test_a_limit_is_shared_by_the_partitions_and_never_exceeded() -> None:
    start = {"c": {"0": 0, "1": 10, "10": 5}}
    end = {"c": {"0": 100, "1": 11, "10": 5}, "d": {"0": 7}}

    reached = limited(start, end, 20)

    assert sum(reached[c][p] - start.get(c, {}).get(p, 0) for c in end for p in end[c]) == 20
    assert list(reached["c"]) == ["0", "1", "10"]
    assert limited(start, end, 1_000) == end


def test_offsets_are_always_written_in_one_order() -> None:
    assert str(in_order({"b": {"2": 1, "10": 2}, "a": {}})) == str({"a": {}, "b": {"10": 2, "2": 1}})


def test_ranges_are_cut_where_there_are_most_messages_and_miss_none() -> None:
    cut = split([Range("c", 0, 5, 105), Range("c", 1, 0, 2)], 8)

    assert len(cut) >= 8
    assert sum(each.end - each.start for each in cut) == 102
    assert [each for each in cut if each.partition == 1] == [Range("c", 1, 0, 2)]


def test_a_folder_given_by_a_relative_path_is_found_from_anywhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "data").mkdir()

    found = parse_options({"channel": "c", "broker": "embedded://data?fsync=never", "registry": "http://r:1"})

    assert found.broker == f"embedded://{tmp_path}/data?fsync=never"
    assert found.registry.url == "http://r:1"
