"""However a stream is cut into reads, every answer finds its request."""

from __future__ import annotations

from hypothesis import given, strategies as st

from rocketmq_py.core.peer import Peer
from rocketmq_py.errors import CorruptFrame
from rocketmq_py.wire.command import RESPONSE_FLAG, Command, encode_command

texts = st.text(max_size=8)
messages = st.lists(
    st.tuples(st.booleans(), st.integers(0, 1), st.dictionaries(texts.filter(bool), texts.filter(bool), max_size=3),
              st.binary(max_size=40)),
    max_size=8,
)  # fmt: skip


@given(messages, st.lists(st.integers(1, 200), min_size=1, max_size=50), st.randoms())
def test_answers_and_requests_are_decoded_in_order(messages, cuts, random) -> None:
    peer: Peer[int] = Peer()
    tokens = {peer.add(token): token for token in range(len(messages))}
    opaques = list(tokens)
    random.shuffle(opaques)
    stream, answers, requests = b"", [], []
    for opaque, (is_answer, serialize_type, ext, body) in zip(opaques, messages, strict=True):
        stream += encode_command(
            Command(7, opaque, RESPONSE_FLAG if is_answer else 0, ext=ext, body=body), serialize_type
        )
        if is_answer:
            answers.append((tokens[opaque], ext, body))
        else:
            requests.append((opaque, ext, body))
    got_answers, got_requests = [], []
    while stream:
        size = cuts[0]
        cuts = cuts[1:] + cuts[:1]
        some_answers, some_requests = peer.receive(stream[:size])
        stream = stream[size:]
        got_answers += [(token, reply.ext, reply.body) for token, reply in some_answers]
        got_requests += [(request.opaque, request.ext, request.body) for request in some_requests]
    assert got_answers == answers
    assert got_requests == requests
    assert len(peer) == len(requests)


@given(st.binary(max_size=200))
def test_random_bytes_are_refused_or_incomplete(garbage: bytes) -> None:
    peer: Peer[int] = Peer()
    peer.add(1)
    try:
        peer.receive(garbage)
    except CorruptFrame:
        assert peer.abandon() in ([1], [])
