"""Names of steps: workflow runners number the requests of one step."""

from __future__ import annotations

import re
from typing import Final

# The number at the end of a name, in the forms in which workflow engines write it: `a_2`, `a (2)`.
# It is for the reversed name, where each number is found at once, also in a name of megabytes.
_NUMBER: Final = re.compile(r"\d+[._ \-#]+|[)\]]\d+[(\[][._ \-]*")


def step_name(name: str) -> str:
    """The name without numbers at its end: `sort.17`, `sort_17` and `sort (17)` are `sort`."""
    reversed_name, end = name[::-1], 0
    while (found := _NUMBER.match(reversed_name, end)) and found.end() < len(name):
        end = found.end()
    return name[: len(name) - end]
