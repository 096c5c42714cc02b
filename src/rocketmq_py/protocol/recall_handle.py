"""Recall handles (version 1): a broker returns one for a delayed message; a producer sends it to recall the message.

The format is Java's (RecallMessageHandle): base64 of ``v1 topic broker timestamp key``.
"""

from __future__ import annotations

import base64
import binascii
from typing import NamedTuple, Self

from rocketmq_py.errors import ConfigError

_VERSION = "v1"
_PARTS = 5


class RecallHandle(NamedTuple):
    """The handle with which a delayed message can be recalled.

    ``timestamp`` is a time, in milliseconds since the epoch, in the slot of the timer wheel that has the message.
    """

    topic: str
    broker_name: str
    timestamp: int
    unique_key: str

    def encode(self) -> str:
        """Return the handle as text."""
        text = f"{_VERSION} {self.topic} {self.broker_name} {self.timestamp} {self.unique_key}"
        return base64.urlsafe_b64encode(text.encode()).decode()

    @classmethod
    def decode(cls, text: str) -> Self:
        """Parse the text of a handle; an invalid timestamp becomes -1.

        :raises ConfigError: the text is not a recall handle of version 1.
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
