"""How commands end: statuses, one line for an error, interrupts, closed pipes; asking and progress."""

import errno
import io
import os
import subprocess
import sys
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from rocketmq_py.cli import main, root
from rocketmq_py.cli.connect import context
from rocketmq_py.cli.output import prompts
from rocketmq_py.cli.output.failures import Status, failure_of, missing
from rocketmq_py.cli.output.tables import echo_rows
from rocketmq_py.errors import (
    BrokerError,
    ConfigError,
    ConnectError,
    GroupNotExist,
    NoRouteError,
    NotFound,
    RocketMQError,
    StoreLocked,
    TopicNotExist,
)


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (RocketMQError("x"), 1),
        (ConnectError("x"), 1),
        (BrokerError(1, "x"), 1),
        (ConfigError("x"), 2),
        (StoreLocked("x"), 2),
        (NoRouteError("x"), 3),
        (NotFound(22, "x"), 3),
        (TopicNotExist(17, "x"), 3),
        (GroupNotExist(26, "x"), 3),
    ],
)
def test_each_error_has_its_exit_status(error, status):
    failure = failure_of(error)
    assert (failure.exit_code, failure.message) == (status, str(error))


def test_an_error_contains_a_hint():
    assert missing("there is no x", "look").message == "there is no x. look"
    assert missing("there is no x").exit_code == 3


@pytest.fixture
def ends(monkeypatch):
    """Has ``rocketmq context ls`` raise."""

    def run(error, *options):
        def fail(*_):
            raise error

        monkeypatch.setattr(context, "load", fail)
        return CliRunner().invoke(main, (*options, "context", "ls"))

    return run


def test_an_interrupt_exits_with_130_without_output(ends):
    result = ends(KeyboardInterrupt())
    assert (result.exit_code, result.output) == (Status.INTERRUPTED, "")


def test_debug_shows_the_traceback(ends):
    error = ConnectError("nobody there")
    assert ends(error).output == "Error: nobody there\n"
    assert ends(error, "--debug").exception is error


@pytest.mark.skipif(os.name == "nt", reason="pipes differ")
def test_a_closed_pipe_ends_the_command_without_an_error():
    read, write = os.pipe()
    os.close(read)
    command = [sys.executable, "-m", "rocketmq_py.cli", "context", "ls"]
    with os.fdopen(write, "wb") as closed:
        done = subprocess.run(command, stdout=closed, stderr=subprocess.PIPE, check=False)
    assert (done.returncode, done.stderr) == (Status.PIPE_CLOSED, b"")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
def test_a_full_disk_behind_standard_output_is_one_line():
    command = [sys.executable, "-m", "rocketmq_py.cli", "context", "ls"]
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, check=False)
    assert (done.returncode, done.stderr) == (1, b"Error: standard output cannot be written: No space left on device\n")


def test_other_errors_of_the_system_are_not_taken_for_a_full_disk(ends):
    for error in OSError(errno.EIO, "broken"), OSError(errno.ENOSPC, "full", "store/file"):
        result = ends(error)
        assert "standard output" not in result.output
    assert result.output == "Error: store/file cannot be used: full\n"
    full = OSError(errno.ENOSPC, "full")
    assert ends(full, "--debug").exception is full


def test_each_verb_has_its_own_module():
    for verb in root.VERBS:
        assert main.get_command(click.Context(main), verb).name == verb


# -- asking


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_without_a_terminal_only_the_yes_option_confirms(monkeypatch):
    monkeypatch.setattr("sys.stdin", io.StringIO("y\n"))
    prompts.confirm("Sure?", yes=True)
    with pytest.raises(click.UsageError, match=r"Sure\? There is no terminal to ask at: give --yes"):
        prompts.confirm("Sure?", yes=False)


def test_at_a_terminal_the_answer_decides(monkeypatch):
    monkeypatch.setattr("sys.stdin", Terminal())
    answers = iter(["y", "n"])
    monkeypatch.setattr("click.termui.visible_prompt_func", lambda _: next(answers))
    prompts.confirm("Sure?", yes=False)
    with pytest.raises(click.Abort):
        prompts.confirm("Sure?", yes=False)


def test_progress_is_printed_as_lines_without_a_terminal(capsys):
    now = [0.0]
    lines = prompts._ProgressLines("sending", 10, lambda: now[0])
    lines.add(1)
    now[0] = prompts.PLAIN_SECONDS
    lines.add(2)
    lines.add(3)
    assert capsys.readouterr().err == "sending: 3 of 10\n"


@pytest.mark.parametrize("has_rich", [False, True])
def test_progress_is_a_bar_at_a_terminal(monkeypatch, has_rich):
    if has_rich:
        pytest.importorskip("rich")
    else:
        monkeypatch.setitem(sys.modules, "rich.console", None)
    terminal = Terminal()
    monkeypatch.setattr("sys.stderr", terminal)
    with prompts.progress("sending", 2) as tell:
        tell(1)
        tell(1)
    assert "2/2" in terminal.getvalue()


# -- tables


def shown(rows, **named):
    @click.command()
    def command():
        echo_rows(rows, "table", **named)

    return CliRunner().invoke(command).output


def test_cells_are_formatted_by_type():
    rows = [{"n": 1, "on": True, "l": ["a", "b"], "d": {"x": 1}, "f": 1.5, "none": None}]
    assert shown(rows).splitlines() == ["n  on   l     d      f  none", "1  yes  a, b  x=1  1.5     -"]


def test_numbers_are_aligned_right():
    assert shown([{"a": 1, "b": "x"}, {"a": 100, "b": "y"}]) == "  a  b\n  1  x\n100  y\n"


def test_colour_is_used_only_where_wanted(monkeypatch):
    command = click.command()(lambda: click.echo(click.style("x", bold=True)))
    assert CliRunner().invoke(command, color=True).output == "\x1b[1mx\x1b[0m\n"
    monkeypatch.setattr(context, "echo_rows", lambda *_: click.echo(click.style("x", bold=True)))
    assert CliRunner().invoke(main, ("context", "ls"), color=True).output == "\x1b[1mx\x1b[0m\n"
    monkeypatch.setenv("NO_COLOR", "1")
    assert CliRunner().invoke(main, ("context", "ls"), color=True).output == "x\n"
