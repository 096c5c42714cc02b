"""Topics and groups for a broker that joins others with an empty store."""

import json

from rocketmq_py.broker.metadata.sibling_tables import copy_tables


def write(root, name, tree):
    path = root / "config" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(tree))


def read(root, name):
    return json.loads((root / "config" / name).read_text())


def topics(*names):
    return {"dataVersion": {"counter": 3}, "topicConfigTable": {name: {"topicName": name} for name in names}}


def test_a_new_store_gets_topics_and_groups_but_not_those_of_the_source_itself(tmp_path):
    old, new = tmp_path / "a", tmp_path / "b"
    write(old, "topics.json", topics("orders", "broker-a", "rmq_sys_SYNC_BROKER_MEMBER_broker-a"))
    write(old, "subscriptionGroup.json", {"subscriptionGroupTable": {"billing": {"groupName": "billing"}}})
    copy_tables(old, new, "broker-a")
    assert list(read(new, "topics.json")["topicConfigTable"]) == ["orders"]
    assert list(read(new, "subscriptionGroup.json")["subscriptionGroupTable"]) == ["billing"]


def test_tables_that_exist_stay_as_they_are(tmp_path):
    old, new = tmp_path / "a", tmp_path / "b"
    write(old, "topics.json", topics("orders"))
    write(new, "topics.json", topics("own"))
    copy_tables(old, new, "broker-a")
    assert list(read(new, "topics.json")["topicConfigTable"]) == ["own"]


def test_a_first_start_copies_nothing(tmp_path):
    copy_tables(tmp_path / "a", tmp_path / "b", "broker-a")
    assert not (tmp_path / "b").exists()
