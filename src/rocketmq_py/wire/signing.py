"""Signatures of requests, as Apache RocketMQ's AclClientRPCHook makes them and its brokers check them.

What is signed are the values of all header fields, in the order of their names and without anything between them, and
the body. Code, opaque, flag, remark and version are not signed. Refuses to know who may do what.
"""

from __future__ import annotations

import binascii
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field

from rocketmq_py.errors import ConfigError

ACCESS_KEY = "AccessKey"
SECURITY_TOKEN = "SecurityToken"  # noqa: S105 - the name of the field
SIGNATURE = "Signature"

_BLOCK = 64
_sha1 = hashlib.sha1


@dataclass(frozen=True, slots=True)
class Credentials:
    """Who a client says it is.

    :param access_key: the name of the user.
    :param secret_key: what its requests are signed with; never sent, never shown.
    :param security_token: sent along where temporary keys come with one.
    :raises ConfigError: a part is empty.
    """

    access_key: str
    secret_key: str = field(repr=False)
    security_token: str | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        if not self.access_key or not self.secret_key:
            raise ConfigError("credentials need an access key and a secret key")

    def fields(self) -> dict[str, str]:
        """The header fields that say who is asking."""
        token = {SECURITY_TOKEN: self.security_token} if self.security_token else {}
        return {ACCESS_KEY: self.access_key, **token}

    def signed(self, ext: Mapping[str, str], body: bytes) -> dict[str, str]:
        """The header fields of a request with those that sign it. Nothing may be added to them any more."""
        fields = {**ext, **self.fields()}
        fields[SIGNATURE] = sign(fields, body, self.secret_key)
        return fields


def signed_content(ext: Mapping[str, str], body: bytes) -> bytes:
    """What a signature covers: the values of all header fields in the order of their names, then the body."""
    return "".join([ext[name] for name in sorted(ext) if name != SIGNATURE]).encode() + body


def sign(ext: Mapping[str, str], body: bytes, secret_key: str) -> str:
    """The signature of a request with these header fields (``AccessKey`` among them) and body."""
    return signature(secret_key.encode(), signed_content(ext, body))


def signature(secret: bytes, content: bytes) -> str:
    """HMAC-SHA1 in base64."""
    return SigningKey(secret).sign(content).decode()


class SigningKey:
    """A secret made ready to sign many requests: HMAC's two states are made once, which halves the time of each.

    :param before: what everything that is signed begins with.
    """

    __slots__ = ("_inner", "_outer")

    def __init__(self, secret: bytes, before: bytes = b"") -> None:
        padded = (secret if len(secret) <= _BLOCK else _sha1(secret).digest()).ljust(_BLOCK, b"\0")
        self._inner = _sha1(bytes(byte ^ 0x36 for byte in padded) + before)
        self._outer = _sha1(bytes(byte ^ 0x5C for byte in padded))

    def sign(self, content: bytes, body: bytes = b"") -> bytes:
        """HMAC-SHA1 of what comes behind the beginning, and of a body behind that, in base64."""
        inner, outer = self._inner.copy(), self._outer.copy()
        inner.update(content)
        inner.update(body)
        outer.update(inner.digest())
        return binascii.b2a_base64(outer.digest(), newline=False)
