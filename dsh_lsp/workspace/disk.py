"""Disk: text files as bytes, so that what was not edited is written back as it was.

Rules: encoding, byte-order mark, line ends, final newline, mode, owner and extended attributes are kept; what does
not decode or is read-only is never written; a file is replaced only if it still holds what was read.
"""

from __future__ import annotations

import codecs
import io
import os
import shutil
import stat
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path

from dsh_lsp.errors import ToolError

MAX_FILE_BYTES = 32 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class DiskText:
    """A file's text and how its bytes spell it."""

    raw: bytes
    text: str
    encoding: str
    mark: bytes = b""

    def encode(self, text: str) -> bytes:
        """Other text in the same spelling.

        Raises:
            ToolError: `NOT_TEXT`, the text holds what the encoding cannot say, or would be read as another one.
        """
        try:
            data = self.mark + text.encode(self.encoding)
        except UnicodeEncodeError as error:
            raise ToolError(
                f"the text cannot be written as {self.encoding}: {error.reason}", code="NOT_TEXT"
            ) from error
        if len(data) > MAX_FILE_BYTES or decode_bytes(data, "the new text").text != text:
            raise ToolError("the file could not be read as what was written", code="NOT_TEXT")
        return data


_MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)


def decode_bytes(raw: bytes, name: str) -> DiskText:
    """Decode a file's bytes.

    Raises:
        ToolError: `NOT_TEXT`.
    """
    mark, encoding = next(((mark, enc) for mark, enc in _MARKS if raw.startswith(mark)), (b"", "utf-8"))
    try:
        text = raw[len(mark) :].decode(encoding)
    except UnicodeDecodeError as error:
        raise ToolError(f"{name} is not {encoding.upper()} text", code="NOT_TEXT") from error
    if "\0" in text:
        raise ToolError(f"{name} is a binary file", code="NOT_TEXT")
    return DiskText(raw=raw, text=text, encoding=encoding, mark=mark)


def read_bytes(path: Path, name: str) -> bytes:
    """Read a file, text or not.

    Raises:
        ToolError: `NOT_FOUND`, `NOT_A_FILE`, `TOO_LARGE`, `NOT_READABLE`.
    """
    try:
        found = path.stat()
        if not stat.S_ISREG(found.st_mode):  # a pipe or a device would block or never end
            raise ToolError(f"{name} is not a file", code="NOT_A_FILE")
        if found.st_size > MAX_FILE_BYTES:
            raise ToolError(f"{name} is larger than {MAX_FILE_BYTES >> 20} MiB", code="TOO_LARGE")
        return path.read_bytes()
    except FileNotFoundError as error:
        raise ToolError(f"{name} does not exist", code="NOT_FOUND") from error
    except OSError as error:
        raise ToolError(f"{name} cannot be read: {error.strerror}", code="NOT_READABLE") from error


def read_file(path: Path, name: str) -> DiskText:
    """Read a text file; `name` is what errors call it.

    Raises:
        ToolError: `NOT_FOUND`, `NOT_A_FILE`, `NOT_TEXT`, `TOO_LARGE`, `NOT_READABLE`.
    """
    return decode_bytes(read_bytes(path, name), name)


def text_on_disk(path: Path) -> str | None:
    """A file's text; None when it has none."""
    try:
        return read_file(path, path.name).text
    except ToolError:
        return None


def written_at(path: Path) -> float:
    """When a file was last written, in seconds of the epoch; 0 if it is not there."""
    try:
        return path.stat().st_mtime
    except OSError:
        return 0.0


def create_file(path: Path, content: str | bytes, name: str, mode: int | None = None) -> None:
    """Create a file that must not exist, with its content and perhaps its mode, or leave nothing behind.

    Raises:
        ToolError: `EXISTS`, `NOT_WRITABLE`.
    """
    try:
        data = content if isinstance(content, bytes) else content.encode()
        with _folders_of(path), path.open("xb") as file:
            try:
                if mode is not None:
                    path.chmod(stat.S_IMODE(mode))
                file.write(data)
            except BaseException:
                path.unlink(missing_ok=True)
                raise
    except FileExistsError as error:
        raise ToolError(f"{name} exists already", code="EXISTS") from error
    except (OSError, UnicodeEncodeError) as error:
        raise ToolError(f"{name} cannot be written: {error}", code="NOT_WRITABLE") from error


def replace_file(path: Path, before: DiskText, text: str, name: str) -> None:
    """Replace a file's text if it still holds what was read; links are followed.

    Raises:
        ToolError: `CHANGED`, `NOT_WRITABLE`.
    """
    data = before.encode(text)
    target = Path(os.path.realpath(path))
    try:
        if target.read_bytes() != before.raw:
            raise ToolError(f"{name} was changed by another program", code="CHANGED")
        check_not_read_only(target, name)
        if target.stat().st_nlink > 1 or not os.access(target.parent, os.W_OK):
            _overwrite(target, before.raw, data)  # renaming would part it from its other names
            return
        handle, temporary = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name[:80]}.")
        try:
            with open(handle, "wb") as file:  # noqa: PTH123 - a descriptor, not a path
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            if _is_made_alike(Path(temporary), target):
                Path(temporary).replace(target)
            else:
                Path(temporary).unlink()
                _overwrite(target, before.raw, data)
        except BaseException:
            Path(temporary).unlink(missing_ok=True)
            raise
    except OSError as error:
        raise ToolError(f"{name} cannot be written: {error.strerror}", code="NOT_WRITABLE") from error


def _overwrite(path: Path, before: bytes, data: bytes) -> None:
    """Write into a file that must stay the same one; what it held comes back if that fails."""
    with path.open("r+b", buffering=0) as file:
        try:
            _put(file, data)
        except OSError:
            _put(file, before)  # which needs no more room than it has
            raise


def _put(file: io.FileIO, data: bytes) -> None:
    file.seek(0)
    left = memoryview(data)
    while left:
        left = left[file.write(left) :]
    file.truncate(len(data))


def check_not_read_only(path: Path, name: str) -> None:
    """Refuse a file whose owner has made it read-only, though its folder would let it be replaced.

    Raises:
        ToolError: `NOT_WRITABLE`.
    """
    if path.exists() and not (path.stat().st_mode & 0o222 and os.access(path, os.W_OK)):
        raise ToolError(f"{name} is read-only; the agent does not write it", code="NOT_WRITABLE")


def _is_made_alike(path: Path, model: Path) -> bool:
    """Give a file the owner, the attributes and the mode of another; False if it cannot have the owner."""
    wanted, given = model.stat(), path.stat()
    if (wanted.st_uid, wanted.st_gid) != (given.st_uid, given.st_gid):
        try:
            os.chown(path, wanted.st_uid, wanted.st_gid)
        except OSError:
            return False
    if sys.platform == "linux":
        with suppress(OSError):  # a file system without them
            for attribute in os.listxattr(model):
                with suppress(OSError):  # one that only the system sets
                    os.setxattr(path, attribute, os.getxattr(model, attribute))
    shutil.copymode(model, path)
    return True


def is_respelled(path: Path, target: Path) -> bool:
    """Whether a free name is another spelling of a file's own, where case does not count; no hard link to it."""
    try:
        return target.samefile(path) and all(entry.name != target.name for entry in target.parent.iterdir())
    except OSError:
        return False


def move_file(path: Path, target: Path, name: str) -> None:
    """Give a file another name, which must be free; `name` is what errors call the target.

    Raises:
        ToolError: `NOT_FOUND`, `EXISTS`, `NOT_WRITABLE`.
    """
    try:
        with _folders_of(target):
            _move(path, target)
    except FileExistsError as error:
        raise ToolError(f"{name} exists already", code="EXISTS") from error
    except FileNotFoundError as error:
        raise ToolError("the file is not there any more", code="NOT_FOUND") from error
    except OSError as error:
        raise ToolError(f"the file cannot be moved: {error.strerror}", code="NOT_WRITABLE") from error


def _move(path: Path, target: Path) -> None:
    if is_respelled(path, target):
        path.rename(target)
        return
    try:
        os.link(path, target)  # fails if the name is taken, however late
    except (PermissionError, NotImplementedError):  # a file system without links
        if target.exists():
            raise FileExistsError from None
        path.rename(target)
        return
    try:
        path.unlink()
    except OSError:
        target.unlink()
        raise


def remove_file(path: Path, name: str) -> None:
    """Delete a file.

    Raises:
        ToolError: `NOT_WRITABLE`.
    """
    try:
        path.unlink()
    except OSError as error:
        raise ToolError(f"{name} cannot be deleted: {error.strerror}", code="NOT_WRITABLE") from error


@contextmanager
def _folders_of(path: Path) -> Iterator[None]:
    """Make the folders above a file, which go again if it cannot come there."""
    made = missing_folders(path)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        yield
    except OSError:
        remove_folders(path, made)
        raise


def missing_folders(path: Path) -> int:
    """How many folders have to be made for a file."""
    return sum(1 for _ in takewhile(lambda folder: not os.path.exists(folder), path.parents))  # noqa: PTH110 - as below


def remove_folders(path: Path, count: int) -> None:
    """Remove that many folders above a file that is gone, up to the first in which there is something."""
    with suppress(OSError):
        for folder in list(path.parents)[:count]:
            if os.path.isdir(folder):  # noqa: PTH112 - that of a path raises for a name that is too long
                folder.rmdir()
