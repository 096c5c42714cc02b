"""``rocketmq context``: the current cluster, and what is saved."""

import json

import pytest

from rocketmq_py.cli.connect import contexts


@pytest.fixture
def saved(run, contexts_file):
    def load():
        return contexts.load(contexts_file)

    for name in ("dev", "prod"):
        assert run(f"context set {name} --namesrv {name}:1").exit_code == 0
    return load


def test_the_first_context_is_the_current_one_until_another_is_used(saved, run):
    assert saved().current == "dev"
    assert run("context set prod --namesrv p:2").output == "saved context prod\n"
    assert (saved().current, saved().get("prod").namesrv) == ("dev", "p:2")
    assert run("context set prod --namesrv p:3 --use").output == "saved context prod (current)\n"
    assert saved().current == "prod"


def test_security_is_saved_only_if_it_is_given(saved, run):
    assert saved().get("dev").security is None
    assert run("context set dev --namesrv d:1 --tls --access-key ann").exit_code == 0
    assert (saved().get("dev").security.tls, saved().get("dev").security.access_key) == (True, "ann")
    assert json.loads(run("context show dev -o json").output)["security"] == {"tls": True, "accessKey": "ann"}
    assert "security" not in json.loads(run("context show prod -o json").output)


def test_the_current_context_is_shown_unless_another_is_named(saved, run):
    assert json.loads(run("context show -o json").output)["name"] == "dev"
    shown = json.loads(run("context show prod -o json").output)
    assert shown == {"name": "prod", "current": False, "namesrv": "prod:1", "addressMap": {}, "timeout": None}


def test_a_deleted_context_is_not_current_any_more(saved, run):
    assert run("context delete prod").exit_code == 0
    assert saved().current == "dev"
    assert run("context delete dev").exit_code == 0
    assert (saved().current, saved().contexts) == (None, {})
    assert run("context show").exit_code == 2


def test_a_timeout_is_positive(run):
    assert run("context set dev --namesrv d:1 --timeout 0.09").exit_code == 2


@pytest.mark.parametrize("name", ["", "a b", "a\tb"])
def test_a_name_has_no_space(run, name, contexts_file):
    assert run("context", "set", name, "--namesrv", "h:1").exit_code == 2
    assert not contexts_file.exists()


def test_a_file_that_cannot_be_read_is_named(run, contexts_file):
    contexts_file.mkdir(parents=True)
    result = run("context ls")
    assert (result.exit_code, f"the saved contexts in {contexts_file} cannot be read" in result.output) == (2, True)
