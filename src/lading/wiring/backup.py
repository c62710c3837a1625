"""Backup of a data directory into one file, while it is served, and its restoration.

The file is a tar archive, readable by its owner only, as it holds the secrets: `kept/` has the
small files of the directory, `db.sqlite` one committed state of the records, `blocks/` the blocks,
and `complete.json`, the last member, has the number of blocks and the hash of the database; without
it the file is incomplete. The records are copied before the blocks: a block is stored before a
record names it, and an unused block is not deleted before its signatures have expired, so every
block that the copied records name still exists. Containers in progress count as dead after a
restoration, and are run again or cancelled as after a power cut.
"""

from __future__ import annotations

import errno
import hashlib
import os
import re
import shutil
import tarfile
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import IO, Final

import msgspec

from lading.blobs.packs import Packs
from lading.core.data import manifest
from lading.core.errors import Conflict, Corrupt, Full, Invalid, NotFound, Unavailable
from lading.store.databases.copying import check_database, copy_database, manifests
from lading.wiring.directory import DataDirectory
from lading.wiring.process import private_files

Progress = Callable[[int, int], None]
# The cache, the run directories and the logs of running containers are left out: they can be made
# again.
_KEPT: Final = ("secrets.json", "config.yml", "tls.crt", "tls.key")
_END: Final = "complete.json"
# The first three digits of the hash name the directory; \1 refuses a block in another directory.
_BLOCK: Final = re.compile(r"blocks/([0-9a-f]{3})/(\1[0-9a-f]{29})")
# Bytes copied at a time.
_CHUNK: Final = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Contents:
    """Contents of a backup, from its last member: number of blocks, their bytes, and the database's
    SHA-256.

    `complete`: the backup holds all blocks; otherwise it holds none, since they are stored
    elsewhere.
    """

    blocks: int
    size: int
    database: str
    # Version of the layout; 1 is the only one so far, and restoration does not check it.
    format: int = 1
    complete: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Restored:
    """Result of a restoration: blocks and bytes, hashes of damaged blocks, and hashes of missing
    blocks.
    """

    blocks: int
    size: int
    damaged: tuple[str, ...]
    missing: tuple[str, ...]


def backup(
    directory: DataDirectory, file: Path, *, progress: Progress, with_blocks: bool = True
) -> Contents:
    """Write a backup to the new file `file`; `progress(done, total)` counts bytes.

    Raises Invalid when there are no data, the records are in PostgreSQL, or the blocks are on
    volumes of the configuration and `with_blocks` is set; Corrupt when the records are damaged;
    Conflict when the file exists; Full or Unavailable when it cannot be written.
    """
    _check(directory, file, with_blocks=with_blocks)
    try:
        with ExitStack() as undo:
            undo.enter_context(private_files())
            descriptor, name = tempfile.mkstemp(prefix=f".{file.name}.", dir=file.parent)
            undo.callback(_remove, Path(name))
            copy = Path(f"{name}.db")
            undo.callback(_remove, copy)
            with (
                os.fdopen(descriptor, "wb") as out,
                tarfile.open(fileobj=out, mode="w", format=tarfile.PAX_FORMAT) as tar,
            ):
                contents = _fill(tar, directory, copy, progress, with_blocks=with_blocks)
                # Closing the archive writes its end; the data must be on the disk before the file
                # gets its name.
                tar.close()
                out.flush()
                os.fsync(out.fileno())
            # A link, unlike a rename, fails with FileExistsError when another process made the file
            # meanwhile.
            os.link(name, file)
            _sync(file.parent)
    except FileExistsError:
        raise Conflict(f"{file}: is there already; choose another name") from None
    except OSError as error:
        raise _failure(file, error) from error
    return contents


def restore(file: Path, directory: DataDirectory, *, progress: Progress) -> Restored:
    """Restore the data directory of a backup; `directory` must be absent or empty. All data is
    verified.

    Raises Invalid when the directory is in use or the file is no backup, Corrupt when records or
    secrets are damaged, Full or Unavailable when it cannot be written. Damaged blocks are left out
    and reported.
    """
    if directory.root.exists() and any(directory.root.iterdir()):
        raise Invalid(
            f"{directory.root}: is not empty; restore into a directory that does not exist"
        )
    # The data are restored into a sibling directory and renamed at the end, so that an interrupted
    # restoration leaves no incomplete data directory under the final name.
    aside = directory.root.with_name(f".{directory.root.name}.restoring")
    # Left by an earlier restoration that was killed.
    shutil.rmtree(aside, ignore_errors=True)
    made = DataDirectory(aside)
    try:
        with private_files(), tarfile.open(file, mode="r:") as tar:
            made.prepare()
            restored = _unpack(tar, file, made, progress)
        # One call in place of a sync for each of many block files.
        os.sync()
        if directory.root.exists():
            directory.root.rmdir()
        aside.rename(directory.root)
        _sync(directory.root.parent)
    except FileNotFoundError as error:
        raise NotFound(f"{error.filename}: not there") from error
    except tarfile.TarError as error:
        raise Corrupt(f"{file}: not a backup, or cut off ({error})") from error
    except OSError as error:
        # After a successful rename this removes nothing.
        raise _failure(directory.root, error) from error
    finally:
        shutil.rmtree(aside, ignore_errors=True)
    return restored


def _check(directory: DataDirectory, file: Path, *, with_blocks: bool) -> None:
    if not (directory.root / "secrets.json").exists():
        raise Invalid(f"{directory.root}: no data here; name the directory with --data")
    config = directory.config(directory.secrets(), address="localhost:1")
    if config.PostgreSQL.Connection:
        raise Invalid(
            "the records are in PostgreSQL: back them up with pg_dump, "
            "and then the blocks with rsync"
        )
    if config.Volumes and with_blocks:
        raise Invalid(
            "the blocks are on the Volumes of the configuration: copy those, "
            "then use --without-blocks here"
        )
    if file.exists():
        raise Conflict(f"{file}: is there already; choose another name")


def _fill(
    tar: tarfile.TarFile,
    directory: DataDirectory,
    copy: Path,
    progress: Progress,
    *,
    with_blocks: bool,
) -> Contents:
    # All of these files are optional: a server that was never configured has no config.yml.
    for name in _KEPT:
        # Not every installation has this file.
        with suppress(FileNotFoundError):
            _add(tar, f"kept/{name}", directory.root / name)
    # SQLite's backup may copy damaged pages without an error, so the copy is checked as well.
    try:
        copy_database(directory.database, copy, progress=progress)
        check_database(copy)
    except Corrupt as error:
        raise Corrupt(
            f"{directory.database}: is damaged ({error.message.partition('(')[2].rstrip(')')}); "
            "no backup was made. "
            "Keep the earlier backups, stop 'lading up' and restore the last one"
        ) from error
    digest = _sha256(copy)
    _add(tar, "db.sqlite", copy)
    # Packs before files: a block may go from a pack to the trash, and from there to a file.
    packs = Packs(directory.blocks)
    if with_blocks:
        packs.refresh()
    packed = list(packs.list_all())
    block_files = sorted(_blocks(directory.blocks)) if with_blocks else []
    total = sum(block.size for block in packed) + sum(size for _, size in block_files)
    names, done = set[str](), 0
    for block in packed:
        done += _add_packed(tar, packs, block.hash.hex(), names)
        progress(min(done, total), total)
    for path, size in block_files:
        # A block may lie in a file and in a pack.
        if path.name in names:
            total -= size
            continue
        # A block deleted since the listing had been in the trash for weeks: no record names it.
        with suppress(FileNotFoundError):
            _add(tar, _member(path.name), path)
            names.add(path.name)
            done += size
        progress(done, total)
    contents = Contents(blocks=len(names), size=done, database=digest, complete=with_blocks)
    # The last member proves that the archive is complete: a cut-off archive lacks it.
    data = msgspec.json.encode(contents)
    last = tarfile.TarInfo(_END)
    last.size = len(data)
    tar.addfile(last, BytesIO(data))
    return contents


def _add_packed(tar: tarfile.TarFile, packs: Packs, hash: str, names: set[str]) -> int:
    """Add a packed block, unless it is damaged or no longer there; return its bytes."""
    block = packs.read(hash)
    # A damaged one may be in a file as well; if not, restoration reports it as missing.
    if block is None or not block[2]:
        return 0
    member = tarfile.TarInfo(_member(hash))
    member.size, member.mtime, member.mode = block[0].size, block[0].mtime_ns // 10**9, 0o600
    tar.addfile(member, BytesIO(block[1]))
    names.add(hash)
    return block[0].size


def _member(hash: str) -> str:
    return f"blocks/{hash[:3]}/{hash}"


def _add(tar: tarfile.TarFile, name: str, path: Path) -> None:
    with path.open("rb") as source:
        # Size and time are from the open descriptor, not from the path, so they describe the bytes
        # written.
        found = os.fstat(source.fileno())
        member = tarfile.TarInfo(name)
        member.size, member.mtime, member.mode = found.st_size, int(found.st_mtime), 0o600
        tar.addfile(member, source)


def _blocks(root: Path) -> Iterator[tuple[Path, int]]:
    for folder in root.iterdir():
        # Entries of other names in the volume are no blocks.
        for path in folder.iterdir() if len(folder.name) == 3 else ():
            if _BLOCK.fullmatch(f"blocks/{folder.name}/{path.name}"):
                # It was removed meanwhile, for example by a garbage collection.
                with suppress(FileNotFoundError):
                    yield path, path.stat().st_size


def _unpack(
    tar: tarfile.TarFile, file: Path, directory: DataDirectory, progress: Progress
) -> Restored:
    contents: Contents | None = None
    damaged, blocks, size, total = [], 0, 0, file.stat().st_size
    for member in tar:
        source = tar.extractfile(member)
        if source is None or contents is not None:
            raise Corrupt(f"{file}: not a backup: {member.name}")
        match = _BLOCK.fullmatch(member.name)
        if match is None:
            contents = _unpack_file(source, member.name, directory, file)
        elif _write_block(source, directory.blocks / match[1] / match[2], member.mtime):
            blocks, size = blocks + 1, size + member.size
        else:
            damaged.append(match[2])
        progress(tar.offset, total)
    if contents is None:
        raise Corrupt(f"{file}: was cut off; take another backup")
    if blocks + len(damaged) != contents.blocks or _sha256(directory.database) != contents.database:
        raise Corrupt(f"{file}: is damaged; take another backup")
    check_database(directory.database)
    missing = _missing(directory, damaged) if contents.complete else ()
    return Restored(blocks=blocks, size=size, damaged=tuple(damaged), missing=missing)


def _unpack_file(
    source: IO[bytes], name: str, directory: DataDirectory, file: Path
) -> Contents | None:
    """Write a file that is no block. The last one is not written: it lists all others."""
    if name == _END:
        return msgspec.json.decode(source.read(), type=Contents)
    _copy(source, _target(directory, name, file))
    return None


def _target(directory: DataDirectory, name: str, file: Path) -> Path:
    if name == "db.sqlite":
        return directory.database
    if name.startswith("kept/") and name.removeprefix("kept/") in _KEPT:
        return directory.root / name.removeprefix("kept/")
    raise Corrupt(f"{file}: not a backup: {name}")


def _write_block(source: IO[bytes], path: Path, mtime: float) -> bool:
    path.parent.mkdir(mode=0o700, exist_ok=True)
    if _copy(source, path) != path.name:
        path.unlink()
        return False
    os.utime(path, (mtime, mtime))
    return True


def _copy(source: IO[bytes], path: Path) -> str:
    """Write a new file (0600); return the MD5 of its bytes."""
    # MD5 because it is the name of a block in Keep, not for security.
    digest = hashlib.md5(usedforsecurity=False)
    # O_EXCL: a second member with the same name is an error, not a replacement.
    descriptor = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "wb") as out:
        while chunk := source.read(_CHUNK):
            digest.update(chunk)
            out.write(chunk)
    return digest.hexdigest()


# Hashes of all non-empty blocks that a collection names and the backup does not hold.
def _missing(directory: DataDirectory, damaged: list[str]) -> tuple[str, ...]:
    needed_hashes = {
        block_locator[:32]
        for manifest_text in manifests(directory.database)
        for block_locator in manifest.locators(manifest_text)
        # The empty block has size 0 and is never stored.
        if block_locator[33:] != "0"
    }
    return tuple(
        sorted(
            hash
            for hash in needed_hashes
            if hash not in damaged and not (directory.blocks / hash[:3] / hash).exists()
        )
    )


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _remove(path: Path) -> None:
    path.unlink(missing_ok=True)


def _sync(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _failure(path: Path, error: OSError) -> Unavailable:
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return Full(f"{path}: no room ({error.strerror}); free some space on its disk")
    return Unavailable(f"{path}: {error.strerror or error}; see to its disk and its owner")
