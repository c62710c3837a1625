"""The directory of one layer of an image, as `unpack` writes it for overlayfs.

Nothing is ever written outside of it: each folder is opened below its parent without following
links, and a symbolic link in the middle of a path is resolved inside the layer, including `..` and
a leading `/`. The root itself is a directory and stays one.

Whiteouts hide entries of lower layers only: a directory that the layer has as well is made opaque,
whichever precedes. A device that no container has, and an attribute that the system cannot store,
are left out with a remark; attributes of overlayfs are refused.

An ordinary user can give files the ids of its namespace alone (`user_ids`), and can make no device:
other ids become root's, and the devices that every container has are left out. A whiteout is a
device that each user may make.
"""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import stat
import tarfile
from collections.abc import Callable
from typing import Final, Self

from lading.client.images.layer_scan import XATTR
from lading.core.errors import ExecutionError, Failure
from lading.core.image_layers import (
    LABEL,
    Attribute,
    attribute,
    attribute_fault,
    attribute_left_out,
    device_left_out,
    is_kept_device,
    shown_name,
)
from lading.core.images import MOST_ELEMENTS, Whiteout, member_path, whiteout
from lading.core.remarks import RemarkList, Remarks
from lading.process.confined import ConfinedTree, open_regular
from lading.supervisor.inputs.layer_attributes import set_attribute
from lading.supervisor.inputs.merged_layers import (
    OPAQUE,
    OPAQUE_OF_USER,
    MergedLayers,
    is_whiteout,
)

# Bytes written at a time.
_CHUNK = 1 << 20
# Symbolic links in one path; Linux allows 40 too (path_resolution(7)).
_MOST_LINKS = 40
# Characters of a name in a message.
_SHOWN = 100
# Descriptors of folders that are kept open: consecutive members are mostly in one folder.
_MOST_OPEN = 64
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
# Entries made between two calls of a `Watch`. A member of some hundred bytes may make 256
# directories.
_WATCHED_ENTRIES: Final = 1000
# Bytes of the disk that a file or directory takes besides its content, at least.
_ENTRY = 4096

Watch = Callable[[], None]
"""Called during long work; its exception ends the work."""


class LayerWriter:
    """A layer directory during unpacking, and descriptors of the recently used directories.

    `below`: the layers below it. Without them every whiteout is written, and a hard link leads to a
    file of the layer. `user_ids`: an ordinary user with so many ids writes it; 0: root does.
    """

    def __init__(
        self,
        tree: ConfinedTree,
        limit: int,
        watch: Watch,
        below: MergedLayers | None = None,
        *,
        user_ids: int = 0,
    ) -> None:
        self._tree, self._limit, self._watch, self._below = tree, limit, watch, below
        self._user_ids = user_ids
        self._opaque = OPAQUE_OF_USER if user_ids else OPAQUE
        self._files = self._entries = 0
        self._remarks = RemarkList()
        self.is_bound = False
        """Whether its entries depend on the layers below."""
        self._folders: dict[str, int] = {}
        self._directory_times: dict[str, int] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._forget()

    @property
    def left_out(self) -> Remarks:
        """Remarks about devices and attributes that the layer has in vain."""
        return self._remarks.remarks()

    @property
    def unpacked(self) -> int:
        """An estimate of the bytes of disk that the entries take."""
        return self._files + _ENTRY * self._entries

    def add(self, tar: tarfile.TarFile, member: tarfile.TarInfo) -> None:
        """Unpack one member of the archive."""
        self._add(tar, member, is_merging=False)

    def remove(self, member: tarfile.TarInfo) -> None:
        """Remove from the directory, which holds lower layers, the entry that a whiteout names."""
        self._count_entry()
        mark = whiteout(member_path(member.name)) if member.type != LABEL else None
        if mark is None:
            return
        # Nothing of this name is in the layers below.
        with contextlib.suppress(FileNotFoundError, NotADirectoryError):
            if mark.opaque:
                with self._tree.open_tree(mark.path) as folder:
                    folder.clear()
            else:
                self._tree.remove(mark.path)
            self._forget()

    def merge(self, tar: tarfile.TarFile, member: tarfile.TarInfo) -> None:
        """Unpack one member into the directory of lower layers; whiteouts were removed before."""
        self._add(tar, member, is_merging=True)

    def _add(self, tar: tarfile.TarFile, member: tarfile.TarInfo, *, is_merging: bool) -> None:
        self._count(member)
        self._count_entry()
        if member.type == LABEL:
            return
        path = member_path(member.name)
        mark = whiteout(path)
        if mark is not None:
            if not is_merging:
                self._hide(mark)
        elif member.isdir():
            self._make_directory(member, path)
        elif not path:
            raise fault("its root is not a directory")
        elif member.isreg():
            self._make_file(tar, member, path)
        else:
            self._make_other(member, path)

    def finish(self) -> None:
        """Set the times of directories, which later members would have changed."""
        for path, moment in self._directory_times.items():
            folder, name = self._place(path)
            # A later member may have replaced the directory.
            with contextlib.suppress(FileNotFoundError):
                if not name:
                    os.utime(folder, ns=(moment, moment))
                elif stat.S_ISDIR(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode):
                    os.utime(name, ns=(moment, moment), dir_fd=folder, follow_symlinks=False)

    def _count(self, member: tarfile.TarInfo) -> None:
        self._files += max(member.size, 0) if member.isreg() else 0
        if member.size < 0:
            raise fault(f"{shown_name(member.name)} has a negative size")
        self._check_size()

    def _check_size(self) -> None:
        if self._files > self._limit:
            raise fault(
                "its files are larger than the cache for images;"
                " raise Local.CacheSize if they are meant to be"
            )

    def _count_entry(self) -> None:
        self._entries += 1
        if self._entries % _WATCHED_ENTRIES == 0:
            self._watch()

    def _hide(self, mark: Whiteout) -> None:
        """Hide entries of the layers below; those of this layer stay, whatever precedes."""
        if mark.opaque:
            self._set_opaque(self._folder(mark.path))
            return
        if self._below is not None:
            self.is_bound = True
            # A whiteout of nothing would be seen where its directory is in this layer only.
            if self._below.find(mark.path) is None:
                return
        folder, name = self._place(mark.path)
        try:
            os.mknod(name, stat.S_IFCHR, os.makedev(0, 0), dir_fd=folder)
        except FileExistsError:
            if stat.S_ISDIR(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode):
                self._set_opaque(self._folder(mark.path))

    def _make_directory(self, member: tarfile.TarInfo, path: str) -> None:
        folder, name = self._place(path)
        if name:
            try:
                # Mode 0700 until the owner is set.
                os.mkdir(name, 0o700, dir_fd=folder)
            except FileExistsError:
                status = os.stat(name, dir_fd=folder, follow_symlinks=False)
                if not stat.S_ISDIR(status.st_mode):
                    self._replace(folder, name, status, 0o700)
        descriptor = self._folder(path)
        self._dress(member, descriptor)
        self._directory_times[path] = _moment(member)

    def _make_file(self, tar: tarfile.TarFile, member: tarfile.TarInfo, path: str) -> None:
        folder, name = self._place(path)
        try:
            descriptor = os.open(name, _NEW, 0o600, dir_fd=folder)
        # Tried without a look first: most members are new.
        except FileExistsError:
            self._clear(folder, name)
            descriptor = os.open(name, _NEW, 0o600, dir_fd=folder)
        content = tar.extractfile(member) if member.size else None
        with open(descriptor, "wb", buffering=0) as file:
            if content is not None:
                shutil.copyfileobj(content, file, _CHUNK)
            self._dress(member, descriptor)
            moment = _moment(member)
            os.utime(descriptor, ns=(moment, moment))

    def _make_other(self, member: tarfile.TarInfo, path: str) -> None:
        if member.islnk():
            self._link(member, path)
            return
        if self._leaves_out(member):
            return
        folder, name = self._place(path)
        self._clear(folder, name)
        if member.issym():
            if not member.linkname:
                raise fault(f"{shown_name(member.name)} is a link to nothing")
            os.symlink(member.linkname, name, dir_fd=folder)
        elif member.ischr() or member.isblk() or member.isfifo():
            kind = (
                stat.S_IFCHR if member.ischr() else stat.S_IFBLK if member.isblk() else stat.S_IFIFO
            )
            os.mknod(
                name, kind | 0o600, os.makedev(member.devmajor, member.devminor), dir_fd=folder
            )
        else:
            raise fault(f"{shown_name(member.name)} has the unknown type {member.type!r}")
        # Owner first: changing it clears the set-user-id bit.
        os.chown(name, *self._owner(member), dir_fd=folder, follow_symlinks=False)
        # There is no call with a directory's descriptor; the last element is not followed.
        self._set_attributes(member, f"/proc/self/fd/{folder}/{name}", follow_symlinks=False)
        if not member.issym():
            os.chmod(name, member.mode & 0o7777, dir_fd=folder)
        moment = _moment(member)
        os.utime(name, ns=(moment, moment), dir_fd=folder, follow_symlinks=False)

    def _link(self, member: tarfile.TarInfo, path: str) -> None:
        linked_path = member_path(member.linkname)
        if not linked_path:
            raise fault(f"{shown_name(member.name)} is a link to a directory")
        source, source_name = self._linked(linked_path)
        try:
            target, name = self._place(path)
            if source < 0:
                self._copy(member, linked_path, target, name)
                return
            if source_name == name and os.path.sameopenfile(source, target):
                # A link to itself has no effect.
                return
            self._clear(target, name)
            os.link(source_name, name, src_dir_fd=source, dst_dir_fd=target, follow_symlinks=False)
        except PermissionError as error:
            raise fault(f"{shown_name(member.name)} is a link to a directory") from error
        finally:
            if source >= 0:
                os.close(source)

    def _linked(self, linked_path: str) -> tuple[int, str]:
        """A descriptor of the folder of an entry of this layer, and its last element; -1 for none.
        The caller closes it.
        """
        above, _, name = linked_path.rpartition("/")
        try:
            folder = self._open(above, make=False) if above else os.dup(self._tree.descriptor)
        except FileNotFoundError:
            return -1, name
        try:
            status = os.stat(name, dir_fd=folder, follow_symlinks=False)
        except FileNotFoundError:
            os.close(folder)
            return -1, name
        if is_whiteout(status):
            os.close(folder)
            return -1, name
        return folder, name

    def _copy(self, member: tarfile.TarInfo, linked_path: str, folder: int, name: str) -> None:
        """Write a link to a file of a lower layer as a file of its own: two layers cannot share
        one.
        """
        entry = self._below.find(linked_path) if self._below is not None else None
        if entry is None:
            raise fault(
                f"{shown_name(member.name)} is a link to {member.linkname[:_SHOWN]!r},"
                " which no layer up to this one has"
            )
        if stat.S_ISDIR(entry.status.st_mode):
            raise fault(f"{shown_name(member.name)} is a link to a directory")
        self.is_bound = True
        self._files += entry.status.st_size
        self._check_size()
        self._clear(folder, name)
        with entry.tree.parent(entry.path) as (source, source_name):
            copy_entry((source, source_name), (folder, name), entry.status, self._watch)

    def _dress(self, member: tarfile.TarInfo, descriptor: int) -> None:
        """Set owner, attributes and mode. The owner first: changing it clears the set-user-id bit
        (chown(2)).
        """
        os.chown(descriptor, *self._owner(member))
        self._set_attributes(member, descriptor)
        os.chmod(descriptor, member.mode & 0o7777)

    def _owner(self, member: tarfile.TarInfo) -> tuple[int, int]:
        """Its ids; root's in place of those that an ordinary user cannot give."""
        user, group, ids = member.uid, member.gid, self._user_ids
        if ids == 1:
            # The file stays as it was made.
            return -1, -1
        return (
            (user, group) if not ids else (user if user < ids else 0, group if group < ids else 0)
        )

    def _place(self, path: str) -> tuple[int, str]:
        """Place of a member: the descriptor of its folder, with links followed, and its last
        element.
        """
        folder, _, name = path.rpartition("/")
        return self._folder(folder), name

    def _folder(self, path: str) -> int:
        """The descriptor of a folder of the layer; made when missing, links are followed inside the
        layer.

        It stays open until `_MOST_OPEN` others were used.
        """
        if not path:
            return self._tree.descriptor
        descriptor = self._folders.get(path)
        if descriptor is None:
            descriptor = self._open(path)
            if len(self._folders) >= _MOST_OPEN:
                # The oldest one: dictionaries keep the order of insertion.
                os.close(self._folders.pop(next(iter(self._folders))))
            self._folders[path] = descriptor
        return descriptor

    def _open(self, path: str, *, make: bool = True) -> int:
        """Open a folder, starting at the nearest open parent, as long as no link is on the way.

        Raises FileNotFoundError for a missing one that is not to be made.
        """
        above, _, last_name = path.rpartition("/")
        names = [last_name]
        while above and above not in self._folders:
            above, _, name = above.rpartition("/")
            names.append(name)
        folder = os.dup(self._folders[above] if above else self._tree.descriptor)
        try:
            while names:
                below = self._enter(folder, names.pop(), make=make)
                if below < 0:
                    return self._resolve(path, make=make)
                os.close(folder)
                folder = below
            return os.dup(folder)
        finally:
            os.close(folder)

    def _enter(self, folder: int, name: str, *, make: bool) -> int:
        """A descriptor of a directory below another, made if missing; -1 when a link is in its
        place.
        """
        # Twice: the first pass may have to make the directory.
        for _ in range(2):
            # The entry is missing, or no directory; the directory is made below.
            with contextlib.suppress(FileNotFoundError, NotADirectoryError):
                return os.open(name, _FOLDER, dir_fd=folder)
            try:
                status = os.stat(name, dir_fd=folder, follow_symlinks=False)
            except FileNotFoundError:
                if not make:
                    raise
                self._count_entry()
                os.mkdir(name, 0o755, dir_fd=folder)
                continue
            if stat.S_ISLNK(status.st_mode):
                return -1
            if not make:
                raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), name)
            self._count_entry()
            self._replace(folder, name, status, 0o755)
        raise fault(f"{name[:_SHOWN]!r} cannot be made a directory")

    def _resolve(self, path: str, *, make: bool) -> int:
        """Like `_open`, with links, each resolved as if the layer were the root directory."""
        stack = [os.dup(self._tree.descriptor)]
        rest, links = path.split("/")[::-1], 0
        try:
            while rest:
                name = rest.pop()
                if name == "..":
                    # `..` of the root is the root.
                    _close(stack, 1 if len(stack) > 1 else 0)
                if name in ("", ".", ".."):
                    continue
                below = self._enter(stack[-1], name, make=make)
                if below >= 0:
                    stack.append(below)
                    if len(stack) > MOST_ELEMENTS:
                        raise fault(
                            f"{path[:_SHOWN]!r} goes over links to directories that lie too deep"
                        )
                    continue
                links += 1
                if links > _MOST_LINKS:
                    raise fault(f"{path[:_SHOWN]} goes over too many links")
                target = os.readlink(name, dir_fd=stack[-1])
                if target.startswith("/"):
                    # An absolute link starts at the root of the layer.
                    _close(stack, len(stack) - 1)
                rest += target.split("/")[::-1]
            return stack.pop()
        finally:
            _close(stack, len(stack))

    def _replace(self, folder: int, name: str, status: os.stat_result, mode: int) -> None:
        """Make a directory in place of another entry, of which `status` is."""
        self._clear(folder, name)
        os.mkdir(name, mode, dir_fd=folder)
        if is_whiteout(status):
            made = os.open(name, _FOLDER, dir_fd=folder)
            try:
                self._set_opaque(made)
            finally:
                os.close(made)

    def _set_opaque(self, directory: int) -> None:
        """Let a directory of the layer, by its descriptor, hide those of the layers below."""
        os.setxattr(directory, self._opaque, b"y")

    def _leaves_out(self, member: tarfile.TarInfo) -> bool:
        """Whether a member is a device that no container has; with a remark."""
        if not (member.ischr() or member.isblk()):
            return False
        number = member.devmajor, member.devminor
        is_kept = is_kept_device(is_character=member.ischr(), number=number)
        if is_kept and not self._user_ids:
            return False
        if is_kept:
            # Its /dev has the device.
            return True
        remark = device_left_out(
            shown_name(member.name), is_character=member.ischr(), number=number
        )
        self._remarks.add(remark)
        return True

    def _set_attributes(
        self, member: tarfile.TarInfo, file: int | str, *, follow_symlinks: bool = True
    ) -> None:
        """Set the extended attributes of a member, but for those that the system cannot store.
        Raises ExecutionError for one that an image may not set; OSError when the disk fails.
        """
        shown = shown_name(member.name) if member.pax_headers else ""
        for header, header_value in member.pax_headers.items():
            if not header.startswith(XATTR):
                continue
            name = header.removeprefix(XATTR)
            reason = attribute_fault(name)
            if attribute(name) is Attribute.REFUSED:
                raise fault(
                    f"{shown_name(member.name)} has the attribute {name[:_SHOWN]}, {reason}"
                )
            if not reason:
                value = header_value.encode("utf-8", "surrogateescape")
                reason = set_attribute(file, name, value, follow_symlinks=follow_symlinks)
            if reason:
                self._remarks.add(attribute_left_out(shown, name[:_SHOWN], reason))

    def _clear(self, folder: int, name: str) -> None:
        """Remove an earlier member that a later one replaces."""
        try:
            os.unlink(name, dir_fd=folder)
        except FileNotFoundError:
            return
        except IsADirectoryError:
            ConfinedTree(folder).remove(name)
        # Open descriptors may lie below the removed directory; `folder` is in use.
        self._forget(but=folder)

    def _forget(self, *, but: int = -1) -> None:
        for path, descriptor in list(self._folders.items()):
            if descriptor != but:
                os.close(descriptor)
                del self._folders[path]


def _close(stack: list[int], number: int) -> None:
    """Close the last `number` descriptors of a stack."""
    for _ in range(number):
        os.close(stack.pop())


def _moment(member: tarfile.TarInfo) -> int:
    return int(float(member.mtime) * 1_000_000_000)


def copy_entry(
    source: tuple[int, str],
    target: tuple[int, str],
    status: os.stat_result,
    watch: Watch,
) -> None:
    """Copy a file, link, pipe or device, which `status` is of, with owner, mode, time and
    attributes. `source` and `target` are a folder's descriptor and a name; the latter must not
    exist. Raises OSError.
    """
    (from_folder, source_name), (folder, name) = source, target
    if stat.S_ISLNK(status.st_mode):
        os.symlink(os.readlink(source_name, dir_fd=from_folder), name, dir_fd=folder)
    elif stat.S_ISREG(status.st_mode):
        descriptor = open_regular(source_name, from_folder)
        with (
            open(descriptor, "rb", buffering=0) as reader,
            open(os.open(name, _NEW, 0o600, dir_fd=folder), "wb", buffering=0) as writer,
        ):
            while data := reader.read(_CHUNK):
                writer.write(data)
                watch()
    else:
        os.mknod(name, stat.S_IFMT(status.st_mode) | 0o600, status.st_rdev, dir_fd=folder)
    os.chown(name, status.st_uid, status.st_gid, dir_fd=folder, follow_symlinks=False)
    at, target_path = f"/proc/self/fd/{from_folder}/{source_name}", f"/proc/self/fd/{folder}/{name}"
    for attribute_name in os.listxattr(at, follow_symlinks=False):
        value = os.getxattr(at, attribute_name, follow_symlinks=False)
        os.setxattr(target_path, attribute_name, value, follow_symlinks=False)
    if not stat.S_ISLNK(status.st_mode):
        os.chmod(name, stat.S_IMODE(status.st_mode), dir_fd=folder)
    moment = status.st_mtime_ns
    os.utime(name, ns=(moment, moment), dir_fd=folder, follow_symlinks=False)


def fault(detail: str) -> ExecutionError:
    return ExecutionError(f"a layer of the image is damaged: {detail}", Failure.IMAGE)
