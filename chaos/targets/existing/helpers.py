"""Helper pods: the program for faults on hosts, in a privileged pod on the machine of a node's pod.

Each is the pod of a Job that names the pod's machine. Kubernetes ends it after a time and deletes it, also when all of
us have died. It sees the machine's processes, so that the program finds the node by its pod's uid, and enters the
network namespace of that pod alone. What the program writes down lies in a folder of the machine that a reboot empties:
where one helper pod was killed, the next one knows what stands. Its dead-man leaves the pod, and undoes without it.
"""

from __future__ import annotations

import base64
import hashlib
import json
import subprocess
import threading
import zlib
from collections.abc import Callable, Collection, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from chaos.base.errors import ChaosError, FaultError, LabError
from chaos.base.logs import LOG
from chaos.base.waiting import wait_until
from chaos.hosts import oschaos_host
from chaos.kubernetes.client import CONFLICT, NOT_FOUND, Client, Refused
from chaos.targets.existing.hosts import LOOK_SECONDS, PROGRAM, READ, named, told
from chaos.targets.existing.passages import BESIDE
from chaos.targets.existing.pods import HELPS, Pods

INTENTS = (
    "node.pause",
    "node.isolation",
    "node.dns_outage",
    "node.dns_slowness",
    "network.drop",
    "network.refuse",
    "network.reset",
    "network.loss",
    "network.latency",
    "network.bandwidth",
    "node.out_of_memory",
    "cpu.limit",
    "disk.full",
    "disk.slow",
)
"""What the program may do beside a pod: what ends a container is its kubelet's to start again."""
RUN, NODE = HELPS, "opensearch-chaos/node"
"""Labels of a Job and its pod: of which run it is, and for the pod of which node, by name."""
LONGEST_SECONDS = 3600
"""After which Kubernetes ends a helper pod, and …"""
KEPT_SECONDS = 30
"""… after how many more it deletes the Job. A run that lasts longer makes another one."""
READY_SECONDS = 90.0
GONE_SECONDS = 60.0
RECORDS = "/run/opensearch-chaos"
"""Folder of the machine; in it one for each pod, by its uid."""
LAUNCH = f"""\
import base64, fcntl, glob, os, shutil, signal, sys, zlib
signal.pthread_sigmask(signal.SIG_BLOCK, {{signal.SIGTERM, signal.SIGINT}})
shared = "/run/oschaos-host/.helpers"
used = os.open(shared, os.O_RDWR | os.O_CREAT, 0o600)
fcntl.flock(used, fcntl.LOCK_SH)
if not os.path.samestat(os.fstat(used), os.stat(shared)):
    sys.exit("the folder of records was taken away just now")
os.makedirs("/usr/sbin", exist_ok=True)
files = (("/etc/oschaos-host.json", 0o644, sys.argv[2].encode()),
         ("{PROGRAM}", 0o700, zlib.decompress(base64.b64decode(sys.argv[1]))))
for path, mode, text in files:
    with open(os.open(path + ".new", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode), "wb") as file:
        file.write(text)
    os.replace(path + ".new", path)
signal.sigwait({{signal.SIGTERM, signal.SIGINT}})
try:
    fcntl.flock(used, fcntl.LOCK_EX | fcntl.LOCK_NB)
except BlockingIOError:
    sys.exit()
if not glob.glob("/run/oschaos-host/*.json"):
    shutil.rmtree("/proc/1/root{RECORDS}/" + sys.argv[3], ignore_errors=True)
    try:
        os.rmdir("/proc/1/root{RECORDS}")
    except OSError:
        pass
"""
"""The helper's own program: it puts the program for faults in its place, waits to be told to end, and takes its folder
of the machine away unless something is still written down there, or another helper beside the same pod uses it:
each holds a lock in it as long as it lives."""
CALL = f"""\
import os, sys
reading, writing = os.pipe()
os.write(writing, sys.argv[2].encode())
os.close(writing)
os.dup2(reading, 0)
os.execv(sys.executable, [sys.executable, "-IS", "{PROGRAM}", sys.argv[1]])
"""
"""Runs the program for faults with a request on its standard input: an API server ends no input of what it runs."""
DIGEST = f"import hashlib; print(hashlib.sha256(open('{PROGRAM}', 'rb').read()).hexdigest())"
PYTHON = ("python3", "-IS", "-c")


def job_name(run: str, pod: str) -> str:
    """Of the helper of a pod in a run."""
    return f"opensearch-chaos-{hashlib.sha256(f'{named(run)} {pod}'.encode()).hexdigest()[:12]}"


def labels_of(run: str, pod: str) -> dict[str, str]:
    """The labels that we give the helper beside a pod."""
    return {RUN: named(run), NODE: pod[:63].rstrip("-.")}


def all_labels_of(run: str, pod: str) -> dict[str, str]:
    """All labels of such a helper's pod, with those that Kubernetes gives to pods of Jobs (the uid is any)."""
    keys = ("job-name", "controller-uid")
    of_job = {f"{prefix}{key}": job_name(run, pod) for prefix in ("", "batch.kubernetes.io/") for key in keys}
    return labels_of(run, pod) | of_job


def job(name: str, run: str, node: str, pod: Any, image: str) -> dict[str, Any]:
    """The Job of one helper. ``pod``: the node's own, with its uid and its machine."""
    known: dict[str, str] = {"pod": pod.uid}
    if len(pod.data) == 1:
        known["data"] = pod.data[0]
    config = {
        "nodes": {node: known},
        "intents": list(INTENTS),
        "longest": 86400,
        "peers": ["0.0.0.0/0", "::/0"],
    }
    # not base 85: Kubernetes takes a dollar sign in a command for the begin of a variable
    program = base64.b64encode(zlib.compress(Path(oschaos_host.__file__).read_bytes(), 9)).decode()
    mounted = [{"name": "records", "mountPath": place} for place in ("/run/oschaos-host", "/var/lib/oschaos-host")]
    container = {
        "name": "helper",
        "image": image,
        "imagePullPolicy": "IfNotPresent",
        "command": [*PYTHON, LAUNCH, program, json.dumps(config), pod.uid],
        "securityContext": {"privileged": True, "runAsUser": 0},
        "resources": {"requests": {"cpu": "10m", "memory": "32Mi"}},
        "volumeMounts": mounted,
    }
    labels = labels_of(run, pod.name)
    spec = {
        "nodeName": pod.machine,
        "hostPID": True,
        "restartPolicy": "Never",
        "automountServiceAccountToken": False,
        "terminationGracePeriodSeconds": 5,
        "tolerations": [{"operator": "Exists"}],
        "containers": [container],
        "volumes": [{"name": "records", "hostPath": {"path": f"{RECORDS}/{pod.uid}", "type": "DirectoryOrCreate"}}],
    }
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name, "labels": labels},
        "spec": {
            "backoffLimit": 0,
            "activeDeadlineSeconds": LONGEST_SECONDS,
            "ttlSecondsAfterFinished": KEPT_SECONDS,
            "template": {"metadata": {"labels": labels}, "spec": spec},
        },
    }


class Helpers:
    """The helper pods of one target's run. ``of_nodes`` of :class:`Pods` says beside whom."""

    def __init__(self, pods: Pods, image: str) -> None:
        self._pods, self._image = pods, image
        self.run = ""
        """The run whose helpers are used; empty: none, and none is made."""
        self.wanted: Callable[[], bool] = lambda: True
        """Whether the run is to have helpers still: another process may have ended them for it."""
        self._known: dict[str, str] = {}
        """Pod of a node → its helper's pod."""
        self._ended: set[str] = set()
        """Runs whose helpers are being ended, or are: looks that go on make none of them anew."""
        self._making: dict[str, threading.Lock] = {}
        self._lock = threading.Lock()

    @property
    def _client(self) -> Client:
        return self._pods.client

    @property
    def _space(self) -> str:
        return self._pods.file.namespace

    def way(self, destination: str) -> Beside | None:
        """The way to a destination that is a pod; None: it is none."""
        return Beside(self, destination) if destination.startswith(BESIDE) else None

    # ---- making --------------------------------------------------------------------------------------------

    def make(self, run: str, nodes: Iterable[str]) -> None:
        """Have a helper beside the pod of each of these nodes. Idempotent. Raises FaultError, LabError."""
        self.run = run
        with self._lock:
            self._ended.discard(named(run))
        every = [self._pods.of_nodes[node] for node in nodes]
        with ThreadPoolExecutor(max(1, min(len(every), 16))) as pool:
            for each in [pool.submit(self.pod_beside, pod) for pod in every]:
                each.result()

    def knows(self, pod: str) -> bool:
        return pod in self._known

    def pod_beside(self, pod: str, *, anew: bool = False, ending: bool = False) -> str:
        """The helper's pod beside a node's, made where there is none that runs. ``anew``: the one that is known does
        not answer. ``ending``: it is asked for by the end of all of them. Raises FaultError, LabError."""
        with self._lock:
            making = self._making.setdefault(pod, threading.Lock())
        with making:
            if anew:
                self._known.pop(pod, None)
            if pod not in self._known:
                self._known[pod] = self._made(pod, ending=ending)
            return self._known[pod]

    def run_beside(
        self, pod: str, command: list[str], within: float, *, anew: bool = True, ending: bool = False
    ) -> subprocess.CompletedProcess[bytes]:
        """Run a command in the helper beside a pod; where that is gone, once more in another one, but not without
        ``anew``. What is run may be run twice: an id is begun once, and what is undone is undone."""
        helper = self.pod_beside(pod, ending=ending) if anew else self._known.get(pod)
        if helper is None:
            raise LabError(f"no helper pod is beside {pod} now, and none is made for what is to begin there")
        try:
            return self.execute(helper, command, within)
        except LabError:
            if not anew:
                raise
            other = self.pod_beside(pod, anew=True, ending=ending)
            if other == helper:
                raise
            return self.execute(other, command, within)

    def _made(self, pod: str, *, ending: bool) -> str:
        run = self.run  # once: a look that was left alone may still be here when another one is joined
        if not run:
            raise LabError(f"no helper pod is beside {pod}: they are made when a run begins")
        name, says = job_name(run, pod), "its Job has no pod yet: see kubectl describe job"
        helper: str | None = None

        def is_ready() -> bool:
            nonlocal says, helper
            if not ending and (named(run) in self._ended or not self.wanted()):
                raise LabError(f"no helper pod is made beside {pod}: those of run {run} are ended")
            found = self._read(name)
            if found is None:
                self._create(name, run, pod)
            elif _run_of(found) != named(run):
                raise FaultError(f"Job {name} is there and is none of this run", remedy="see who made it")
            elif _is_over(found):  # also one whose pod was killed a moment ago: its controller takes a while to say so
                self._delete(name, found["metadata"]["uid"])
            else:
                for each in self._pods_of(name, found["metadata"]["uid"]):
                    running, says = _state(each)
                    if running and self._digest(each["metadata"]["name"]) is not None:
                        helper = str(each["metadata"]["name"])
            return helper is not None

        if not wait_until(is_ready, READY_SECONDS, every=0.25) or helper is None:
            raise FaultError(
                f"the helper pod beside {pod} is not ready within {READY_SECONDS:.0f} s (Job {name}): {says}",
                remedy="let machines have the image of kubernetes, helper, and the namespace privileged pods",
            )
        return helper

    def _read(self, name: str) -> dict[str, Any] | None:
        """A Job; None where there is none of this name."""
        try:
            return dict(self._client.call("BatchV1Api", "read_namespaced_job", name, self._space))
        except Refused as error:
            if error.status == NOT_FOUND:
                return None
            raise

    def _create(self, name: str, run: str, pod: str) -> None:
        known = {each: node for node, each in self._pods.of_nodes.items()}
        there = self._pods.pod(known[pod])
        if there is None or there.machine is None:
            raise FaultError(f"pod {pod} is on no machine, so no helper pod can be beside it")
        body = job(name, run, known[pod], there, self._image)
        try:
            self._client.call("BatchV1Api", "create_namespaced_job", self._space, body, changes=True)
        except Refused as error:
            if error.status != CONFLICT:  # else another process of this run has made it meanwhile
                raise

    def _pods_of(self, name: str, uid: str) -> list[dict[str, Any]]:
        """The pods of a Job, which controls them: anybody may write its name into a label."""
        items = self._client.core("list_namespaced_pod", self._space, label_selector=f"job-name={name}")["items"]
        owners = [(each, each["metadata"].get("ownerReferences") or ()) for each in items]
        return [each for each, refs in owners if any(ref.get("uid") == uid for ref in refs)]

    def _digest(self, helper: str) -> str | None:
        try:
            done = self.execute(helper, [*PYTHON, DIGEST], LOOK_SECONDS)
        except LabError:
            return None
        return done.stdout.decode(errors="replace").strip() if done.returncode == 0 else None

    def execute(self, helper: str, command: list[str], within: float) -> subprocess.CompletedProcess[bytes]:
        return self._client.execute(self._space, helper, command, within)

    # ---- their end -----------------------------------------------------------------------------------------

    def end(self, run: str) -> None:
        """Delete all helpers of a run, each by its uid, and see that they are gone; from here on none is made anew.
        Raises FaultError where a fault of the run still stands beside one; LabError where one does not go. Then they
        are made anew as before."""
        with self._lock:
            self._ended.add(named(run))
            making = list(self._making.values())
        for each in making:  # what makes one just now has made it by then, or sees that it is over
            with each:
                pass
        try:
            self._end(run)
        except BaseException:
            self._ended.discard(named(run))  # what is to be undone may need another one
            raise

    def _end(self, run: str) -> None:
        self.run = run
        listed = self._listed(run)
        found = {pod: listed.get(job_name(run, pod)) for pod in self._pods.of_nodes.values()}
        beside = [(pod, uid) for pod, uid in found.items() if uid is not None]
        with ThreadPoolExecutor(max(1, len(beside))) as pool:  # one that does not come is waited for beside the others
            for done in [pool.submit(self._refuse_standing, pod, run, uid) for pod, uid in beside]:
                done.result()
        for name, uid in self._listed(run).items():
            self._delete(name, uid, wait=False)
        if not wait_until(lambda: not self._listed(run), GONE_SECONDS, every=0.25):
            raise LabError(f"Jobs of helper pods do not go: {', '.join(self._listed(run))}")
        self.run = ""
        self._known.clear()

    def _refuse_standing(self, pod: str, run: str, uid: str) -> None:
        """A helper that was killed could not take its folder of the machine away: so another one is made, which does
        when it ends. Where none can be, what the first one made has ended by its dead-man."""
        if not any(_state(each)[0] for each in self._pods_of(job_name(run, pod), uid)):
            try:
                self.pod_beside(pod, anew=True, ending=True)
            except ChaosError as error:
                LOG.info("beside %s: %s", pod, error)
                return
        asked = json.dumps({"run": named(run)})
        done = self.run_beside(pod, [*PYTHON, CALL, "state", asked], LOOK_SECONDS, ending=True)
        try:
            active = json.loads(done.stdout)["active"]
        except (ValueError, LookupError, TypeError):
            raise LabError(f"the helper pod beside {pod} does not say what stands there") from None
        if active:
            raise FaultError(f"{', '.join(str(each['intent']) for each in active)} beside {pod} still stands")

    def _listed(self, run: str) -> dict[str, str]:
        """Jobs of a run: name → uid. Both its label and its name say that one is ours: others may write either."""
        selector = f"{RUN}={named(run)}"
        items = self._client.call("BatchV1Api", "list_namespaced_job", self._space, label_selector=selector)["items"]
        mine = {job_name(run, pod) for pod in self._pods.of_nodes.values()}
        found = {str(each["metadata"]["name"]): str(each["metadata"]["uid"]) for each in items}
        return {name: uid for name, uid in found.items() if name in mine}

    def _delete(self, name: str, uid: str, *, wait: bool = True) -> None:
        body = {"propagationPolicy": "Foreground", "preconditions": {"uid": uid}}
        try:
            self._client.call("BatchV1Api", "delete_namespaced_job", name, self._space, body=body, changes=True)
        except Refused as error:
            if error.status not in (NOT_FOUND, CONFLICT):
                raise
        if wait and not wait_until(lambda: self._read(name) is None, GONE_SECONDS, every=0.25):
            raise LabError(f"Job {name} does not go")

    def left(self, run: str) -> list[str]:
        """Helpers of a run that are still there, in words. Raises LabError."""
        return [f"Job {name} of helper pods is still there" for name in self._listed(run)]


class Beside:
    """The way to one pod's helper: its program is called by the API server."""

    def __init__(self, helpers: Helpers, destination: str) -> None:
        self.destination = destination
        self._helpers, self._pod = helpers, destination.removeprefix(BESIDE)

    @property
    def ready(self) -> bool:
        return self._helpers.knows(self._pod)

    def join(self, run: str) -> None:
        self._helpers.run = run

    def answers(self) -> bool:
        try:
            return self.ready and self.digest()[0] is not None
        except ChaosError:
            return False

    def digest(self, *, anew: bool = True) -> tuple[str | None, str]:
        done = self._helpers.run_beside(self._pod, [*PYTHON, DIGEST], LOOK_SECONDS, anew=anew)
        found = done.stdout.decode(errors="replace").strip()
        return (found if done.returncode == 0 else None), done.stderr.decode(errors="replace")[-300:]

    def ask(self, verb: str, asked: bytes, within: float) -> subprocess.CompletedProcess[bytes]:
        # one that was ended has taken its folder along, and with it which ids were undone, and the token
        anew = verb != "begin"
        return self._helpers.run_beside(self._pod, [*PYTHON, CALL, verb, asked.decode()], within, anew=anew)

    def read(self, paths: Collection[str]) -> dict[str, str]:
        done = self._helpers.run_beside(self._pod, [*READ, *paths], LOOK_SECONDS)
        return told(done.stdout.decode(errors="replace"), paths)

    def close(self) -> None:
        return


def _run_of(found: Mapping[str, Any]) -> str | None:
    """Whose helper's Job it is, by its label."""
    return (found["metadata"].get("labels") or {}).get(RUN)


def _is_over(found: Mapping[str, Any]) -> bool:
    """Whether a Job has ended, or is being deleted."""
    conditions = (found.get("status") or {}).get("conditions") or ()
    ended = any(each["type"] in ("Complete", "Failed") and each["status"] == "True" for each in conditions)
    return ended or "deletionTimestamp" in found["metadata"]


def _state(pod: Mapping[str, Any]) -> tuple[bool, str]:
    """Whether a helper's pod runs, and what it is in a few words."""
    status = pod.get("status") or {}
    state: Mapping[str, Any] = next((each.get("state") or {} for each in status.get("containerStatuses") or ()), {})
    if "deletionTimestamp" in pod["metadata"]:
        return False, "is being deleted"
    if status.get("phase") == "Running" and "running" in state:
        return True, "runs"
    reasons = [each.get("reason") for each in state.values()]
    return False, str(next(filter(None, reasons), None) or status.get("phase") or "no state")
