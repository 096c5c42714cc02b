"""A dispatcher that looks at every request before it is handled; a server without access control has none of this."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from rocketmq_py.errors import BadHeader, CorruptFrame
from rocketmq_py.server.dispatch import Dispatcher, Served
from rocketmq_py.server.peer import Peer
from rocketmq_py.server.reply import Buffer, Reply, reply_buffers
from rocketmq_py.server.router import Router
from rocketmq_py.wire.command import Command, decode_command
from rocketmq_py.wire.frame import Frame

log = logging.getLogger(__name__)

Guard = Callable[[Peer, Command], Reply | None]
"""Says why a request is not let in; None when it is."""


class GuardedDispatcher(Dispatcher):
    """Handles only what the guard lets in.

    :param guard: asked before each request. Other parameters as those of :class:`Dispatcher`.
    """

    def __init__(self, router: Router, guard: Guard, **options: Any) -> None:
        super().__init__(router, **options)
        self._guard = guard

    def serve(self, peer: Peer, frames: list[Frame]) -> Served:
        """Handle the frames of one read; what is refused is answered first."""
        admitted: list[Frame] = []
        refusals: list[Buffer] = []
        for frame in frames:
            refusal = self._look(peer, frame)
            if refusal is None:
                admitted.append(frame)
            else:
                refusals += refusal
        served = super().serve(peer, admitted)
        return Served([*refusals, *served.output], served.fault, served.rest)

    def _look(self, peer: Peer, frame: Frame) -> tuple[Buffer, ...] | None:
        """None to admit a frame, else what is answered instead; frames nobody understands are the dispatcher's."""
        try:
            command = decode_command(frame)
        except (BadHeader, CorruptFrame):
            return None
        if command.is_response:
            return None
        reply = self._guard(peer, command)
        if reply is None:
            return None
        if command.is_oneway:
            log.warning("one-way request %d of %s is dropped: %s", command.code, peer.address, reply.remark)
            return ()
        return tuple(reply_buffers(reply, command.opaque))
