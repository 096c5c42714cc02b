"""The base class of blocking classes: it wraps an asyncio object and runs its methods in the portal's event loop."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from types import TracebackType
from typing import Any, Generic, Protocol, Self, TypeVar

from rocketmq_py.remoting.portal import portal

T = TypeVar("T")


class _HasLife(Protocol):
    async def start(self) -> None: ...

    async def close(self) -> None: ...


A = TypeVar("A", bound=_HasLife)


class BlockingFacade(Generic[A]):
    """A blocking object that wraps an asyncio one; threads may share it.

    The constructors of generated subclasses call :meth:`_wrap`.
    """

    _aio: A

    def _wrap(self, made: A) -> None:
        self._aio = made
        self._portal = portal()

    def start(self) -> None:
        """Start the wrapped asyncio object, and wait until it has started."""
        self._run(self._aio.start())

    def close(self) -> None:
        """Close the wrapped asyncio object, and wait until it is closed."""
        self._run(self._aio.close())

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine in the loop, wait for it, and return its result."""
        return self._portal.run(coroutine)

    def _call(self, function: Callable[[], T]) -> T:
        """Call a plain function in the loop's thread, wait for it, and return its result."""
        return self._portal.call(function)

    def _iterate(self, items: AsyncIterator[T]) -> Iterator[T]:
        """Iterate over an asynchronous iterator of the loop; each item is fetched when the caller needs it."""
        while True:
            try:
                item = self._run(_next(items))
            except StopAsyncIteration:
                return
            yield item

    def __repr__(self) -> str:
        return repr(self._aio)


async def _next(items: AsyncIterator[T]) -> T:
    return await anext(items)
