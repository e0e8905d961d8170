"""The files that ``storage.py`` writes: uncompressed ``.npz`` archives that end with their own checksum.

- The last 64 bytes, the end of the archive's comment, are a SHA-256 digest, so that a file that was truncated or changed
  in a single bit is rejected. It is the digest of everything before it; or, in files that are written often, of everything
  except the contents of entries. These have a CRC-32 in the archive anyway, which misses one error in four thousand
  million and takes half the time.
- Entries are not compressed: none can be larger than the file, so that a small file cannot fill the memory.
- A file is written under a temporary name in the same directory, readable by its owner only, and then renamed: there is
  always either the old file or the complete new one.
"""

import contextlib
import hashlib
import math
import os
import struct
import tempfile
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np

from whichvars.errors import DataError

# hexadecimal digits of SHA-256
DIGEST = 64
# precedes the digest of a file that was written with `quick`
QUICK = b"contents by CRC-32, all else by SHA-256 "
# bytes read at once
BLOCK = 1 << 20
# kinds of dtypes that are stored
PLAIN = "biuf"


class Damaged(Exception):
    """The content of a file is not valid."""


# --- writing


def write(path: str | os.PathLike[str], arrays: dict[str, np.ndarray], quick: bool = False) -> None:
    """Write arrays by name; an existing file is replaced when all of them are on disk. With `quick`, only the CRC-32 of
    the entries protects their contents."""
    with replacing(path) as stream:
        sealed = _Sealed(stream)
        with zipfile.ZipFile(sealed, "w", zipfile.ZIP_STORED) as archive:
            archive.comment = QUICK * quick + b"0" * DIGEST
            for name, array in arrays.items():
                entry = zipfile.ZipInfo(
                    f"{name}.npy"
                )  # with a fixed date, so that the same content gives the same bytes
                with archive.open(entry, "w", force_zip64=True) as content:
                    sealed.digest_is_on(not quick)
                    _write_array(content, name, array)
                    sealed.digest_is_on(True)
        sealed.close()


class _Sealed:
    """A write-only stream that computes a digest of what is written, and replaces the last 64 bytes by it."""

    def __init__(self, stream: IO[bytes]) -> None:
        self.stream, self.digest, self.last = stream, hashlib.sha256(), b""
        self.digesting = True

    def digest_is_on(self, on: bool) -> None:
        """Whether the digest includes what is written from here on. More will follow, so nothing need be held back."""
        self._pass_on(self.last)
        self.last, self.digesting = b"", on

    def write(self, data: Any) -> int:
        view = memoryview(data).cast("B")
        cut = max(len(view) - DIGEST, 0)
        self._pass_on(self.last[: max(len(self.last) + len(view) - DIGEST, 0)])
        self._pass_on(view[:cut])
        self.last = (self.last + bytes(view[cut:]))[-DIGEST:]
        return len(view)

    def _pass_on(self, data: Any) -> None:
        if self.digesting:
            self.digest.update(data)
        self.stream.write(data)

    def flush(self) -> None:
        self.stream.flush()

    def close(self) -> None:
        self.stream.write(self.digest.hexdigest().encode())


def _write_array(stream: IO[bytes], name: str, array: np.ndarray) -> None:
    if array.flags.c_contiguous and array.size:  # NumPy would make another copy, piece by piece
        np.lib.format.write_array_header_1_0(stream, np.lib.format.header_data_from_array_1_0(array))
        stream.write(array.reshape(-1).view(np.uint8).data)
    else:
        np.lib.format.write_array(stream, array, allow_pickle=False)


@contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[IO[bytes]]:
    """A binary stream whose content replaces the file at `path` if there is no error, and is deleted otherwise."""
    place = Path(path)
    handle, temporary = tempfile.mkstemp(prefix=f".{place.name[:100]}.", suffix=".tmp", dir=place.parent)
    try:
        with os.fdopen(handle, "w+b") as stream:
            yield stream
            stream.flush()
            os.fsync(stream.fileno())
        os.chmod(temporary, _usual_mode())
        os.replace(temporary, place)
    except BaseException:
        os.unlink(temporary)
        raise
    _sync_directory(place.parent)


def _usual_mode() -> int:
    """The permissions of a new file. The mask can only be read by setting it, so the strictest is set meanwhile."""
    mask = os.umask(0o077)
    os.umask(mask)
    return 0o666 & ~mask


def _sync_directory(directory: Path) -> None:
    """Make the renaming survive a power failure, if directories can be opened (not on Windows)."""
    with contextlib.suppress(OSError):
        handle = os.open(directory, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


# --- reading


class Archive(NamedTuple):
    """A file whose checksum is right."""

    entries: zipfile.ZipFile
    sizes: dict[str, int]

    def array(self, name: str) -> np.ndarray:
        """Read an array; its declared shape is compared with the size of the entry before memory is allocated."""
        size = self.sizes[f"{name}.npy"]
        with self.entries.open(f"{name}.npy") as stream:
            if np.lib.format.read_magic(stream) != (1, 0):
                raise Damaged("an array has an unknown format")
            shape, fortran, dtype = np.lib.format.read_array_header_1_0(stream)
            if dtype.kind not in PLAIN or dtype.hasobject or any(s < 0 for s in shape):
                raise Damaged("an array is not of numbers")
            if math.prod(shape) * dtype.itemsize != size - stream.tell():
                raise Damaged("an array has another size than its header says")
            array = np.empty(math.prod(shape), dtype)
            buffer, done = array.data.cast("B") if array.size else memoryview(b""), 0
            while done < len(buffer):
                got = stream.readinto(buffer[done : done + BLOCK])  # type: ignore[attr-defined]
                if not got:
                    raise Damaged("an array is cut short")
                done += got
        return array.reshape(shape, order="F" if fortran else "C")


@contextmanager
def reading(path: str | os.PathLike[str]) -> Iterator[Archive]:
    """Open an archive; DataError if its checksum is wrong."""
    with open(path, "rb") as stream:
        size = os.fstat(stream.fileno()).st_size
        _check_digest(stream, size, path)
        try:
            with zipfile.ZipFile(stream) as archive:
                yield Archive(archive, _entry_sizes(archive, size))
        except DataError:
            raise
        except Exception as error:  # the checksum is right, so that it was written like this
            raise DataError(
                f"{path} cannot be read: {error}; create it again, or use another copy"
            ) from error


def _check_digest(stream: IO[bytes], size: int, path: Any) -> None:
    if not stream.read(4).startswith(b"PK\x03\x04"):
        raise DataError(f"{path} is not a file that whichvars saved")
    why: Exception | None = None
    try:
        if _read(stream, size - DIGEST, DIGEST) == digest_of(stream, size):
            return
    except Exception as error:  # the errors of zipfile have no common base class
        why = error
    raise DataError(
        f"{path} is damaged (its checksum is wrong): it was truncated or changed after whichvars saved it; "
        "create it again, or use another copy"
    ) from why


def digest_of(stream: IO[bytes], size: int) -> bytes:
    """The digest that the last 64 bytes of a file of this size should be."""
    digest, at = hashlib.sha256(), 0
    for start, end in [*_undigested(stream, size), (size - DIGEST, size)]:
        if start < at:
            raise Damaged("its entries overlap")
        for place in range(at, start, BLOCK):
            digest.update(_read(stream, place, min(BLOCK, start - place)))
        at = end
    return digest.hexdigest().encode()


def _undigested(stream: IO[bytes], size: int) -> list[tuple[int, int]]:
    """The ranges of bytes that the digest leaves out: the contents of entries, if the file was written with `quick`."""
    if size < DIGEST + len(QUICK) or _read(stream, size - DIGEST - len(QUICK), len(QUICK)) != QUICK:
        return []
    ranges = []
    with zipfile.ZipFile(stream) as archive:
        for entry in archive.infolist():
            name, extra = struct.unpack("<HH", _read(stream, entry.header_offset + 26, 4))
            start = entry.header_offset + 30 + name + extra
            ranges.append((start, start + entry.file_size))
    return sorted(ranges)


def _read(stream: IO[bytes], start: int, length: int) -> bytes:
    stream.seek(start)
    data = stream.read(length)
    if len(data) < length:
        raise Damaged("it is cut short")
    return data


def _entry_sizes(archive: zipfile.ZipFile, size: int) -> dict[str, int]:
    """Sizes of the entries by name, after checking that none is compressed and that they fit into the file."""
    entries = archive.infolist()
    if any(e.compress_type != zipfile.ZIP_STORED or e.compress_size != e.file_size for e in entries):
        raise Damaged("it has compressed entries, which whichvars does not write")
    sizes = {e.filename: e.file_size for e in entries}
    if len(sizes) < len(entries) or sum(sizes.values()) > size:
        raise Damaged("its entries are larger than the file")
    return sizes
