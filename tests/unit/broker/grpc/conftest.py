"""The broker and the calls of the tests of methods."""

from tests.unit.grpc.conftest import calls, running

__all__ = ["calls", "running"]
