"""Compiled programs, kept between runs of Python."""

import contextlib
import hashlib
import os
import platform
import sys
import tempfile
from pathlib import Path
from typing import Any

import jax
import jaxlib

MOST_BYTES = 2**28


def cache(path: Any = None) -> str | None:
    """Keep compiled programs on disk, so that the first calls of the next run find them.

    What takes seconds to compile is read in a fraction of one. It is JAX's own cache, for all
    programs of this process from now on. The command line calls it, an import never does.
    Version 0.9 of JAX, of Python 3.11, logs lines about the machine when it reads a program:
    `TF_CPP_MIN_LOG_LEVEL=3` in the environment hides them, and later versions have none.

    Args:
      path: a folder; by default one in the user's cache directory, named by the version of jaxlib
        and the CPU, unless `JAX_COMPILATION_CACHE_DIR` names one, which is left to you. It is made
        if it is not there, and its oldest programs are deleted beyond 256 MB, no other files.

    Returns:
      The folder, or None where it cannot be written, which is no error.

    Example:
      >>> import tempfile, jax, jaxlin
      >>> with tempfile.TemporaryDirectory() as folder:
      ...     jaxlin.cache(folder) == folder
      True
      >>> jax.config.update("jax_compilation_cache_dir", None)  # and no more
    """
    own = os.environ.get("JAX_COMPILATION_CACHE_DIR") if path is None else None
    folder = Path(own or path or _folder()).expanduser()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
        if not own:
            _prune(folder)
    except OSError:
        return None
    jax.config.update("jax_compilation_cache_dir", str(folder))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0)
    return str(folder)


def _folder() -> Path:
    """The user's, of programs for this compiler and this CPU."""
    if sys.platform == "darwin":
        base = Path.home() / "Library" / "Caches"
    elif sys.platform == "win32":
        base = Path(os.environ.get("LOCALAPPDATA") or Path.home())
    else:
        base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return base / "jaxlin" / f"{jaxlib.__version__}-{_cpu()}"


def _cpu() -> str:
    """Of what instructions there are, as programs for others may not run."""
    said = platform.processor()
    with contextlib.suppress(OSError):
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        said = next((a for a in lines if a.startswith(("flags", "Features"))), said)
    return f"{platform.machine()}-{hashlib.sha256(said.encode()).hexdigest()[:12]}"


def _prune(folder: Path) -> None:
    """Delete the oldest programs beyond `MOST_BYTES`."""
    files = [(a.stat(), a) for a in folder.glob("*-cache") if a.is_file()]
    total = sum(stat.st_size for stat, _ in files)
    for stat, file in sorted(files, key=lambda pair: pair[0].st_mtime):
        if total <= MOST_BYTES:
            return
        file.unlink(missing_ok=True)
        total -= stat.st_size
