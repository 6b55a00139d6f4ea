"""A small API server of Kubernetes on loopback: pods, StatefulSets, budgets, reviews of rights, and ways into pods.

It is real HTTP and real WebSockets, so that the official client's own requests are what is tested. Of Kubernetes it has
what the product asks for: JSON patches that test before they replace, deletions with preconditions, evictions that
budgets refuse, a controller that makes a deleted pod anew with the template's image, a scheduler that knows one
machine for each pod, and waits while that takes none, Jobs with a pod each, and programs that are run in pods.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
import secrets
import socket
import struct
import threading
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

ZONE_LABEL = "topology.kubernetes.io/zone"
IMAGE = "opensearch:3.8.0"
WS = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
"""RFC 6455."""
SETS = ("opensearch-cluster-master", "opensearch-cluster-data")
SELECTOR = "app.kubernetes.io/name=opensearch"


def uid(name: str) -> str:
    """The same for the same name."""
    return str(uuid.uuid5(uuid.NAMESPACE_DNS, name))


@dataclass
class Server:
    """Its state. ``denied``: (verb, resource) that this user may not; ``anew``: whether controllers make pods anew."""

    namespace: str = "search"
    pods: dict[str, dict[str, Any]] = field(default_factory=dict)
    sets: dict[str, dict[str, Any]] = field(default_factory=dict)
    budgets: dict[str, dict[str, Any]] = field(default_factory=dict)
    computed: dict[str, Any] = field(default_factory=dict)
    """What the status of each budget says instead."""
    machines: dict[str, dict[str, Any]] = field(default_factory=dict)
    uids: dict[str, str] = field(default_factory=dict)
    denied: set[tuple[str, str]] = field(default_factory=set)
    anew: bool = True
    foreign: dict[str, dict[str, Any]] = field(default_factory=dict)
    """Pods of other namespaces."""
    moves: str | None = None
    """A machine to which pods go whose own takes none."""
    waiting: dict[str, str] = field(default_factory=dict)
    """Pod → the machine for which it waits."""
    jobs: dict[str, dict[str, Any]] = field(default_factory=dict)
    maps: dict[str, dict[str, Any]] = field(default_factory=dict)
    """ConfigMaps, each with its data and resourceVersion."""
    starts: bool = True
    """Whether the pod of a Job comes to run."""
    labels: dict[str, str] = field(default_factory=dict)
    """Of each namespace."""
    executes: Callable[[str, list[str]], tuple[int, bytes]] = lambda pod, command: (1, b"")
    """(pod, command) → exit code and standard output of what is run in a pod."""
    asked: list[str] = field(default_factory=list)
    backends: dict[str, tuple[str, int]] = field(default_factory=dict)
    """Pod → where its REST API really is."""
    lock: threading.RLock = field(default_factory=threading.RLock)
    broken: Callable[[str, str], bool] = lambda method, path: False
    """Whether a request gets no answer: its connection ends."""
    answers: dict[str, int] = field(default_factory=dict)
    """Method → the status that it is answered with, whatever is asked."""
    url: str = ""

    def kubeconfig(self, folder: Path, context: str = "box") -> Path:
        file = folder / "kubeconfig"
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": context, "cluster": {"server": self.url}}],
            "users": [{"name": "u", "user": {"token": "t"}}],
            "contexts": [{"name": context, "context": {"cluster": context, "user": "u", "namespace": "elsewhere"}}],
            "current-context": context,
        }
        file.write_text(json.dumps(config))
        return file

    # ---- what it does -----------------------------------------------------------------------------------

    def write_map(self, name: str, data: dict[str, Any]) -> dict[str, Any]:
        """As a merge patch does, in a ConfigMap that is there or not."""
        before = self.maps.get(name, {"metadata": {"name": name, "resourceVersion": "0"}})
        merged = {key: value for key, value in {**before.get("data", {}), **data}.items() if value is not None}
        version = str(int(before["metadata"]["resourceVersion"]) + 1)
        self.maps[name] = {"metadata": {"name": name, "resourceVersion": version}, "data": merged}
        return self.maps[name]

    def begin_job(self, body: dict[str, Any]) -> dict[str, Any]:
        """Make a Job and its pod."""
        name, template = body["metadata"]["name"], body["spec"]["template"]
        job = {**body, "metadata": {**body["metadata"], "uid": str(uuid.uuid4())}, "status": {}}
        self.jobs[name] = job
        labels = {**template["metadata"]["labels"], "job-name": name}
        state = {"running": {}} if self.starts else {"waiting": {"reason": "ErrImagePull"}}
        pod = f"{name}-{secrets.token_hex(3)}"
        meta = {"name": pod, "namespace": self.namespace, "uid": str(uuid.uuid4()), "labels": labels}
        owner = {"kind": "Job", "name": name, "uid": job["metadata"]["uid"], "controller": True}
        self.pods[pod] = {
            "metadata": {**meta, "ownerReferences": [owner]},
            "spec": template["spec"],
            "status": {
                "phase": "Running" if self.starts else "Pending",
                "containerStatuses": [{"name": "helper", "state": state}],
            },
        }
        return job

    def end_job(self, name: str) -> None:
        """Let a Job go, with its pods."""
        self.jobs.pop(name)
        self.pods = {pod: each for pod, each in self.pods.items() if each["metadata"]["labels"].get("job-name") != name}

    def fail_job(self, name: str) -> None:
        """Let the pod of a Job be killed: the Job has failed then, and keeps it."""
        self.jobs[name]["status"]["conditions"] = [{"type": "Failed", "status": "True"}]
        for each in self.pods.values():
            if each["metadata"]["labels"].get("job-name") == name:
                each["status"] = {"phase": "Failed", "containerStatuses": [{"state": {"terminated": {}}}]}

    def make(self, name: str, owner: str, *, zone: str, claims: bool, ip: str) -> None:
        """A pod of a StatefulSet that is well."""
        labels = {"app.kubernetes.io/name": "opensearch", "app.kubernetes.io/component": owner}
        volume = {"persistentVolumeClaim": {"claimName": f"data-{name}"}} if claims else {"emptyDir": {}}
        self.pods[name] = {
            "metadata": {
                "name": name,
                "namespace": self.namespace,
                "uid": str(uuid.uuid4()),
                "labels": labels,
                "ownerReferences": [{"kind": "StatefulSet", "name": owner, "uid": self.sets[owner]["metadata"]["uid"]}],
            },
            "spec": {
                "nodeName": f"node-{zone}",
                "volumes": [{"name": "data", **volume}],
                "containers": [
                    {"name": "opensearch", "image": IMAGE, "volumeMounts": [{"name": "data", "mountPath": "/data"}]}
                ],
            },
            "status": {"podIP": ip},
        }
        self.run(name)

    def run(self, name: str) -> None:
        """Let the kubelet do what it does: a container of an image that cannot be pulled does not run."""
        pod = self.pods[name]
        pulled = not pod["spec"]["containers"][0]["image"].startswith("oschaos.invalid/")
        state = {"running": {}} if pulled else {"waiting": {"reason": "ErrImagePull"}}
        pod["status"] |= {
            "containerStatuses": [{"name": "opensearch", "state": state}],
            "conditions": [{"type": "Ready", "status": "True" if pulled else "False"}],
        }

    def gone(self, name: str) -> None:
        """A pod was deleted: its controller makes another one."""
        old = self.pods.pop(name)
        if not self.anew:
            return
        new = json.loads(json.dumps(old))
        new["metadata"]["uid"] = str(uuid.uuid4())
        new["spec"]["containers"][0]["image"] = IMAGE
        self.pods[name] = new
        self.run(name)
        self.place(name, new["spec"]["nodeName"])

    def place(self, name: str, machine: str) -> None:
        """Let the scheduler do what it does."""
        pod = self.pods[name]
        if not self.machines[machine].get("spec", {}).get("unschedulable"):
            pod["spec"]["nodeName"] = machine
            self.waiting.pop(name, None)
            self.run(name)
        elif self.moves is not None:
            pod["spec"]["nodeName"] = self.moves
        else:
            self.waiting[name] = machine
            pod["spec"].pop("nodeName", None)
            pod["status"] |= {"containerStatuses": [], "conditions": [{"type": "Ready", "status": "False"}]}

    def lend(self, name: str, namespace: str, machine: str, kind: str) -> None:
        """A pod of somebody else's."""
        owner = [{"kind": kind, "name": "x", "uid": uid(name), "controller": True}] if kind else []
        meta = {"name": name, "namespace": namespace, "uid": uid(name), "ownerReferences": owner}
        self.foreign[name] = {"metadata": meta, "spec": {"nodeName": machine}, "status": {"phase": "Running"}}

    def allowed(self, budget: dict[str, Any]) -> int:
        """How many pods of a budget may go now."""
        wanted = budget["spec"]["selector"].get("matchLabels", {}).items()
        mine = [pod for pod in self.pods.values() if wanted <= pod["metadata"]["labels"].items()]
        well = sum(each["status"]["conditions"][0]["status"] == "True" for each in mine)
        return int(well - (len(mine) - budget["spec"]["maxUnavailable"]))


def filled(server: Server) -> Server:
    """Three zones, a dedicated manager and a data node each, budgets of one; data on claims, managers without."""
    server.uids = {"kube-system": uid("kube-system"), server.namespace: uid(server.namespace), "others": uid("others")}
    for number, owner in enumerate(SETS):
        meta = {"name": owner, "uid": uid(owner), "generation": 1, "namespace": server.namespace}
        status = {"readyReplicas": 3, "currentRevision": "r1", "updateRevision": "r1", "observedGeneration": 1}
        server.sets[owner] = {"metadata": meta, "spec": {"replicas": 3, "serviceName": f"{owner}-h"}, "status": status}
        selector = {"matchLabels": {"app.kubernetes.io/component": owner}}
        spec = {"maxUnavailable": 1, "selector": selector}
        meta = {"name": f"{owner}-pdb", "generation": 2}
        server.budgets[f"{owner}-pdb"] = {"metadata": meta, "spec": spec}
        for at, zone in enumerate("abc"):
            name = f"node-{zone}"
            meta = {"name": name, "uid": uid(name), "labels": {ZONE_LABEL: zone}, "resourceVersion": "1"}
            server.machines[name] = {"metadata": meta, "spec": {}}
            ip = f"10.0.{number}.{at + 1}"
            server.make(f"{owner}-{at}", owner, zone=zone, claims=owner == SETS[1], ip=ip)
    return server


@contextmanager
def serving(server: Server | None = None) -> Iterator[Server]:
    """The server, answering until the block ends."""
    state = filled(Server()) if server is None else server

    class Handler(_Handler):
        there = state

    listening = _Listening(("127.0.0.1", 0), Handler)
    state.url = f"http://127.0.0.1:{listening.server_address[1]}"
    thread = threading.Thread(target=listening.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield state
    finally:
        listening.shutdown()
        listening.server_close()
        listening.hang_up()


class _Listening(ThreadingHTTPServer):
    """Ends the connections that clients have left open, and with them their threads."""

    daemon_threads = True

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self._open: set[socket.socket] = set()

    def process_request(self, request: Any, client_address: Any) -> None:
        self._open.add(request)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        self._open.discard(request)
        super().shutdown_request(request)

    def hang_up(self) -> None:
        for each in list(self._open):
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)


# ---- HTTP ----------------------------------------------------------------------------------------------------

POD = re.compile(r"/api/v1/namespaces/([^/]+)/pods/([^/]+)(/[a-z]+)?")


class _Handler(BaseHTTPRequestHandler):
    there: Server
    protocol_version = "HTTP/1.1"

    def log_message(self, *_: Any) -> None:
        pass

    def _answer(self, status: int, body: Any) -> None:
        data = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def _no(self, status: int, message: str) -> None:
        self._answer(status, {"kind": "Status", "status": "Failure", "message": message, "code": status})

    def _body(self) -> Any:
        size = int(self.headers.get("Content-Length") or 0)
        return json.loads(self.rfile.read(size)) if size else None

    def _handle(self) -> None:
        path, query = urlsplit(self.path).path, parse_qs(urlsplit(self.path).query)
        if self.headers.get("Upgrade", "").lower() == "websocket":
            if path.endswith("/exec"):
                self.there.asked.append(f"EXEC {path}")
                self._execute(path, query["command"])
                return
            self.there.asked.append(f"FORWARD {path}")
            self._forward(path, int(query["ports"][0]))
            return
        body = self._body()
        with self.there.lock:
            self.there.asked.append(f"{self.command} {path}")
            if self.there.broken(self.command, path):
                self.close_connection = True
                self.connection.shutdown(socket.SHUT_RDWR)
                return
            if self.command in self.there.answers:
                self._no(self.there.answers[self.command], "as the test wants it")
                return
            self._answered(path, query, body)

    do_GET = do_POST = do_DELETE = do_PATCH = _handle

    def _answered(self, path: str, query: dict[str, list[str]], body: Any) -> None:
        there = self.there
        if path == "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews":
            asked = body["spec"]["resourceAttributes"]
            sub = f"/{asked['subresource']}" if asked.get("subresource") else ""
            allowed = (asked["verb"], asked["resource"] + sub) not in there.denied
            self._answer(201, {**body, "status": {"allowed": allowed}})
            return
        found = POD.fullmatch(path)
        if found is not None:
            self._of_pod(found[2], found[3] or "", body)
            return
        if path.startswith(maps := f"/api/v1/namespaces/{there.namespace}/configmaps/"):
            self._of_map(path.removeprefix(maps), body)
            return
        if path.startswith(jobs := f"/apis/batch/v1/namespaces/{there.namespace}/jobs/"):
            self._of_job(path.removeprefix(jobs), body)
            return
        if path == jobs[:-1] and self.command == "POST":
            name = body["metadata"]["name"]
            if name in there.jobs:
                self._no(409, f'jobs.batch "{name}" already exists')
            else:
                self._answer(201, there.begin_job(body))
            return
        lists = {
            jobs[:-1]: ("jobs", there.jobs),
            "/api/v1/pods": ("pods", there.pods),
            f"/api/v1/namespaces/{there.namespace}/pods": ("pods", there.pods),
            f"/apis/apps/v1/namespaces/{there.namespace}/statefulsets": ("statefulsets", there.sets),
            f"/apis/policy/v1/namespaces/{there.namespace}/poddisruptionbudgets": ("budgets", there.budgets),
        }
        if path in lists:
            what, items = lists[path]
            (machine,) = query.get("fieldSelector", [""])
            if machine:
                where = machine.removeprefix("spec.nodeName=")
                every = {**items, **there.foreign}
                items = {name: pod for name, pod in every.items() if pod["spec"].get("nodeName") == where}
            if ("list", what) in there.denied or (path == "/api/v1/pods" and ("list", "all pods") in there.denied):
                self._no(403, f"{what} is forbidden")
                return
            for budget in there.budgets.values():
                pods = len(
                    [pod for pod in there.pods if pod.startswith(budget["metadata"]["name"].removesuffix("-pdb"))]
                )
                budget["status"] = {
                    "observedGeneration": budget["metadata"].get("generation", 0),
                    "disruptionsAllowed": max(0, there.allowed(budget)),
                    "desiredHealthy": pods - budget["spec"]["maxUnavailable"],
                    **there.computed,
                }
            wanted = dict(each.split("=", 1) for each in query.get("labelSelector", []) if "=" in each)
            bare = [each for each in query.get("labelSelector", []) if "=" not in each]
            chosen = [
                each
                for each in items.values()
                if wanted.items() <= each["metadata"].get("labels", {}).items()
                and all(label in each["metadata"].get("labels", {}) for label in bare)
            ]
            self._answer(200, {"items": chosen})
            return
        kind, _, name = path.removeprefix("/api/v1/").partition("/")
        if kind == "namespaces" and name in there.uids and ("get", "namespaces") not in there.denied:
            self._answer(200, {"metadata": {"name": name, "uid": there.uids[name], "labels": there.labels}})
        elif kind == "nodes" and name in there.machines and ("get", "nodes") not in there.denied:
            if self.command == "PATCH" and (new := self._changed(there.machines[name], body)) is not None:
                new["metadata"]["resourceVersion"] = str(int(new["metadata"]["resourceVersion"]) + 1)
                there.machines[name] = new
                for pod, machine in list(there.waiting.items()):
                    there.place(pod, machine)
                self._answer(200, new)
            if self.command == "GET":
                self._answer(200, there.machines[name])
        elif ("get", kind) in there.denied:
            self._no(403, f"{kind} {name} is forbidden")
        else:
            self._no(404, f"{path} not found")

    def _of_map(self, name: str, body: Any) -> None:
        there = self.there
        if (self.command.lower(), "configmaps") in there.denied:
            self._no(403, f"configmaps {name} is forbidden")
        elif name not in there.maps:
            self._no(404, f'configmaps "{name}" not found')
        elif self.command == "GET":
            self._answer(200, there.maps[name])
        elif body["metadata"]["resourceVersion"] != there.maps[name]["metadata"]["resourceVersion"]:
            self._no(409, f"the object of {name} has been modified")
        else:
            self._answer(200, there.write_map(name, body["data"]))

    def _of_job(self, name: str, body: Any) -> None:
        there, job = self.there, self.there.jobs.get(name)
        if job is None:
            self._no(404, f'jobs.batch "{name}" not found')
        elif self.command == "GET":
            self._answer(200, job)
        elif body["preconditions"]["uid"] != job["metadata"]["uid"]:
            self._no(409, "Precondition failed: UID in precondition")
        else:
            there.end_job(name)
            self._answer(200, job)

    def _of_pod(self, name: str, sub: str, body: Any) -> None:
        there, pod = self.there, self.there.pods.get(name)
        if pod is None:
            self._no(404, f'pods "{name}" not found')
            return
        wanted = ((body or {}) if isinstance(body, dict) else {}).get("preconditions") or {}
        if self.command == "GET":
            self._answer(200, pod)
        elif self.command == "DELETE":
            if wanted.get("uid") not in (None, pod["metadata"]["uid"]):
                self._no(409, "Precondition failed: UID in precondition")
                return
            there.gone(name)
            self._answer(200, pod)
        elif sub == "/eviction":
            wanted = body["deleteOptions"]["preconditions"]
            if wanted["uid"] != pod["metadata"]["uid"]:
                self._no(409, "Precondition failed: UID in precondition")
                return
            labels = pod["metadata"]["labels"].items()
            if sum(each["spec"]["selector"]["matchLabels"].items() <= labels for each in there.budgets.values()) > 1:
                message = "This pod has more than one PodDisruptionBudget, which the eviction subresource does not "
                message += "support."
                self._answer(201, {"kind": "Status", "status": "Failure", "message": message, "code": 500})
                return
            owner = pod["metadata"]["ownerReferences"][0]["name"]
            if there.allowed(there.budgets[f"{owner}-pdb"]) < 1:
                self._no(429, "Cannot evict pod as it would violate the pod's disruption budget.")
                return
            there.gone(name)
            self._answer(201, {"kind": "Status", "status": "Success"})
        elif self.command == "PATCH":
            if self.headers["Content-Type"] != "application/json-patch+json":
                self._no(415, f"the body of the request was in an unknown format: {self.headers['Content-Type']}")
                return
            self._patched(name, pod, body)

    def _patched(self, name: str, pod: dict[str, Any], patch: list[dict[str, Any]]) -> None:
        if (new := self._changed(pod, patch)) is not None:
            self.there.pods[name] = new
            self.there.run(name)
            self._answer(200, new)

    def _changed(self, old: dict[str, Any], patch: list[dict[str, Any]]) -> dict[str, Any] | None:
        """By a JSON patch (RFC 6902); None where it was refused, which is answered."""
        new: dict[str, Any] = json.loads(json.dumps(old))
        for step in patch:
            parts = [part.replace("~1", "/").replace("~0", "~") for part in step["path"].strip("/").split("/")]
            *above, last = [int(part) if part.isdigit() else part for part in parts]
            at: Any = new
            try:
                for part in above:
                    at = at[part]
                if step["op"] == "test" and at[last] != step["value"]:
                    raise LookupError
                if step["op"] == "remove":
                    del at[last]
                elif step["op"] != "test":
                    at[last] = step["value"]
            except LookupError:
                self._no(422, f"the server rejected our request: testing {step['path']} failed")
                return None
        return new

    # ---- ways into pods: WebSocket, channels 0 data and 1 error, each begun by the port -------------------------

    def _forward(self, path: str, number: int) -> None:
        found = POD.fullmatch(path)
        name = found[2] if found else ""
        backend = self.there.backends.get(name)
        if backend is None or self.there.broken("FORWARD", path):
            self._no(500, "no such way")
            return
        self._upgrade()
        port = struct.pack("<H", number)
        with socket.create_connection(backend) as there:
            self._send(b"\x00" + port)
            self._send(b"\x01" + port)
            answers = threading.Thread(target=self._answers, args=(there,), daemon=True)
            answers.start()
            with suppress(OSError, struct.error):
                while (said := self._received()) is not None:
                    there.sendall(said[1:])
            with suppress(OSError):
                there.shutdown(socket.SHUT_RDWR)  # which ends the thread that reads from it

    def _upgrade(self) -> None:
        key = base64.b64encode(hashlib.sha1(f"{self.headers['Sec-WebSocket-Key']}{WS}".encode()).digest()).decode()
        self.send_response(101)
        for header, value in (
            ("Upgrade", "websocket"),
            ("Connection", "Upgrade"),
            ("Sec-WebSocket-Accept", key),
            ("Sec-WebSocket-Protocol", "v4.channel.k8s.io"),
        ):
            self.send_header(header, value)
        self.end_headers()
        self.close_connection = True

    def _execute(self, path: str, command: list[str]) -> None:
        """Channel 1 is the program's output, channel 3 a Status object when it has ended."""
        found = POD.fullmatch(path)
        pod = self.there.pods.get(found[2]) if found else None
        if pod is None or pod["status"].get("phase") != "Running" or self.there.broken("EXEC", path):
            self._no(500, "container not found")
            return
        self._upgrade()
        code, output = self.there.executes(pod["metadata"]["name"], command)
        self._send(b"\x01" + output)
        failed = {
            "status": "Failure",
            "reason": "NonZeroExitCode",
            "details": {"causes": [{"reason": "ExitCode", "message": str(code)}]},
        }
        self._send(b"\x03" + json.dumps({"status": "Success"} if code == 0 else failed).encode())
        self._send(b"", opcode=8)
        with suppress(OSError, struct.error):
            self._received()

    def _answers(self, there: socket.socket) -> None:
        with suppress(OSError):
            while said := there.recv(1 << 16):
                self._send(b"\x00" + said)
            self._send(b"", opcode=8)
            self.connection.shutdown(socket.SHUT_RDWR)

    def _send(self, data: bytes, opcode: int = 2) -> None:
        size = len(data)
        head = bytes([0x80 | opcode]) + (
            bytes([size])
            if size < 126
            else b"\x7e" + struct.pack(">H", size)
            if size < 1 << 16
            else b"\x7f" + struct.pack(">Q", size)
        )
        self.connection.sendall(head + data)

    def _received(self) -> bytes | None:
        first, second = struct.unpack("BB", self.rfile.read(2))
        if first & 0x0F == 8:
            return None
        size = second & 0x7F
        if size >= 126:
            size = (
                struct.unpack(">H", self.rfile.read(2))[0]
                if size == 126
                else struct.unpack(">Q", self.rfile.read(8))[0]
            )
        mask = self.rfile.read(4)
        data = self.rfile.read(size)
        return bytes(byte ^ mask[at % 4] for at, byte in enumerate(data))
