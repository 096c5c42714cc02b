"""Users and permissions: nothing is deleted without the question, and what is said arrives."""

from __future__ import annotations

from typing import Any, Self

import pytest
from click.testing import CliRunner, Result

from rocketmq_py.cli import access, main
from rocketmq_py.protocol.bodies.access import AclInfo, UserInfo


class FakeAdmin:
    """Notes what it is told. ``found``: what there is to delete."""

    def __init__(self) -> None:
        self.told: list[tuple[Any, ...]] = []
        self.found = True

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        """Nothing is open."""

    async def user(self, name: str) -> UserInfo | None:
        return UserInfo(username=name) if self.found else None

    async def acl(self, name: str) -> AclInfo | None:
        return AclInfo(subject=f"User:{name}") if self.found else None

    def __getattr__(self, name: str) -> Any:
        async def note(*args: Any, **options: Any) -> None:
            self.told.append((name, *args, options) if options else (name, *args))

        return note


@pytest.fixture
def admin(monkeypatch: pytest.MonkeyPatch) -> FakeAdmin:
    fake = FakeAdmin()
    monkeypatch.setattr("rocketmq_py.cli.connect.connect.Target.admin", lambda *_, **__: fake)
    return fake


def run(*words: str) -> Result:
    return CliRunner().invoke(main, ["access", *words, "--namesrv", "127.0.0.1:1"])


DELETIONS = pytest.mark.parametrize(
    ("words", "told", "question"),
    [
        (("user", "delete", "ann"), ("delete_user", "ann"), "Delete user ann and its permissions?"),
        (("acl", "delete", "ann"), ("delete_acl", "ann", None), "Delete the permissions of ann?"),
        (
            ("acl", "delete", "ann", "Topic:t"),
            ("delete_acl", "ann", "Topic:t"),
            "Delete the permissions of ann for Topic:t?",
        ),
    ],
)


@DELETIONS
def test_nothing_is_deleted_without_the_question(
    admin: FakeAdmin, words: tuple[str, ...], told: tuple[object, ...], question: str
) -> None:
    refused = run(*words)
    assert refused.exit_code == 2
    assert question in " ".join(refused.output.replace("│", " ").split())
    assert admin.told == []
    assert run(*words, "--yes").exit_code == 0
    assert admin.told == [told]


@DELETIONS
@pytest.mark.parametrize(("reply", "deletes"), [(True, True), (False, False)])
def test_the_answer_decides(
    admin: FakeAdmin,
    monkeypatch: pytest.MonkeyPatch,
    words: tuple[str, ...],
    told: tuple[object, ...],
    question: str,
    reply: bool,
    deletes: bool,
) -> None:
    asked: list[str] = []

    def confirm(text: str, *, yes: bool) -> None:
        assert not yes
        asked.append(text)
        if not reply:
            raise access.click.Abort

    monkeypatch.setattr(access, "confirm", confirm)
    assert run(*words).exit_code == (0 if reply else 1)
    assert asked == [question]
    assert admin.told == ([told] if deletes else [])


@DELETIONS
def test_who_is_not_there_is_not_deleted(
    admin: FakeAdmin, words: tuple[str, ...], told: tuple[object, ...], question: str
) -> None:
    del told, question
    admin.found = False
    assert run(*words, "--yes").exit_code != 0
    assert admin.told == []


@pytest.mark.parametrize(("verb", "allow"), [("allow", True), ("deny", False)])
def test_permissions_arrive_as_they_were_said(admin: FakeAdmin, verb: str, allow: bool) -> None:
    assert run("acl", verb, "ann", "Pub,Sub", "Topic:t", "Group:g").exit_code == 0
    [(name, user, resources, actions, options)] = admin.told
    assert (name, user, tuple(resources), actions) == ("set_acl", "ann", ("Topic:t", "Group:g"), ["Pub", "Sub"])
    assert options["allow"] is allow
