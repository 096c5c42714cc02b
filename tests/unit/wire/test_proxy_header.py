"""Headers of the PROXY protocol, as HAProxy's document describes them."""

from __future__ import annotations

import ipaddress
import itertools

import pytest

from rocketmq_py.errors import CorruptFrame
from rocketmq_py.wire.proxy_header import MAX_HEADER, SIGNATURES, ProxyHeader, parse_proxy_header

LINE = b"PROXY TCP4 203.0.113.7 10.0.0.1 50000 10911\r\n"
IPV4 = bytes([203, 0, 113, 7, 10, 0, 0, 1]) + (50_000).to_bytes(2) + (10_911).to_bytes(2)
IPV6 = b"".join(ipaddress.ip_address(text).packed for text in ("2001:db8::7", "::1")) + IPV4[8:]


def binary(family: int, block: bytes, *, command: int = 0x21, length: int | None = None) -> bytes:
    """A header of version 2."""
    size = len(block) if length is None else length
    return SIGNATURES[1] + bytes([command, family]) + size.to_bytes(2) + block


def test_the_signatures_are_those_of_the_protocol() -> None:
    assert (b"PROXY ", bytes.fromhex("0D0A0D0A000D0A515549540A")) == SIGNATURES
    assert MAX_HEADER == 65_551


@pytest.mark.parametrize(
    ("header", "source"),
    [
        (LINE, ("203.0.113.7", 50_000)),
        (b"PROXY TCP4 0.0.0.0 255.255.255.255 0 65535\r\n", ("0.0.0.0", 0)),
        (b"PROXY TCP4 1.2.3.4 5.6.7.8 65535 1\r\n", ("1.2.3.4", 65_535)),
        (b"PROXY TCP6 2001:db8::7 ::1 5 6\r\n", ("2001:db8::7", 5)),
        (b"PROXY TCP6 ::ffff:203.0.113.7 ::1 5 6\r\n", ("203.0.113.7", 5)),
        (b"PROXY UNKNOWN\r\n", None),
        (b"PROXY UNKNOWN ffff::1 ::2 1 2\r\n", None),
        (b"PROXY UNKNOWN " + b"x" * 91 + b"\r\n", None),
        (binary(0x11, IPV4), ("203.0.113.7", 50_000)),
        (binary(0x11, IPV4 + b"\x02\0\3abc"), ("203.0.113.7", 50_000)),
        (binary(0x21, IPV6), ("2001:db8::7", 50_000)),
        (binary(0x11, IPV4, command=0x20), None),
        (binary(0x12, b"", command=0x20), None),
        (binary(0x00, b""), None),
        (binary(0x00, b"x" * 65_535), None),
        (binary(0x31, b"/run/a".ljust(216, b"\0")), None),
        (binary(0x32, b"/run/a".ljust(216, b"\0")), None),
    ],
)
def test_a_header_names_the_source_and_ends_before_the_bytes_of_the_client(
    header: bytes, source: tuple[str, int] | None
) -> None:
    expected = ProxyHeader(len(header), source)
    assert parse_proxy_header(header) == expected
    assert parse_proxy_header(header + b"\0\0\0\1\n") == expected
    for size in {*range(min(len(header), 60)), len(header) - 1}:
        assert parse_proxy_header(header[:size]) is None


@pytest.mark.parametrize(
    "data",
    [
        b"\0\0\1\0", b"PRI * HTTP/2.0\r\n", b"PROXx", b"proxy TCP4", b"\x16\3\1", b"\r\n\r\n\0\r\nQUIT\r",
        b"\r\r",
    ],
)  # fmt: skip
def test_other_bytes_are_no_header(data: bytes) -> None:
    assert parse_proxy_header(data) == (0, None)


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"PROXY TCP4 1.2.3.4 5.6.7.8 1 2\n", "a PROXY header that does not end with CR and LF"),
        (b"PROXY UNKNOWN\n", "a PROXY header that does not end with CR and LF"),
        (b"PROXY " + b"x" * 101, "a PROXY header of more than 107 bytes"),
        (b"PROXY UNKNOWN " + b"x" * 92 + b"\r\n", "a PROXY header of more than 107 bytes"),
        (b"PROXY UDP4 1.2.3.4 5.6.7.8 1 2\r\n", "is not TCP4, TCP6 or UNKNOWN with"),
        (b"PROXY TCP4 1.2.3.4 5.6.7.8 1\r\n", "is not TCP4, TCP6 or UNKNOWN with"),
        (b"PROXY TCP4 1.2.3.4 5.6.7.8 1 2 3\r\n", "is not TCP4, TCP6 or UNKNOWN with"),
        (b"PROXY \r\n", "is not TCP4, TCP6 or UNKNOWN with"),
        (b"PROXY TCP4 1.2.3 5.6.7.8 1 2\r\n", r"PROXY TCP4 1\.2\.3 5\.6\.7\.8 1 2.* has a wrong source"),
        (b"PROXY TCP4 ::1 ::2 1 2\r\n", "has a wrong source"),
        (b"PROXY TCP6 1.2.3.4 ::2 1 2\r\n", "has a wrong source"),
        (b"PROXY TCP6 fe80::1%eth0 ::2 1 2\r\n", "has a wrong source"),
        *(
            (b"PROXY TCP4 1.2.3.4 5.6.7.8 %b 2\r\n" % port, "has a wrong source")
            for port in (b"65536", b"0001", b"-1", b"+1", b"", b"1_0", "\u0661".encode(), b"9" * 60)
        ),
        (binary(0x11, IPV4, command=0x11), "version and command 0x11: 0x20 and 0x21 are known"),
        (binary(0x11, IPV4, command=0x22), "version and command 0x22"),
        (binary(0x12, IPV4), "family and transport 0x12: only TCP is served"),
        (binary(0x22, IPV6), "family and transport 0x22"),
        (binary(0x41, IPV4), "family and transport 0x41"),
        (binary(0x11, b"", length=11), "whose 11 bytes are too short for its addresses"),
        (binary(0x21, b"", length=35), "whose 35 bytes are too short for its addresses"),
    ],
)
def test_a_wrong_header_is_refused_by_name(data: bytes, why: str) -> None:
    with pytest.raises(CorruptFrame, match=why):
        parse_proxy_header(data)


def test_a_wrong_fixed_part_is_refused_before_the_rest_is_waited_for() -> None:
    with pytest.raises(CorruptFrame):
        parse_proxy_header(binary(0x12, b"", length=65_535))
    assert parse_proxy_header(binary(0x11, b"", length=12)) is None
    assert parse_proxy_header(binary(0x21, b"", length=36)) is None


def test_any_first_bytes_have_an_answer() -> None:
    """No other exception, and no header that is longer than what was read."""
    every = itertools.product(range(0, 256, 15), range(0, 256, 7), (0x21, 0x20), (0x11, 0))
    for first, second, command, family in every:
        begin = bytes([first, second])
        long = binary(family, begin, command=command, length=second)
        for data in (begin, b"PROXY " + begin + b"\r\n", long):
            try:
                found = parse_proxy_header(data)
            except CorruptFrame:
                continue
            assert found is None or found.length <= len(data)
