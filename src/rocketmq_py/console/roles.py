"""What the users of a proxy may do: a file names them by role, since pages act with the access key of the console."""

from __future__ import annotations

from rocketmq_py.errors import ConfigError

VIEWER, OPERATOR, ADMIN = "viewer", "operator", "admin"
ROLES = (VIEWER, OPERATOR, ADMIN)
"""A viewer changes nothing. An operator also resets groups, resends dead letters, sends messages and has transactions
checked again. An admin also changes topics, settings, users and permissions."""

EVERYBODY = "*"
_MOST_BYTES = 1024 * 1024


class Roles:
    """Users by role: lines such as ``operator: ann bob``; ``*`` stands for everybody else, ``#`` begins a comment.

    :raises ConfigError: a line has another form, or a user has two roles.
    """

    def __init__(self, text: str) -> None:
        self._roles: dict[str, str] = {}
        for number, line in enumerate(text.splitlines(), 1):
            content = line.partition("#")[0].strip()
            if not content:
                continue
            role, colon, users = content.partition(":")
            role = role.strip()
            if not colon or role not in ROLES:
                raise ConfigError(f"--proxy-roles, line {number}: write ROLE: USER USER; a role is {', '.join(ROLES)}")
            for user in users.split():
                if self._roles.setdefault(user, role) != role:
                    raise ConfigError(f"--proxy-roles, line {number}: {user} is also {self._roles[user]}")
        if not self._roles:
            raise ConfigError("--proxy-roles names no user, so nobody could see anything")

    @classmethod
    def read(cls, path: str) -> Roles:
        """Read a file.

        :raises ConfigError: it cannot be read, or is malformed.
        """
        try:
            with open(path, "rb") as file:  # noqa: PTH123
                data = file.read(_MOST_BYTES + 1)
            text = data.decode()
        except (OSError, UnicodeDecodeError) as e:
            raise ConfigError(f"--proxy-roles {path}: {e}") from e
        if len(data) > _MOST_BYTES:
            raise ConfigError(f"--proxy-roles {path} is longer than {_MOST_BYTES} bytes")
        return cls(text)

    def of(self, user: str) -> str | None:
        """Return the role of a user; None if the file gives none."""
        return self._roles.get(user) or self._roles.get(EVERYBODY)
