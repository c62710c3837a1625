"""Boots a clean Debian root in a virtual machine, with systemd and control groups of version 2
alone, and lets an ordinary user run containers there whose limits the kernel enforces.

    scripts/vm_root.py                    the user lingers: `lading up` enters a scope by itself
    scripts/vm_root.py --no-lingering     the command of `lading doctor` is tried

Run as root on x86-64 Debian with mmdebstrap and qemu-system-x86; `make dist` has built dist/. The
machine is emulated, without a network, and takes some minutes; --accel kvm is faster where the
kernel of the guest boots with it. Exit code 0: all that was expected has been seen.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
CERTIFICATES = Path("/usr/local/share/ca-certificates")
PACKAGES = (
    "ca-certificates,dbus,dbus-user-session,libpam-systemd,linux-image-cloud-amd64,login,"
    "openssh-client,procps,python3-venv,systemd,systemd-sysv,udev"
)
INSTALL = """
update-ca-certificates >/dev/null 2>&1
useradd -m -s /bin/bash ann
python3 -m venv /opt/lading
wheel=$(echo /dist/*x86_64.whl)
PIP_CERT=/etc/ssl/certs/ca-certificates.crt /opt/lading/bin/pip install -q "$wheel[server]"
/opt/lading/bin/python -m compileall -q /opt/lading/lib || :
"""
# The first user logs in at the serial line; this service ends the machine after the check.
CONSOLE = """[Service]
ExecStart=
ExecStart=-/sbin/agetty --autologin ann --noclear %I vt220
"""
POWER_OFF = """[Unit]
Description=End the machine after the check
[Service]
Type=oneshot
ExecStart=/bin/sh -c 'until [ -e /tmp/ended ]; do sleep 1; done; systemctl poweroff --no-block'
[Install]
WantedBy=multi-user.target
"""
PROFILE = """[ "$(tty)" = /dev/ttyS0 ] || return 0
exec >/dev/ttyS0 2>&1 </dev/null
bash -e ~/check && echo "the check has passed"
touch /tmp/ended
"""
BY_ITSELF = "lading up --detach"
BY_COMMAND = "systemd-run --user --scope -p Delegate=yes lading up --detach"
CHECK = """
export PATH=/opt/lading/bin:$PATH LC_ALL=C.UTF-8
lading doctor | grep cgroups || :
# An emulated machine may need longer than the minute that a start is given.
{start} || {start}
cat ~/.local/share/lading/log/up.log
cat ~/.local/share/lading/log/up.log | grep -q 'ram by a delegated control group'
lading image add --name tools:1 --from-host sh seq wc tail >/dev/null 2>&1
test "$(lading run -- sh -c 'seq 6 | wc -l')" = 6
code=0; lading run --ram 64MiB -- tail /dev/zero 2>said || code=$?
cat said; test "$code" = 137; grep -q 'the kernel killed a process' said
lading down
"""


def main() -> int:
    """Build the root, boot it, and print what the check prints; the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--no-lingering", action="store_true")
    parser.add_argument("--accel", default="tcg,thread=multi", help="accelerator of qemu")
    parser.add_argument("--timeout", type=float, default=1200.0, help="seconds for the machine")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="lading-vm-") as folder:
        root, disk = Path(folder, "root"), Path(folder, "disk")
        _make_root(root, lingers=not options.no_lingering)
        with disk.open("wb") as file:
            file.truncate(3 << 30)
        subprocess.run(["mkfs.ext4", "-q", "-d", root, disk], check=True)
        said = _boot(root, disk, accelerator=options.accel, timeout=options.timeout)
    return 0 if "the check has passed" in said else 1


def _make_root(root: Path, *, lingers: bool) -> None:
    lines = Path("/etc/os-release").read_text().splitlines()
    release = dict(line.split("=", 1) for line in lines if "=" in line)
    command = ["mmdebstrap", "-q", "--variant=minbase", f"--include={PACKAGES}"]
    subprocess.run([*command, release["VERSION_CODENAME"].strip('"'), root], check=True)
    (root / "dist").mkdir()
    for wheel in (ROOT / "dist").glob("*x86_64.whl"):
        (root / "dist" / wheel.name).write_bytes(wheel.read_bytes())
    for path in CERTIFICATES.glob("*.crt"):
        (root / CERTIFICATES.relative_to("/") / path.name).write_bytes(path.read_bytes())
    (root / "etc/resolv.conf").write_text(Path("/etc/resolv.conf").read_text())
    inside = f"mount --rbind /dev dev; mount -t proc proc proc; exec chroot . bash -ec '{INSTALL}'"
    unshare = ["unshare", "--mount", "--propagation", "private"]
    subprocess.run([*unshare, "sh", "-ec", inside], cwd=root, check=True)
    units = root / "etc/systemd/system"
    files = {
        units / "serial-getty@ttyS0.service.d/login.conf": CONSOLE,
        units / "ended.service": POWER_OFF,
        root / "home/ann/.bash_profile": PROFILE,
        root / "home/ann/check": CHECK.format(start=BY_ITSELF if lingers else BY_COMMAND),
    }
    for path, content in files.items():
        path.parent.mkdir(exist_ok=True)
        path.write_text(content)
        if root / "home" in path.parents:
            os.chown(path, 1000, 1000)
    (units / "multi-user.target.wants").mkdir(exist_ok=True)
    (units / "multi-user.target.wants/ended.service").symlink_to("../ended.service")
    if lingers:
        (root / "var/lib/systemd/linger").mkdir(parents=True, exist_ok=True)
        (root / "var/lib/systemd/linger/ann").touch()


def _boot(root: Path, disk: Path, *, accelerator: str, timeout: float) -> str:
    """Run the machine until it ends, or is ended after `timeout`; the text of its console."""
    kernel, initrd = (next((root / "boot").glob(f"{name}*")) for name in ("vmlinuz", "initrd.img"))
    command = [
        "qemu-system-x86_64", "-accel", accelerator, "-smp", "2", "-cpu", "max", "-m", "2048",
        "-machine", "q35", "-nodefaults", "-no-user-config", "-no-reboot", "-display", "none",
        "-serial", "stdio", "-kernel", kernel, "-initrd", initrd,
        "-append", "root=/dev/vda rw console=ttyS0 panic=-1 quiet systemd.show_status=0",
        "-drive", f"file={disk},if=virtio,format=raw,cache=unsafe",
    ]  # fmt: skip
    lines = []
    with subprocess.Popen(
        ["timeout", "--signal=KILL", str(timeout), *command],
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, encoding="utf-8", errors="replace",
    ) as machine:  # fmt: skip
        # The end of the machine ends its console.
        for line in machine.stdout or ():
            lines.append(line)
            print(line.rstrip(), flush=True)
    return "".join(lines)


if __name__ == "__main__":
    sys.exit(main())
