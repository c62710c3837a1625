"""The policy that `core` decides with, from the configuration."""

from __future__ import annotations

from collections.abc import Mapping

from lading.config.site import Config
from lading.core.containers.attempts.retry_rules import read_rules
from lading.core.containers.constraints import RETRY_LIMITS, Learning, Policy
from lading.core.containers.disk_space import ScratchLimits
from lading.core.errors import Failure, Invalid
from lading.core.policy.fair_share import BY_PROJECT, BY_USER, read_weight
from lading.core.values import printable


def make_policy(config: Config) -> Policy:
    """The configured facts that `core` decides with."""
    check_fair_share(config)
    classes = config.StorageClasses
    return Policy(
        max_dispatch_attempts=config.Containers.MaxDispatchAttempts,
        max_retry_attempts=config.Containers.MaxRetryAttempts,
        default_keep_cache_ram=config.Containers.DefaultKeepCacheRAM,
        storage_classes=tuple(classes),
        default_storage_classes=tuple(
            name for name, storage_class in classes.items() if storage_class.get("Default")
        ),
        image_formats=tuple(config.Containers.SupportedDockerImageFormats),
        output_retention=config.Containers.OutputRetention,
        reuse_after_shell=config.Containers.ShellAccess.ReuseAfterShell,
        preemptible=has_preemptible(config),
        always_preemptible=has_preemptible(config)
        and config.Containers.AlwaysUsePreemptibleInstances,
        spot_attempts=config.Containers.CloudVMs.SpotAttempts,
        retry_limits={**RETRY_LIMITS, **_retry_limits(config.Containers.RetryLimits)},
        retry_rules=read_rules("configuration: Containers.Retry", {**config.Containers.Retry}),
        scratch=ScratchLimits(
            mount=config.Containers.DefaultTmpCapacity,
            beside=config.Containers.ScratchBesideMounts,
            files=config.Containers.ScratchFiles,
        ),
        learning=_learning(config.Containers.LearnResources),
    )


def check_fair_share(config: Config) -> None:
    """Check the configuration of fair share. Raises Invalid."""
    settings, where = config.Containers.FairShare, "configuration: Containers.FairShare"
    if settings.By not in (BY_PROJECT, BY_USER):
        raise Invalid(f"{where}.By: {printable(settings.By)}: must be {BY_PROJECT} or {BY_USER}")
    if settings.HalfLife <= 0:
        raise Invalid(f"{where}.HalfLife: must be above 0")
    for uuid, weight in settings.Weights.items():
        read_weight(f"{where}.Weights.{printable(uuid)}", weight)


def has_preemptible(config: Config) -> bool:
    """Whether requests may ask for preemptible machines."""
    types = config.InstanceTypes.values()
    return (
        any(instance_type.Preemptible for instance_type in types)
        or (bool(types) and config.Containers.PreemptiblePriceFactor > 0)
        or bool(config.Containers.PreemptiblePartitions)
    )


def _retry_limits(configured: Mapping[str, int]) -> dict[Failure, int]:
    unknown = sorted(configured.keys() - set(Failure))
    if unknown:
        raise Invalid(
            f"configuration: Containers.RetryLimits.{unknown[0]}: "
            f"must be one of {', '.join(Failure)}"
        )
    return {Failure(name): limit for name, limit in configured.items()}


def _learning(configured: str) -> Learning:
    if configured not in tuple(Learning):
        raise Invalid(
            f"configuration: Containers.LearnResources: {printable(configured)}: "
            f"must be one of {', '.join(Learning)}"
        )
    return Learning(configured)
