from rocketmq_py.server.grpc.call import Call
from rocketmq_py.wire.grpc import GrpcStatus


class Carrier:
    def __init__(self):
        self.peer = "peer"
        self.sent = []

    def __getattr__(self, name):
        return lambda *args: self.sent.append((name, *args))


def test_a_call_sends_until_it_ends_and_nothing_after_that():
    carrier = Carrier()
    call = Call(carrier, 7, {}, None)
    call.send(b"a")
    call.end(GrpcStatus.INTERNAL, "why")
    for late in (
        lambda: call.send(b"b"),
        lambda: call.answer(b"c"),
        lambda: call.answer_many([b"d"]),
        call.end,
        call.cancelled,
    ):
        late()
    assert carrier.sent == [("send_message", 7, b"a"), ("end_call", 7, GrpcStatus.INTERNAL, "why")]
    assert not call.is_open


def test_a_cancelled_call_tells_who_wants_to_know():
    told = []
    for on_cancel in (None, lambda: told.append("cancelled")):
        call = Call(Carrier(), 7, {}, None)
        call.on_cancel = on_cancel
        call.cancelled()
        call.cancelled()
        assert (call.is_open, call.on_message, call.on_end) == (False, None, None)
    assert told == ["cancelled"]
