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
    :param secret_key: the key that signs requests; it is never sent or logged.
    :param security_token: the token that belongs to temporary keys, sent with each request; None for permanent keys.
    :raises ConfigError: a key is empty.
    """

    access_key: str
    secret_key: str = field(repr=False)
    security_token: str | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        if not self.access_key or not self.secret_key:
            raise ConfigError("credentials need an access key and a secret key")

    def fields(self) -> dict[str, str]:
        """Return the header fields that identify the user: the access key and, if there is one, the security token."""
        token = {SECURITY_TOKEN: self.security_token} if self.security_token else {}
        return {ACCESS_KEY: self.access_key, **token}

    def signed(self, ext: Mapping[str, str], body: bytes) -> dict[str, str]:
        """Return a copy of a request's header fields with access key, security token and signature added.

        The signature is invalid if fields are added or changed afterwards.
        """
        fields = {**ext, **self.fields()}
        fields[SIGNATURE] = sign(fields, body, self.secret_key)
        return fields


def signed_content(ext: Mapping[str, str], body: bytes) -> bytes:
    """Return the bytes a signature covers: the values of all header fields, sorted by field name, then the body."""
    return "".join([ext[name] for name in sorted(ext) if name != SIGNATURE]).encode() + body


def sign(ext: Mapping[str, str], body: bytes, secret_key: str) -> str:
    """Return the signature of a request in base64.

    :param ext: all its header fields, ``AccessKey`` included; a ``Signature`` is ignored.
    """
    return signature(secret_key.encode(), signed_content(ext, body))


def signature(secret: bytes, content: bytes) -> str:
    """Return the HMAC-SHA1 of ``content`` with the key ``secret``, in base64."""
    return _prepared(secret).sign(content).decode()


class SigningKey:
    """An HMAC-SHA1 key for many signatures. Its two hash states are computed once, which halves the time per signature.

    :param before: bytes that precede the content of every signature.
    """

    __slots__ = ("_inner", "_outer")

    def __init__(self, secret: bytes, before: bytes = b"") -> None:
        padded = (secret if len(secret) <= _BLOCK else _sha1(secret).digest()).ljust(_BLOCK, b"\0")
        self._inner = _sha1(bytes(byte ^ 0x36 for byte in padded) + before)
        self._outer = _sha1(bytes(byte ^ 0x5C for byte in padded))

    def sign(self, content: bytes, body: bytes = b"") -> bytes:
        """Return the HMAC-SHA1 of ``before``, ``content`` and ``body``, concatenated, in base64."""
        inner, outer = self._inner.copy(), self._outer.copy()
        inner.update(content)
        inner.update(body)
        outer.update(inner.digest())
        return binascii.b2a_base64(outer.digest(), newline=False)


@lru_cache(maxsize=256)
def _prepared(secret: bytes) -> SigningKey:
    return SigningKey(secret)
