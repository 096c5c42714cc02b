"""Records stay in their directory, whatever their names."""

import pytest

from rocketmq_py.errors import NameIllegal
from rocketmq_py.spark.decision_store.stores import LocalDecisionStore


@pytest.mark.parametrize("name", ["../victim", "..", "", "/abs", "a/b", "a\\b"])
def test_no_record_name_leaves_the_directory(tmp_path, name):
    victim = tmp_path / "victim"
    victim.write_bytes(b"mine")
    where = LocalDecisionStore(tmp_path / "place")
    where.create("00000000000000000001.json", b"{}")
    for act in (where.read, where.remove, lambda one: where.create(one, b"theirs")):
        with pytest.raises(NameIllegal):
            act(name)
    assert victim.read_bytes() == b"mine"
    assert where.names() == ["00000000000000000001.json"]
