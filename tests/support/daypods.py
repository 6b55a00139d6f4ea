"""A game day that runs in the box's Kubernetes: its repository, what people sign, and what ``schedule`` prints, made
there as ``kubectl apply`` would."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

from clusterkit import command
from kubebox import images, parts
from kubebox.api import Api
from kubebox.making import Box
from kubebox.plan import API_PORT, CONTROL, HOST
from ruamel.yaml import YAML

SPACE = "gamedays"
"""The namespace of the runner's pods."""
CHAT_PORT = 18099
WORK = "/work"
_AHEAD = (6 - datetime.now(UTC).hour + 12) % 24 - 12
MORNING = f"Etc/GMT{-_AHEAD:+d}"
"""A zone in which it is between six and seven in the morning (POSIX: west is positive)."""
WELL = "#!/usr/bin/python3\nprint('users are well')\n"
"""The guard's program: people sign its content, so it must run here and in the pod."""
EXPERIMENT = """\
apiVersion: opensearch-chaos/v1
name: node-away
topology: 3az
load:
  read:  {rate: 5/s, good: ok within 4s}
  write: {rate: 5/s, good: ok within 4s}
  documents: 200
phases:
  healthy:  {for: 10s}
  away:     {for: 30s, inject: {node.stop: {target: node b-data}}}
  returned: {undo: node.stop, until: {green: true, stable: 5s, within: 150s}}
expect:
  - {acknowledged.lost: 0}
guards: {max: 6m}
"""


@contextmanager
def chat() -> Iterator[list[dict[str, Any]]]:
    """What is announced, at the port of this machine that the box's pods reach."""
    told: list[dict[str, Any]] = []

    class Handler(BaseHTTPRequestHandler):
        def log_message(self, *_: Any) -> None:
            pass

        def do_POST(self) -> None:
            told.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()

    server = HTTPServer((str(HOST), CHAT_PORT), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield told
    finally:
        server.shutdown()
        server.server_close()


class InPods:
    """One game day. ``folder``: its repository, which holds the target's file already."""

    def __init__(self, box: Box, folder: Path, target: Path, name: str) -> None:
        self.box, self.api, self.folder, self.name = box, box.api(), folder, name
        self.days = folder / "experiments" / "gamedays"
        self.file = self.days / f"{name}.yaml"
        self.object = f"gameday-{name}"
        self.days.mkdir(parents=True, exist_ok=True)
        self.opens = datetime.now(UTC).replace(second=0, microsecond=0) + timedelta(minutes=2)
        self._furnish(target)

    def _furnish(self, target: Path) -> None:
        (self.days / "node-away.yaml").write_text(EXPERIMENT)
        (self.days / "well").write_text(WELL)
        (self.days / "well").chmod(0o755)
        for who, file in (("ann", "allowed_signers"), ("ops", "operators")):
            key = self.folder / f"{who}.key"
            if not key.exists():
                subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", key], check=True, timeout=30)
            public = " ".join(key.with_suffix(".key.pub").read_text().split()[:2])
            (self.days / file).write_text(f"{who}@example.com {public}\n")
        opens = self.opens + timedelta(hours=_AHEAD)
        day = {
            "apiVersion": "opensearch-chaos/v1",
            "kind": "gameday",
            "name": self.name,
            "owner": "team-search",
            "hypothesis": "Nobody notices when a node is away.",
            "target": f"../../{target.relative_to(self.folder)}",
            "experiments": [{"experiment": "node-away.yaml", "rung": "node"}],
            "window": {
                "zone": MORNING,
                "days": ["mon", "tue", "wed", "thu", "fri", "sat", "sun"],
                "from": f"{opens:%H:%M}",
                "to": "12:00",
            },
            "approval": {"allowed_signers": "allowed_signers"},
            "consent": {"allowed_signers": "operators"},
            "ladder": {"waived": "the box is made for this test, and has no past"},
            "preflight": {"stable": "2s", "within": "3m"},
            "guards": {
                "users": {"counts": "outcome", "program": {"run": [f"{self.folder.name}/experiments/gamedays/well"]}}
            },
            "announce": [{"webhook": f"http://{HOST}:{CHAT_PORT}/"}],
            "bounds": {"day": "30m", "abort": "2m"},
            "stop": {"file": "/tmp/stop", "kubernetes": SPACE},
        }
        self.file.write_text("".join(f"{key}: {json.dumps(value)}\n" for key, value in day.items()))

    def sign(self) -> None:
        for words in (
            ("consent", self.file, "--key", self.folder / "ops.key.pub", "--until", "2099-01-01", "--by", "platform",
             "--for", "second", "--yes"),
            ("approve", self.file, "--key", self.folder / "ann.key.pub", "--yes"),
        ):  # fmt: skip
            self._chaos(*words)

    def _chaos(self, *words: str | Path) -> None:
        """A command about game days, from the folder of the repository, as it is in the pod: programs are named so."""
        asked = command("gameday", *words)
        done = subprocess.run(
            asked, cwd=self.folder.parent, capture_output=True, text=True, timeout=120, check=False,
            env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        )  # fmt: skip
        assert done.returncode == 0, done.stdout + done.stderr

    def scheduled(self) -> list[Any]:
        """What ``schedule`` prints for Kubernetes."""
        where = ("--in", WORK, "--program", f"{parts.SUITE_HOME}/bin/opensearch-chaos", "--user", "1000")
        given = (*where, "--image", images.SUITE, "--write", self.folder / "printed")
        self._chaos("schedule", self.file, "--for", "kubernetes", *given)
        (file,) = (self.folder / "printed").glob("*.yaml")
        return [dict(each) for each in YAML(typ="safe").load_all(file.read_text()) if each is not None]

    def apply(self) -> None:
        """All of that, and what its head asks for: the repository, room for the record, and the environment. The API
        server's own address stands in the last, because no proxy in the box leads a service's there."""
        self._make("/api/v1", "namespaces", {"metadata": {"name": SPACE}}, may_be=True)
        *beside, job = self.scheduled()
        for item in beside:
            group = "/api/v1" if item["apiVersion"] == "v1" else f"/apis/{item['apiVersion']}"
            self._make(group, f"{item['kind'].lower()}s", item)
        address = {"KUBERNETES_SERVICE_HOST": str(CONTROL), "KUBERNETES_SERVICE_PORT": str(API_PORT)}
        self._make("/api/v1", "secrets", {"metadata": self._meta(), "stringData": address})
        self._make("/api/v1", "configmaps", {"metadata": self._meta("files"), "data": self._files()})
        self._volume()
        self._mounted(job["spec"]["jobTemplate"]["spec"]["template"]["spec"])
        self._make("/apis/batch/v1", "cronjobs", job)

    def _files(self) -> dict[str, str]:
        """The repository, a key for each file: a key has no folder in it."""
        kept = [each for top in ("experiments", "topologies") for each in (self.folder / top).rglob("*")]
        return {str(each.relative_to(self.folder)).replace("/", ".."): each.read_text() for each in kept
                if each.is_file()}  # fmt: skip

    def _mounted(self, pod: dict[str, Any]) -> None:
        """Its mount in the printed pod: one, since files of a ConfigMap are links, and files that name each other are
        looked for where the links lead."""
        items = [{"key": key, "path": key.replace("..", "/"), "mode": 0o555} for key in self._files()]
        source = {"name": f"{self.object}-files", "items": items}
        pod["volumes"].append({"name": "repository", "configMap": source})
        place = f"{WORK}/{self.folder.name}"
        pod["containers"][0]["volumeMounts"].append({"name": "repository", "mountPath": place})

    def _volume(self) -> None:
        folder = self.box.layout.of("a") / f"record-{self.name}"
        folder.mkdir()
        size, here = {"storage": "1Gi"}, {"key": "kubernetes.io/hostname", "operator": "In", "values": ["node-a"]}
        shared = {"accessModes": ["ReadWriteOnce"], "storageClassName": f"record-{self.name}"}
        volume = {
            **shared,
            "capacity": size,
            "local": {"path": str(folder)},
            "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [here]}]}},
        }
        claim = {**shared, "resources": {"requests": size}}
        self._make("/api/v1", "persistentvolumes", {"metadata": {"name": self.object}, "spec": volume})
        self._make("/api/v1", "persistentvolumeclaims", {"metadata": self._meta(), "spec": claim})

    def _meta(self, more: str = "") -> dict[str, str]:
        return {"name": f"{self.object}-{more}" if more else self.object, "namespace": SPACE}

    def _make(self, group: str, plural: str, item: dict[str, Any], *, may_be: bool = False) -> None:
        space = item["metadata"].get("namespace")
        within = f"/namespaces/{space}" if space else ""
        status, answer = self.api.request("POST", f"{group}{within}/{plural}", item)
        assert status == 201 or (may_be and status == 409), answer

    # ---- what became of it ----------------------------------------------------------------------------------

    def stopper(self) -> Api:
        """Somebody who may stop the day and do nothing else."""
        role = {"kind": "Role", "name": f"{self.object}-stop", "apiGroup": "rbac.authorization.k8s.io"}
        who = {"name": "oncall", "namespace": SPACE}
        self._make("/api/v1", "serviceaccounts", {"metadata": who}, may_be=True)
        binding = {"metadata": self._meta("stop"), "roleRef": role, "subjects": [{"kind": "ServiceAccount", **who}]}
        self._make("/apis/rbac.authorization.k8s.io/v1", "rolebindings", binding)
        file = self.folder / "oncall" / "kubeconfig"
        file.parent.mkdir()
        return Api(self.api.as_account(SPACE, who["name"], self.box.layout.kubeconfig, file))

    @property
    def map(self) -> str:
        """The path of the ConfigMap that stops it."""
        return f"/api/v1/namespaces/{SPACE}/configmaps/{self.object}"

    def job(self) -> dict[str, Any] | None:
        """The status of the one job that the CronJob made; None before it has."""
        items = self.api.get(f"/apis/batch/v1/namespaces/{SPACE}/jobs")["items"]
        mine = [each for each in items if each["metadata"]["name"].startswith(self.object)]
        assert len(mine) <= 1, mine
        return dict(mine[0]["status"]) if mine else None

    def over(self) -> bool:
        status = self.job() or {}
        return bool(status.get("succeeded") or status.get("failed"))

    def exit_code(self) -> int:
        items = self.api.get(f"/api/v1/namespaces/{SPACE}/pods")["items"]
        (state,) = [
            each["status"]["containerStatuses"][0]["state"]["terminated"]
            for each in items
            if each["metadata"]["name"].startswith(self.object)
        ]
        return int(state["exitCode"])

    def lines(self) -> list[dict[str, Any]]:
        """Of the day's record, on the volume."""
        (file,) = (self.box.layout.of("a") / f"record-{self.name}").glob("*/*/record.jsonl")
        return [json.loads(line) for line in file.read_text().splitlines()]

    def said(self) -> str:
        """What its pod printed."""
        found = sorted(self.box.layout.of("a").glob(f"own/var-log/pods/{SPACE}_{self.object}*/**/*.log"))
        return "\n".join(each.read_text()[-6000:] for each in found)
