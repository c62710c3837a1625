"""Templates that tests save."""

from __future__ import annotations

from typing import Any

import lading
from lading.client.templates import records
from lading.core.templates.bindings import BindingKind, ParameterBinding
from lading.core.templates.document import TemplateVersion

PDH = "d41d8cd98f00b204e9800998ecf8427e+0"


def save(site: lading.Site, image: str, name: str, **more: Any) -> records.Template:
    """A version of a template with one request, saved as the next one of this name."""
    request = {
        "name": "align", "command": ["align", "25"], "container_image": image,
        "output_path": "/out",
        "mounts": {
            "/in": {"kind": "collection", "portable_data_hash": PDH},
            "/out": {"kind": "tmp", "capacity": 1000},
        },
        "runtime_constraints": {"vcpus": 1, "ram": 1 << 28},
        **more,
    }  # fmt: skip
    version = TemplateVersion(
        number=1,
        requests=(request,),
        properties={
            "k": {"type": "integer", "default": 25},
            "reads": {"type": "string", "format": "lading-input", "default": PDH},
        },
        bindings={
            "k": (ParameterBinding(step=0, kind=BindingKind.COMMAND, index=1),),
            "reads": (ParameterBinding(step=0, kind=BindingKind.MOUNT, name="/in"),),
        },
    )
    now = "2026-01-01T00:00:00.000000000Z"
    return site.call(records.save_version(site.api, name, version, now=now))
