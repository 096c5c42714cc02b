"""Reads and writes over TLS and with signatures, and the errors when one is missing or wrong."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from rocketmq_py import Admin, Credentials, TlsOptions
from rocketmq_py.arrow.options.security import Security
from rocketmq_py.arrow.remoting.cluster import Cluster as View
from rocketmq_py.arrow.remoting.connection import connect
from rocketmq_py.arrow.sink.rows import RowMessage
from rocketmq_py.arrow.sink.sender import BatchSender, SendSettings
from rocketmq_py.errors import BrokerError, ConfigError, ConnectError, NetworkError
from rocketmq_py.protocol.codes import RequestCode
from rocketmq_py.protocol.headers.base import NoHeader
from rocketmq_py.spark.datasource import RocketMQDataSource
from rocketmq_py.testing import Cluster
from tests.certificates import Authority

USER = Credentials("etl", "the-secret-of-etl")
INFO = RequestCode.GET_BROKER_CLUSTER_INFO


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(scope="module")
def trust(authority: Authority) -> TlsOptions:
    return TlsOptions(ca=authority.ca)


@pytest.fixture(scope="module")
def guarded(authority: Authority, trust: TlsOptions) -> Iterator[str]:
    """A name server and a broker that take TLS with certificates and signed requests only."""
    pair = authority.issue("server")
    tls = {
        "tls.server.mode": "enforcing", "tls.server.certPath": str(pair.cert), "tls.server.keyPath": str(pair.key),
        "tls.client.trustCertPath": str(authority.ca),
    }  # fmt: skip
    access = {
        "authenticationEnabled": "true",
        "initAuthenticationUser": json.dumps({"username": USER.access_key, "password": USER.secret_key}),
        "innerClientAuthenticationCredentials": json.dumps({"accessKey": "inner", "secretKey": "its-secret"}),
    }
    with Cluster(tls=tls, access=access) as cluster:
        with Admin(cluster.namesrv, tls=trust, credentials=USER) as admin:
            admin.create_topic("vault", 2)
        yield cluster.namesrv


def options(namesrv: str, authority: Authority) -> dict[str, str]:
    return {"namesrv": namesrv, "tlsCa": str(authority.ca), "accessKey": USER.access_key, "secretKey": USER.secret_key}


def test_spark_reads_and_writes_and_plans_show_no_secret(
    spark: SparkSession, guarded: str, authority: Authority, capfd: pytest.CaptureFixture[str]
) -> None:
    given = options(guarded, authority)
    rows = spark.range(50).selectExpr("cast(id as string) body")
    rows.write.format("rocketmq").options(topic="vault", **given).mode("append").save()
    frame = spark.read.format("rocketmq").options(subscribe="vault", **given).load()
    assert sorted(int(row.body) for row in frame.collect()) == list(range(50))
    frame.explain(mode="extended")
    shown = capfd.readouterr()
    assert "rocketmq" in shown.out
    assert USER.secret_key not in shown.out + shown.err
    wrong = RocketMQDataSource({**given, "subscribe": "vault"})
    assert USER.secret_key not in repr(vars(wrong.reader(wrong.schema())))


def test_a_task_of_several_queues_loads_certificates_once(
    guarded: str, authority: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Admin(guarded, tls=TlsOptions(ca=authority.ca), credentials=USER) as admin:
        admin.create_topic("lockers", 4)
    given = options(guarded, authority) | {"subscribe": "lockers", "startingOffsets": "earliest"}
    source = RocketMQDataSource(given)
    reader = source.streamReader(source.schema())
    begin = reader.initialOffset()
    (broker,) = begin["lockers"]
    secured = Security(tls=TlsOptions(ca=authority.ca), credentials=USER)
    sender = BatchSender(
        SendSettings(
            namesrv=(guarded,), producer_group="tests", timeout=10, retries=7, in_flight=4, max_batch_bytes=500,
            security=secured,
        )
    )  # fmt: skip
    for number in range(4):
        sender.send(RowMessage("lockers", b"%d" % number, b"", None, number))
    sender.flush()
    sender.close()
    (task,) = reader.partitions(begin, {"lockers": {broker: {str(number): 1 for number in range(4)}}})
    reader.stop()
    contexts: list[object] = []
    make = TlsOptions.context
    monkeypatch.setattr(TlsOptions, "context", lambda tls: contexts.append(tls) or make(tls))
    assert sorted(row["body"] for batch in reader.read(task) for row in batch.to_pylist()) == [b"0", b"1", b"2", b"3"]
    assert len(contexts) == 1


def view(namesrv: str, tls: TlsOptions | None, credentials: Credentials | None) -> View:
    return View((namesrv,), 10, 0, Security(tls=tls, credentials=credentials))


def test_a_request_without_a_signature_or_with_a_wrong_one_is_refused(guarded: str, trust: TlsOptions) -> None:
    for who in (None, Credentials("etl", "another")):
        cluster = view(guarded, trust, who)
        with pytest.raises((BrokerError, NetworkError), match="code 16"):
            cluster.bounds(cluster.readable(["vault"]))
        cluster.close()


def test_a_plain_connection_to_an_enforcing_server_gets_a_hint(guarded: str) -> None:
    cluster = view(guarded, None, USER)
    with pytest.raises(NetworkError, match=r"TLS \(the option tls\)"):
        cluster.readable(["vault"])
    cluster.close()


def test_an_unknown_authority_is_named_with_a_hint(guarded: str) -> None:
    with pytest.raises(ConnectError, match=r"certificate is not accepted: .* name its authority with the option ca"):
        connect(guarded, 10, Security(tls=TlsOptions()))


def test_a_server_without_tls_is_named() -> None:
    with socket.create_server(("127.0.0.1", 0)) as plain:
        plain.settimeout(10)
        address = f"127.0.0.1:{plain.getsockname()[1]}"
        with pytest.raises(ConnectError, match=f"cannot connect to {address}"):
            connect(address, 0.2, Security(tls=TlsOptions(verify=False)))


def test_several_requests_can_be_in_flight_over_tls(guarded: str, trust: TlsOptions) -> None:
    connection = connect(guarded, 10, Security(tls=trust, credentials=USER))
    opaques = connection.send([(INFO, NoHeader().to_ext(), b"")] * 20)
    assert sorted(connection.receive().opaque for _ in opaques) == opaques
    connection.close()


def test_a_missing_certificate_is_named_when_the_read_is_defined(tmp_path: Path) -> None:
    source = RocketMQDataSource({"namesrv": "a:1", "subscribe": "t", "tlsca": str(tmp_path / "none.pem")})
    with pytest.raises(ConfigError, match=r"no trusted certificates can be read from .*none\.pem"):
        source.schema()
