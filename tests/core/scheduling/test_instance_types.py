from __future__ import annotations

import pytest
from msgspec import structs

from lading.core.errors import Invalid
from lading.core.resources import GIB, Resources
from lading.core.scheduling.instance_types import (
    NO_GPU,
    ContainerShape,
    Gpu,
    InstanceType,
    check_types,
    eligible,
    lack,
    nearest,
    on_machine,
    requested_gpus,
    with_preemptible,
)

A100 = Gpu(stack="cuda", count=2, driver="12.2", targets=("8.0",), vram=40 * GIB)
INSTINCT = Gpu(stack="rocm", count=1, driver="6.2", targets=("gfx1100", "gfx1103"), vram=20 * GIB)


def kind(
    name: str, vcpus: int, *, price: float = 1.0, gpu: Gpu = NO_GPU, preemptible: bool = False
) -> InstanceType:
    resources = Resources(vcpus, vcpus * 2 * GIB, vcpus * 10 * GIB, gpu.count)
    return InstanceType(
        name=name,
        provider_type=name,
        resources=resources,
        price=price,
        gpu=gpu,
        preemptible=preemptible,
    )


SMALL, MEDIUM, LARGE = (
    kind("small", 1, price=1.0),
    kind("medium", 2, price=1.4),
    kind("large", 8, price=4.0),
)


def shape(vcpus: int = 1, ram: int = GIB, **more: object) -> ContainerShape:
    return structs.replace(ContainerShape(need=Resources(vcpus, ram)), **more)


def names(found: tuple[InstanceType, ...]) -> list[str]:
    return [one.name for one in found]


def test_the_cheapest_that_can_hold_it_comes_first() -> None:
    assert names(eligible(shape(), (LARGE, MEDIUM, SMALL))) == ["small"]
    assert names(eligible(shape(3), (LARGE, MEDIUM, SMALL))) == ["large"]
    assert eligible(shape(9), (LARGE, MEDIUM, SMALL)) == ()


def test_the_price_factor_lets_in_dearer_ones() -> None:
    assert names(eligible(shape(), (LARGE, MEDIUM, SMALL), price_factor=1.5)) == ["small", "medium"]
    assert names(eligible(shape(), (LARGE, MEDIUM, SMALL), price_factor=0.5)) == ["small"]


def test_of_equal_price_the_larger_comes_first() -> None:
    assert names(eligible(shape(), (SMALL, kind("twin", 2, price=1.0)))) == ["twin", "small"]


def test_preemptible_and_not_are_apart() -> None:
    types = with_preemptible((SMALL,), 0.25)
    assert names(types) == ["small", "small.preemptible"]
    assert types[1].price == 0.25
    assert names(eligible(shape(preemptible=True), types)) == ["small.preemptible"]
    assert names(eligible(shape(), types)) == ["small"]
    assert lack(shape(preemptible=True), SMALL) == "it is not preemptible"
    assert lack(shape(), types[1]) == "it is preemptible"


def test_preemptible_types_are_not_made_twice_or_without_a_factor() -> None:
    spot = kind("small.preemptible", 1, preemptible=True)
    assert with_preemptible((SMALL, spot), 0.5) == (SMALL, spot)
    assert with_preemptible((SMALL,), 0.0) == (SMALL,)


@pytest.mark.parametrize(
    ("asked", "there", "why"),
    [
        (Gpu(stack="cuda", count=1, driver="11.0", targets=("8.0",)), A100, ""),
        (Gpu(stack="cuda", count=1, driver="11.0", targets=("7.5",)), A100, ""),
        (
            Gpu(stack="cuda", count=1, driver="11.0", targets=("9.0",)),
            A100,
            "its GPUs are of another kind: 8.0, and 9.0 is needed",
        ),
        (Gpu(stack="cuda", count=1, driver="11.0", targets=("7.0", "8.0")), A100, ""),
        (
            Gpu(stack="cuda", count=1, driver="11.0", targets=("7.0", "7.5")),
            A100,
            "its GPUs are of another kind: 8.0, and 7.0 or 7.5 is needed",
        ),
        (Gpu(stack="cuda", count=1, driver="11.0"), A100, ""),
        (Gpu(stack="cuda", count=1, driver="0.0"), structs.replace(A100, driver=""), ""),
        (Gpu(stack="cuda", count=1, targets=("ampere",)), A100, ""),
        (
            Gpu(stack="cuda", count=1, targets=("hopper",)),
            A100,
            "its GPUs are of another kind: 8.0, and hopper is needed",
        ),
        (
            Gpu(stack="cuda", count=1, driver="12.10", targets=("8.0",)),
            A100,
            "its GPU driver is too old: it supports CUDA 12.2, and 12.10 is needed",
        ),
        (
            Gpu(stack="cuda", count=3, targets=("8.0",)),
            A100,
            "it has too few GPUs: 2, and 3 are needed",
        ),
        (
            Gpu(stack="cuda", count=1, targets=("8.0",), vram=41 * GIB),
            A100,
            "its GPUs have too little memory: 40.0 GiB each, and 41.0 GiB are needed",
        ),
        (Gpu(stack="rocm", count=1, targets=("gfx1103",), vram=16 * GIB), INSTINCT, ""),
        (
            Gpu(stack="rocm", count=1, targets=("gfx1104",)),
            INSTINCT,
            "its GPUs are of another kind: gfx1100 and gfx1103, and gfx1104 is needed",
        ),
        (
            Gpu(stack="cuda", count=1, targets=("8.0",)),
            INSTINCT,
            "its GPUs are for rocm, and cuda is needed",
        ),
        (Gpu(stack="cuda", count=1, targets=("8.0",)), NO_GPU, "it has no GPUs"),
        (NO_GPU, A100, "it is for containers that need GPUs"),
    ],
)
def test_gpus_have_to_be_the_right_ones(asked: Gpu, there: Gpu, why: str) -> None:
    assert lack(shape(gpu=asked), kind("t", 4, gpu=there)) == why


def test_a_gpu_constraint_is_read() -> None:
    told = {
        "stack": "cuda", "device_count": 2, "driver_version": "12.0",
        "hardware_target": ["8.0", "8.6"], "vram": 5,
    }  # fmt: skip
    assert requested_gpus({"gpu": told}) == Gpu(
        stack="cuda", count=2, driver="12.0", targets=("8.0", "8.6"), vram=5
    )
    assert requested_gpus({"gpu": {"device_count": 1, "hardware_target": "8.0"}}) == Gpu(
        stack="cuda", count=1
    )
    assert requested_gpus({"gpu": {"device_count": 1, "hardware_target": ["gfx90a"]}}) == Gpu(
        stack="rocm", count=1, targets=("gfx90a",)
    )
    for odd in ({}, {"gpu": None}, {"gpu": {"device_count": 0}}, {"gpu": {"device_count": "many"}}):
        assert requested_gpus(odd) == NO_GPU


def test_a_vm_is_a_little_smaller_than_its_type() -> None:
    assert on_machine(Resources(2, 9 * GIB, 5, 1), extra_ram=GIB // 2) == Resources(
        2, 10 * GIB, 5, 1
    )


def test_the_nearest_type_is_named_with_what_it_lacks() -> None:
    assert nearest(shape(), ()).startswith("No instance types are configured")
    said = nearest(shape(9, 99 * GIB), (SMALL, LARGE, kind("spot", 9, preemptible=True)))
    assert "the nearest, large, has 8 VCPUs" in said
    assert "it has too little of: VCPUs, RAM" in said


def test_types_that_cannot_be_are_refused() -> None:
    check_types((SMALL, LARGE))
    with pytest.raises(Invalid, match=r"InstanceTypes\.none\.VCPUs: 0; it must be more than 0"):
        check_types((kind("none", 0),))
    with pytest.raises(Invalid, match=r"InstanceTypes\.gift\.Price: -1; it must not be negative"):
        check_types((kind("gift", 1, price=-1.0),))
