from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.unit.proxy.cluster import FakeCluster, ProxyCalls, two_masters


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[FakeCluster]:
    with two_masters(tmp_path) as found:
        yield found


@pytest.fixture
def calls(cluster: FakeCluster) -> ProxyCalls:
    return ProxyCalls(cluster)
