"""A broker of our own for the tests of a module, with a new topic and group for each."""

import itertools

import pytest

from rocketmq_py.testing import Cluster

_numbers = itertools.count(1)


@pytest.fixture(scope="module")
def cluster():
    with Cluster() as running:
        yield running


@pytest.fixture
def topic(cluster):
    return cluster.create_topic(f"topic-{next(_numbers)}", 4)


@pytest.fixture
def group():
    return f"group-{next(_numbers)}"
