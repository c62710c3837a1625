"""Names of steps: workflow runners number the requests of one step."""

from __future__ import annotations

import re
from typing import Final

# The number at the end of a name, in the forms in which workflow engines write it: `a_2`, `a (2)`.
_NUMBER: Final = re.compile(r"(?:[._ \-#]+\d+|[._ \-]*[(\[]\d+[)\]])$")


def step_name(name: str) -> str:
    """The name without numbers at its end: `sort.17`, `sort_17` and `sort (17)` are `sort`."""
    while (shorter := _NUMBER.sub("", name)) != name and shorter:
        name = shorter
    return name
