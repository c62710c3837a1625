"""Manifests put together of those of directories, and the part of one below a directory."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from lading.core.data.manifest import escape


def assemble(existing: str, pieces: Iterable[tuple[str, str]], *, keep: str) -> str:
    """The manifest of `pieces`, pairs of a manifest and its directory ("" is the top).

    Directories at the top of `existing` whose name starts with `keep` stay, unless a piece replaces
    them.
    """
    placed = [(_prefix(directory), manifest_text) for manifest_text, directory in pieces]
    lines = [
        line
        for line in _lines(existing)
        if line.startswith(f"./{escape(keep)}")
        and not any(_inside(line, prefix) for prefix, _ in placed)
    ]
    for prefix, manifest_text in placed:
        lines += [f"{prefix}{line[1:]}" for line in _lines(manifest_text)]
    # The normal form sorts streams by their names.
    return "".join(sorted(lines, key=lambda line: line.partition(" ")[0]))


def are_apart(pieces: Sequence[tuple[str, str]], *, below: str) -> bool:
    """Whether the paths of all pieces are distinct, so that their counts and sizes add up.

    At most one piece is at the top, without names that start with `below`, as the directories of
    the others do.
    """
    directories = [directory for _, directory in pieces]
    if len(set(directories)) < len(directories):
        return False
    if not all(
        directory.startswith(below) and "/" not in directory
        for directory in directories
        if directory
    ):
        return False
    return not any(
        escape(below) in manifest_text for manifest_text, directory in pieces if not directory
    )


def subtree(manifest_text: str, directory: str) -> str:
    """The part of a manifest below a directory at its top, as a manifest."""
    prefix = _prefix(directory)
    lines = [line for line in _lines(manifest_text) if _inside(line, prefix)]
    return "".join(f".{line[len(prefix) :]}" for line in lines)


def _lines(manifest_text: str) -> list[str]:
    # Not `splitlines`, which also splits at other characters, which names may contain.
    return [f"{line}\n" for line in manifest_text.split("\n") if line]


def _prefix(directory: str) -> str:
    return f"./{escape(directory)}" if directory else "."


def _inside(line: str, prefix: str) -> bool:
    return prefix != "." and line.startswith((f"{prefix} ", f"{prefix}/"))
