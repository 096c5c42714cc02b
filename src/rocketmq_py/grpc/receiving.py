"""ReceiveMessage, AckMessage, ChangeInvisibleDuration and ForwardMessageToDeadLetterQueue, over POP."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable

from rocketmq_py.core.access.permissions import Action
from rocketmq_py.core.grpc.settings import backoff_of
from rocketmq_py.core.grpc.waiting import RENEWED_INVISIBLE_MS, check_invisible, polling_ms
from rocketmq_py.core.pop.receipts import PoppedMessage
from rocketmq_py.errors import BadHeader, BrokerError, CorruptRecord
from rocketmq_py.grpc.cluster import Access, Groups
from rocketmq_py.grpc.popped import Popped, PoppedAnswers, Wanted, encoded
from rocketmq_py.grpc.receipts import MOST_DISTANCE, Receipt, RenewedReceipts, acks_of
from rocketmq_py.grpc.replies import common_status, group_name, status_of, topic_name
from rocketmq_py.grpc.requests import Inner, Requests
from rocketmq_py.grpc.sessions import NO_SETTINGS, Session, Sessions, TelemetryPeer
from rocketmq_py.properties import Property
from rocketmq_py.protocol.codes import RequestCode, ResponseCode
from rocketmq_py.protocol.grpc.definition import FilterExpression, MessageQueue, Settings, Status, Timestamp
from rocketmq_py.protocol.grpc.enums import ClientType, Code, FilterType
from rocketmq_py.protocol.grpc.refusal import OK, CallRefused
from rocketmq_py.protocol.grpc.service import (
    AckMessageEntry,
    AckMessageRequest,
    AckMessageResponse,
    AckMessageResultEntry,
    ChangeInvisibleDurationRequest,
    ChangeInvisibleDurationResponse,
    ForwardMessageToDeadLetterQueueRequest,
    ReceiveMessageRequest,
    ReceiveMessageResponse,
    StatusResponse,
)
from rocketmq_py.protocol.headers.pop import ALL_QUEUES, AckMessage, PopMessage
from rocketmq_py.protocol.headers.send import ConsumerSendMsgBack
from rocketmq_py.protocol.pop_handle import ExtraInfo, InitMode
from rocketmq_py.server.grpc.call import Call
from rocketmq_py.server.peer import Peer
from rocketmq_py.server.reply import Reply

_log = logging.getLogger(__name__)

MAX_BATCH = 32
_SUB = (Action.SUB,)
_NOTHING = Status(code=Code.MESSAGE_NOT_FOUND, message="no new message")
_NO_MESSAGES = (ResponseCode.POLLING_TIMEOUT, ResponseCode.PULL_NOT_FOUND)
_TYPES = {FilterType.SQL: "SQL92"}


_MOST_UNANNOUNCED = 10_000
"""Maximum number of clients for whose settings no call waits any more."""


class Receiving:
    """Pops messages for calls, and acknowledges them.

    :param answers: encodes popped messages.
    :param check_ack: raises BrokerError if the message of an ack does not exist; None if that cannot be known before.
    :param clock: returns the time in milliseconds since the epoch.
    """

    def __init__(
        self, requests: Requests, access: Access, sessions: Sessions, groups: Groups, receipts: RenewedReceipts,
        answers: PoppedAnswers, check_ack: Callable[[Peer, AckMessage], None] | None, clock: Callable[[], int],
    ) -> None:  # fmt: skip
        self._requests = requests
        self._access = access
        self._sessions = sessions
        self._groups = groups
        self._receipts = receipts
        self._answers = answers
        self._check_ack = check_ack
        self._clock = clock
        self._unannounced: set[str] = set()

    # -- receiving

    def receive(self, call: Call, request: ReceiveMessageRequest) -> None:
        """Send messages, or wait for them."""
        group = group_name(request.group)
        queue = request.message_queue or MessageQueue()
        topic = topic_name(queue.topic)
        self._access.check(call, RequestCode.POP_MESSAGE, _SUB, topic=topic, group=group)
        client_id = call.header(b"x-mq-client-id")
        session = self._sessions.find(client_id)
        if session is None and client_id not in self._unannounced:
            self._sessions.wait(client_id, lambda: self._receive_late(call, request, (topic, group, queue.id)))
            return
        session = session or self._without_settings(call, request, group)
        self._receive(call, request, session, (topic, group, queue.id))

    def _receive_late(self, call: Call, request: ReceiveMessageRequest, place: tuple[str, str, int]) -> None:
        """Receive for a client whose settings had not arrived when it called."""
        if not call.is_open:
            return
        session = self._sessions.find(call.header(b"x-mq-client-id"))
        try:
            session = session or self._without_settings(call, request, place[1])
            self._receive(call, request, session, place)
        except CallRefused as e:
            call.answer(StatusResponse(status=e.status()).encode())

    def _without_settings(self, call: Call, request: ReceiveMessageRequest, group: str) -> Session:
        """Return a session with the settings of a group, for a client that has sent none.

        After a restart of the broker a client may send them again after minutes only, Apache's for Python after five.

        :raises CallRefused: its receipts are to be renewed, for which it needs a telemetry stream.
        """
        if request.auto_renew:
            raise CallRefused(Code.UNRECOGNIZED_CLIENT_TYPE, NO_SETTINGS)
        config = self._groups.find(group)
        policy = None if config is None else backoff_of(config)
        settings = Settings(client_type=ClientType.SIMPLE_CONSUMER, backoff_policy=policy)
        client_id = call.header(b"x-mq-client-id")
        if len(self._unannounced) >= _MOST_UNANNOUNCED:
            self._unannounced.clear()
        self._unannounced.add(client_id)
        return Session(client_id, settings, TelemetryPeer(call), "", self._clock(), group)

    def _receive(
        self, call: Call, request: ReceiveMessageRequest, session: Session, place: tuple[str, str, int]
    ) -> None:
        if request.auto_renew and not session.is_connected:
            raise CallRefused(Code.MESSAGE_NOT_FOUND, "the client has no telemetry stream")
        header = self._header(call, request, session, place)
        broker = self._requests.broker_of(request.message_queue or MessageQueue())
        pop = Inner(RequestCode.POP_MESSAGE, header, broker=broker)
        self._requests.run(call, pop, lambda reply: self._popped(call, request, session, pop, reply))

    def _header(
        self, call: Call, request: ReceiveMessageRequest, session: Session, place: tuple[str, str, int]
    ) -> PopMessage:
        topic, group, queue_id = place
        now = self._clock()
        left = call.seconds_left()
        timeout = session.settings.request_timeout
        wait = polling_ms(
            None if request.long_polling_timeout is None else request.long_polling_timeout.ms,
            None if left is None else int(left * 1000), 0 if timeout is None else timeout.ms,
            call.header(b"x-mq-client-version"),
        )  # fmt: skip
        invisible = RENEWED_INVISIBLE_MS
        if not request.auto_renew:
            invisible = check_invisible(request.invisible_duration.ms if request.invisible_duration is not None else 0)
        config = self._groups.find(group)
        is_orderly = config is not None and config.consume_message_orderly
        wanted = request.filter_expression or FilterExpression()
        return PopMessage(
            consumer_group=group, topic=topic, queue_id=queue_id if is_orderly else ALL_QUEUES,
            max_msg_nums=min(max(request.batch_size, 1), MAX_BATCH),
            invisible_time=invisible, poll_time=wait, init_mode=InitMode.MAX, born_time=now,
            exp_type=_TYPES.get(wanted.type, "TAG"), exp=wanted.expression or "*",  # type: ignore[call-overload]
            order=is_orderly, attempt_id=request.attempt_id,
        )  # fmt: skip

    def _popped(self, call: Call, request: ReceiveMessageRequest, session: Session, pop: Inner, reply: Reply) -> None:
        header: PopMessage = pop.header
        if reply.code != ResponseCode.SUCCESS:
            status = _NOTHING if reply.code in _NO_MESSAGES else status_of(reply)
            call.answer_many([ReceiveMessageResponse(status=status).encode()])
            return
        policy = session.settings.backoff_policy
        wanted = Wanted(_wanted_tags(header), 0 if policy is None else policy.max_attempts)
        takes_receipts = request.auto_renew or not call.is_open
        try:
            popped = self._answers.read(pop, reply, wanted, receipts=takes_receipts)
        except (BadHeader, CorruptRecord) as e:
            _log.error("messages of %s popped by %s are damaged: %s", header.topic, header.consumer_group, e)
            text = f"the messages are damaged: {e}"
            call.answer_many([_status_only(Status(code=Code.INTERNAL_SERVER_ERROR, message=text))])
            return
        messages = self._messages(session, header, popped, wanted, takes_receipts=takes_receipts)
        if not call.is_open:
            self._give_back(session, header, popped.receipts.values())
            return
        for handle, receipt in popped.receipts.items():
            self._receipts.add(session, header.consumer_group, header.topic, handle, receipt)
        end = ReceiveMessageResponse(delivery_timestamp=Timestamp.of_ms(self._clock())).encode()
        call.answer_many([_OK if messages else _status_only(_NOTHING), *messages, end])

    def _messages(
        self, session: Session, header: PopMessage, popped: Popped, wanted: Wanted, *, takes_receipts: bool
    ) -> list[bytes]:
        """Return the encoded messages for the client; with ``takes_receipts``, ``popped`` has all receipts then."""
        messages = []
        for one in popped.items:
            if isinstance(one, bytes):
                messages.append(one)
            elif self._is_wanted(session, header, one, wanted):
                message, handle = encoded(one, header)
                messages.append(message)
                if takes_receipts:
                    popped.receipts[handle] = Receipt.parse(handle)
        return messages

    def _give_back(self, session: Session, header: PopMessage, receipts: Iterable[Receipt]) -> None:
        """Make messages visible soon whose client has ended the call meanwhile."""
        for receipt in receipts:
            self._receipts.give_back(session, header.consumer_group, header.topic, receipt)

    def _is_wanted(self, session: Session, header: PopMessage, one: PoppedMessage, wanted: Wanted) -> bool:
        """Return whether the client gets a message; acknowledge one of another tag, and one with too many attempts."""
        if not wanted.has_tag(one.message):
            self._ack_alone(session, header, Receipt.of(one.receipt, one.message))
            return False
        if not wanted.has_attempts(one.message):
            receipt = Receipt.of(one.receipt, one.message)
            back = _dead(header.consumer_group, header.topic, receipt, one.message.properties.get(Property.UNIQUE_KEY))

            def dead(reply: Reply) -> None:
                if reply.code == ResponseCode.SUCCESS:
                    self._ack_alone(session, header, receipt)

            self._requests.run_alone(session.peer, back, dead)
            return False
        return True

    def _ack_alone(self, session: Session, header: PopMessage, receipt: Receipt) -> None:
        def done(reply: Reply) -> None:
            if reply.code != ResponseCode.SUCCESS:
                _log.warning("a message nobody gets was not acknowledged: %s", reply.remark)

        self._requests.run_alone(session.peer, receipt.ack(header.topic, header.consumer_group), done)

    # -- acknowledging

    def ack(self, call: Call, request: AckMessageRequest) -> None:
        """Acknowledge messages, each with a status of its own."""
        group, topic = group_name(request.group), topic_name(request.topic)
        self._access.check(call, RequestCode.ACK_MESSAGE, _SUB, topic=topic, group=group)
        entries = request.entries
        statuses = [OK] * len(entries)
        pops: dict[ExtraInfo, list[tuple[int, Receipt]]] = {}
        for place, entry in enumerate(entries):
            try:
                receipt = self._receipt(call, entry.receipt_handle, group)
                pops.setdefault(receipt.info._replace(offset=None), []).append((place, receipt))
            except CallRefused as e:
                statuses[place] = e.status()
        acks = [ack for pop, acked in pops.items() for ack in self._acks(call, topic, group, pop, acked, statuses)]
        if not acks:
            self._acked(call, entries, statuses, [], [])
            return
        places = [places for places, _ in acks]
        inners = [inner for _, inner in acks]
        self._requests.run_all(call, inners, lambda replies: self._acked(call, entries, statuses, places, replies))

    def _acks(
        self, call: Call, topic: str, group: str, pop: ExtraInfo, acked: list[tuple[int, Receipt]],
        statuses: list[Status],
    ) -> list[tuple[list[int], Inner]]:  # fmt: skip
        """Return the requests that acknowledge messages of a pop, with the places of their entries.

        Each entry has a status of its own. So messages are checked one by one before they are acknowledged together;
        ``statuses`` gets what is wrong with one.
        """
        alone: list[tuple[list[int], Inner]] = []
        good: list[tuple[int, Receipt]] = []
        for place, receipt in acked:
            inner = receipt.ack(topic, group)
            if self._check_ack is None or len(acked) == 1 or not _is_near(pop, receipt):
                alone.append(([place], inner))
                continue
            try:
                self._check_ack(call.peer, inner.header)
                good.append((place, receipt))
            except BrokerError as e:
                statuses[place] = status_of(Reply(e.code, e.remark))
        if not good:
            return alone
        together = acks_of(pop, [receipt.info.offset or 0 for _, receipt in good], topic, group)
        return [*alone, ([place for place, _ in good], together)]

    def _acked(
        self, call: Call, entries: list[AckMessageEntry], statuses: list[Status], places: list[list[int]],
        replies: list[Reply],
    ) -> None:  # fmt: skip
        for answered, reply in zip(places, replies, strict=True):
            for place in answered:
                status = statuses[place] = status_of(reply)
                if status.code == Code.OK:
                    self._receipts.remove(entries[place].receipt_handle)
        done = [_entry(entry, status) for entry, status in zip(entries, statuses, strict=True)]
        status = common_status(statuses) if statuses else Status(code=Code.BAD_REQUEST, message="no entries")
        call.answer(AckMessageResponse(status=status, entries=done).encode())

    def _receipt(self, call: Call, handle: str, group: str) -> Receipt:
        """Return the newest receipt of a message, given one of its receipts.

        :raises CallRefused: it is unreadable, of another broker, or its time is over.
        """
        receipt = self._receipts.newest(handle, call.header(b"x-mq-client-id"), group) or Receipt.parse(handle)
        if not self._requests.is_here(receipt.info.broker_name):
            text = f"the receipt handle is of broker {receipt.info.broker_name}, {self._requests.here}"
            raise CallRefused(Code.INVALID_RECEIPT_HANDLE, text)
        if receipt.visible_at_ms < self._clock():
            raise CallRefused(Code.INVALID_RECEIPT_HANDLE, "receipt handle is expired")
        return receipt

    def change_invisible(self, call: Call, request: ChangeInvisibleDurationRequest) -> None:
        """Make a message invisible for another time; the response has its new handle."""
        group, topic = group_name(request.group), topic_name(request.topic)
        self._access.check(call, RequestCode.CHANGE_MESSAGE_INVISIBLETIME, _SUB, group=group)
        receipt = self._receipt(call, request.receipt_handle, group)
        duration = request.invisible_duration
        inner = receipt.change(topic, group, check_invisible(0 if duration is None else duration.ms, 0))

        def answer(reply: Reply) -> None:
            status = status_of(reply)
            handle = ""
            if status.code == Code.OK:
                self._receipts.remove(request.receipt_handle)
                handle = receipt.changed(reply).text
            elif status.code == Code.TOO_MANY_REQUESTS:
                handle = request.receipt_handle
            elif reply.code == ResponseCode.NO_MESSAGE:
                status = Status(code=Code.INVALID_RECEIPT_HANDLE, message=status.message)
            call.answer(ChangeInvisibleDurationResponse(status=status, receipt_handle=handle).encode())

        self._requests.run(call, inner, answer)

    def forward(self, call: Call, request: ForwardMessageToDeadLetterQueueRequest) -> None:
        """Move a message to the dead-letter topic of its group, and acknowledge it."""
        group, topic = group_name(request.group), topic_name(request.topic)
        self._access.check(call, RequestCode.CONSUMER_SEND_MSG_BACK, _SUB, topic=topic, group=group)
        receipt = self._receipt(call, request.receipt_handle, group)
        back = _dead(group, topic, receipt, request.message_id)

        def acked(reply: Reply) -> None:
            self._receipts.remove(request.receipt_handle)
            call.answer(StatusResponse(status=status_of(reply)).encode())

        def stored(reply: Reply) -> None:
            if reply.code == ResponseCode.SUCCESS:
                self._requests.run(call, receipt.ack(topic, group), acked)
            else:
                call.answer(StatusResponse(status=status_of(reply)).encode())

        self._access.check_record(call, back, lambda: self._requests.run(call, back, stored))


def _is_near(pop: ExtraInfo, receipt: Receipt) -> bool:
    """Return whether a message of a pop can be acknowledged by one request with others.

    Not those of an orderly pop, whose acks can fail one by one, and not with handles that no broker has given.
    """
    numbers = (pop.start_offset, pop.pop_time, pop.invisible_ms, pop.revive_queue, pop.queue_id)
    if pop.is_order or not all(0 <= number < 1 << 62 for number in numbers):
        return False
    if pop.revive_queue >= 1 << 31 or pop.queue_id >= 1 << 31:
        return False
    return 0 <= (receipt.info.offset or 0) - pop.start_offset < MOST_DISTANCE


def _wanted_tags(header: PopMessage) -> frozenset[str] | None:
    """Return the tags that a client receives; None if it receives all."""
    tags = frozenset(tag.strip() for tag in (header.exp or "*").split("||"))
    return None if header.exp_type != "TAG" or "*" in tags else tags


def _status_only(status: Status) -> bytes:
    return ReceiveMessageResponse(status=status).encode()


_OK = _status_only(OK)


def _entry(entry: AckMessageEntry, status: Status) -> AckMessageResultEntry:
    return AckMessageResultEntry(message_id=entry.message_id, receipt_handle=entry.receipt_handle, status=status)


def _dead(group: str, topic: str, receipt: Receipt, message_id: str | None) -> Inner:
    """Return the request that stores a message as a dead letter."""
    header = ConsumerSendMsgBack(
        offset=receipt.physical_offset, group=group, delay_level=-1, origin_msg_id=message_id, origin_topic=topic,
        max_reconsume_times=0,
    )  # fmt: skip
    return Inner(RequestCode.CONSUMER_SEND_MSG_BACK, header, broker=receipt.info.broker_name)
