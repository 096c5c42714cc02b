"""The frames of replication, cut anywhere."""

from __future__ import annotations

import pytest

from rocketmq_py.errors import CorruptFrame
from rocketmq_py.protocol.ha import PieceReader, ReportReader, pack_header, pack_report


def test_replication_frames_equal_those_of_java() -> None:
    assert pack_report(0x0102) == bytes([0, 0, 0, 0, 0, 0, 1, 2])
    assert pack_header(0x0102, 3) == bytes([0, 0, 0, 0, 0, 0, 1, 2, 0, 0, 0, 3])


@pytest.mark.parametrize("size", [1, 7, 8, 9, 100])
def test_offset_reports_may_arrive_in_any_fragments(size: int) -> None:
    reader, stream = ReportReader(), b"".join(map(pack_report, (0, 5, 70_000)))
    heard = [reader.feed(stream[at : at + size]) for at in range(0, len(stream), size)]
    assert heard[-1] == 70_000
    assert set(heard) <= {None, 0, 5, 70_000}
    assert reader.feed(b"\0") is None


def test_a_report_below_zero_is_refused() -> None:
    with pytest.raises(CorruptFrame, match="-1"):
        ReportReader().feed(pack_report(-1))


@pytest.mark.parametrize("size", [1, 5, 12, 13, 1000])
def test_log_data_may_arrive_in_any_fragments(size: int) -> None:
    stream = pack_header(100, 4) + b"abcd" + pack_header(104, 0) + pack_header(104, 6) + b"efghij"
    reader, log, beats = PieceReader(), b"", 0
    for at in range(0, len(stream), size):
        for offset, data in reader.feed(stream[at : at + size]):
            assert offset == 100 + len(log)
            log += data
            beats += not data
    assert (log, beats) == (b"abcdefghij", 1)


@pytest.mark.parametrize("header", [pack_header(-1, 5), pack_header(5, -1)])
def test_an_impossible_header_is_refused(header: bytes) -> None:
    with pytest.raises(CorruptFrame, match="is that a master's HA port"):
        list(PieceReader().feed(header))
