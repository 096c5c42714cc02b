"""``rocketmq access``: manage users and permissions on brokers with access control."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

from rocketmq_py.cli.connect.connect import Target, cluster_options, with_admin
from rocketmq_py.cli.output.failures import missing
from rocketmq_py.cli.output.prompts import confirm, yes_option
from rocketmq_py.cli.output.tables import Row, echo_rows, output_option

if TYPE_CHECKING:
    from rocketmq_py.protocol.bodies.access import AclInfo, UserInfo

PASSWORD_VARIABLE = "ROCKETMQ_USER_PASSWORD"  # noqa: S105 - the name of the variable


@click.group(name="access")
def command() -> None:
    """Access control: users and their permissions.

    Changes apply to every broker of the cluster; each broker keeps its own list.
    """


@command.group("user")
def user_group() -> None:
    """Users: ls, create, update, delete."""


@command.group("acl")
def acl_group() -> None:
    """Permissions of users: ls, allow, deny, delete."""


# -- users


@user_group.command("ls")
@click.argument("name", required=False, default="")
@cluster_options
@output_option
def list_users(name: str, target: Target, output: str) -> None:
    """List users whose name contains NAME. Passwords are not shown."""
    echo_rows(
        map(user_row, with_admin(target, lambda admin: admin.users(name))), output, ("user", "type", "status")
    )  # fmt: skip


@user_group.command("create")
@click.argument("name")
@click.option("--super", "is_super", is_flag=True, help="Allow everything.")
@cluster_options
def create_user(name: str, is_super: bool, target: Target) -> None:
    """Add a user.

    The password comes from the environment variable ROCKETMQ_USER_PASSWORD or a prompt, not from the command line,
    which other users of the machine can see.
    """
    password = _password(name)
    with_admin(target, lambda admin: admin.create_user(name, password, is_super=is_super))


@user_group.command("update")
@click.argument("name")
@click.option(
    "--password", "new_password", is_flag=True, help="Set a new password, from the same sources as for create."
)
@click.option("--type", "kind", type=click.Choice(("normal", "super")), help="A super user may do everything.")
@click.option("--status", type=click.Choice(("enable", "disable")), help="A disabled user may do nothing.")
@cluster_options
def update_user(name: str, new_password: bool, kind: str | None, status: str | None, target: Target) -> None:
    """Change a user; fields without an option keep their value."""
    password = _password(name) if new_password else None
    is_super = None if kind is None else kind == "super"
    enabled = None if status is None else status == "enable"
    with_admin(
        target, lambda admin: admin.update_user(name, password=password, is_super=is_super, enabled=enabled)
    )  # fmt: skip


@user_group.command("delete")
@click.argument("name")
@yes_option
@cluster_options
def delete_user(name: str, yes: bool, target: Target) -> None:
    """Delete a user and its permissions."""
    if with_admin(target, lambda admin: admin.user(name)) is None:
        raise missing(f"there is no user {name!r}")
    confirm(f"Delete user {name} and its permissions?", yes=yes)
    with_admin(target, lambda admin: admin.delete_user(name))


def _password(name: str) -> str:
    given = os.environ.get(PASSWORD_VARIABLE)
    if given:
        return given
    if not sys.stdin.isatty():
        raise click.UsageError(f"there is no terminal to ask for a password: set {PASSWORD_VARIABLE}")
    return str(click.prompt(f"Password of {name}", hide_input=True, confirmation_prompt=True, err=True))


def user_row(user: UserInfo) -> Row:
    """Return the output row of a user, without its password."""
    return {"user": user.username, "type": user.user_type, "status": user.user_status}


# -- permissions


@acl_group.command("ls")
@click.argument("user", required=False, default="")
@click.option("--resource", metavar="TEXT", default="", help="Only resources whose name contains TEXT.")
@cluster_options
@output_option
def list_acls(user: str, resource: str, target: Target, output: str) -> None:
    """List permissions of users whose name contains USER."""
    found = with_admin(target, lambda admin: admin.acls(user, resource))
    rows = [row for acl in found for row in acl_rows(acl)]
    echo_rows(rows, output, ("user", "decision", "actions", "resource", "from", "kind"))


F = TypeVar("F", bound=Callable[..., Any])


def _permission_options(function: F) -> F:
    sources = click.option(
        "--from", "sources", multiple=True, metavar="ADDRESS", help="Only from this address or network. Repeatable."
    )
    resources = click.argument("resources", nargs=-1, required=True, metavar="RESOURCE...")
    return click.argument("user")(click.argument("actions")(resources(sources(cluster_options(function)))))


@acl_group.command("allow")
@_permission_options
def allow(user: str, actions: str, resources: tuple[str, ...], sources: tuple[str, ...], target: Target) -> None:
    """Allow USER to do ACTIONS to resources.

    ACTIONS are Pub, Sub, Create, Update, Delete, Get, List or All, with commas. A RESOURCE is Topic:NAME, Group:NAME,
    Cluster:NAME, each also as NAME* or *, or * for all. Replaces an earlier permission for the same resource.
    """
    _set(user, actions, resources, sources, target, allow=True)


@acl_group.command("deny")
@_permission_options
def deny(user: str, actions: str, resources: tuple[str, ...], sources: tuple[str, ...], target: Target) -> None:
    """Deny USER to do ACTIONS to resources. Arguments as for allow; the more specific permission decides."""
    _set(user, actions, resources, sources, target, allow=False)


def _set(
    user: str, actions: str, resources: tuple[str, ...], sources: tuple[str, ...], target: Target, *, allow: bool
) -> None:
    names = actions.split(",")
    with_admin(target, lambda admin: admin.set_acl(user, resources, names, allow=allow, source_ips=sources))


@acl_group.command("delete")
@click.argument("user")
@click.argument("resource", required=False)
@yes_option
@cluster_options
def delete_acl(user: str, resource: str | None, yes: bool, target: Target) -> None:
    """Delete the permissions of USER for RESOURCE, by default all."""
    if with_admin(target, lambda admin: admin.acl(user)) is None:
        raise missing(f"user {user!r} has no permissions")
    confirm(f"Delete the permissions of {user}{f' for {resource}' if resource else ''}?", yes=yes)
    with_admin(target, lambda admin: admin.delete_acl(user, resource))


def acl_rows(acl: AclInfo) -> list[Row]:
    """Return an output row for each permission in a user's access control list."""
    return [
        {
            "user": (acl.subject or "").partition(":")[2], "decision": entry.decision, "actions": entry.actions or [],
            "resource": entry.resource, "from": entry.source_ips or [], "kind": policy.policy_type,
        }
        for policy in acl.policies
        for entry in policy.entries
    ]  # fmt: skip
