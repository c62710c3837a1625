"""Configuration that decisions on records depend on, as one value.

`core` cannot read the configuration; the server makes one `Policy` of it at start (`Containers.*`,
`StorageClasses`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from lading.core.errors import Failure

# Larger than any number of retries.
NO_LIMIT = 1 << 30
RETRY_LIMITS: Mapping[Failure, int] = MappingProxyType(
    {
        Failure.USER: 0,
        Failure.OOM: 0,
        Failure.DISK: 1,
        Failure.IMAGE: 1,
        Failure.NODE: NO_LIMIT,
        Failure.PREEMPTED: NO_LIMIT,
        Failure.TIMEOUT: 0,
        Failure.INFRASTRUCTURE: NO_LIMIT,
    }
)
"""Retries for a failure of each class. `container_count_max` of the request bounds them in
addition.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """Configuration for decisions about requests and containers.

    `spot_attempts`: number of preemptible machines that a request may lose before it gets others, 0
    for no limit. `storage_classes` are the configured names, `default_storage_classes` those marked
    Default. `preemptible` tells whether an instance type is preemptible, `always_preemptible`
    whether requests made by a container run on preemptible machines in any case. `image_formats` is
    Containers.SupportedDockerImageFormats.
    """

    max_dispatch_attempts: int = 10
    max_retry_attempts: int = 3
    default_keep_cache_ram: int = 0
    storage_classes: tuple[str, ...] = ("default",)
    default_storage_classes: tuple[str, ...] = ("default",)
    preemptible: bool = False
    always_preemptible: bool = False
    spot_attempts: int = 0
    image_formats: tuple[str, ...] = ("v2",)
    reuse_after_shell: bool = False
    retry_limits: Mapping[Failure, int] = field(default_factory=lambda: RETRY_LIMITS)
