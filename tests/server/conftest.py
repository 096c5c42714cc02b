"""A broker of our own for the tests of a module, with a new topic and group for each."""

import itertools

import pytest

from rocketmq_py.testing import Cluster

_numbers = itertools.count(1)


@pytest.fixture(scope="module")
def cluster():
    with Cluster() as running:
        yield running


@pytest.fixture(scope="module")
def rocketmq_cluster(cluster):
    """That of the plugin, but not for the whole session.

    A broker in the process of unit tests calls what these replace and count: it ends before they begin.
    """
    return cluster


@pytest.fixture
def topic(cluster):
    return cluster.create_topic(f"topic-{next(_numbers)}", 4)


@pytest.fixture
def group():
    return f"group-{next(_numbers)}"
