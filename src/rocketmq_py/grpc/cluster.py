"""What calls use of a broker, or of a cluster: its topics, groups and clients, and who may do what."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple, Protocol

from rocketmq_py.core.access.permissions import Action
from rocketmq_py.grpc.requests import Inner, Requests
from rocketmq_py.protocol.bodies.client import HeartbeatData
from rocketmq_py.protocol.bodies.group import SubscriptionGroupConfig
from rocketmq_py.protocol.bodies.topic import TopicConfig
from rocketmq_py.protocol.codes import RequestCode
from rocketmq_py.protocol.grpc.definition import Broker, Endpoints
from rocketmq_py.protocol.grpc.refusal import CallRefused
from rocketmq_py.protocol.headers.pop import AckMessage
from rocketmq_py.protocol.requests import Request
from rocketmq_py.server.grpc.call import Call
from rocketmq_py.server.peer import Peer


class Access(Protocol):
    """Checks the signatures of calls and what their users may do."""

    def check(
        self, call: Call, code: RequestCode, actions: tuple[Action, ...], *, topic: str = "", group: str = "",
        topics: Iterable[str] = (),
    ) -> None:  # fmt: skip
        """Check a call that needs one of ``actions`` for each of the topics and for the group.

        :param code: the request of remoting that does the same.
        :raises CallRefused: UNAUTHORIZED.
        """
        ...

    def check_record(self, call: Call, inner: Inner, then: Callable[[], None]) -> None:
        """Check the stored message to which a request refers, then call ``then``, at once or later.

        :raises CallRefused: UNAUTHORIZED.
        """
        ...


class Topics(Protocol):
    """The topics."""

    @property
    def creates(self) -> bool:
        """True if sends make topics that do not exist."""
        ...

    def get(self, name: str) -> TopicConfig | None:
        """Return a topic; None if it does not exist."""
        ...

    def queue_for(self, topic: str, config: TopicConfig | None, message_group: str | None) -> tuple[str, int]:
        """Return broker and queue of a message: the queue of its group, or else the next one.

        The queue -1 leaves the broker the choice.

        :raises CallRefused: FORBIDDEN, no queue takes messages.
        """
        ...


class Groups(Protocol):
    """The consumer groups."""

    def find(self, group: str) -> SubscriptionGroupConfig | None:
        """Return the settings of a group; None if it does not exist."""
        ...

    def get(self, group: str) -> SubscriptionGroupConfig | None:
        """Return the settings of a group, which is made if brokers make groups; None if it does not exist."""
        ...


class Clients(Protocol):
    """The registered producers and consumers."""

    def heartbeat(self, peer: Peer, request: Request, data: HeartbeatData) -> object:
        """Register a client.

        :raises BadHeader: a subscription is malformed.
        """
        ...

    def disconnected(self, peer: Peer) -> None:
        """Forget a client."""
        ...


class Place(NamedTuple):
    """A topic at one broker, for clients."""

    broker: Broker
    perm: int
    reads: int
    writes: int


class Places(NamedTuple):
    """A topic at all its brokers, by name.

    :ivar message_type: the attribute ``message.type`` of the topic.
    """

    places: list[Place]
    message_type: str | None


FoundPlaces = Callable[[Places], None]


class Locator(Protocol):
    """Knows where topics are."""

    def find(
        self, call: Call, topic: str, endpoints: Endpoints | None, then: FoundPlaces, *, is_assignment: bool
    ) -> None:
        """Call ``then`` with the places of a topic, at once or later; a topic that does not exist is answered.

        :param endpoints: the address that the client has used, as it says.
        :raises CallRefused: TOO_MANY_REQUESTS.
        """
        ...


class Names(NamedTuple):
    """The topics and the consumer group of a call."""

    topics: tuple[str, ...]
    group: str = ""


Refuse = Callable[[CallRefused], None]

Prepare = Callable[[Call, Names, Callable[[], None], Refuse], None]
"""Calls its third argument when topics and groups are known, at once or later.

What that raises at once is raised here. What it raises later, and what cannot be known, goes to the last argument.
"""


def prepared(call: Call, wanted: Names, then: Callable[[], None], refuse: Refuse) -> None:
    """Call ``then`` at once: everything is known."""
    del call, wanted, refuse
    then()


class Parts(NamedTuple):
    """What the methods of gRPC are made of.

    :ivar name: the name of the broker; empty if there are several.
    :ivar max_body: returns the limit of a message body, in bytes.
    :ivar clock: returns the time in milliseconds since the epoch.
    :ivar check_ack: raises BrokerError if the message of an ack does not exist; None if that cannot be known before.
    :ivar prepare: gets ready what a call needs.
    """

    requests: Requests
    access: Access
    topics: Topics
    groups: Groups
    clients: Clients
    locator: Locator
    name: str
    max_body: Callable[[], int]
    clock: Callable[[], int]
    check_ack: Callable[[Peer, AckMessage], None] | None = None
    prepare: Prepare = prepared
