"""Signatures of requests, as Apache RocketMQ's AclClientRPCHook makes them and its brokers check them.

A signature covers the values of all header fields, in the order of their names and without separators, and the body.
Code, opaque, flag, remark and version are not signed.
"""

from __future__ import annotations

import binascii
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache

from rocketmq_py.errors import ConfigError

ACCESS_KEY = "AccessKey"
SECURITY_TOKEN = "SecurityToken"  # noqa: S105 - the name of the field
SIGNATURE = "Signature"

_BLOCK = 64
_sha1 = hashlib.sha1


@dataclass(frozen=True, slots=True)
class Credentials:
    """Access key and secret key of a client.

    :param access_key: the name of the user.
    :param secret_key: signs the requests; never sent, never logged.
    :param security_token: sent with temporary keys that come with one.
    :raises ConfigError: a key is empty.
    """

    access_key: str
    secret_key: str = field(repr=False)
    security_token: str | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        if not self.access_key or not self.secret_key:
            raise ConfigError("credentials need an access key and a secret key")

    def fields(self) -> dict[str, str]:
        """Return the header fields that identify the user."""
        token = {SECURITY_TOKEN: self.security_token} if self.security_token else {}
        return {ACCESS_KEY: self.access_key, **token}

    def signed(self, ext: Mapping[str, str], body: bytes) -> dict[str, str]:
        """Return the header fields of a request with those that sign it. Nothing may be added to them afterwards."""
        fields = {**ext, **self.fields()}
        fields[SIGNATURE] = sign(fields, body, self.secret_key)
        return fields


def signed_content(ext: Mapping[str, str], body: bytes) -> bytes:
    """Return the bytes a signature covers: all values of header fields in the order of their names, then the body."""
    return "".join([ext[name] for name in sorted(ext) if name != SIGNATURE]).encode() + body


def sign(ext: Mapping[str, str], body: bytes, secret_key: str) -> str:
    """Return the signature of a request with these header fields (``AccessKey`` among them) and body."""
    return signature(secret_key.encode(), signed_content(ext, body))


def signature(secret: bytes, content: bytes) -> str:
    """Return HMAC-SHA1 in base64."""
    return _prepared(secret).sign(content).decode()


class SigningKey:
    """A secret prepared for many signatures: HMAC's two states are computed once, which halves the time of each
    signature.

    :param before: a prefix of everything that is signed.
    """

    __slots__ = ("_inner", "_outer")

    def __init__(self, secret: bytes, before: bytes = b"") -> None:
        padded = (secret if len(secret) <= _BLOCK else _sha1(secret).digest()).ljust(_BLOCK, b"\0")
        self._inner = _sha1(bytes(byte ^ 0x36 for byte in padded) + before)
        self._outer = _sha1(bytes(byte ^ 0x5C for byte in padded))

    def sign(self, content: bytes, body: bytes = b"") -> bytes:
        """Return HMAC-SHA1 in base64 of the prefix, ``content`` and ``body``."""
        inner, outer = self._inner.copy(), self._outer.copy()
        inner.update(content)
        inner.update(body)
        outer.update(inner.digest())
        return binascii.b2a_base64(outer.digest(), newline=False)


@lru_cache(maxsize=256)
def _prepared(secret: bytes) -> SigningKey:
    return SigningKey(secret)
