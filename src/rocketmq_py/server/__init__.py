"""An asyncio server of the remoting protocol: listener, router, limits of concurrent work, pushes to clients."""

from rocketmq_py.server.listener import Server
from rocketmq_py.server.peer import Peer, Responder
from rocketmq_py.server.reply import Hold, Reply, RunHold, RunReply, encode_reply
from rocketmq_py.server.requests.lanes import LaneLimit
from rocketmq_py.server.requests.router import Handler, Outcome, Route, Router, RunHandler, handles, handles_runs
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
    "RunHandler",
    "RunHold",
    "RunReply",
    "Server",
    "encode_reply",
    "handles",
    "handles_runs",
    "run",
]
