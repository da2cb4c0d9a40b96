"""From the bytes of a file to its lines of text: unpacked, and in the encoding that it is in.

Standard library only.
"""

import codecs
import functools
import gzip
import io
import os
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO, Any

GZIP = b"\x1f\x8b"  # what a compressed file begins with


class BadInput(ValueError):
    """What is wrong with the user's input, in one line."""

    def __str__(self) -> str:
        return " ".join(super().__str__().split())  # a quoted cell may hold line breaks


@contextmanager
def _reading(path: str, encoding: str) -> Iterator[None]:
    try:
        yield
    except UnicodeDecodeError as error:
        raise BadInput(
            f"{path}: not {encoding} ({error.reason}); --encoding names another"
        ) from None
    except (gzip.BadGzipFile, EOFError, zlib.error):
        raise BadInput(f"{path}: the gzip archive is cut off or damaged") from None


def _bytes(path: str) -> IO[bytes]:
    """The file as it is unpacked, from its beginning."""
    if not os.path.isfile(path):
        whole = _poured(path)
        return io.BytesIO(gzip.decompress(whole) if whole.startswith(GZIP) else whole)
    with open(path, "rb") as file:
        opener: Any = gzip.open if file.read(2) == GZIP else open
    return opener(path, "rb")


@functools.cache
def _poured(path: str) -> bytes:
    """What a pipe holds, which can be read once."""
    with open(path, "rb") as file:
        return file.read()


def encoding(path: str, given: str | None, notes: list[str]) -> str:
    """What the user says, or a byte order mark; else UTF-8 if all of the file is, or Latin-1."""
    if given is not None:
        try:
            return codecs.lookup(given).name
        except LookupError:
            raise BadInput(f"--encoding {given}: no such encoding") from None
    with _reading(path, "UTF-8"), _bytes(path) as file:
        for at, line in enumerate(file, 1):
            if at == 1 and line.startswith((b"\xff\xfe", b"\xfe\xff")):
                return "utf-16"
            if at == 1 and line.startswith(b"PK\x03\x04"):
                raise BadInput(f"{path}: a workbook or zip archive; export it as CSV")
            if b"\0" in line:
                raise BadInput(f"{path}: not a text file (it holds zero bytes)")
            try:
                line.decode()
            except UnicodeDecodeError:
                notes.append(f"line {at} is not UTF-8: read as Latin-1 (--encoding names another)")
                return "latin-1"
    return "utf-8-sig"


def lines(path: str, encoding: str) -> Iterator[str]:
    with (
        _reading(path, encoding),
        _bytes(path) as file,
        io.TextIOWrapper(file, encoding=encoding, newline="") as text,
    ):
        yield from text
