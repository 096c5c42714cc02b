"""The schema registry's client, without a registry."""

from __future__ import annotations

import sys

import pytest

from rocketmq_py.errors import ConfigError
from rocketmq_py.serde.registry import SchemaRegistry


def test_a_registry_without_its_client_is_refused_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "confluent_kafka", None)
    with pytest.raises(ConfigError, match=r"pip install 'rocketmq-py\[serde\]'"):
        SchemaRegistry("http://127.0.0.1:1").schema(1)
