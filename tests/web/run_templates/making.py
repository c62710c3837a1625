"""A template with all kinds of parameters."""

from __future__ import annotations

from typing import Any

from lading.core.templates.bindings import BindingKind, ParameterBinding
from lading.core.templates.document import TemplateVersion, write_versions
from tests.web.browsing import PageSite

PDH = "d41d8cd98f00b204e9800998ecf8427e+0"
PROPERTIES: dict[str, dict[str, Any]] = {
    "k": {"type": "integer", "default": 25, "minimum": 11, "maximum": 63, "description": "size"},
    "mode": {"type": "string", "enum": ["fast", "slow"], "default": "fast", "title": "Mode"},
    "reads": {"type": "string", "format": "lading-input", "default": PDH},
    "dry": {"type": "boolean", "default": False},
    "text": {"type": "string", "default": ""},
    "list": {"type": "array", "default": [1]},
    "need": {"type": "number"},
}


async def save(here: PageSite, name: str = "align", *, count: int = 1, **more: Any) -> str:
    """Store a template; its uuid."""
    image = await here.world.ensure_image()
    request = {
        "name": "align", "command": ["align", "25", "fast", "x"], "container_image": image,
        "environment": {"DRY": "false", "TEXT": ""}, "output_path": "/out", "cwd": "/out",
        "mounts": {
            "/in": {"kind": "collection", "portable_data_hash": PDH},
            "/out": {"kind": "tmp", "capacity": 1000},
        },
        "runtime_constraints": {"vcpus": 1, "ram": 1 << 28},
        **more,
    }  # fmt: skip
    bindings = {
        "k": (ParameterBinding(step=0, kind=BindingKind.COMMAND, index=1),),
        "mode": (ParameterBinding(step=0, kind=BindingKind.COMMAND, index=2),),
        "reads": (ParameterBinding(step=0, kind=BindingKind.MOUNT, name="/in"),),
        "dry": (ParameterBinding(step=0, kind=BindingKind.ENVIRONMENT, name="DRY"),),
        "text": (ParameterBinding(step=0, kind=BindingKind.ENVIRONMENT, name="TEXT"),),
        "need": (ParameterBinding(step=0, kind=BindingKind.COMMAND, index=3),),
    }
    versions = [
        TemplateVersion(
            number=number, requests=(request,), properties=PROPERTIES, bindings=bindings
        )
        for number in range(1, count + 1)
    ]
    body = {"name": name, "description": "Aligns", "definition": write_versions(versions)}
    return str((await here.world.ok("POST", "workflows", body))["uuid"])
