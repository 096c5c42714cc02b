"""A ``SPARK_HOME`` in which PySpark is compiled, so that Spark's Python processes start faster.

Spark starts a Python process for every query, for every micro-batch that is written to a Python data source, and for
new workers. Each imports PySpark from a zip archive of sources and compiles it: 1.5 seconds of CPU. With the compiled
modules in the archive it takes a third of that. This module makes such an archive once for each installation of
PySpark, in a directory that otherwise contains links to the installation.

Works only for a PySpark installed by pip. Importing this module does not import PySpark.
"""

from __future__ import annotations

import importlib.util
import marshal
import os
import shutil
import struct
import tempfile
import warnings
import zipfile
import zlib
from importlib.util import MAGIC_NUMBER, source_hash
from pathlib import Path

from rocketmq_py.spark.runtime.cache import cache

_PREFIX = "spark-home-"
_ARCHIVES = Path("python", "lib")
_UNCHECKED = 1
"""Flag in a .pyc header (hash-based, unchecked): Python uses the module without comparing it with its source."""


def ensure_compiled_home() -> Path | None:
    """Set ``SPARK_HOME`` of this process to a directory with a compiled PySpark, for Spark sessions started later.

    The first call for an installation of PySpark takes some seconds.

    :returns: the directory; None if nothing was changed because ``SPARK_HOME`` is set by somebody else, PySpark was not
        installed with Spark's jars (it is part of a distribution, or a client of Spark Connect), or this is Windows,
        where the symbolic links are not possible.
    :raises OSError: the directory cannot be written.
    """
    if os.name != "posix" or not Path(os.environ.get("SPARK_HOME", _PREFIX)).name.startswith(_PREFIX):
        return None
    found = importlib.util.find_spec("pyspark")
    if found is None or found.origin is None:
        return None
    installed = Path(found.origin).parent
    if not ((installed / "jars").is_dir() and (installed / _ARCHIVES / "pyspark.zip").is_file()):
        return None
    home = compiled_home(installed, cache())
    os.environ["SPARK_HOME"] = str(home)
    return home


def compiled_home(installed: Path, where: Path) -> Path:
    """Return the compiled home for the PySpark in ``installed``; make it below directory ``where`` if it is missing."""
    home = where / f"{_PREFIX}{_fingerprint(installed):08x}"
    if home.is_dir():
        return home
    draft = Path(tempfile.mkdtemp(prefix=".draft-", dir=where))
    try:
        _link(installed, draft, "python", "conf")  # link conf even if missing: users may create it later
        _link(installed / "python", draft / "python", "lib")
        (draft / _ARCHIVES).mkdir()
        for archive in (installed / _ARCHIVES).glob("*.zip"):
            compile_archive(archive, draft / _ARCHIVES / archive.name, str(home / _ARCHIVES / archive.name))
        _move(draft, home)
    finally:
        shutil.rmtree(draft, ignore_errors=True)
    return home


def compile_archive(archive: Path, target: Path, name: str) -> None:
    """Copy a zip archive of Python sources to ``target`` and add the compiled modules; folders ``tests`` are left out.

    :param name: path of the archive that tracebacks show.
    """
    with (
        zipfile.ZipFile(archive) as sources,
        zipfile.ZipFile(target, "w") as copy,
        warnings.catch_warnings(action="ignore"),  # PySpark 4.0 has some old string literals
    ):
        for entry in sources.infolist():
            if "/tests/" in entry.filename:
                continue
            raw = sources.read(entry)
            copy.writestr(entry, raw)
            if entry.filename.endswith(".py"):
                code = compile(raw, f"{name}/{entry.filename}", "exec", dont_inherit=True)
                header = MAGIC_NUMBER + struct.pack("<L", _UNCHECKED) + source_hash(raw)
                copy.writestr(entry.filename + "c", header + marshal.dumps(code))


def _fingerprint(installed: Path) -> int:
    """Return a checksum that changes with the Python version, the path of the installation and its archives."""
    archives = sorted((installed / _ARCHIVES).glob("*.zip"))
    states = [(archive.name, archive.stat().st_size, archive.stat().st_mtime_ns) for archive in archives]
    return zlib.crc32(repr((str(installed), MAGIC_NUMBER, states)).encode())


def _link(source: Path, target: Path, but: str, *also: str) -> None:
    """Make links in ``target`` to all entries of ``source`` except ``but``, and to the names ``also``."""
    target.mkdir(exist_ok=True)
    for name in {entry.name for entry in source.iterdir()}.union(also) - {but}:
        (target / name).symlink_to(source / name)


def _move(draft: Path, home: Path) -> None:
    try:
        draft.rename(home)
    except OSError:
        if not home.is_dir():  # otherwise another process was faster
            raise
