"""Writes docs/reference/requests.md from the servers' routes: ``python -m tests.docs.requests_table [--check]``."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path

from rocketmq_py.broker.handlers.access import AccessHandlers
from rocketmq_py.namesrv import NameServer
from rocketmq_py.protocol.codes import RequestCode as Code
from rocketmq_py.server import Route
from rocketmq_py.server.access.auth_dispatcher import AuthDispatcher
from rocketmq_py.server.access.settings import AccessSettings
from tests.unit.broker.harness import broker

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "requests.md"
COMMAND = "python -m tests.docs.requests_table"

HEAD = f"""# Requests

This page lists the requests of Apache RocketMQ 5, and which of them our servers handle. A server answers any other
request with REQUEST_CODE_NOT_SUPPORTED (3). Requests from 300,000 on belong to this project; others don't support them.

`{COMMAND}` generates this page from the servers' routes.

| code | name | broker | name server |
|---|---|---|---|
"""

TO_CLIENTS = {
    Code.CHECK_TRANSACTION_STATE, Code.NOTIFY_CONSUMER_IDS_CHANGED, Code.RESET_CONSUMER_CLIENT_OFFSET,
    Code.GET_CONSUMER_STATUS_FROM_CLIENT, Code.PUSH_REPLY_MESSAGE_TO_CLIENT,
}  # fmt: skip
"""Requests that brokers send to clients."""

_CONTROLLER, _COLD = "controller mode", "cold data control"
_LITE, _TIMELINE = "lite topics", "timers in RocksDB"
_ROCKSDB, _CONTAINER, _NOBODY = "RocksDB store", "broker containers", "no server of Apache RocketMQ 5 handles it"

NEVER = {
    13: ("QUERY_BROKER_OFFSET", _NOBODY), 22: ("GET_TOPIC_CONFIG_LIST", _NOBODY),
    23: ("GET_TOPIC_NAME_LIST", _NOBODY), 27: ("TRIGGER_DELETE_FILES", _NOBODY), 47: ("GET_CLIENT_CONFIG", _NOBODY),
    209: ("SUSPEND_CONSUMER", _NOBODY), 210: ("RESUME_CONSUMER", _NOBODY),
    211: ("RESET_CONSUMER_OFFSET_IN_CONSUMER", _NOBODY), 212: ("RESET_CONSUMER_OFFSET_IN_BROKER", _NOBODY),
    213: ("ADJUST_CONSUMER_THREAD_POOL", _NOBODY), 214: ("WHO_CONSUME_THE_MESSAGE", _NOBODY),
    301: ("REGISTER_FILTER_SERVER", _NOBODY), 302: ("REGISTER_MESSAGE_FILTER_CLASS", _NOBODY),
    354: ("CHECK_ROCKSDB_CQ_WRITE_PROGRESS", _ROCKSDB), 355: ("EXPORT_ROCKSDB_CONFIG_TO_JSON", _ROCKSDB),
    200056: ("POP_ROLLBACK", _ROCKSDB),
    902: ("ADD_BROKER", _CONTAINER), 903: ("REMOVE_BROKER", _CONTAINER),
    1001: ("CONTROLLER_ALTER_SYNC_STATE_SET", _CONTROLLER), 1002: ("CONTROLLER_ELECT_MASTER", _CONTROLLER),
    1003: ("CONTROLLER_REGISTER_BROKER", _CONTROLLER), 1004: ("CONTROLLER_GET_REPLICA_INFO", _CONTROLLER),
    1005: ("CONTROLLER_GET_METADATA_INFO", _CONTROLLER), 1006: ("CONTROLLER_GET_SYNC_STATE_DATA", _CONTROLLER),
    1007: ("GET_BROKER_EPOCH_CACHE", _CONTROLLER), 1008: ("NOTIFY_BROKER_ROLE_CHANGED", _CONTROLLER),
    1009: ("UPDATE_CONTROLLER_CONFIG", _CONTROLLER), 1010: ("GET_CONTROLLER_CONFIG", _CONTROLLER),
    1011: ("CLEAN_BROKER_DATA", _CONTROLLER), 1012: ("CONTROLLER_GET_NEXT_BROKER_ID", _CONTROLLER),
    1013: ("CONTROLLER_APPLY_BROKER_ID", _CONTROLLER),
    2001: ("UPDATE_COLD_DATA_FLOW_CTR_CONFIG", _COLD), 2002: ("REMOVE_COLD_DATA_FLOW_CTR_CONFIG", _COLD),
    2003: ("GET_COLD_DATA_FLOW_CTR_INFO", _COLD), 2004: ("SET_COMMITLOG_READ_MODE", _COLD),
    5001: ("SWITCH_TIMER_ENGINE", _TIMELINE),
    200070: ("POP_LITE_MESSAGE", _LITE), 200071: ("LITE_SUBSCRIPTION_CTL", _LITE),
    200072: ("ACK_LITE_MESSAGE", _LITE), 200073: ("NOTIFY_UNSUBSCRIBE_LITE", _LITE),
    200074: ("GET_BROKER_LITE_INFO", _LITE), 200075: ("GET_PARENT_TOPIC_INFO", _LITE),
    200076: ("GET_LITE_TOPIC_INFO", _LITE), 200077: ("GET_LITE_CLIENT_INFO", _LITE),
    200078: ("GET_LITE_GROUP_INFO", _LITE), 200079: ("TRIGGER_LITE_DISPATCH", _LITE),
}  # fmt: skip
"""Codes without a name here, and the feature they belong to."""


def page() -> str:
    """The text of the page."""
    with tempfile.TemporaryDirectory() as directory, broker(Path(directory)) as running:
        access = AuthDispatcher(AccessSettings(), lambda: None, lambda _: None, "c")
        in_broker = _codes(running.services.router(AccessHandlers(access.table)).routes)
    in_namesrv = _codes(NameServer().routes)
    rows = {int(code): _row(code, code.name, _broker(code, in_broker), _cell(code, in_namesrv)) for code in Code}
    rows |= {code: _row(code, name, f"refused: {why}", "") for code, (name, why) in NEVER.items() if code not in rows}
    return HEAD + "".join(rows[code] for code in sorted(rows))


def _codes(routes: Iterable[Route]) -> set[Code]:
    return {route.code for route in routes}


def _broker(code: Code, handled: set[Code]) -> str:
    if code in TO_CLIENTS:
        return "sent to clients"
    return _cell(code, handled)


def _cell(code: Code, handled: set[Code]) -> str:
    return "handled" if code in handled else ""


def _row(code: int, name: str, in_broker: str, in_namesrv: str) -> str:
    if not in_broker and not in_namesrv:
        in_broker = "refused"
    return f"| {code:d} | {name} | {in_broker} | {in_namesrv} |\n"


if __name__ == "__main__":
    made = page()
    if "--check" not in sys.argv:
        PAGE.write_text(made, encoding="utf-8")
    elif made != PAGE.read_text(encoding="utf-8"):
        sys.exit(f"{PAGE} is out of date: {COMMAND}")
