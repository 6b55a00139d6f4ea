"""A box from nothing to a kubeconfig, and away again.

Each machine's first process is in that machine's network namespace from its first moment on, and all others end with
it. So names of namespaces are enough to find and end all of a box, whatever died when.
"""

from __future__ import annotations

import json
import os
import re
import secrets
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import requests
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from ruamel.yaml import YAML

from chaos.base import paths
from chaos.base.console import Reporter
from chaos.base.errors import InvalidInput, LabError, MissingPrerequisite
from chaos.base.netsock import Namespace
from chaos.base.paths import ProcessIdentity, write_json
from chaos.base.waiting import wait_until
from chaos.provision import loops
from chaos.run.stopping import Stop, signals
from chaos.targets.labs.network import namespaces, processes_in
from chaos.targets.wiring import NETNS_FOLDER
from kubebox import groups, manifests, network, parts, plan
from kubebox.api import Api, is_ready, rolled_out
from kubebox.manifests import Options
from kubebox.parts import Parts
from kubebox.plan import MACHINES_OF_ZONES, ZONES, Layout, Machine

API_SECONDS, NODES_SECONDS, SEARCH_SECONDS, ENDED_SECONDS = 60.0, 60.0, 360.0, 20.0
AGAIN = "try again: make staging-kubernetes-down"
NEEDED_MEMORY, ZONAL_MEMORY = 6 << 30, 3 << 30
"""Of a box, and of the three data nodes more that one has whose zones have two."""
FORMAT = ("mkfs.ext4", "-q", "-F", "-m", "0", "-E", "lazy_itable_init=0,lazy_journal_init=0")
"""Nothing is kept back for root, so that full is full for everybody."""
APART = ("unshare", "--mount", "--pid", "--fork", "--kill-child", "--propagation", "private")
"""Begins a command whose process is the first of a machine."""
DEFAULT = Options()
NAME = re.compile(r"[a-z0-9-]{1,20}")


class Box:
    """One box, by its name."""

    def __init__(self, name: str) -> None:
        """Raises InvalidInput for what cannot be a name."""
        if NAME.fullmatch(name) is None:
            raise InvalidInput(f"a box cannot be called {name!r}", remedy="1 to 20 of: a-z, 0-9, -")
        self.layout = Layout(name, Path("/var/lib") / f"{paths.APP}-kubernetes-{name}")

    @property
    def name(self) -> str:
        return self.layout.name

    @property
    def _noted(self) -> Path:
        """Made last, so it is there when the box is whole."""
        return self.layout.folder / "box.json"

    def lock(self) -> Path:
        """Held while a box comes up or goes. It stays until the machine is started anew: another may wait for it."""
        return Path("/run") / f"{paths.APP}-kubernetes.lock"

    def api(self) -> Api:
        """Raises InvalidInput where the box is not up."""
        if not self._noted.exists():
            raise InvalidInput(f"box '{self.name}' is not up", remedy="bring it up: make staging-kubernetes")
        return Api(self.layout.kubeconfig)

    def is_up(self) -> bool:
        """Whether the first process of each machine lives."""
        try:
            noted = json.loads(self._noted.read_text())["machines"]
        except (OSError, ValueError, KeyError):
            return False
        return all(ProcessIdentity.from_json(each).alive() for each in noted.values())

    def is_left(self) -> bool:
        """Whether anything of it is here."""
        return self.layout.folder.exists() or bool(namespaces(self.layout.prefix)) or bool(groups.left(self.layout))

    # ---- up ----------------------------------------------------------------------------------------------

    def up(
        self,
        reporter: Reporter,
        *,
        searches: float = 10.0,
        writes: float = 5.0,
        options: Options = DEFAULT,
    ) -> bool:
        """Bring it up; False where it was up. On any failure, or a signal, nothing is left.

        ``searches``, ``writes``: of the application, a second.
        """
        refuse_unready(NEEDED_MEMORY + (ZONAL_MEMORY if options.zonal else 0))
        with paths.locked(self.lock()):
            if self.is_up():
                return False
            if self.is_left():
                reporter.line("taking away what is left of an earlier one")
                _raise_if(self._away())
            network.refuse_taken()
            made = parts.ensure(reporter.line)
            stop = Stop()
            with signals(stop, reporter):
                try:
                    self._up(made, reporter, stop, searches, writes, options)
                except BaseException:
                    reporter.status("taking the box away again")
                    _raise_if(self._away())
                    raise
        return True

    def _up(
        self,
        made: Parts,
        reporter: Reporter,
        stop: Stop,
        searches: float,
        writes: float,
        options: Options,
    ) -> None:
        begun = time.monotonic()
        self._files(made)
        network.build(self.layout)
        groups.build(self.layout)
        machines = {name: self._start(name, made) for name in ("control", *ZONES)}
        reporter.line("starting the control plane and three machines")
        with ThreadPoolExecutor(len(ZONES)) as pool:
            ready = [pool.submit(self._first_image, made, machine, stop) for machine in MACHINES_OF_ZONES]
            api = self._await_api(stop)
            for each in ready:
                each.result()
            _raise_if(self._unmount())  # each machine has its own by now
            _await(stop, NODES_SECONDS, "its machines are not ready", lambda: _nodes_ready(api))
            for name in (manifests.SEARCH, manifests.SHOP, manifests.OTHERS):
                self._namespace(api, name, stop)
            _create(api, manifests.neighbours())
            reporter.line(f"Kubernetes is up: {time.monotonic() - begun:.0f} s from nothing")
            begun = time.monotonic()
            reporter.line("giving each machine the image of OpenSearch")
            for image in (made.opensearch_image, made.helper_image):
                list(pool.map(partial(self._import, made, image), MACHINES_OF_ZONES))
        stop.check()
        folders = {
            name: (each.name, str(folder))
            for each in MACHINES_OF_ZONES
            for name, folder in self.layout.volumes(each.zone).items()
        }
        _create(api, manifests.volumes(folders))
        started = manifests.Started(made.command, made.opensearch_name, made.preload, options)
        _create(api, manifests.opensearch(made.version, started))
        self._await_opensearch(api, stop)
        _create(api, manifests.shop(searches, writes))
        users = "application and neighbours are not ready, or the application's index is not green"
        _await(stop, NODES_SECONDS, users, lambda: _others_ready(api) and _is_whole(api))
        reporter.line(f"OpenSearch is up, and its users: {time.monotonic() - begun:.0f} s more")
        write_json(self._noted, {"machines": {name: each.to_json() for name, each in machines.items()}})
        stop.check()

    def _files(self, made: Parts) -> None:
        layout = self.layout
        os.mkdir(layout.folder, 0o700)
        for name in ("control", *ZONES):
            (layout.of(name) / "logs").mkdir(parents=True)
        layout.keys.mkdir(mode=0o700)
        self._keys()
        (layout.of("control") / "Corefile").write_text(plan.corefile(layout))
        write_json(layout.of("control") / "machine.json", plan.control(layout, made.programs))
        keep = [layout.folder, parts.folder()]
        for machine in MACHINES_OF_ZONES:
            state = layout.of(machine.zone)
            (state / "cni").mkdir()
            (state / "cni" / "10-pods.conflist").write_text(plan.cni(machine, state))
            (state / "containerd.toml").write_text(plan.containerd(layout, machine, made.cni))
            write_json(state / "kubelet.yaml", plan.kubelet(layout, machine))  # JSON is YAML
            for hidden in plan.HIDDEN:
                plan.stand_in(state, hidden).mkdir(parents=True)
            (state / "kernel").mkdir()
            for folder in layout.volumes(machine.zone).values():
                _volume(folder)
            for name, value in plan.KERNEL.items():
                plan.kernel_file(state, name).write_text(f"{value}\n")
            wanted = plan.worker(layout, machine, made.programs, keep)
            for _, target in wanted["Mounts"]:
                if Path(target).is_relative_to(state):
                    Path(target).mkdir(parents=True, exist_ok=True)
            write_json(state / "machine.json", wanted)

    def _keys(self) -> None:
        """The administrator's token, and the key that service accounts' tokens are signed with."""
        keys = self.layout.keys
        (keys / "tokens.csv").write_text(f'{secrets.token_urlsafe(24)},admin,1,"system:masters"\n')
        key = rsa.generate_private_key(65537, 2048)
        (keys / "accounts.key").write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM,
                serialization.PrivateFormat.TraditionalOpenSSL,
                serialization.NoEncryption(),
            )
        )
        public = key.public_key().public_bytes(
            serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
        )
        (keys / "accounts.pub").write_bytes(public)

    def _start(self, name: str, made: Parts) -> ProcessIdentity:
        """Start a machine: its first process, in namespaces of its own. ``control``, or a zone."""
        state = self.layout.of(name)
        command = [*APART, str(made.programs["pods"]), "init", str(state / "machine.json"), str(state / "logs")]
        with (
            open(state / "logs" / "init.log", "ab") as log,
            Namespace(NETNS_FOLDER / self.layout.namespace(name)).entered(),
        ):
            process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd="/", start_new_session=True
            )
        try:
            return ProcessIdentity.of(process.pid)
        except ProcessLookupError:
            raise LabError(f"machine {name} ended at once: see {state / 'logs' / 'init.log'}") from None

    def _first_image(self, made: Parts, machine: Machine, stop: Stop) -> None:
        server = self.layout.socket(machine.zone)
        _await(stop, API_SECONDS, f"containerd of {machine.name} does not answer", server.exists)
        self._import(made, made.pods_image, machine)
        _await(stop, API_SECONDS, "the API server is not ready", self.layout.ready.exists)
        self.layout.images_ready(machine.zone).touch()

    def give(self, image: Path) -> None:
        """Give each machine one more image. Raises LabError where one does not take it."""
        made = parts.ensure(lambda _: None)
        for machine in MACHINES_OF_ZONES:
            self._import(made, image, machine)

    def _import(self, made: Parts, image: Path, machine: Machine) -> None:
        command = [made.programs["ctr"], "--address", self.layout.socket(machine.zone), "--namespace", "k8s.io"]
        done = subprocess.run(
            [*command, "images", "import", image], capture_output=True, text=True, timeout=SEARCH_SECONDS, check=False
        )
        if done.returncode != 0:
            raise LabError(f"{machine.name} does not take {image}: {done.stderr.strip()[-300:]}")

    def _await_api(self, stop: Stop) -> Api:
        authority = self.layout.keys / "apiserver.crt"  # whole when it listens
        _await(stop, API_SECONDS, "the API server does not listen", _listens)
        token = (self.layout.keys / "tokens.csv").read_text().partition(",")[0]
        self.layout.kubeconfig.touch(mode=0o600)
        with self.layout.kubeconfig.open("w") as file:
            YAML().dump(plan.kubeconfig(authority.read_bytes(), token), file)
        api = Api(self.layout.kubeconfig)
        _await(stop, API_SECONDS, "the API server does not become ready", api.answers)
        self.layout.ready.touch()
        return api

    @staticmethod
    def _namespace(api: Api, name: str, stop: Stop) -> None:
        """Make a namespace, and await its account, without which no pod is made in it."""
        api.create(manifests.namespace(name))
        path = f"/api/v1/namespaces/{name}/serviceaccounts/default"
        _await(stop, API_SECONDS, f"namespace {name} has no account", lambda: api.request("GET", path)[0] == 200)

    def _await_opensearch(self, api: Api, stop: Stop) -> None:
        def ready() -> bool:
            return all(map(rolled_out, _sets(api))) and _is_whole(api)

        _await(stop, SEARCH_SECONDS, "OpenSearch is not whole", ready)

    # ---- away --------------------------------------------------------------------------------------------

    def down(self) -> list[str]:
        """Take all of it away, a half-made one too; what would not go."""
        with paths.locked(self.lock()):
            return self._away()

    def clear(self) -> list[str]:
        """The same with what is left of one that was killed. Raises InvalidInput where it is up."""
        with paths.locked(self.lock()):
            if self.is_up():
                raise InvalidInput(f"box '{self.name}' is up", remedy=f"python tests/kubebox --name {self.name} down")
            return self._away()

    def _away(self) -> list[str]:
        layout = self.layout

        def ended() -> bool:
            left = set(processes_in(namespaces(layout.prefix))) | groups.processes(layout)
            for pid in left:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            with suppress(ChildProcessError):  # those of ours
                while os.waitpid(-1, os.WNOHANG)[0]:
                    pass
            return not left

        if not wait_until(ended, ENDED_SECONDS, every=0.1):
            return [f"processes of box '{self.name}' do not end: see ps, and {layout.folder}"]
        network.remove(layout)
        problems = groups.remove(layout) + self._unmount()
        shutil.rmtree(layout.folder, ignore_errors=True)
        if layout.folder.exists():
            problems.append(f"folder {layout.folder} cannot be removed")
        return problems

    def _unmount(self) -> list[str]:
        """Take the volumes' file systems off this machine's folders; those of the box's machines stay. What would not
        go. A loop device ends with the last mount of it."""
        problems = []
        for zone in ZONES:
            for folder in self.layout.volumes(zone).values():
                while folder.is_mount():
                    if problem := _run("umount", str(folder)):
                        problems.append(problem)
                        break
        return problems


def _volume(folder: Path) -> None:
    """A volume with a file system of its own, in a file beside it: what fills it fills nothing else."""
    folder.mkdir()
    image = folder.with_suffix(".img")
    with image.open("wb") as file:
        file.truncate(plan.VOLUME_BYTES)
    for command in ((*FORMAT, str(image)), ("mount", "-o", "loop,nodev,nosuid", str(image), str(folder))):
        if problem := _run(*command):
            raise LabError(problem)


def _run(*command: str) -> str | None:
    """Run a command; what it says where it fails."""
    done = subprocess.run(command, capture_output=True, text=True, check=False, env={**os.environ, "PATH": loops.PATH})
    return None if done.returncode == 0 else f"{' '.join(command)}: {done.stderr.strip()[-300:]}"


def refuse_unready(needed: int = NEEDED_MEMORY) -> None:
    """Raises MissingPrerequisite for what this machine lacks for a box; nothing has been started."""
    if os.geteuid() != 0:
        raise MissingPrerequisite("a box needs root, for namespaces", remedy="run it as root (sudo)")
    if shutil.which("unshare") is None:
        raise MissingPrerequisite("a box needs unshare", remedy="apt-get install --no-install-recommends util-linux")
    if (why := loops.lacking()) is not None:
        raise MissingPrerequisite(f"a box's volumes need loop devices: {why}")
    if (free := paths.memory_available_bytes()) < needed:
        raise MissingPrerequisite(
            f"a box needs {needed / 2**30:.0f} GiB of free memory, and {free / 2**30:.1f} GiB are free"
        )


def pods_of(api: Api, space: str, selector: str) -> list[dict[str, Any]]:
    found = api.get(f"/api/v1/namespaces/{space}/pods?labelSelector={requests.utils.quote(selector)}")
    return list(found["items"])


def health(api: Api) -> dict[str, Any] | None:
    """The cluster's health as one of its data nodes says it; None where none answers."""
    for pod in pods_of(api, manifests.SEARCH, f"app.kubernetes.io/instance={manifests.DATA.release}"):
        address = pod["status"].get("podIP")
        with suppress(requests.RequestException, ValueError):
            answer = _direct(f"http://{address}:{manifests.HTTP}/_cluster/health")
            if answer.status_code == 200:
                return dict(answer.json())
    return None


def counts(api: Api, space: str) -> dict[str, dict[str, Any]]:
    """What each pod of the application, or of the neighbours, has counted: pod → operation → counts.

    Raises LabError where one does not answer: a neighbour that says nothing is not well.
    """
    found = {}
    for pod in pods_of(api, space, "app"):
        name = pod["metadata"]["name"]
        try:
            found[name] = _direct(f"http://{pod['status'].get('podIP')}:{manifests.PODS_PORT}/counts").json()
        except (requests.RequestException, ValueError) as error:
            raise LabError(f"pod {name} of {space} does not answer: {type(error).__name__}") from error
    return found


def _direct(url: str) -> requests.Response:
    with requests.Session() as session:
        session.trust_env = False
        return session.get(url, timeout=5)


def _is_whole(api: Api) -> bool:
    said = health(api)
    nodes = sum(each["spec"]["replicas"] for each in _sets(api))
    return said is not None and said["status"] == "green" and said["number_of_nodes"] == nodes


def _sets(api: Api) -> list[dict[str, Any]]:
    """The StatefulSets of OpenSearch's nodes."""
    items = api.get(f"/apis/apps/v1/namespaces/{manifests.SEARCH}/statefulsets")["items"]
    return [{**each, "kind": "StatefulSet"} for each in items]


def _nodes_ready(api: Api) -> bool:
    nodes = api.get("/api/v1/nodes")["items"]
    return len(nodes) == len(ZONES) and all(map(is_ready, nodes))


def _others_ready(api: Api) -> bool:
    deployment = api.get(f"/apis/apps/v1/namespaces/{manifests.SHOP}/deployments/shop")
    neighbours = api.get(f"/apis/apps/v1/namespaces/{manifests.OTHERS}/daemonsets/neighbour")
    return rolled_out(deployment) and rolled_out(neighbours)


def _create(api: Api, items: Sequence[dict[str, Any]]) -> None:
    for item in items:
        api.create(item)


def _listens() -> bool:
    try:
        socket.create_connection((str(plan.CONTROL), plan.API_PORT), 1.0).close()
    except OSError:
        return False
    return True


def _await(stop: Stop, seconds: float, problem: str, condition: Callable[[], bool]) -> None:
    """Raises LabError where a condition does not hold in time; one that cannot be asked does not hold yet."""
    last = ""

    def holds() -> bool:
        nonlocal last
        stop.check()
        try:
            return condition()
        except (LabError, requests.RequestException) as error:
            last = f" ({error})"
            return False

    if not wait_until(holds, seconds, every=0.1):
        raise LabError(f"{problem} within {seconds:.0f} s{last}")


def _raise_if(problems: Sequence[str]) -> None:
    if problems:
        raise LabError("; ".join(problems), remedy=AGAIN)
