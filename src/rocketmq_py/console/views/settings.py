"""The settings of brokers, where they differ; users and their permissions."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from rocketmq_py.protocol.bodies.access import AclInfo, UserInfo

COLUMNS = ("key", "value", "brokers", "differs")
CHANGE_COLUMNS = ("broker", "from", "to")
RULE_COLUMNS = ("subject", "policy", "resource", "actions", "sourceIps", "decision")

_SECRET = re.compile(r"secret|passw|credential|token|accesskey|header|initauthenticationuser", re.IGNORECASE)
_HIDDEN = "******"


def rows(configs: Mapping[str, Mapping[str, str]]) -> list[dict[str, Any]]:
    """Return a row for each setting and each of its values; values of secrets are hidden.

    :param configs: settings by broker.
    """
    found: list[dict[str, Any]] = []
    for key in sorted({key for config in configs.values() for key in config}):
        brokers: dict[str | None, list[str]] = {}
        for broker, config in sorted(configs.items()):
            brokers.setdefault(config.get(key), []).append(broker)
        found += [
            {"key": key, "value": _shown(key, value), "brokers": names, "differs": len(brokers) > 1}
            for value, names in brokers.items()
        ]
    return found


def _shown(key: str, value: str | None) -> str | None:
    return _HIDDEN if value and is_secret(key) else value


def is_secret(key: str) -> bool:
    """Return True if the value of a setting is not shown."""
    return _SECRET.search(key) is not None


def user_rows(users: Iterable[UserInfo]) -> list[dict[str, Any]]:
    """Return a row for each user, without the password that some brokers tell."""
    listed = [{"user": user.username, "type": user.user_type, "status": user.user_status} for user in users]
    return sorted(listed, key=lambda row: row["user"] or "")


def rule_rows(acls: Iterable[AclInfo]) -> list[dict[str, Any]]:
    """Return a row for each permission of each subject."""
    return [
        {"subject": acl.subject, "policy": policy.policy_type, "resource": entry.resource,
         "actions": list(entry.actions or ()), "sourceIps": list(entry.source_ips or ()), "decision": entry.decision}
        for acl in sorted(acls, key=lambda acl: acl.subject or "")
        for policy in acl.policies
        for entry in policy.entries
    ]  # fmt: skip
