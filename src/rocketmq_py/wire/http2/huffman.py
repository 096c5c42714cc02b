"""The Huffman code of HPACK (RFC 7541, appendix B), which clients use in literal header names and values.

The code is canonical: codes of the same length are consecutive numbers in the order of the bytes that they stand for,
so the table of lengths defines all of them.
"""

from __future__ import annotations

from functools import cache

from rocketmq_py.errors import CorruptFrame

_RUNS = (
    "13 23 28*7 24 30 28*2 30 28*8 30 28*9 6 10*2 12 13 6 8 11 10*2 8 11 8 6*3 5*3 6*7 7 8 15 6 12 10 13 "
    "6 7*22 8 7 8 13 19 13 14 6 15 5 6 5 6 5 6*3 5 7*2 6*3 5 6 7 6 5*2 6 7*5 15 11 14 13 28 20 22 20*2 "
    "22*3 23 22 23*5 24 23 24*2 22 23 24 23*4 21 22 23 22 23*2 24 22 21 20 22*2 23*2 21 23 22*2 24 21 22 "
    "23*2 21*2 22 21 23 22 23*2 20 22*3 23 22*2 23 26*2 20 19 22 23 22 25 26*3 27*2 26 24 25 19 21 26 "
    "27*2 26 27 24 21*2 26*2 28 27*3 20 24 20 21 22 21*2 23 22*2 25*2 24*2 26 23 26 27 26*2 27*5 28 27*5 "
    "26 30"
)
"""Lengths in bits of the codes of the bytes 0 to 255 and of the end of the string; ``28*7`` stands for 28 seven times.
"""

_END = 256
_PADDING_BITS = 7


def _lengths() -> list[int]:
    lengths: list[int] = []
    for run in _RUNS.split(" "):
        length, _, times = run.partition("*")
        lengths += [int(length)] * int(times or 1)
    return lengths


def _codes() -> dict[tuple[int, int], int]:
    """Return what each code stands for, by its length in bits and its value."""
    codes = {}
    code = length = 0
    for symbol in sorted(range(_END + 1), key=lambda symbol: (LENGTHS[symbol], symbol)):
        code <<= LENGTHS[symbol] - length
        length = LENGTHS[symbol]
        codes[length, code] = symbol
        code += 1
    return codes


LENGTHS = _lengths()
"""Length in bits of the code of each byte, and of the end."""
_CODES = _codes()

_Step = tuple[int, bytes]


@cache
def _nodes() -> dict[tuple[int, int], int]:
    """Return a number for each proper prefix of a code, by its length and value; 0 for the empty one."""
    prefixes = {(0, 0): 0}
    for length, code in sorted(_CODES):
        for bits in range(1, length):
            prefixes.setdefault((bits, code >> (length - bits)), len(prefixes))
    return prefixes


class _Decoder:
    """Decodes a byte at a time, with a table of steps that is filled as they are needed.

    A state is a prefix of a code: its number, times 256. A step is the next state, and the bytes whose codes were
    completed; its key is the state and the byte.
    """

    def __init__(self) -> None:
        nodes = _nodes()
        self._numbers = nodes
        self._prefixes = list(nodes)
        self.steps = _Steps(self)
        self.accepted = {
            number << 8 for (bits, code), number in nodes.items() if bits <= _PADDING_BITS and code == (1 << bits) - 1
        }
        """The states in which a string may end: less than a byte of padding, the first bits of the end's code."""

    def step(self, state: int, byte: int) -> _Step:
        """Return the step of a state and a byte.

        :raises CorruptFrame: it completes the code of the end, which never is sent.
        """
        bits, code = self._prefixes[state >> 8]
        done = bytearray()
        for shift in range(7, -1, -1):
            bits, code = bits + 1, code << 1 | byte >> shift & 1
            symbol = _CODES.get((bits, code))
            if symbol == _END:
                raise CorruptFrame("a Huffman code in a header block has the code of its end in it")
            if symbol is not None:
                done.append(symbol)
                bits = code = 0
        return self._numbers[bits, code] << 8, bytes(done)


class _Steps(dict[int, _Step]):
    """The steps that were needed, by the state and the byte."""

    def __init__(self, decoder: _Decoder) -> None:
        super().__init__()
        self._decoder = decoder

    def __missing__(self, key: int) -> _Step:
        step = self[key] = self._decoder.step(key & ~0xFF, key & 0xFF)
        return step


@cache
def _decoder() -> _Decoder:
    return _Decoder()


def decode_huffman(data: bytes) -> bytes:
    """Return the bytes that a Huffman code stands for.

    :raises CorruptFrame: the code has its end in it, or is padded with other bits than ones, or with a byte or more.
    """
    decoder = _decoder()
    steps = decoder.steps
    state = 0
    parts = []
    for byte in data:
        state, done = steps[state | byte]
        parts.append(done)
    if state not in decoder.accepted:
        raise CorruptFrame("a Huffman code in a header block is not padded with its end")
    return b"".join(parts)
