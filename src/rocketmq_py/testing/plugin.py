"""The pytest plugin with fixtures for the embedded cluster.

``rocketmq_cluster`` runs a cluster for the whole session, ``rocketmq`` is the same cluster for a single test, and
``rocketmq_topic`` is a new topic of that test.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from rocketmq_py.testing.cluster import Cluster


@pytest.fixture(scope="session")
def rocketmq_cluster() -> Iterator[Cluster]:
    """A name server and a broker that run for the whole session."""
    from rocketmq_py.testing.cluster import Cluster

    with Cluster() as cluster:
        yield cluster


@pytest.fixture
def rocketmq(rocketmq_cluster: Cluster) -> Cluster:
    """A running cluster, shared with other tests: see :class:`rocketmq_py.testing.Cluster`."""
    return rocketmq_cluster


@pytest.fixture
def rocketmq_topic(rocketmq_cluster: Cluster, request: pytest.FixtureRequest) -> str:
    """A new topic with 4 queues, named after the test."""
    test = re.sub(r"[^a-zA-Z0-9_-]+", "-", request.node.name)[:80]
    return rocketmq_cluster.create_topic(f"{test}-{uuid.uuid4().hex[:12]}")
