"""The schema registry's client, without a registry."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from types import SimpleNamespace

import pytest

from rocketmq_py.errors import ConfigError
from rocketmq_py.serde.base import BodyMismatch
from rocketmq_py.serde.registry import RegistryError, Schema, SchemaRegistry
from tests.virtual_time import Clock


def test_a_registry_without_its_client_is_refused_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "confluent_kafka", None)
    with pytest.raises(ConfigError, match=r"pip install 'rocketmq-py\[serde\]'"):
        SchemaRegistry("http://127.0.0.1:1").schema(1)


class Confluent:
    """Confluent's client: has the schemas below ``end``, and fails if it is told to."""

    def __init__(self, end: int) -> None:
        self.end = end
        self.failure: Exception | None = None
        self.asked: list[int] = []
        self.registered: list[tuple[str, object]] = []

    def get_schema(self, schema_id: int) -> SimpleNamespace:
        self.asked.append(schema_id)
        if self.failure is not None:
            raise self.failure
        if schema_id >= self.end:
            raise NotFound
        return SimpleNamespace(schema_str=f"schema {schema_id}", schema_type=None if schema_id % 2 else "PROTOBUF")

    def register_schema(self, subject: str, schema: object) -> str:
        if self.failure is not None:
            raise self.failure
        self.registered.append((subject, schema))
        return str(len(self.registered))


@pytest.fixture
def still(virtual_clock: Clock) -> Iterator[Clock]:
    """A clock that only the test moves."""
    virtual_clock.stand_still()
    yield virtual_clock
    virtual_clock.run()


class NotFound(Exception):
    http_status_code = 404


def registry(monkeypatch: pytest.MonkeyPatch, end: int = 1_000_000) -> tuple[SchemaRegistry, Confluent]:
    made, client = SchemaRegistry("http://127.0.0.1:1"), Confluent(end)
    monkeypatch.setattr(made, "_client", lambda: (client, lambda text, kind: (text, kind)))
    return made, client


def test_a_schema_is_asked_for_once(monkeypatch: pytest.MonkeyPatch) -> None:
    made, client = registry(monkeypatch)
    for _ in range(2):
        assert made.schema(7) == Schema("schema 7", "AVRO")
        assert made.schema(8) == Schema("schema 8", "PROTOBUF")
    assert client.asked == [7, 8]


def test_4096_schemas_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    made, client = registry(monkeypatch)
    for number in [*range(4096), 0, 4095]:
        made.schema(number)
    assert client.asked == list(range(4096))
    for number in (4096, 4096, 0):
        made.schema(number)
    assert client.asked[4096:] == [4096, 0]


def test_an_id_that_is_not_there_is_asked_for_again_after_30_seconds(
    monkeypatch: pytest.MonkeyPatch, still: Clock
) -> None:
    made, client = registry(monkeypatch, end=0)
    for _ in range(3):
        with pytest.raises(BodyMismatch, match="the registry has no schema 5"):
            made.schema(5)
    assert client.asked == [5]
    still.skip(30.5)
    client.end = 6
    assert made.schema(5).text == "schema 5"
    assert client.asked == [5, 5]


@pytest.mark.usefixtures("still")
def test_1024_of_them_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    made, client = registry(monkeypatch, end=0)
    for number in [*range(1024), 0, 1024, 1024, 0]:
        with pytest.raises(BodyMismatch):
            made.schema(number)
    assert client.asked == [*range(1024), 1024, 0]


def test_a_registry_that_fails_is_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    made, client = registry(monkeypatch)
    client.failure = OSError("refused")
    with pytest.raises(RegistryError, match="schema 7 cannot be looked up: refused"):
        made.schema(7)
    with pytest.raises(RegistryError, match="a schema of s cannot be registered: refused"):
        made.register("s", Schema("x", "AVRO"))
    client.failure = None
    assert made.schema(7).text == "schema 7"
    assert made.register("s", Schema("x", "AVRO")) == 1


def test_a_schema_is_registered_once_under_each_subject(monkeypatch: pytest.MonkeyPatch) -> None:
    made, client = registry(monkeypatch)
    for _ in range(2):
        assert [made.register(subject, Schema("x", "AVRO")) for subject in ("s", "t")] == [1, 2]
    assert client.registered == [("s", ("x", "AVRO")), ("t", ("x", "AVRO"))]
