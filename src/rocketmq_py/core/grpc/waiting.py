"""How long a ReceiveMessage waits, and for how long it makes messages invisible."""

from __future__ import annotations

from rocketmq_py.protocol.grpc.enums import Code
from rocketmq_py.protocol.grpc.refusal import CallRefused

MIN_POLLING_MS, MAX_POLLING_MS = 5_000, 20_000
MIN_INVISIBLE_MS, MAX_INVISIBLE_MS = 10_000, 12 * 3_600_000
RENEWED_INVISIBLE_MS = 60_000
"""The invisible time of messages whose receipts are renewed for the client."""
_FIRST_VERSION_THAT_KNOWS = (5, 0, 3)


def polling_ms(wanted_ms: int | None, left_ms: int | None, request_timeout_ms: int, version: str) -> int:
    """Return how long a call waits for messages, in milliseconds.

    :param wanted_ms: the polling time that the client names; None if it names none.
    :param left_ms: the time until its deadline; None without one.
    :param request_timeout_ms: the timeout in the client's settings.
    :param version: the client's version, on which the code of a refusal depends.
    :raises CallRefused: the deadline is too near.
    """
    left = MAX_POLLING_MS * 10 if left_ms is None else left_ms
    wait = left - request_timeout_ms // 2 if wanted_ms is None else wanted_ms
    wait = min(max(wait, MIN_POLLING_MS), MAX_POLLING_MS)
    if wait <= left:
        return wait
    if left >= MIN_POLLING_MS:
        return left
    code = Code.ILLEGAL_POLLING_TIME if _version(version) >= _FIRST_VERSION_THAT_KNOWS else Code.BAD_REQUEST
    raise CallRefused(code, f"the deadline of the call leaves {left} ms, polling takes {MIN_POLLING_MS} ms at least")


def _version(text: str) -> tuple[int, ...]:
    parts = text.split("-", maxsplit=1)[0].split(".")
    return tuple(int(part) if part.isdecimal() and len(part) < 6 else 0 for part in parts)


def check_invisible(ms: int, least_ms: int = MIN_INVISIBLE_MS) -> int:
    """Return an invisible time in milliseconds, if it is allowed.

    :raises CallRefused: it is shorter than ``least_ms`` or longer than 12 hours.
    """
    if not least_ms <= ms <= MAX_INVISIBLE_MS:
        text = f"the invisible time is {ms} ms: {least_ms} to {MAX_INVISIBLE_MS} are possible"
        raise CallRefused(Code.ILLEGAL_INVISIBLE_TIME, text)
    return ms
