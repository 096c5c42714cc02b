"""Writes the tables of keys in docs/operations/settings.md: ``python -m tests.docs.settings_table [--check]``."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from rocketmq_py.broker.config.broker_config import OTHER_KEYS, java_key, own_keys
from rocketmq_py.broker.config.java_keys import JAVA_DEFAULTS
from rocketmq_py.broker.config.live_settings import AT_START
from rocketmq_py.broker.config.unsupported import UNSUPPORTED
from rocketmq_py.namesrv import config as namesrv, java_keys as namesrv_keys
from rocketmq_py.server import tls
from rocketmq_py.server.access import settings as access_control

PAGE = Path(__file__).parents[2] / "docs" / "operations" / "settings.md"
COMMAND = "python -m tests.docs.settings_table"
MARK = re.compile(r"^<!-- What follows is generated: .*-->\n", re.MULTILINE)


def expected(text: str) -> str:
    """The page with fresh tables."""
    mark = MARK.search(text)
    assert mark is not None, "the mark of the tables is gone"
    return text[: mark.end()] + "\n" + "\n".join(_tables()) + "\n"


def _tables() -> Iterator[str]:
    yield from _table("broker.conf", {key: (default, _of_broker(key)) for key, default in JAVA_DEFAULTS.items()})
    yield from _table("Other keys in a broker.conf", dict.fromkeys(OTHER_KEYS, ("", "no effect")))
    settings = dict.fromkeys(namesrv_keys.CONTROLLER_KEYS, "") | namesrv_keys.JAVA_DEFAULTS
    yield from _table("namesrv.conf", {key: (default, _of_namesrv(key)) for key, default in settings.items()})
    yield from _table("Access control, in either file", {key: ("", _of_access(key)) for key in access_control.KEYS})
    yield from _table("TLS, in either file", {key: ("", _of_tls(key)) for key in tls.KEYS})


def _table(title: str, rows: Mapping[str, tuple[str, str]]) -> Iterable[str]:
    with_defaults = any(default for default, _ in rows.values())
    head = ["| key | Java's default | state |", "|---|---|---|"] if with_defaults else ["| key | state |", "|---|---|"]
    yield from (f"### {title}", "", *head)
    for key, (default, state) in sorted(rows.items(), key=lambda row: row[0].lower()):
        shown = f" {default and f'`{default}`'} |" if with_defaults else ""
        yield f"| `{key}` |{shown} {state} |"
    yield ""


def _of_broker(key: str) -> str:
    if key in UNSUPPORTED:
        return _refused(*UNSUPPORTED[key])
    if key in access_control.KEYS:
        return _of_access(key)
    if key not in own_keys():
        return "no effect"
    return "at the start" if key in set(map(java_key, AT_START)) else "works"


def _of_namesrv(key: str) -> str:
    if key in namesrv.UNSUPPORTED:
        return _refused(*namesrv.UNSUPPORTED[key])
    return "works" if key in namesrv.NamesrvConfig.keys() else "no effect"  # noqa: SIM118 - not a mapping


def _of_access(key: str) -> str:
    if key in access_control.WITHOUT_EFFECT:
        return "no effect"
    if key in access_control.PROVIDERS:
        return _refused(access_control.PROVIDERS[key].rpartition(".")[2], "a class of Java cannot run here")
    if key == access_control.MIGRATE:
        return _refused("false", f"`{access_control.PLAIN}` serves with the permission file of version 4")
    return "at the start"


def _of_tls(key: str) -> str:
    if key in tls.OF_OPENSSL:
        return _refused("", "ciphers and protocols are those of OpenSSL's own configuration")
    return "at the start"


def _refused(accepted: str, why: str) -> str:
    return f"refused unless {f'`{accepted}`' if accepted else 'empty'}: {why}"


if __name__ == "__main__":
    made = expected(PAGE.read_text(encoding="utf-8"))
    if "--check" not in sys.argv:
        PAGE.write_text(made, encoding="utf-8")
    elif made != PAGE.read_text(encoding="utf-8"):
        sys.exit(f"{PAGE} is out of date: {COMMAND}")
