"""Response headers against the answers of the Java peer."""

from __future__ import annotations

import pytest

from rocketmq_py.protocol.codes import ResponseCode
from rocketmq_py.protocol.headers.base import Header
from rocketmq_py.protocol.headers.namesrv import RegisterBrokerResponse
from rocketmq_py.protocol.headers.offset import OffsetResponse
from rocketmq_py.protocol.headers.pull import PullResponse
from rocketmq_py.protocol.headers.send import SendResponse
from rocketmq_py.wire.command import Command, decode_command
from rocketmq_py.wire.frame import FrameDecoder
from tests.golden import files

HEADERS: dict[str, type[Header]] = {
    **dict.fromkeys(["send_v1", "send_v2", "send_batch", "send_zlib", "send_rocketmq"], SendResponse),
    **dict.fromkeys(["pull_found", "pull_not_found", "pull_offset_moved", "pull_retry_immediately"], PullResponse),
    **dict.fromkeys(["max_offset", "min_offset", "search_offset"], OffsetResponse),
    "register_broker": RegisterBrokerResponse,
}


def response(name: str) -> Command:
    [frame] = FrameDecoder().feed(files.response(name))
    return decode_command(frame)


@pytest.mark.parametrize("name", HEADERS)
def test_every_field_of_a_java_answer_is_known(name: str) -> None:
    command = response(name)
    assert HEADERS[name].from_ext(command.ext).to_ext() == command.ext


@pytest.mark.parametrize(("name", "code"), [
    ("pull_found", ResponseCode.SUCCESS), ("pull_not_found", ResponseCode.PULL_NOT_FOUND),
    ("pull_retry_immediately", ResponseCode.PULL_RETRY_IMMEDIATELY),
    ("pull_offset_moved", ResponseCode.PULL_OFFSET_MOVED),
    ("pull_unknown_topic", ResponseCode.TOPIC_NOT_EXIST), ("pull_wrong_queue", ResponseCode.INVALID_PARAMETER),
    ("query_offset_missing", ResponseCode.QUERY_NOT_FOUND), ("route_unknown", ResponseCode.TOPIC_NOT_EXIST),
    ("unknown_code", ResponseCode.REQUEST_CODE_NOT_SUPPORTED), ("send_illegal_topic", ResponseCode.INVALID_PARAMETER),
])  # fmt: skip
def test_response_codes_of_java_are_decoded(name: str, code: ResponseCode) -> None:
    assert response(name).code == code


def test_a_batch_is_answered_with_a_list_of_ids() -> None:
    header = SendResponse.from_ext(response("send_batch").ext)
    assert len(header.msg_id.split(",")) == 3
