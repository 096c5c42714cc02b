"""The permission file of Apache RocketMQ 4, ``plain_acl.yml``, converted to users and permissions of version 5.

The parser reads the subset of YAML that such files use: keys with values, and lists of texts or of keys with values. It
needs no YAML library and reports errors with line numbers. The result is that of Java's own migration; addresses exempt
from signatures do not exist in version 5, so they are reported and not converted.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from rocketmq_py.core.access.permissions import Acl, AclEntry, Action, Kind, Resource, User
from rocketmq_py.errors import ConfigError

_KEYS = {
    "accessKey", "secretKey", "whiteRemoteAddress", "admin", "defaultTopicPerm", "defaultGroupPerm", "topicPerms",
    "groupPerms",
}  # fmt: skip
_LISTS = {"topicPerms": Kind.TOPIC, "groupPerms": Kind.GROUP}
_DEFAULTS = {"defaultTopicPerm": Kind.TOPIC, "defaultGroupPerm": Kind.GROUP}
_TOP = ("globalWhiteRemoteAddresses", "accounts")
_LINE = re.compile(r"(?P<indent> *)(?P<item>- *)?(?:(?P<key>[A-Za-z]+) *:(?: +(?P<value>.*))?|(?P<text>.+))")
_ACTIONS = {"PUB": (Action.PUB,), "SUB": (Action.SUB,)}


class Account(NamedTuple):
    """A user and its permissions."""

    user: User
    acl: Acl


class PlainAcl(NamedTuple):
    """The content of a file.

    :param unsigned: addresses it exempts from signatures.
    """

    accounts: list[Account]
    unsigned: list[str]


class _Line(NamedTuple):
    number: int
    is_item: bool
    key: str | None
    value: str


def read_plain_acl(lines: Iterable[str]) -> PlainAcl:
    """Parse the lines of a file.

    :raises ConfigError: a line is invalid (the error has its number), or an account lacks a key.
    """
    top: str | None = None
    unsigned: list[str] = []
    drafts: list[_Draft] = []
    for line in _lines(lines):
        if line.key in _TOP and not line.is_item:
            top = line.key
        elif top == "globalWhiteRemoteAddresses" and line.is_item and line.key is None:
            unsigned.append(line.value)
        elif top == "accounts":
            if line.is_item and line.key is not None:
                drafts.append(_Draft(line.number))
            elif not drafts:
                raise _fault(line, "an account is expected: '- accessKey: NAME'")
            drafts[-1].take(line)
        else:
            raise _fault(line, f"{' or '.join(_TOP)} is expected")
    accounts = [draft.account() for draft in drafts]
    unsigned += [address for draft in drafts if (address := draft.values.get("whiteRemoteAddress"))]
    return PlainAcl(accounts, unsigned)


def _lines(lines: Iterable[str]) -> Iterator[_Line]:
    for number, raw in enumerate(lines, 1):
        text = re.sub(r"(^|\s)#.*$", "", raw.rstrip()).rstrip()
        if not text or text == "---":
            continue
        match = _LINE.fullmatch(text)
        if "\t" in text or match is None:
            raise ConfigError(f"line {number}: {text.strip()!r} is not understood; indent with spaces")
        value = match["text"] if match["key"] is None else match["value"] or ""
        yield _Line(number, match["item"] is not None, match["key"], value.strip().strip("'\""))


class _Draft:
    """An account whose lines are still being read."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.values: dict[str, str] = {}
        self._acl = Acl()
        self._list: Kind | None = None

    def take(self, line: _Line) -> None:
        if line.key is None:
            self._permission(line)
            return
        if line.key not in _KEYS:
            raise _fault(line, f"unknown key {line.key!r}; known are {', '.join(sorted(_KEYS))}")
        if line.key in self.values:
            raise _fault(line, f"{line.key} is there twice in one account")
        self.values[line.key] = line.value
        self._list = _LISTS.get(line.key)
        if self._list is not None and line.value not in ("", "[]"):
            raise _fault(line, f"a list is expected below {line.key}")
        if line.key == "admin" and line.value not in ("true", "false"):
            raise _fault(line, "admin is true or false")
        if line.key in _DEFAULTS and line.value:
            resource = Resource(_DEFAULTS[line.key])
            self._acl.default[resource] = _entry(line, resource, line.value)

    def _permission(self, line: _Line) -> None:
        name, separator, perm = line.value.partition("=")
        if self._list is None or not line.is_item or not separator or not name:
            raise _fault(line, "'- NAME=PUB|SUB' below topicPerms or groupPerms is expected")
        resource = Resource(self._list, name.strip())
        self._acl.custom[resource] = _entry(line, resource, perm.strip())

    def account(self) -> Account:
        name, secret = self.values.get("accessKey", ""), self.values.get("secretKey", "")
        if not name or not secret:
            missing = "accessKey" if not name else "secretKey"
            raise ConfigError(f"line {self.number}: the account that begins here has no {missing}")
        user = User(name=name, password=secret, is_super=self.values.get("admin") == "true")
        return Account(user, self._acl)


def _entry(line: _Line, resource: Resource, perm: str) -> AclEntry:
    if perm == "DENY":
        return AclEntry(resource, (Action.ALL,), allow=False)
    words = [word.strip() for word in perm.split("|")]
    if not all(word in _ACTIONS for word in words):
        raise _fault(line, f"{perm!r} is not a permission: DENY, PUB, SUB or PUB|SUB is expected")
    return AclEntry(resource, tuple(action for word in words for action in _ACTIONS[word]), allow=True)


def _fault(line: _Line, why: str) -> ConfigError:
    return ConfigError(f"line {line.number}: {why}")
