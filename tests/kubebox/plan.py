"""Addresses, commands and configuration of a box, as pure data.

The box has a network of its own, whose switch is in the control plane's namespace; this machine has one port of it.
Addresses are of 198.18.0.0/15, which is set apart for tests of networks (RFC 2544), so that nobody's are hidden.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network
from pathlib import Path
from typing import Any

from kubebox import images

NETWORK = IPv4Network("198.18.0.0/15")
MACHINES = IPv4Network("198.18.0.0/24")
SERVICES = IPv4Network("198.19.0.0/16")
CONTROL, HOST = MACHINES[1], MACHINES[254]
"""The control plane, which is also the DNS server, and the port of this machine."""
PORT = "kubebox0"
"""That port's name."""
API_PORT = 6443
ZONES = ("a", "b", "c")
VOLUMES = 3
"""Of each machine: a cluster manager's and those of two data nodes, the second for zones that have two."""
VOLUME_BYTES = 1 << 30
"""Of each, as its claim asks; the file of a file system, which takes on this machine what is written to it."""
ZONE_LABEL = "topology.kubernetes.io/zone"
DOMAIN = "cluster.local"
HIDDEN = ("/run", "/var/log", "/var/lib")
"""Folders that each machine of the box has for itself: programs write there whatever they are told."""

KERNEL = {
    "vm/overcommit_memory": "1",
    "vm/panic_on_oom": "0",
    "kernel/panic": "10",
    "kernel/panic_on_oops": "1",
    "kernel/keys/root_maxkeys": "1000000",
    "kernel/keys/root_maxbytes": "25000000",
}
"""Settings of the whole kernel, below /proc/sys, that a kubelet makes where they differ. A box changes none: files with
these values are in their place in its machines."""


@dataclass(frozen=True)
class Machine:
    """A machine with a kubelet: the only one of its zone."""

    zone: str
    number: int

    @property
    def name(self) -> str:
        return f"node-{self.zone}"

    @property
    def address(self) -> IPv4Address:
        return MACHINES[10 + self.number]

    @property
    def pods(self) -> IPv4Network:
        return IPv4Network(f"198.18.{self.number}.0/24")


MACHINES_OF_ZONES = tuple(Machine(zone, number) for number, zone in enumerate(ZONES, 1))


@dataclass(frozen=True)
class Layout:
    """Where everything of a box lies: below one folder, in namespaces and groups that carry its name."""

    name: str
    folder: Path

    @property
    def prefix(self) -> str:
        return f"kubebox.{self.name}."  # no name has a dot: that of one box begins no other's

    def namespace(self, machine: str) -> str:
        return f"{self.prefix}{machine}"

    @property
    def namespaces(self) -> list[str]:
        return [self.namespace(each) for each in ("control", *ZONES)]

    @property
    def group(self) -> str:
        """The control group of the box; each machine's is below it."""
        return f"kubebox.{self.name}"

    @property
    def kubeconfig(self) -> Path:
        return self.folder / "kubeconfig.yaml"

    @property
    def keys(self) -> Path:
        return self.folder / "keys"

    @property
    def ready(self) -> Path:
        """Made when the API server answers: what speaks to it begins then."""
        return self.folder / "api-ready"

    def of(self, machine: str) -> Path:
        """The folder of a machine."""
        return self.folder / machine

    def volumes(self, zone: str) -> dict[str, Path]:
        """The folders of a machine that pods' claims are for, by the names of their volumes."""
        return {f"volume-{zone}-{number}": self.of(zone) / f"volume-{number}" for number in range(VOLUMES)}

    def socket(self, zone: str) -> Path:
        """Of a machine's containerd."""
        return self.of(zone) / "containerd.sock"

    def images_ready(self, zone: str) -> Path:
        """Made when a machine has the images without which no pod starts: its kubelet begins then."""
        return self.of(zone) / "images-ready"


def kubeconfig(authority: bytes, token: str) -> dict[str, Any]:
    """Of the administrator, for this machine and for what runs in the box."""
    import base64

    server = {"server": url(), "certificate-authority-data": base64.b64encode(authority).decode()}
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "kubebox", "cluster": server}],
        "users": [{"name": "admin", "user": {"token": token}}],
        "contexts": [{"name": "kubebox", "context": {"cluster": "kubebox", "user": "admin"}}],
        "current-context": "kubebox",
    }


def url() -> str:
    return f"https://{CONTROL}:{API_PORT}"


def overlapping(routes: Iterable[str]) -> list[str]:
    """Those of this machine's routes that lead into the box's addresses; the default route leads everywhere."""
    found = [IPv4Network(each, strict=False) for each in routes]
    return [str(each) for each in found if each.prefixlen > 0 and each.overlaps(NETWORK)]


# ---- programs ------------------------------------------------------------------------------------------------------


def program(name: str, *command: str | Path, after: Path | None = None) -> dict[str, Any]:
    """One line of what a machine's first process starts."""
    return {"Name": name, "Command": [str(each) for each in command], "After": str(after or "")}


def control(layout: Layout, programs: Mapping[str, Path]) -> dict[str, Any]:
    """The control plane's machine. It mounts nothing."""
    state, keys, kubernetes = layout.of("control"), layout.keys, programs["kubernetes"]
    client, peer = "http://127.0.0.1:2379", "http://127.0.0.1:2380"
    etcd = [f"--data-dir={state / 'etcd'}", f"--listen-client-urls={client}", f"--advertise-client-urls={client}"]
    etcd += [f"--listen-peer-urls={peer}", "--unsafe-no-fsync=true"]
    server = [
        f"--etcd-servers={client}",
        f"--service-cluster-ip-range={SERVICES}",
        f"--secure-port={API_PORT}",
        f"--bind-address={CONTROL}",
        f"--cert-dir={keys}",
        f"--token-auth-file={keys / 'tokens.csv'}",
        "--authorization-mode=Node,RBAC",
        "--service-account-issuer=https://kubernetes.default.svc",
        f"--service-account-key-file={keys / 'accounts.pub'}",
        f"--service-account-signing-key-file={keys / 'accounts.key'}",
        "--allow-privileged=true",
        "--kubelet-preferred-address-types=InternalIP",
        # a pod learns its machine's zone as a label of its own: OpenSearch's awareness attribute comes from it
        "--feature-gates=PodTopologyLabelsAdmission=true",
    ]
    alone = [f"--kubeconfig={layout.kubeconfig}", "--bind-address=127.0.0.1", "--leader-elect=false"]
    controllers = [
        *alone,
        f"--service-account-private-key-file={keys / 'accounts.key'}",
        f"--root-ca-file={keys / 'apiserver.crt'}",
        "--node-monitor-grace-period=20s",
    ]
    return {
        "Mounts": [],
        "Programs": [
            program("etcd", programs["etcd"], *etcd),
            program("apiserver", kubernetes, "kube-apiserver", *server),
            program("controllers", kubernetes, "kube-controller-manager", *controllers, after=layout.ready),
            program("scheduler", kubernetes, "kube-scheduler", *alone, after=layout.ready),
            program("dns", programs["coredns"], "-conf", state / "Corefile", after=layout.ready),
        ],
    }


def corefile(layout: Layout) -> str:
    return f"""{DOMAIN}:53 {{
  bind {CONTROL}
  kubernetes {DOMAIN} {{
    kubeconfig {layout.kubeconfig}
    pods insecure
  }}
  cache 1
}}
"""


def worker(layout: Layout, machine: Machine, programs: Mapping[str, Path], keep: Iterable[Path]) -> dict[str, Any]:
    """A machine with a kubelet. ``keep``: folders that it must see although they lie in a hidden one."""
    state = layout.of(machine.zone)
    kubelet = [
        f"--config={state / 'kubelet.yaml'}",
        f"--kubeconfig={layout.kubeconfig}",
        f"--hostname-override={machine.name}",
        f"--node-ip={machine.address}",
        f"--node-labels={ZONE_LABEL}={machine.zone}",
        f"--cert-dir={state / 'keys'}",
    ]
    # containerd finds runc and its shim on PATH
    path = ":".join(sorted({str(programs[name].parent) for name in ("containerd-shim-runc-v2", "runc")}))
    found = f"PATH={path}:/usr/sbin:/usr/bin:/sbin:/bin"
    containerd = [programs["containerd"], "--config", state / "containerd.toml"]
    return {
        "Mounts": mounts(state, keep),
        "Programs": [
            program("containerd", "/usr/bin/env", found, *containerd),
            program("kubelet", programs["kubernetes"], "kubelet", *kubelet, after=layout.images_ready(machine.zone)),
        ],
    }


def stand_in(state: Path, hidden: str) -> Path:
    """The folder that a machine has in the place of a hidden one."""
    return state / "own" / hidden.strip("/").replace("/", "-")


def mounts(state: Path, keep: Iterable[Path]) -> list[tuple[str, str]]:
    """What is mounted where, in this order: first what must stay visible, into its stand-in; last what hides it."""
    kept = [
        (str(path), str(stand_in(state, hidden) / path.relative_to(hidden)))
        for path in keep
        for hidden in HIDDEN
        if path.is_relative_to(hidden)
    ]
    hiding = [(str(stand_in(state, hidden)), hidden) for hidden in HIDDEN]
    return [*kept, *((str(kernel_file(state, name)), f"/proc/sys/{name}") for name in KERNEL), *hiding]


def kernel_file(state: Path, name: str) -> Path:
    """The file that a machine has in the place of a setting of the kernel."""
    return state / "kernel" / name.replace("/", ".")


# ---- configuration -------------------------------------------------------------------------------------------------


def containerd(layout: Layout, machine: Machine, cni: Path) -> str:
    state = layout.of(machine.zone)
    return f"""version = 2
root = "{state}/containerd"
state = "{state}/containerd-state"
[grpc]
  address = "{layout.socket(machine.zone)}"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "{images.PODS}"
  # a negative score is refused where root lacks CAP_SYS_RESOURCE
  restrict_oom_score_adj = true
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "{cni}"
    conf_dir = "{state}/cni"
[plugins."io.containerd.internal.v1.opt"]
  path = "{state}/opt"
"""


def cni(machine: Machine, state: Path) -> str:
    """A bridge in the machine, as each pod's way; the machines' routes do the rest."""
    ipam = {
        "type": "host-local",
        "dataDir": str(state / "addresses"),
        "ranges": [[{"subnet": str(machine.pods)}]],
        "routes": [{"dst": "0.0.0.0/0"}],
    }
    bridge = {"type": "bridge", "bridge": "pods", "isGateway": True, "ipMasq": False, "ipam": ipam}
    return json.dumps({"cniVersion": "0.4.0", "name": "pods", "plugins": [bridge]}, indent=1)


def kubelet(layout: Layout, machine: Machine) -> dict[str, Any]:
    state = layout.of(machine.zone)
    return {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "authentication": {"anonymous": {"enabled": True}, "webhook": {"enabled": False}},
        "authorization": {"mode": "AlwaysAllow"},
        "cgroupDriver": "cgroupfs",
        "cgroupRoot": f"/{layout.group}/{machine.zone}",
        "enforceNodeAllocatable": ["pods"],
        "failSwapOn": False,
        "failCgroupV1": False,
        "containerRuntimeEndpoint": f"unix://{layout.socket(machine.zone)}",
        "evictionHard": {"memory.available": "100Mi", "nodefs.available": "1%", "imagefs.available": "1%"},
        "imageGCHighThresholdPercent": 100,  # no registry has these images again
        "nodeStatusUpdateFrequency": "5s",
        "volumePluginDir": str(state / "volume-plugins"),
        "resolvConf": "",
        "clusterDNS": [str(CONTROL)],
        "clusterDomain": DOMAIN,
    }
