"""``rocketmq console``: what it hands to the server, and what it refuses before it starts."""

import asyncio
import http.client
import sys

import pytest

from rocketmq_py.cli import console
from rocketmq_py.cli.connect.contexts import Contexts, SavedCluster, save
from rocketmq_py.console import server
from rocketmq_py.server.monitoring.endpoint import MonitoringEndpoint
from rocketmq_py.wire.signing import Credentials
from tests.unit.spark.monitoring.test_report import checkpoint


@pytest.fixture
def served(monkeypatch):
    """What the server was started with; it is ready at once, and ends with its input if it is supervised."""
    seen = {}

    async def serve(connection, *, on_ready, until, **options):
        del options["figures"]
        if options["proxy"] is None:
            del options["proxy"]
        if options["checkpoints"] is None:
            del options["checkpoints"]
        if options["masks"].is_open:
            del options["masks"]
        if isinstance(connection, list):
            seen.update(options, sites=[(site.name, site.connection.namesrv, site.connect) for site in connection])
        else:
            seen.update(options, namesrv=connection.namesrv, timeout=connection._timeout)
        on_ready("http://127.0.0.1:4711")
        if until is not None:
            await until()
        for one in [site.connection for site in connection] if isinstance(connection, list) else [connection]:
            await one.close()

    monkeypatch.setattr(server, "serve", serve)
    return seen


def test_options_arrive_and_the_address_is_printed(run, served):
    result = run("console --namesrv n:1 --timeout 2 --port 0 --read-only --allowed-host a --allowed-host b")
    assert (result.exit_code, result.output) == (0, "READY console=http://127.0.0.1:4711\n")
    assert served == {
        "host": "127.0.0.1", "port": 0, "read_only": True, "hosts": ("a", "b"), "namesrv": "n:1", "timeout": 2.0,
        "connect": None, "https": None,
    }  # fmt: skip


def test_roles_of_a_proxy_s_users_arrive(run, served, tmp_path):
    roles = tmp_path / "roles"
    roles.write_text("admin: ann")
    words = ("console", "--auth-header", "X-User", "--auth-from", "::1", "--proxy-roles")
    assert run(*words, str(roles)).exit_code == 0
    assert (served["proxy"].roles.of("ann"), served["proxy"].roles.of("bob")) == ("admin", None)
    roles.write_text("boss: ann")
    refused = run(*words, str(roles))
    assert (refused.exit_code, "line 1: write ROLE: USER USER" in refused.output) == (2, True)
    roles.write_text("admin: ann")
    assert "needs --auth-header" in run("console", "--proxy-roles", str(roles)).output


def test_checkpoints_arrive(run, served, tmp_path):
    folder = checkpoint(tmp_path / "late", range(2))
    assert run("console", "--spark-checkpoint", str(folder)).exit_code == 0
    assert [one.committed for one in asyncio.run(served["checkpoints"].states())] == [1]
    assert run("console", "--spark-checkpoint", str(folder), "--cluster", "a=n:1").exit_code == 2
    refused = run("console", "--spark-checkpoint", str(tmp_path))
    assert (refused.exit_code, "is no checkpoint of a streaming query" in refused.output) == (2, True)


def test_rules_for_bodies_arrive(run, served):
    assert run("console --mask a+ --mask b --mask-path $.x --mask-path $..y").exit_code == 0
    masks = served["masks"]
    assert ([one.pattern for one in masks.patterns], len(masks.paths), masks.are_hidden) == (["a+", "b"], 2, False)
    assert run("console --no-bodies").exit_code == 0
    assert served["masks"].are_hidden
    for words in ("--mask x*", "--mask-path card"):
        assert run(f"console {words}").exit_code == 2


def test_a_supervised_console_ends_with_its_input(run, served, monkeypatch):
    streams = []

    async def end_of_input(stream):
        streams.append(stream)

    monkeypatch.setattr(console, "end_of_input", end_of_input)
    assert run("console --supervised").exit_code == 0
    assert len(streams) == 1
    run("console")
    assert len(streams) == 1


def test_an_address_that_others_reach_needs_a_word(run, served):
    refused = run("console --host 10.0.0.1")
    assert (refused.exit_code, "the console has no login" in refused.output) == (2, True)
    assert served == {}
    assert run("console --host 10.0.0.1 --insecure").exit_code == 0
    assert served["host"] == "10.0.0.1"


def test_a_login_and_a_certificate_are_as_good_as_the_word(run, served, monkeypatch):
    monkeypatch.setenv("ROCKETMQ_CONSOLE_KEY_PASSWORD", "word")
    refused = run("console --host 10.0.0.1 --login")
    assert (refused.exit_code, "add --https-cert" in refused.output) == (2, True)
    assert run("console --host 10.0.0.1 --login --https-cert c.pem --https-key k.pem").exit_code == 0
    assert served["https"] == server.Https("c.pem", "k.pem", "word")
    assert served["connect"](Credentials("a", "b")).namesrv == "127.0.0.1:9876"
    assert run("console --https-key k.pem").exit_code == 2


def test_the_extra_that_is_missing_is_named(run, monkeypatch):
    monkeypatch.setitem(sys.modules, "rocketmq_py.console.server", None)
    result = run("console")
    assert result.exit_code == 2
    assert "pip install 'rocketmq-py[console]'" in result.output


def test_health_and_metrics_are_served_on_a_port_of_their_own(run, monkeypatch):
    asked = []

    async def serve(connection, *, figures, on_ready, **_):
        (endpoint,) = made
        port = endpoint.ports["metrics"]
        asked.append(await asyncio.to_thread(get, port, "/readyz"))
        on_ready("http://127.0.0.1:4711")
        figures.changed("reset")
        asked.append(await asyncio.to_thread(get, port, "/readyz"))
        asked.append(await asyncio.to_thread(get, port, "/metrics?name[]=rocketmq_py_console_changes_total"))
        await connection.close()

    made = []

    class Noted(MonitoringEndpoint):
        def __init__(self, *parts):
            super().__init__(*parts)
            made.append(self)

    monkeypatch.setattr(server, "serve", serve)
    monkeypatch.setattr("rocketmq_py.server.monitoring.endpoint.MonitoringEndpoint", Noted)
    result = run("console --metrics-port 0")
    assert (result.exit_code, result.output) == (0, "READY console=http://127.0.0.1:4711\n")
    (starting, _), (ready, _), (status, text) = asked
    assert (starting, ready, status) == (503, 200, 200)
    assert text.splitlines()[-1] == 'rocketmq_py_console_changes_total{action="reset"} 1.0'
    assert made[0].health.is_draining


def get(port, path):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    connection.request("GET", path)
    answer = connection.getresponse()
    text = answer.read().decode()
    connection.close()
    return answer.status, text


def test_clusters_have_names(run, served):
    result = run("console --cluster east=e:1 --cluster west=w:1;w:2 --port 0")
    assert result.exit_code == 0, result.output
    assert served["sites"] == [("east", "e:1", None), ("west", "w:1;w:2", None)]
    assert run("console --cluster east=e:1 --login --port 0").exit_code == 0
    [(name, namesrv, connect)] = served["sites"]
    assert (name, namesrv, connect(Credentials("key", "secret"))._credentials.access_key) == ("east", "e:1", "key")


def test_a_saved_context_is_a_cluster(run, served, contexts_file):
    save(Contexts(contexts={"prod": SavedCluster("prod:1", {"a": "b"})}), contexts_file)
    assert run("console --cluster prod --cluster east=e:1 --port 0").exit_code == 0
    assert served["sites"] == [("prod", "prod:1", None), ("east", "e:1", None)]


@pytest.mark.parametrize(
    "words", ["--cluster a/b=e:1", "--cluster a=e:1 --cluster a=e:2", "--auth-header X", "--auth-from 10.0.0.1",
              "--auth-header X --auth-from 10.0.0.1 --login", "--auth-header X --auth-from nowhere", "--cluster none"],
)  # fmt: skip
def test_clusters_and_proxies_that_make_no_sense_are_refused(run, served, words):
    assert run(f"console {words}").exit_code == 2
    assert served == {}


def test_a_proxy_is_a_login(run, served):
    assert run("console --host 10.0.0.1 --auth-header X-User --auth-from 10.0.0.0/8").exit_code == 2
    assert run("console --auth-header X-User --auth-from 10.0.0.0/8").exit_code == 0
    assert served["proxy"] is not None
