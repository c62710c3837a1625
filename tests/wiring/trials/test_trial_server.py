"""Parts of the server of `lading cloud test`; the whole runs in
tests/system/test_cloud_trial.py.
"""

from __future__ import annotations

import pytest

from lading.core.errors import Unavailable
from lading.wiring.trials.trial_server import facing


def test_the_address_that_faces_a_vm() -> None:
    assert facing("127.0.0.2").startswith("127.0.0.")
    assert facing("::1") == "[::1]"
    with pytest.raises(Unavailable, match="this machine has no way to 300.0.0.1"):
        facing("300.0.0.1")
