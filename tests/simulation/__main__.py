"""``python -m tests.simulation``: many schedules, each made from a number that repeats it."""

from __future__ import annotations

import argparse
import logging
import os
import sys
from collections import Counter

from tests.simulation.machine import clock
from tests.simulation.many import Plan, play_all
from tests.simulation.run import Outcome
from tests.simulation.scenarios import SCENARIOS


def main() -> int:
    """Play, print what failed, and return the status for the shell."""
    options = _options()
    if options.verbose > 1:
        logging.basicConfig(level=logging.DEBUG)
    else:
        logging.basicConfig(level=logging.CRITICAL + 1, handlers=[logging.NullHandler()])
        logging.getLogger("rocketmq_py").setLevel(logging.WARNING)  # the level that schedules are judged with
    begin, worked = clock.real(), sum(os.times()[:4])
    failed: Counter[str] = Counter()
    plan = Plan(range(options.seed, options.seed + options.schedules), options.scenario, options.verbose > 0)
    for number, outcome in enumerate(play_all(plan)):
        if outcome.findings:
            failed[outcome.scenario] += 1
            _tell(outcome)
        if options.verbose:
            print("\n".join(outcome.findings))
            print("\n".join(outcome.events if options.verbose > 1 else outcome.notes))
            print(f"trace {outcome.trace:08x}, {outcome.seconds:.1f} s")
        if options.first and failed:
            print(f"the first failure is schedule {number + 1}")
            return 1
    seconds = clock.real() - begin
    worked = sum(os.times()[:4]) - worked
    print(
        f"{options.schedules} schedules in {seconds:.1f} s, {options.schedules / worked * 60:.0f} a minute of a core; "
        f"{sum(failed.values())} failed" + "".join(f", {number} of {name}" for name, number in failed.items())
    )
    return 1 if failed else 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make simulate", description=__doc__)
    parser.add_argument("--schedules", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=1, help="of the first schedule; each takes the next number")
    parser.add_argument("--scenario", choices=SCENARIOS, help="play this one only")
    parser.add_argument("--first", action="store_true", help="end at the first failure")
    parser.add_argument("--verbose", "-v", action="count", default=0, help="what happened; twice: every event")
    return parser.parse_args()


def _tell(outcome: Outcome) -> None:
    more = f" (and {len(outcome.findings) - 1} more)" if len(outcome.findings) > 1 else ""
    print(f"{outcome.scenario} --seed {outcome.seed}: {outcome.findings[0][:300]}{more}", flush=True)


if __name__ == "__main__":
    if os.environ.get("PYTHONHASHSEED") != "0":  # the order of sets is part of a schedule
        os.environ["PYTHONHASHSEED"] = "0"
        os.execv(sys.executable, [sys.executable, "-m", "tests.simulation", *sys.argv[1:]])
    sys.exit(main())
