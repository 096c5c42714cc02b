"""SQL92 filters against Java: the same verdicts on thousands of expressions, the same messages from either broker."""

from __future__ import annotations

import json
import subprocess
from collections import Counter

from rocketmq_py.core.sql92 import EvaluationError, compile_sql
from rocketmq_py.errors import SqlIllegal
from tests.interop.javapeer import PEER, START_SECONDS, JavaPeer
from tests.sql92_cases import Cases

Case = tuple[str, dict[str, str]]

EXPRESSIONS, MESSAGES_EACH = 3000, 3


def our_verdict(expression: str, properties: dict[str, str]) -> str:
    try:
        return {True: "true", False: "false", None: "null"}[compile_sql(expression).evaluate(properties)]
    except SqlIllegal:
        return "illegal"
    except EvaluationError:
        return "error"


def java_verdicts(cases: list[Case]) -> list[str]:
    lines = "".join(json.dumps({"expr": expression, "props": properties}) + "\n" for expression, properties in cases)
    done = subprocess.run([str(PEER), "filter"], input=lines, capture_output=True, text=True, check=True,
                          timeout=START_SECONDS)  # fmt: skip
    return [json.loads(line)["verdict"] for line in done.stdout.splitlines()]


def test_java_and_we_judge_alike(java: JavaPeer) -> None:
    supply = Cases(seed=92)
    cases = []
    for _ in range(EXPRESSIONS):
        expression = supply.expression()
        cases += [(expression, supply.properties()) for _ in range(MESSAGES_EACH)]
    theirs = java_verdicts(cases)
    assert len(theirs) == len(cases)
    ours = [our_verdict(*case) for case in cases]
    differing = [(case, ours, java) for case, ours, java in zip(cases, ours, theirs, strict=True) if ours != java]
    assert differing[:5] == []
    assert min(Counter(ours)[verdict] for verdict in ("true", "false", "null", "error", "illegal")) > 500
