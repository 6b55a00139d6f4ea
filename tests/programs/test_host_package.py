"""The Debian package of oschaos-host: built, looked at, installed for real, used through sudo, and purged.

It is installed into a copy of this machine's files that ends with the test: an overlay in a mount namespace.
"""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
from pathlib import Path

import pytest

from chaos.hosts import deb, oschaos_host

PACKAGING = deb.PACKAGING
needs_dpkg = pytest.mark.skipif(shutil.which("dpkg-deb") is None, reason="no dpkg-deb is installed")
LACKING = (
    "needs root"
    if os.geteuid() != 0
    else "the kernel has no overlay"
    if "overlay" not in Path("/proc/filesystems").read_text()
    else next((f"no {tool} is installed" for tool in ("sudo", "visudo", "dpkg", "addgroup", "nft")
               if shutil.which(tool) is None), "")
)  # fmt: skip

INSIDE = r"""
set -eu
mount --make-rprivate /
umount -R -l /run/netns 2>/dev/null || true
cd "$1"
mount -t tmpfs tmpfs "$PWD"; cd "$PWD"
mkdir upper work all
mount -t overlay overlay -o "lowerdir=/,upperdir=$PWD/upper,workdir=$PWD/work" all
cp "$2" all/package.deb
mount --rbind /dev all/dev
mount -t proc proc all/proc
mount -t tmpfs run all/run
cat > all/inside.sh <<'E'
set -u
export DEBIAN_FRONTEND=noninteractive
step() { echo "== $1"; }
step install; dpkg -i /package.deb >/dev/null 2>&1; echo "$?"
step group; getent group oschaos | cut -d: -f1,4
step modes; stat -c '%U:%G %a %n' /usr/sbin/oschaos-host /etc/sudoers.d/oschaos-host
step sudoers; visudo -c >/dev/null; echo "$?"
useradd --system --groups oschaos oschaos-caller
useradd --system oschaos-other
call() {
    user=$1; shift
    echo '{}' | setpriv --reuid "$user" --regid nogroup --init-groups --reset-env -- sudo -n "$@" 2>&1
}
step unconfigured; call oschaos-caller /usr/sbin/oschaos-host facts
cp /usr/share/doc/oschaos-host/oschaos-host.json.example /etc/oschaos-host.json
step state; call oschaos-caller /usr/sbin/oschaos-host state
step example; call oschaos-caller /usr/sbin/oschaos-host facts | cut -c1-12
step more; call oschaos-caller /usr/sbin/oschaos-host state --root /tmp
step expire; call oschaos-caller /usr/sbin/oschaos-host expire r_f
step set; call oschaos-caller PYTHONPATH=/tmp /usr/sbin/oschaos-host state
step other; call oschaos-other /usr/sbin/oschaos-host state
step blocked; mkdir -p /usr/local/keep; cp /usr/sbin/oschaos-host /usr/local/keep
printf '#!/bin/sh\necho %s\n' '{\"ok\":false}' > /usr/sbin/oschaos-host
dpkg -r oschaos-host >/dev/null 2>&1; echo "$?"
cp /usr/local/keep/oschaos-host /usr/sbin/oschaos-host; rm -r /usr/local/keep
step remove; dpkg -r oschaos-host >/dev/null 2>&1; echo "$?"; ls /usr/sbin/oschaos-host /etc/oschaos-host.json 2>&1
step purge; dpkg -P oschaos-host >/dev/null 2>&1; echo "$?"
find / -xdev -name '*oschaos-host*' -not -path '/tmp/*' -not -path '/proc/*' -not -path '*/chaos/hosts/*' 2>/dev/null
getent group oschaos
dpkg -s oschaos-host >/dev/null 2>&1; echo "$?"
E
chroot all /bin/sh /inside.sh
"""


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return deb.build(tmp_path_factory.mktemp("deb"))


@needs_dpkg
def test_it_is_the_same_bytes_each_time(package: Path, tmp_path: Path) -> None:
    assert deb.build(tmp_path).read_bytes() == package.read_bytes()
    assert package.name == f"oschaos-host_{oschaos_host.VERSION}_all.deb"


@needs_dpkg
def test_what_is_in_it(package: Path) -> None:
    def said(*options: str) -> str:
        return subprocess.run(["dpkg-deb", *options, str(package)], capture_output=True, text=True, check=True).stdout

    files = {line.split()[5]: line.split()[:2] for line in said("-c").splitlines() if not line.startswith("d")}
    assert files == {
        "./usr/sbin/oschaos-host": ["-rwxr-xr-x", "root/root"],
        "./etc/sudoers.d/oschaos-host": ["-r--r-----", "root/root"],
        "./usr/lib/systemd/system/oschaos-host-sweep.service": ["-rw-r--r--", "root/root"],
        "./usr/lib/systemd/system/multi-user.target.wants/oschaos-host-sweep.service": ["lrwxrwxrwx", "root/root"],
        "./usr/share/doc/oschaos-host/copyright": ["-rw-r--r--", "root/root"],
        "./usr/share/doc/oschaos-host/oschaos-host.json.example": ["-rw-r--r--", "root/root"],
    }
    assert f" Version: {oschaos_host.VERSION}\n" in said("-I")


def test_sudo_allows_the_verbs_and_nothing_more() -> None:
    text = (PACKAGING / "sudoers").read_text()
    allowed = next(line for line in text.splitlines() if line.startswith("Cmnd_Alias")).partition(" = ")[2].split(", ")
    assert allowed == [f"/usr/sbin/oschaos-host {verb}" for verb in oschaos_host.VERBS]
    assert not any(sign in " ".join(allowed) for sign in "*?[")


@pytest.mark.skipif(shutil.which("visudo") is None, reason="no visudo is installed")
def test_sudo_can_read_it(tmp_path: Path) -> None:
    copied = tmp_path / "sudoers"
    shutil.copy(PACKAGING / "sudoers", copied)
    copied.chmod(0o440)
    done = subprocess.run(["visudo", "-cf", str(copied)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="no systemd is installed")
def test_systemd_can_read_its_unit(tmp_path: Path) -> None:
    unit = tmp_path / "oschaos-host-sweep.service"
    unit.write_text((PACKAGING / unit.name).read_text().replace("/usr/sbin/oschaos-host", "/bin/true"))
    done = subprocess.run(["systemd-analyze", "verify", "--man=no", str(unit)], capture_output=True, text=True,
                          check=False)  # fmt: skip
    assert unit.name not in done.stderr, done.stderr


@pytest.mark.full
@needs_dpkg
@pytest.mark.skipif(bool(LACKING), reason=LACKING or "never")
def test_installed_used_through_sudo_and_purged(package: Path, tmp_path: Path) -> None:
    before = Path("/etc/group").read_bytes()
    done = subprocess.run(["unshare", "--mount", "--net", "sh", "-c", INSIDE, "sh", str(tmp_path), str(package)],
                          capture_output=True, text=True, check=False)  # fmt: skip
    steps = dict(part.partition("\n")[::2] for part in done.stdout.split("== ")[1:])
    assert "purge" in steps, done.stderr
    said = {name: text.strip() for name, text in steps.items()}
    assert said["install"] == "0" and said["group"] == "oschaos:" and said["sudoers"] == "0", done.stderr
    assert said["modes"].splitlines() == [
        "root:root 755 /usr/sbin/oschaos-host",
        "root:root 440 /etc/sudoers.d/oschaos-host",
    ]
    assert "docs/hosts.md has an example" in said["unconfigured"]
    assert said["state"] == '{"ok": true, "active": [], "earlier_boot": [], "nodes": {"es-data-1": null}}'
    assert said["example"] == '{"ok": true,'
    for refused in ("more", "expire", "set", "other"):
        assert said[refused].startswith("sudo: "), said[refused]
    assert said["blocked"] == "1"  # it stays while it cannot undo everything
    assert said["remove"].splitlines()[0] == "0" and "cannot access '/usr/sbin/oschaos-host'" in said["remove"]
    assert "/etc/oschaos-host.json" in said["remove"].splitlines()
    assert said["purge"] == "0\n1"  # no file of ours, no group, no entry of dpkg's
    # nothing of it reached this machine
    assert Path("/etc/group").read_bytes() == before and not Path("/usr/sbin/oschaos-host").exists()


def test_the_program_can_be_run() -> None:
    """Ansible copies it from here."""
    role = PACKAGING / "ansible" / "roles" / "oschaos_host" / "tasks" / "main.yml"
    for path in ("../../../../oschaos_host.py", "../../../sudoers", "../../../oschaos-host-sweep.service"):
        assert f"{{{{ role_path }}}}/{path}" in role.read_text()
        assert stat.S_ISREG((role.parent.parent / path).resolve().stat().st_mode)


def test_the_role_names_every_file_of_the_package() -> None:
    tasks = PACKAGING / "ansible" / "roles" / "oschaos_host" / "tasks"
    install, uninstall = (tasks / "main.yml").read_text(), (tasks / "uninstall.yml").read_text()
    for path in ("/usr/sbin/oschaos-host", "/etc/sudoers.d/oschaos-host", "/etc/oschaos-host.json"):
        assert f"dest: {path}\n" in install and f"- {path}\n" in uninstall
    assert "validate: visudo -cf %s" in install
