"""Files that are replaced as a whole, and standard output."""

import io
import os
import sys
from pathlib import Path

import pytest

from rocketmq_py.cli.output.failures import CommandFailure
from rocketmq_py.cli.output.files import discard_output, output_to, replaced


def test_a_file_is_replaced_at_the_end_of_the_block(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(b"old")
    with replaced(path) as file:
        file.write(b"new")
        assert path.read_bytes() == b"old"
    assert path.read_bytes() == b"new"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("error", [ZeroDivisionError, KeyboardInterrupt])
def test_after_an_exception_the_old_file_is_there(tmp_path, error):
    path = tmp_path / "file"
    path.write_bytes(b"old")
    with pytest.raises(error), replaced(path) as file:  # noqa: PT012 - the block is what fails
        file.write(b"new")
        raise error
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_folder_that_is_not_there_is_an_error(tmp_path):
    with pytest.raises(OSError, match="No such file"), replaced(tmp_path / "nix" / "file"):
        raise AssertionError("it must not get here")


# -- standard output


def test_output_for_a_closed_pipe_is_discarded(monkeypatch):
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "w") as output:
        monkeypatch.setattr(sys, "stdout", output)
        output.write("left in the buffer")
        discard_output()
        output.flush()
        monkeypatch.undo()
    monkeypatch.setattr(sys, "stdout", io.StringIO())
    discard_output()


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
def test_a_full_disk_ends_the_command_before_it_says_that_it_succeeded(monkeypatch):
    with Path("/dev/full").open("w") as output:
        monkeypatch.setattr(sys, "stdout", output)
        with pytest.raises(CommandFailure) as failed, output_to(Path("-")) as out:
            out.write(b"fits into the buffer")
        output.flush()  # as at the end of the process
        monkeypatch.undo()
    assert failed.value.message == "- cannot be written: No space left on device"
