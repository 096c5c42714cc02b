"""Compression of bodies, and limits of decompression."""

from __future__ import annotations

import random
import sys
import tracemalloc
import zlib

import pytest
from hypothesis import given, strategies as st

from rocketmq_py.errors import ConfigError, CorruptRecord, DecompressionLimit
from rocketmq_py.wire.compression import CompressionType, DecompressionLimits, compress, decompress


@pytest.mark.parametrize("kind", CompressionType)
@given(body=st.binary(max_size=2000))
def test_bodies_are_compressed_and_decompressed(kind: CompressionType, body: bytes) -> None:
    assert decompress(compress(body, kind), 1 | kind << 8) == body


def test_compression_type_zero_is_zlib() -> None:
    assert decompress(zlib.compress(b"old"), 0x1) == b"old"


def test_the_default_is_zlib_of_level_five() -> None:
    text = b" ".join(b"%d" % (number * number) for number in range(3000))
    levels = [zlib.compress(text, level) for level in (4, 5, 6)]
    assert len(set(levels)) == 3
    assert compress(text) == levels[1]
    assert compress(text, level=6) == levels[2]


def test_the_limits_are_128_mebibytes_for_a_body_and_256_together() -> None:
    assert DecompressionLimits() == (134_217_728, 268_435_456)


@pytest.mark.parametrize("kind", list(CompressionType))
def test_a_body_that_does_not_compress_well_is_read_to_its_end(kind: CompressionType) -> None:
    body = random.Random(1).randbytes(3000)
    budget = DecompressionLimits(3000, 3000).budget()
    assert decompress(compress(body, kind), 1 | kind << 8, budget) == body
    assert (budget.left, budget.for_next) == (0, 0)
    with pytest.raises(DecompressionLimit):
        decompress(compress(body, kind), 1 | kind << 8, DecompressionLimits(2999, 3000).budget())


@pytest.mark.parametrize("kind", [0, 1, 2, 3])
@pytest.mark.parametrize("body", [b"", b"garbage that is not compressed"])
def test_a_body_that_cannot_be_decompressed_is_a_corrupt_record(kind: int, body: bytes) -> None:
    with pytest.raises(CorruptRecord, match="does not decompress"):
        decompress(body, 1 | kind << 8)


@pytest.mark.parametrize("kind", CompressionType)
def test_a_compressed_body_cut_off(kind: CompressionType) -> None:
    with pytest.raises(CorruptRecord):
        decompress(compress(bytes(range(256)) * 20, kind)[:-6], 1 | kind << 8)


def test_an_unknown_compression_type_is_named() -> None:
    with pytest.raises(CorruptRecord, match="unknown compression type 5"):
        decompress(b"", 0x501)


@pytest.mark.parametrize(("kind", "package"), [(CompressionType.LZ4, "lz4"), (CompressionType.ZSTD, "zstandard")])
def test_a_missing_package_says_what_to_install(
    kind: CompressionType, package: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "lz4.frame" if package == "lz4" else package, None)
    for call in (lambda: compress(b"x", kind), lambda: decompress(b"x", 1 | kind << 8)):
        with pytest.raises(
            ConfigError, match=rf"{package} needs that package: pip install 'rocketmq-py\[compression\]'"
        ):
            call()


@pytest.mark.parametrize("kind", list(CompressionType))
def test_a_body_beyond_the_limit_is_refused_by_name(kind: CompressionType) -> None:
    limits = DecompressionLimits(max_body=1 << 16, max_total=1 << 30)
    bomb = compress(bytes(1 << 20), kind)
    with pytest.raises(
        DecompressionLimit, match=rf"a body of {len(bomb)} bytes .* more than 65536 bytes.*\(max_decompressed_body;"
    ):
        decompress(bomb, 1 | kind << 8, limits.budget())
    assert decompress(bomb, 1 | kind << 8) == bytes(1 << 20)


@pytest.mark.parametrize("kind", list(CompressionType))
@pytest.mark.parametrize("size", [0, 1, 65_535, 65_536])
def test_a_body_at_the_limit_is_decompressed(kind: CompressionType, size: int) -> None:
    budget = DecompressionLimits(max_body=1 << 16, max_total=1 << 16).budget()
    assert decompress(compress(bytes(size), kind), 1 | kind << 8, budget) == bytes(size)
    assert budget.left == (1 << 16) - size


@pytest.mark.parametrize("kind", list(CompressionType))
def test_the_bodies_of_one_response_share_a_budget(kind: CompressionType) -> None:
    budget = DecompressionLimits(max_body=1 << 20, max_total=3 << 20).budget()
    body = compress(bytes(1 << 20), kind)
    for _ in range(3):
        decompress(body, 1 | kind << 8, budget)
    with pytest.raises(DecompressionLimit, match=r"more than 3145728 bytes.*\(max_decompressed_pull\)"):
        decompress(body, 1 | kind << 8, budget)


@pytest.mark.parametrize("kind", list(CompressionType))
def test_a_bomb_takes_no_more_memory_than_the_limit(kind: CompressionType) -> None:
    bomb = compress(bytes(64 << 20), kind)
    budget = DecompressionLimits(max_body=1 << 20).budget()
    tracemalloc.start()
    try:
        with pytest.raises(DecompressionLimit):
            decompress(bomb, 1 | kind << 8, budget)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 40 << 20


@pytest.mark.parametrize("limits", [DecompressionLimits(0, 1), DecompressionLimits(1, 0), DecompressionLimits(-1, 5)])
def test_limits_that_allow_nothing_are_refused(limits: DecompressionLimits) -> None:
    with pytest.raises(ConfigError, match="allows no compressed body"):
        limits.check()
    assert DecompressionLimits(1, 1).check() == (1, 1)
