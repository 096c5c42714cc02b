from __future__ import annotations

from benchmarks.frames import Requests, batch_requests, pull_requests, queue_shares, send_requests, topic_requests
from rocketmq_py.properties import Property, decode_properties
from rocketmq_py.protocol.codes import RequestCode
from rocketmq_py.wire.batch import decode_batch
from rocketmq_py.wire.command import Command, decode_command
from rocketmq_py.wire.frame import FrameDecoder


def commands(requests: Requests) -> list[Command]:
    return [decode_command(frame) for frame in FrameDecoder().feed(bytes(requests.buffer))]


def key(properties: str | bytes) -> str:
    raw = properties if isinstance(properties, bytes) else properties.encode()
    return decode_properties(raw)[Property.UNIQUE_KEY]


def test_sends_go_queue_after_queue_with_the_bounds_of_their_frames() -> None:
    requests = send_requests("T", queues=4, size=100, count=8)
    found = commands(requests)
    assert [command.code for command in found] == [RequestCode.SEND_MESSAGE_V2] * 8
    assert [command.ext["e"] for command in found] == ["0", "1", "2", "3"] * 2
    assert {len(command.body) for command in found} == {100}
    assert [command.opaque for command in found] == list(range(8))
    sizes = [after - before for before, after in zip(requests.bounds, requests.bounds[1:], strict=False)]
    assert [len(requests.buffer), requests.count] == [sum(sizes), 8]


def test_sends_to_many_topics_take_them_in_turn() -> None:
    found = commands(topic_requests(["a", "b", "c"], 20, 7))
    assert [(command.ext["b"], command.ext["e"]) for command in found] == [(t, "0") for t in "abcabca"]


def test_renewed_keys_differ_and_nothing_else_changes() -> None:
    requests = send_requests("T", queues=1, size=20, count=300)
    seen: list[str] = []
    for _ in range(3):
        requests.renew_keys()
        seen += [key(command.ext["i"]) for command in commands(requests)]
    assert len(set(seen)) == 900
    assert all(len(k) == 32 and int(k, 16) >= 0 for k in seen)
    assert seen[299].endswith("0000012B")


def test_a_batch_gives_each_of_its_messages_a_key() -> None:
    requests = batch_requests("T", queues=2, size=16, each=4, count=3)
    requests.renew_keys()
    found = commands(requests)
    assert [command.code for command in found] == [RequestCode.SEND_BATCH_MESSAGE] * 3
    keys = [key(properties) for command in found for _, _, properties in decode_batch(command.body)]
    assert len(set(keys)) == 12
    assert requests.messages_each == 4


def test_pulls_read_every_queue_once() -> None:
    requests = pull_requests("T", queues=2, each=32, messages=192, answer_body=1)
    asked = [(command.ext["queueId"], command.ext["queueOffset"]) for command in commands(requests)]
    assert asked == [("0", "0"), ("1", "0"), ("0", "32"), ("1", "32"), ("0", "64"), ("1", "64")]
    before = bytes(requests.buffer)
    requests.renew_keys()
    assert bytes(requests.buffer) == before


def test_queues_are_divided_between_connections() -> None:
    assert queue_shares(10, 4) == [3, 3, 2, 2]
