from __future__ import annotations

import pytest

from rocketmq_py.core.grpc.transaction_ids import HalfPlace, decode_transaction_id, encode_transaction_id
from rocketmq_py.protocol.grpc.enums import Code
from rocketmq_py.protocol.grpc.refusal import CallRefused


def test_a_transaction_id_says_where_the_half_message_is() -> None:
    place = HalfPlace("broker-a", 2**40, 77, "0A\u00e9 B:C")
    text = encode_transaction_id(place)
    assert text == "0000010000000000000000000000004D:broker-a:0A\u00e9 B:C"
    assert decode_transaction_id(text) == place
    odd = HalfPlace("a:b/\u00e9%", 0, 0, "x")
    assert encode_transaction_id(odd).count(":") == 2
    assert decode_transaction_id(encode_transaction_id(odd)) == odd


@pytest.mark.parametrize(
    "text",
    ["", " ", "0A0B", "8" + "0" * 31 + ":a:x", "0" * 32 + ":a:", "0" * 16 + "8" + "0" * 15 + ":a:x",
     "g" * 32 + ":a:x", "0" * 32 + "a:x", "0" * 31 + ":a:x", "0" * 32 + ":a"],
)  # fmt: skip
def test_other_transaction_ids_are_refused(text: str) -> None:
    with pytest.raises(CallRefused) as caught:
        decode_transaction_id(text)
    assert caught.value.code == Code.INVALID_TRANSACTION_ID
