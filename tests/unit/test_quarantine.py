"""The quarantine file and its effect on tests."""

from __future__ import annotations

import datetime
from pathlib import Path

import pytest

from tests import quarantine

ENTRY = """
[[test]]
id = "{id}"
reason = "falls behind at times"
issue = "#7"
until = {until}
"""
TODAY = datetime.date(2026, 6, 1)
ROOT = Path(__file__).parents[2]


def entry(node: str = "tests/a.py::test_b", until: str = "2026-06-01") -> quarantine.Quarantined:
    (read,) = quarantine.load(ENTRY.format(id=node, until=until))
    return read


def test_no_entry_of_the_file_is_overdue() -> None:
    today = datetime.datetime.now(tz=datetime.UTC).date()
    entries = quarantine.load(quarantine.FILE.read_text())
    assert not [entry for entry in entries if entry.expired(today)]


def test_every_entry_of_the_file_names_a_test_there_is() -> None:
    for entry in quarantine.load(quarantine.FILE.read_text()):
        path, _, name = entry.id.partition("::")
        function = name.partition("[")[0].rpartition("::")[2]
        assert f"def {function}(" in (ROOT / path).read_text(), entry.id


@pytest.mark.parametrize(
    ("node", "covered"),
    [("tests/a.py::test_b", True), ("tests/a.py::test_b[1]", True), ("tests/a.py::test_bc", False)],
)
def test_an_entry_covers_a_test_with_all_its_parameters(node: str, covered: bool) -> None:
    assert entry().covers(node) is covered


def test_an_entry_holds_to_the_end_of_its_last_day() -> None:
    assert not entry().expired(TODAY)
    assert entry().expired(TODAY + datetime.timedelta(1))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (ENTRY.format(id="x", until='"2026-06-01"'), "not a date"),
        (ENTRY.format(id="x", until="2026-06-01T00:00:00"), "not a date"),
        (ENTRY.format(id="", until="2026-06-01"), "id is empty"),
        (ENTRY.format(id="x", until="2026-06-01") + "owner = 'me'", "has the keys"),
        ("[[test]]\nid = 'x'", "has the keys"),
        ("[tests]", "unknown: tests"),
        ("[[test", "Expected"),
    ],
)
def test_a_wrong_entry_is_refused(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        quarantine.load(text)


@pytest.mark.parametrize(("until", "strict"), [("2026-06-01", False), ("2026-05-31", True)])
def test_only_an_entry_that_has_not_expired_shields_its_test(
    request: pytest.FixtureRequest, until: str, strict: bool
) -> None:
    item = request.node
    before = len(item.own_markers)
    quarantine.apply([entry(item.nodeid, until)], [item], TODAY)
    added = item.own_markers[before:]
    del item.own_markers[before:]
    assert [mark.kwargs["strict"] for mark in added] == ([] if strict else [False])


def test_a_quarantined_failure_is_reported_without_failing_the_run(tmp_path: Path) -> None:
    """Runs pytest on two tests that are quarantined, one of which fails."""
    (tmp_path / "test_it.py").write_text("def test_fails():\n    assert 1 == 2\ndef test_passes(): pass\n")
    entries = [entry("test_it.py::test_fails", "9999-12-31"), entry("test_it.py::test_passes", "9999-12-31")]
    lines: list[str] = []

    class Plugin:
        def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
            quarantine.apply(entries, items, TODAY)

        def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
            terminalreporter.line = lines.append  # type: ignore[method-assign,assignment]
            terminalreporter.section = lines.append  # type: ignore[method-assign,assignment]
            quarantine.summarise(terminalreporter)

    without = [word for plugin in ("cacheprovider", "xdist", "unraisableexception") for word in ("-p", f"no:{plugin}")]
    status = pytest.main(
        ["-q", *without, "-c", "/dev/null", f"--rootdir={tmp_path}", str(tmp_path)], plugins=[Plugin()]
    )
    assert status == pytest.ExitCode.OK
    assert [line.partition(":")[0] for line in lines if line.startswith(("failed,", "passed,"))] == [
        "failed, quarantined until 9999-12-31", "passed, quarantined until 9999-12-31",
    ]  # fmt: skip
    assert any("assert 1 == 2" in line for line in lines)
