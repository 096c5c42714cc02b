from __future__ import annotations

from rocketmq_py.core.grpc.tables import code_of


def test_codes_of_remoting_have_one_of_grpc() -> None:
    assert [code_of(code) for code in (0, 2, 3, 10, 11, 12, 16, 17, 23, 26, 209)] == [
        20000, 42900, 50100, 50401, 50002, 50402, 40300, 40402, 40010, 40403, 42900,
    ]  # fmt: skip
    assert code_of(1) == code_of(99_999) == 50001
