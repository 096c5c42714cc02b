"""Loads and declares the accelerator: compiled code for hot paths, from the optional package ``rocketmq-py-native``.

Each of its functions gives the same result as Python code of this package, or returns None for unusual input, which the
Python code then handles. ``ROCKETMQ_PY_NATIVE=0`` in the environment turns it off.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any, Protocol

FORMAT = 15
"""Version of the accelerator's interface (arguments and results) that this package needs."""

VARIABLE = "ROCKETMQ_PY_NATIVE"
"""The environment variable that turns the accelerator off if its value is 0."""

_log = logging.getLogger(__name__)

Wanted = tuple[list[bytes], int, int]
"""A range of a queue: the bodies of its pull responses in order, the offset of the first record wanted, and the offset
after the last one."""

Columns = tuple[list[int], tuple[Any, ...]]
"""The number of rows of each range, and the buffers of each column; no buffers if there are no rows."""


class RunAnswers(Protocol):
    """Responses to the sends that one :meth:`SendRun.append` stored."""

    def opaques(self) -> list[int]:
        """Return the opaque of each request to answer; one-way sends are left out."""
        ...

    def encode(self, pieces: Sequence[bytes], host: bytes, /) -> bytes:
        """Return the frames of all responses, one after the other.

        :param pieces: the six constant parts of a response's JSON header; opaque, message id, queue id, queue offset
            and unique key of each send are inserted between them.
        :param host: hexadecimal digits of the store host; a message id is these and the commit log offset.
        """
        ...

    def messages(self, status: bytes, /) -> list[bytes]:
        """Return the responses for gRPC, in the order of :meth:`opaques`: SendMessageResponse messages of one entry.

        :param status: the status of each response and entry, encoded as a field.
        """
        ...


SendKind = tuple[str, int, int, str, str]
"""The fields of a send by which it is checked and routed to a queue: topic, queue id, sysFlag, the properties that
decide about it (unique key, keys and those of applications do not), and the access key of its signature ("" for none).
Sends with equal fields are of one kind.
"""

RunTarget = tuple[int, int, int, int, tuple[bytes, bytes, bytes] | None]
"""How to store the sends of a kind: index of the queue in the list of queues, sysFlag, tags code, the queue id of the
answers, and for half messages encoded properties to append to all others: the parts before and after the unique key,
which is repeated there, and the later place; None for other messages.
"""

StoredHalf = tuple[tuple[int, int, int], tuple[bytes, bytes, str, str | None], tuple[int, int, int]]
"""A half message that was stored: index of its kind, commit log offset, queue offset; body, properties without the
later place, unique key and keys; flag, born timestamp and reconsume times.
"""

RunQueue = tuple[int, int, bytes, int, int]
"""A queue to append to: queue id, magic and length-prefixed topic of its records, queue offset of the next message, and
hash of ``topic#`` for index keys.
"""


PlainMessage = tuple[tuple[Any, ...], str, bytes, bytes, str]
"""The arguments of :class:`~rocketmq_py.model.MessageExt`."""

AppendedRun = tuple[int, bytes, list[list[int]], bytes, RunAnswers, list[StoredHalf]]
"""Result of :meth:`SendRun.append`, which describes its six items."""


class SendRun(Protocol):
    """Consecutive send requests from one read of a socket, which can be stored together.

    All are SEND_MESSAGE_V2 requests for one message with a unique key, and their headers have a simple form: no
    duplicate member names, no unusual escapes. The length of the run is the number of its sends.
    """

    def __len__(self) -> int: ...

    def kinds(self) -> list[SendKind]:
        """Return the distinct kinds of the sends, in the order of their first send."""
        ...

    def kind(self, number: int, /) -> SendKind:
        """Return one of :meth:`kinds`."""
        ...

    def verified(self, keys: Sequence[bytes | None], /) -> SendRun:
        """Return a copy of the run in which :meth:`append` stops before each send whose signature is not valid.

        :param keys: for each of :meth:`kinds`, the secret key of its signatures; None refuses all sends of the kind.
        """
        ...

    def frame(self, number: int, /) -> tuple[int, bytes, bytes]:
        """Return serialize type, header and body of the frame of one send.

        :param number: index of the send in the run.
        """
        ...

    def append(
        self,
        begin: int,
        targets: Sequence[RunTarget | None],
        queues: Sequence[RunQueue],
        hosts: tuple[bytes, bytes],
        suffix: bytes,
        place: tuple[int, int, int],
        limits: tuple[int, int],
        /,
    ) -> AppendedRun | None:
        """Encode the records of consecutive sends, up to the first that has no target, breaks a limit or does not fit.

        :param begin: index of the first send.
        :param targets: how to store the sends of each kind, in the order of :meth:`kinds`; None stops before such a
            send.
        :param queues: the queues to which ``targets`` refer.
        :param hosts: born host and store host, packed, 8 or 20 bytes each.
        :param suffix: encoded properties to append to those of each message.
        :param place: store timestamp in milliseconds, commit log offset of the first record, bytes free there.
        :param limits: maximum bytes of a body (an empty one is refused, too) and of properties.
        :returns: index after the last encoded send; the records; for each queue, a flat list of commit log offset, size
            and tags code of each record; the packed index keys, see :meth:`Accelerator.pack_keys`; the responses; the
            half messages. None if no send was encoded.
        """
        ...


MissingKind = tuple[int, int | None]
"""A kind of a run that cannot be appended to: its number; the place of its queue, which is not lent, if it is known."""

LentArrival = tuple[int, int, int, list[int]]
"""What a queue got: its place, the offset of the first message and that after the last one, and a flat list of commit
log offset, size and tags code of each."""


class SendQueues(Protocol):
    """Queues that are lent to the accelerator, which appends runs to them without looking at objects of Python.

    Whoever owns a queue gives it a place here, lends it, and asks for the entries that it got. A send then touches a
    few lines of the processor's cache, however many queues there are.
    """

    def add(self, queue_id: int, magic: int, topic_part: bytes, key_hash: int, /) -> int:
        """Return a place for a queue; the arguments are those of :data:`RunQueue`. It is not lent yet."""
        ...

    def lend(self, place: int, next_offset: int, /) -> None:
        """Lend the queue of a place.

        :param next_offset: queue offset of the next message.
        """
        ...

    def bring(self, place: int, /) -> bytes:
        """Return the readable entries of a queue, as a consume queue has them, and remove them; it stays lent."""
        ...

    def take(self, place: int, /) -> tuple[bytes, list[int]]:
        """End the lending; return the readable entries, and a flat list of those not committed."""
        ...

    def retire(self, place: int, /) -> None:
        """Give up the place of a queue that is not lent. All kinds that go there become unknown."""
        ...

    def learn(self, run: SendRun, number: int, place: int, sys_flag: int, tags_code: int, /) -> None:
        """Note what the messages of a kind become.

        :param number: the number of the kind in the run.
        :param place: the place of a queue with topic and queue id of the kind.
        """
        ...

    def forget(self) -> None:
        """Forget all kinds."""
        ...

    def append(
        self,
        run: SendRun,
        begin: int,
        hosts: tuple[bytes, bytes],
        suffix: bytes,
        place: tuple[int, int, int],
        limits: tuple[int, int],
        /,
    ) -> tuple[int, bytes, bytes, RunAnswers] | list[MissingKind] | None:
        """As :meth:`SendRun.append`, to the lent queues of the kinds that are known.

        :returns: items as of :meth:`SendRun.append`, of which entries and half messages are left out; or, if sends from
            ``begin`` on are of kinds that are unknown or whose queues are not lent, a list of these; nothing is
            appended then.
        """
        ...

    def commit(self, tells: bool, /) -> tuple[int, list[int], list[LentArrival]]:
        """Make all entries readable.

        :param tells: whether to return what each queue got; that is not counted then.
        :returns: number of messages; places of queues with 16 KiB of entries; what each queue got, or nothing.
        """
        ...

    def counted(self) -> tuple[int, list[tuple[str, int, int, int]]]:
        """Return what was appended since the last call: the number of commits; topic, messages, bytes and commits of
        each topic.
        """
        ...


CallTarget = tuple[bytes, int, tuple[bytes, bytes, bytes], int, int]
"""What requests of a kind become, see :meth:`CallSends.run`: topic; sysFlag; encoded properties before keys and unique
key, between these and the time of birth, and after it; queue id; number of queues, 0 if all go to the one of that id.
"""


class CallSends(Protocol):
    """Requests of gRPC that send messages, read as far as they are plain.

    A plain request has one message with body, id and time of birth, and no field twice. Requests are of one kind if
    they differ in nothing but these, keys and digest of the body.
    """

    def kinds_of(self) -> list[int | None]:
        """Return the number of the kind of each request; None for requests that are not plain."""
        ...

    def kinds(self) -> list[bytes]:
        """Return the distinct kinds, in the order of their first request; only their equality means something."""
        ...

    def run(self, numbers: Sequence[int], targets: Sequence[CallTarget | None], turn: int, /) -> SendRun:
        """Return requests as a run of sends, whose opaques are their numbers in the run.

        :param numbers: the requests, in the order of their sends; their kinds have targets.
        :param targets: what the requests of each of :meth:`kinds` become.
        :param turn: decides the queue of the first send; those of the others follow in turn.
        """
        ...


PopParts = tuple[bytes, list[tuple[int, int]], bytes, int]
"""What messages of a pop have in common: topic; queue ids and the first offset of the pop in each; the words of receipt
handles between this offset and the queue id, with blanks around them; milliseconds for which they are invisible."""

PopPlace = tuple[str, int, int, int, int]
"""A popped message: its receipt handle; first offset of its pop, queue id, queue offset, commit log offset."""


class PoppedMessages(Protocol):
    """Encodes stored records as ReceiveMessageResponse messages of gRPC, as far as they are plain.

    A plain record is of the popped topic. It is neither compressed nor an inner batch, and has a unique key, IPv4
    hosts, and no name of properties twice.
    """

    def responses(
        self, body: bytes, begin: int, pop: PopParts, tags: list[bytes] | None, most_attempts: int, places: bool, /
    ) -> tuple[list[bytes], int, list[PopPlace]]:
        """Encode the plain records at a position of the body of a pop response.

        :param begin: the position.
        :param tags: a plain record has one of these tags; None for any.
        :param most_attempts: a plain record was delivered less often before; 0 for no limit.
        :param places: whether to return the places, too.
        :returns: the responses; the position after their records; the place of each, or no places.
        """
        ...


AckedPop = tuple[tuple[int, int, int, int, str, str, int], list[int], list[int]]
"""Entries of an acknowledgement that are of one pop: the fields of ExtraInfo without the offset; the queue offsets; the
numbers of the entries."""


PopKey = tuple[str, str, int, int, int, str]
"""What :class:`rocketmq_py.protocol.pop_checkpoint.CkKey` has."""


class CallAck(Protocol):
    """A plain request of gRPC that acknowledges messages.

    Its handles are of pops that are not orderly, and near the first message of their pop.
    """

    @property
    def group(self) -> str: ...
    @property
    def topic(self) -> str: ...
    @property
    def pops(self) -> list[AckedPop]: ...

    def handles(self) -> list[str]:
        """Return the handle of each entry."""
        ...

    def answer(self, status: bytes, statuses: list[bytes] | None, /) -> bytes:
        """Return the AckMessageResponse.

        :param status: the encoded status of the whole.
        :param statuses: that of each entry; None if all have that of the whole.
        """
        ...


class HeaderDecoder(Protocol):
    """Decodes the header blocks of one connection."""

    def decode(self, block: bytes, /) -> list[tuple[bytes, bytes]] | int | None:
        """Return the headers of a block; the size of a list that is too large; None if the block is malformed."""
        ...


Telling = Any
"""The properties by which sends are told apart, made by :meth:`Accelerator.TellingProperties`."""


class HeaderTables(Protocol):
    """What all decoders of header blocks know."""

    def decoder(self, max_list: int, /) -> HeaderDecoder:
        """Return a decoder for a new connection, like :class:`rocketmq_py.wire.http2.hpack.HpackDecoder`."""
        ...


class Signer(Protocol):
    """A secret prepared for many signatures."""

    def sign(self, content: bytes, body: bytes, /) -> bytes:
        """As :meth:`rocketmq_py.wire.signing.SigningKey.sign`."""
        ...


class Accelerator(Protocol):
    """The functions of ``rocketmq_py_native``."""

    @property
    def FORMAT(self) -> int: ...  # noqa: N802 - a constant

    def SendQueues(self) -> SendQueues:  # noqa: N802 - a class
        """Return a table of queues, without any."""
        ...

    def decode(self, ranges: list[Wanted], columns: tuple[str, ...], check_crc: bool, /) -> Columns | None:
        """Decode stored messages of ranges of queues to the buffers of Arrow columns.

        :param columns: names of columns, of those in ``rocketmq_py.arrow.decode``.
        :param check_crc: whether to compare each body with its stored checksum.
        :returns: None for records that the Python code must decode: compressed bodies, inner batches, several topics,
            text that is not UTF-8, inconsistent lengths, wrong checksums.
        """
        ...

    def plain_messages(
        self, body: bytes, origin: tuple[str, int, int, int] | None, reads: bool, check_crc: bool, broker_name: str, /
    ) -> tuple[list[PlainMessage], int]:
        """Decode the plain records at the beginning of the body of a pull response.

        Decoding stops before the first record that is compressed or an inner batch, has inconsistent lengths, or is not
        of ``origin``.

        :param origin: topic, queue id, lowest queue offset and the offset after the highest one; None for any records,
            in any order. The offsets must ascend.
        :param reads: False: the messages have empty bodies, and checksums are not compared.
        :param check_crc: whether to stop also before a body that does not have its stored checksum.
        :param broker_name: the last element of each message.
        :returns: the messages, and the position after their records.
        """
        ...

    def encode_batch(
        self,
        body: bytes,
        queue: RunQueue,
        hosts: tuple[bytes, bytes],
        head: tuple[int, int, int],
        place: tuple[int, int, int],
        limits: tuple[int, int],
        /,
    ) -> tuple[bytes, list[int], bytes] | None:
        """Encode one record for each message of a batch body; the records have consecutive offsets in one queue.

        :param hosts: born host and store host, packed, 8 or 20 bytes each.
        :param head: sysFlag without the bits for IPv6 hosts, born timestamp, reconsume times.
        :param place: store timestamp in milliseconds, commit log offset of the first record, bytes free there.
        :param limits: maximum bytes of a message's body and of its properties.
        :returns: the records; a flat list of commit log offset, size and tags code of each; the packed index keys, see
            :meth:`pack_keys`. None if the body is malformed, a message breaks a limit or the records do not fit.
        """
        ...

    def encode_message(self, flag: int, body: bytes, properties: dict[str, str], most: int, /) -> bytes | None:
        """One message of a batch; as :meth:`encode_messages`."""
        ...

    def encode_messages(self, messages: list[tuple[int, bytes, dict[str, str]]], most: int, /) -> bytes | None:
        """The body of a batch of messages, given as flag, body and properties.

        :param most: bytes of the properties of one message.
        :returns: None if properties have a separator in them, are no strings, or are longer.
        """
        ...

    def encode_plain(self, message: Any, key: str, unusual: frozenset[str], below: int, most: int, /) -> bytes | None:
        """One message of a batch; ``key`` is added to its properties as its unique key.

        :param message: a :class:`~rocketmq_py.Message`.
        :param unusual: names of properties that the message must not have.
        :param below: the body must have fewer bytes, and at least one.
        :param most: bytes of the properties.
        :returns: None if it is otherwise, or as of :meth:`encode_messages`; then the message is as before.
        """
        ...

    def send_fields(
        self, numbers: tuple[int, int, int], properties: dict[str, str], more: tuple[bytes, bytes], most: int, /
    ) -> tuple[bytes, bytes] | None:
        """The header fields ``f`` to ``i`` of a send, with ``more`` after them: as JSON, and their values.

        :param numbers: system flags, born timestamp and flag.
        :param more: further fields as JSON, and their values.
        :param most: bytes of the properties.
        :returns: None as of :meth:`encode_messages`.
        """
        ...

    def TellingProperties(  # noqa: N802 - a class
        self, by_value: Sequence[str], by_presence: Sequence[str], /
    ) -> Telling:
        """The properties that belong to a :data:`SendKind`; a message may have any others.

        :param by_presence: names of properties whose values do not matter; each is ``-`` in a kind.
        """
        ...

    def HeaderTables(  # noqa: N802 - a class
        self, known: Sequence[tuple[bytes, bytes]], lengths: Sequence[int], table_size: int, /
    ) -> HeaderTables:
        """Return the tables of HPACK.

        :param known: the static table.
        :param lengths: bits of the Huffman codes of the bytes 0 to 255 and of the end.
        :param table_size: maximum size of the dynamic table.
        """
        ...

    def call_sends(self, requests: Sequence[bytes], most: int, /) -> CallSends:
        """Read SendMessageRequest messages of gRPC.

        :param most: a plain request has at most so many bytes beside the body.
        """
        ...

    def PoppedMessages(self, names: Sequence[tuple[bytes, int]], /) -> PoppedMessages:  # noqa: N802 - a class
        """Return what encodes popped messages.

        :param names: names of properties, and the field of SystemProperties that has their value; 0 for none. A record
            with a property of a negative number is not plain. Other properties are the user's.
        """
        ...

    def call_ack(self, request: bytes, most_distance: int, orderly: int, /) -> CallAck | None:
        """Read an AckMessageRequest of gRPC; None if it is not plain.

        :param most_distance: messages of a plain one are nearer than this to the first of their pop.
        :param orderly: the revive queue in handles of orderly pops.
        """
        ...

    def check_point_record(
        self, pop: PopKey, invisible: tuple[int, Sequence[int]], born: int, queue: RunQueue, host: bytes,
        place: tuple[int, int, int], limits: tuple[int, int], /,
    ) -> tuple[bytes, bytes] | None:  # fmt: skip
        """Encode the record of a new check-point, as of ``CheckPoint.encode`` and ``unique_key``.

        :param invisible: for how many milliseconds; distances of the messages' offsets from the first one.
        :param born: time of the entry in milliseconds.
        :param place: store timestamp in milliseconds, commit log offset, bytes free there.
        :param limits: maximum bytes of a body and of properties.
        :returns: the record and its unique key; None if it breaks a limit or does not fit.
        """
        ...

    def ack_record(
        self, pop: PopKey, offsets: Sequence[int], born: int, queue: RunQueue, host: bytes,
        place: tuple[int, int, int], limits: tuple[int, int], /,
    ) -> tuple[bytes, bytes] | None:  # fmt: skip
        """Encode the record of an ack of one or several messages; otherwise as :meth:`check_point_record`.

        :param offsets: their queue offsets.
        """
        ...

    def send_frame(
        self, start: bytes, fields: bytes, numbers: tuple[int, int], tail: bytes, body: bytes, /
    ) -> bytes | None:
        """The frame of an unsigned send, as of ``OutgoingMessage.frame``.

        :param start: the header up to the value of field ``f``. :param fields: the header fields from there on.
        :param numbers: flag and opaque. :param tail: the end of the header, after these numbers.
        :returns: None if the body is not ``bytes``, or a length cannot be written.
        """
        ...

    def SigningKey(self, secret: bytes, before: bytes, /) -> Signer:  # noqa: N802 - a class
        """As :class:`rocketmq_py.wire.signing.SigningKey`."""
        ...

    def pack_keys(self, fields: list[Any], /) -> bytes:
        """Return packed index keys: 20 bytes for each, with the lowest byte of a number first.

        These are the hash of ``topic#key`` as :func:`rocketmq_py.store.index.key_hash.key_hash` returns it (4 bytes),
        commit log offset and store timestamp in milliseconds (8 bytes each).

        :param fields: hash of ``topic#``, key, commit log offset and store timestamp of each, in a flat list.
        """
        ...

    def put_keys(self, file: Any, slots: int, number: int, begin: int, keys: bytes, /) -> int:
        """Add packed keys to an index file, and point its slots to their entries; return how many slots were empty.

        :param file: the mapped file. :param slots: number of its slots. :param number: that of the first new entry.
        :param begin: store timestamp of entry 1 in milliseconds.
        :raises ValueError: the entries are not within the file; nothing is written.
        """
        ...

    def gather(
        self, buffer: Any, base: int, entries: bytes, most: int, expected: tuple[int, int, int] | None, /
    ) -> tuple[int, int, int, bytes | None] | None:
        """Copy the records of the leading entries of a consume queue, at most ``most`` bytes, but at least one record.

        :param buffer: the mapped log file. :param base: offset in the log at which it begins.
        :param entries: raw entries of a consume queue.
        :param expected: magic and queue id of the records, and queue offset of the first; None: they are not checked,
            and neither is whether each record has its own offset in the log.
        :returns: number of records; positions in the file of the first record and after the last one; the records, None
            if they lie next to each other there. None instead if there is no entry, or if one of these records is
            empty, not in the file, not behind the one before it, or not as expected.
        """
        ...

    def write_parts(self, parts: list[tuple[str, int, int, bytes]], /) -> tuple[int, OSError | None]:
        """Write parts of files, like :func:`rocketmq_py.store.fs.filesystem.write_each`, without holding the GIL.

        Of the parts behind one that fails some can be written, too.

        :param parts: path and size of each file, position in it, and data.
        """
        ...

    def cut_read(
        self,
        data: bytes,
        max_frame: int,
        frame: Callable[[int, bytes, bytes], Any],
        overtaken: Sequence[int],
        telling: Telling,
        /,
    ) -> tuple[list[Any], int, int, tuple[int, int] | None]:
        """Split bytes read from a socket into frames, with consecutive simple sends combined into a :class:`SendRun`.

        :param max_frame: maximum bytes of a frame after its length field.
        :param frame: called with serialize type, header and body to build each frame.
        :param overtaken: codes of one-way requests that do not end a run but come after it, if their headers have a
            simple form.
        :param telling: the properties that belong to the kind of a send; None: all but unique key and keys. Those in an
            unusual form always do.
        :returns: frames and runs in order; position after the last complete frame; number of bytes that the frame at
            this position needs; frame length and header length if that frame is corrupt, else None.
        """
        ...

    def cut_answers(
        self, data: bytes, max_frame: int, frame: Callable[[int, bytes, bytes], Any], reply: Callable[..., Any], /
    ) -> tuple[list[Any], int, int, tuple[int, int] | None]:
        """Split bytes read from a socket into frames, of which plain answers are decoded.

        A plain answer has a JSON header in a simple form: no remark, no unusual member, no duplicate names of members,
        no escapes, and header fields that are strings.

        :param frame: called to build each other frame, as in :meth:`cut_read`.
        :param reply: called with code, opaque, flag, None, the JSON object of the header fields, body and version of
            each plain answer.
        :returns: frames and answers in order; otherwise as :meth:`cut_read`.
        """
        ...


def installed() -> Accelerator | None:
    """Return the accelerator; None if it is not installed, has another format or is turned off."""
    return _found(is_wanted(os.environ))


def is_wanted(environment: Mapping[str, str]) -> bool:
    """Return False if the environment turns the accelerator off."""
    return environment.get(VARIABLE, "") != "0"


@cache
def _found(wanted: bool) -> Accelerator | None:
    if not wanted:
        return None
    try:
        import rocketmq_py_native as native
    except ImportError:
        return None
    if native.FORMAT != FORMAT:
        _log.warning(
            "rocketmq-py-native has format %s, this version of rocketmq-py needs %s: going on without it; install the"
            " one that belongs to it", native.FORMAT, FORMAT
        )  # fmt: skip
        return None
    found: Accelerator = native
    return found
