"""The methods of gRPC over the handlers of this broker."""

from __future__ import annotations

from rocketmq_py.accelerator import installed
from rocketmq_py.broker.grpc.local_requests import LocalRequests
from rocketmq_py.broker.grpc.plain_acks import PlainAcks
from rocketmq_py.broker.grpc.plain_sends import PlainSends
from rocketmq_py.grpc.cluster import Parts
from rocketmq_py.grpc.receipts import RenewedReceipts
from rocketmq_py.grpc.sending import Sending
from rocketmq_py.grpc.service import Faster, MessagingService, Take


def own_service(parts: Parts, requests: LocalRequests) -> MessagingService:
    """Return the methods; with the accelerator, plain sends are stored together, and plain acks, too."""
    accelerator = installed()
    if accelerator is None:
        return MessagingService(parts)

    def plain_sends(sending: Sending, alone: Take) -> Take:
        plain = PlainSends(requests, sending, alone, accelerator)
        requests.before_finish.append(plain.finish)
        return plain.add

    def plain_acks(receipts: RenewedReceipts, alone: Take) -> Take:
        plain = PlainAcks(parts, requests, receipts, alone, accelerator)
        requests.before_finish.append(plain.finish)
        return plain.add

    return MessagingService(parts, Faster(accelerator, plain_sends, plain_acks))
