"""Requests to end old transactions: what is looked up about them in the index may have to be loaded from disk first."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from rocketmq_py.protocol.headers.transaction import EndTransaction
from rocketmq_py.store.fs.residency import Loadable, NotInMemory, Residency
from rocketmq_py.store.read.reader import KeyQuery


class EndRequest:
    """A request to commit or roll back a transaction.

    :param address: the producer's address, for the log.
    """

    __slots__ = ("_queries", "address", "header")

    def __init__(self, header: EndTransaction, address: str) -> None:
        self.header = header
        self.address = address
        self._queries: dict[str, KeyQuery] = {}
        """By topic; each continues after a load."""

    def check_lookups(
        self, wanted: tuple[Sequence[str], str], look_up: Callable[[str, str], KeyQuery], residency: Residency
    ) -> None:
        """Check that look-ups in the index, and of the messages found, would not wait for the disk.

        :param wanted: topics and the key.
        :param look_up: returns a new query for a topic and key.
        :raises NotInMemory: they would; it has what all of them need next.
        """
        topics, key = wanted
        missing: list[Loadable] = []
        for topic in topics:
            if topic not in self._queries:
                self._queries[topic] = look_up(topic, key)
            try:
                self._queries[topic].run(residency)
            except NotInMemory as needed:
                missing += needed.parts
        if missing:
            raise NotInMemory(missing)

    def __str__(self) -> str:
        return f"the end of transaction {self.header.msg_id}"
