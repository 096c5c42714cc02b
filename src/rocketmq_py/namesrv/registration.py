"""Decode the body of a broker's registration: JSON, compressed, or the JSON of brokers before 3.0.11.

A registration may have hundreds of thousands of topics, so it is decoded in steps of less than a few milliseconds.
"""

from __future__ import annotations

import zlib
from collections.abc import Generator
from struct import Struct, error as StructError
from typing import Any

import msgspec

from rocketmq_py.errors import BadHeader, shortened
from rocketmq_py.protocol.bodies.base import DataVersion
from rocketmq_py.protocol.bodies.topic import RegisterBrokerBody, TopicConfig, TopicConfigTable, decode_topic
from rocketmq_py.protocol.codes import Version
from rocketmq_py.wire import fastjson

MIB = 1024 * 1024
MAX_INFLATED = 32 * MIB
"""Maximum size of a decompressed body in bytes, enough for about half a million topics."""
MAX_AT_ONCE = 128 * 1024
"""Largest JSON body in bytes that is decoded in one step, in any dialect; a larger one must be standard JSON."""
_PIECE = MIB
"""Maximum number of bytes that one step decompresses."""

Steps = Generator[None, None, RegisterBrokerBody]

_ZLIB_MAGIC = b"\x78"
_I32 = Struct(">i")


def decode_registration(body: bytes, version: int) -> Steps:
    """Decode the topics and filter servers of a registration; the result is the value that the generator returns.

    The first byte shows whether the body is compressed, since Java brokers send ``compressed=false`` in any case.

    :param version: the version of the broker, from its request.
    :raises BadHeader: the body cannot be decoded, or is too large.
    """
    registration = yield from _decode(body, version)
    _check_mappings(registration.topic_config_serialize_wrapper.topic_queue_mapping_info_map or {})
    return registration


def _check_mappings(mappings: dict[str, Any]) -> None:
    """Check the one field of queue mappings that the registry reads: ``bname``, the broker's name.

    :raises BadHeader: a mapping is no object, or its ``bname`` is no string.
    """
    for topic, mapping in mappings.items():
        if not isinstance(mapping, dict) or not isinstance(mapping.get("bname", ""), str):
            what = f"topicQueueMappingInfoMap: {shortened(topic)} is {shortened(repr(mapping))}"
            raise BadHeader(f"{what}: an object with the broker's name as bname is expected")


def _decode(body: bytes, version: int) -> Steps:
    if not body:
        return RegisterBrokerBody()
    if body[:1] == _ZLIB_MAGIC:
        raw = yield from _inflate(body)
        return (yield from _decode_compressed(raw, with_mappings=version >= Version.V5_0_0))
    is_old = version < Version.V3_0_11
    if len(body) > MAX_AT_ONCE:
        return (yield from _decode_large(body, is_old=is_old))
    if is_old:
        return RegisterBrokerBody(topic_config_serialize_wrapper=TopicConfigTable.decode(body))
    return RegisterBrokerBody.decode(body)


def _decode_large(body: bytes, *, is_old: bool) -> Steps:
    """Decode standard JSON in steps of one topic or one queue mapping.

    :param is_old: the body is only the table of topics (brokers before 3.0.11).
    """
    try:
        outer = {"topicConfigSerializeWrapper": msgspec.Raw(body)} if is_old else _members(body)
        yield
        table = _members(outer.pop("topicConfigSerializeWrapper", _NOTHING))
        yield
        configs, mappings = _members(table.pop(_TOPICS, _NOTHING)), _members(table.pop(_MAPPINGS, _NOTHING))
        yield
        rest = RegisterBrokerBody.convert(_values(outer) | {"topicConfigSerializeWrapper": _values(table)})
        wrapper = rest.topic_config_serialize_wrapper
        for name, config in configs.items():
            wrapper.topic_config_table[name] = decode_topic(config)
            yield
        if mappings:
            wrapper.topic_queue_mapping_info_map = {}
            for name, mapping in mappings.items():
                wrapper.topic_queue_mapping_info_map[name] = msgspec.json.decode(mapping)
                yield
    except (ValueError, RecursionError) as e:
        raise BadHeader(
            f"a registration of {len(body)} bytes cannot be understood: {e}; above {MAX_AT_ONCE} bytes it must be "
            "standard JSON"
        ) from e
    return rest


_TOPICS, _MAPPINGS = "topicConfigTable", "topicQueueMappingInfoMap"
_NOTHING = msgspec.Raw(b"{}")
_decode_members = msgspec.json.Decoder(dict[str, msgspec.Raw] | None).decode


def _members(text: bytes | msgspec.Raw) -> dict[str, msgspec.Raw]:
    """Split a JSON object into its members, whose values are not decoded yet; null has no members."""
    return _decode_members(text) or {}


def _values(members: dict[str, msgspec.Raw]) -> dict[str, Any]:
    """Decode the values of the members of a JSON object.

    :raises BadHeader: together they are longer than ``MAX_AT_ONCE`` bytes.
    """
    size = sum(len(bytes(value)) for value in members.values())
    if size > MAX_AT_ONCE:
        raise BadHeader(f"{', '.join(map(shortened, members))} of a registration have {size} bytes: too many")
    return {name: msgspec.json.decode(value) for name, value in members.items()}


def checksum(body: bytes) -> int:
    """Return the CRC-32 of a registration's body without its highest bit, as brokers send it in the header."""
    return zlib.crc32(body) & 0x7FFFFFFF


def _inflate(body: bytes) -> Generator[None, None, bytes]:
    inflater, raw, rest = zlib.decompressobj(), bytearray(), body
    try:
        while not inflater.eof and len(raw) <= MAX_INFLATED:
            piece = inflater.decompress(rest, _PIECE)
            rest = inflater.unconsumed_tail
            raw += piece
            if not piece and not rest:
                break
            yield
    except zlib.error as e:
        raise BadHeader(f"a registration of {len(body)} bytes does not decompress: {e}") from e
    if not inflater.eof or len(raw) > MAX_INFLATED:
        raise BadHeader(f"a registration of {len(body)} bytes is cut off, or larger than {MAX_INFLATED} decompressed")
    return bytes(raw)


def _decode_compressed(raw: bytes, *, with_mappings: bool) -> Steps:
    topics: dict[str, TopicConfig] = {}
    mappings: dict[str, dict[str, Any]] = {}
    try:
        blocks = _Blocks(raw)
        version = DataVersion.decode(blocks.next())
        for _ in range(blocks.number()):
            topic = _topic(blocks.next().decode())
            topics[topic.topic_name] = topic
            yield
        filters = _filters(blocks.next())
        for _ in range(blocks.number() if with_mappings else 0):
            name, mapping = _mapping(blocks.next())
            mappings[name] = mapping
            yield
    except (StructError, ValueError, RecursionError) as e:
        raise BadHeader(f"a compressed registration of {len(raw)} bytes cannot be understood: {e}") from e
    table = TopicConfigTable(topic_config_table=topics, data_version=version, topic_queue_mapping_info_map=mappings)
    return RegisterBrokerBody(topic_config_serialize_wrapper=table, filter_server_list=filters)


class _Blocks:
    """Reads the 32-bit numbers and length-prefixed blocks of a decompressed registration in order."""

    def __init__(self, raw: bytes) -> None:
        self._raw = raw
        self._at = 0

    def number(self) -> int:
        (value,) = _I32.unpack_from(self._raw, self._at)
        self._at += 4
        return int(value)

    def next(self) -> bytes:
        length = self.number()
        if not 0 <= length <= len(self._raw) - self._at:
            raise ValueError(f"a block of {length} bytes at {self._at} is longer than what is left")
        self._at += length
        return self._raw[self._at - length : self._at]


def _topic(text: str) -> TopicConfig:
    """Parse a topic from ``name readQueues writeQueues perm filterType {attributes}``."""
    fields = text.split(" ", 5)
    if len(fields) < 5:
        raise ValueError(f"{text!r} is no topic: name, read and write queues, perm and filter type are expected")
    name, read, write, perm, filter_type, *rest = fields
    return TopicConfig(
        topic_name=name, read_queue_nums=int(read), write_queue_nums=int(write), perm=int(perm),
        topic_filter_type=filter_type, attributes=_attributes(rest[0]) if rest else {},
    )  # fmt: skip


def _mapping(block: bytes) -> tuple[str, dict[str, Any]]:
    """Decode the queue mapping of a static topic; return the topic and the mapping."""
    mapping = fastjson.loads(block)
    if not isinstance(mapping, dict) or not isinstance(mapping.get("topic"), str):
        raise BadHeader("a queue mapping of a registration names no topic")
    return mapping["topic"], mapping


def _attributes(text: str) -> dict[str, str]:
    attributes: Any = (fastjson.loads(text) if text else None) or {}
    if not isinstance(attributes, dict):
        raise ValueError(f"{shortened(text)!r} are no attributes: an object is expected")  # noqa: TRY004 - of the input
    return {str(name): str(value) for name, value in attributes.items()}


def _filters(block: bytes) -> list[str]:
    """Decode the JSON list of a broker's filter servers."""
    filters: Any = fastjson.loads(block) or []
    if not isinstance(filters, list) or not all(isinstance(one, str) for one in filters):
        raise ValueError("the filter servers are no list of texts")
    return filters
