"""Files that are replaced as a whole."""

import pytest

from rocketmq_py.cli.output.files import replaced


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
