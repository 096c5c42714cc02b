"""The target of a reset."""

import click
import pytest

from rocketmq_py.cli.group import reset


def test_a_reset_needs_exactly_one_target():
    with pytest.raises(click.UsageError, match="give one of --earliest"):
        reset.offset_choice(False, False, None, None, None)
    with pytest.raises(click.UsageError, match="give one of --earliest"):
        reset.offset_choice(True, False, None, 0, None)
    assert reset.offset_choice(False, False, None, 0, None) is not None
