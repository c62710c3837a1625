"""Cost of one container while it runs: the prices of its machine, and the time of the last
update.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

import msgspec

from lading.core import resources
from lading.core.errors import Invalid
from lading.core.resources import Price
from lading.supervisor.logs import Clock
from lading.supervisor.process.register import Register
from lading.supervisor.supervisor_config import SupervisorConfig


@dataclass(slots=True)
class Costing:
    """Prices are read from the register of the machine, else from the description of the instance;
    without either the cost is None.
    """

    assignment: SupervisorConfig
    clock: Clock
    began: datetime = field(init=False)
    ended: datetime | None = None
    """End of the last process of the container; None while one runs."""
    _heard: bytes = b""
    _prices: tuple[Price, ...] = ()

    def __post_init__(self) -> None:
        self.began = self.clock()
        amount = self.assignment.instance_type.get("Price")
        if isinstance(amount, int | float) and amount > 0:
            self._prices = (Price(self.began, float(amount)),)
        self.look()

    def end(self) -> None:
        """Stop the clock of the cost: no process of the container runs any more. Reporting the end
        may take longer, when the server is away.
        """
        self.ended = self.clock()

    def look(self) -> bool:
        """Read the prices of the register; whether they have changed. An invalid history is
        ignored.
        """
        if not self.assignment.lock_directory:
            return False
        said = Register(Path(self.assignment.lock_directory)).read_prices()
        # The file is rewritten with each listing of the dispatcher; mostly it has not changed.
        if said == self._heard:
            return False
        self._heard = said
        # An unreadable history changes nothing: the known prices stay.
        with contextlib.suppress(Invalid, msgspec.DecodeError):
            self._prices = resources.read_prices(msgspec.json.decode(said)) or self._prices
            return True
        return False

    def amount(self, constraints: Mapping[str, object]) -> float | None:
        """Dollars until now, or until the end, for a container of this size; None without any
        price.
        """
        if not self._prices:
            return None
        share = self.assignment.instance_share or resources.machine_share(
            self.assignment.instance_type,
            vcpus=_number(constraints.get("vcpus")),
            ram=_number(constraints.get("ram")),
        )
        return resources.cost(self._prices, self.began, self.ended or self.clock(), share=share)


def _number(value: object) -> int:
    return value if isinstance(value, int) else 0
