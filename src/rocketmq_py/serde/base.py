"""What every form of bodies has: :class:`Serde`."""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable

from rocketmq_py.errors import RocketMQError


class BodyMismatch(RocketMQError):
    """A message body that is not what its reader expects; reading it again gives the same."""


@runtime_checkable
class Serde(Protocol):
    """Encodes values as message bodies, and decodes them. Thread-safe, and can be pickled for Spark."""

    def encode(self, value: Any, topic: str) -> bytes:
        """Return the body of a message for ``topic`` with this value.

        :raises BodyMismatch: the value does not fit.
        """

    def decode(self, body: bytes) -> Any:
        """Return the value of a body.

        :raises BodyMismatch: the body does not fit.
        """
