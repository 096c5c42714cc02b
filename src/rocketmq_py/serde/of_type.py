"""The form of bodies that a type stands for: :func:`serde_of`."""

from __future__ import annotations

from typing import Any

from rocketmq_py.serde.base import Serde
from rocketmq_py.serde.json_bodies import Json


def serde_of(given: Any) -> Serde:
    """Return ``given`` if it encodes and decodes bodies; for a type, the JSON form of its values.

    :raises ConfigError: it is neither.
    """
    return given if isinstance(given, Serde) and not isinstance(given, type) else Json(given)
