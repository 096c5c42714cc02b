"""How many examples a property test tries: all in ``make test-long``, a third in ``make test``, else a tenth."""

from __future__ import annotations

from hypothesis import HealthCheck, settings

FULL = 100
"""Examples of a property that names no number, which is also Hypothesis's default."""
SOME = 30
QUICK = 10
FEWEST = 5


def register_profiles() -> None:
    """Define the profiles ``full``, ``some`` and ``quick``, and load ``full``; ``--hypothesis-profile`` loads another.

    No clock decides a test, so there is no deadline. ``quick`` tries the same examples in every run: who runs it after
    each edit sees a failure of their own; the others look for new ones.
    """
    patient = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
    settings.register_profile("full", patient, max_examples=FULL)
    settings.register_profile("some", patient, max_examples=SOME)
    settings.register_profile("quick", patient, max_examples=QUICK, derandomize=True, database=None)
    settings.load_profile("full")


def examples(number: int) -> int:
    """Number of examples under the loaded profile where the full profile has ``number``."""
    loaded = settings().max_examples
    return number if loaded >= FULL else max(FEWEST, number * loaded // FULL)
