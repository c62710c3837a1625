"""What no import shows: the parts of the product that each file with tests of real parts exercises
by the programs it starts, and the modules that read files which are no Python.

A subject is a module or a package of `lading`, of everything below it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

RUNS: Final = ("api", "dispatch.loop", "dispatch.fleets.local", "supervisor")
"""A container runs from its request to its result."""
ENTERS: Final = ("api.container_access", "supervisor.container_gateway")
DATA: Final = ("api.resources.collections", "blobs", "cli.files.data", "client.files.uploads")

SUBJECTS: Final[Mapping[str, tuple[str, ...]]] = {
    "tests/arvados_go/test_crunch_run.py": ("api.container_access", "api.resources.containers"),
    "tests/cwl/test_some_cases.py": (*RUNS, "blobs"),
    "tests/docs/test_plugins.py": ("testing",),
    "tests/security/test_batch_jobs.py": (
        "dispatch.fleets.batch", "dispatch.fleets.batch_adapters",
    ),
    "tests/security/test_block_signatures.py": ("api", "blobs", "core.data.locator"),
    "tests/security/test_block_writers.py": ("api.authorization", "blobs"),
    "tests/security/test_bounded_scratch.py": ("supervisor",),
    "tests/security/test_cloud_machines.py": (
        "dispatch.fleets.cloud",
        "core.containers.container_network",
    ),
    "tests/security/test_container_network.py": ("supervisor.engines", "supervisor.network"),
    "tests/security/test_container_writers.py": ("api", "core.containers.writers"),
    "tests/security/test_data_directory.py": ("wiring.up", "wiring.directory"),
    "tests/security/test_dispatcher_rights.py": ("api", "core.containers.writers", "dispatch"),
    "tests/security/test_engine_limits.py": ("supervisor.engines",),
    "tests/security/test_engine_paths.py": ("supervisor.engines",),
    "tests/security/test_foreign_results.py": ("client.functions", "client.images.links"),
    "tests/security/test_forms.py": ("api",),
    "tests/security/test_full_disk.py": ("api", "blobs", "client.caches.disk_space"),
    "tests/security/test_gang_credentials.py": ("hpc", "supervisor.gang", "api"),
    "tests/security/test_gang_links.py": ("hpc", "supervisor.gang"),
    "tests/security/test_gateway_trust.py": (*ENTERS, "api.mounts.git_cache", "net"),
    "tests/security/test_git_mounts.py": (
        "api.mounts.git_cache",
        "core.containers.mounting.git_trees",
    ),
    "tests/security/test_held_connections.py": (*ENTERS, "net", "wiring", "web", "webdav", "tes"),
    "tests/security/test_hostile_crates.py": ("client.provenance",),
    "tests/security/test_hostile_registries.py": ("client.images",),
    "tests/security/test_hostile_repositories.py": (
        "api.mounts.git_cache",
        "core.containers.mounting.git_trees",
    ),
    "tests/security/test_hpc_daemon.py": ("hpc", "core.hpc", "core.protocols.daemon_http"),
    "tests/security/test_http_bounds.py": ("hpc", "net", "wiring.http_protocol"),
    "tests/security/test_identity_provider.py": (
        "api.logins",
        "core.protocols.openid_connect",
        "web.single_sign_on",
    ),
    "tests/security/test_json_of_strangers.py": ("api", "core.records", "core.values"),
    "tests/security/test_layers.py": ("supervisor.inputs", "client.images"),
    "tests/security/test_learned_amounts.py": ("api", "core.containers"),
    "tests/security/test_live_mounts.py": ("api.mounts.live_mounts", "supervisor.inputs"),
    "tests/security/test_long_steps.py": ("supervisor",),
    "tests/security/test_monitoring_data.py": (
        "api.metrics",
        "wiring.http_metrics",
        "process.telemetry",
    ),
    "tests/security/test_native_isolation.py": ("supervisor.engines",),
    "tests/security/test_node_faults.py": ("supervisor.engines", "supervisor.monitors"),
    "tests/security/test_s3_strangers.py": (*ENTERS, "s3", "fileserving"),
    "tests/security/test_origins.py": (*ENTERS, "webdav", "fileserving"),
    "tests/security/test_output_capture.py": ("supervisor",),
    "tests/security/test_outside_addresses.py": ("api.webhooks", "net"),
    "tests/security/test_page.py": ("api.logins", "web.login", "web.sessions"),
    "tests/security/test_page_shell.py": (*ENTERS, "web.shell"),
    "tests/security/test_page_surface.py": ("web",),
    "tests/security/test_pods.py": ("core.kubernetes",),
    "tests/security/test_quota_amounts.py": ("api", "core.policy", "store.quotas"),
    "tests/security/test_removal.py": (
        "process.removal",
        "supervisor.inputs",
        "supervisor.process",
    ),
    "tests/security/test_repository_addresses.py": ("api.mounts.git_cache", "process.confined"),
    "tests/security/test_request_smuggling.py": ("wiring.http_protocol", "core.protocols"),
    "tests/security/test_rootless.py": ("supervisor",),
    "tests/security/test_scopes.py": ("api",),
    "tests/security/test_slurm_jobs.py": (
        "dispatch.fleets.slurm",
        "core.containers.constraints",
    ),
    "tests/security/test_starter_walls.py": ("supervisor.engines",),
    "tests/security/test_task_addresses.py": ("tes", "process.confined"),
    "tests/security/test_task_documents.py": ("core.tes", "core.wes", "tes"),
    "tests/security/test_texts_of_strangers.py": (
        "core",
        "webdav.locks",
        "client.images",
        "cli.running",
    ),
    "tests/security/test_two_gangs.py": ("hpc", "supervisor"),
    "tests/security/test_upload_shares.py": ("blobs", "net"),
    "tests/security/test_webhook_addresses.py": ("api.webhooks", "process.confined"),
    "tests/security/test_websocket_frames.py": ("wiring.websocket_protocol",),
    "tests/security/test_websocket_privacy.py": ("api.events",),
    "tests/system/test_alignment.py": RUNS,
    "tests/system/test_backup.py": ("cli.admin", "wiring.backup", "store.databases"),
    "tests/system/test_bad_input.py": ("api", "blobs", "wiring.http_protocol"),
    "tests/system/test_bad_luck.py": ("supervisor",),
    "tests/system/test_chaos.py": (*RUNS, "wiring.child_service", "wiring.up", "wiring.process"),
    "tests/system/test_closed_terminal.py": (
        "cli.endings.end_signals", "cli.hangup", "cli.interruption", "cli.main",
        "cli.running.following", "cli.running.mapping", "cli.running.run", "cli.running.top",
        "cli.running.waiting",
    ),
    "tests/system/test_cloud.py": ("dispatch.fleets.cloud",),
    "tests/system/test_cloud_trial.py": (
        "cli.cloud", "dispatch.fleets.cloud", "wiring.trials.cloudtest",
    ),
    "tests/system/test_data.py": DATA,
    "tests/system/test_dispatchers.py": ("api.resources.dispatching", "dispatch"),
    "tests/system/test_engines.py": (
        "supervisor.engines", "supervisor.limits", "supervisor.network", "supervisor.process",
    ),
    "tests/system/test_fair_share.py": ("api.fair_shares", "store.fair_shares"),
    "tests/system/test_s3_clients.py": ("s3", "fileserving"),
    "tests/system/test_files.py": ("webdav", "fileserving"),
    "tests/system/test_forwarding.py": (*ENTERS, "net"),
    "tests/system/test_gpus.py": (
        "dispatch.capacity", "dispatch.fleets.batch", "dispatch.fleets.local",
        "dispatch.fleets.slurm", "dispatch.gpu_watch", "process.gpus", "supervisor.engines",
        "supervisor.limits.gpu_locks", "supervisor.limits.gpu_samples",
    ),
    "tests/system/test_gang_first_process.py": (
        "hpc", "supervisor.engines", "supervisor.gang", "supervisor.starter",
    ),
    "tests/system/test_gridengine.py": ("dispatch.fleets.batch", "dispatch.fleets.batch_adapters"),
    "tests/system/test_hostile_images.py": ("supervisor.inputs", "client.images"),
    "tests/system/test_hostile_worker.py": ("api.authorization", "api.resources.containers"),
    "tests/system/test_hpc.py": ("cli.hpc", "hpc", "supervisor.gang"),
    "tests/system/test_kubernetes_tracing.py": (
        "dispatch.fleets.kubernetes", "supervisor.container_trace", "process.tracing",
    ),
    "tests/system/test_libraries.py": (
        "client.executors", "client.executor", "client.functions", "client.remote_files",
    ),
    "tests/system/test_live_logs.py": (
        "api.container_access", "cli.running.following", "cli.running.requests", "supervisor.logs",
    ),
    "tests/system/test_live_mounts.py": ("api.mounts.live_mounts", "supervisor.inputs", "tes"),
    "tests/system/test_memory_hog.py": (
        "api.learning", "dispatch.fleets.slurm", "store.learned", "supervisor.limits",
    ),
    "tests/system/test_mount.py": ("cli.files.mount", "client.mount"),
    "tests/system/test_mounted_inputs.py": ("client.mount", "supervisor.inputs"),
    "tests/system/test_mounts_and_waits.py": (*RUNS, "api.server.wait_statuses"),
    "tests/system/test_newcomer.py": ("api.resources", "blobs"),
    "tests/system/test_node_cache.py": ("client.caches.content_caches", "supervisor.inputs"),
    "tests/system/test_observability.py": (
        "api.metrics", "blobs.metrics", "dispatch.metrics", "process.metrics", "process.telemetry",
        "process.tracing", "wiring.http_metrics", "wiring.machine_checks",
    ),
    "tests/system/test_packaging.py": ("wiring.up",),
    "tests/system/test_page.py": ("web",),
    "tests/system/test_page_journey.py": ("web",),
    "tests/system/test_page_login.py": ("api.logins", "web.login", "web.single_sign_on"),
    "tests/system/test_page_machines.py": (
        "api.server.machine_board", "api.resources.machines", "dispatch.fleets.cloud.management",
        "dispatch.machine_reporter", "web.site",
    ),
    "tests/system/test_page_request.py": ("web.requests",),
    "tests/system/test_page_runs.py": ("api.resources.runs", "client.run_records", "web.runs"),
    "tests/system/test_page_shell.py": (*ENTERS, "web.shell"),
    "tests/system/test_page_shell_engines.py": (*ENTERS, "web.shell"),
    "tests/system/test_page_device_login.py": ("web.site", "client.servers", "cli.accounts"),
    "tests/system/test_page_site.py": ("web.site",),
    "tests/system/test_page_webhooks.py": ("api.webhooks", "web"),
    "tests/system/test_page_without_scripts.py": ("web",),
    "tests/system/test_own_site.py": (
        "cli.services", "cli.session", "client.servers.own_site", "wiring.idle_shutdown",
        "wiring.serving_process", "wiring.up",
    ),
    "tests/system/test_provenance.py": ("cli.provenance", "client.provenance"),
    "tests/system/test_quotas.py": ("api.quotas", "store.quotas"),
    "tests/system/test_readiness.py": ("api.resources.health", "wiring.server", "wiring.stores"),
    "tests/system/test_registry.py": ("cli.images", "client.images"),
    "tests/system/test_resumption.py": (*RUNS, *ENTERS),
    "tests/system/test_replicas.py": ("api.container_access", "blobs", "wiring.server"),
    "tests/system/test_requests.py": (*RUNS, "api.mounts.git_cache"),
    "tests/system/test_rootless.py": (
        "supervisor.engines", "supervisor.limits", "supervisor.rootless",
    ),
    "tests/system/test_runs.py": (
        "api.resources.runs", "cli.runs", "client.run_records", "core.runs", "store.runs",
    ),
    "tests/system/test_samples.py": (
        "cli.running.mapping", "client.functions", "client.run_submission", "client.runs",
        "client.site",
    ),
    "tests/system/test_servers.py": ("api.events", "store.databases", "wiring.server"),
    "tests/system/test_services.py": (*ENTERS, "net"),
    "tests/system/test_shell.py": (*ENTERS, "cli.running.shell", "net"),
    "tests/system/test_slow_link.py": (
        "cli.session", "client.blocks", "client.retry", "client.servers.site_logins",
        "client.transport", "net.http_upgrade",
    ),
    "tests/system/test_slurm.py": ("dispatch.fleets.batch", "dispatch.fleets.slurm"),
    "tests/system/test_snakemake.py": ("client.run_submission", "client.runs", "client.site"),
    "tests/system/test_storage.py": ("blobs", "client.blocks"),
    "tests/system/test_supervisor.py": ("supervisor",),
    "tests/system/test_task_transfers.py": ("tes.transfers",),
    "tests/system/test_tes.py": ("tes",),
    "tests/system/test_tes_clients.py": ("tes",),
    "tests/system/test_tes_contract.py": ("tes",),
    "tests/system/test_two_dispatchers.py": ("dispatch", "wiring.process"),
    "tests/system/test_two_users.py": (
        "cli.services", "client.servers.own_site", "wiring.directory", "wiring.up",
    ),
    "tests/system/test_up.py": (
        *RUNS, "cli.services", "wiring.process", "wiring.serving_process", "wiring.up",
    ),
    "tests/system/test_upgrades.py": ("store", "wiring.server"),
    "tests/system/test_webhooks.py": ("api.webhooks", "store.webhooks"),
    "tests/system/test_wes.py": ("tes",),
}  # fmt: skip

PAGES: Final[Mapping[str, tuple[str, ...]]] = {
    "docs/arvados.md": ("api.resources", "webdav"),
    "docs/cloud.md": ("dispatch.fleets.cloud",),
    "docs/collections.md": ("webdav", "fileserving"),
    "docs/s3.md": ("s3", "fileserving"),
    "docs/dispatchers.md#slurm": ("dispatch.fleets.batch", "dispatch.fleets.slurm"),
    "docs/images.md": ("client.images",),
    "docs/mount.md": ("client.mount",),
    "docs/postgresql.md": ("store.databases.postgres",),
    "docs/python.md": ("client.run_submission", "client.runs", "client.site", "client.functions"),
    "docs/requests.md": RUNS,
    "docs/shell.md": ENTERS,
    "docs/snakemake.md": ("client.run_submission", "client.runs", "client.site"),
    "docs/tes.md": ("tes",),
    "docs/webhooks.md": ("api.webhooks",),
    "docs/why.md": ("api.server.wait_statuses", "dispatch"),
}
"""Beside the module of each command that a page shows."""

COMPOSING: Final = (
    "lading", "lading.__main__", "lading.cli.main", "lading.cli.console", "lading.cli.services",
    "lading.cli.service", "lading.wiring",
)  # fmt: skip
"""Modules that put everything together: the way of a change ends in them, and does not lead to all
that they serve.
"""

EVERYTHING: Final = (
    ".ci/run", "Makefile", "pyproject.toml", "requirements/run.txt", "requirements/test.txt",
    "scripts/setup.sh", "scripts/test.sh", "src/lading/config/*", "src/lading/core/errors.py",
    "src/lading/core/values.py", "src/lading/store/schema.py",
    "tests/affected/*", "tests/case_processes.py", "tests/conftest.py", "tests/levels.py",
    "tests/system/conftest.py", "tests/time_limits.py",
)  # fmt: skip
"""Files whose change reaches everything."""

NOTHING: Final = (
    ".ci/base", ".github/workflows/*", ".gitignore", ".pre-commit-config.yaml", "*/.gitignore",
    "CHANGELOG.md",
    "CONTRIBUTING.md", "LICENSE", "SECURITY.md", "bench/*",
    "docs/figures/*", "docs/pictures/*", "docs/static/*", "docs/lading.1", "src/lading/py.typed",
    "scripts/figures.py", "scripts/mutations.py", "scripts/request_files.py",
    "requirements/hyperqueue.txt", "tests/dispatch/*", "tests/rules/*",
    "tests/store/schemas/*",
)  # fmt: skip
"""Files that no test of real parts reads, unless something imports them."""

READERS: Final[Mapping[str, tuple[str, ...]]] = {
    "README.md": ("docs/README.md",),
    "deploy/*": (
        "tests/system/test_kubernetes_tracing.py",
        "tests/docs/test_kubernetes_manifests.py",
    ),
    "examples/phage/*": ("tests/system/test_alignment.py", "tests/system/test_tes_clients.py"),
    "examples/mpi/*": ("tests/system/test_hpc.py",),
    "examples/samples/*": ("tests/system/test_samples.py",),
    "packaging/*": ("tests/system/test_packaging.py",),
    "plugins/*": ("tests/system/snakemake_environment.py",),
    "requirements/assets.txt": ("src/lading/web/app.py",),
    "requirements/client.txt": ("tests/system/arvados_client/environment.py",),
    "requirements/compiler.txt": ("tests/system/test_packaging.py",),
    "requirements/crates.txt": ("tests/system/test_provenance.py",),
    "requirements/ga4gh-clients.txt": (
        "tests/system/test_tes_clients.py",
        "tests/system/test_wes.py",
    ),
    "requirements/libraries.txt": ("tests/system/test_libraries.py",),
    "requirements/kubernetes*": ("tests/system/kubernetes_control.py",),
    "requirements/kustomize*": ("tests/system/kubernetes_control.py",),
    "requirements/release.txt": ("tests/system/test_packaging.py",),
    "requirements/server.txt": ("tests/system/test_packaging.py",),
    "requirements/s3-clients.txt": ("tests/system/test_s3_clients.py",),
    "requirements/snakemake-tes.txt": ("tests/system/test_tes_clients.py",),
    "requirements/snakemake.txt": ("tests/system/snakemake_environment.py",),
    "requirements/toil.txt": ("tests/system/test_tes_toil.py",),
    "scripts/assets*": ("src/lading/web/app.py",),
    "scripts/lock.sh": (),
    "scripts/*": ("tests/system/test_packaging.py",),
    "src/lading/client/images/*": ("src/lading/client/images/runner.py",),
    "src/lading/supervisor/starter/*": ("src/lading/supervisor/starter/starter.py",),
    "src/lading/web/*": ("src/lading/web/app.py",),
    "tests/supervisor/starter/*": ("tests/supervisor/starter/test_plan_reader.py",),
    "tests/cwl/*": ("tests/cwl/runs.py",),
}
"""Files that are no Python, and the Python files that read them; the first that fits counts. A page
of `docs` is read by its test.
"""
