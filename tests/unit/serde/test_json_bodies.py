"""JSON bodies of declared types."""

from __future__ import annotations

import pickle
from dataclasses import dataclass
from typing import Any

import msgspec
import pytest
from pydantic import BaseModel

from rocketmq_py.errors import ConfigError
from rocketmq_py.serde import BodyMismatch, Json, Serde
from rocketmq_py.serde.of_type import serde_of


class Order(msgspec.Struct):
    number: int
    item: str = "tea"


@dataclass
class Plain:
    number: int


class Model(BaseModel):
    number: int
    item: str = "tea"


@pytest.mark.parametrize("value", [Order(7, "cake"), Plain(7), Model(number=7), {"number": 7}, [1, 2]])
def test_a_value_comes_back(value: Any) -> None:
    serde = Json(type(value))
    assert isinstance(serde, Serde)
    body = serde.encode(value, "orders")
    assert serde.decode(body) == value
    assert pickle.loads(pickle.dumps(serde)).decode(body) == value


@pytest.mark.parametrize("kind", [Order, Model])
def test_fields_that_were_added_or_removed(kind: Any) -> None:
    assert Json(kind).decode(b'{"number": 7, "more": 1}') == Json(kind).decode(b'{"number": 7, "item": "tea"}')


@pytest.mark.parametrize("kind", [Order, Plain, Model])
@pytest.mark.parametrize("body", [b"", b"{", b"[]", b'{"number": "x"}', b"{}", b"\xff", b"[" * 100_000])
def test_a_body_that_does_not_fit(kind: Any, body: bytes) -> None:
    with pytest.raises(BodyMismatch, match=f"the body is no {kind.__name__}"):
        Json(kind).decode(body)


def test_a_value_that_does_not_fit() -> None:
    with pytest.raises(BodyMismatch, match="cannot be written as JSON"):
        Json(dict).encode({"a": object()}, "t")
    with pytest.raises(BodyMismatch, match="cannot be written as JSON"):
        Json(Model).encode(3, "t")  # type: ignore[arg-type]


def test_a_type_stands_for_json() -> None:
    json = Json(Order)
    assert serde_of(json) is json
    assert serde_of(Order).decode(b'{"number": 1}') == Order(1)
    with pytest.raises(ConfigError, match="cannot be read from JSON"):
        serde_of(3)
