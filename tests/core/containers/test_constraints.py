"""runtime_constraints and scheduling_parameters."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lading.core.containers import constraints
from lading.core.containers.constraints import GIB, Policy
from lading.core.errors import Invalid
from lading.core.values import Json, JsonObject

POLICY = Policy()
NO_GPU: JsonObject = {
    "device_count": 0,
    "driver_version": "",
    "hardware_target": [],
    "stack": "",
    "vram": 0,
}
CUDA: JsonObject = {"device_count": 1, "driver_version": "11.4", "hardware_capability": "8.0"}
GPU: JsonObject = {
    "device_count": 1,
    "driver_version": "11.4",
    "hardware_target": ["8.0"],
    "stack": "cuda",
    "vram": 0,
}


def filled(**given_values: Json) -> JsonObject:
    return constraints.fill({"ram": GIB, "vcpus": 1, **given_values})


def test_every_key_is_filled() -> None:
    assert constraints.fill({"ram": 3.0}) == {
        "API": False,
        "gpu": NO_GPU,
        "keep_cache_disk": 0,
        "keep_cache_ram": 0,
        "ram": 3,
        "vcpus": 0,
    }


def test_cuda_also_gives_a_gpu() -> None:
    both = filled(cuda=CUDA)
    assert (both["gpu"], both["cuda"]) == (GPU, CUDA)
    assert filled(cuda={})["gpu"] == NO_GPU
    other: JsonObject = {**GPU, "stack": "rocm"}
    assert filled(cuda=CUDA, gpu=other)["gpu"] == other
    constraints.check(both, committed=True)
    constraints.check(filled(gpu=GPU, cuda={}), committed=True)


BAD: list[tuple[JsonObject, str]] = [
    ({"internet": "yes"}, "[internet]: must be true or false"),
    ({"internet": False, "API": True}, "[internet]: cannot be false with API"),
    ({"clock": {}}, "[clock]: must be true, false"),
    ({"9 lives": 1}, "unexpected keys [9 lives]"),
    ({"API": 1}, "[API]: must be true or false"),
    ({"ram": 0}, "[ram]=0 must be a positive integer"),
    ({"ram": 1 << 63}, "[ram]=9223372036854775808 must be"),
    ({"ram": "1"}, "[ram]='1' must be a positive integer"),
    ({"vcpus": True}, "[vcpus]=True must be"),
    (
        {"vcpus": [2, 1]},
        "[vcpus]=[2, 1] must be a range [min, max] of integers, 1 or more, min not above max",
    ),
    ({"vcpus": [0, 1]}, "[vcpus]=[0, 1] must be a range"),
    ({"ram": [1, 1 << 63]}, "[ram]=[1, 9223372036854775808] must be a range"),
    ({"keep_cache_ram": [1, "2"]}, "[keep_cache_ram]=[1, '2'] must be a range"),
    ({"gpu": {"vram": [1, 2]}}, "[gpu.vram]=[1, 2] must be an integer"),
    ({"keep_cache_ram": -1}, "[keep_cache_ram]=-1 must be an integer, 0 or more"),
    ({"gpu": 1}, "[gpu]: must be an object"),
    ({"gpu": {"color": "red"}}, "[gpu] contains unexpected keys [color]"),
    ({"gpu": {"vram": -1}}, "[gpu.vram]=-1"),
    ({"gpu": {"stack": "x"}}, "[gpu.stack]"),
    ({"gpu": {**GPU, "driver_version": "x"}}, "[gpu.driver_version]='x'"),
    ({"gpu": {**GPU, "hardware_target": [1]}}, "[gpu.hardware_target]"),
    ({"cuda": 1}, "[cuda]: must be an object"),
    ({"cuda": {"color": "red"}}, "[cuda] contains unexpected keys"),
    ({"cuda": {**CUDA, "device_count": -1}}, "[gpu.device_count]=-1"),
    ({"gpu": GPU, "cuda": {**CUDA, "driver_version": 1}}, "[cuda.driver_version]=1"),
    ({"gpu": GPU, "cuda": {**CUDA, "hardware_capability": ""}}, "[cuda.hardware_capability]=''"),
]


@pytest.mark.parametrize(("given_values", "fault"), BAD)
def test_bad_constraints_are_refused(given_values: JsonObject, fault: str) -> None:
    with pytest.raises(Invalid) as refusal:
        constraints.check(filled(**given_values), committed=True)
    assert fault in refusal.value.message


def test_ranges_and_capabilities() -> None:
    wanted = filled(ram=[1.0, 4], vcpus=[1, 2], keep_cache_disk=[3, 9], internet=True)
    constraints.check(wanted, committed=True)
    given_least = constraints.resolve(wanted, policy=POLICY)
    assert (given_least["ram"], given_least["vcpus"], given_least["keep_cache_disk"]) == (1, 1, 3)
    assert (
        constraints.cache_difference(wanted, {**given_least, "keep_cache_disk": 9}, policy=POLICY)
        is None
    )
    assert (
        constraints.cache_difference(wanted, {**given_least, "keep_cache_disk": 2}, policy=POLICY)
        == "keep_cache_disk"
    )


@pytest.mark.parametrize(
    ("given_values", "network", "essential"),
    [({}, False, None), ({"internet": False}, False, None), ({"internet": True}, True, True),
     ({"API": True}, True, None), ({"API": True, "internet": True}, True, True)],
)  # fmt: skip
def test_the_network(given_values: JsonObject, network: bool, essential: Json) -> None:
    assert constraints.has_network(filled(**given_values)) is network
    assert constraints.essential(filled(**given_values)).get("internet") is essential
    assert constraints.has_internet(filled(**given_values)) is bool(essential)
    has_api = given_values.get("API") is True
    assert constraints.has_internet(filled(**given_values), with_api=True) is (
        bool(essential) or has_api
    )


def test_a_draft_may_lack_resources() -> None:
    constraints.check(constraints.fill({}), committed=False)


@pytest.mark.parametrize(
    ("given_values", "ram_cache", "disk_cache"),
    [
        ({}, 0, 2 * GIB),
        ({"ram": 5 * GIB}, 0, 5 * GIB),
        ({"ram": 500 * GIB}, 0, 32 * GIB),
        ({"keep_cache_ram": 7}, 7, 0),
        ({"keep_cache_disk": 7}, 0, 7),
    ],
)
def test_caches_are_chosen(given_values: JsonObject, ram_cache: int, disk_cache: int) -> None:
    chosen = constraints.resolve(filled(**given_values), policy=POLICY)
    assert (chosen["keep_cache_ram"], chosen["keep_cache_disk"]) == (ram_cache, disk_cache)
    assert list(chosen) == sorted(chosen)


def test_what_is_essential() -> None:
    plain = constraints.essential(filled())
    assert plain == {"API": False, "ram": GIB, "vcpus": 1}
    assert constraints.essential({"API": False, "ram": GIB, "vcpus": 1}) == plain
    assert constraints.essential({**filled(), "gpu": None, "cuda": CUDA}) == {**plain, "gpu": GPU}
    assert constraints.essential(filled(cuda=CUDA)) == constraints.essential(filled(gpu=GPU))


@pytest.mark.parametrize(
    ("theirs", "difference"),
    [
        ({}, None),
        ({"keep_cache_disk": 32 * GIB}, None),
        ({"keep_cache_disk": None}, None),
        ({"keep_cache_disk": 5}, "keep_cache_disk"),
        ({"keep_cache_ram": 99}, None),
        ({"keep_cache_ram": 98}, "keep_cache_ram"),
        ({"keep_cache_ram": None}, "keep_cache_ram"),
    ],
)
def test_acceptable_caches(theirs: JsonObject, difference: str | None) -> None:
    ours = constraints.resolve(filled(), policy=POLICY)
    policy = Policy(default_keep_cache_ram=99)
    assert constraints.cache_difference(ours, {**ours, **theirs}, policy=policy) == difference


def test_scheduling_parameters_are_filled_and_checked() -> None:
    parameters = constraints.fill_scheduling({"partitions": None, "max_run_time": 5.0})
    assert parameters == {
        "max_run_time": 5,
        "partitions": [],
        "preemptible": False,
        "supervisor": False,
    }
    constraints.check_scheduling(parameters, committing=True, policy=POLICY)


@pytest.mark.parametrize(
    ("given_values", "fault"),
    [
        ({"color": 1}, "unexpected keys [color]"),
        ({"preemptible": 1}, "[preemptible]: must be true, false or"),
        ({"max_run_time": -1}, "[max_run_time]: must be an integer"),
        ({"supervisor": "yes"}, "[supervisor]: must be true or false"),
        ({"partitions": ["a", 1]}, "[partitions]: must be an array of strings"),
        ({"preemptible": True}, "preemptible instances are not configured in InstanceTypes"),
    ],
)
def test_bad_scheduling_parameters_are_refused(given_values: JsonObject, fault: str) -> None:
    with pytest.raises(Invalid) as refusal:
        constraints.check_scheduling(
            constraints.fill_scheduling(given_values), committing=True, policy=POLICY
        )
    assert fault in refusal.value.message


def test_preemptible_matters_at_commit_only() -> None:
    parameters = constraints.fill_scheduling({"preemptible": True})
    constraints.check_scheduling(parameters, committing=False, policy=POLICY)
    constraints.check_scheduling(parameters, committing=True, policy=Policy(preemptible=True))


PARAMETERS = st.fixed_dictionaries(
    {
        "max_run_time": st.integers(0, 5),
        "partitions": st.lists(st.sampled_from("abc"), max_size=2),
        "preemptible": st.booleans(),
        "supervisor": st.booleans(),
    }
)


@given(st.lists(PARAMETERS, min_size=1, max_size=3))
def test_a_retry_is_at_least_as_generous_as_each_request(several: list[JsonObject]) -> None:
    merged = constraints.merge_scheduling(several)
    assert constraints.merge_scheduling([merged, merged]) == merged
    for one in several:
        assert merged["max_run_time"] == 0 or (
            one["max_run_time"] and merged["max_run_time"] >= one["max_run_time"]  # type: ignore[operator]
        )
        assert merged["partitions"] == [] or set(one["partitions"]) <= set(merged["partitions"])  # type: ignore[arg-type]
        assert merged["supervisor"] or not one["supervisor"]
        assert one["preemptible"] or not merged["preemptible"]


def test_a_retry_keeps_its_gang() -> None:
    gang: list[JsonObject] = [
        {"nodes": 4, "launcher": "all"},
        {"nodes": 4, "launcher": "all", "max_run_time": 3},
    ]
    merged = constraints.merge_scheduling(gang)
    assert (merged["nodes"], merged["launcher"]) == (4, "all")
    constraints.check_scheduling(
        constraints.fill_scheduling(merged), committing=True, policy=POLICY
    )
    with pytest.raises(Invalid, match="nodes"):
        constraints.check_scheduling(
            constraints.fill_scheduling({"nodes": 0}), committing=False, policy=POLICY
        )


def test_rules_of_attempts_are_checked() -> None:
    parameters = constraints.fill_scheduling({"retry": {"oom": {"limit": 2}}})
    constraints.check_scheduling(parameters, committing=False, policy=POLICY)
    with pytest.raises(Invalid, match=r"\[retry\]: sloth: must be one of"):
        constraints.check_scheduling(
            constraints.fill_scheduling({"retry": {"sloth": {}}}), committing=False, policy=POLICY
        )


def test_how_long_a_failure_is_kept() -> None:
    filled = constraints.fill_scheduling({"keep_on_failure": 60})
    constraints.check_scheduling(filled, committing=True, policy=POLICY)
    for wrong in (-1, "x", constraints.MOST_KEPT + 1, True):
        with pytest.raises(Invalid, match="keep_on_failure"):
            constraints.check_scheduling(
                filled | {"keep_on_failure": wrong}, committing=True, policy=POLICY
            )
    assert (
        constraints.merge_scheduling([filled, {"keep_on_failure": 90}, {}])["keep_on_failure"] == 90
    )
    assert "keep_on_failure" not in constraints.merge_scheduling([{}, {}])


@pytest.mark.parametrize(
    ("names", "fault"),
    [
        ("main", "array of strings"),
        ([1], "array of strings"),
        (["a,b"], "'a,b' has a comma"),
        (["a\nb"], "cannot be printed"),
        ([""], "1 to 100 characters"),
        (["a "], "without blanks"),
        (["a" * 101], "1 to 100 characters"),
        (["a"] * 201, "more than 200 names"),
    ],
)
def test_names_of_partitions(names: Json, fault: str) -> None:
    with pytest.raises(Invalid, match=fault):
        constraints.check_scheduling(
            constraints.fill_scheduling({"partitions": names}), committing=True, policy=POLICY
        )
    good = constraints.fill_scheduling({"partitions": ["main", "gpu nodes", "a" * 100]})
    constraints.check_scheduling(good, committing=True, policy=POLICY)
