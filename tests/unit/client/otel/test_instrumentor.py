"""Hooks that every client gets while its process is instrumented, and none before or after."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.trace import TracerProvider

from rocketmq_py.client.consumer.lite_pull.consumer import LitePullConsumer
from rocketmq_py.client.consumer.push.consumer import PushConsumer
from rocketmq_py.client.consumer.simple.consumer import SimpleConsumer
from rocketmq_py.client.otel.instrumentor import RocketMQInstrumentor
from rocketmq_py.client.producer.producer import Producer

HOOKS = {
    Producer: ["SendSpans", "SendMetrics"],
    PushConsumer: ["ConsumeSpans", "ConsumeMetrics"],
    SimpleConsumer: ["ReceiveSpans", "ReceiveMetrics"],
    LitePullConsumer: ["ReceiveSpans", "ReceiveMetrics"],
}


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[tuple[type, tuple[Any, ...], Sequence[object], dict[str, Any]]]:
    """How clients were made: class, arguments, hooks and options."""
    calls: list[tuple[type, tuple[Any, ...], Sequence[object], dict[str, Any]]] = []
    for client in HOOKS:

        def init(self: object, *args: Any, hooks: Sequence[object] = (), **options: Any) -> None:
            calls.append((type(self), args, hooks, options))

        monkeypatch.setattr(client, "__init__", init)
    return calls


def test_clients_have_the_hooks_from_instrument_to_uninstrument(
    made: list[tuple[type, tuple[Any, ...], Sequence[object], dict[str, Any]]],
) -> None:
    own, instrumentor = object(), RocketMQInstrumentor()
    plain = {client: vars(client)["__init__"] for client in HOOKS}
    instrumentor.instrument(tracer_provider=TracerProvider(), meter_provider=MeterProvider())
    try:
        for client in HOOKS:
            client("g", namesrv="ns:1", hooks=[own])  # type: ignore[call-arg]
            client("g")  # type: ignore[call-arg]
    finally:
        instrumentor.uninstrument()
    assert {client: vars(client)["__init__"] for client in HOOKS} == plain
    for number, (client, names) in enumerate(HOOKS.items()):
        (kind, args, hooks, options), (_, _, alone, _) = made[2 * number : 2 * number + 2]
        assert (kind, args, options, hooks[0]) == (client, ("g",), {"namesrv": "ns:1"}, own)
        assert [type(hook).__name__ for hook in hooks[1:]] == names
        assert list(alone) == list(hooks[1:]), "all clients of a kind share them"


def test_it_can_be_done_again(made: list[tuple[type, tuple[Any, ...], Sequence[object], dict[str, Any]]]) -> None:
    for _ in range(2):
        instrumentor = RocketMQInstrumentor()
        instrumentor.instrument(tracer_provider=TracerProvider(), meter_provider=MeterProvider())
        Producer("g")
        instrumentor.uninstrument()
        Producer("g")
    assert [len(hooks) for _, _, hooks, _ in made] == [2, 0, 2, 0]
    assert list(RocketMQInstrumentor().instrumentation_dependencies()) == []
