"""A Java broker with authentication and authorization accepts our signed requests."""

from __future__ import annotations

import asyncio
import json

import pytest

from rocketmq_py import (
    Admin,
    BrokerError,
    Credentials,
    Message,
    Producer,
    SendResult,
    SendStatus,
    SimpleConsumer,
    TransactionProducer,
    TransactionState,
    aio,
)
from rocketmq_py.protocol.codes import ResponseCode
from tests.interop.javapeer import JavaPeer, JavaServer
from tests.interop.side import eventually

ADMIN = Credentials("admin", "admin-secret")


@pytest.fixture(scope="module")
def guarded(java: JavaPeer) -> JavaServer:
    """A Java broker that asks for signatures; ``admin`` may do everything."""
    conf = {
        "authenticationEnabled": "true",
        "authorizationEnabled": "true",
        "initAuthenticationUser": json.dumps({"username": ADMIN.access_key, "password": ADMIN.secret_key}),
        "innerClientAuthenticationCredentials": json.dumps(
            {"accessKey": ADMIN.access_key, "secretKey": ADMIN.secret_key}
        ),
    }
    kind = "org.apache.rocketmq.auth.{0}.provider.{1}"
    for name, local in (("authentication", "Authentication"), ("authorization", "Authorization")):
        conf[f"{name}Provider"] = kind.format(name, f"Default{local}Provider")
        conf[f"{name}MetadataProvider"] = kind.format(name, f"Local{local}MetadataProvider")
    return java.broker(java.namesrv().address, conf=conf)


def test_signed_requests_of_all_kinds_are_taken(guarded: JavaServer) -> None:
    with Admin(guarded.namesrv, credentials=ADMIN) as admin:
        admin.create_topic("signed", 4)
    with Producer("p-signed", guarded.namesrv, credentials=ADMIN) as producer:
        for n in range(5):
            producer.send(Message("signed", b"%d" % n, tags="ä", keys=["k"]))
        producer.send_batch([Message("signed", b"a"), Message("signed", b"b" * 5000)])
    transactional = TransactionProducer(
        "t-signed", guarded.namesrv, credentials=ADMIN, check=lambda _: TransactionState.UNKNOWN
    )
    with transactional, transactional.transaction(Message("signed", b"in a transaction")):
        pass  # the message is all there is to it
    found: set[bytes] = set()
    with SimpleConsumer("g-signed", guarded.namesrv, credentials=ADMIN) as consumer:
        consumer.subscribe("signed")

        def look() -> set[bytes]:
            for message in consumer.receive():
                consumer.ack(message)
                found.add(message.body)
            return found

        eventually(look, lambda seen: len(seen) >= 8)
    assert b"in a transaction" in found


def test_asyncio_clients_sign(guarded: JavaServer) -> None:
    async def send() -> SendResult:
        async with aio.Producer("p-signed-async", guarded.namesrv, credentials=ADMIN) as producer:
            return await producer.send(Message("signed", b"async"))

    assert asyncio.run(send()).status is SendStatus.SEND_OK


@pytest.mark.parametrize("who", [None, Credentials("admin", "wrong"), Credentials("nobody", "admin-secret")])
def test_wrong_credentials_are_refused_with_the_reason(guarded: JavaServer, who: Credentials | None) -> None:
    producer = Producer("p-refused", guarded.namesrv, credentials=who, retries=0)
    with producer, pytest.raises(BrokerError) as refused:
        producer.send(Message("signed", b"no"))
    assert refused.value.code == ResponseCode.NO_PERMISSION
