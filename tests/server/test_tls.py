"""TLS between our clients and our servers: modes, mutual trust, changed and expired certificates, clear errors."""

import asyncio
import logging
import ssl
import time

import pytest
from click.testing import CliRunner

from rocketmq_py import Admin, Message, Producer, SendStatus, SimpleConsumer, TlsOptions, aio
from rocketmq_py.cli import main
from rocketmq_py.errors import ConfigError, ConnectError, ConnectionLost, NetworkError
from rocketmq_py.server.runner import loop_factory
from rocketmq_py.server.tls import TlsSettings
from rocketmq_py.testing import Cluster
from tests.certificates import Authority
from tests.server.cli import eventually


@pytest.fixture(scope="module")
def authority(tmp_path_factory):
    return Authority(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(scope="module")
def server(authority):
    return authority.issue("server")


def keys(pair, mode, **more):
    return {
        "tls.server.mode": mode, "tls.server.certPath": str(pair.cert), "tls.server.keyPath": str(pair.key), **more,
    }  # fmt: skip


@pytest.fixture(scope="module")
def enforcing(server):
    with Cluster(tls=keys(server, "enforcing")) as cluster:
        cluster.create_topic("shop")
        yield cluster


@pytest.fixture(scope="module")
def trusting(authority):
    return TlsOptions(ca=authority.ca)


def refused(error, words, namesrv, tls=None):
    with Admin(namesrv, tls=tls) as admin, pytest.raises(error, match=words):
        admin.cluster()


def received(namesrv, tls, count=1):
    with SimpleConsumer("readers", namesrv, tls=tls) as consumer:
        consumer.subscribe("shop")
        found = []
        deadline = time.monotonic() + 60
        while len(found) < count:
            assert time.monotonic() < deadline, found
            for message in consumer.receive(16):
                consumer.ack(message)
                found.append(message.body)
        return found


def test_messages_are_sent_and_consumed_over_an_enforcing_port(enforcing, trusting):
    large = b"x" * 1_000_000
    with Producer("blocking", enforcing.namesrv, tls=trusting, compress_over=None) as producer:
        assert producer.send(Message("shop", large)).status is SendStatus.SEND_OK
        producer.send_oneway(Message("shop", b"one way"))
    assert sorted(received(enforcing.namesrv, trusting, 2)) == sorted([large, b"one way"])


def test_asyncio_clients_use_tls_on_either_loop(enforcing, trusting):
    async def send():
        async with aio.Producer("async", enforcing.namesrv, tls=trusting) as producer:
            return await asyncio.gather(*(producer.send(Message("shop", b"%d" % n)) for n in range(50)))

    for factory in (None, loop_factory()):
        with asyncio.Runner(loop_factory=factory) as runner:
            assert len({result.msg_id for result in runner.run(send())}) == 50


@pytest.mark.parametrize("factory", [asyncio.new_event_loop, loop_factory()], ids=["asyncio", "fast"])
def test_servers_use_tls_on_either_loop(factory, server, trusting):
    from rocketmq_py.namesrv import NameServer, NamesrvConfig
    from rocketmq_py.server.tls import TlsSettings

    async def ask():
        namesrv = NameServer(
            NamesrvConfig(listen_port=0, bind_address="127.0.0.1"), TlsSettings.of(keys(server, "permissive"))
        )
        await namesrv.start()
        try:
            for tls in (trusting, None):
                async with aio.Admin(namesrv.address, tls=tls) as admin:
                    assert (await admin.cluster()).broker_addr_table == {}
            return len(namesrv.connections)
        finally:
            await namesrv.stop()

    with asyncio.Runner(loop_factory=factory) as runner:
        runner.run(ask())


def test_a_plaintext_client_on_an_enforcing_port_gets_a_hint(enforcing, caplog):
    refused(ConnectionLost, "does it require TLS", enforcing.namesrv)
    eventually(lambda: caplog.text, lambda text: "does not use TLS, which this port requires" in text)


def test_a_tls_client_on_a_plain_port_gets_a_hint(trusting):
    with Cluster() as plain, Admin(plain.namesrv, tls=trusting) as admin, pytest.raises(ConnectError, match="TLS"):
        admin.cluster()


def test_a_permissive_port_serves_tls_and_plaintext(server, trusting):
    with Cluster(tls=keys(server, "permissive")) as cluster:
        cluster.create_topic("shop")
        for tls in (None, trusting):
            with Producer("any", cluster.namesrv, tls=tls) as producer:
                assert producer.send(Message("shop", b"hello")).status is SendStatus.SEND_OK


def test_the_certificate_must_be_of_a_trusted_authority_and_for_the_host(enforcing, authority, caplog):
    refused(ConnectError, r"name its authority.* ca$", enforcing.namesrv, True)
    elsewhere = authority.issue("elsewhere", names="subjectAltName=DNS:elsewhere.example")
    with Cluster(tls=keys(elsewhere, "enforcing")) as cluster:
        refused(ConnectError, r"127\.0\.0\.1", cluster.namesrv, TlsOptions(ca=authority.ca))
        for lenient in (TlsOptions(ca=authority.ca, check_hostname=False), TlsOptions(verify=False)):
            with Admin(cluster.namesrv, tls=lenient) as admin:
                assert admin.cluster().broker_addr_table
    turned = [record.message for record in caplog.records if "no TLS connection with" in record.message]
    assert turned
    assert not [line for line in turned if line.endswith(": ")], "each says why"


def test_an_expired_certificate_is_named_as_such(authority):
    with Cluster(tls=keys(authority.issue("old", expired=True), "enforcing")) as cluster:
        refused(ConnectError, "certificate has expired", cluster.namesrv, TlsOptions(ca=authority.ca))


def test_mutual_tls_requires_a_client_certificate(server, authority, tmp_path, caplog):
    client, stranger = authority.issue("client"), Authority(tmp_path, "stranger").issue("stranger")
    ours = {"tls.client.certPath": str(client.cert), "tls.client.keyPath": str(client.key)}
    asked = {"tls.server.need.client.auth": "require", "tls.server.authClient": "true",
             "tls.server.trustCertPath": str(authority.ca)}  # fmt: skip
    with Cluster(tls=keys(server, "enforcing", **asked, **ours)) as cluster:
        cluster.create_topic("shop")
        with Producer("shop", cluster.namesrv, tls=TlsOptions(ca=authority.ca, cert=client.cert, key=client.key)) as p:
            assert p.send(Message("shop", b"hello")).status is SendStatus.SEND_OK
        refused(
            NetworkError,
            "may require a client certificate|requires a client certificate",
            cluster.namesrv,
            TlsOptions(ca=authority.ca),
        )
        unknown = TlsOptions(ca=authority.ca, cert=stranger.cert, key=stranger.key)
        refused(
            NetworkError, "may require a client certificate|does not trust our certificate", cluster.namesrv, unknown
        )
        # The server logs a refusal after it has sent its alert, so the client can know of it first.
        eventually(lambda: caplog.text, lambda text: "the client gave no certificate, and one is asked for" in text)
        eventually(lambda: caplog.text, lambda text: "the client's certificate is not accepted" in text)


def test_a_broker_that_cannot_reach_its_name_server_does_not_start(server, authority):
    asked = {"tls.server.need.client.auth": "require", "tls.server.authClient": "true",
             "tls.server.trustCertPath": str(authority.ca)}  # fmt: skip
    TlsSettings.of(keys(server, "permissive", **asked)).check_talks_to_itself()
    with pytest.raises(ConfigError, match=r"set tls\.client\.certPath"):
        TlsSettings.of(keys(server, "enforcing", **asked)).check_talks_to_itself()
    refused_at_start = CliRunner().invoke(main, [
        "serve", "--tls-cert", str(server.cert), "--tls-key", str(server.key), "--tls-ca", str(authority.ca),
        "--tls-mode", "enforcing", "--port", "0", "--namesrv-port", "0",
    ])  # fmt: skip
    assert (refused_at_start.exit_code, "tls.client.certPath" in refused_at_start.output) == (2, True)


def test_a_changed_certificate_is_served_to_new_connections(authority, caplog):
    caplog.set_level(logging.INFO, "rocketmq_py.server.tls")
    pair = authority.issue("changing")
    with Cluster(tls=keys(pair, "enforcing")) as cluster:
        host, port = cluster.namesrv.split(":")

        def served():
            return ssl.get_server_certificate((host, int(port)))

        before = served()
        assert before == served()
        good = pair.cert.read_text()
        pair.cert.write_text("no certificate")
        assert served() == before
        assert "the one before stays in use" in caplog.text
        pair.cert.write_text(good)
        authority.issue("changing")
        assert served() not in (before, good)
        assert "is in use now" in caplog.text


def test_the_command_uses_tls(enforcing, authority):
    told = CliRunner().invoke(main, ("topic", "ls", "--namesrv", enforcing.namesrv, "--tls-ca", str(authority.ca)))
    assert told.exit_code == 0, told.output
    assert "shop" in told.output


def test_silent_and_malformed_connections_end_no_server(enforcing, trusting):
    import socket

    host, port = enforcing.namesrv.split(":")
    silent = socket.create_connection((host, int(port)))
    with socket.create_connection((host, int(port))) as rubbish:
        rubbish.sendall(b"\x16\x03\x01garbage" * 10)
        rubbish.settimeout(30)
        while rubbish.recv(4096):
            pass
    with Admin(enforcing.namesrv, tls=trusting) as admin:
        assert admin.cluster().broker_addr_table
    silent.close()


def test_invalid_certificate_files_are_refused(authority, server, tmp_path):
    other = authority.issue("other")
    for options, complaint in (
        ({"ca": tmp_path / "none.pem"}, "none.pem: No such file"),
        ({"ca": server.key}, "not PEM|cannot be read"),
        ({"cert": server.cert, "key": other.key}, "the key is not the certificate's"),
        ({"key": server.key}, "give cert, too"),
    ):
        with pytest.raises(ConfigError, match=complaint):
            Admin("127.0.0.1:9876", tls=TlsOptions(**options))


def test_a_password_is_needed_once_and_never_shown(authority, server, tmp_path):
    locked = tmp_path / "locked.key"
    authority._run("rsa", "-in", server.key, "-aes128", "-passout", "pass:s3cret", "-out", locked)
    options = TlsOptions(cert=server.cert, key=locked, key_password="s3cret")
    assert "s3cret" not in repr(options)
    assert isinstance(options.context(), ssl.SSLContext)
    with pytest.raises(ConfigError, match="password") as refused:
        TlsOptions(cert=server.cert, key=locked, key_password="wrong-one").context()
    assert "wrong-one" not in str(refused.value)
