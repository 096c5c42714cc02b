"""The text a broker hands out for a message that waits for its time, and takes back to recall it (version 1).

Its bytes are Java's (RecallMessageHandle): base64 of ``v1 topic broker time key``.
"""

from __future__ import annotations

import base64
import binascii
from typing import NamedTuple, Self

from rocketmq_py.errors import ConfigError

_VERSION = "v1"
_PARTS = 5


class RecallHandle(NamedTuple):
    """A message that waits: ``timestamp`` is in its slot of the timer wheel, ``unique_key`` its own."""

    topic: str
    broker_name: str
    timestamp: int
    unique_key: str

    def encode(self) -> str:
        """The handle as text."""
        text = f"{_VERSION} {self.topic} {self.broker_name} {self.timestamp} {self.unique_key}"
        return base64.urlsafe_b64encode(text.encode()).decode()

    @classmethod
    def decode(cls, text: str) -> Self:
        """The handle of a text.

        :raises ConfigError: it is none.
        """
        try:
            parts = base64.b64decode(text.encode() + b"=" * (-len(text) % 4), b"-_", validate=True).decode().split(" ")
        except (binascii.Error, UnicodeError) as e:
            raise ConfigError("recall handle is invalid") from e
        if len(parts) < _PARTS or parts[0] != _VERSION:
            raise ConfigError("recall handle is invalid")
        _, topic, broker, timestamp, key = parts[:_PARTS]
        number = int(timestamp) if timestamp.isascii() and timestamp.isdecimal() and len(timestamp) < 20 else -1
        return cls(topic, broker, number, key)
