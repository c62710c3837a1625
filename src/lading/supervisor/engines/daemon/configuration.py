"""The configuration of a container, as the API of Docker and of podman takes it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from lading.supervisor.engines import Bind, ContainerSpec, Device, owners
from lading.supervisor.engines.bundle import (
    CAPABILITIES,
    HOSTNAME,
    MASKED,
    READONLY,
    resource_limits,
)
from lading.supervisor.limits.cgroup import LEAST_RAM, PERIOD

_NVIDIA_CAPABILITIES = ("gpu", "nvidia", "compute", "utility")


def make_config(
    spec: ContainerSpec,
    *,
    image: str,
    nvidia: bool = True,
    security: Sequence[str] = (),
    joined: str = "",
    complete_limits: bool = False,
) -> dict[str, Any]:
    """Configuration for the daemon; `nvidia`: it supports NVIDIA GPUs by number.

    `security`: options beside no-new-privileges. `joined`: the network of another container, with
    its host name; "" for none. `complete_limits`: with the limits that podman otherwise raises.
    """
    ram = max(spec.ram, LEAST_RAM) if spec.ram else 0
    config: dict[str, Any] = {
        "Image": image,
        "Cmd": list(spec.command),
        "Env": [f"{name}={value}" for name, value in spec.environment],
        **({} if joined else {"Hostname": HOSTNAME}),
        "AttachStdin": spec.stdin >= 0,
        "AttachStdout": True,
        "AttachStderr": True,
        "OpenStdin": spec.stdin >= 0,
        "StdinOnce": spec.stdin >= 0,
        "Tty": False,
        # The image's would run programs beside the command.
        "Healthcheck": {"Test": ["NONE"]},
        "HostConfig": {
            **_binds(spec),
            "NetworkMode": joined or "none",
            "Memory": ram,
            # Memory and swap together: no swap, as with the native engine.
            "MemorySwap": ram,
            "CpuPeriod": PERIOD if spec.vcpus else 0,
            "CpuQuota": PERIOD * spec.vcpus,
            # 0 is no limit. So is -1 for Docker and runc, but crun refuses to start with it.
            "PidsLimit": spec.processes,
            "Ulimits": [
                {"Name": name, "Soft": most, "Hard": most}
                for name, most in resource_limits(complete=complete_limits).items()
            ],
            "CapDrop": ["ALL"],
            "CapAdd": [name.removeprefix("CAP_") for name in CAPABILITIES],
            "SecurityOpt": ["no-new-privileges", *security],
            "MaskedPaths": list(MASKED),
            "ReadonlyPaths": list(READONLY),
            # Output is attached; the daemon need not store it.
            "LogConfig": {"Type": "none"},
            **_gpus(spec, nvidia=nvidia),
        },
    }
    if spec.cwd not in ("", "."):
        config["WorkingDir"] = spec.cwd
    return config


def _gpus(spec: ContainerSpec, *, nvidia: bool) -> dict[str, Any]:
    if spec.cuda and nvidia:
        numbers = [str(number) for number in spec.cuda]
        request = {"Driver": "nvidia", "DeviceIDs": numbers, "Capabilities": [_NVIDIA_CAPABILITIES]}
        return {"DeviceRequests": [request]}
    if spec.devices:
        groups = [str(group) for group in owners(spec.devices)]
        return {"Devices": [_device(device) for device in spec.devices], "GroupAdd": groups}
    return {}


def _binds(spec: ContainerSpec) -> dict[str, Any]:
    mounts = [make_mount(bind) for bind in spec.binds if bind.memory is None]
    memory = ((bind.target, bind.memory) for bind in spec.binds if bind.memory is not None)
    return {"Mounts": mounts, "Tmpfs": {target: _in_memory(size) for target, size in memory}}


def _device(device: Device) -> dict[str, str]:
    return {
        "PathOnHost": device.source,
        "PathInContainer": device.target,
        "CgroupPermissions": "rwm",
    }


def _in_memory(size: int) -> str:
    """Options of a file system in memory; the command may run as any user, and may run programs
    from there.
    """
    return f"rw,exec,nosuid,nodev,mode=1777{f',size={size}' if size else ''}"


def make_mount(bind: Bind) -> dict[str, Any]:
    """A bind as the daemon's API takes it."""
    return {"Type": "bind", "Source": bind.source, "Target": bind.target, "ReadOnly": bind.readonly}
