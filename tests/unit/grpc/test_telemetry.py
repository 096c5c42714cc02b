from __future__ import annotations

import asyncio

import pytest

from rocketmq_py.errors import ConnectionLost, NetworkError, RequestTimeout
from rocketmq_py.protocol.codes import RequestCode
from rocketmq_py.protocol.grpc.definition import (
    FilterExpression,
    Publishing,
    Resource,
    Settings,
    Status,
    Subscription,
    SubscriptionEntry,
)
from rocketmq_py.protocol.grpc.enums import ClientType, Code
from rocketmq_py.protocol.grpc.service import (
    HeartbeatRequest,
    NotifyClientTerminationRequest,
    StatusResponse,
    TelemetryCommand,
    ThreadStackTrace,
    VerifyMessageResult,
)
from rocketmq_py.wire.command import Command
from rocketmq_py.wire.grpc import GrpcStatus
from tests.unit.broker.harness import InProcess
from tests.unit.grpc.calls import Calls, Running, new_message

BEAT = HeartbeatRequest(group=Resource(name="g"))


def members(running: InProcess, group: str = "g") -> list[str]:
    found = running.services.clients.consumers.groups.get(group)
    return found.client_ids() if found is not None else []


def test_a_consumer_is_registered_with_its_subscription(running: InProcess, calls: Calls) -> None:
    calls.metadata["x-mq-language"] = "GOLANG"
    calls.consume("t", "g", "A || B")
    group = running.services.clients.consumers.groups["g"]
    [member] = group.members.values()
    assert (member.client_id, member.language, group.consume_type) == ("client", "GO", "CONSUME_ACTIVELY")
    assert group.subscriptions["t"].tags_set == ["A", "B"]
    calls.consume("t", "pushes", kind=ClientType.PUSH_CONSUMER)
    assert running.services.clients.consumers.groups["pushes"].consume_type == "CONSUME_PASSIVELY"


def test_a_language_of_any_name_is_accepted(running: InProcess, calls: Calls) -> None:
    calls.metadata["x-mq-language"] = "ELVISH"
    calls.consume("t", "g")
    [member] = running.services.clients.consumers.groups["g"].members.values()
    assert member.language == "OTHER"


def test_a_producer_is_a_member_of_a_group_for_each_topic(running: InProcess, calls: Calls) -> None:
    stream = calls.produce("transaction")
    assert list(running.services.clients.producers.groups) == ["transaction"]
    stream.call.cancelled()
    assert running.services.clients.producers.groups == {}


def test_a_client_leaves_with_its_stream_and_returns_with_a_heartbeat(running: InProcess, calls: Calls) -> None:
    stream = calls.consume("t", "g")
    assert stream.call.on_end is not None
    stream.call.on_end()
    assert stream.carrier.end == (GrpcStatus.OK, "")
    assert members(running) == []
    assert calls.code("Heartbeat", BEAT) == Code.OK
    assert members(running) == ["client"]


def test_a_new_stream_replaces_the_old_one(running: InProcess, calls: Calls) -> None:
    old = calls.consume("t", "g")
    [replaced] = running.services.clients.consumers.groups["g"].members
    new = calls.consume("t", "g")
    assert members(running) == ["client"]
    assert replaced not in running.services.clients.consumers.groups["g"].members
    old.call.cancelled()
    assert members(running) == ["client"]
    new.call.cancelled()
    assert members(running) == []


def test_a_client_ends(running: InProcess, calls: Calls) -> None:
    calls.consume("t", "g")
    assert calls.code("Heartbeat", BEAT) == Code.OK
    assert calls.code("NotifyClientTermination", NotifyClientTerminationRequest(group=Resource(name="g"))) == Code.OK
    assert members(running) == []
    for method, request in (("Heartbeat", BEAT), ("NotifyClientTermination", NotifyClientTerminationRequest())):
        assert calls.code(method, request) == Code.UNRECOGNIZED_CLIENT_TYPE


def test_a_client_without_a_stream_is_forgotten_after_two_minutes(running: InProcess, calls: Calls) -> None:
    kept = calls.consume("t", "g")
    calls.client_id = "gone"
    calls.consume("t", "g").call.cancelled()
    running.now += 120_000
    calls.service.tick()
    assert calls.code("Heartbeat", BEAT) == Code.OK
    running.now += 120_001
    calls.service.tick()
    assert calls.code("Heartbeat", BEAT) == Code.UNRECOGNIZED_CLIENT_TYPE
    calls.client_id = "client"
    assert kept.carrier.end is None
    assert calls.code("Heartbeat", BEAT) == Code.OK


def entry(expression: str, kind: int = 1, topic: str = "t") -> Subscription:
    one = SubscriptionEntry(topic=Resource(name=topic), expression=FilterExpression(type=kind, expression=expression))
    return Subscription(group=Resource(name="g"), subscriptions=[one])


@pytest.mark.parametrize(("settings", "status", "text"), [
    (Settings(client_type=1), GrpcStatus.INVALID_ARGUMENT, "neither"),
    (Settings(client_type=ClientType.LITE_PUSH_CONSUMER, subscription=entry("*")), GrpcStatus.INTERNAL, "lite"),
    (Settings(subscription=entry("a >", 2)), GrpcStatus.INVALID_ARGUMENT, "a >"),
    (Settings(subscription=entry("||")), GrpcStatus.INVALID_ARGUMENT, "names no tag"),
    (Settings(subscription=entry("*", topic="a b")), GrpcStatus.INVALID_ARGUMENT, "illegal"),
    (Settings(subscription=Subscription()), GrpcStatus.INVALID_ARGUMENT, "group name is empty"),
    (Settings(publishing=Publishing(topics=[Resource()])), GrpcStatus.INVALID_ARGUMENT, "topic name is empty"),
], ids=["none", "lite", "sql", "tags", "topic", "group", "publishing"])  # fmt: skip
def test_settings_that_make_no_sense_end_the_stream(
    running: InProcess, calls: Calls, settings: Settings, status: GrpcStatus, text: str
) -> None:
    stream = calls.settings(settings)
    assert stream.carrier.end is not None
    assert stream.carrier.end[0] is status
    assert text in stream.carrier.end[1]
    assert members(running) == []


def test_a_group_that_may_not_be_created_ends_the_stream(running: InProcess, calls: Calls) -> None:
    running.config.auto_create_subscription_group = False
    assert calls.settings(Settings(subscription=entry("*"))).carrier.end == (
        GrpcStatus.INVALID_ARGUMENT,
        "group g not found",
    )


@pytest.mark.parametrize("client_id", ["", "  ", "x" * 1025])
def test_a_client_needs_an_id(calls: Calls, client_id: str) -> None:
    calls.client_id = client_id
    stream = calls.begin("Telemetry")
    assert stream.carrier.end is not None
    assert stream.carrier.end[0] is GrpcStatus.INVALID_ARGUMENT


def test_bytes_that_are_no_command_end_the_stream(calls: Calls) -> None:
    stream = calls.begin("Telemetry")
    stream.tell(b"\x12\xff")
    assert stream.carrier.end is not None
    assert stream.carrier.end[0] is GrpcStatus.INVALID_ARGUMENT


def test_commands_of_other_kinds_are_ignored(calls: Calls) -> None:
    stream = calls.consume("t", "g")
    stream.tell(TelemetryCommand(status=Status(code=Code.OK)))
    stream.tell(TelemetryCommand(verify_message_result=VerifyMessageResult(nonce="7")))
    assert (stream.carrier.end, stream.received(TelemetryCommand)) == (None, [])


def record(running: InProcess, calls: Calls) -> bytes:
    calls.send(new_message("t", b"checked"))
    return bytes(running.services.store.get("t", 0, 0, 1).body)


async def ask(
    running: InProcess, stream: Running, command: Command, answer: TelemetryCommand | None, timeout: float = 60
) -> Command:
    """The response of the client to a command, which it answers with ``answer``."""
    member = running.services.clients.consumers.find("g", "client")
    assert member is not None
    task = asyncio.create_task(member.channel.invoke(command, timeout))  # type: ignore[attr-defined]
    await asyncio.sleep(0)
    for told in stream.received(TelemetryCommand):
        verify, trace = told.verify_message_command, told.print_thread_stack_trace_command
        if answer is not None and verify is not None:
            assert verify.message is not None
            assert verify.message.body == b"checked"
            answer.verify_message_result = VerifyMessageResult(nonce=verify.nonce)
        elif answer is not None and trace is not None:
            answer.thread_stack_trace = ThreadStackTrace(nonce=trace.nonce, thread_stack_trace="stack")
        if answer is not None:
            stream.tell(answer)
            stream.tell(answer)  # twice does no harm
    return await task


@pytest.mark.parametrize(
    ("code", "result"),
    [(Code.OK, "CR_SUCCESS"), (Code.FAILED_TO_CONSUME_MESSAGE, "CR_LATER"), (40016, "CR_THROW_EXCEPTION")],
)
def test_a_client_consumes_a_message_for_an_administrator(
    running: InProcess, calls: Calls, code: int, result: str
) -> None:
    stream = calls.consume("t", "g")
    stream.received(TelemetryCommand)
    command = Command(RequestCode.CONSUME_MESSAGE_DIRECTLY, body=record(running, calls))
    answer = TelemetryCommand(status=Status(code=code, message="said"))
    response = asyncio.run(ask(running, stream, command, answer))
    assert f'"consumeResult":"{result}"'.encode() in response.body
    assert b'"remark":"said"' in response.body


def test_a_client_tells_what_its_threads_do_only_if_that_is_asked(running: InProcess, calls: Calls) -> None:
    stream = calls.consume("t", "g")
    command = Command(RequestCode.GET_CONSUMER_RUNNING_INFO, ext={"jstackEnable": "true"})
    assert b'"jstack":"stack"' in asyncio.run(ask(running, stream, command, TelemetryCommand())).body
    plain = asyncio.run(ask(running, stream, Command(RequestCode.GET_CONSUMER_RUNNING_INFO), None))
    assert b"jstack" not in plain.body


def test_a_client_that_does_not_answer_or_goes_is_given_up(running: InProcess, calls: Calls) -> None:
    stream = calls.consume("t", "g")
    command = Command(RequestCode.CONSUME_MESSAGE_DIRECTLY, body=record(running, calls))
    with pytest.raises(RequestTimeout):
        asyncio.run(ask(running, stream, command, None, 0.01))

    async def leave() -> None:
        member = running.services.clients.consumers.find("g", "client")
        assert member is not None
        task = asyncio.create_task(member.channel.invoke(command, 60))  # type: ignore[attr-defined]
        await asyncio.sleep(0)
        stream.call.cancelled()
        with pytest.raises(ConnectionLost):
            await task
        with pytest.raises(NetworkError):
            await member.channel.invoke(command, 60)  # type: ignore[attr-defined]

    asyncio.run(leave())


def test_other_requests_to_a_client_are_dropped_and_damaged_ones_logged(
    running: InProcess, calls: Calls, caplog: pytest.LogCaptureFixture
) -> None:
    stream = calls.consume("t", "g")
    stream.received(TelemetryCommand)
    [member] = running.services.clients.consumers.groups["g"].members.values()
    member.channel.send(Command(RequestCode.NOTIFY_CONSUMER_IDS_CHANGED))  # type: ignore[attr-defined]
    member.channel.send(Command(RequestCode.CHECK_TRANSACTION_STATE, body=b"x" * 99))  # type: ignore[attr-defined]
    assert stream.received(TelemetryCommand) == []
    assert "its message is damaged" in caplog.text


def test_lite_topics_are_not_here(calls: Calls) -> None:
    assert calls.code("SyncLiteSubscription", StatusResponse()) == Code.NOT_IMPLEMENTED
