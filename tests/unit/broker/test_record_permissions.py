"""A user gets no record of a topic without permission, whatever topic the request names."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from rocketmq_py.broker.record_permissions import authorization
from rocketmq_py.broker.records.stored_record import read_stored
from rocketmq_py.broker.transaction.transactions import copy_of
from rocketmq_py.properties import decode_properties
from rocketmq_py.protocol.bodies.access import AclInfo, EntryInfo, PolicyInfo, UserInfo
from rocketmq_py.protocol.codes import RequestCode as Code, ResponseCode
from rocketmq_py.protocol.half_messages import encode_half_positions
from rocketmq_py.protocol.headers.base import Header
from rocketmq_py.protocol.headers.group import ConsumeMessageDirectly
from rocketmq_py.protocol.headers.pull import QueryMessage, ViewMessage
from rocketmq_py.protocol.headers.send import ConsumerSendMsgBack
from rocketmq_py.protocol.headers.transaction import EndTransaction, EndTransactions, ResumeCheckHalfMessage
from rocketmq_py.server.access.auth_dispatcher import AuthDispatcher
from rocketmq_py.server.access.conversion import user_of
from rocketmq_py.server.access.settings import AccessSettings
from rocketmq_py.server.requests.dispatcher import Dispatcher
from rocketmq_py.wire.command import ONEWAY_FLAG, Command
from rocketmq_py.wire.ids import offset_msg_id, parse_offset_msg_id
from rocketmq_py.wire.signing import Credentials
from tests.unit.broker.cold import cold_broker, thread
from tests.unit.broker.harness import Client, InProcess, broker
from tests.unit.broker.network import until
from tests.unit.broker.requests import send

ROOT = Credentials("root", "root-secret")
USER = Credentials("user", "user-secret")
COMMIT = 8
HALF = {"sys_flag": 4}


def access() -> AuthDispatcher:
    """Access control with a super user, and a user with all permissions on topic ``own`` and its group."""
    settings = AccessSettings.of({
        "authenticationEnabled": "true", "authorizationEnabled": "true",
        "initAuthenticationUser": json.dumps({"username": ROOT.access_key, "password": ROOT.secret_key}),
    })  # fmt: skip
    control = AuthDispatcher(settings, lambda: None, lambda _: None, "DefaultCluster")

    control.table.create_user(user_of(UserInfo(username=USER.access_key, password=USER.secret_key)))
    entries = [EntryInfo(resource=name, actions=["All"], decision="Allow") for name in ("Topic:own", "Group:g")]
    list(control.table.put_acl(f"User:{USER.access_key}", AclInfo(policies=[PolicyInfo(entries=entries)])))
    return control


@pytest.fixture
def guarded(tmp_path: Path) -> Iterator[InProcess]:
    with broker(tmp_path / "store", transaction_time_out=0) as running:
        guard(running)
        yield running


def guard(running: InProcess) -> None:
    """Let a broker authorize its requests."""
    services = running.services
    authorize = authorization(access(), services.record_permissions)
    running.dispatcher = Dispatcher(
        services.router(), after_read=services.store.commit_pending, on_hold=services.keep_hold, authorize=authorize
    )


@pytest.fixture
def client(guarded: InProcess) -> Client:
    return guarded.connect()


def ask(
    client: Client, code: Code, header: Header, body: bytes = b"", who: Credentials = USER, flag: int = 0
) -> Command:
    ext = who.signed({name: str(value) for name, value in header.to_ext().items()}, body)
    answers = client.read([Command(code, 1, flag=flag, ext=ext, body=body)])
    return answers[0] if answers else Command(-1, 1)


def store(client: Client, topic: str, body: bytes = b"secret", **more: object) -> tuple[str, int, int]:
    """Message id, commit log offset and queue offset of a new message."""
    answer = ask(client, Code.SEND_MESSAGE_V2, send(topic, **more), body, ROOT)  # type: ignore[arg-type]
    assert answer.code == 0, answer.remark
    return answer.ext["msgId"], parse_offset_msg_id(answer.ext["msgId"])[2], int(answer.ext["queueOffset"])


def half(client: Client, topic: str) -> tuple[str, int, int]:
    return store(client, topic, properties={"TRAN_MSG": "true", "PGROUP": "p", "UNIQ_KEY": "K"}, **HALF)


def test_nothing_is_authorized_without_access_control(running: InProcess) -> None:
    control = AuthDispatcher(AccessSettings.of({}), lambda: None, lambda _: None, "DefaultCluster")
    assert authorization(control, running.services.record_permissions) is None


@pytest.mark.parametrize("named", ["own", None])
def test_only_messages_of_the_user_s_topic_are_viewed(client: Client, named: str | None) -> None:
    _, own, _ = store(client, "own")
    _, other, _ = store(client, "other")
    assert ask(client, Code.VIEW_MESSAGE_BY_ID, ViewMessage(offset=own, topic=named)).code == 0
    refused = ask(client, Code.VIEW_MESSAGE_BY_ID, ViewMessage(offset=other, topic=named))
    assert (refused.code, refused.body) == (ResponseCode.NO_PERMISSION, b"")
    assert "other" not in (refused.remark or "")
    assert ask(client, Code.VIEW_MESSAGE_BY_ID, ViewMessage(offset=other, topic=named), who=ROOT).code == 0


def test_bytes_inside_a_body_are_no_record_of_the_user_s_topic(client: Client) -> None:
    _, first, _ = store(client, "own", b"model")
    model = ask(client, Code.VIEW_MESSAGE_BY_ID, ViewMessage(offset=first)).body
    forged = (len(model) + 4096).to_bytes(4, "big") + bytes(model[4:])
    _, outer, _ = store(client, "own", forged)
    store(client, "other", b"the secret")
    store(client, "other", b"x" * 8192)
    stored = ask(client, Code.VIEW_MESSAGE_BY_ID, ViewMessage(offset=outer), who=ROOT).body
    inside = outer + bytes(stored).index(forged)
    assert b"the secret" in ask(client, Code.VIEW_MESSAGE_BY_ID, ViewMessage(offset=inside), who=ROOT).body
    assert ask(client, Code.VIEW_MESSAGE_BY_ID, ViewMessage(offset=inside)).code == ResponseCode.NO_PERMISSION


def test_only_messages_of_the_user_s_topic_are_sent_back(client: Client) -> None:
    _, own, _ = store(client, "own")
    _, other, _ = store(client, "other")
    assert ask(client, Code.CONSUMER_SEND_MSG_BACK, ConsumerSendMsgBack(offset=own, group="g", delay_level=1)).code == 0
    refused = ask(client, Code.CONSUMER_SEND_MSG_BACK, ConsumerSendMsgBack(offset=other, group="g", delay_level=1))
    assert refused.code == ResponseCode.NO_PERMISSION


def test_a_retried_message_may_be_sent_back_again(client: Client) -> None:
    retry = "%RETRY%g"
    _, place, _ = store(client, retry)
    answer = ask(client, Code.CONSUMER_SEND_MSG_BACK, ConsumerSendMsgBack(offset=place, group="g", delay_level=1))
    assert answer.code == 0


def test_only_messages_of_the_user_s_topic_are_consumed_directly(client: Client) -> None:
    msg_id, _, _ = store(client, "other")
    header = ConsumeMessageDirectly(consumer_group="g", client_id="c", msg_id=msg_id, topic="own", broker_name="b")
    assert ask(client, Code.CONSUME_MESSAGE_DIRECTLY, header).code == ResponseCode.NO_PERMISSION


def end(place: int, offset: int, topic: str | None) -> EndTransaction:
    return EndTransaction(
        producer_group="p", tran_state_table_offset=offset, commit_log_offset=place, commit_or_rollback=COMMIT,
        msg_id="", topic=topic,
    )  # fmt: skip


@pytest.mark.parametrize("named", ["own", None])
@pytest.mark.parametrize("flag", [0, ONEWAY_FLAG])
def test_only_transactions_of_the_user_s_topic_end(
    guarded: InProcess, client: Client, named: str | None, flag: int
) -> None:
    _, place, offset = half(client, "other")
    ask(client, Code.END_TRANSACTION, end(place, offset, named), flag=flag)
    guarded.turn()
    assert guarded.services.store.queue_range("other", 0) == (0, 0)
    _, place, offset = half(client, "own")
    ask(client, Code.END_TRANSACTION, end(place, offset, named), flag=flag)
    guarded.turn()
    assert guarded.services.store.queue_range("own", 0) == (0, 1)


def test_only_transactions_of_the_user_s_topic_end_together(guarded: InProcess, client: Client) -> None:
    own, other = half(client, "own"), half(client, "other")
    header = EndTransactions(producer_group="p", commit_or_rollback=COMMIT, topic="own")
    both = encode_half_positions([own[1], other[1]], [own[2], other[2]])
    assert ask(client, Code.END_TRANSACTIONS, header, both).code == ResponseCode.NO_PERMISSION
    assert guarded.services.store.queue_range("own", 0) == (0, 0)
    assert ask(client, Code.END_TRANSACTIONS, header, encode_half_positions([own[1]], [own[2]])).body == b"\1"


def test_a_request_ends_a_bounded_number_of_transactions(client: Client) -> None:
    header = EndTransactions(producer_group="p", commit_or_rollback=COMMIT, topic="own")
    many = [0] * 2_048
    allowed = ask(client, Code.END_TRANSACTIONS, header, encode_half_positions(many, many), ROOT)
    assert allowed.code == ResponseCode.SUCCESS
    many.append(0)
    refused = ask(client, Code.END_TRANSACTIONS, header, encode_half_positions(many, many), ROOT)
    assert refused.code == ResponseCode.INVALID_PARAMETER
    assert "at most 2048" in (refused.remark or "")


@pytest.mark.parametrize("named", ["own", None])
def test_only_checks_of_the_user_s_topic_are_resumed(guarded: InProcess, client: Client, named: str | None) -> None:
    half(client, "other")
    half(client, "own")
    ids = {}
    for topic in ("other", "own"):
        [raw] = [raw for raw in records(guarded) if topic.encode() in raw]
        ids[topic] = give_up(guarded, raw)
    refused = ask(client, Code.RESUME_CHECK_HALF_MESSAGE, ResumeCheckHalfMessage(msg_id=ids["other"], topic=named))
    assert refused.code == ResponseCode.NO_PERMISSION
    allowed = ask(client, Code.RESUME_CHECK_HALF_MESSAGE, ResumeCheckHalfMessage(msg_id=ids["own"], topic=named))
    assert allowed.code == 0


def records(running: InProcess) -> list[bytes]:
    store = running.services.store
    found = (store.record_at_queue("RMQ_SYS_TRANS_HALF_TOPIC", 0, offset) for offset in range(2))
    return [raw for raw in found if raw is not None]


def give_up(running: InProcess, raw: bytes) -> str:
    """The message id of a half message stored as one whose checks were given up."""

    stored = read_stored(raw)
    record = copy_of(stored, decode_properties(stored.properties), "TRANS_CHECK_MAX_TIME_TOPIC", 0)
    appended = running.services.store.append(record)
    running.services.store.commit_pending()
    return offset_msg_id(stored.head.store_host, appended.physical_offset)


def test_a_search_by_key_finds_no_messages_of_another_topic_with_the_same_hash(client: Client) -> None:
    # Java's hash codes of "Aa#k" and "BB#k" are equal.
    store(client, "Aa", properties={"KEYS": "k"})
    store(client, "BB", b"mine", properties={"KEYS": "k"})
    header = QueryMessage(topic="BB", key="k", max_num=32, begin_timestamp=0, end_timestamp=2**62)
    found = ask(client, Code.QUERY_MESSAGE, header, who=ROOT)
    assert found.code == 0
    assert b"mine" in found.body
    assert b"secret" not in found.body


@pytest.mark.parametrize(("topic", "code"), [("own", 0), ("other", ResponseCode.NO_PERMISSION)])
async def test_records_on_disk_are_read_in_a_thread(tmp_path: Path, topic: str, code: int) -> None:
    places: list[int] = []

    def fill(running: InProcess) -> None:
        guard(running)
        places.append(store(running.connect(), topic)[1])

    with cold_broker(tmp_path / "store", fill, by_hand=["read-tables"]) as (running, fs):
        guard(running)
        client, reader = running.connect(), thread(running, "read-tables")
        header = ViewMessage(offset=places[0], topic="own")
        assert ask(client, Code.VIEW_MESSAGE_BY_ID, header).code == -1, "it waits for the disk"
        assert fs.cold_reads == []

        def is_answered() -> bool:
            if reader.work:
                reader.finish()
            running.run_callbacks()
            return bool(client.heard)

        await until(is_answered)
        assert client.heard.pop().code == code
        assert fs.cold_reads == []
