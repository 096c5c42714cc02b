"""Names of the columns of a read. A separate module, since planners import neither the decoder nor Arrow."""

from __future__ import annotations

DEFAULT_COLUMNS = (
    *("topic", "brokerName", "queueId", "queueOffset", "body", "tags", "keys", "bornTimestamp", "storeTimestamp"),
    *("reconsumeTimes", "msgId"),
)
"""The columns of a read that names none."""

NUMPY_COLUMNS = frozenset({"flag", "transactionId", "bornHost", "storeHost", "commitLogOffset", "storeSize"})
"""Columns that the compiled decoder does not make: a read that names one is decoded with NumPy."""
