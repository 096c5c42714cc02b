"""The option ``compression`` of the sink."""

from __future__ import annotations

import pytest

from rocketmq_py.arrow.options.compression import BodyCompression, compression_type, plain
from rocketmq_py.errors import ConfigError
from rocketmq_py.wire.compression import CompressionType, compress


@pytest.mark.parametrize(("text", "kind"), [
    ("zlib", CompressionType.ZLIB), (" Zlib ", CompressionType.ZLIB), ("none", None), ("NONE", None),
])  # fmt: skip
def test_a_compression_is_named_in_any_case(text: str, kind: CompressionType | None) -> None:
    assert compression_type(text) == kind


@pytest.mark.parametrize("text", ["", "gzip", "zlib 9"])
def test_other_words_are_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="zlib, lz4, zstd or none is expected"):
        compression_type(text)


def test_a_body_is_decompressed_only_if_its_flag_says_so() -> None:
    small = compress(b"x" * 100, CompressionType.ZLIB)
    assert plain(small, BodyCompression(CompressionType.ZLIB).sys_flag) == b"x" * 100
    assert plain(small, 0) == small
