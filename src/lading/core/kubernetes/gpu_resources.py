"""GPUs of Kubernetes: what the name of a resource and the labels of nodes tell of them.

Device plugins count GPUs as resources: `nvidia.com/gpu`, `amd.com/gpu`, `gpu.intel.com/i915` and
`gpu.intel.com/xe`; instances (MIG) as `nvidia.com/mig-1g.10gb`, and GPUs that several Pods share at
a time (time slicing) as `nvidia.com/gpu.shared`. Discovery labels nodes with the model
(`nvidia.com/gpu.product`) and the memory of each GPU.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from msgspec import structs

from lading.core.gpu_architectures import CUDA, ONEAPI, ROCM
from lading.core.gpus.models import GpuModel, read_model
from lading.core.scheduling.instance_types import SHARED, Gpu

_STACKS: Final = (("nvidia.com/", CUDA), ("amd.com/", ROCM), ("gpu.intel.com/", ONEAPI))
_SHARED: Final = ".shared"
_PRODUCTS: Final = ("nvidia.com/gpu.product", "amd.com/gpu.product-name")


def describe_gpus(
    resource: str, selector: Mapping[str, str], *, count: int, kinds: Sequence[str] = ()
) -> Gpu:
    """The GPUs of a kind of node. `selector` has the labels of its nodes, `kinds` are words that
    are configured.
    """
    name = resource.removesuffix(_SHARED)
    products = [read_model(selector[label]) for label in _PRODUCTS if label in selector]
    instance = read_model(name.rpartition("/")[2])
    product = products[0] if products else GpuModel()
    model = instance if instance.kinds else product
    shared = (SHARED,) if resource.endswith(_SHARED) else ()
    return Gpu(
        stack=next((stack for prefix, stack in _STACKS if name.startswith(prefix)), ""),
        count=count,
        targets=tuple(dict.fromkeys((*(kinds or _capabilities(instance, product)), *shared))),
        vram=model.memory,
    )


def _capabilities(instance: GpuModel, product: GpuModel) -> tuple[str, ...]:
    """The words of a model; of an instance with the capability of its model, not its name."""
    if not instance.kinds:
        return product.kinds
    return (*product.kinds[:1], *instance.kinds)


def with_sharing(gpu: Gpu) -> Gpu:
    """GPUs that several containers use at a time."""
    return structs.replace(gpu, targets=tuple(dict.fromkeys((*gpu.targets, SHARED))))
