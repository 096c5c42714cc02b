from __future__ import annotations

import pytest

from rocketmq_py.errors import CorruptFrame
from rocketmq_py.wire.http2.hpack import HeaderListTooLarge, HpackDecoder, encode_headers
from rocketmq_py.wire.http2.huffman import decode_huffman

# The examples of RFC 7541, appendix C: requests without (3) and with Huffman codes (4), responses with evictions (6).
GET = [(b":method", b"GET"), (b":scheme", b"http"), (b":path", b"/"), (b":authority", b"www.example.com")]
THIRD = [
    (b":method", b"GET"), (b":scheme", b"https"), (b":path", b"/index.html"), (b":authority", b"www.example.com"),
    (b"custom-key", b"custom-value"),
]  # fmt: skip
PLAIN = [
    "828684410f7777772e6578616d706c652e636f6d", "828684be58086e6f2d6361636865",
    "828785bf400a637573746f6d2d6b65790c637573746f6d2d76616c7565",
]  # fmt: skip
HUFFMAN = [
    "828684418cf1e3c2e5f23a6ba0ab90f4ff",
    "828684be5886a8eb10649cbf",
    "828785bf408825a849e95ba97d7f8925a849e95bb8e8b4bf",
]
DATE = b"Mon, 21 Oct 2013 20:13:21 GMT"
LOCATION = (b"location", b"https://www.example.com")
RESPONSES = [
    ("488264025885aec3771a4b6196d07abe941054d444a8200595040b8166e082a62d1bff6e919d29ad171863c78f0b97c8e9ae82ae43d3",
     [(b":status", b"302"), (b"cache-control", b"private"), (b"date", DATE), LOCATION]),
    ("4883640effc1c0bf", [(b":status", b"307"), (b"cache-control", b"private"), (b"date", DATE), LOCATION]),
    (("88c16196d07abe941054d444a8200595040b8166e084a62d1bffc05a839bd9ab77ad94e7821dd7f2e6c7b335dfdfcd5b3960d5af27087f3672"
     "c1ab270fb5291f9587316065c003ed4ee5b1063d5007"),
     [(b":status", b"200"), (b"cache-control", b"private"), (b"date", DATE.replace(b"21 GMT", b"22 GMT")), LOCATION,
      (b"content-encoding", b"gzip"),
      (b"set-cookie", b"foo=ASDJKHQKBZXOQWEOPIUAXQWEOIU; max-age=3600; version=1")]),
]  # fmt: skip


@pytest.mark.parametrize("blocks", [PLAIN, HUFFMAN], ids=["plain", "huffman"])
def test_the_requests_of_the_rfc_are_decoded(blocks: list[str]) -> None:
    decoder = HpackDecoder(10_000)
    found = [decoder.decode(bytes.fromhex(block)) for block in blocks]
    assert found == [GET, [*GET, (b"cache-control", b"no-cache")], THIRD]


def test_the_responses_of_the_rfc_evict_headers_from_a_table_of_256_bytes() -> None:
    decoder = HpackDecoder(10_000)
    for number, (block, headers) in enumerate(RESPONSES):
        size_update = "3fe101" if number == 0 else ""
        assert decoder.decode(bytes.fromhex(size_update + block)) == headers


@pytest.mark.parametrize(("block", "header"), [
    ("040c2f73616d706c652f70617468", (b":path", b"/sample/path")),
    ("100870617373776f726406736563726574", (b"password", b"secret")),
    ("0f0d0130", (b"content-length", b"0")),
    ("1f080473657472", (b"authorization", b"setr")),
])  # fmt: skip
def test_literals_without_indexing_and_never_indexed_stay_out_of_the_table(
    block: str, header: tuple[bytes, bytes]
) -> None:
    """RFC 7541, C.2.2 and C.2.3, and names whose index fills the prefix of four bits."""
    decoder = HpackDecoder(10_000)
    assert decoder.decode(bytes.fromhex(block)) == [header]
    with pytest.raises(CorruptFrame, match="header 62"):
        decoder.decode(b"\xbe")


def test_what_is_encoded_is_decoded_without_a_change_of_the_table() -> None:
    headers = [(b":status", b"200"), (b"x", b"y"), (b"long", b"z" * 300), (b"empty", b""), (b"edge", b"e" * 127)]
    decoder = HpackDecoder(10_000)
    assert decoder.decode(encode_headers(headers)) == headers
    with pytest.raises(CorruptFrame, match="header 62"):
        decoder.decode(b"\xbe")


@pytest.mark.parametrize(
    ("block", "why"),
    [
        ("80", "header 0"),
        ("be", "header 62"),
        ("7f", "ends within"),
        ("41", "ends within"),
        ("410f61", "within a string"),
        ("4180", "ends"),
        ("3fffffffffff0f", "too large"),
        ("3fe21f", "4096 are allowed"),
        ("823fe101", "changes within"),
        ("4082aaff01", "ends within"),
        ("0081ff0161", "not padded"),
        ("0084ffffffff0161", "end in it"),
    ],
    ids=str,
)
def test_a_malformed_block_is_refused(block: str, why: str) -> None:
    if block == "4180":
        assert HpackDecoder(100).decode(bytes.fromhex(block)) == [(b":authority", b"")]
        return
    with pytest.raises(CorruptFrame, match=why):
        HpackDecoder(10_000).decode(bytes.fromhex(block))


@pytest.mark.parametrize("extra", ["1f", "17f7", "ffffffea"])
def test_padding_of_huffman_codes_is_ones_and_less_than_a_byte(extra: str) -> None:
    assert decode_huffman(b"\x1f") == b"a"
    if extra != "1f":
        with pytest.raises(CorruptFrame):
            decode_huffman(bytes.fromhex(extra) + b"\xff\xff")


def test_every_byte_has_a_huffman_code() -> None:
    from rocketmq_py.wire.http2 import huffman

    bits = "".join(
        f"{code:0{length}b}" for byte in range(256) for (length, code), to in huffman._CODES.items() if to == byte
    )
    padded = bits + "1" * (-len(bits) % 8)
    assert decode_huffman(int(padded, 2).to_bytes(len(padded) // 8, "big")) == bytes(range(256))
    assert sum(2.0**-length for length, _ in huffman._CODES) == 1.0


def test_a_list_over_the_limit_is_refused_and_the_table_stays_in_step() -> None:
    decoder = HpackDecoder(100)
    with pytest.raises(HeaderListTooLarge, match="129 bytes"):
        decoder.decode(b"\x40\x01a\x20" + b"b" * 32 + b"\x40\x01c" + b"\x1f" + b"d" * 31)
    assert decoder.decode(b"\xbe") == [(b"c", b"d" * 31)]
    assert decoder.decode(b"\xbf") == [(b"a", b"b" * 32)]


def test_a_bomb_of_references_to_a_large_header_stays_within_the_limit() -> None:
    decoder = HpackDecoder(16_384)
    decoder.decode(b"\x40\x01a\x7f\xa1\x1e" + b"b" * (127 + 0x21 + (0x1E << 7)))
    with pytest.raises(HeaderListTooLarge):
        decoder.decode(b"\xbe" * 60_000)


def test_a_header_larger_than_the_table_empties_it() -> None:
    decoder = HpackDecoder(100_000)
    decoder.decode(b"\x40\x01a\x01b")
    decoder.decode(encode_headers([(b"big", b"x" * 5000)]).replace(b"\0", b"\x40", 1))
    with pytest.raises(CorruptFrame, match="header 62"):
        decoder.decode(b"\xbe")
