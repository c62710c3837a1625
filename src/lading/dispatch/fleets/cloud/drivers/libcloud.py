"""The driver for the clouds of Apache Libcloud: Azure, Google, OpenStack (parameter `Provider`).

Libcloud blocks, and its connections are not thread-safe: a few threads have one connection each,
opened on first use. A call that takes too long is abandoned here; its thread continues, each of its
requests with a time limit, so that VMs that it created are removed or found at the next list.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from typing import TypeVar

from lading.core.errors import Invalid, Unavailable
from lading.core.scheduling.instance_types import InstanceType
from lading.dispatch.fleets.cloud.drivers import azure, google, openstack
from lading.dispatch.fleets.cloud.drivers.driver import DriverSite, Instance, InstanceSpec
from lading.dispatch.fleets.cloud.drivers.libcloud_connection import (
    Provider,
    ProviderLogin,
)

PROVIDERS: Mapping[str, Callable[[DriverSite], ProviderLogin]] = {
    "azure": azure.opening,
    "google": google.opening,
    "openstack": openstack.opening,
}
# Calls at a time: each blocks a thread.
_THREADS = 8
# Seconds for one call: less than `CloudSettings.operation_timeout`, so that its error is reported.
_LONGEST = 55.0
_Answer = TypeVar("_Answer")


class LibcloudDriver:
    """Implements `Driver`. `close` at the end."""

    def __init__(
        self, opening: ProviderLogin, *, longest: float = _LONGEST, threads: int = _THREADS
    ) -> None:
        self.preemption = opening.preemption
        self._opening = opening
        self._longest = longest
        self._threads = ThreadPoolExecutor(threads, thread_name_prefix="cloud")
        self._idle = deque[Provider]()

    async def create(self, spec: InstanceSpec) -> Instance:
        """Make a VM."""
        return await self._run(lambda provider: provider.create(spec))

    async def list(self) -> list[Instance]:
        """Our VMs."""
        return await self._run(lambda provider: provider.list())

    async def tag(self, id: str, tags: Mapping[str, str]) -> None:
        """Give a VM these tags."""
        await self._run(lambda provider: provider.tag(id, tags))

    async def destroy(self, id: str) -> None:
        """Remove a VM."""
        await self._run(lambda provider: provider.destroy(id))

    async def console(self, id: str) -> str:
        """The console output of a VM."""
        return await self._run(lambda provider: provider.console(id))

    def group(self, kind: InstanceType) -> str:
        """Name of the group of types that share the cloud's capacity with a type."""
        return self._opening.group(kind)

    async def close(self) -> None:
        """End the threads that are idle; others end when their requests do."""
        self._threads.shutdown(wait=False, cancel_futures=True)
        while self._idle:
            await asyncio.to_thread(self._idle.pop().close)

    async def _run(self, work: Callable[[Provider], _Answer]) -> _Answer:
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(self._longest):
                return await loop.run_in_executor(self._threads, self._do, work)
        except TimeoutError as error:
            raise Unavailable(f"the cloud did not answer in {self._longest:g} s") from error

    def _do(self, work: Callable[[Provider], _Answer]) -> _Answer:
        try:
            provider = self._idle.pop()
        except IndexError:
            provider = self._opening.open()
        try:
            return work(provider)
        finally:
            self._idle.append(provider)


@asynccontextmanager
async def open_libcloud(site: DriverSite) -> AsyncGenerator[LibcloudDriver]:
    """The driver. Raises Invalid for parameters that cannot be, or without libcloud."""
    try:
        import libcloud  # noqa: F401 - a later import would fail in a thread
    except ImportError as error:
        raise Invalid(
            f"driver libcloud: {error.name} is not installed; install the extra cloud of lading"
        ) from error
    name = site.parameters.get("Provider")
    if not isinstance(name, str) or name not in PROVIDERS:
        allowed = ", ".join(sorted(PROVIDERS))
        raise Invalid(
            "configuration: Containers.CloudVMs.DriverParameters.Provider:"
            f" {name!r}; it must be one of {allowed}"
        )
    driver = LibcloudDriver(PROVIDERS[name](site))
    try:
        yield driver
    finally:
        await driver.close()
