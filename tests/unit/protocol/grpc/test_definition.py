"""Messages of gRPC: what a field means that is not sent."""

from __future__ import annotations

import msgspec
import pytest

from rocketmq_py.protocol.grpc import definition, service
from rocketmq_py.wire.protobuf import ProtoMessage

MESSAGES = sorted(
    {
        found
        for module in (definition, service)
        for found in vars(module).values()
        if isinstance(found, type) and issubclass(found, ProtoMessage) and found is not ProtoMessage
    },
    key=lambda found: found.__name__,
)


@pytest.mark.parametrize("message", MESSAGES, ids=lambda message: message.__name__)
def test_a_field_that_is_not_sent_has_the_value_that_protobuf_defines(message: type[ProtoMessage]) -> None:
    for field in msgspec.structs.fields(message):
        if field.default is not msgspec.NODEFAULT:
            assert field.default in (None, False, 0, 0.0, "", b""), field.name
        else:
            assert field.default_factory() in ([], {}), field.name
    assert message().encode() == b""
    assert message.decode(b"") == message()
