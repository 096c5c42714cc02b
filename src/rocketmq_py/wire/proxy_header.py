"""The header of the PROXY protocol, versions 1 and 2: load balancers write it in front of the bytes of a client.

It is described in HAProxy's proxy-protocol.txt.
"""

from __future__ import annotations

from ipaddress import IPv4Address, IPv6Address
from typing import NamedTuple

from rocketmq_py.errors import CorruptFrame

SIGNATURES = (b"PROXY ", b"\r\n\r\n\x00\r\nQUIT\n")
"""The first bytes of a header of version 1 and 2. Neither remoting, nor HTTP/2, nor TLS begins with them."""

MAX_HEADER = 16 + 65_535
"""The largest header of version 2, in bytes."""

_MAX_LINE = 107
_FIXED = 16
_LOCAL, _PROXY = 0x20, 0x21
_ADDRESSES: dict[int, tuple[type[IPv4Address | IPv6Address], int]] = {
    0x11: (IPv4Address, 4), 0x21: (IPv6Address, 16)
}  # fmt: skip
_LINES: dict[bytes, type[IPv4Address | IPv6Address]] = {b"TCP4": IPv4Address, b"TCP6": IPv6Address}
_WITHOUT_ADDRESS = frozenset({0x00, 0x31, 0x32})
"""Families of version 2 that name no address of a network: unspecified, and Unix sockets."""


class ProxyHeader(NamedTuple):
    """A header.

    :ivar length: its bytes; 0 if there is no header.
    :ivar source: IP address and port of the client; None if the header names none, as those of health checks.
    """

    length: int = 0
    source: tuple[str, int] | None = None


def parse_proxy_header(data: bytes) -> ProxyHeader | None:
    """Return the header that ``data`` begins with; None if it takes more bytes to tell.

    :raises CorruptFrame: the header is wrong.
    """
    line, binary = SIGNATURES
    if data.startswith(line):
        return _parse_line(data)
    if data.startswith(binary):
        return _parse_binary(data)
    return None if line.startswith(data) or binary.startswith(data) else ProxyHeader()


def _parse_line(data: bytes) -> ProxyHeader | None:
    end = data.find(b"\n", 0, _MAX_LINE) + 1
    if not end:
        if len(data) >= _MAX_LINE:
            raise CorruptFrame(f"a PROXY header of more than {_MAX_LINE} bytes")
        return None
    line = data[:end]
    fields = line[:-2].split(b" ")
    if not line.endswith(b"\r\n"):
        raise CorruptFrame("a PROXY header that does not end with CR and LF")
    if fields[1] == b"UNKNOWN":
        return ProxyHeader(end)
    kind = _LINES.get(fields[1])
    if kind is None or len(fields) != 6:
        raise CorruptFrame(f"a PROXY header {line!r} is not TCP4, TCP6 or UNKNOWN with two addresses and two ports")
    source, _, port, _ = (field.decode("latin-1") for field in fields[2:])
    try:
        address = _address(kind(source))
    except ValueError:
        address = ""
    if not address or "%" in source or not _is_port(port):
        raise CorruptFrame(f"a PROXY header {line!r} has a wrong source")
    return ProxyHeader(end, (address, int(port)))


def _parse_binary(data: bytes) -> ProxyHeader | None:
    if len(data) < _FIXED:
        return None
    command, family = data[12], data[13]
    end = _FIXED + int.from_bytes(data[14:_FIXED])
    if command not in {_LOCAL, _PROXY}:
        raise CorruptFrame(f"a PROXY header with version and command {command:#04x}: 0x20 and 0x21 are known")
    kind, size = _ADDRESSES.get(family, (None, 0))
    if command == _PROXY and kind is None and family not in _WITHOUT_ADDRESS:
        raise CorruptFrame(f"a PROXY header with family and transport {family:#04x}: only TCP is served")
    ports = _FIXED + 2 * size
    if command == _PROXY and kind is not None and end < ports + 4:
        raise CorruptFrame(f"a PROXY header whose {end - _FIXED} bytes are too short for its addresses")
    if len(data) < end:
        return None
    if command == _LOCAL or kind is None:
        return ProxyHeader(end)
    return ProxyHeader(end, (_address(kind(data[_FIXED : _FIXED + size])), int.from_bytes(data[ports : ports + 2])))


def _address(address: IPv4Address | IPv6Address) -> str:
    """Return an address as text, an IPv4 address that is mapped to IPv6 as itself."""
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return str(mapped or address)


def _is_port(text: str) -> bool:
    return text.isascii() and text.isdigit() and text == str(int(text[:6])) and int(text) <= 0xFFFF
