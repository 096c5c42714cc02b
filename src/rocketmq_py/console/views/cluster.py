"""The overview of a cluster: its brokers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rocketmq_py.protocol.bodies.route import ClusterInfo

COLUMNS = ("cluster", "broker", "id", "role", "address", "version", "inPerSecond", "outPerSecond", "inToday",
           "outToday", "diskUsed", "upSince", "error")  # fmt: skip


def addresses(info: ClusterInfo) -> list[str]:
    """Return the addresses of all brokers, masters and slaves."""
    return sorted({address for data in info.broker_addr_table.values() for address in data.broker_addrs.values()})


def broker_rows(info: ClusterInfo, states: Mapping[str, Mapping[str, str] | str]) -> list[dict[str, Any]]:
    """Return a row for each broker.

    :param states: the runtime state by address, or why it is not known.
    """
    rows = []
    for name, data in sorted(info.broker_addr_table.items()):
        for broker_id, address in sorted(data.broker_addrs.items()):
            state = states.get(address, "")
            row = {
                "cluster": data.cluster,
                "broker": name,
                "id": broker_id,
                "role": "slave" if broker_id else "master",
                "address": address,
                "error": state if isinstance(state, str) else None,
            }
            rows.append(row | _figures({} if isinstance(state, str) else state))
    return sorted(rows, key=lambda row: (row["cluster"], row["broker"], row["id"]))


def _figures(state: Mapping[str, str]) -> dict[str, Any]:
    return {
        "version": state.get("brokerVersionDesc"),
        "inPerSecond": _rate(state, "putTps"),
        "outPerSecond": _rate(state, "getTransferredTps"),
        "inToday": _since(state, "msgPutTotal"),
        "outToday": _since(state, "msgGetTotal"),
        "diskUsed": _decimal(state.get("commitLogDiskRatio")),
        "upSince": _whole(state.get("bootTimestamp")),
    }


def _rate(state: Mapping[str, str], name: str) -> float | None:
    """Return the rate of the last ten seconds: the first of three."""
    words = state.get(name, "").split()
    return _decimal(words[0]) if words else None


def _since(state: Mapping[str, str], name: str) -> int | None:
    """Return what a counter has counted since midnight."""
    now, morning = _whole(state.get(f"{name}TodayNow")), _whole(state.get(f"{name}TodayMorning"))
    return None if now is None or morning is None else now - morning


def _decimal(text: str | None) -> float | None:
    try:
        found = float(text or "")
    except ValueError:
        return None
    return round(found, 3) if 0 <= found < float("inf") else None


def _whole(text: str | None) -> int | None:
    text = text or ""
    return int(text) if text.isascii() and text.isdigit() and len(text) < 20 else None
