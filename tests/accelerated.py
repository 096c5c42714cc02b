"""Tests of the accelerator: where it must be, and where they are skipped."""

from __future__ import annotations

import os
import shutil

import pytest

from rocketmq_py.accelerator import Accelerator, installed, is_wanted


def must_be_here() -> bool:
    """Continuous integration with cargo has built it; tests fail there without it unless it was turned off."""
    return os.environ.get("CI") == "true" and shutil.which("cargo") is not None and is_wanted(os.environ)


needs_accelerator = pytest.mark.skipif(
    installed() is None and not must_be_here(), reason="rocketmq-py-native is not installed, or turned off"
)


def accelerator() -> Accelerator:
    """The accelerator."""
    found = installed()
    assert found is not None, "cargo is here, but rocketmq-py-native is not installed"
    return found
