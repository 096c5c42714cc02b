"""Uses a cluster through the C++ client's C functions; the package on the path has ``librocketmq.so`` and their types.

The package's own classes are of no use here: its push consumer reports success when the listener raises an exception.
"""

from __future__ import annotations

import ctypes
import functools
import json
import os
import sys
import tempfile
import threading
from collections.abc import Callable
from typing import Any

from rocketmq import ffi

SENT = 10
ORDERED = 12
SUCCESS, LATER = 0, 1
COMMIT, ROLLBACK, UNKNOWN = range(3)
C = ffi.dll
_print = threading.Lock()


def say(mode: str, kind: str, **members: Any) -> None:
    line = json.dumps({"mode": mode, "kind": kind, **members})
    with _print:
        print(line, flush=True)


class Failed(Exception):
    """A C function returned something other than success."""


def check(status: int, what: str) -> None:
    if status != 0:
        said = C.GetLatestErrorMessage()
        raise Failed(f"{what}: status {status}, {(said or b'').decode(errors='replace')[:300]}")


def text(value: bytes | None) -> str | None:
    return None if value is None else value.decode()


class CException(ctypes.Structure):
    """CMQException as CMQException.h of the library has it; the package's own type has other lengths."""

    _fields_ = (
        ("error", ctypes.c_int), ("line", ctypes.c_int), ("file", ctypes.c_char * 256), ("msg", ctypes.c_char * 512),
        ("type", ctypes.c_char * 128),
    )  # fmt: skip


def reason(error: Any) -> str:
    """What the library says of a failed asynchronous send: its text, code and place."""
    said = CException.from_buffer_copy(error)
    return f"{text(said.msg)}, code {said.error}, {text(said.file)}:{said.line}"


class Probe:
    """The modes of one run; what callbacks of C refer to lives as long as it."""

    def __init__(self, namesrv: str, prefix: str) -> None:
        self.namesrv = namesrv.encode()
        self.prefix = prefix
        self.ended = threading.Event()
        self._kept: list[Any] = []
        self._closing: list[Callable[[], Any]] = []

    def topic(self, mode: str) -> bytes:
        return f"{self.prefix}-{mode}".encode()

    def run(self, mode: str) -> None:
        try:
            if mode in ("send", "oneway", "batch", "ordered", "delay"):
                self._send(mode)
            elif mode == "async":
                self._send_async(mode)
            elif mode == "transaction":
                self._transactions(mode)
            elif mode == "pull":
                self._pull(mode)
            elif mode == "steady":
                self._steady(mode)
            else:
                for who in range(2 if mode == "broadcast" else 1):
                    self._consume(mode, who)
            say(mode, "ready")
        except Failed as failed:
            say(mode, "error", text=str(failed))

    def close(self) -> None:
        self.ended.set()
        for each in self._closing:
            each()

    # -- sending

    def _producer(self, mode: str) -> int:
        made: int = C.CreateProducer(self.topic(mode))
        check(C.SetProducerNameServerAddress(made, self.namesrv), "name server")
        check(C.SetProducerInstanceName(made, f"{mode}-producer".encode()), "instance")
        check(C.SetProducerSendMsgTimeout(made, 10_000), "timeout")
        check(C.StartProducer(made), "start")
        self._closing.append(functools.partial(C.ShutdownProducer, made))
        return made

    def _message(self, mode: str, i: int) -> int:
        made: int = C.CreateMessage(self.topic(mode))
        C.SetMessageTags(made, b"AB"[i % 2 : i % 2 + 1])
        C.SetMessageKeys(made, f"k-{i}".encode())
        C.SetMessageBody(made, str(i).encode())
        return made

    def _send(self, mode: str) -> None:
        producer = self._producer(mode)
        result = ffi._CSendResult()
        messages = [self._message(mode, i) for i in range(ORDERED if mode == "ordered" else SENT)]
        if mode == "batch":
            batch = C.CreateBatchMessage()
            for each in messages:
                check(C.AddMessage(batch, each), "batch")
            check(C.SendBatchMessage(producer, batch, ctypes.byref(result)), "batch")
            self._sent(mode, 0, result)
            return
        for i, each in enumerate(messages):
            if mode == "oneway":
                check(C.SendMessageOneway(producer, each), "one-way")
            elif mode == "ordered":
                self._send_to_shard(producer, each, i % 3, result)
                self._sent(mode, i, result)
            else:
                if mode == "delay":
                    C.SetDelayTimeLevel(each, 2)
                check(C.SendMessageSync(producer, each, ctypes.byref(result)), "send")
                self._sent(mode, i, result)
                if mode == "delay":
                    return

    def _send_to_shard(self, producer: int, message: int, shard: int, result: Any) -> None:
        def select(queues: int, _message: int, _argument: int) -> int:
            return shard % queues

        chosen, argument = ffi.QUEUE_SELECTOR_CALLBACK(select), ctypes.c_int(shard)
        place = ctypes.cast(ctypes.pointer(argument), ctypes.c_void_p)  # null is refused
        check(C.SendMessageOrderly(producer, message, chosen, place, 3, ctypes.byref(result)), "ordered")

    def _send_async(self, mode: str) -> None:
        producer = self._producer(mode)
        for i in range(SENT):
            done = ffi.SEND_SUCCESS_CALLBACK(functools.partial(self._done, mode, i))
            failed = ffi.SEND_EXCEPTION_CALLBACK(lambda error: say(mode, "error", text=reason(error)))
            self._kept += [done, failed]
            check(C.SendMessageAsync(producer, self._message(mode, i), done, failed), "async")

    def _done(self, mode: str, i: int, result: Any) -> None:
        self._sent(mode, i, result.contents)

    def _transactions(self, mode: str) -> None:
        """Types of these functions are in no package: the library is newer than what calls it."""
        state = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p)
        C.CreateTransactionProducer.restype = ctypes.c_void_p
        C.CreateTransactionProducer.argtypes = [ctypes.c_char_p, state, ctypes.c_void_p]
        C.SendMessageTransaction.argtypes = [*[ctypes.c_void_p] * 2, state, ctypes.c_void_p, ctypes.c_void_p]

        def check_state(_producer: int, message: int, _argument: int) -> int:
            body = text(C.GetMessageBody(message))
            say(mode, "checked", body=body)
            return ROLLBACK if body == "rollback" else COMMIT

        checker = state(check_state)
        producer = C.CreateTransactionProducer(self.topic(mode), checker, None)
        check(C.SetProducerNameServerAddress(producer, self.namesrv), "name server")
        check(C.StartProducer(producer), "start")
        self._closing.append(functools.partial(C.ShutdownProducer, producer))
        for body, answer in (("rollback", ROLLBACK), ("commit", COMMIT), ("unknown", UNKNOWN)):
            message = C.CreateMessage(self.topic(mode))
            C.SetMessageBody(message, body.encode())
            execute = state(lambda _producer, _message, _argument, answer=answer: answer)
            self._kept += [checker, execute]
            result = ffi._CSendResult()
            check(C.SendMessageTransaction(producer, message, execute, None, ctypes.byref(result)), "transaction")
            say(mode, "sent", body=body)

    @staticmethod
    def _sent(mode: str, i: int, result: Any) -> None:
        say(mode, "sent", body=str(i), id=text(result.msgId), offset=result.offset, text=str(result.sendStatus))

    # -- receiving

    def _consume(self, mode: str, who: int) -> None:
        consumer = C.CreatePushConsumer(self.topic(mode))
        check(C.SetPushConsumerNameServerAddress(consumer, self.namesrv), "name server")
        check(C.SetPushConsumerInstanceName(consumer, f"{mode}-{who}".encode()), "instance")
        if mode == "broadcast":
            check(C.SetPushConsumerMessageModel(consumer, ffi.MessageModel.BROADCASTING), "model")
        check(C.Subscribe(consumer, self.topic(mode), b"A || B" if mode == "tags" else b"*"), "subscribe")
        failed: set[str | None] = set()

        def listen(_consumer: int, message: int) -> int:
            body = text(C.GetMessageBody(message))
            fails = mode == "orderly" and body == "7" and body not in failed
            fails |= mode == "retry" and C.GetMessageReconsumeTimes(message) == 0
            if mode == "retry" or not fails:
                self._got(mode, who, message)
            if fails:
                failed.add(body)
            return LATER if fails else SUCCESS

        callback = ffi.MSG_CALLBACK_FUNC(listen)
        self._kept.append(callback)
        register = C.RegisterMessageCallbackOrderly if mode == "orderly" else C.RegisterMessageCallback
        check(register(consumer, callback), "listener")
        check(C.StartPushConsumer(consumer), "start")
        self._closing.append(functools.partial(C.ShutdownPushConsumer, consumer))

    @staticmethod
    def _got(mode: str, who: int, message: Any) -> None:
        say(mode, "got", who=who, body=text(C.GetMessageBody(message)), tags=text(C.GetMessageTags(message)),
            keys=text(C.GetMessageKeys(message)), queue=C.GetMessageQueueId(message),
            offset=C.GetMessageQueueOffset(message), times=C.GetMessageReconsumeTimes(message))  # fmt: skip

    def _pull(self, mode: str) -> None:
        consumer = C.CreatePullConsumer(self.topic(mode))
        check(C.SetPullConsumerNameServerAddress(consumer, self.namesrv), "name server")
        check(C.StartPullConsumer(consumer), "start")
        self._closing.append(functools.partial(C.ShutdownPullConsumer, consumer))
        queues, count = ctypes.POINTER(ffi._CMessageQueue)(), ctypes.c_int()
        found = C.FetchSubscriptionMessageQueues(consumer, self.topic(mode), ctypes.byref(queues), ctypes.byref(count))
        check(found, "queues")
        offsets = [0] * count.value
        while not self.ended.wait(0.05):
            for i in range(count.value):
                result = C.Pull(consumer, ctypes.byref(queues[i]), b"*", offsets[i], 32)
                if result.pullStatus == ffi._CPullStatus.FOUND:
                    for m in range(result.size):
                        self._got(mode, 0, result.msgFoundList[m])
                if result.pullStatus != ffi._CPullStatus.BROKER_TIMEOUT:
                    offsets[i] = result.nextBeginOffset
                C.ReleasePullResult(result)

    def _steady(self, mode: str) -> None:
        self._consume(mode, 0)
        producer = self._producer(mode)
        check(C.SetProducerSendMsgTimeout(producer, 1000), "timeout")
        say(mode, "ready")
        i = 0
        while not self.ended.wait(0.2):
            result = ffi._CSendResult()
            try:
                check(C.SendMessageSync(producer, self._message(mode, i), ctypes.byref(result)), "send")
            except Failed as failed:
                say(mode, "error", text=str(failed))
            else:
                self._sent(mode, i, result)
            i += 1


def main(namesrv: str, prefix: str, *modes: str) -> None:
    with tempfile.TemporaryDirectory() as logs:
        path = f"{logs}/".encode()
        for set_path in (C.SetProducerLogPath, C.SetPushConsumerLogPath, C.SetPullConsumerLogPath):
            set_path(None, path)
        probe = Probe(namesrv, prefix)
        threads = [threading.Thread(target=probe.run, args=[mode]) for mode in modes]
        for thread in threads:
            thread.start()
        sys.stdin.read()
        probe.ended.set()
        for thread in threads:
            thread.join()
        probe.close()
        say("all", "closed")
    os._exit(0)  # version 2.1.0 fails in its own destructors


if __name__ == "__main__":
    main(*sys.argv[1:])
