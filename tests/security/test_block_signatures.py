"""Who knows the hash of a block has not its content: forged signatures, other tokens and keys, and
every way to name a block of somebody else in a call.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from hashlib import md5

import pytest

from lading.core.data import locator
from lading.core.errors import LadingError
from tests.security.stranger import ANONYMOUS, QUIET, Stranger, bare
from tests.system.cluster import running_cluster

KEY, TOKEN, TTL, NOW = "the key of the site", "v2/zzzzz-gj3su-000000000000001/secret", 1000, 5000
HASH, OTHER = md5(b"one").hexdigest(), md5(b"two").hexdigest()
EXPIRY = NOW + 100


def _hint(**changed: object) -> str:
    given = {"token": TOKEN, "expiry": EXPIRY, "ttl": TTL, "key": KEY} | changed
    return locator.sign(str(given.pop("hash", HASH)), **given)  # type: ignore[arg-type]


GOOD = _hint()
FORGED = {
    "none": "",
    "empty": "+A",
    "empty with expiry": f"+A@{EXPIRY:08x}",
    "lower case": GOOD.replace("+A", "+a"),
    "upper case": GOOD.replace("+A", "+").upper().replace("+", "+A"),
    "twice": GOOD + GOOD,
    "a forged one first": f"+A{'0' * 40}@{EXPIRY:08x}{GOOD}",
    "a forged one last": f"{GOOD}+A{'0' * 40}@{EXPIRY:08x}",
    "remote hint": GOOD.replace("+A", "+Rzzzzz-"),
    "of another block": _hint(hash=OTHER),
    "of another key": _hint(key=f"{KEY} "),
    "of no key": f"+A{'0' * 40}@{EXPIRY:08x}",
    "of another life": _hint(ttl=TTL + 1),
    "later by its text": GOOD[:-8] + f"{EXPIRY + 1:08x}",
    "later by a zero": GOOD.replace("@", "@0"),
    "later by a digit": GOOD + "f",
    "ended": _hint(expiry=NOW - 1),
    "short": GOOD[:10] + GOOD[11:],
    "without at": GOOD.replace("@", ""),
    "two ats": GOOD.replace("@", "@@"),
    "full width": GOOD.replace("a", "\uff41", 1),
    "new line": GOOD + "\n",
    "nul": GOOD + "\0",
}
TOKENS = (
    "", "secret", f"{TOKEN} ", f" {TOKEN}", TOKEN.upper(), f"{TOKEN}/x", f"{TOKEN}@{EXPIRY:08x}",
    f"{HASH}@{TOKEN}", TOKEN[:-1], "v2/zzzzz-gj3su-000000000000002/secret", f"{TOKEN}\0",
)  # fmt: skip


def _verify(text: str, *, token: str = TOKEN, key: str = KEY, now: int = NOW) -> None:
    locator.verify(text, token=token, ttl=TTL, key=key, now=now)


@pytest.mark.attack("has a block by a signature that is forged, of another block, key or time")
@pytest.mark.parametrize("name", FORGED)
def test_forged_signatures(name: str) -> None:
    _verify(f"{HASH}+3{GOOD}")
    with pytest.raises(LadingError):
        _verify(f"{HASH}+3{FORGED[name]}")


@pytest.mark.attack("changes one digit of a signature, of its time or of its block")
def test_each_digit_counts() -> None:
    text = f"{HASH}{GOOD}"
    digits = [at for at, char in enumerate(text) if char in "0123456789abcdef"]
    for at in digits:
        changed = "1" if text[at] == "0" else "0"
        with pytest.raises(LadingError):
            _verify(text[:at] + changed + text[at + 1 :])
    assert len(digits) == len(HASH) + 40 + 8


@pytest.mark.attack("uses somebody else's signature with a token that looks alike")
@pytest.mark.parametrize("token", TOKENS)
def test_other_tokens(token: str) -> None:
    with pytest.raises(LadingError):
        _verify(f"{HASH}+3{GOOD}", token=token)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stranger]:
    with running_cluster(tmp_path_factory.mktemp("blocks") / "data", QUIET) as cluster:
        yield Stranger(cluster)


SECRET = b"a secret that only its hash betrays"


@pytest.mark.system
@pytest.mark.attack("knows the hash of a block and names it in every call that takes a locator")
def test_a_hash_gives_nobody_a_block(site: Stranger) -> None:
    signed = site.keep(SECRET, token=site.admin)
    record = site.collection(SECRET)
    mine = site.token(owner=site.user("mallory"))
    own = site.collection(b"mine", token=mine)
    pdh, hint = record["portable_data_hash"], signed.partition("+A")[2]
    lone = bare(signed)
    texts = [
        f". {name} 0:{len(SECRET)}:file\n"
        for name in (
            lone,
            signed,
            f"{lone}+A{'0' * 40}@ffffffff",
            f"{lone}+Rzzzzz-{hint}",
            f"{lone}+K@zzzzz",
            f"{lone.partition('+')[0]}+{len(SECRET)}",
        )
    ]
    own_locator = own["manifest_text"].split()[1]
    texts += [
        f". {own_locator} {lone} 0:{4 + len(SECRET)}:file\n",
        f"{own['manifest_text']}./d {lone} 0:1:file\n",
    ]
    answers = {
        text: [
            site.call("POST", "collections", {"manifest_text": text}, token=mine),
            site.call("PUT", f"collections/{own['uuid']}", {"manifest_text": text}, token=mine),
        ]
        for text in texts
    }
    for source in (f"{pdh}/file", f"{record['uuid']}/file", f"{pdh}/", record["uuid"]):
        body = {"replace_files": {"/stolen": source}}
        answers[source] = [
            site.call("POST", "collections", body, token=mine),
            site.call("PUT", f"collections/{own['uuid']}", body, token=mine),
        ]
    segments = {"replace_segments": {f"{own_locator} 0 4": f"{lone} 0 4"}}
    answers["segments"] = [
        site.call("PUT", f"collections/{own['uuid']}", segments, token=mine),
        site.call("POST", "collections", {"portable_data_hash": pdh}, token=mine),
        site.call("POST", "collections", {"uuid": record["uuid"]}, token=mine),
    ]
    for name in (lone, signed, f"{lone}+A{'0' * 40}@ffffffff", lone.partition("+")[0]):
        for token in (mine, ANONYMOUS, "invented"):
            for method in ("GET", "HEAD"):
                answers.setdefault(name, []).append(site.send(method, f"/{name}", token=token))
    answers["pdh"] = [
        site.call("GET", f"collections/{pdh}", token=mine),
        site.send("GET", f"/by_id/{pdh}/file", token=mine),
        site.send("GET", f"/c={pdh}/file", token=mine),
        site.send("GET", f"/collections/{pdh}/file", token=mine),
    ]
    for name, found in answers.items():
        for answer in found:
            made = answer.status == 200 and "manifest_text" in answer.text
            text = answer.json.get("manifest_text", "") if made else ""
            assert lone.partition("+")[0] not in str(text), (name, answer)
            assert SECRET.decode() not in answer.text, (name, answer)
    left = site.ok("GET", f"collections/{own['uuid']}", token=mine)
    assert left["portable_data_hash"] == own["portable_data_hash"], json.dumps(left)
