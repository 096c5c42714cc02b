"""The files in ``deploy`` are well formed, and call commands, ports and metrics as they exist."""

from __future__ import annotations

import configparser
import json
import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest

from rocketmq_py.broker.config.broker_config import configure
from rocketmq_py.cli import main
from rocketmq_py.core.java_config import read_properties
from tests.deployment import DEPLOY, ROOT, families, metrics_in, queries

yaml = pytest.importorskip("yaml")

PAGE = (ROOT / "docs" / "operations" / "deploy.md").read_text(encoding="utf-8")


def accepted(words: list[str]) -> None:
    """Let click parse a command line without running it; it raises what it does not accept."""
    command = main.get_command(click.Context(main), words[0])
    assert command is not None, words
    with command.make_context(words[0], [word for word in words[1:] if word != "/etc/rocketmq/broker.conf"]):
        pass


def pods() -> Iterator[dict[str, Any]]:
    for manifest in yaml.safe_load_all((DEPLOY / "kubernetes" / "rocketmq.yaml").read_text()):
        if manifest["kind"] in {"Deployment", "StatefulSet"}:
            yield manifest


def services() -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load((DEPLOY / "compose.yaml").read_text())["services"]
    return found


def test_the_manual_shows_files_that_exist() -> None:
    shown = re.findall(r"\{literalinclude\} \.\./\.\./(\S+)", PAGE)
    assert len(shown) == 5
    assert all((ROOT / path).is_file() for path in shown)
    named = re.findall(r"`(deploy/[\w./]+)`", PAGE + (ROOT / "docs" / "operations" / "monitoring.md").read_text())
    assert named
    assert all((ROOT / path).exists() for path in named)


def test_systemd_units_are_valid(tmp_path: Path) -> None:
    units = sorted((DEPLOY / "systemd").glob("*.service"))
    assert len(units) == 3
    (tmp_path / "broker.conf").write_text("")
    for unit in units:
        parser = configparser.ConfigParser(interpolation=None)
        parser.optionxform = str  # type: ignore[assignment,method-assign]
        parser.read_string(unit.read_text())
        program, *words = shlex.split(parser["Service"]["ExecStart"])
        assert program.endswith("/bin/rocketmq")
        accepted([str(tmp_path / "broker.conf") if word.endswith("broker.conf") else word for word in words])


def test_brokers_stop_before_they_are_killed() -> None:
    files = [
        DEPLOY / "systemd" / "rocketmq-broker.service",
        DEPLOY / "kubernetes" / "rocketmq.yaml",
        DEPLOY / "compose.yaml",
    ]
    for file in files:
        (drain,) = map(int, re.findall(r"--drain[ =](\d+)", file.read_text()))
        patience = re.findall(
            r"(?:TimeoutStopSec=|terminationGracePeriodSeconds: |stop_grace_period: )(\d+)", file.read_text()
        )
        assert [drain < int(seconds) for seconds in patience] == [True]


def test_deployed_settings_are_known_to_the_broker() -> None:
    broker, _ = configure(read_properties((DEPLOY / "systemd" / "broker.conf").read_text().splitlines()))
    assert (broker.broker_name, broker.metrics_exporter_type) == ("broker-a", "PROM")
    assert not broker.auto_create_topic_enable


def test_the_image_starts_a_broker_and_asks_for_its_health() -> None:
    image = (DEPLOY / "docker" / "Dockerfile").read_text()
    command, probe = (json.loads(text) for text in re.findall(r"CMD (\[.*\])$", image, re.MULTILINE)[::-1])
    accepted(command)
    assert probe[0] == "rocketmq"
    accepted(probe[1:])
    assert re.search(r"^USER 1000$", image, re.MULTILINE)
    kept = {line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")}
    assert all((ROOT / name).exists() for name in kept)
    assert {"src", "pyproject.toml", "hatch_build.py", "README.md"} <= kept


def test_manifests_are_valid() -> None:
    assert [pod["metadata"]["name"] for pod in pods()] == ["rocketmq-namesrv", "rocketmq-broker-a", "rocketmq-console"]
    for manifest in pods():
        spec = manifest["spec"]
        assert spec["selector"]["matchLabels"].items() <= spec["template"]["metadata"]["labels"].items()
        pod = spec["template"]["spec"]
        (container,) = pod["containers"]
        accepted(container["args"])
        mounts = {mount["name"] for mount in container.get("volumeMounts", ())}
        claims = {claim["metadata"]["name"] for claim in spec.get("volumeClaimTemplates", ())}
        assert mounts == claims | {volume["name"] for volume in pod.get("volumes", ())}
        assert pod["securityContext"]["runAsNonRoot"]


def test_probes_ask_a_port_that_the_command_serves() -> None:
    for manifest in pods():
        (container,) = manifest["spec"]["template"]["spec"]["containers"]
        ports = {port["name"]: port["containerPort"] for port in container["ports"]}
        probes = {kind: probe["httpGet"] for kind, probe in container.items() if kind.endswith("Probe")}
        assert probes["livenessProbe"] == {"path": "/livez", "port": "metrics"}
        assert probes["readinessProbe"] == {"path": "/readyz", "port": "metrics"}
        assert probes.get("startupProbe", {"path": "/startupz"})["path"] == "/startupz"
        assert ports["metrics"] == 5557
        words = container["args"]
        assert "--metrics-port=5557" in words or "--set=metricsExporterType=PROM" in words
        annotations = manifest["spec"]["template"]["metadata"]["annotations"]
        assert annotations["prometheus.io/port"] == "5557"


def test_services_of_compose_are_scraped_and_mounted_files_exist() -> None:
    found = services()
    for name in ("namesrv", "broker", "console"):
        accepted([re.sub(r"\$\{\w+:-(\w+)\}", r"\1", word) for word in found[name]["command"]])
        assert found[name]["healthcheck"]["test"] == ["CMD", "rocketmq", "health", "ready"]
    scraped = yaml.safe_load((DEPLOY / "prometheus" / "prometheus.yml").read_text())["scrape_configs"]
    targets = {target for job in scraped for one in job["static_configs"] for target in one["targets"]}
    assert targets == {f"{name}:5557" for name in ("namesrv", "broker", "console")}
    mounted = [volume.split(":")[0] for service in found.values() for volume in service.get("volumes", ())]
    assert all((DEPLOY / path).exists() for path in mounted if path.startswith("./"))


def test_every_metric_of_dashboard_and_alerts_exists() -> None:
    known = families()
    asked = {name for query in queries() for name in metrics_in(query)}
    assert asked - known.keys() == {"up"}
    assert len(asked) > 40


def test_the_dashboard_is_consistent() -> None:
    dashboard = json.loads((DEPLOY / "grafana" / "rocketmq.json").read_text())
    panels = dashboard["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    taken: set[tuple[int, int]] = set()
    for panel in panels:
        at = panel["gridPos"]
        cells = {(at["x"] + x, at["y"] + y) for x in range(at["w"]) for y in range(at["h"])}
        assert not cells & taken, panel["title"]
        taken |= cells
    variables = {one["name"] for one in dashboard["templating"]["list"]}
    used = set(re.findall(r"\$\{?(\w+)", json.dumps(panels)))
    assert used - {"__rate_interval"} == variables


def test_alerts_say_what_happened_and_what_to_do() -> None:
    groups = yaml.safe_load((DEPLOY / "prometheus" / "rocketmq-alerts.yml").read_text())["groups"]
    rules = [rule for group in groups for rule in group["rules"]]
    assert len({rule["alert"] for rule in rules}) == len(rules)
    for rule in rules:
        assert rule["labels"]["severity"] in {"warning", "critical"}
        for verb, *words in re.findall(r"rocketmq (\w+)(?: (\w+))?", rule["annotations"]["action"]):
            command = main.get_command(click.Context(main), verb)
            assert command is not None
            if isinstance(command, click.Group):
                assert words[0] in command.commands, rule["annotations"]["action"]


@pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool is not installed")
def test_promtool_accepts_rules_queries_and_configuration(tmp_path: Path) -> None:
    asked = [re.sub(r"\$__rate_interval", "5m", query) for query in queries()]
    rules = [{"record": f"query_{number}", "expr": query} for number, query in enumerate(asked)]
    (tmp_path / "queries.yml").write_text(yaml.safe_dump({"groups": [{"name": "dashboard", "rules": rules}]}))
    folder = DEPLOY / "prometheus"
    for kind, file in (
        ("rules", folder / "rocketmq-alerts.yml"), ("rules", tmp_path / "queries.yml"),
        ("config", folder / "prometheus.yml"),
    ):  # fmt: skip
        done = subprocess.run(["promtool", "check", kind, file], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
