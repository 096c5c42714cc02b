"""Decision records in a Hadoop file system, written by Hadoop's own Java client, as Spark writes its commit log.

A record is written to a temporary file, flushed to the disks of the data nodes, and renamed; the name node renames
atomically and does not replace files. The native client (libhdfs) is not used: it replaces files, and does not
distinguish a missing directory from a name node that does not respond. The Java client runs in a small JVM with Spark's
classes and configuration, controlled through Py4J like PySpark's own JVM. It starts in about a second and ends with
this process.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import subprocess
import tempfile
import weakref
from collections.abc import Iterator, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from py4j.java_gateway import GatewayClient, GatewayParameters, JavaGateway
from py4j.protocol import Py4JError, Py4JJavaError

from rocketmq_py.core.paths import component

_JAVA_OPTIONS = ("-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto")
"""Options for a JVM that starts fast and does little work."""
_MESSAGE_CHARACTERS = 2000


class HadoopDecisionStore:
    """A :class:`DecisionStore` in a directory of a Hadoop file system.

    :param location: URI of the directory, or a path in Hadoop's default file system.
    :param environ: environment variables that name Java, Spark's classes and Hadoop's configuration.
    """

    def __init__(self, location: str, environ: Mapping[str, str]) -> None:
        self._location = location
        self._environ = environ
        self._started: _Client | None = None

    def names(self) -> list[str]:
        with self._client() as client:
            if not client.files.exists(client.path(self._location)):
                return []
            found = client.files.listStatus(client.path(self._location))
            return [status.getPath().getName() for status in found]

    def read(self, name: str) -> bytes:
        with self._client() as client, contextlib.ExitStack() as stack:
            stream = client.files.open(self._path(client, name))
            stack.callback(stream.close)
            return bytes(stream.readAllBytes())

    def create(self, name: str, content: bytes) -> None:
        with self._client() as client:
            draft, target = self._path(client, f".{name}.{secrets.token_hex(4)}"), self._path(client, name)
            try:
                with contextlib.ExitStack() as stack:
                    stream = client.files.create(draft, False)
                    stack.callback(stream.close)
                    stream.write(content)
                    stream.hsync()
                client.rename(draft, target)
            except BaseException:
                with contextlib.suppress(Py4JError):  # a temporary file that remains does no harm
                    client.files.delete(draft, False)
                raise

    def remove(self, name: str) -> None:
        with self._client() as client:
            client.files.delete(self._path(client, name), False)

    def _path(self, client: _Client, name: str) -> Any:
        return client.path(f"{self._location.rstrip('/')}/{component(name)}")

    @contextlib.contextmanager
    def _client(self) -> Iterator[_Client]:
        """Context with the client, started on first use; errors of Java inside it are raised as OSError."""
        try:
            if self._started is None:
                self._started = _Client(self._location, self._environ)
            yield self._started
        except Py4JJavaError as e:
            raise _file_error(e) from e
        except Py4JError as e:
            raise OSError(f"the Java process for {self._location} has failed: {e}") from e


class _Client:
    """Hadoop's Java client for one location, and the JVM in which it runs."""

    def __init__(self, location: str, environ: Mapping[str, str]) -> None:
        self._gateway = start_jvm(class_path(environ), environ)
        fs = self._fs = self._gateway.jvm.org.apache.hadoop.fs
        configuration = self._gateway.jvm.org.apache.hadoop.conf.Configuration()
        self.files = self.path(location).getFileSystem(configuration)
        self._context = fs.FileContext.getFileContext(self.files.getUri(), configuration)

    def path(self, location: str) -> Any:
        return self._fs.Path(location)

    def rename(self, source: Any, target: Any) -> None:
        """Rename a file atomically; fails if ``target`` exists."""
        self._context.rename(source, target, self._gateway.new_array(self._fs.Options.Rename, 0))


def start_jvm(classes: str, environ: Mapping[str, str]) -> JavaGateway:
    """Start a JVM that Py4J controls; it ends when the gateway is garbage collected, or with this process.

    :param classes: the class path.
    :raises OSError: the JVM does not start.
    """
    with contextlib.ExitStack() as stack:
        log = stack.enter_context(tempfile.TemporaryFile())
        process = subprocess.Popen(  # noqa: S603 - the Java Spark runs with
            [
                _java(environ), *_JAVA_OPTIONS, "-cp", classes, "py4j.GatewayServer",
                "--die-on-broken-pipe", "--enable-auth", "0",
            ],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log,
        )  # fmt: skip
        assert process.stdout is not None
        port, token = (process.stdout.readline().decode().strip() for _ in range(2))
        if not port.isdecimal() or not token:
            process.communicate()
            log.seek(0)
            output = log.read()[-_MESSAGE_CHARACTERS:].decode()
            raise OSError(f"the JVM for Hadoop has not started: {output}")
        client = GatewayClient(gateway_parameters=GatewayParameters(port=int(port), auth_token=token))
        gateway = JavaGateway(gateway_client=client, gateway_parameters=client.gateway_parameters)
        weakref.finalize(gateway, _end, client, process, stack.pop_all())
    return gateway


def _end(client: GatewayClient, process: subprocess.Popen[bytes], log: contextlib.ExitStack) -> None:
    """Close the connections to a JVM, which ends it, and wait for its end."""
    client.close()
    client.is_connected = False  # otherwise Java objects that are garbage collected later would open a connection
    process.communicate()
    log.close()


def class_path(environ: Mapping[str, str]) -> str:
    """Return the class path of Spark's driver, with the folders of Hadoop's configuration.

    It combines Hadoop's configuration folders, ``CLASSPATH`` (set in YARN containers) and the jars in Spark's home.
    """
    home = environ.get("SPARK_HOME") or _installed()
    folders = [environ.get("HADOOP_CONF_DIR"), environ.get("YARN_CONF_DIR"), environ.get("CLASSPATH")]
    if home:
        folders += [str(Path(home, "conf")), str(Path(home, "jars", "*"))]
    folders.append(environ.get("SPARK_DIST_CLASSPATH"))
    return os.pathsep.join(filter(None, folders))


def _installed() -> str | None:
    """Return the directory of the installed PySpark package, which contains Spark; None if there is none."""
    found = find_spec("pyspark")
    return str(Path(found.origin).parent) if found is not None and found.origin else None


def _java(environ: Mapping[str, str]) -> str:
    """Return the ``java`` executable that Spark's launcher uses: from ``JAVA_HOME``, else from ``PATH``."""
    home = environ.get("JAVA_HOME")
    return str(Path(home, "bin", "java")) if home else shutil.which("java", path=environ.get("PATH")) or "java"


def _file_error(error: Py4JJavaError) -> OSError:
    """Convert a Java exception to an OSError, or its subclass for files that exist or are missing."""
    java = error.java_exception
    kind, message = java.getClass().getSimpleName(), str(java.toString()).partition("\n\tat ")[0]
    kinds = {"FileAlreadyExistsException": FileExistsError, "FileNotFoundException": FileNotFoundError}
    return kinds.get(kind, OSError)(message[:_MESSAGE_CHARACTERS])
