"""Placeholders `?` rewritten to `$1`, `$2`... for PostgreSQL, with a cache of rewritten
statements.
"""

from __future__ import annotations

import re

# Quoted texts and names are matched first, so that a `?` in them is not a placeholder.
_PARTS = re.compile(r"'(?:[^']|'')*'|\"[^\"]*\"|\?")
# Statements that are cached; then the cache is emptied.
_LIMIT = 4096


class Placeholders:
    """Cache of rewritten statements."""

    def __init__(self) -> None:
        self._known: dict[str, str] = {}

    def number(self, sql: str) -> str:
        """The statement with numbered placeholders; quoted text is unchanged."""
        found = self._known.get(sql)
        if found is None:
            if len(self._known) >= _LIMIT:
                self._known.clear()
            found = self._known[sql] = _number(sql)
        return found


def _number(sql: str) -> str:
    count = 0

    def replace(match: re.Match[str]) -> str:
        nonlocal count
        if match[0] != "?":
            return match[0]
        count += 1
        return f"${count}"

    return _PARTS.sub(replace, sql)
