"""The environment of Snakemake with our plugins.

The plugins and the product are taken from this checkout: Snakemake finds plugins by their names on
the path of modules.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from tests.system.environments import ROOT, environment

PLUGINS = ROOT / "plugins"


def variables() -> dict[str, str]:
    """The variables with which its programs find the plugins and the product of this checkout."""
    programs = environment("snakemake")
    path = f"{programs}:{Path(sys.executable).parent}:{os.environ['PATH']}"
    modules = (ROOT / "src", *(one for one in PLUGINS.iterdir() if one.is_dir()))
    return {"PATH": path, "PYTHONPATH": ":".join(map(str, modules))}
