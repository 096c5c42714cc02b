"""A pytest plugin that writes down which test runs which line: ``-p tests.mutants.recorder``.

``MUTANTS_RECORD`` names the file to write, ``MUTANTS_SOURCE`` the directory with the package.
"""

from __future__ import annotations

import json
import os
import time
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import coverage
import pytest

from tests.mutants.queued import queued_seconds

Record = dict[str, dict[str, dict[str, str]]]
"""Test file, source file, test: a number in hexadecimal whose bit *n* says that the test runs line *n*."""


class Recorder:
    """Coverage with one context for each test; a test that fails is left out, it would notice every fault."""

    def __init__(self, source: Path) -> None:
        self._source = source
        self._coverage = coverage.Coverage(data_file=None, config_file=False, source=[str(source)])
        self._coverage.set_option("run:disable_warnings", ["no-data-collected"])  # tests of the tools run none of it
        self._seconds: dict[str, float] = {}
        self._failed: set[str] = set()

    def start(self) -> None:
        self._coverage.start()

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        self._coverage.switch_context(item.nodeid)
        begin = unhindered()
        try:
            return (yield)
        finally:
            self._seconds[item.nodeid] = unhindered() - begin
            self._coverage.switch_context("")

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed or report.skipped:
            self._failed.add(report.nodeid)

    def write(self, file: Path) -> None:
        self._coverage.stop()
        record: Record = defaultdict(lambda: defaultdict(dict))
        data = self._coverage.get_data()
        for path in data.measured_files():
            masks: dict[str, int] = defaultdict(int)
            for line, tests in data.contexts_by_lineno(path).items():
                for test in tests:
                    masks[test] |= 1 << line
            name = Path(path).relative_to(self._source).as_posix()
            for test, mask in masks.items():
                if test and test not in self._failed:
                    record[test.partition("::")[0]][name][test] = f"{mask:x}"
        seconds = {test: taken for test, taken in self._seconds.items() if test not in self._failed}
        file.write_text(json.dumps({"lines": record, "seconds": seconds}))


def unhindered() -> float:
    """Seconds that pass while this process works or waits, but not for a processor.

    On a busy machine every test would seem slow, and few would be tried on a fault.
    """
    return time.perf_counter() - queued_seconds(os.getpid())


def pytest_configure(config: pytest.Config) -> None:
    recorder = Recorder(Path(os.environ["MUTANTS_SOURCE"]))
    config.pluginmanager.register(recorder, "mutants-recorder")
    recorder.start()


def pytest_unconfigure(config: pytest.Config) -> None:
    recorder = config.pluginmanager.get_plugin("mutants-recorder")
    if recorder is not None:
        recorder.write(Path(os.environ["MUTANTS_RECORD"]))
