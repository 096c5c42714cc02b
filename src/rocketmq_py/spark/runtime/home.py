"""A home for Spark in which its Python library is compiled.

Spark starts Python processes all the time: for every query, for every micro-batch that is written to a Python data
source, for new workers. They import PySpark from an archive of sources and compile what they import, each time: 1.5
seconds of CPU, two thirds of which an archive that holds the compiled modules, too, saves. Such an archive is made
once for each installation of PySpark, in a directory of links to everything else of it.

Only for a PySpark installed by pip. Importing this module does not
import PySpark.
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
"""The flag in the header of a compiled module that makes it valid whatever the time of its source."""


def ensure_compiled_home() -> Path | None:
    """Make Python processes of the Spark that is started later in this process import compiled modules.

    Sets ``SPARK_HOME`` in this process. The first call for an installation of PySpark takes some seconds.

    :returns: the home; None if nothing was changed: ``SPARK_HOME`` is set, PySpark contains no Spark (it is part of a
        distribution, or a client of Spark Connect), or there are no symbolic links (Windows).
    :raises OSError: the home cannot be written.
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
    """The home for the PySpark in ``installed``, made below ``where`` unless it is there."""
    home = where / f"{_PREFIX}{_fingerprint(installed):08x}"
    if home.is_dir():
        return home
    draft = Path(tempfile.mkdtemp(prefix=".draft-", dir=where))
    try:
        _link(installed, draft, "python", "conf")  # which is not there, but may be one day
        _link(installed / "python", draft / "python", "lib")
        (draft / _ARCHIVES).mkdir()
        for archive in (installed / _ARCHIVES).glob("*.zip"):
            compile_archive(archive, draft / _ARCHIVES / archive.name, str(home / _ARCHIVES / archive.name))
        _move(draft, home)
    finally:
        shutil.rmtree(draft, ignore_errors=True)
    return home


def compile_archive(archive: Path, target: Path, name: str) -> None:
    """Copy an archive of Python sources and add the compiled modules; tests are not copied.

    :param name: name of the archive, for tracebacks.
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
    """Another one for another Python, another place or other archives."""
    archives = sorted((installed / _ARCHIVES).glob("*.zip"))
    states = [(archive.name, archive.stat().st_size, archive.stat().st_mtime_ns) for archive in archives]
    return zlib.crc32(repr((str(installed), MAGIC_NUMBER, states)).encode())


def _link(source: Path, target: Path, but: str, *also: str) -> None:
    """Links in ``target`` to everything in ``source`` but one name."""
    target.mkdir(exist_ok=True)
    for name in {entry.name for entry in source.iterdir()}.union(also) - {but}:
        (target / name).symlink_to(source / name)


def _move(draft: Path, home: Path) -> None:
    try:
        draft.rename(home)
    except OSError:
        if not home.is_dir():  # otherwise another process was faster
            raise
