"""Users and permissions of a server, and the table in which they are saved."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Generator, Iterator, Mapping
from functools import partial
from typing import Any

import msgspec

from rocketmq_py.core.access.permissions import Acl, Resource, User
from rocketmq_py.core.access.plain_acl import PlainAcl
from rocketmq_py.errors import BrokerError, ConfigError
from rocketmq_py.protocol.bodies.access import AclInfo, UserInfo
from rocketmq_py.protocol.codes import ResponseCode
from rocketmq_py.server.access.conversion import acl_info, entry_of, info_of, user_of
from rocketmq_py.server.access.settings import AccessSettings

log = logging.getLogger(__name__)

USERS, ACLS = "users", "acls"
"""The members of the saved table."""

EntryKey = tuple[str, str]
"""Member of the saved table and name of a user."""

Entry = Callable[[], UserInfo | AclInfo]
"""Returns the saved form of a user or of its permissions; may be called in another thread, where it takes no time of
the event loop.
"""

Save = Callable[[Mapping[EntryKey, Entry | None]], asyncio.Future[None] | None]
"""Saves changed entries, None for a removed one. Returns what is done when they are on disk; None if they are."""


class _SavedTable(msgspec.Struct):
    users: list[UserInfo] = []
    acls: list[AclInfo] = []


class AccessTable:
    """Users and permissions of a server.

    :param load: returns the saved table; None if nothing was saved yet.
    :param save: saves changes; the first ones come with all other entries.
    :raises ConfigError: the saved table is invalid.
    """

    def __init__(self, settings: AccessSettings, load: Callable[[], Any], save: Save) -> None:
        self._save = save
        self._has_saved = False
        self._saving: asyncio.Future[None] | None = None
        self._users: dict[str, User] = {}
        self._acls: dict[str, Acl] = {}
        self._read(load())
        self._read_only = self._add_accounts(settings.plain)
        self._create_first_users(settings)

    async def saved(self) -> None:
        """Wait until all changes are on disk.

        :raises OSError: the disk is full or fails; the next change saves these changes, too.
        """
        if self._saving is not None:
            await asyncio.shield(self._saving)

    def user(self, name: str) -> User | None:
        """Return the user of this name; None if there is none."""
        return self._users.get(name)

    def users(self, part: str = "") -> list[User]:
        """Return the users whose names contain ``part``, sorted by name."""
        return [user for name, user in sorted(self._users.items()) if part in name]

    def create_user(self, user: User) -> None:
        """Add a user.

        :raises BrokerError: with the code NO_PERMISSION, if the user exists, or the name or password is blank.
        """
        if not user.name.strip() or not user.password.strip():
            raise _no("username can not be blank" if not user.name.strip() else "password can not be blank")
        if user.name in self._users:
            raise _no("The user is existed")
        self._users[user.name] = user
        self._changed((USERS, user.name))

    def update_user(self, name: str, password: str | None, is_super: bool | None, enabled: bool | None) -> None:
        """Change a user; values that are None, and an empty password, are left as they are.

        :raises BrokerError: with the code NO_PERMISSION, if the user does not exist or the permission file defines it.
        """
        user = self._users.get(name)
        if user is None:
            raise _no("The user is not exist")
        self._check_writable(name)
        self._users[name] = User(
            name=name, password=password or user.password, is_super=user.is_super if is_super is None else is_super,
            enabled=user.enabled if enabled is None else enabled,
        )  # fmt: skip
        self._changed((USERS, name))

    def delete_user(self, name: str) -> None:
        """Remove a user and its permissions, if it exists.

        :raises BrokerError: NO_PERMISSION, the permission file defines the user.
        """
        self._check_writable(name)
        self._users.pop(name, None)
        self._acls.pop(name, None)
        self._changed((USERS, name), (ACLS, name))

    # -- permissions

    def acl_of(self, name: str) -> Acl | None:
        """Return the permissions of the user of this name; None if it has none."""
        return self._acls.get(name)

    def acl(self, subject: str) -> AclInfo | None:
        """Return the permissions of a user; None if the user has none.

        :param subject: ``User:NAME``.
        :raises BrokerError: NO_PERMISSION, the user does not exist.
        """
        name = self._subject(subject)
        found = self._acls.get(name)
        return None if found is None else acl_info(name, found)

    def acls(self, subject: str = "", resource: str = "") -> Iterator[AclInfo | None]:
        """Iterate over the permissions whose subject (``User:NAME``) and resource contain these texts, sorted by user.

        None for each user without such permissions, so that a step takes little time.
        """
        for name, found in sorted(self._acls.items(), key=lambda item: item[0]):
            info = acl_info(name, found, resource) if subject in f"User:{name}" else None
            yield info if info is not None and info.policies else None

    def put_acl(self, subject: str, info: AclInfo) -> Generator[None, None, None]:
        """Add permissions to a user, in short steps; they replace earlier ones for the same resource.

        They are added together in the last step.

        :param subject: ``User:NAME``.
        :raises BrokerError: NO_PERMISSION, if the user does not exist or the permission file defines it, or if ``info``
            has no permissions or an invalid one.
        """
        self._check_writable(self._subject(subject))
        if not info.policies or not all(policy.entries for policy in info.policies):
            raise _no("The policies is empty.")
        found = Acl()
        try:
            for policy in info.policies:
                table = found.table(policy.policy_type or "Custom")
                for one in policy.entries:
                    entry = entry_of(one)
                    table[entry.resource] = entry
                    yield
        except ConfigError as e:
            raise _no(str(e)) from e
        name = self._subject(subject)  # again, since the user may have been deleted meanwhile
        acl = self._acls.setdefault(name, Acl())
        acl.custom.update(found.custom)
        acl.default.update(found.default)
        self._changed((ACLS, name))

    def delete_acl(self, subject: str, policy_type: str | None, resource: str | None) -> None:
        """Remove all permissions of a user, or only the one for a resource.

        :param subject: ``User:NAME``.
        :param policy_type: "Custom" or "Default", used with ``resource``; None is "Custom".
        :param resource: the resource; None or "" removes all permissions.
        :raises BrokerError: NO_PERMISSION, if the user does not exist, has no permissions, or is defined by the
            permission file, or if the resource or the policy type is invalid.
        """
        name = self._subject(subject)
        self._check_writable(name)
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
        self._changed((ACLS, name))

    def _subject(self, subject: str) -> str:
        kind, _, name = subject.partition(":")
        if kind != "User" or name not in self._users:
            raise _no(f"The subject of {subject} is not exist.")
        return name

    # -- loading and saving

    def _read(self, saved: Any) -> None:
        try:
            table = msgspec.convert(saved or {}, _SavedTable)
            for info in table.users:
                self._users[info.username or ""] = user_of(info)
            for acl in table.acls:
                found = self._acls.setdefault((acl.subject or "").removeprefix("User:"), Acl())
                for policy in acl.policies:
                    entries = map(entry_of, policy.entries)
                    found.table(policy.policy_type or "Custom").update({entry.resource: entry for entry in entries})
        except (msgspec.ValidationError, ConfigError) as e:
            raise ConfigError(f"the saved users and permissions are invalid: {e}") from e

    def _add_accounts(self, plain: PlainAcl | None) -> frozenset[str]:
        """Add the users of the permission file, replacing saved ones; return their names."""
        if plain is None:
            return frozenset()
        if plain.unsigned:
            log.warning(
                "the permission file exempts these addresses from signatures, which has no effect here: %s",
                ", ".join(plain.unsigned),
            )
        for user, acl in plain.accounts:
            self._users[user.name], self._acls[user.name] = user, acl
        return frozenset(account.user.name for account in plain.accounts)

    def _check_writable(self, name: str) -> None:
        if name in self._read_only:
            raise _no(f"User:{name} is defined in the permission file: change it there")

    def _create_first_users(self, settings: AccessSettings) -> None:
        first, inner = settings.init_user, settings.inner
        wanted = [first] if first is not None else []
        if inner is not None:
            wanted.append(User(name=inner.access_key, password=inner.secret_key, is_super=True))
        new = {user.name: user for user in reversed(wanted) if user.name not in self._users}
        self._users |= new
        if new:
            self._changed(*((USERS, name) for name in new))

    def _changed(self, *changed: EntryKey) -> None:
        """Save entries, and the first time all others with them; not those that the permission file defines."""
        keys = list(changed)
        if not self._has_saved:
            self._has_saved = True
            keys += [(USERS, name) for name in self._users] + [(ACLS, name) for name in self._acls]
        self._saving = self._save({key: self._entry(*key) for key in keys if key[1] not in self._read_only})

    def _entry(self, member: str, name: str) -> Entry | None:
        if member == USERS:
            user = self._users.get(name)
            return None if user is None else partial(info_of, user)
        acl = self._acls.get(name)
        return None if acl is None else partial(acl_info, name, acl)


def _no(why: str) -> BrokerError:
    return BrokerError.of(ResponseCode.NO_PERMISSION, why)
