"""The compiled hot path of the distribution ``rocketmq-py-native``, where it is installed.

It is optional, and knows bytes, not rules: each of its functions does what Python code of this package does as well, or
refuses input that is not plain. ``ROCKETMQ_PY_NATIVE=0`` in the environment turns it off.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any, Protocol

FORMAT = 3
"""The format of arguments and results that this package understands."""

VARIABLE = "ROCKETMQ_PY_NATIVE"
"""The environment variable that turns the accelerator off with the value 0."""

_log = logging.getLogger(__name__)

Columns = tuple[int, tuple[Any, ...]]


class RunAnswers(Protocol):
    """Answers to stored sends, as bytes when they are wanted."""

    def opaques(self) -> list[int]:
        """Numbers of the requests to answer; one-way sends are not among them."""
        ...

    def encode(self, pieces: Sequence[bytes], host: bytes, /) -> bytes:
        """The frames of the answers.

        :param pieces: the six parts of an answer's header around opaque, offset in the log, queue id, queue offset and
            unique key; a message id is ``host`` and the offset in the log, in hexadecimal digits.
        """
        ...


SendKind = tuple[str, int, int, str, str]
"""What decisions about a send depend on: topic, queue id, system flags, properties without unique key and keys, and the
access key it is signed with ("" for none)."""

RunTarget = tuple[int, int, int]
"""Where the sends of a kind go: position of the queue, system flags, tags code."""

RunQueue = tuple[int, int, bytes, int, int]
"""Queue id, magic and topic of its records, next queue offset, hash of the topic for the index."""


PlainMessage = tuple[tuple[Any, ...], str, bytes, bytes, str]
"""The arguments of :class:`~rocketmq_py.model.MessageExt`."""

AppendedRun = tuple[int, bytes, list[list[int]], list[Any], RunAnswers]
"""Number after the last send, records, entries by queue, keys for the index, answers."""


class SendRun(Protocol):
    """Plain sends that came one after the other in one read.

    Plain: a SEND_MESSAGE_V2 of one message with a unique key, without member names twice, odd escapes and the like.
    """

    def __len__(self) -> int: ...

    def kinds(self) -> list[SendKind]:
        """The kinds of sends it has; each send is of one of them."""
        ...

    def verified(self, keys: Sequence[bytes | None], /) -> SendRun:
        """The same sends, of which those that are not admitted have no kind: :meth:`append` stops before each of them.

        :param keys: the secret key that each kind must be signed with; None for a kind that is not admitted.
        """
        ...

    def frame(self, number: int, /) -> tuple[int, bytes, bytes]:
        """Serialize type, header and body of the frame of one send."""
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
        """Encode the records of the sends from ``begin`` on, up to the first without target, legal size or room.

        :param targets: where the sends of each kind go, in the order of :meth:`kinds`.
        :param queues: the queues that targets name.
        :param hosts: born host (8 bytes) and store host (8 or 20 bytes), packed.
        :param suffix: properties that are appended to those of each message.
        :param place: store timestamp, physical offset of the first record, bytes there is room for.
        :param limits: bytes of a body (which must not be empty), and of properties.
        :returns: number after the last send; the records; physical offset, size and tags code of each in a flat list
            by queue; topic hash, key, physical offset and timestamp of each key in a flat list; the answers. None if
            there is no such send.
        """
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

    def decode(
        self, bodies: list[bytes], start: int, stop: int, columns: tuple[str, ...], check_crc: bool, /
    ) -> Columns | None:
        """Stored messages as buffers of Arrow columns; None if they are not plain.

        :param check_crc: refuse bodies with other checksums than those that are stored with them.
        """
        ...

    def plain_messages(
        self, body: bytes, origin: tuple[str, int, int, int] | None, reads: bool, check_crc: bool, broker_name: str, /
    ) -> tuple[list[PlainMessage], int]:
        """The plain records at the begin of a pull's body, and the position after them.

        They end before the first record that is compressed or a batch, contradicts itself, or is not where it belongs.

        :param origin: topic, queue id, and the offsets that those of the records are from, and below; None if they may
            come from anywhere.
        :param reads: False: leave bodies out, and their checksums alone.
        :param check_crc: end before a body with another checksum than that which is stored with it, too.
        :param broker_name: stands in each of the messages.
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
    ) -> tuple[bytes, list[int], list[Any]] | None:
        """Encode the records of the messages of a batch body, adjacent in one queue.

        :param hosts: born host and store host, packed, 8 or 20 bytes each.
        :param head: system flags without those of the hosts, born timestamp, reconsume times.
        :param place: as of :meth:`SendRun.append`.
        :param limits: bytes of a body and of properties.
        :returns: the records; physical offset, size and tags code of each in a flat list; the keys for the index, as of
            :meth:`SendRun.append`. None if the body is malformed, breaks a limit or needs more room.
        """
        ...

    def encode_messages(self, messages: list[tuple[int, bytes, dict[str, str]]], most: int, /) -> bytes | None:
        """The body of a batch of messages, given as flag, body and properties.

        :param most: bytes of the properties of one message.
        :returns: None if properties have a separator in them, are no strings, or are longer.
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

    def SigningKey(self, secret: bytes, before: bytes, /) -> Signer:  # noqa: N802 - a class
        """As :class:`rocketmq_py.wire.signing.SigningKey`."""
        ...

    def index_entries(
        self, hashes: list[int], physicals: list[int], timestamps: list[int], begin: int, previous: bytes, /
    ) -> bytes:
        """As :func:`rocketmq_py.store.index.index_file.encode_entries`."""
        ...

    def key_hashes(self, topics: list[int], keys: list[bytes], /) -> list[int]:
        """As :func:`rocketmq_py.store.index.key_hash.key_hashes`."""
        ...

    def cut_read(
        self, data: bytes, max_frame: int, frame: Callable[[int, bytes, bytes], Any], /
    ) -> tuple[list[Any], int, int, tuple[int, int] | None]:
        """The whole frames of what was read, and plain sends that follow each other as a :class:`SendRun`.

        :param frame: makes a frame of serialize type, header and body.
        :returns: frames and runs; the position after them; bytes that the next frame needs from there on; length and
            header length of a frame that is corrupt, which ends them.
        """
        ...


def installed() -> Accelerator | None:
    """The accelerator, if it is installed with the right format and not turned off."""
    return _found(is_wanted(os.environ))


def is_wanted(environment: Mapping[str, str]) -> bool:
    """Whether the environment leaves the accelerator on."""
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
