"""The JSON shape of the broker's tables in the files under ``config/``: members sorted, nulls left out, as in Java."""

from __future__ import annotations

from typing import Any

import msgspec

from rocketmq_py.protocol.bodies.base import Body, DataVersion, without_nulls


def bean(body: Body) -> dict[str, Any]:
    """Convert a body to a dict with members sorted by name and without nulls, as fastjson writes a bean."""
    tree = without_nulls(msgspec.to_builtins(body, str_keys=True, order="sorted"))
    assert isinstance(tree, dict)
    return tree


def version_of(tree: Any, otherwise: DataVersion) -> DataVersion:
    """Return the ``dataVersion`` in a file's content, or ``otherwise`` if it has none."""
    found = tree.get("dataVersion") if isinstance(tree, dict) else None
    return DataVersion.convert(found) if found else otherwise


def int_keys(table: Any) -> dict[int, int]:
    """Convert keys and values of a map from a JSON file to integers; None becomes an empty dict."""
    return {int(key): int(value) for key, value in (table or {}).items()}
