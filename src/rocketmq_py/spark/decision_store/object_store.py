"""Decision records in an object store: Amazon S3 and compatible stores, Google Cloud Storage, Azure.

Once a write has succeeded, the object is complete and appears in listings. A conditional write lets only one of several
writers succeed: ``If-None-Match: *`` on S3 and Azure, generation zero on Google Cloud Storage. A store that refuses
conditional writes fails here; a store that ignores the condition must not be used.

The package obstore reads credentials and endpoints from the environment.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import obstore
from obstore.exceptions import AlreadyExistsError, BaseError
from obstore.store import ObjectStore, from_url

from rocketmq_py.core.paths import component
from rocketmq_py.errors import ConfigError


class ObjectDecisionStore:
    """A :class:`DecisionStore` whose records are the objects below a prefix.

    :param store: obstore's client for the bucket and prefix.
    """

    def __init__(self, store: ObjectStore) -> None:
        self._store = store

    @staticmethod
    def at(location: str) -> ObjectDecisionStore:
        """Return the store for a URI such as ``s3://bucket/prefix``.

        :raises ConfigError: the URI is invalid, or the environment lacks a setting.
        """
        try:
            return ObjectDecisionStore(from_url(location))
        except (BaseError, ValueError) as e:
            raise ConfigError(f"{location}: {e}") from e

    def names(self) -> list[str]:
        with _file_errors():
            return [found["path"].rpartition("/")[2] for found in obstore.list_with_delimiter(self._store)["objects"]]

    def read(self, name: str) -> bytes:
        with _file_errors():
            return bytes(obstore.get(self._store, component(name)).bytes())

    def create(self, name: str, content: bytes) -> None:
        with _file_errors():
            obstore.put(self._store, component(name), content, mode="create")

    def remove(self, name: str) -> None:
        with _file_errors(), contextlib.suppress(FileNotFoundError):
            obstore.delete(self._store, component(name))


@contextlib.contextmanager
def _file_errors() -> Iterator[None]:
    """Context that raises errors of obstore as OSError."""
    try:
        yield
    except AlreadyExistsError as e:
        raise FileExistsError(str(e)) from e
    except BaseError as e:
        raise OSError(str(e).partition("\n\nDebug source")[0]) from e
