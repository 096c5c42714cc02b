"""The units, images and manifests in docs/operations/deploy.md are well formed, and call commands as they exist."""

from __future__ import annotations

import configparser
import re
import shlex
from pathlib import Path

import click
import pytest

from rocketmq_py.broker.config.broker_config import configure
from rocketmq_py.cli import main
from rocketmq_py.core.java_config import read_properties

yaml = pytest.importorskip("yaml")

PAGE = (Path(__file__).parents[2] / "docs" / "operations" / "deploy.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)


def accepted(words: list[str]) -> None:
    """Let click parse a command line without running it; it raises what it does not accept."""
    command = main.get_command(click.Context(main), words[0])
    assert command is not None, words
    with command.make_context(words[0], [word for word in words[1:] if word != "/etc/rocketmq/broker.conf"]):
        pass


def test_systemd_units_are_valid(tmp_path: Path) -> None:
    units = blocks("ini")
    assert len(units) == 2
    (tmp_path / "broker.conf").write_text("")
    for unit in units:
        parser = configparser.ConfigParser()
        parser.optionxform = str  # type: ignore[assignment,method-assign]
        parser.read_string(unit)
        program, *words = shlex.split(parser["Service"]["ExecStart"])
        assert program.endswith("/bin/rocketmq")
        accepted([str(tmp_path / "broker.conf") if word.endswith("broker.conf") else word for word in words])


def test_the_broker_stops_before_systemd_kills_it() -> None:
    drain = [int(seconds) for seconds in re.findall(r"--drain\"?,? ?\"?(\d+)", PAGE)]
    patience = [
        int(seconds) for seconds in re.findall(r"(?:TimeoutStopSec=|terminationGracePeriodSeconds: )(\d+)", PAGE)
    ]
    assert drain
    assert len(patience) == 2
    assert max(drain) < min(patience)


def test_deployed_settings_are_known_to_the_broker() -> None:
    (properties,) = blocks("properties")
    broker, _ = configure(read_properties(properties.splitlines()))
    assert broker.broker_name == "broker-a"
    assert not broker.auto_create_topic_enable


def test_the_image_starts_a_broker() -> None:
    (image,) = blocks("dockerfile")
    found = re.search(r"^CMD (\[.*\])$", image, re.MULTILINE)
    assert found is not None
    accepted(yaml.safe_load(found[1]))


def test_manifests_are_valid() -> None:
    (manifests,) = blocks("yaml")
    kinds = []
    for manifest in yaml.safe_load_all(manifests):
        kinds.append(manifest["kind"])
        if manifest["kind"] in {"Deployment", "StatefulSet"}:
            spec = manifest["spec"]
            assert spec["selector"]["matchLabels"] == spec["template"]["metadata"]["labels"]
            (container,) = spec["template"]["spec"]["containers"]
            accepted(container["args"])
            mounts = {mount["name"] for mount in container.get("volumeMounts", ())}
            assert mounts == {claim["metadata"]["name"] for claim in spec.get("volumeClaimTemplates", ())}
    assert kinds == ["Service", "Deployment", "Service", "StatefulSet"]
