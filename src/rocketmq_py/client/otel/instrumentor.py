"""Adds spans and metrics to all clients of a process: for ``opentelemetry-instrument``, which finds it by entry point.

Needs the package opentelemetry-instrumentation, as ``opentelemetry-instrument`` does.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection, Sequence
from typing import Any, ClassVar

from opentelemetry.instrumentation.instrumentor import BaseInstrumentor  # type: ignore[attr-defined]

from rocketmq_py.client.consumer.lite_pull.consumer import LitePullConsumer
from rocketmq_py.client.consumer.push.consumer import PushConsumer
from rocketmq_py.client.consumer.simple.consumer import SimpleConsumer
from rocketmq_py.client.otel.metrics import ConsumeMetrics, ReceiveMetrics, SendMetrics
from rocketmq_py.client.otel.spans import ConsumeSpans, ReceiveSpans, SendSpans
from rocketmq_py.client.producer.producer import Producer


class RocketMQInstrumentor(BaseInstrumentor):  # type: ignore[misc]
    """Adds hooks for spans and metrics to every client that is made from then on, blocking or not.

    Use it as ``RocketMQInstrumentor().instrument()``, with ``tracer_provider`` and ``meter_provider`` for others than
    the global ones.
    """

    _plain: ClassVar[dict[type, Callable[..., None]]] = {}

    def instrumentation_dependencies(self) -> Collection[str]:
        """Return no packages: this one is instrumented by itself."""
        return []

    def _instrument(self, **providers: Any) -> None:
        tracers, meters = providers.get("tracer_provider"), providers.get("meter_provider")
        sends = SendSpans(tracers), SendMetrics(meters)
        calls = ConsumeSpans(tracers), ConsumeMetrics(meters)
        receives = ReceiveSpans(tracers), ReceiveMetrics(meters)
        for client, hooks in (
            (Producer, sends), (PushConsumer, calls), (SimpleConsumer, receives), (LitePullConsumer, receives),
        ):  # fmt: skip
            self._plain[client] = vars(client)["__init__"]
            client.__init__ = _with_hooks(self._plain[client], hooks)  # type: ignore[method-assign]

    def _uninstrument(self, **_: Any) -> None:
        for client, plain in self._plain.items():
            client.__init__ = plain  # type: ignore[misc]
        self._plain.clear()


def _with_hooks(plain: Callable[..., None], added: Sequence[object]) -> Callable[..., None]:
    @functools.wraps(plain)
    def init(self: object, *args: Any, hooks: Sequence[object] = (), **options: Any) -> None:
        plain(self, *args, hooks=(*hooks, *added), **options)

    return init
