"""The methods of gRPC over the handlers of this broker."""

from __future__ import annotations

from rocketmq_py.accelerator import installed
from rocketmq_py.broker.grpc.local_requests import LocalRequests
from rocketmq_py.broker.grpc.plain_sends import PlainSends
from rocketmq_py.grpc.cluster import Parts
from rocketmq_py.grpc.sending import Sending
from rocketmq_py.grpc.service import MessagingService, Take


def own_service(parts: Parts, requests: LocalRequests) -> MessagingService:
    """Return the methods; with the accelerator, plain sends are stored together."""
    accelerator = installed()
    if accelerator is None:
        return MessagingService(parts)

    def plain_sends(sending: Sending, alone: Take) -> Take:
        plain = PlainSends(requests, sending, alone, accelerator)
        requests.before_finish = plain.store
        return plain.add

    return MessagingService(parts, plain_sends)
