"""The clients of a command, completion, and that the cluster in memory is used like a real one."""

import asyncio
import inspect

import click
import pytest

from rocketmq_py.cli.connect import connect
from rocketmq_py.cli.connect.connect import Target, with_admin
from rocketmq_py.cli.connect.contexts import Contexts, SavedCluster, save
from rocketmq_py.cli.connect.security import CliSecurity
from rocketmq_py.client.admin.admin import Admin
from rocketmq_py.client.producer.producer import Producer
from rocketmq_py.errors import ConnectError, NetworkError, NoRouteError
from rocketmq_py.tls import TlsOptions
from rocketmq_py.wire.signing import Credentials
from tests.unit.cli.memory_admin import MemoryAdmin

FULL = Target("h:1", "--namesrv", {"a": "b"}, 7.0, tls=TlsOptions(), credentials=Credentials("a", "b"))


def test_the_cluster_in_memory_has_the_interface_of_a_real_one():
    for name, method in vars(MemoryAdmin).items():
        if inspect.isfunction(method) and not name.startswith(("_", "add_", "commit")):
            assert str(inspect.signature(method)) == str(inspect.signature(getattr(Admin, name))), name


# -- clients


@pytest.mark.parametrize("skip_silent", [False, True])
def test_an_administration_client_has_the_options_of_the_target(monkeypatch, skip_silent):
    seen = []
    monkeypatch.setattr(Admin, "__init__", lambda _, *args, **options: seen.append((args, options)))
    FULL.admin(skip_silent=skip_silent)
    assert seen == [
        (("h:1",), {"timeout": 7.0, "address_map": {"a": "b"}, "tls": TlsOptions(),
                    "credentials": Credentials("a", "b"), "skip_silent": skip_silent})
    ]  # fmt: skip


def test_a_producer_has_the_options_of_the_target(monkeypatch):
    seen = []
    monkeypatch.setattr(Producer, "__init__", lambda _, *args, **options: seen.append((args, options)))
    FULL.producer(retries=0)
    assert seen == [
        (("rocketmq-cli", "h:1"), {"address_map": {"a": "b"}, "tls": TlsOptions(),
                                   "credentials": Credentials("a", "b"), "retries": 0})
    ]  # fmt: skip


def test_brokers_that_do_not_answer_are_errors_unless_told(admin):
    async def answer(given):
        assert (given.opened, given.closed) == (1, 0)
        return 7

    assert with_admin(FULL, answer) == 7
    assert (admin.skips_silent, admin.closed) == (False, 1)


@pytest.mark.parametrize(
    ("origin", "error", "said"),
    [
        ("the default, since nothing is set", ConnectError("refused"),
         "refused. h:1 is the default, since nothing is set"),
        ("--namesrv", ConnectError("refused"), "refused"),
        ("the default, since nothing is set", NetworkError("lost"), "lost"),
    ],
)  # fmt: skip
def test_the_default_address_is_named_if_nobody_is_there(admin, origin, error, said):
    async def fail(_):
        raise error

    with pytest.raises(type(error)) as raised:
        with_admin(FULL._replace(origin=origin), fail)
    assert str(raised.value) == said
    assert admin.closed == 1


# -- options


@pytest.fixture
def target_of(contexts_file):
    """The target of a command with a command line; ``dev`` and ``prod`` are saved."""
    save(
        Contexts(
            current="dev",
            contexts={
                "dev": SavedCluster("dev:1"),
                "prod": SavedCluster("prod:1", {"a": "b", "c": "d"}, 9.0, CliSecurity(ca="ca.pem")),
            },
        ),
        contexts_file,
    )

    @click.command()
    @connect.cluster_options
    def command(target):
        return target

    return lambda *words: command.main(words, standalone_mode=False)


def test_options_complete_the_saved_cluster(target_of):
    target = target_of("--context", "prod", "--map", "a=x")
    assert target[:4] == ("prod:1", "context prod", {"a": "x", "c": "d"}, 9.0)
    assert (target.tls, target.credentials) == (TlsOptions(ca="ca.pem"), None)
    assert target_of("--context", "prod", "--timeout", "0.1", "--no-tls")[3:7] == (
        0.1, CliSecurity(ca="ca.pem"), None, None,
    )  # fmt: skip


def test_without_options_the_current_context_is_used(target_of):
    assert target_of() == Target("dev:1", "context dev")
    assert target_of("--namesrv", "h:1").timeout == 5.0


def test_credentials_come_from_the_environment(target_of, monkeypatch):
    monkeypatch.setenv("ROCKETMQ_SECRET_KEY", "s")
    assert target_of("--access-key", "k").credentials == Credentials("k", "s")


def test_a_timeout_is_positive(target_of):
    with pytest.raises(click.BadParameter):
        target_of("--timeout", "0.09")


# -- completion


def context_of(**params):
    ctx = click.Context(click.Command("x"))
    ctx.params = params
    return ctx


@pytest.fixture
def targets(admin, monkeypatch):
    seen = []

    def connected(target, *, skip_silent=False):
        seen.append(target)
        return admin

    monkeypatch.setattr(Target, "admin", connected)
    return seen


def test_topics_and_groups_are_completed_within_a_second(admin, targets):
    for name in ("orders", "other", "bills"):
        admin.add_topic(name)
        admin.add_group(f"g-{name}")
    assert connect.complete_topic(context_of(namesrv="h:9"), None, "o") == ["orders", "other"]
    assert connect.complete_group(context_of(), None, "g-b") == ["g-bills"]
    assert [(target.namesrv, target.timeout) for target in targets] == [("h:9", 1.0), ("127.0.0.1:9876", 1.0)]


@pytest.mark.parametrize("error", [ConnectError("refused"), NoRouteError("none"), click.UsageError("keys")])
def test_a_completion_that_fails_offers_nothing(admin, targets, error):
    admin.failures["topics"] = error
    assert connect.complete_topic(context_of(), None, "") == []
    assert targets


def test_contexts_are_completed(target_of):
    assert connect._contexts(None, None, "") == ["dev", "prod"]
    assert connect._contexts(None, None, "p") == ["prod"]


def test_damaged_contexts_complete_nothing(contexts_file):
    contexts_file.parent.mkdir()
    contexts_file.write_text("[")
    assert connect._contexts(None, None, "") == []


def test_work_is_cancelled_by_an_interrupt(admin):
    async def interrupted(_):
        await asyncio.sleep(0)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        with_admin(FULL, interrupted)
    assert admin.closed == 1
