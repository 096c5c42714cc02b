"""Headers of the PROXY protocol, right and wrong, with a request behind them, made from a seed and a number."""

from __future__ import annotations

import random
from typing import NamedTuple

from rocketmq_py.wire.proxy_header import SIGNATURES
from tests.fuzz.frames import flipped

_LINES = (b"PROXY TCP4 10.0.0.1 10.0.0.2 4711 10911\r\n", b"PROXY TCP6 ::1 fe80::2 1 65535\r\n", b"PROXY UNKNOWN\r\n",
          b"PROXY UNKNOWN what ever\r\n")  # fmt: skip
_WRONG_LINES = (
    b"PROXY TCP4 10.0.0.1 10.0.0.2 99999 1\r\n", b"PROXY TCP4 ::1 ::2 1 2\r\n", b"PROXY  \r\n", b"PROXY \n",
    b"PROXY TCP4 10.0.0.1 10.0.0.2 1 2\n", b"PROXY " + b"x" * 200, b"PROXY TCP6 fe80::1%eth0 ::1 1 2\r\n",
)  # fmt: skip


class ProxyCase(NamedTuple):
    """The first bytes of a connection.

    :ivar request: what follows the header.
    :ivar is_right: the header is right, so that the request counts.
    """

    header: bytes
    request: bytes
    is_right: bool

    @property
    def data(self) -> bytes:
        """All bytes."""
        return self.header + self.request


def make_proxy_case(seed: int, number: int, request: bytes) -> ProxyCase:
    """Return the case of a number."""
    chance = random.Random(f"proxy {seed} {number}")
    if chance.random() < 0.5:
        header = chance.choice(_LINES) if chance.random() < 0.5 else _binary(chance)
        return ProxyCase(header, request, is_right=True)
    return ProxyCase(_wrong(chance), request, is_right=False)


def _binary(chance: random.Random) -> bytes:
    """A right header of version 2, some with further values behind the addresses."""
    family, size = chance.choice(((0x11, 12), (0x21, 36), (0x31, 216), (0x00, 0)))
    rest = chance.randbytes(size + chance.choice((0, 0, 5, 300)))
    return SIGNATURES[1] + bytes((chance.choice((0x20, 0x21)), family)) + len(rest).to_bytes(2, "big") + rest


def _wrong(chance: random.Random) -> bytes:
    what = chance.randrange(4)
    if what == 0:
        return chance.choice(_WRONG_LINES)
    header = _binary(chance) if chance.random() < 0.7 else chance.choice(_LINES)
    if what == 1:
        return flipped(header, chance)
    if what == 2:
        return header[: chance.randrange(1, len(header))]
    return SIGNATURES[1] + bytes((chance.randrange(256), chance.randrange(256))) + chance.choice((b"\0\0", b"\xff\xff"))
