"""Spans of sends and listeners, as the SDK's exporter gets them."""

import asyncio
import subprocess
import sys
from importlib.metadata import entry_points

import pytest
from opentelemetry import baggage, context, trace
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

from rocketmq_py import (
    ConfigError,
    ConsumeResult,
    LitePullConsumer,
    Message,
    MessageIllegal,
    Producer,
    SimpleConsumer,
    aio,
)
from rocketmq_py.client.otel import ConsumeSpans, ReceiveSpans, SendSpans
from rocketmq_py.client.otel.instrumentor import RocketMQInstrumentor
from tests.server.consuming import FIRST, Seen, eventually


@pytest.fixture
def exporter():
    return InMemorySpanExporter()


@pytest.fixture
def provider(exporter):
    made = TracerProvider()
    made.add_span_processor(SimpleSpanProcessor(exporter))
    return made


def parent_of(span):
    return None if span.parent is None else span.parent.span_id


@pytest.mark.parametrize("style", ["plain", "async"])
async def test_one_trace_covers_sender_and_listener(cluster, topic, group, provider, exporter, style):
    tracer = provider.get_tracer("the application")
    seen, carried = Seen(), []

    def work(message):
        with tracer.start_as_current_span("work"):
            carried.append(baggage.get_baggage("customer"))
        seen(message)

    async def work_async(message):
        await asyncio.sleep(0)
        work(message)

    async with aio.Producer(group, cluster.namesrv, hooks=[SendSpans(provider)]) as producer:
        token = context.attach(baggage.set_baggage("customer", "seven"))
        with tracer.start_as_current_span("order"):
            message = Message(topic, b"abc", tags="A", keys="k1 k2")
            result = await producer.send(message)
        context.detach(token)
    listener = work if style == "plain" else work_async
    consumer = aio.PushConsumer(
        group, cluster.namesrv, consume_from=FIRST, hooks=[ConsumeSpans(provider)], listener=listener
    )
    consumer.subscribe(topic)
    async with consumer:
        await seen.count(1)
    spans = {span.name: span for span in exporter.get_finished_spans()}
    order, send, process, inside = (spans[name] for name in ("order", f"send {topic}", f"process {topic}", "work"))
    assert len({span.context.trace_id for span in spans.values()}) == 1
    assert [parent_of(span) for span in (order, send, process, inside)] == [
        None, order.context.span_id, send.context.span_id, process.context.span_id,
    ]  # fmt: skip
    assert (send.kind, process.kind) == (SpanKind.PRODUCER, SpanKind.CONSUMER)
    assert carried == ["seven"]
    common = {
        "messaging.system": "rocketmq", "messaging.destination.name": topic, "messaging.message.id": result.msg_id,
        "messaging.destination.partition.id": str(result.queue.queue_id), "messaging.message.body.size": 3,
        "messaging.rocketmq.message.tag": "A", "messaging.rocketmq.message.keys": ("k1", "k2"),
    }  # fmt: skip
    assert common.items() <= dict(send.attributes).items()
    assert common.items() <= dict(process.attributes).items()
    assert send.attributes["messaging.operation.type"] == "send"
    assert process.attributes["messaging.operation.type"] == "process"
    assert process.attributes["messaging.consumer.group.name"] == group
    assert not trace.get_current_span().get_span_context().is_valid


async def test_a_batch_span_links_its_messages(cluster, topic, group, provider, exporter):
    with Producer(group, cluster.namesrv, hooks=[SendSpans(provider)]) as producer:
        batch = [Message(topic, b"x"), Message(topic, b"y")]
        await asyncio.to_thread(producer.send_batch, batch)
        await asyncio.to_thread(producer.send_oneway, Message(topic, b"z"))
        await asyncio.wrap_future(producer.send_async(Message(topic, b"z")))
    seen = Seen()
    consumer = aio.PushConsumer(
        group, cluster.namesrv, consume_from=FIRST, hooks=[ConsumeSpans(provider)], consume_batch_size=32,
        listener=lambda messages, _: [seen(message) for message in messages] and None,
    )  # fmt: skip
    consumer.subscribe(topic)
    async with consumer:
        await seen.count(4)
    spans = exporter.get_finished_spans()
    [sent] = [span for span in spans if span.attributes.get("messaging.batch.message_count") == 2 and not span.links]
    together = [span for span in spans if span.links]
    assert {link.context.span_id for span in together for link in span.links} >= {sent.context.span_id}
    assert all(span.parent is None and span.kind is SpanKind.CONSUMER for span in together)
    assert len([span for span in spans if span.kind is SpanKind.PRODUCER]) == 3


async def test_failures_are_recorded_in_spans(cluster, topic, group, provider, exporter):
    async with aio.Producer(group, cluster.namesrv, hooks=[SendSpans(provider)]) as producer:
        with pytest.raises(MessageIllegal):
            await producer.send(Message(topic, b""))
        with pytest.raises(MessageIllegal):
            await producer.send_batch([])
        await producer.send(Message(topic, b"raises"))
        await producer.send(Message(topic, b"refuses"))

    def listen(message):
        if message.body == b"raises":
            raise ConfigError("on purpose")
        return ConsumeResult.RECONSUME_LATER

    consumer = aio.PushConsumer(
        group, cluster.namesrv, consume_from=FIRST, hooks=[ConsumeSpans(provider)], listener=listen
    )
    consumer.subscribe(topic)
    async with consumer:
        await eventually(lambda: len([s for s in exporter.get_finished_spans() if s.kind is SpanKind.CONSUMER]) >= 2)
    failed = [span for span in exporter.get_finished_spans() if span.status.status_code is StatusCode.ERROR]
    kinds = {(span.kind, span.attributes["error.type"]) for span in failed}
    assert kinds == {
        (SpanKind.PRODUCER, "MessageIllegal"), (SpanKind.CONSUMER, "ConfigError"),
        (SpanKind.CONSUMER, "RECONSUME_LATER"),
    }  # fmt: skip
    raised = next(span for span in failed if span.attributes["error.type"] == "ConfigError")
    assert [event.name for event in raised.events] == ["exception"]
    assert "on purpose" in raised.status.description


def test_only_the_otel_module_imports_opentelemetry():
    code = (
        "import sys; sys.modules['opentelemetry'] = None\n"
        "import rocketmq_py.aio, rocketmq_py; rocketmq_py.Producer, rocketmq_py.PushConsumer\n"
        "try:\n    import rocketmq_py.client.otel\n"
        "except ImportError as e:\n    print(e)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "spans and metrics need the package opentelemetry-api: pip install 'rocketmq-py[otel]'\n"


def received(exporter):
    return [span for span in exporter.get_finished_spans() if span.name.startswith("receive ")]


def links_of(spans):
    return {link.context.span_id for span in spans for link in span.links}


@pytest.mark.parametrize("kind", ["simple", "lite", "simple-aio", "lite-aio"])
async def test_a_receive_has_a_span(cluster, topic, group, provider, exporter, kind):
    async with aio.Producer("p-otel", cluster.namesrv, hooks=[SendSpans(provider)]) as producer:
        for number in range(3):
            await producer.send(Message(topic, b"%d" % number))
    sent = {span.context.span_id for span in exporter.get_finished_spans()}
    options = {"hooks": [ReceiveSpans(provider)], "consume_from": FIRST}

    def in_a_thread(consumer):
        with consumer:
            consumer.subscribe(topic)
            ask = consumer.receive if kind == "simple" else consumer.poll
            while len(links_of(received(exporter))) < 3:
                ask(timeout=1.0)

    if kind in ("simple", "lite"):
        consumer = (SimpleConsumer if kind == "simple" else LitePullConsumer)(group, cluster.namesrv, **options)
        await asyncio.to_thread(in_a_thread, consumer)
    else:
        consumer = (aio.SimpleConsumer if kind == "simple-aio" else aio.LitePullConsumer)(
            group, cluster.namesrv, **options
        )
        async with consumer:
            consumer.subscribe(topic)
            ask = consumer.receive if kind == "simple-aio" else consumer.poll
            while len(links_of(received(exporter))) < 3:
                await ask(timeout=1.0)
    spans = received(exporter)
    assert links_of(spans) == sent
    for span in spans:
        assert span.kind is SpanKind.CLIENT
        assert span.attributes["messaging.operation.type"] == "receive"
        assert span.attributes["messaging.destination.name"] == topic
        assert span.attributes["messaging.consumer.group.name"] == group
        assert span.start_time < span.end_time


async def test_each_message_of_an_iteration_has_its_span(cluster, topic, group, provider, exporter):
    async with aio.Producer("p-otel", cluster.namesrv) as producer:
        for number in range(3):
            await producer.send(Message(topic, b"%d" % number))

    def iterate():
        options = {"hooks": [ReceiveSpans(provider)], "consume_from": FIRST}
        with LitePullConsumer(group, cluster.namesrv, **options) as consumer:
            consumer.subscribe(topic)
            return [message.msg_id for _, message in zip(range(3), consumer, strict=False)]

    seen = await asyncio.to_thread(iterate)
    assert [span.attributes["messaging.message.id"] for span in received(exporter)][:3] == seen


@pytest.fixture
def instrumented(provider):
    reader = InMemoryMetricReader()
    instrumentor = RocketMQInstrumentor()
    instrumentor.instrument(tracer_provider=provider, meter_provider=MeterProvider([reader]))
    yield reader
    instrumentor.uninstrument()


def counted(reader, name):
    (of_scope,) = reader.get_metrics_data().resource_metrics[0].scope_metrics
    (points,) = [metric.data.data_points for metric in of_scope.metrics if metric.name == name]
    return {(one.attributes["messaging.destination.name"], one.attributes["messaging.operation.name"]): one.value
            for one in points}  # fmt: skip


async def test_an_instrumented_process_has_spans_and_metrics_of_all_clients(
    cluster, topic, group, instrumented, exporter
):
    def send_and_poll():
        with Producer(group, cluster.namesrv) as producer:
            producer.send(Message(topic, b"1"))
        with LitePullConsumer(f"{group}-l", cluster.namesrv, consume_from=FIRST) as consumer:
            consumer.subscribe(topic)
            while not received(exporter):
                consumer.poll(timeout=1.0)

    await asyncio.to_thread(send_and_poll)
    seen = Seen()
    consumer = aio.PushConsumer(group, cluster.namesrv, consume_from=FIRST, listener=seen)
    consumer.subscribe(topic)
    async with consumer:
        await seen.count(1)
        await eventually(lambda: any(span.name == f"process {topic}" for span in exporter.get_finished_spans()))
    names = [span.name for span in exporter.get_finished_spans()]
    assert [names.count(f"{what} {topic}") for what in ("send", "receive", "process")] == [1, 1, 1]
    assert counted(instrumented, "messaging.client.sent.messages") == {(topic, "send"): 1}
    consumed = counted(instrumented, "messaging.client.consumed.messages")
    assert consumed == {(topic, "receive"): 1, (topic, "process"): 1}


async def test_clients_made_after_the_instrumentation_ended_have_no_spans(cluster, topic, group, provider, exporter):
    instrumentor = RocketMQInstrumentor()
    instrumentor.instrument(tracer_provider=provider)
    instrumentor.uninstrument()
    async with aio.Producer(group, cluster.namesrv) as producer:
        await producer.send(Message(topic, b"1"))
    assert exporter.get_finished_spans() == ()


def test_opentelemetry_instrument_finds_the_package():
    (found,) = [one for one in entry_points(group="opentelemetry_instrumentor") if one.name == "rocketmq_py"]
    assert found.load() is RocketMQInstrumentor
