"""An asyncio server of the remoting protocol: listener, router, lanes of bounded work, pushes to clients.

Knows how requests travel. Refuses to know which requests exist: name server and broker bring their handlers.
"""

from rocketmq_py.server.listener import Server
from rocketmq_py.server.peer import Peer, Responder
from rocketmq_py.server.requests.lanes import LaneLimit
from rocketmq_py.server.requests.reply import Hold, Reply, encode_reply
from rocketmq_py.server.requests.router import Handler, Outcome, Route, Router, handles
from rocketmq_py.server.runner import run

__all__ = [
    "Handler",
    "Hold",
    "LaneLimit",
    "Outcome",
    "Peer",
    "Reply",
    "Responder",
    "Route",
    "Router",
    "Server",
    "encode_reply",
    "handles",
    "run",
]
