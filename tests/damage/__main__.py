"""``python -m tests.damage --rounds 1000 --seed 7``: random damages to stores, judged against a ledger."""

from __future__ import annotations

import argparse
import sys
import time

from tests.damage.damages import Choice
from tests.damage.rounds import Bench, NoSuchFile, table


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.damage", description=__doc__)
    parser.add_argument("--rounds", type=int, default=300)
    parser.add_argument("--seed", type=int, default=1, help="of the first round; the others follow")
    parser.add_argument("--at-once", type=int, default=1, help="damages of each round")
    parser.add_argument("--only", default="", help="damage only files whose path contains this text")
    parser.add_argument("--without", default="", help="damage no files whose path contains this text")
    parser.add_argument("--replica", action="store_true", help="the broker has a slave with the whole log")
    parser.add_argument("--log", action="store_true", help="print what the broker logged")
    options = parser.parse_args()
    begin, bench = time.perf_counter(), Bench()
    outcomes = []
    choice = Choice(options.only, options.without)
    try:
        for seed in range(options.seed, options.seed + options.rounds):
            outcomes.append(bench.round(seed, choice, options.at_once, has_replica=options.replica))
            if outcomes[-1].faults or options.log:
                print(outcomes[-1], flush=True)
            if options.log:
                print(*(f"      {line}" for line in [outcomes[-1].refusal, *outcomes[-1].lines]), sep="\n")
    except NoSuchFile as e:
        parser.error(str(e))
    finally:
        bench.close()
    print(table(outcomes))
    put_off = sum(one.was_put_off for one in outcomes)
    print(f"{put_off} rounds with a rebuild while the broker served")
    failed = sum(bool(one.faults) for one in outcomes)
    print(f"{len(outcomes)} rounds, {failed} with faults, {time.perf_counter() - begin:.1f} s")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
