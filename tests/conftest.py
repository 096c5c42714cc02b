"""What holds for every test: markers by folder, whether the Java peer is there; and the one Spark session there is."""

from __future__ import annotations

import asyncio
import datetime
import gc
import inspect
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests import quarantine, times
from tests.examples import register_profiles
from tests.interop import javapeer
from tests.leaving import Leaving

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

register_profiles()

TESTS = Path(__file__).parent
EARLY = str(TESTS / "spark" / "early")
"""Has a ``sitecustomize`` for the Python processes of streaming sources."""
WITH_SERVERS = frozenset({"damage", "demo", "docs", "interop", "server", "spark"})
"""Folders whose tests start servers."""


@pytest.fixture(scope="session", autouse=True)
def interruptible() -> None:
    """A shell starts what runs in the background with interrupts ignored, and so would be what the tests start."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(Leaving(), "leaving-a-folder")
    if file := os.environ.get(times.VARIABLE):
        config.pluginmanager.register(times.Times(Path(file)), "times-of-tests")


def pytest_report_header() -> str:
    reason = javapeer.missing()
    return f"java peer: {'yes' if reason is None else f'no, interop tests skip ({reason})'}"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Marks tests by their folder; skips interop tests without Java, but never in CI."""
    reason, in_ci = javapeer.missing(), os.environ.get("CI") == "true"
    for item in items:
        folder = item.path.relative_to(TESTS).parts[0] if item.path.is_relative_to(TESTS) else ""
        if folder in ("interop", "spark"):
            item.add_marker(folder)
            if item.get_closest_marker("timeout") is None:  # the item's own would replace that of its module
                item.add_marker(pytest.mark.timeout(900))  # JVMs on a busy machine
        if "spark" in getattr(item, "fixturenames", ()):
            # PySpark leaves sockets to the garbage collector, which warns about them in whatever test runs then.
            item.add_marker(pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"))
            item.add_marker(pytest.mark.filterwarnings("ignore::ResourceWarning"))
        if folder == "interop" and reason is not None:
            if in_ci:
                raise pytest.UsageError(f"CI=true and interop tests cannot run: {reason}")
            item.add_marker(pytest.mark.skip(reason=reason))
    quarantine.apply(quarantine.load(quarantine.FILE.read_text()), items, datetime.datetime.now(tz=datetime.UTC).date())


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Python processes that Spark starts connect to it before they import anything, however long that takes."""
    paths = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    if item.get_closest_marker("spark") and EARLY not in paths:
        os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [EARLY, *paths]))


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Runs an ``async def`` test in an event loop of its own."""
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    arguments = {name: pyfuncitem.funcargs[name] for name in inspect.signature(pyfuncitem.obj).parameters}
    asyncio.run(pyfuncitem.obj(**arguments))
    return True


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """Collects tests without collecting garbage; what was collected is then out of the garbage collector's sight.

    Looking at it costs a tenth of all time. The collector looks at the rest less often than by default: frozen objects
    do not count as long-lived ones, so that it would look at everything else each time.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.collect()
        gc.freeze()
        gc.set_threshold(2000, 10, 20)
        gc.enable()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    quarantine.summarise(terminalreporter)


@pytest.fixture(scope="module", autouse=True)
def patience(request: pytest.FixtureRequest) -> Iterator[None]:
    """Longer timeouts for the clients of tests with servers, unless their module has the marker ``java_timeouts``."""
    folder = request.path.relative_to(TESTS).parts[0] if request.path.is_relative_to(TESTS) else ""
    if folder not in WITH_SERVERS or request.node.get_closest_marker("java_timeouts"):
        yield
        return
    from tests.patience import patient_clients

    with patient_clients():
        yield


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """A session for all tests that want one: a process has no other beside it, and its JVM takes seconds to start."""
    from rocketmq_py.spark import session_builder
    from tests.s3 import CREDENTIALS
    from tests.spark.standalone import QUICK_JVM

    root = str(TESTS.parent)  # workers import data sources of tests
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [root, os.environ.get("PYTHONPATH")]))
    os.environ.update(CREDENTIALS)  # workers have the environment that the JVM was started with
    session: SparkSession = (
        session_builder("rocketmq-tests", compiled_home=True)
        .master("local[2]")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.extraJavaOptions", QUICK_JVM)
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.python.authenticate.socketTimeout", "300s")  # a busy machine starts Python slowly
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("OFF")
    yield session
    session.stop()
