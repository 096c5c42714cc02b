"""Settings of access control, parsed from Apache RocketMQ's keys and values."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Self

import msgspec

from rocketmq_py.core import java_config
from rocketmq_py.core.access.permissions import User
from rocketmq_py.core.access.plain_acl import MAX_CHARACTERS, PlainAcl, read_plain_acl
from rocketmq_py.errors import ConfigError
from rocketmq_py.wire.signing import Credentials

_SWITCHES = ("authenticationEnabled", "authorizationEnabled")
_LISTS = ("authenticationWhitelist", "authorizationWhitelist")
_SECRETS = ("initAuthenticationUser", "innerClientAuthenticationCredentials")
PLAIN, _PLAIN_FILE = "aclEnable", "rocketmq.acl.plain.file"
PROVIDERS = {
    "authenticationProvider": "org.apache.rocketmq.auth.authentication.provider.DefaultAuthenticationProvider",
    "authorizationProvider": "org.apache.rocketmq.auth.authorization.provider.DefaultAuthorizationProvider",
}
"""The only accepted value of each of these keys: the Java class whose checks this server implements."""
WITHOUT_EFFECT = frozenset(
    java_config.parse_defaults("""
    aclCacheExpiredSecond aclCacheMaxNum aclCacheRefreshSecond authConfigPath authenticationMetadataProvider
    authenticationStrategy authorizationMetadataProvider authorizationStrategy clusterName configName
    statefulAuthenticationCacheExpiredSecond statefulAuthenticationCacheMaxNum
    statefulAuthorizationCacheExpiredSecond statefulAuthorizationCacheMaxNum userCacheExpiredSecond userCacheMaxNum
    userCacheRefreshSecond
""")
)
"""Keys for Java's caches, classes and paths, which have no effect here."""
MIGRATE = "migrateAuthFromV1Enabled"

KEYS = frozenset({*_SWITCHES, *_LISTS, *_SECRETS, *PROVIDERS, *WITHOUT_EFFECT, MIGRATE, PLAIN, _PLAIN_FILE})
"""All settings keys of access control."""


class AccessSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of access control.

    :param authentication_enabled: whether requests must be signed.
    :param authorization_enabled: whether users need permissions; super users never do.
    :param init_user: super user that is created at the start unless a user of that name exists.
    :param inner: credentials with which this server signs its own requests; its user is created, too.
    :param plain: content of the permission file of version 4, if ``aclEnable`` is set.
    :param authentication_whitelist: codes of requests that need no signature.
    :param authorization_whitelist: codes of requests that need no permission.
    """

    authentication_enabled: bool = False
    authorization_enabled: bool = False
    init_user: User | None = None
    inner: Credentials | None = None
    plain: PlainAcl | None = None
    authentication_whitelist: frozenset[int] = frozenset()
    authorization_whitelist: frozenset[int] = frozenset()

    def __post_init__(self) -> None:
        if self.authorization_enabled and not self.authentication_enabled:
            raise ConfigError("authorizationEnabled needs authenticationEnabled: an unsigned request has no user")

    @classmethod
    def of(cls, settings: Mapping[str, str]) -> Self:
        """Parse keys and values.

        :raises ConfigError: a value of the wrong kind, or a combination that cannot work.
        """
        switches = (*_SWITCHES, PLAIN, MIGRATE)
        faults = [java_config.value_fault(key, settings[key], bool) for key in switches if key in settings]
        faults += _unsupported(settings)
        if any(faults):
            raise ConfigError("; ".join(filter(None, faults)))
        on = {key: settings.get(key, "false").lower() == "true" for key in _SWITCHES}
        plain = _plain(settings) if settings.get(PLAIN, "").lower() == "true" else None
        user, inner = (_secret(key, settings.get(key, "")) for key in _SECRETS)
        return cls(
            authentication_enabled=on[_SWITCHES[0]] or plain is not None,
            authorization_enabled=on[_SWITCHES[1]] or plain is not None, plain=plain,
            init_user=User(name=user["username"], password=user["password"], is_super=True) if user else None,
            inner=Credentials(inner["accessKey"], inner["secretKey"], inner.get("securityToken")) if inner else None,
            authentication_whitelist=_codes(_LISTS[0], settings), authorization_whitelist=_codes(_LISTS[1], settings),
        )  # fmt: skip


def split(settings: Mapping[str, str]) -> tuple[dict[str, str], AccessSettings]:
    """Return the settings without the keys of access control, and the parsed settings of access control.

    Errors as :meth:`AccessSettings.of`.
    """
    others = {key: text for key, text in settings.items() if key not in KEYS}
    return others, AccessSettings.of(settings)


def _unsupported(settings: Mapping[str, str]) -> list[str]:
    """Return an error text for each setting that requires a protection this server does not have."""
    faults = [
        f"{key} is {settings[key]!r}: this server has {accepted.rpartition('.')[2]} only"
        for key, accepted in PROVIDERS.items()
        if settings.get(key, "").strip() not in ("", accepted)
    ]
    if settings.get(MIGRATE, "").strip().lower() == "true":
        faults.append(
            f"{MIGRATE} is 'true': this server does not convert the permission file of version 4; set {PLAIN}=true "
            f"and {_PLAIN_FILE} to serve with that file"
        )
    return faults


_MEMBERS = {_SECRETS[0]: ("username", "password"), _SECRETS[1]: ("accessKey", "secretKey")}


def _secret(key: str, text: str) -> dict[str, str]:
    if not text.strip():
        return {}
    try:
        found = msgspec.json.decode(text, type=dict[str, str])
    except msgspec.DecodeError:
        found = {}
    if not all(found.get(member) for member in _MEMBERS[key]):
        wanted = ", ".join(f'"{member}": "..."' for member in _MEMBERS[key])
        raise ConfigError(f"{key} is invalid: {{{wanted}}} is expected")
    return found


def _plain(settings: Mapping[str, str]) -> PlainAcl:
    home = os.environ.get("ROCKETMQ_HOME", "")
    named = settings.get(_PLAIN_FILE) or (f"{home}/conf/plain_acl.yml" if home else "")
    if not named:
        raise ConfigError(f"{PLAIN} is set, but {_PLAIN_FILE} and ROCKETMQ_HOME are not")
    path = Path(named).expanduser()
    try:
        with path.open() as file:
            return read_plain_acl(file.read(MAX_CHARACTERS + 1))
    except OSError as e:
        raise ConfigError(f"{_PLAIN_FILE}: {path} cannot be read: {e.strerror}") from e
    except ConfigError as e:
        raise ConfigError(f"{path}, {e}") from e


def _codes(key: str, settings: Mapping[str, str]) -> frozenset[int]:
    words = [word.strip() for word in settings.get(key, "").split(",") if word.strip()]
    if not all(word.isdecimal() for word in words):
        raise ConfigError(f"{key} is {settings[key]!r}: request codes with commas between them are expected")
    return frozenset(map(int, words))
