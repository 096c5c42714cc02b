"""Signatures of requests, as Java's AclClientRPCHook makes them: Base64 of an HMAC-SHA1."""

from __future__ import annotations

import base64
import hashlib
import hmac
from collections.abc import Mapping

SIGNATURE = "Signature"


def signed_content(ext: Mapping[str, str], body: bytes) -> bytes:
    """What a signature covers: the values of all header fields in the order of their names, then the body."""
    return "".join(ext[name] for name in sorted(ext) if name != SIGNATURE).encode() + body


def sign(ext: Mapping[str, str], body: bytes, secret_key: str) -> str:
    """The signature of a request with these header fields (``AccessKey`` among them) and body."""
    digest = hmac.new(secret_key.encode(), signed_content(ext, body), hashlib.sha1).digest()
    return base64.b64encode(digest).decode()
