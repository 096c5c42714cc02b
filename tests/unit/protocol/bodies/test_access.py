"""Users and permissions in bodies."""

from __future__ import annotations

from rocketmq_py.protocol.bodies.access import UserInfo


def test_a_user_in_a_log_has_no_password() -> None:
    user = UserInfo(username="ann", password="secret", user_type="Normal", user_status="enable")
    assert repr(user) == "UserInfo('ann', Normal, enable)"
