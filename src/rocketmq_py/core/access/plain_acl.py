"""The permission file of Apache RocketMQ 4, ``plain_acl.yml``, converted to users and permissions of version 5.

The result equals that of Java's migration. Version 5 has no addresses that are exempt from signatures; the result lists
those of the file. All values are read as text, as in Java's declarations, and PyYAML constructs no objects. Errors
contain line numbers.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from rocketmq_py.core.access.permissions import Acl, AclEntry, Action, Kind, Resource, User
from rocketmq_py.errors import ConfigError

MAX_CHARACTERS = 1 << 20
"""Maximum length of a file, enough for thousands of accounts."""
_MAX_DEPTH = 4
"""Maximum number of nested collections: the file, the accounts, an account, its permissions."""

_LISTS = {"topicPerms": Kind.TOPIC, "groupPerms": Kind.GROUP}
_DEFAULTS = {"defaultTopicPerm": Kind.TOPIC, "defaultGroupPerm": Kind.GROUP}
_TEXTS = ("accessKey", "secretKey", "whiteRemoteAddress", "admin", *_DEFAULTS)
_TOP = ("globalWhiteRemoteAddresses", "accounts")
_ACCOUNT_EXPECTED = "an account is expected: '- accessKey: NAME'"
_ACTIONS = {"PUB": (Action.PUB,), "SUB": (Action.SUB,)}
_NULL = "tag:yaml.org,2002:null"

_Node = Any
"""A node of PyYAML's tree (it has no type hints): ``value`` is a text, a list of nodes or a list of pairs of nodes."""


class Account(NamedTuple):
    """A user and its permissions."""

    user: User
    acl: Acl


class PlainAcl(NamedTuple):
    """The content of a permission file.

    :param unsigned: addresses that the file exempts from signatures.
    """

    accounts: list[Account]
    unsigned: list[str]


def read_plain_acl(text: str) -> PlainAcl:
    """Parse the text of a permission file.

    :raises ConfigError: the file is invalid, too large, or contains aliases or tags (the error has the line number); or
        PyYAML is not installed.
    """
    root = _compose(text)
    accounts: list[Account] = []
    unsigned: list[str] = []
    for key, value in _pairs(root, _TOP, f"{' or '.join(_TOP)} is expected") if root is not None else ():
        if key == "accounts":
            accounts = [_account(item, unsigned) for item in _items(value, _ACCOUNT_EXPECTED)]
        else:
            unsigned[:0] = map(_text, _items(value, "a list of addresses is expected"))
    return PlainAcl(accounts, unsigned)


def _compose(text: str) -> _Node | None:
    """Parse YAML to PyYAML's tree of nodes; return None for an empty file.

    :raises ConfigError: the file is invalid, too large or too deep, or PyYAML is not installed.
    """
    try:
        import yaml
    except ImportError as e:
        raise ConfigError("PyYAML is not installed: pip install 'rocketmq-py[yaml]'") from e
    if len(text) > MAX_CHARACTERS:
        raise ConfigError(f"line 1: the file has more than {MAX_CHARACTERS} characters")
    try:
        _check_events(yaml.parse(text, Loader=yaml.SafeLoader))
        return yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.MarkedYAMLError as e:
        mark = e.problem_mark or e.context_mark
        raise ConfigError(f"line {mark.line + 1 if mark else 1}: {e.problem or e.context}") from e
    except yaml.YAMLError as e:  # the file contains characters that YAML forbids
        raise ConfigError(f"line 1: {e}") from e


def _check_events(events: Any) -> None:
    """Refuse aliases (with which a small file expands to a huge tree), explicit types and deep nesting.

    :param events: the events of PyYAML's parser, such as the start of a list.
    :raises ConfigError: the file contains one of these.
    """
    depth = 0
    for event in events:
        kind = type(event).__name__
        depth += kind.endswith("StartEvent") and not kind.startswith(("Stream", "Document"))
        depth -= kind in ("SequenceEndEvent", "MappingEndEvent")
        if getattr(event, "anchor", None) is not None or getattr(event, "tag", None) is not None:
            raise _fault(event, "anchors, aliases and tags are not supported")
        if depth > _MAX_DEPTH:
            raise _fault(event, f"more than {_MAX_DEPTH} nested lists and keys")


def _pairs(node: _Node, known: tuple[str, ...], expected: str) -> Iterator[tuple[str, _Node]]:
    """Yield the keys and values of a mapping.

    :param known: the allowed keys; each may occur once.
    :param expected: error text if the node is not a mapping.
    :raises ConfigError: the node is not a mapping, or a key is unknown or occurs twice.
    """
    if node.id != "mapping":
        raise _fault(node, expected)
    seen = set()
    for key, value in node.value:
        name = key.value if key.id == "scalar" else ""
        if name not in known:
            raise _fault(key, expected if known is _TOP else f"unknown key {name!r}; known are {', '.join(known)}")
        if name in seen:
            raise _fault(key, f"{name} is there twice")
        seen.add(name)
        yield name, value


def _items(node: _Node, expected: str) -> list[_Node]:
    """Return the items of a list; an empty list for a key without a value.

    :raises ConfigError: the node is not a list; ``expected`` is the text.
    """
    if node.tag == _NULL:
        return []
    if node.id != "sequence":
        raise _fault(node, expected)
    return list(node.value)


def _text(node: _Node) -> str:
    """Return the text of a value; empty for a key without a value.

    :raises ConfigError: the node is a list or mapping.
    """
    if node.id != "scalar":
        raise _fault(node, "a text is expected")
    return "" if node.tag == _NULL else str(node.value)


def _account(node: _Node, unsigned: list[str]) -> Account:
    """Convert an account; append the address that it exempts from signatures, if any, to ``unsigned``.

    :raises ConfigError: the account is invalid.
    """
    acl = Acl()
    texts: dict[str, str] = {}
    for key, value in _pairs(node, (*_TEXTS, *_LISTS), _ACCOUNT_EXPECTED):
        if key in _LISTS:
            items = _items(value, f"a list is expected below {key}")
            acl.custom.update({entry.resource: entry for entry in (_permission(item, _LISTS[key]) for item in items)})
            continue
        texts[key] = _text(value)
        if key == "admin" and texts[key] not in ("true", "false"):
            raise _fault(value, "admin is true or false")
        if key in _DEFAULTS and texts[key]:
            resource = Resource(_DEFAULTS[key])
            acl.default[resource] = _entry(value, resource, texts[key])
    for key in ("accessKey", "secretKey"):
        if not texts.get(key):
            raise _fault(node, f"the account that begins here has no {key}")
    if texts.get("whiteRemoteAddress"):
        unsigned.append(texts["whiteRemoteAddress"])
    return Account(
        User(name=texts["accessKey"], password=texts["secretKey"], is_super=texts.get("admin") == "true"), acl
    )


def _permission(node: _Node, kind: Kind) -> AclEntry:
    name, separator, perm = _text(node).partition("=")
    if not separator or not name:
        raise _fault(node, "'- NAME=PUB|SUB' below topicPerms or groupPerms is expected")
    return _entry(node, Resource(kind, name.strip()), perm.strip())


def _entry(node: _Node, resource: Resource, perm: str) -> AclEntry:
    if perm == "DENY":
        return AclEntry(resource, (Action.ALL,), allow=False)
    words = [word.strip() for word in perm.split("|")]
    if not all(word in _ACTIONS for word in words):
        raise _fault(node, f"{perm!r} is not a permission: DENY, PUB, SUB or PUB|SUB is expected")
    return AclEntry(resource, tuple(action for word in words for action in _ACTIONS[word]), allow=True)


def _fault(node: _Node, why: str) -> ConfigError:
    return ConfigError(f"line {node.start_mark.line + 1}: {why}")
