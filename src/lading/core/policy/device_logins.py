"""Logins of a program by a person who allows them on the page of the site, in any browser.

The program makes the secret of its token, and opens or prints an address with the digest of it. The
person logs in there, compares a code of eight letters with the one that the program shows, and
allows the login. The site then stores a token with this digest, and the program's secret is good.
So no secret is in an address, in a browser or in a clipboard, and the site stores nothing before.

The purpose is that of the device authorization grant (RFC 8628). The code confirms that person and
program mean the same login, as its section 5.4 asks for.
"""

from __future__ import annotations

import hashlib
import re
from typing import Final

PAGE: Final = "/ui/device"
"""Path of the page on which a login is allowed."""
LIFE: Final = 600.0
"""Seconds for which a program waits to be allowed."""
LONGEST_NAME: Final = 64
"""Characters of the name by which a program introduces itself."""
SECRET_BYTES: Final = 32
"""Random bytes of a secret."""
# Crockford's base 32: no letters that look alike (I, L, O), and no U.
_LETTERS: Final = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
_CODE_LENGTH: Final = 8
_DIGEST: Final = re.compile(r"[0-9a-f]{64}")


def is_digest(value: str) -> bool:
    """Whether a value is the SHA-256 of a secret, in lower-case hex."""
    return _DIGEST.fullmatch(value) is not None


def digest_of(secret: str) -> str:
    """The SHA-256 of a secret in hex, the form in which the site stores it."""
    return hashlib.sha256(secret.encode()).hexdigest()


def code_of(digest: str) -> str:
    """The code that the page and the program show for a digest: `XXXX-XXXX`, 40 bits.

    It is taken from a hash of the digest, so that it tells nothing else about it.
    """
    number = int.from_bytes(hashlib.sha256(b"code:" + digest.encode()).digest()[:5], "big")
    letters = [_LETTERS[number >> 5 * position & 31] for position in reversed(range(_CODE_LENGTH))]
    return "".join((*letters[:4], "-", *letters[4:]))
