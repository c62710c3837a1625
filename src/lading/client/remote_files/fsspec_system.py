"""The file system `lading://` of fsspec: pandas, Dask, xarray, zarr and DuckDB read and write it.

    pandas.read_parquet("lading://project/collection/table.parquet")

It needs the extra `fsspec`. The site is that of the client's configuration, and its token is in no
option and in no pickle: a worker on another machine uses the configuration that it has there.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from fsspec.asyn import AsyncFileSystem, sync
from fsspec.core import has_magic
from fsspec.spec import AbstractBufferedFile

from lading.client.files.downloads import download_file
from lading.client.remote_files.addresses import SCHEME, join
from lading.client.remote_files.block_reading import RangeReader
from lading.client.remote_files.opening import opened_files
from lading.client.remote_files.tree import CACHE, LIFE, FileWriter, RemoteFiles, TreeEntry

_PIECE: Final = 4 << 20
"""Bytes of a local file that are read at a time."""
Opening = Callable[[], AbstractAsyncContextManager[RemoteFiles]]


class LadingFileSystem(AsyncFileSystem):  # type: ignore[misc]
    """Projects and collections as directories, and the files in collections.

    `site`: the name of a login, by default the site that commands use. `cache`: bytes of blocks
    that are kept in memory; `life`: seconds for which listings are. A file appears at its close,
    and is durable then. `opening` opens the files otherwise, for tests.
    """

    protocol = SCHEME
    root_marker = ""
    async_impl = True

    def __init__(
        self,
        site: str = "",
        *,
        cache: int = CACHE,
        life: float = LIFE,
        opening: Opening | None = None,
        **options: Any,
    ) -> None:
        super().__init__(**options)
        self._opening = opening or (lambda: opened_files(site, cache=cache, life=life))
        self._stack: AsyncExitStack | None = None
        self._opened: RemoteFiles | None = None
        self._turn: asyncio.Lock | None = None

    async def files(self) -> RemoteFiles:
        """The files of the site, opened with the first call. Raises Invalid, Unavailable."""
        if self._turn is None:
            self._turn = asyncio.Lock()
        async with self._turn:
            if self._opened is None:
                stack = AsyncExitStack()
                self._opened = await stack.enter_async_context(self._opening())
                self._stack = stack
            return self._opened

    async def close(self) -> None:
        """Close the connections; the next call opens them again."""
        if self._stack is not None:
            stack, self._stack, self._opened = self._stack, None, None
            await stack.aclose()

    def invalidate_cache(self, path: str | None = None) -> None:
        """Forget what names lead to, and the files of collections."""
        if self._opened is not None:
            self._opened.expire()
        super().invalidate_cache(path)

    async def _info(self, path: str, **_: Any) -> dict[str, Any]:
        return _info_of(await (await self.files()).entry(self._strip_protocol(path)))

    async def _ls(self, path: str, detail: bool = True, **_: Any) -> list[Any]:
        entries = await (await self.files()).entries(self._strip_protocol(path))
        return [_info_of(entry) if detail else entry.path for entry in entries]

    async def _cat_file(
        self, path: str, start: int | None = None, end: int | None = None, **_: Any
    ) -> bytes:
        return await (await self.files()).read(self._strip_protocol(path), start or 0, end)

    async def _pipe_file(self, path: str, value: bytes, mode: str = "overwrite", **_: Any) -> None:
        files = await self.files()
        await files.write(self._strip_protocol(path), value, exclusive=mode == "create")

    async def _put_file(
        self, lpath: str, rpath: str, mode: str = "overwrite", callback: Any = None, **_: Any
    ) -> None:
        source = Path(lpath)
        if await asyncio.to_thread(source.is_dir):
            await self._makedirs(rpath, exist_ok=True)
            return
        files = await self.files()
        writer = await files.writer(self._strip_protocol(rpath), exclusive=mode == "create")
        with await asyncio.to_thread(source.open, "rb") as file:
            if callback is not None:
                callback.set_size(os.fstat(file.fileno()).st_size)
            try:
                while piece := await asyncio.to_thread(file.read, _PIECE):
                    await writer.write(piece)
                    if callback is not None:
                        callback.relative_update(len(piece))
                await writer.commit()
            finally:
                await writer.abort()

    async def _get_file(self, rpath: str, lpath: Any, callback: Any = None, **_: Any) -> None:
        files, path = await self.files(), self._strip_protocol(rpath)
        if hasattr(lpath, "write"):
            lpath.write(await files.read(path))
            return
        if (await files.entry(path)).kind == "directory":
            await asyncio.to_thread(os.makedirs, lpath, exist_ok=True)
            return
        target = Path(lpath)
        await asyncio.to_thread(os.makedirs, target.parent, exist_ok=True)

        def advance(done: int, size: int) -> None:
            callback.set_size(size)
            callback.absolute_update(done)

        await download_file(
            files.blocks,
            await files.stored_file(path),
            target,
            progress=advance if callback is not None else None,
        )

    async def _mkdir(self, path: str, create_parents: bool = True, **_: Any) -> None:
        files = await self.files()
        await files.make_directory(self._strip_protocol(path), parents=create_parents)

    async def _makedirs(self, path: str, exist_ok: bool = False) -> None:
        files = await self.files()
        await files.make_directory(self._strip_protocol(path), exist_ok=exist_ok)

    async def _rm_file(self, path: str, **_: Any) -> None:
        await (await self.files()).remove(self._strip_protocol(path))

    def rmdir(self, path: str) -> None:
        """Remove an empty directory; an empty collection goes to the trash."""
        sync(self.loop, self._rmdir, path)

    async def _rmdir(self, path: str) -> None:
        await (await self.files()).remove(self._strip_protocol(path))

    async def _rm(
        self,
        path: Any,
        recursive: bool = False,
        batch_size: int | None = None,  # noqa: ARG002 (one call removes a directory)
        maxdepth: int | None = None,
        **_: Any,
    ) -> None:
        files = await self.files()
        names = [path] if isinstance(path, str) else list(path)
        for name in names:
            paths = [self._strip_protocol(name)]
            # A directory is removed by one change, not file by file.
            if maxdepth is not None or has_magic(name):
                paths = await self._expand_path(name, recursive=recursive, maxdepth=maxdepth)
            for entry in reversed(paths):
                await files.remove(entry, recursive=recursive)

    async def _cp_file(self, path1: str, path2: str, **_: Any) -> None:
        files, source = await self.files(), self._strip_protocol(path1)
        target = self._strip_protocol(path2)
        if (await files.entry(source)).kind == "directory":
            await files.make_directory(target, exist_ok=True)
            return
        await files.copy(source, target)

    def mv(
        self,
        path1: Any,
        path2: str,
        recursive: bool = False,
        maxdepth: int | None = None,
        **options: Any,
    ) -> None:
        """Move a file or directory, into a directory that is there; no data is moved. Patterns and
        lists are copied, then removed.
        """
        if not isinstance(path1, str) or has_magic(path1) or maxdepth is not None:
            super().mv(path1, path2, recursive=recursive, maxdepth=maxdepth, **options)
            return
        source, target = self._strip_protocol(path1), self._strip_protocol(path2)
        if path2.endswith("/") or self.isdir(target):
            target = join(target, source.rpartition("/")[2])
        sync(self.loop, self._mv_file, source, target)

    async def _mv_file(self, path1: str, path2: str, **_: Any) -> None:
        files = await self.files()
        await files.move(self._strip_protocol(path1), self._strip_protocol(path2))

    async def _created(self, path: str) -> datetime:
        return await self._modified(path)

    async def _modified(self, path: str) -> datetime:
        entry = await (await self.files()).entry(self._strip_protocol(path))
        return datetime.fromtimestamp(entry.modified, UTC)

    def modified(self, path: str) -> datetime:
        """The time of the last change of the collection that a file is in."""
        changed: datetime = sync(self.loop, self._modified, path)
        return changed

    def created(self, path: str) -> datetime:
        """As `modified`: a collection has no time for each file."""
        return self.modified(path)

    def ukey(self, path: str) -> str:
        """A text that is the same for the same content."""
        entry = self.info(path)
        return str(entry["content"] or entry["mtime"])

    def _open(
        self,
        path: str,
        mode: str = "rb",
        block_size: int | None = None,
        autocommit: bool = True,
        cache_options: dict[str, Any] | None = None,
        **options: Any,
    ) -> LadingFile:
        return LadingFile(
            self,
            path,
            mode=mode,
            block_size=block_size or "default",
            autocommit=autocommit,
            cache_options=cache_options,
            **options,
        )


class LadingFile(AbstractBufferedFile):  # type: ignore[misc]
    """An open file. A written one is streamed to blocks, and is at its path after `close`."""

    def __init__(self, fs: LadingFileSystem, path: str, mode: str = "rb", **options: Any) -> None:
        self._reader: RangeReader | None = None
        self._writer: FileWriter | None = None
        if mode == "rb":
            self._reader = self._call(fs, fs_reader, path)
            options["size"] = self._reader.size
        else:
            # Now, so that a path that cannot be written is refused before the data is made.
            self._writer = self._call(fs, fs_writer, path, mode)
        super().__init__(fs, path, mode=mode, **options)
        if self._writer is not None:
            self.loc = self._writer.size

    def _fetch_range(self, start: int, end: int) -> bytes:
        assert self._reader is not None
        piece: bytes = sync(self.fs.loop, self._reader.read, start, end)
        return piece

    def _upload_chunk(self, final: bool = False) -> bool:
        assert self._writer is not None
        sync(self.fs.loop, self._writer.write, self.buffer.getvalue())
        if final and self.autocommit:
            self.commit()
        return True

    def commit(self) -> None:
        """Have the file at its path."""
        assert self._writer is not None
        sync(self.fs.loop, self._writer.commit)

    def discard(self) -> None:
        """Drop what was written."""
        if self._writer is not None:
            sync(self.fs.loop, self._writer.abort)

    @staticmethod
    def _call(fs: LadingFileSystem, work: Callable[..., Any], *arguments: Any) -> Any:
        return sync(fs.loop, work, fs, *arguments)


async def fs_reader(fs: LadingFileSystem, path: str) -> RangeReader:
    """A reader of a file. Raises NoSuchFile, IsDirectory."""
    return await (await fs.files()).reader(path)


async def fs_writer(fs: LadingFileSystem, path: str, mode: str) -> FileWriter:
    """A writer of a file. Raises FileIsThere, IsDirectory, NotPermitted."""
    files = await fs.files()
    return await files.writer(path, appends=mode == "ab", exclusive=mode == "xb")


def _info_of(entry: TreeEntry) -> dict[str, Any]:
    return {
        "name": entry.path,
        "type": entry.kind,
        "size": entry.size,
        "mtime": entry.modified,
        "content": entry.content,
        "uuid": entry.uuid,
    }
