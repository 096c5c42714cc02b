"""Everything a tool can ask, asked of one side: mqadmin's commands, and requests mqadmin does not make.

Compared are texts and bodies without what differs from run to run: addresses, times, ids, rates.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from pathlib import Path

from rocketmq_py.broker.config.broker_config import own_keys
from rocketmq_py.broker.config.java_keys import JAVA_DEFAULTS
from tests.interop.admin_requests import REQUESTS, Raw, ask, committed
from tests.interop.javapeer import JavaPeer, JavaProcess
from tests.interop.mqadmin_cases import CASES, DIFFERENT, PREPARATION, Case
from tests.interop.side import eventually

TOPICS = [
    {"topicName": "list-1", "readQueueNums": 2, "writeQueueNums": 2, "perm": 6},
    {"topicName": "list-2", "readQueueNums": 3, "writeQueueNums": 1, "perm": 6, "order": True,
     "attributes": {"+message.type": "DELAY"}},
]  # fmt: skip
GROUPS = [{"groupName": "list-g1", "retryMaxTimes": 3}, {"groupName": "list-g2", "consumeEnable": False}]

EXTRA_KEYS = "|".join(sorted(own_keys().keys() - JAVA_DEFAULTS.keys()))
MASKS = (
    (r"(?m)^\s*at .*\n|^\s*\.\.\. \d+ more\n?", ""),  # of stack traces only the words count
    (r"(?m)^.*RMQ_SYS_ROCKSDB_.*\n", ""),  # topics of a store we do not have
    (rf"(?m)^({EXTRA_KEYS}) +=.*\n", ""),  # settings only we have
    (r"\d+\.\d+\.\d+\.\d+:\d+", "ADDRESS"),
    (r"\b[0-9A-F]{32,56}\b", "ID"),
    (r"\d+\.\d+\.\d+\.\d+@peer-[a-z]-\d+\S*", "CLIENT"),
    (r"\d{4}-\d\d-\d\d[ #]\d\d:\d\d:\d\d([:,.]\d{3})?", "TIME"),
    (r"\b1\d{12}\b", "MILLISECONDS"),
    (r"\b\d+ (days|hours|minutes|seconds)\b", r"N \1"),
    (r"\b\d+ms\b", "N ms"),
    (r"\b\d+\.\d+\b", "DECIMAL"),
    (r"[ \t]+", " "),
)


OWN = re.compile(
    r"\b(slow(Turns|estTurn\w*)|brokerVersion(?!Desc)|scrub[A-Z]\w*|rebuild[A-Z]\w*|scrubbed[A-Z]\w*|servesGrpc)\b"
)
"""Figures that only our broker has: mqadmin prints whatever a broker sends."""


@dataclass(slots=True)
class Answers:
    """What one side has said, by the number of the case: to mqadmin, and to requests mqadmin does not make."""

    work: Path
    texts: list[str] = field(default_factory=list)
    different: list[str] = field(default_factory=list)
    raw: list[Raw] = field(default_factory=list)

    def normal(self, number: int, case: Case) -> list[str]:
        """The lines that must be the same on both sides."""
        text = re.sub(case.hide, "HIDDEN", self.texts[number].replace(str(self.work), "WORK"))
        for pattern, instead in MASKS:
            text = re.sub(pattern, instead, text)
        lines = [line.strip() for line in text.splitlines() if not OWN.search(line)]
        return lines if case.in_order else sorted(lines)


class Run:
    """All commands on one side."""

    def __init__(self, java: JavaPeer, namesrv: str, broker: str, work: Path) -> None:
        work.mkdir()
        self._java = java
        self._namesrv = namesrv
        self._names = {"broker": broker, "work": str(work)}
        self.answers = Answers(work)

    def admin(self, line: str) -> str:
        command, *rest = line.format(**self._names).split()
        return self._java.say_admin(command, "-n", self._namesrv, *rest)

    def run(self) -> Answers:
        work, answers = self.answers.work, self.answers
        (work / "topics.json").write_text(json.dumps(TOPICS))
        (work / "groups.json").write_text(json.dumps(GROUPS))
        answers.texts += [self.admin(case.line) for case in PREPARATION]
        with self._consumer() as consumer:
            self._messages(consumer)
            self.admin("cloneGroupOffset -s readers -d clones -t orders -o false")
            answers.raw = [ask(self._names["broker"], number) for number in range(len(REQUESTS))]
            answers.texts += [self.admin(case.line) for case in CASES]
        answers.different = [self.admin(case.line) for case in DIFFERENT]
        return answers

    def _consumer(self) -> JavaProcess:
        return self._java.consumer(self._namesrv, "orders", "readers", timeout=600)

    def _messages(self, consumer: JavaProcess) -> None:
        """Sends them, and waits until they are consumed, committed and counted."""
        sent = self._java.produce(self._namesrv, "orders", 10, queue=0, keys="k-{i}", tags="A,B")
        self._java.produce(self._namesrv, "orders", 5, queue=1, start=10, keys="k-{i}", tags="A,B")
        self._names |= {"uniq": sent[0]["msgId"], "offset": sent[0]["offsetMsgId"]}
        seen: set[str] = set()
        consumer.until(lambda row: row["type"] == "msg" and (seen.add(row["msgId"]) or len(seen) == 15))
        wanted = {"orders@readers": {"0": 10, "1": 5}, "%RETRY%readers@readers": {"0": 0}}
        eventually(lambda: committed(self._names["broker"]), lambda table: wanted.items() <= table.items())
        eventually(lambda: self.admin("statsAll -t orders"), lambda text: re.search(r" 15 +15\s", text))
