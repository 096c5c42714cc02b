"""Many connections are many files."""

import errno
import logging
import os

import pytest

from rocketmq_py.server import file_limit as module
from rocketmq_py.server.file_limit import LoopFaults, raise_limit


class Loop:
    def __init__(self):
        self.reported = []

    def default_exception_handler(self, context):
        self.reported.append(context)


@pytest.mark.skipif(os.name == "nt", reason="there is no limit")
def test_the_file_limit_is_raised_to_what_the_system_grants():
    import resource

    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(256, before[1]), before[1]))
        assert raise_limit() in before
        assert resource.getrlimit(resource.RLIMIT_NOFILE)[0] > 256
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


@pytest.mark.skipif(os.name == "nt", reason="there is no limit")
@pytest.mark.parametrize(("fault", "limit"), [(None, 4096), (ValueError("no"), 256), (PermissionError("no"), 256)])
def test_the_limit_in_force_is_told_also_if_it_cannot_be_raised(fault, limit, monkeypatch):
    import resource

    asked = []

    def setrlimit(*given):
        asked.append(given)
        if fault is not None:
            raise fault

    monkeypatch.setattr(resource, "getrlimit", lambda _: (256, 4096))
    monkeypatch.setattr(resource, "setrlimit", setrlimit)
    assert raise_limit() == limit
    assert asked == [(resource.RLIMIT_NOFILE, (4096, 4096))]


def test_running_out_of_files_is_logged_once_a_minute(caplog, monkeypatch):
    time = [0.0]
    monkeypatch.setattr(module.time, "monotonic", lambda: time[0])
    faults, lines = LoopFaults(64), []
    for now in (0.0, 59.5, 60.0, 119.5, 120.0):
        time[0] = now
        faults(Loop(), {"exception": OSError(errno.EMFILE, "too many open files")})
        lines.append(len(caplog.records))
    assert lines == [1, 1, 2, 2, 3]


def test_running_out_of_files_is_one_log_line(caplog):
    caplog.set_level(logging.INFO)
    loop, faults = Loop(), LoopFaults(64)
    for number in (errno.EMFILE, errno.ENFILE, errno.EMFILE):
        faults(loop, {"message": "accept failed", "exception": OSError(number, "too many open files")})
    assert [record.getMessage() for record in caplog.records] == [
        "no connection more can be taken: 64 files are open, the limit; raise it (ulimit -n, LimitNOFILE)"
    ]
    assert loop.reported == []


def test_other_faults_are_reported_unchanged():
    loop, faults = Loop(), LoopFaults(None)
    contexts = [{"message": "odd"}, {"exception": OSError(errno.EPIPE, "pipe")}, {"exception": KeyError("x")}]
    for context in contexts:
        faults(loop, context)
    assert loop.reported == contexts
