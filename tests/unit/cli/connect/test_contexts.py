"""Saved clusters: the file, the verbs, and which cluster a command means."""

import json
import os

import click
import pytest
from click.testing import CliRunner

from rocketmq_py.cli import main
from rocketmq_py.cli.connect import contexts
from rocketmq_py.cli.connect.connect import DEFAULT_NAMESRV, address_map, choose, with_admin
from rocketmq_py.cli.connect.contexts import Contexts, SavedCluster
from rocketmq_py.errors import ConfigError, ConnectError


def run(*args):
    return CliRunner().invoke(main, ("context", *args))


def test_a_context_is_saved_selected_and_removed(contexts_file):
    assert run("set", "dev", "--namesrv", "10.0.0.1:9876").output == "saved context dev (current)\n"
    saved = run("set", "prod", "--namesrv", "a:1, b:2", "--map", "10.0.0.1:10911=localhost:1", "--timeout", "9")
    assert saved.output == "saved context prod\n"
    assert run("use", "prod").output == "the current context is prod\n"
    shown = json.loads(run("show", "-o", "json").output)
    assert shown == {
        "name": "prod", "current": True, "namesrv": "a:1;b:2", "addressMap": {"10.0.0.1:10911": "localhost:1"},
        "timeout": 9.0,
    }  # fmt: skip
    assert [line.split() for line in run("ls").output.splitlines()] == [
        ["current", "name", "namesrv"], ["no", "dev", "10.0.0.1:9876"], ["yes", "prod", "a:1;b:2"],
    ]  # fmt: skip
    assert run("delete", "prod").output == "deleted context prod\n"
    assert json.loads(contexts_file.read_text()) == {"contexts": {"dev": {"namesrv": "10.0.0.1:9876"}}}
    assert [path.name for path in contexts_file.parent.iterdir()] == ["contexts.json"]


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (("use", "nope"), "there is no context 'nope'; saved are: none; save one with 'rocketmq context set'"),
        (("delete", "nope"), "there is no context 'nope'"),
        (("show",), "no context is current"),
        (("set", "a b", "--namesrv", "h:1"), "'a b' is no name for a context"),
        (("set", "a", "--namesrv", "nowhere"), "'nowhere' is not an address"),
        (("set", "a", "--namesrv", "h:1", "--map", "x"), "'x' is no pair FROM=TO of addresses"),
    ],
)
def test_invalid_contexts_are_refused(args, said, contexts_file):
    result = run(*args)
    assert result.exit_code == 2
    assert said in result.output
    assert not contexts_file.exists()


def test_a_foreign_file_is_not_overwritten(contexts_file):
    contexts_file.parent.mkdir()
    contexts_file.write_text("[]")
    result = run("set", "dev", "--namesrv", "h:1")
    assert result.exit_code == 2
    assert f"the saved contexts in {contexts_file} cannot be understood" in result.output
    assert contexts_file.read_text() == "[]"


def test_an_unwritable_file_is_named(contexts_file):
    contexts_file.parent.write_text("a file where the directory should be")
    with pytest.raises(ConfigError, match="cannot be saved"):
        contexts.save(Contexts(), contexts_file)


def test_the_default_file_is_in_the_configuration_directory(monkeypatch):
    monkeypatch.delenv(contexts.FILE_VARIABLE)
    assert contexts.file_path() == contexts.Path(click.get_app_dir("rocketmq")) / "contexts.json"


# -- which cluster is meant


SAVED = Contexts(current="dev", contexts={"dev": SavedCluster("dev:1"), "prod": SavedCluster("prod:1", {"a": "b"}, 7)})


@pytest.mark.parametrize(
    ("namesrv", "context", "environment", "meant"),
    [
        ("given:1", "prod", {"NAMESRV_ADDR": "env:1"}, ("given:1", "--namesrv")),
        (None, "prod", {"NAMESRV_ADDR": "env:1"}, ("prod:1", "context prod")),
        (None, None, {"NAMESRV_ADDR": "env:1"}, ("env:1", "NAMESRV_ADDR")),
        (None, None, {"NAMESRV_ADDR": ""}, ("dev:1", "context dev")),
    ],
)
def test_options_take_precedence_over_environment_and_context(namesrv, context, environment, meant):
    assert choose(namesrv, context, environment, lambda: SAVED)[:2] == meant


def test_a_context_contains_broker_addresses():
    target = choose(None, "prod", {}, lambda: SAVED)
    assert (target.address_map, target.timeout) == ({"a": "b"}, 7)


def test_without_contexts_the_default_is_localhost():
    target = choose(None, None, {}, Contexts)
    assert target.namesrv == DEFAULT_NAMESRV
    assert target.origin.startswith("the default")


def test_an_unreachable_cluster_error_names_the_source_of_its_address():
    async def ask(admin):
        await admin.cluster()

    target = choose(None, None, {}, Contexts)._replace(namesrv="127.0.0.1:1")
    with pytest.raises(
        ConnectError, match=r"cannot connect to 127.0.0.1:1.* since there is no --namesrv, NAMESRV_ADDR or"
    ):
        with_admin(target, ask)
    with pytest.raises(ConnectError) as e:
        with_admin(target._replace(origin="--namesrv"), ask)
    assert "since no --namesrv" not in str(e.value)


def test_an_unknown_context_is_refused():
    with pytest.raises(ConfigError, match="there is no context 'x'; saved are: dev, prod"):
        choose(None, "x", {}, lambda: SAVED)


def test_address_pairs_are_parsed():
    assert address_map(("10.0.0.1:1 = h:2", "b=c")) == {"10.0.0.1:1": "h:2", "b": "c"}
    for text in ("x", "=b", "a="):
        with pytest.raises(click.BadParameter):
            address_map((text,))


def test_context_names_are_completed(contexts_file):
    contexts.save(SAVED, contexts_file)
    for words, at, offered in (("context use pr", "3", "prod"), ("topic ls --context d", "4", "dev")):
        completing = {"_ROCKETMQ_COMPLETE": "bash_complete", "COMP_WORDS": f"rocketmq {words}", "COMP_CWORD": at}
        result = CliRunner().invoke(main, env={**os.environ, **completing}, prog_name="rocketmq")
        assert result.output == f"plain,{offered}\n"
