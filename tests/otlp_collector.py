"""An OpenTelemetry collector for metrics that keeps what it gets."""

from __future__ import annotations

import queue
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple, Self

import grpc
from opentelemetry.proto.collector.metrics.v1 import metrics_service_pb2 as pb2, metrics_service_pb2_grpc as service

SECONDS = 240.0


class Export(NamedTuple):
    """A request: the name of the scope, its metrics, and the headers."""

    scope: str
    metrics: list[Any]
    headers: dict[str, str]


class Collector(service.MetricsServiceServicer):
    """Listens on a free port. Answers are those of ``answers`` first, then success.

    A status as an answer ends the call with it, a number refuses so many points.
    """

    def __init__(self, *answers: grpc.StatusCode | int) -> None:
        self._answers = list(answers)
        self._found: queue.Queue[Export] = queue.Queue()
        self._server = grpc.server(ThreadPoolExecutor(2))
        service.add_MetricsServiceServicer_to_server(self, self._server)
        self.port = self._server.add_insecure_port("127.0.0.1:0")
        self._server.start()

    def Export(self, request: Any, context: Any) -> Any:  # noqa: N802 - gRPC's name
        answer = self._answers.pop(0) if self._answers else 0
        if isinstance(answer, grpc.StatusCode):
            context.abort(answer, "not\nnow")
        [resource] = request.resource_metrics
        [scope] = resource.scope_metrics
        self._found.put(Export(scope.scope.name, list(scope.metrics), dict(context.invocation_metadata())))
        partial = pb2.ExportMetricsPartialSuccess(rejected_data_points=answer, error_message="too\nold")
        return pb2.ExportMetricsServiceResponse(partial_success=partial)

    def next(self) -> Export:
        """Wait for a request, and return it."""
        return self._found.get(timeout=SECONDS)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._server.stop(None).wait()
