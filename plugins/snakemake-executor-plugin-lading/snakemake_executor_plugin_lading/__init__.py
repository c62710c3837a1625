"""Snakemake executor plugin: each job is a container request of Lading.

The container runs the rule's own shell command or script, so an image needs no Snakemake. Inputs
are mounted by content at the paths that the command uses; declared outputs and log files are
fetched when it has ended. All jobs that are ready are submitted by one call. One connection tells
their ends: nothing is polled for each job.
"""

# Snakemake reads the types of the settings, so annotations must not be texts.
import asyncio
import os
import shutil
from collections.abc import AsyncGenerator, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Optional

from snakemake_interface_common.exceptions import WorkflowError
from snakemake_interface_executor_plugins.executors.base import SubmittedJobInfo
from snakemake_interface_executor_plugins.executors.remote import RemoteExecutor
from snakemake_interface_executor_plugins.jobs import JobExecutorInterface
from snakemake_interface_executor_plugins.settings import CommonSettings, ExecutorSettingsBase

import lading
from lading.client.run_records.submitting import run_of
from lading.core.errors import LadingError
from lading.core.runs.states import RunOutcome
from lading.core.secrets import is_telling

from . import containers
from .containers import KnownFiles
from .scripts import Step, step_of

_HOME = Path(".snakemake/lading")
_LOOK = 0.05
"""Seconds between looks at what the connection has told; no call is made for it."""
_AT_ONCE = 8
"""Calls that are made at a time for cancellation."""


@dataclass
class ExecutorSettings(ExecutorSettingsBase):
    """The options --lading-..."""

    image: Optional[str] = field(
        default=None,
        metadata={
            "help": "Image of rules that have neither container: nor the resource lading_image; "
            "by default the one added last.",
        },
    )
    shell: str = field(
        default="bash", metadata={"help": "Shell in the image, as sh.", "required": False}
    )
    project: Optional[str] = field(
        default=None, metadata={"help": "The uuid of the project of the requests."}
    )
    secret: list[str] = field(
        default_factory=list,
        metadata={
            "help": "Secrets of all jobs, as NAME (a variable that is set here), NAME=@FILE or "
            "/PATH=@FILE: variables or files of the command that no record shows.",
            "nargs": "+",
        },
    )
    run: Optional[str] = field(
        default=None,
        metadata={
            "help": "Name of the run in Lading; by default that of the variable LADING_RUN, or of "
            "the working directory."
        },
    )
    no_reuse: bool = field(
        default=False, metadata={"help": "Compute again what was computed before."}
    )


common_settings = CommonSettings(
    non_local_exec=True,
    # The working directory here is that of the workflow: inputs are stored from it, outputs are
    # fetched into it.
    implies_no_shared_fs=False,
    job_deploy_sources=False,
    pass_default_storage_provider_args=False,
    pass_envvar_declarations_to_cmd=False,
    auto_deploy_default_storage_provider=False,
    can_transfer_local_files=True,
)


class Executor(RemoteExecutor):
    """Submits jobs, fetches what they make, and reports their ends."""

    def __post_init__(self) -> None:
        self.settings: ExecutorSettings = self.workflow.executor_settings
        try:
            self.site = lading.connect()
        except LadingError as error:
            raise WorkflowError(f"lading: {error}") from error
        try:
            self.secrets = containers.read_secrets(self.settings.secret, os.environ)
        except (LadingError, OSError) as error:
            self.site.close()
            raise WorkflowError(f"--lading-secret: {error}") from error
        telling = [name for name in self._environment() if is_telling(name)]
        if telling:
            self.logger.warning(
                f"{', '.join(telling)}: envvars: are shown to everybody who may read the requests; "
                f"for a secret add --lading-secret {telling[0]}"
            )
        self.known = KnownFiles(_HOME / "files.json")
        self.block = lading.run(
            _run_name(self.settings.run),
            params=_config(self.workflow),
            project=self.settings.project,
        )
        self.faults: dict[str, bool] = {}
        self.block.__enter__()

    async def sleep(self) -> None:
        """Wait between two looks. Snakemake's own pauses are for schedulers that are asked."""
        await asyncio.sleep(_LOOK)

    def run_job(self, job: JobExecutorInterface) -> None:
        """Submit one job."""
        self._submit([job])

    def run_jobs(self, jobs: list[JobExecutorInterface]) -> None:
        """Submit all jobs that are ready, by one call."""
        for job in jobs:
            self.run_job_pre(job)
        self._submit(jobs)

    async def check_active_jobs(
        self, active_jobs: list[SubmittedJobInfo]
    ) -> AsyncGenerator[SubmittedJobInfo, None]:
        """Fetch and report the jobs that have ended; those that have not are given back."""
        ended = [one for one in active_jobs if one.aux["run"].done()]
        for one in active_jobs:
            if one not in ended:
                yield one
        faults = await asyncio.gather(*(asyncio.to_thread(self._finish, one) for one in ended))
        for one, fault in zip(ended, faults, strict=True):
            # A further try of a job counts in place of the one before.
            self.faults[_name(one.job)] = fault is not None
            if fault is None:
                self.report_job_success(one)
            else:
                self.report_job_error(one, msg=f"{fault}\n", aux_logs=one.aux["logs"])
        if ended:
            await asyncio.to_thread(self.known.save)

    def cancel_jobs(self, active_jobs: list[SubmittedJobInfo]) -> None:
        """Cancel the requests of the jobs."""

        def cancel(one: SubmittedJobInfo) -> None:
            try:
                one.aux["run"].cancel()
            except LadingError as error:
                self.logger.warning(f"lading: {one.external_jobid}: not cancelled: {error}")

        with ThreadPoolExecutor(_AT_ONCE) as pool:
            list(pool.map(cancel, active_jobs))

    def shutdown(self) -> None:
        """Stop watching, and close the connection."""
        super().shutdown()
        self.block.__exit__(None, None, None)
        self.block.end(RunOutcome.FAILED if any(self.faults.values()) else RunOutcome.DONE)
        self.site.close()

    def _submit(self, jobs: list[JobExecutorInterface]) -> None:
        # First all of them, so that they become one call; then their uuids are waited for.
        submitted = [(job, self._run_or_refuse(job)) for job in jobs]
        for job, run in submitted:
            info = SubmittedJobInfo(job, aux={"run": run, "logs": []})
            try:
                info.external_jobid = run.uuid
            except (LadingError, OSError):
                # Refused: `_finish` tells why.
                info.external_jobid = "refused"
            self.logger.info(f"Job {job.jobid} is the request {info.external_jobid} of Lading.")
            self.report_job_submission(info)

    def _run_or_refuse(self, job: JobExecutorInterface) -> lading.Run:
        """The run of a job; one that is refused at once fails alone, as one that the server
        refuses.
        """
        try:
            return self._run(job)
        except LadingError as error:
            run = lading.Run(self.site, _name(job))
            run.refuse(error)
            return run

    def _run(self, job: JobExecutorInterface) -> lading.Run:
        steps = list(_steps(job))
        first = steps[0]
        made = list(_made(job))
        own = {containers.relative(path) for path in made}
        inputs = {
            containers.target(str(path)): self._source(path)
            for step in steps
            for path in step.input
            if str(path) not in own
        }
        resources = dict(job.resources.items())
        work = [_work(step, self.workflow, number) for number, step in enumerate(steps)]
        needs = containers.needs(job.threads, resources)
        for one in work:
            needs["mounts"].update(one.mounts)
        image = resources.get("lading_image") or first.container_img_url or self.settings.image
        return self.site.run(
            containers.command(
                str(resources.get("shell_exec") or self.settings.shell),
                [one.line for one in work],
                own,
            ),
            inputs=inputs,
            image=str(image).removeprefix("docker://") if image else None,
            env=self._environment(),
            secrets=self.secrets,
            name=_name(job),
            reuse=not self.settings.no_reuse,
            step=job.name,
            output_glob=sorted({*own, *(f"{path}/**" for path in own)}),
            **needs,
        )

    def _source(self, path: Any) -> Any:
        stored = getattr(path, "storage_object", None) if path.is_storage else None
        if stored is not None and hasattr(stored, "mount") and (found := stored.mount()):
            # Of the storage plugin for Lading: it is there already.
            return found
        return self.known.mount(str(path)) or Path(str(path))

    def _environment(self) -> dict[str, str]:
        """The variables that are declared by `envvars:` or `--envvars`, but for secrets."""
        # Those of the command line, and those of the Snakefile.
        given = self.workflow.remote_execution_settings.envvars or ()
        declared = {*given, *getattr(self.workflow, "envvars", ())}
        return {
            name: os.environ[name]
            for name in sorted(declared)
            if name in os.environ and name not in self.secrets
        }

    def _finish(self, info: SubmittedJobInfo) -> Optional[str]:
        """Fetch what the job has made; what went wrong, or None."""
        run: lading.Run = info.aux["run"]
        try:
            error = run.exception()
            if error is not None and info.external_jobid == "refused":
                return str(error)
            self._fetch(info, run, error)
            return None if error is None else f"{error}\n{self._why(run)}"
        except (LadingError, OSError, ValueError) as other:
            return f"{run.name}: what it has made could not be fetched: {other}"

    def _fetch(self, info: SubmittedJobInfo, run: lading.Run, error: Optional[LadingError]) -> None:
        place = _HOME / run.uuid
        try:
            run.leftovers.save(place)
            wanted = list(_logs(info.job)) if error else list(_made(info.job))
            taken = containers.take(place, map(containers.relative, wanted), Path())
        finally:
            shutil.rmtree(place, ignore_errors=True)
        if error:
            log = _HOME / "logs" / f"{run.uuid}.log"
            log.parent.mkdir(parents=True, exist_ok=True)
            log.write_text(f"{run.stdout}{run.stderr}")
            info.aux["logs"] = [str(log)]
            return
        output = run.wait().container["output"]
        for path in taken:
            self.known.add(path, output, path)

    def _why(self, run: lading.Run) -> str:
        why = run.why()
        return f"why: {why['outcome']} (more: lading request why {run.uuid})"


def _steps(job: JobExecutorInterface) -> Iterator[Any]:
    """The jobs of a group in their order, or the job. Raises WorkflowError for one that no
    container can run.
    """
    steps = [one for level in job.toposorted for one in level] if job.is_group() else [job]
    for one in steps:
        if not (one.is_shell or one.is_script or one.is_notebook):
            raise WorkflowError(
                f"rule {one.rule.name}: rules with shell:, script: and notebook: run in containers "
                "of Lading; give it one of them, or name it in localrules:"
            )
        if one.benchmark or one.is_shadow or any(map(_is_pipe, one.output)):
            raise WorkflowError(
                f"rule {one.rule.name}: benchmark:, shadow: and pipes are not for containers of "
                "Lading; `lading request show` has times and memory of each job"
            )
        yield one


def _work(step: Any, workflow: Any, number: int) -> Step:
    """Work of the container for a job."""
    if step.is_shell:
        return Step(str(step.shellcmd), {})
    return step_of(step, workflow, number)


def _run_name(named: Optional[str]) -> str:
    """The run of this execution: the named one, that of LADING_RUN, or that of the directory."""
    found = run_of(os.environ, named)
    if found is None:
        return Path.cwd().name.replace("#", "_") or "snakemake"
    name, attempt = found
    return f"{name}#{attempt}" if attempt else name


def _config(workflow: Any) -> dict[str, Any]:
    """The values of `--config`, which are the parameters of the run."""
    settings = getattr(workflow, "config_settings", None)
    values = getattr(settings, "config", None) or getattr(workflow, "overwrite_config", None)
    return {str(name): value for name, value in dict(values or {}).items()}


def _name(job: JobExecutorInterface) -> str:
    """The name of its request: the rule and its wildcards."""
    wildcards = getattr(job, "wildcards_dict", None) or {}
    return ".".join([job.name, *map(str, wildcards.values())])[:200]


def _is_pipe(path: Any) -> bool:
    return bool({"pipe", "service"} & set(getattr(path, "flags", {})))


def _made(job: JobExecutorInterface) -> Iterator[str]:
    """The paths of the outputs and log files."""
    steps = [one for level in job.toposorted for one in level] if job.is_group() else [job]
    for one in steps:
        yield from map(str, one.output)
    yield from _logs(job)


def _logs(job: JobExecutorInterface) -> Iterator[str]:
    steps = [one for level in job.toposorted for one in level] if job.is_group() else [job]
    for one in steps:
        yield from map(str, one.log)
