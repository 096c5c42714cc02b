"""What the files in ``deploy`` ask of metrics, and which metrics there are."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

import yaml

from rocketmq_py.broker.metrics import families as of_broker
from rocketmq_py.console import figures
from rocketmq_py.core.metrics.exposition import HISTOGRAM, Family
from rocketmq_py.namesrv import monitor
from rocketmq_py.server.monitoring import exposition

ROOT = Path(__file__).parent.parent
DEPLOY = ROOT / "deploy"

_FUNCTIONS = frozenset({
    "avg", "by", "clamp_min", "histogram_quantile", "increase", "max", "min", "on", "rate", "sum", "without",
})  # fmt: skip


def families() -> Mapping[str, Family]:
    """All families of brokers, name servers and the console, by the names of their series."""
    found: dict[str, Family] = {}
    for module in (of_broker, exposition, monitor, figures):
        for family in vars(module).values():
            if isinstance(family, Family):
                suffixes = ("_bucket", "_sum", "_count") if family.kind == HISTOGRAM else ("",)
                found |= {family.name + suffix: family for suffix in suffixes}
    return found


def queries() -> Iterator[str]:
    """The queries of the dashboard and of the alerts."""
    dashboard = json.loads((DEPLOY / "grafana" / "rocketmq.json").read_text())
    for panel in dashboard["panels"]:
        for target in panel.get("targets", ()):
            yield target["expr"]
    for variable in dashboard["templating"]["list"]:
        if variable["type"] == "query":
            yield re.sub(r"label_values\((.*), \w+\)", r"\1", variable["query"]["query"])
    rules = yaml.safe_load((DEPLOY / "prometheus" / "rocketmq-alerts.yml").read_text())
    for group in rules["groups"]:
        for rule in group["rules"]:
            yield rule["expr"]


def metrics_in(query: str) -> set[str]:
    """The names of metrics in a query of Prometheus."""
    bare = re.sub(r'"[^"]*"|\[[^\]]*\]|\b(?:by|without|on) \([^)]*\)', "", query)
    bare = re.sub(r"\{[^}]*\}", "", bare)
    return set(re.findall(r"[a-zA-Z_:][\w:]*", bare)) - _FUNCTIONS


def labels_in(query: str) -> dict[str, set[str]]:
    """For each metric of a query the names of the labels that it is selected by."""
    found: dict[str, set[str]] = {}
    for name, selector in re.findall(r"([a-zA-Z_:][\w:]*)\{([^}]*)\}", query):
        found.setdefault(name, set()).update(re.findall(r"(\w+)\s*(?:=~|!~|!=|=)", re.sub(r'"[^"]*"', '""', selector)))
    return found
