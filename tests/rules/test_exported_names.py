"""Names that users write stay: names and arguments of the Python API, keys of the configuration.
`exported_names.txt` has them; `python -m tests.rules.exported_names` stores the present ones.
"""

from __future__ import annotations

from tests.rules.exported_names import present, stored
from tests.rules.sources import refuse


def test_no_exported_name_is_gone() -> None:
    names = set(present())
    refuse(
        f"{name}: is gone, or has other arguments; docs/deprecation.md says how a name ends"
        for name in stored()
        if name not in names
    )
