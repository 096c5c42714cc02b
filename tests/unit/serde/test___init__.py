"""The public names of the package, each imported when it is used."""

from __future__ import annotations

import pytest

from rocketmq_py import serde

MODULES = {
    "Avro": "rocketmq_py.serde.avro",
    "Json": "rocketmq_py.serde.json_bodies",
    "Protobuf": "rocketmq_py.serde.protobuf",
    "Registry": "rocketmq_py.serde.registry",
    "RegistryError": "rocketmq_py.serde.registry",
    "Schema": "rocketmq_py.serde.registry",
    "SchemaRegistry": "rocketmq_py.serde.registry",
}


@pytest.mark.parametrize("name", MODULES)
def test_a_name_is_found_in_its_module(name: str) -> None:
    found = getattr(serde, name)
    assert (found.__name__, found.__module__) == (name, MODULES[name])


def test_all_public_names_are_there_and_no_others() -> None:
    assert MODULES.keys() == set(serde.__all__) - {"BodyMismatch", "Serde"}
    with pytest.raises(AttributeError, match=r"module 'rocketmq_py\.serde' has no attribute 'Xml'"):
        _ = serde.Xml
