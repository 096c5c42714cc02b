"""What ``in_key_order`` refuses. What it does with rows needs Spark: tests/spark/test_sink.py."""

from __future__ import annotations

from types import SimpleNamespace
from typing import cast

import pytest
from pyspark.sql import DataFrame

from rocketmq_py.errors import ConfigError
from rocketmq_py.spark import in_key_order


@pytest.mark.parametrize(
    ("frame", "said"),
    [
        (SimpleNamespace(isStreaming=True, columns=["shardingKey"]), "call in_key_order for each micro-batch"),
        (SimpleNamespace(isStreaming=False, columns=["a", "b"]), "no column 'shardingKey'; columns are a, b"),
    ],
)
def test_what_cannot_be_ordered_is_refused(frame: object, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        in_key_order(cast(DataFrame, frame))
