"""The compiled load generator in ``benchmarks/generator``: building it, running it, reading its result.

It is written in Rust. Without cargo it cannot be used, which is an error; there is no substitute.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Self

import msgspec

from benchmarks.errors import BenchError
from benchmarks.loads import TOPIC, Load

SOURCE = Path(__file__).with_name("generator")
GROUP = "benchmark"
"""The consumer group of loads by gRPC."""

_NAME = "rocketmq-load"
_RUN_SECONDS = 900.0
_ENDLESS = 1 << 40


class Driven(msgspec.Struct, frozen=True):
    """The result of one run, in which every answer was correct.

    Times are microseconds from the writing of a request to the reading of its answer. ``own_cores`` is the average
    number of cores used by the generator, ``server_cores`` that of the given processes. ``sent`` has the number of
    messages by address and queue. Deliveries are those of a fan-out; their times begin when a message was to be sent.
    """

    requests: int
    messages: int
    seconds: float
    rate: float
    p50_us: float
    p99_us: float
    p999_us: float
    max_us: float
    own_cores: float
    own_cpu_us_per_message: float
    server_cpu_seconds: list[float]
    server_cores: float
    server_cpu_us_per_message: float
    sent: list[list[int]]
    deliveries: int = 0
    delivery_p50_us: float = 0.0
    delivery_p99_us: float = 0.0
    delivery_max_us: float = 0.0


def missing() -> str | None:
    """Return the reason why the generator cannot be built here; None if it can."""
    if shutil.which("cargo") is None:
        return "the load generator is written in Rust and cargo is not on PATH; https://rustup.rs installs it"
    return None


class Generator:
    """The load generator; ``program`` is the path of the built executable."""

    def __init__(self, program: Path) -> None:
        self.program = program

    @classmethod
    def build(cls, profile: str = "release") -> Self:
        """Build the generator: in about a minute the first time, at once if its source has not changed.

        Tests build it with the profile ``dev``, that of its own tests, in a fifth of the time.

        The result is in the user's cache directory, in a folder for each checkout. A network is needed only to download
        its dependencies for the first time.

        :raises BenchError: cargo is missing or fails.
        """
        lacking = missing()
        if lacking is not None:
            raise BenchError(lacking)
        target = _cache() / f"generator-{hashlib.sha256(str(SOURCE).encode()).hexdigest()[:12]}"
        command = ["cargo", "build", "--profile", profile, "--locked", "--quiet", "--target-dir", str(target)]
        built = subprocess.run(command, cwd=SOURCE, capture_output=True, text=True, check=False)
        if built.returncode:
            raise BenchError(f"the load generator cannot be built: {built.stderr.strip()}")
        return cls(target / {"dev": "debug"}.get(profile, profile) / _NAME)

    @property
    def delay(self) -> Path:
        """The path of the proxy that delays; see ``benchmarks/generator/src/bin``."""
        return self.program.with_name("rocketmq-delay")

    def drive_grpc(
        self, endpoint: str, kind: str, count: int, *, inflight: int, pid: int, group: str = GROUP
    ) -> Driven:
        """Send or receive ``count`` messages of the topic by gRPC; see ``rocketmq-grpc-load --help``.

        :param kind: ``send`` or ``receive``.
        :raises BenchError: an answer is missing or not a success.
        """
        program = str(self.program.with_name("rocketmq-grpc-load"))
        named = {"address": endpoint, "count": count, "inflight": inflight, "pid": pid, "group": group, "topic": TOPIC}
        command = [program, kind, *(word for name, value in named.items() for word in (f"--{name}", str(value)))]
        return _driven(command, f"{kind} by gRPC to {endpoint}")

    def drive(
        self, addresses: str | Sequence[str], load: Load, count: int, *, pids: Iterable[int] = (),
        until: int | None = None, group: str | None = None, verify: bool = False, seconds: float | None = None,
        rate: int | None = None,
    ) -> Driven:  # fmt: skip
        """Send ``count`` requests to one broker or spread over several; see ``rocketmq-load --help``.

        :param addresses: ``host:port``, or ``name@host:port`` of a broker that is not broker-a.
        :param pids: processes of servers whose CPU time is measured.
        :param until: offset at which pulls of a queue start again from its begin.
        :param rate: requests per second, as of :meth:`steadily`; None for as many as the broker answers.
        :raises BenchError: an answer is missing, duplicate, not a success, or has other messages than requested.
        """
        where = [addresses] if isinstance(addresses, str) else addresses
        command = self._command(where, load, count)
        command += [word for pid in pids for word in ("--pid", str(pid))]
        command += ["--until", str(until)] if until is not None else []
        command += ["--group", group] if group is not None else []
        command += ["--seconds", str(seconds)] if seconds is not None else []
        command += ["--rate", str(rate)] if rate is not None else []
        command += ["--verify"] if verify else []
        return _driven(command, f"{load.kind} to {', '.join(where)}", _RUN_SECONDS + (seconds or 0.0))

    @contextmanager
    def steadily(self, address: str, load: Load, rate: int) -> Iterator[list[Driven]]:
        """Drive a broker at a steady rate during the block, which gets a list; the result is added to it afterwards.

        The time of a request counts from when it was due, so that waiting behind a slow request counts, too.

        :param rate: requests per second.
        :raises BenchError: as :meth:`drive`.
        """
        command = [*self._command([address], load, _ENDLESS), "--rate", str(rate), "--until-closed"]
        with subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        ) as process:
            found: list[Driven] = []
            try:
                yield found
                said, failure = process.communicate(timeout=_RUN_SECONDS)
            except BaseException:
                process.kill()  # the block would wait for its end
                raise
        if process.returncode:
            raise BenchError(failure.strip())
        found.append(msgspec.json.decode(said, type=Driven))

    def _command(self, addresses: Sequence[str], load: Load, count: int) -> list[str]:
        command = [str(self.program), *_words(load, len(addresses)), "--count", str(count)]
        return command + [word for address in addresses for word in ("--address", address)]


def _driven(command: list[str], what: str, limit: float = _RUN_SECONDS) -> Driven:
    """Run a generator and return its result.

    :param what: named if it has not ended after ``limit`` seconds.
    :raises BenchError: it fails.
    """
    try:
        said = subprocess.run(command, capture_output=True, text=True, check=False, timeout=limit)
    except subprocess.TimeoutExpired:
        raise BenchError(f"{what} did not end within {limit:.0f} s") from None
    if said.returncode:
        raise BenchError(said.stderr.strip())
    return msgspec.json.decode(said.stdout, type=Driven)


def _words(load: Load, brokers: int) -> list[str]:
    named = {
        "inflight": max(load.inflight, brokers), "connections": max(load.connections, brokers), "topic": load.topic,
        "queues": load.queues, "size": load.size, "each": load.each, "run": load.run, "headers": load.headers,
    }  # fmt: skip
    words: list[str] = [load.kind]
    words += [word for name, value in named.items() for word in (f"--{name}", str(value))]
    words += ["--topics", str(load.topics)] if load.topics is not None else []
    words += ["--groups", str(load.groups)] if load.groups is not None else []
    words += ["--from", str(load.begin)] if load.begin else []
    words += [word for name, value in load.properties.items() for word in ("--property", f"{name}={value}")]
    return words


def _cache() -> Path:
    base = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(base).expanduser() / "rocketmq-py"
