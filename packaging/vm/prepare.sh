#!/bin/sh
# Makes a Debian 12 or later system ready to be the image of VMs: prepare.sh, as root, on a VM that an image is then made
# of, or in a root directory by chroot. Safe to run again.
#
# crun, slirp4netns and nftables run containers; the dispatcher brings the rest at each start of a VM. Added scratch
# (AddedScratch, /dev/xvdt or the first empty disk) gets a file system at the first start, and is mounted where runner and
# containers are (Containers.CloudVMs.DeployRunnerDirectory).
set -eu
export DEBIAN_FRONTEND=noninteractive
apt-get update -qq
apt-get install -qq --no-install-recommends cloud-init openssh-server sudo python3 crun slirp4netns nftables e2fsprogs util-linux >/dev/null

cat >/usr/local/sbin/lading-scratch <<'END'
#!/bin/sh
# Mounts the first disk without partitions and file system at /var/lib/lading; makes the file system if there is none.
set -eu
directory=/var/lib/lading
mkdir -p "$directory"
! mountpoint -q "$directory" || exit 0
if ! device=$(blkid -L lading-scratch); then
    for device in $(lsblk -dnpo NAME,TYPE | awk '$2 == "disk" {print $1}'); do
        [ "$(lsblk -no NAME "$device" | wc -l)" = 1 ] && [ -z "$(blkid -o value -s TYPE "$device")" ] && break
        device=
    done
    [ -n "$device" ] || exit 0
    mkfs.ext4 -q -L lading-scratch -E lazy_itable_init=1,nodiscard "$device"
fi
mount -o noatime "$device" "$directory"
chmod 755 "$directory"
END
chmod 755 /usr/local/sbin/lading-scratch
cat >/etc/systemd/system/lading-scratch.service <<'END'
[Unit]
Description=Scratch disk of containers
Before=ssh.service
After=local-fs.target

[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart=/usr/local/sbin/lading-scratch

[Install]
WantedBy=multi-user.target
END
mkdir -p /etc/systemd/system/multi-user.target.wants
ln -sf ../lading-scratch.service /etc/systemd/system/multi-user.target.wants/lading-scratch.service

# Nothing of the VM that the image is made of stays in it.
rm -rf /var/lib/cloud/* /etc/ssh/ssh_host_*_key* /root/.ssh /var/lib/apt/lists/* /var/log/*.log
: >/etc/machine-id
echo "prepare: ready; make the image now"
