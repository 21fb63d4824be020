"""Keys and members are spread the same way everywhere."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from dragoman.core.partitioning import fair_shares, partition_of


def test_a_key_has_the_partition_it_has_always_had() -> None:
    assert [partition_of(key, 16) for key in (b"", b"a", b"order-1", b"\x00\xff")] == [0, 3, 15, 2]


def test_keys_are_spread_over_all_partitions() -> None:
    counts = Counter(partition_of(b"customer-%d" % number, 8) for number in range(8000))
    assert set(counts) == set(range(8))
    assert max(counts.values()) < 2 * min(counts.values())


@given(st.text(min_size=1), st.integers(1, 50), st.sets(st.text(min_size=1), min_size=1, max_size=12))
def test_shares_are_fair_and_use_every_partition(channel: str, partitions: int, members: set[str]) -> None:
    shares = fair_shares(channel, partitions, list(members))
    assert set(shares) == members
    assert sum(shares.values()) == partitions
    assert max(shares.values()) - min(shares.values()) <= 1
    assert shares == fair_shares(channel, partitions, sorted(members, reverse=True))
