"""Limits for repeated log lines."""

from rocketmq_py.core.log_limiter import _KINDS, LogDecision, LogLimiter

SAID = LogDecision(emit=True)
QUIET = LogDecision(emit=False)


def test_a_line_is_logged_a_few_times_per_interval() -> None:
    repeats = LogLimiter(limit=2, span=60)
    assert [repeats.judge("a", now) for now in (0, 1, 2, 59)] == [SAID, SAID, QUIET, QUIET]
    assert repeats.judge("b", 2) == SAID


def test_the_next_interval_reports_the_suppressed_lines() -> None:
    repeats = LogLimiter(limit=1, span=60)
    assert [repeats.judge("a", now) for now in (0, 1, 2, 60, 61, 500, 560)] == [
        SAID, QUIET, QUIET, LogDecision(emit=True, suppressed=2), QUIET, LogDecision(emit=True, suppressed=1), SAID,
    ]  # fmt: skip


def test_without_arguments_it_is_twenty_lines_a_minute() -> None:
    repeats = LogLimiter()
    assert [repeats.judge("a", 0).emit for _ in range(21)] == [True] * 20 + [False]
    assert [repeats.judge("a", now).emit for now in (59, 60)] == [False, True]


def test_old_wordings_are_forgotten() -> None:
    repeats = LogLimiter(limit=1, span=60)
    for kind in range(_KINDS + 1):
        assert repeats.judge(kind, 0) == SAID
    assert repeats.judge(0, 1) == SAID
    assert repeats.judge(_KINDS, 1) == QUIET
    assert len(repeats._counts) == _KINDS
