"""Integers have the ranges of Java."""

import msgspec
import pytest

from rocketmq_py.wire.integers import Int32, Int64


@pytest.mark.parametrize(("kind", "bits"), [(Int32, 31), (Int64, 63)])
def test_what_java_cannot_hold_is_refused(kind, bits):
    for value in (-(2**bits), 0, 2**bits - 1):
        assert msgspec.json.decode(b"%d" % value, type=kind) == value
    for value in (-(2**bits) - 1, 2**bits):
        with pytest.raises(msgspec.ValidationError):
            msgspec.json.decode(b"%d" % value, type=kind)
