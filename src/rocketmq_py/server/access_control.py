"""Access control of a server: its settings, its users and permissions, and the check of every request.

It verifies signatures; ``core.access.permissions`` decides what a user may do. The caller loads and saves the table.
"""

from __future__ import annotations

import hmac
import logging
import os
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, Self

import msgspec

from rocketmq_py.core import java_config
from rocketmq_py.core.access import permissions
from rocketmq_py.core.access.permissions import Acl, AclEntry, Action, RequiredPermission, Resource, User
from rocketmq_py.core.access.plain_acl import PlainAcl, read_plain_acl
from rocketmq_py.core.access.required_permissions import required_permissions
from rocketmq_py.errors import BadHeader, BrokerError, ConfigError
from rocketmq_py.protocol.bodies.access import AclInfo, EntryInfo, PolicyInfo, UserInfo
from rocketmq_py.protocol.bodies.client import describe_client
from rocketmq_py.protocol.codes import RequestCode, ResponseCode
from rocketmq_py.server.peer import Peer
from rocketmq_py.server.requests.reply import Reply
from rocketmq_py.wire.command import Command
from rocketmq_py.wire.signing import ACCESS_KEY, SIGNATURE, Credentials, sign

log = logging.getLogger(__name__)

_SWITCHES = ("authenticationEnabled", "authorizationEnabled")
_LISTS = ("authenticationWhitelist", "authorizationWhitelist")
_SECRETS = ("initAuthenticationUser", "innerClientAuthenticationCredentials")
PLAIN, _PLAIN_FILE = "aclEnable", "rocketmq.acl.plain.file"
PROVIDERS = {
    "authenticationProvider": "org.apache.rocketmq.auth.authentication.provider.DefaultAuthenticationProvider",
    "authorizationProvider": "org.apache.rocketmq.auth.authorization.provider.DefaultAuthorizationProvider",
}
"""Classes of Java that decide who is let in, and the only one of each that this server has an equal of."""
WITHOUT_EFFECT = frozenset(
    java_config.parse_defaults("""
    aclCacheExpiredSecond aclCacheMaxNum aclCacheRefreshSecond authConfigPath authenticationMetadataProvider
    authenticationStrategy authorizationMetadataProvider authorizationStrategy clusterName configName
    statefulAuthenticationCacheExpiredSecond statefulAuthenticationCacheMaxNum
    statefulAuthorizationCacheExpiredSecond statefulAuthorizationCacheMaxNum userCacheExpiredSecond userCacheMaxNum
    userCacheRefreshSecond
""")
)
"""Caches, classes and places of Java's, which have no effect here."""
MIGRATE = "migrateAuthFromV1Enabled"

KEYS = frozenset({*_SWITCHES, *_LISTS, *_SECRETS, *PROVIDERS, *WITHOUT_EFFECT, MIGRATE, PLAIN, _PLAIN_FILE})
"""All keys of access control."""


RecordPermissions = Callable[[Command], list[RequiredPermission]]
"""Returns the permissions for the stored records that a request names."""


class AccessSettings(msgspec.Struct, frozen=True, kw_only=True):
    """What Apache RocketMQ's keys for access control say.

    :param authentication_enabled: whether requests must be signed.
    :param authorization_enabled: whether users need permissions; super users never do.
    :param init_user: a super user that is made at the start unless there is one of that name.
    :param inner: what this server signs its own requests with; its user is made, too.
    :param plain: what the permission file of version 4 says, where ``aclEnable`` is set.
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
            raise ConfigError("authorizationEnabled needs authenticationEnabled: unsigned requests are nobody's")

    @classmethod
    def of(cls, settings: Mapping[str, str]) -> Self:
        """The settings of keys and values.

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
    """The settings that are not about access, and those that are. Errors as :meth:`AccessSettings.of`."""
    others = {key: text for key, text in settings.items() if key not in KEYS}
    return others, AccessSettings.of(settings)


def _unsupported(settings: Mapping[str, str]) -> list[str]:
    """One sentence for each setting that asks for a protection this server does not have."""
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
        raise ConfigError(f"{key} is not understood: {{{wanted}}} is expected")
    return found


def _plain(settings: Mapping[str, str]) -> PlainAcl:
    home = os.environ.get("ROCKETMQ_HOME", "")
    named = settings.get(_PLAIN_FILE) or (f"{home}/conf/plain_acl.yml" if home else "")
    if not named:
        raise ConfigError(f"{PLAIN} is set, but nothing says where the permissions are: set {_PLAIN_FILE}")
    path = Path(named).expanduser()
    try:
        return read_plain_acl(java_config.split_lines(path.read_text()))
    except OSError as e:
        raise ConfigError(f"{_PLAIN_FILE}: {path} cannot be read: {e.strerror}") from e
    except ConfigError as e:
        raise ConfigError(f"{path}, {e}") from e


def _codes(key: str, settings: Mapping[str, str]) -> frozenset[int]:
    words = [word.strip() for word in settings.get(key, "").split(",") if word.strip()]
    if not all(word.isdecimal() for word in words):
        raise ConfigError(f"{key} is {settings[key]!r}: request codes with commas between them are expected")
    return frozenset(map(int, words))


class AccessControl:
    """Users and permissions of a server, and whether a request is let in.

    :param load: the saved table, or None.
    :param save: keeps the table.
    :param cluster: the name of the server's cluster.
    :raises ConfigError: the saved table is not understood.
    """

    def __init__(
        self, settings: AccessSettings, load: Callable[[], Any], save: Callable[[Any], None], cluster: str
    ) -> None:
        self._settings = settings
        self._save = save
        self._cluster = cluster
        self._users: dict[str, User] = {}
        self._acls: dict[str, Acl] = {}
        self._read(load())
        self._given = self._take_file()
        self._make_first_users()

    @property
    def guards(self) -> bool:
        """Whether requests are looked at."""
        return self._settings.authentication_enabled

    @property
    def inner(self) -> Credentials | None:
        """What this server signs its own requests with."""
        return self._settings.inner

    # -- the look at a request

    def admit(
        self,
        peer: Peer,
        request: Command,
        record_permissions: RecordPermissions = lambda _: [],
    ) -> Reply | None:
        """Why a request is not let in; None when it is.

        :param record_permissions: returns the permissions for the stored records that a request names.
        """
        try:
            why = self._refusal(peer, request, record_permissions)
        except (BadHeader, ValueError) as e:  # text that is none (a lone surrogate), too
            why = f"its permissions cannot be told: {e}"
        if why is None:
            return None
        if request.code == RequestCode.HEART_BEAT:
            client = describe_client(request.body, request.language)
            log.warning("the heartbeat of %s at %s is refused: %s", client, peer.address, why)
        else:
            log.debug("request %d of %s is refused: %s", request.code, peer.address, why)
        return Reply(ResponseCode.NO_PERMISSION, why)

    def _refusal(self, peer: Peer, request: Command, record_permissions: RecordPermissions) -> str | None:
        settings, code = self._settings, request.code
        is_open = not settings.authorization_enabled or code in settings.authorization_whitelist
        may_be_unsigned = code in settings.authentication_whitelist
        if is_open and may_be_unsigned:
            return None
        user = self._signed_by(request)
        if isinstance(user, str) and not may_be_unsigned:
            return user
        if is_open:
            return None
        wanted = required_permissions(code, request.ext, request.body, self._cluster)
        if isinstance(user, str):
            return user if wanted else None  # nobody has a permission
        ip = peer.address.rpartition(":")[0].strip("[]")
        return self._denial(user, wanted, ip) or self._record_denial(user, request, record_permissions, ip)

    def _denial(self, user: User, wanted: Iterable[RequiredPermission], ip: str) -> str | None:
        return permissions.denial_reason(user, self._acls.get(user.name), wanted, ip)

    def _record_denial(
        self, user: User, request: Command, record_permissions: RecordPermissions, ip: str
    ) -> str | None:
        if user.is_super or self._denial(user, record_permissions(request), ip) is None:
            return None
        return f"User:{user.name} has no permission for the topic of the stored message"  # without the topic's name

    def _signed_by(self, request: Command) -> User | str:
        """Who has signed a request, or what is wrong with that."""
        name = request.ext.get(ACCESS_KEY)
        if not name:
            return "the request is not signed: this server asks for credentials (an access key and a secret key)"
        user = self._users.get(name)
        if user is None:
            return f"User:{name} is not found."
        if not user.enabled:
            return f"User:{name} is disabled."
        expected = sign(request.ext, request.body, user.password)
        if not hmac.compare_digest(expected.encode(), request.ext.get(SIGNATURE, "").encode()):
            return "check signature failed."
        return user

    # -- users

    def user(self, name: str) -> User | None:
        """The user of a name."""
        return self._users.get(name)

    def users(self, part: str = "") -> list[User]:
        """The users whose names contain ``part``."""
        return [user for name, user in sorted(self._users.items()) if part in name]

    def create_user(self, user: User) -> None:
        """Add a user.

        :raises BrokerError: NO_PERMISSION: there is one of that name, or the name or password is blank.
        """
        if not user.name.strip() or not user.password.strip():
            raise _no("username can not be blank" if not user.name.strip() else "password can not be blank")
        if user.name in self._users:
            raise _no("The user is existed")
        self._users[user.name] = user
        self._keep()

    def update_user(self, name: str, password: str | None, is_super: bool | None, enabled: bool | None) -> None:
        """Change what is given of a user.

        :raises BrokerError: NO_PERMISSION: there is none.
        """
        user = self._users.get(name)
        if user is None:
            raise _no("The user is not exist")
        self._changeable(name)
        user.password = password or user.password
        user.is_super = user.is_super if is_super is None else is_super
        user.enabled = user.enabled if enabled is None else enabled
        self._keep()

    def delete_user(self, name: str) -> None:
        """Remove a user and the permissions it has, if there is one.

        :raises BrokerError: NO_PERMISSION: it is one of the permission file.
        """
        self._changeable(name)
        self._users.pop(name, None)
        self._acls.pop(name, None)
        self._keep()

    # -- permissions

    def acl(self, subject: str) -> AclInfo | None:
        """The permissions of ``User:NAME``.

        :raises BrokerError: NO_PERMISSION: there is no such user.
        """
        name = self._subject(subject)
        found = self._acls.get(name)
        return None if found is None else _info(name, found)

    def acls(self, subject: str = "", resource: str = "") -> list[AclInfo]:
        """All permissions of users and about resources whose texts contain these."""
        return [
            info
            for name, found in sorted(self._acls.items())
            if subject in f"User:{name}" and (info := _info(name, found, resource)).policies
        ]

    def put_acl(self, subject: str, info: AclInfo) -> None:
        """Add permissions; those about the same resource are replaced.

        :raises BrokerError: NO_PERMISSION: no such user, or the permissions are not understood.
        """
        name = self._subject(subject)
        self._changeable(name)
        if not info.policies or not all(policy.entries for policy in info.policies):
            raise _no("The policies is empty.")
        try:
            acl = self._acls.get(name) or Acl()
            found = [
                (acl.table(policy.policy_type or "Custom"), _entry(entry))
                for policy in info.policies
                for entry in policy.entries
            ]
        except ConfigError as e:
            raise _no(str(e)) from e
        for table, entry in found:
            table[entry.resource] = entry
        self._acls[name] = acl
        self._keep()

    def delete_acl(self, subject: str, policy_type: str | None, resource: str | None) -> None:
        """Remove the permissions of a user, or the one about a resource.

        :raises BrokerError: NO_PERMISSION: there is no such user, or nothing to remove.
        """
        name = self._subject(subject)
        self._changeable(name)
        acl = self._acls.get(name)
        if acl is None:
            raise _no("The acl is not exist.")
        if resource:
            try:
                acl.table(policy_type or "Custom").pop(Resource.parse(resource), None)
            except ConfigError as e:
                raise _no(str(e)) from e
        if not resource or not (acl.custom or acl.default):
            del self._acls[name]
        self._keep()

    def _subject(self, subject: str) -> str:
        kind, _, name = subject.partition(":")
        if kind != "User" or name not in self._users:
            raise _no(f"The subject of {subject} is not exist.")
        return name

    # -- the table

    def _read(self, saved: Any) -> None:
        try:
            table = msgspec.convert(saved or {}, _Table)
            for info in table.users:
                self._users[info.username or ""] = user_of(info)
            for acl in table.acls:
                found = self._acls.setdefault((acl.subject or "").removeprefix("User:"), Acl())
                for policy in acl.policies:
                    entries = map(_entry, policy.entries)
                    found.table(policy.policy_type or "Custom").update({entry.resource: entry for entry in entries})
        except (msgspec.ValidationError, ConfigError) as e:
            raise ConfigError(f"the saved users and permissions are not understood: {e}") from e

    def _take_file(self) -> frozenset[str]:
        """Take over the users of the permission file, which win; their names."""
        plain = self._settings.plain
        if plain is None:
            return frozenset()
        if plain.unsigned:
            log.warning(
                "the permission file lets these addresses in without a signature, which has no effect here: %s",
                ", ".join(plain.unsigned),
            )
        for user, acl in plain.accounts:
            self._users[user.name], self._acls[user.name] = user, acl
        return frozenset(account.user.name for account in plain.accounts)

    def _changeable(self, name: str) -> None:
        if name in self._given:
            raise _no(f"User:{name} is one of the permission file: change it there")

    def _make_first_users(self) -> None:
        first, inner = self._settings.init_user, self._settings.inner
        wanted = [first] if first is not None else []
        if inner is not None:
            wanted.append(User(name=inner.access_key, password=inner.secret_key, is_super=True))
        new = {user.name: user for user in reversed(wanted) if user.name not in self._users}
        self._users |= new
        if new:
            self._keep()

    def _keep(self) -> None:
        users = [info_of(user) for user in self.users() if user.name not in self._given]
        acls = [_info(name, acl) for name, acl in sorted(self._acls.items()) if name not in self._given]
        table = _Table(users=users, acls=acls)
        self._save(msgspec.to_builtins(table))


class _Table(msgspec.Struct):
    users: list[UserInfo] = []
    acls: list[AclInfo] = []


def user_of(info: UserInfo) -> User:
    """A user as requests and files describe it."""
    return User(
        name=info.username or "", password=info.password or "", is_super=(info.user_type or "").lower() == "super",
        enabled=(info.user_status or "enable").lower() != "disable",
    )  # fmt: skip


def info_of(user: User) -> UserInfo:
    """The description of a user."""
    return UserInfo(
        username=user.name, password=user.password, user_type="Super" if user.is_super else "Normal",
        user_status="enable" if user.enabled else "disable",
    )  # fmt: skip


def _entry(info: EntryInfo) -> AclEntry:
    decisions = {"allow": True, "deny": False}
    allow = decisions.get((info.decision or "").lower())
    if allow is None:
        raise ConfigError("The decision is null or illegal.")
    actions = tuple(_action(word) for word in info.actions or ())
    return AclEntry(Resource.parse(info.resource or ""), actions, allow, tuple(info.source_ips or ()))


def _action(word: str) -> Action:
    found = next((action for action in Action if action.value.lower() == word.strip().lower()), None)
    if found is None:
        raise ConfigError(f"{word!r} is no action: {', '.join(action.value for action in Action)} are possible")
    return found


def _info(name: str, acl: Acl, part: str = "") -> AclInfo:
    policies = []
    for kind, table in (("Custom", acl.custom), ("Default", acl.default)):
        entries = [
            EntryInfo(
                resource=str(entry.resource), actions=[action.value for action in entry.actions],
                source_ips=list(entry.source_ips) or None, decision="Allow" if entry.allow else "Deny",
            )
            for entry in table.values()
            if part in str(entry.resource)
        ]  # fmt: skip
        if entries:
            policies.append(PolicyInfo(policy_type=kind, entries=entries))
    return AclInfo(subject=f"User:{name}", policies=policies)


def _no(why: str) -> BrokerError:
    return BrokerError.of(ResponseCode.NO_PERMISSION, why)
