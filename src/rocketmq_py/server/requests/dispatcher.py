"""Handle the frames of one socket read: decode, call the handlers, encode the answers.

It takes frames and a peer and returns buffers, so tests call it without sockets. All handlers of a read run first, then
``after_read``, in which a store makes durable what the handlers appended, and only then answers are returned.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import suppress
from time import monotonic
from typing import NamedTuple, cast

from rocketmq_py.accelerator import SendRun, Telling, installed
from rocketmq_py.core.metrics.counters import GRPC, ONEWAY, SUCCESS, RpcKey, RpcLatency
from rocketmq_py.errors import CorruptFrame
from rocketmq_py.properties import TOLD_BY_PRESENCE, TOLD_BY_VALUE
from rocketmq_py.protocol.codes import RequestCode, ResponseCode
from rocketmq_py.protocol.requests import BadRequest, Request, RequestDecoder
from rocketmq_py.server.peer import Peer, Responder
from rocketmq_py.server.reply import Buffer, Hold, Reply, RunReply, encode_reply, reply_buffers
from rocketmq_py.server.requests.failures import failure, overloaded, unsupported
from rocketmq_py.server.requests.go_away import GoAway
from rocketmq_py.server.requests.lanes import Lane, LaneLimit, Lanes
from rocketmq_py.server.requests.router import Outcome, Route, Router
from rocketmq_py.server.sliced_work import SlicedWork, SpareTime
from rocketmq_py.server.slow_turns import SlowTurns
from rocketmq_py.wire.command import ONEWAY_FLAG, RESPONSE_FLAG, Command, decode_command
from rocketmq_py.wire.frame import Frame, FrameDecoder, RunDecoder

log = logging.getLogger(__name__)

OnHold = Callable[[Hold, Responder], None]

Item = Frame | SendRun
"""What a connection's decoder returns: a frame, or many consecutive sends, see :meth:`Dispatcher.frame_decoder`."""

_Answer = tuple[int, Reply] | RunReply

AuthorizeRun = Callable[[Peer, SendRun], SendRun]
"""Authorizes many sends at once; returns the run, in which sends it does not admit are left to :data:`Authorize`."""

AuthorizeLater = Callable[[], Awaitable[Reply | None]]
"""Waits for the disk, then returns the reply that refuses a request, or None to admit it."""

Authorize = Callable[[Peer, Command], Reply | AuthorizeLater | None]
"""Returns the reply that refuses a request, None to admit it, or what finds out if that depends on bytes on disk."""

SLICE_SECONDS = 0.02
"""Time limit for the handlers of one read. The remaining frames are handled in the next turn of the event loop, so that
one connection cannot block the others."""

_BODIES = 32
"""Maximum number of replies with a body per read. A body (of a pull) may have hundreds of KiB, and one read may contain
hundreds of requests: the remaining ones are handled after the client has received these replies."""


class Served(NamedTuple):
    """The result of handling the frames of a read.

    ``output`` are buffers to write. ``rest`` are the frames and runs to handle in a later turn, when the output is
    written. ``fault`` is the error for which the connection has to be closed, or None.
    """

    output: list[Buffer]
    fault: CorruptFrame | None
    rest: Sequence[Item]


def _work_name(late: Request | Command | None, peer: Peer, answers: int) -> str:
    """Describe for the log what took most of the time of a read that exceeded :data:`SLICE_SECONDS`.

    :param late: the last request handled, if its handler exceeded the time; None if storing the messages did.
    :param answers: the number of requests answered in this read.
    """
    if late is None:
        return f"storing the messages of {answers} requests of {peer.address}"
    try:
        name = RequestCode(late.code).name
    except ValueError:
        name = "unknown request"
    return f"{name} ({late.code}) of {peer.address}"


_POLLS = (
    RequestCode.PULL_MESSAGE, RequestCode.LITE_PULL_MESSAGE, RequestCode.POP_MESSAGE, RequestCode.NOTIFICATION,
)  # fmt: skip
"""Requests that may wait for messages."""
_OVERTAKEN = (int(RequestCode.END_TRANSACTION),)
"""One-way requests that are handled after the sends of their read: they end transactions a turn later anyway, and a
producer with many transactions sends each of them between two half messages."""
_PLAIN_SEND = (int(RequestCode.SEND_MESSAGE_V2), 0, False)


class TimedResponder(Responder):
    """Answers one request later, and counts how long that took.

    :param key: the labels; the response code is that of the answer.
    :param begin: when the request arrived, on the monotonic clock.
    """

    __slots__ = ("_begin", "_key", "_latency")

    def __init__(self, peer: Peer, opaque: int, latency: RpcLatency, key: RpcKey, begin: float) -> None:
        super().__init__(peer, opaque)
        self._latency, self._key, self._begin = latency, key, begin

    def encode(self, reply: Reply) -> bytes:
        self._latency.observe(self._key._replace(response=reply.code), (monotonic() - self._begin) * 1000)
        return super().encode(reply)


class RunResponder(Responder):
    """Answers the sends of a run later, all at once, and counts how long that took if anybody wants to know.

    :param run: the answers; they are held.
    :param begin: when the requests arrived, on the monotonic clock; only with ``latency``.
    """

    __slots__ = ("_begin", "_latency", "_run")

    def __init__(self, peer: Peer, run: RunReply, latency: RpcLatency | None) -> None:
        super().__init__(peer, -1)
        self._run, self._latency = run, latency
        self._begin = 0.0 if latency is None else monotonic()

    def encode(self, reply: Reply) -> bytes:
        self._answered = True
        if self._latency is not None:
            key = RpcKey(RequestCode.SEND_MESSAGE_V2, reply.code, False, SUCCESS)
            self._latency.observe(key, (monotonic() - self._begin) * 1000, len(self._run.opaques()))
        held = self._run.held
        assert held is not None
        return bytes(held.fail(reply.code, reply.remark) if reply.code else self._run.encode())


def _call_soon(callback: Callable[[], None]) -> object:
    return asyncio.get_running_loop().call_soon(callback)


class Dispatcher:
    """Handles the requests of all connections of a server.

    :param router: the handlers.
    :param after_read: called once after the handlers of a read (or one asynchronous handler) and before their answers
        are written. If it raises, every one of these answers becomes that error.
    :param on_hold: called with each :class:`Hold` that a handler returns, and with the responder to answer it later.
    :param lanes: limits of asynchronous work by lane name.
    :param slow_turns: records the reads whose handling takes longer than :data:`SLICE_SECONDS`.
    :param authorize: returns the reply that refuses a request, or None to admit it; None admits all requests. It gets
        the same decoded command as the handler.
    :param authorize_run: authorizes runs of sends. If it is None and ``authorize`` is not, connections are decoded
        without runs.
    :param spare_time: time in which sliced requests are handled at once; those that find none left wait in a queue.
    """

    def __init__(
        self,
        router: Router,
        *,
        after_read: Callable[[], None] | None = None,
        on_hold: OnHold | None = None,
        lanes: Mapping[str, LaneLimit] | None = None,
        authorize: Authorize | None = None,
        authorize_run: AuthorizeRun | None = None,
        slow_turns: SlowTurns | None = None,
        spare_time: SpareTime | None = None,
    ) -> None:
        self.slow_turns = slow_turns or SlowTurns()
        self._all_routes = self._routes = {int(route.code): route for route in router.routes}
        self._authorizes_runs = authorize is None or authorize_run is not None
        self._takes_runs = self._authorizes_runs and _take_runs(self._all_routes)
        self._telling: Telling = None
        self._slices = SlicedWork(_call_soon)
        self._spare_time = SpareTime() if spare_time is None else spare_time
        self._decoder = RequestDecoder(router.codes)
        self._decode = self._decoder.decode
        self._after_read = after_read
        self._on_hold = on_hold
        self._authorize = authorize
        self._authorize_run = authorize_run
        self._store_read = after_read
        self.lanes = Lanes(lanes)
        self._tasks: set[asyncio.Task[None]] = set()
        self.refused = 0
        """Number of requests answered as busy because of :meth:`refuse`; the loop monitor resets it."""
        self.latency: RpcLatency | None = None
        """Counts how long requests take; None: nobody wants to know."""
        self._codes: list[tuple[int, int, bool]] = []
        """Request code, response code and True for one-way, of requests to be counted at the end of their read."""
        self.longest_write = 0.0
        """Seconds of the longest ``after_read`` since :meth:`time_writes`."""

    def frame_decoder(self, max_frame: int) -> FrameDecoder | RunDecoder:
        """Return a decoder for a new connection.

        It collects consecutive sends into runs if the accelerator is installed and a handler takes runs.
        """
        accelerator = installed() if self._takes_runs else None
        if accelerator is None:
            return FrameDecoder(max_frame)
        if self._telling is None:
            self._telling = accelerator.TellingProperties(sorted(TOLD_BY_VALUE), sorted(TOLD_BY_PRESENCE))
        return RunDecoder(max_frame, accelerator, _OVERTAKEN, self._telling)

    def serve(self, peer: Peer, frames: Sequence[Item]) -> Served:
        """Handle the frames and runs of one read, in order; stop after :data:`SLICE_SECONDS`."""
        answers: list[_Answer] = []
        fault = None
        room = _BODIES
        authorizes = self._authorize is not None
        decode, call = self._decode, self._call
        request: Request | Command | None = None
        begin = monotonic()
        end = begin + SLICE_SECONDS
        left = iter(frames)
        for frame in left:
            if type(frame) is not Frame:
                answers += self._handle_run(peer, frame)  # type: ignore[arg-type]  # cast() is a call
                if monotonic() > end:  # first sends to many queues take some 0.1 ms each
                    break
                continue
            try:
                if authorizes or peer.calls:
                    request, reply = self._admit(peer, decode_command(frame))
                else:
                    request = decode(frame)
                    reply = None if request.flag & RESPONSE_FLAG else call(peer, request, frame.body)
            except BadRequest as e:
                request = e.command
                reply = _bad_request(e, peer)
            except CorruptFrame as e:
                fault = e
                break
            if reply is not None and not request.flag & ONEWAY_FLAG:
                answers.append((request.opaque, reply))
                room -= reply.body != b""
            if not room or monotonic() > end:
                break
        rest = [] if fault is not None else list(left)
        late = request if monotonic() > end else None
        if self._after_read is not None:
            answers = self._after_handlers(peer, answers)
        self._note_read(begin, late, peer, len(answers))
        return Served(_buffers(answers), fault, rest)

    def _note_read(self, begin: float, late: Request | Command | None, peer: Peer, answers: int) -> None:
        seconds = monotonic() - begin
        if seconds > SLICE_SECONDS:
            self.slow_turns.note(_work_name(late, peer, answers), seconds)
        self._count_latency(seconds)

    def _count_latency(self, seconds: float) -> None:
        """Count the requests that were answered together and have not been counted."""
        if self._codes and self.latency is not None:
            self.latency.observe_read(self._codes, seconds * 1000)
            self._codes = []

    def _handle_run(self, peer: Peer, run: SendRun) -> list[_Answer]:
        """Handle a run of sends: those that the route's run handler takes together, the others one by one.

        The run handler looks at all kinds of sends of the run, up to 64. After it has taken none, it is asked again
        after one send, then after two, four and so on: otherwise first sends to many queues would look 64 times at 64.
        """
        answers: list[_Answer] = []
        route = self._routes.get(RequestCode.SEND_MESSAGE_V2)
        handle = route.run if route is not None else None
        if handle is not None and self._authorize_run is not None:
            run = self._authorize_run(peer, run)
        begin, end, alone = 0, len(run), 1
        while begin < end:
            found = handle(peer, run, begin) if handle is not None else None
            if found is not None:
                if found.held is not None:
                    self._hold(found.held.hold, RunResponder(peer, found, self.latency))
                else:
                    if self.latency is not None:
                        self._codes += [_PLAIN_SEND] * (found.stop - begin)
                    answers.append(found)
                begin, alone = found.stop, 1
                continue
            stop = min(begin + alone, end)
            answers += self._handle_singly(peer, run, range(begin, stop))
            begin, alone = stop, 2 * alone
        return answers

    def _handle_singly(self, peer: Peer, run: SendRun, numbers: range) -> list[_Answer]:
        answers: list[_Answer] = []
        for number in numbers:
            frame = Frame(*run.frame(number))
            request: Request | Command
            if self._authorize is not None:
                request, reply = self._admit(peer, decode_command(frame))
            else:
                request = self._decode(frame)
                reply = self._call(peer, request, frame.body)
            if reply is not None and not request.flag & ONEWAY_FLAG:
                answers.append((request.opaque, reply))
        return answers

    # -- requests that came by another protocol

    def call(
        self, request: Request, body: bytes, responder: Responder, counted: Mapping[RequestCode, int] | None = None
    ) -> Reply | None:
        """Handle one request that the caller has authorized; return its reply, None if the responder gets it later.

        The caller calls :meth:`finish_read` before it passes the reply on.

        :param counted: how many requests of which codes it stands for; by default it is one.
        """
        route = self._routes.get(request.code)
        if route is None:
            return unsupported(request.code)
        if route.is_async:
            lane = self._enter(route)
            if lane is None:
                return overloaded()
            outcome = cast("Awaitable[Outcome]", route.method(responder.peer, request, body))
            self._run(self._respond_when_done(route, outcome, lane, responder))
            return None
        begin = monotonic() if self.latency is not None else 0.0
        reply: Reply | None
        try:
            reply = self._outcome(cast("Outcome", route.method(responder.peer, request, body)), responder)
        except Exception as e:  # noqa: BLE001 - as for requests of remoting
            reply = failure(e, route.code.name, responder.peer.address)
        if self.latency is not None and reply is not None:
            milliseconds = (monotonic() - begin) * 1000
            for code, times in ({request.code: 1} if counted is None else counted).items():
                if times:
                    self.latency.observe(RpcKey(code, reply.code, False, SUCCESS, GRPC), milliseconds, times)
        return reply

    def call_run(
        self, peer: Peer, run: SendRun, begin: int, responder: Callable[[RunReply], Responder]
    ) -> RunReply | None:
        """Handle sends of a run that the caller has authorized, from index ``begin`` on.

        :param responder: returns what gets the reply to all of them later, if the result is held.
        :returns: the answers, up to the first send that must be handled by :meth:`call`; None if that is the first one.
        """
        route = self._routes.get(RequestCode.SEND_MESSAGE_V2)
        if route is None or route.run is None:
            return None
        begun = monotonic() if self.latency is not None else 0.0
        found = route.run(peer, run, begin)
        if found is not None and found.held is not None:
            self._hold(found.held.hold, responder(found))
        elif found is not None and self.latency is not None:
            key = RpcKey(RequestCode.SEND_MESSAGE_V2, 0, False, SUCCESS, GRPC)
            self.latency.observe(key, (monotonic() - begun) * 1000, found.stop - begin)
        return found

    def finish_read(self) -> Reply | None:
        """Make durable what handlers have stored; return the reply to all of their requests if that fails."""
        if self._after_read is None:
            return None
        try:
            self._after_read()
        except Exception as e:  # noqa: BLE001 - what was not stored must not be reported as stored
            return failure(e, "storing the messages of a read", "clients of gRPC")
        return None

    def _outcome(self, outcome: Outcome, responder: Responder) -> Reply | None:
        if isinstance(outcome, Hold):
            self._hold(outcome, responder)
            return None
        return outcome if outcome is not None else Reply()

    async def _respond_when_done(
        self, route: Route, outcome: Awaitable[Outcome], lane: Lane, responder: Responder
    ) -> None:
        try:
            reply = self._outcome(await outcome, responder)
        except Exception as e:  # noqa: BLE001 - as for requests of remoting
            reply = failure(e, route.code.name, responder.peer.address)
        finally:
            lane.leave()
        failed = self.finish_read()
        if reply is not None:
            responder.reply(failed or reply)

    async def drain(self, timeout: float) -> None:
        """Wait until all asynchronous handlers and queued requests have finished.

        :param timeout: seconds after which the handlers that still run are cancelled.
        """
        end = monotonic() + timeout
        if len(self._slices):
            with suppress(TimeoutError):
                async with asyncio.timeout(timeout):
                    await self._slices.run(iter(()))  # a job behind all queued requests
        if self._tasks:
            _, late = await asyncio.wait(self._tasks, timeout=max(end - monotonic(), 0))
            for task in late:
                task.cancel()
            await asyncio.gather(*late, return_exceptions=True)

    # -- overload

    @property
    def refuses(self) -> bool:
        """True while requests of some lane are refused, see :meth:`refuse`."""
        return self._routes is not self._all_routes

    def refuse(self, remarks: Mapping[str, str]) -> None:
        """Answer requests of some lanes with SYSTEM_BUSY until the next call; serve all others.

        :param remarks: remark of the answers by lane name; empty to serve all lanes.
        """
        routes = self._all_routes
        if remarks:
            refused = {code: route for code, route in routes.items() if route.lane in remarks}
            routes = routes | {code: self._refusing(route, remarks[route.lane]) for code, route in refused.items()}
        self._routes = routes

    def _refusing(self, route: Route, remark: str) -> Route:
        def refuse(peer: Peer, request: Request, body: bytes) -> Reply:  # noqa: ARG001 - a handler
            self.refused += 1
            return Reply(ResponseCode.SYSTEM_BUSY, remark)

        return Route(route.code, refuse, route.lane, is_async=False)

    def send_away(self, go_away: GoAway) -> None:
        """Handle all further requests through ``go_away``, which answers some of them with GO_AWAY."""
        routes = {code: go_away.over(route) for code, route in self._all_routes.items()}
        self._all_routes = self._routes = routes
        self._takes_runs = self._authorizes_runs and _take_runs(routes)

    def time_writes(self, *, on: bool) -> None:
        """Start or stop measuring how long ``after_read`` takes, and reset ``longest_write``."""
        self.longest_write = 0.0
        self._after_read = self._store_timed if on and self._store_read is not None else self._store_read

    def _store_timed(self) -> None:
        assert self._store_read is not None
        begin = monotonic()
        try:
            self._store_read()
        finally:
            self.longest_write = max(self.longest_write, monotonic() - begin)

    # -- one request

    def _admit(self, peer: Peer, command: Command) -> tuple[Request | Command, Reply | None]:
        """Authorize and handle a request, or complete the call that a response belongs to; return request and reply."""
        if command.is_response:
            peer.answered(command)
            return command, None
        refusal = self._authorize(peer, command) if self._authorize is not None else None
        if callable(refusal):
            return command, self._admit_later(peer, command, refusal)
        if refusal is not None:
            return command, _dropped(peer, command, refusal)
        request = self._decoder.convert(command)
        return request, self._call(peer, request, command.body)

    def _admit_later(self, peer: Peer, command: Command, authorize: AuthorizeLater) -> Reply | None:
        """Start a task that authorizes and handles a request; return a refusal if too many run in its lane."""
        route = self._routes.get(command.code)
        if route is None:
            return unsupported(command.code)
        lane = self._enter(route)
        if lane is None:
            return overloaded()
        self._run(self._admit_when_loaded(peer, command, authorize, lane))
        return None

    async def _admit_when_loaded(self, peer: Peer, command: Command, authorize: AuthorizeLater, lane: Lane) -> None:
        try:
            refusal = await authorize()
        except Exception as e:  # noqa: BLE001 - as for handlers
            refusal = failure(e, f"the authorization of request {command.code}", peer.address)
        finally:
            lane.leave()
        if refusal is not None:
            self._answer(peer, command, _dropped(peer, command, refusal))
            return
        try:
            reply = self._call(peer, self._decoder.convert(command), command.body)
        except BadRequest as e:
            reply = _bad_request(e, peer)
        self._answer(peer, command, reply)

    def _call(self, peer: Peer, request: Request, body: bytes, due: Route | None = None) -> Reply | None:
        """Handle a request that is authorized, or start that; return the reply if it is there and one is needed.

        :param due: the route of a request of a sliced route that is handled now; None for a request that has just come.
        """
        route = due or self._routes.get(request.code)
        if route is None:
            return unsupported(request.code)
        if route.is_async:
            return self._start(route, peer, request, body)
        if route.is_sliced and due is None:
            return self._handle_in_slices(route, peer, request, body)
        try:
            outcome: Outcome = route.method(peer, request, body)  # type: ignore[assignment]  # cast() is a call
            reply = outcome if type(outcome) is Reply else self._later(peer, request, outcome)
        except Exception as e:  # noqa: BLE001 - a request that fails must not close its connection
            reply = failure(e, route.code.name, peer.address)
        if self.latency is not None and reply is not None:
            self._codes.append((request.code, reply.code, bool(request.flag & ONEWAY_FLAG)))
        return reply

    def _handle_in_slices(self, route: Route, peer: Peer, request: Request, body: bytes) -> Reply | None:
        """Handle a request of a sliced route at once if there is spare time; otherwise queue it.

        Queued requests are handled in later turns of the event loop. Returns the reply, which is a refusal if too many
        requests are queued; None if this one is queued or needs none.
        """
        if not len(self._slices) and self._spare_time:
            return self._spare_time.use(lambda: self._call(peer, request, body, route))
        lane = self._enter(route)
        if lane is None:
            return overloaded()
        # A job, not a task: each task would add work to the turn that the time budget of the jobs does not count.
        self._slices.add(self._queued(route, peer, request, body, lane))
        return None

    def _queued(self, route: Route, peer: Peer, request: Request, body: bytes, lane: Lane) -> Iterator[None]:
        """Handle and answer a request when the iterator is advanced, unless its connection is closed by then."""
        begin = monotonic()
        try:
            if not peer.closed:
                self._answer(peer, request, self._call(peer, request, body, route))
                self._count_latency(monotonic() - begin)
        finally:
            lane.leave()
        yield  # the time budget is checked here

    def _later(self, peer: Peer, request: Request, outcome: Outcome) -> Reply | None:
        if isinstance(outcome, Hold):
            if not request.flag & ONEWAY_FLAG:
                self._hold(outcome, self._responder(peer, request, outcome))
            return None
        return outcome

    def _responder(self, peer: Peer, request: Request, hold: Hold) -> Responder:
        if self.latency is None:
            return Responder(peer, request.opaque)
        key = RpcKey(request.code, 0, hold.deadline_ms > 0 and request.code in _POLLS, SUCCESS)
        return TimedResponder(peer, request.opaque, self.latency, key, monotonic())

    def _hold(self, hold: Hold, responder: Responder) -> None:
        if self._on_hold is None:
            raise TypeError(f"a handler holds {hold.key!r} but the server was given no on_hold")
        self._on_hold(hold, responder)

    def _after_handlers(self, peer: Peer, answers: list[_Answer]) -> list[_Answer]:
        assert self._after_read is not None
        try:
            self._after_read()
        except Exception as e:  # noqa: BLE001 - what was not stored must not be reported as stored
            reply = failure(e, "storing the messages of a read", peer.address)
            return [(opaque, reply) for answer in answers for opaque in _opaques(answer)]
        return answers

    # -- asynchronous handlers

    def _start(self, route: Route, peer: Peer, request: Request, body: bytes) -> Reply | None:
        lane = self._enter(route)
        if lane is None:
            return overloaded()
        outcome = cast("Awaitable[Outcome]", route.method(peer, request, body))
        self._run(self._finish(route, peer, request, outcome, lane))
        return None

    def _run(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _enter(self, route: Route) -> Lane | None:
        """Count a request that is answered later in its lane; return None if the lane is full."""
        lane = self.lanes[route.lane]
        if not lane.is_full:
            lane.running += 1
            return lane
        if not lane.is_full_logged:
            lane.is_full_logged = True
            log.warning("%d requests of lane %s are being handled: more are refused as busy", lane.limit, lane.name)
        return None

    async def _finish(
        self, route: Route, peer: Peer, request: Request, outcome: Awaitable[Outcome], lane: Lane
    ) -> None:
        begin = monotonic()
        try:
            reply = self._later(peer, request, await outcome)
        except Exception as e:  # noqa: BLE001 - as for synchronous handlers
            reply = failure(e, route.code.name, peer.address)
        finally:
            lane.leave()
        self._answer(peer, request, reply)
        if self.latency is not None and reply is not None:
            result = ONEWAY if request.flag & ONEWAY_FLAG else SUCCESS
            self.latency.observe(RpcKey(request.code, reply.code, False, result), (monotonic() - begin) * 1000)

    def _answer(self, peer: Peer, request: Request | Command, reply: Reply | None) -> None:
        """Store what the handler of a request that was answered later appended, then send its reply."""
        answers: list[_Answer] = [] if reply is None or request.flag & ONEWAY_FLAG else [(request.opaque, reply)]
        if self._after_read is not None:
            answers = self._after_handlers(peer, answers)
        for answer in answers:
            assert not isinstance(answer, RunReply)
            peer.write(encode_reply(answer[1], answer[0]))


def _dropped(peer: Peer, command: Command, refusal: Reply) -> Reply:
    """Log the refusal of a one-way request, which nobody gets, and return it."""
    if command.is_oneway:
        log.warning("one-way request %d of %s is dropped: %s", command.code, peer.address, refusal.remark)
    return refusal


def _bad_request(error: BadRequest, peer: Peer) -> Reply | None:
    command = error.command
    return None if command.is_response else failure(error, f"request {command.code}", peer.address)


def _buffers(answers: Sequence[_Answer]) -> list[Buffer]:
    """Return the frames of answers as buffers to be written in order."""
    output: list[Buffer] = []
    for answer in answers:
        if type(answer) is RunReply:
            output.append(answer.encode())
        else:
            opaque, reply = answer  # type: ignore[misc]  # mypy does not narrow a union by its type
            output += reply_buffers(reply, opaque)
    return output


def _opaques(answer: _Answer) -> list[int]:
    return answer.opaques() if isinstance(answer, RunReply) else [answer[0]]


def _take_runs(routes: Mapping[int, Route]) -> bool:
    return any(route.run is not None for route in routes.values())
