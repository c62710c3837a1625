"""Sessions and links on disk."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from lading.web.sessions import (
    ANSWER_LIFE,
    ANSWERS,
    IDLE,
    LINK_LIFE,
    LONGEST,
    LoginFlow,
    PageSession,
    SessionStore,
)

TOKEN = "v2/zzzzz-gj3su-000000000000000/secret"


class Time:
    """A clock that is set by hand."""

    def __init__(self) -> None:
        self.now = 1_800_000_000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def time() -> Time:
    return Time()


@pytest.fixture
def store(tmp_path: Path, time: Time) -> SessionStore:
    return SessionStore(tmp_path / "page", clock=time, entropy=random.Random(3).randbytes)


def _session(begun: float) -> PageSession:
    return PageSession(token=TOKEN, token_uuid="", user_uuid="u", user_name="Jane", begun=begun)


async def test_a_session_is_found_by_its_secret(store: SessionStore, time: Time) -> None:
    secret = await store.begin(_session(time.now))
    assert await store.find(secret) == _session(time.now)
    assert await store.find("0" * 64) is None
    await store.end(secret)
    await store.end(secret)
    assert await store.find(secret) is None


async def test_files_tell_neither_secret_nor_token(
    store: SessionStore, time: Time, tmp_path: Path
) -> None:
    secret = await store.begin(_session(time.now))
    link = await store.make_link(TOKEN, "/ui/")
    files = [one for one in tmp_path.rglob("*") if one.is_file()]
    assert len(files) == 2
    for one in files:
        assert secret not in str(one)
        assert link not in str(one)
        assert b"secret" not in one.read_bytes()
        assert one.stat().st_mode & 0o077 == 0
    assert (tmp_path / "page").stat().st_mode & 0o077 == 0


async def test_an_unused_session_ends(store: SessionStore, time: Time) -> None:
    secret = await store.begin(_session(time.now))
    time.now += IDLE - 1
    assert await store.find(secret)
    time.now += IDLE - 1
    assert await store.find(secret)
    time.now += IDLE + 1
    assert await store.find(secret) is None


async def test_no_session_lasts_for_ever(store: SessionStore, time: Time) -> None:
    begun = time.now
    secret = await store.begin(_session(begun))
    while time.now < begun + LONGEST:
        assert await store.find(secret)
        time.now += IDLE - 1
    assert await store.find(secret) is None


async def test_a_changed_file_is_no_session(
    store: SessionStore, time: Time, tmp_path: Path
) -> None:
    secret = await store.begin(_session(time.now))
    (file,) = (one for one in tmp_path.rglob("*") if one.is_file())
    file.write_bytes(file.read_bytes()[:-1] + b"x")
    assert await store.find(secret) is None


async def test_a_link_is_no_session(store: SessionStore, time: Time, tmp_path: Path) -> None:
    secret = await store.make_link(TOKEN, "/ui/")
    (file,) = (one for one in tmp_path.rglob("*") if one.is_file())
    (tmp_path / "page" / "sessions").mkdir()
    file.rename(tmp_path / "page" / "sessions" / file.name)
    assert await store.find(secret) is None


async def test_a_link_is_taken_once(store: SessionStore, time: Time) -> None:
    secret = await store.make_link(TOKEN, "/ui/x")
    found = await store.take_link(secret)
    assert found is not None
    assert (found.token, found.target) == (TOKEN, "/ui/x")
    assert await store.take_link(secret) is None


async def test_what_has_ended_is_removed(store: SessionStore, time: Time, tmp_path: Path) -> None:
    await store.begin(_session(time.now))
    await store.make_link(TOKEN, "/ui/")
    time.now += IDLE + LINK_LIFE
    await store.begin(_session(time.now))
    assert len([one for one in tmp_path.rglob("*") if one.is_file()]) == 1


async def test_the_latest_answers_of_a_session_are_kept(
    store: SessionStore, time: Time, tmp_path: Path
) -> None:
    names = []
    for number in range(ANSWERS + 1):
        time.now += 1
        names.append(await store.keep_answer("holder", f"text {number}"))
    found = [await store.find_answer("holder", name or "") for name in names]
    assert found == [None, *(f"text {number}" for number in range(1, ANSWERS + 1))]
    assert await store.find_answer("another", names[-1] or "") is None
    assert await store.find_answer("holder", "") is None
    files = list((tmp_path / "page/answers").iterdir())
    assert len(files) == ANSWERS
    assert not any(b"text" in one.read_bytes() for one in files)
    time.now += ANSWER_LIFE + 1
    assert await store.find_answer("holder", names[-1] or "") is None
    # Others are removed when something else is kept.
    await store.make_link(TOKEN, "/ui/")
    assert list((tmp_path / "page/answers").iterdir()) == []


async def test_strangers_begin_a_bounded_number_of_logins(tmp_path: Path, time: Time) -> None:
    store = SessionStore(
        tmp_path / "page", clock=time, entropy=random.Random(3).randbytes, most_flows=20
    )
    flow = LoginFlow(state="s", nonce="n", code_verifier="v", target="/ui/", until=time.now + 600)
    secrets = []
    for _ in range(100):
        time.now += 1
        secrets.append(await store.begin_flow(flow))
        assert len(list((tmp_path / "page/flows").iterdir())) <= 20
    # The oldest ones give way.
    found = [await store.take_flow(secret) for secret in secrets]
    assert found[:80] == [None] * 80
    assert found[-18:] == [flow] * 18
