"""The API server of a box, by its REST API: objects made and read, and awaited conditions of them."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import requests
from ruamel.yaml import YAML

from chaos.base.errors import LabError

SECONDS = 10.0
PLACES = {
    "Namespace": ("/api/v1", "namespaces"),
    "PersistentVolume": ("/api/v1", "persistentvolumes"),
    "StorageClass": ("/apis/storage.k8s.io/v1", "storageclasses"),
    "Service": ("/api/v1", "services"),
    "StatefulSet": ("/apis/apps/v1", "statefulsets"),
    "Deployment": ("/apis/apps/v1", "deployments"),
    "DaemonSet": ("/apis/apps/v1", "daemonsets"),
    "PodDisruptionBudget": ("/apis/policy/v1", "poddisruptionbudgets"),
}
"""Kind of object → its group and version as a path, and its name there."""


class Api:
    """Requests as the administrator of a kubeconfig that a box has written."""

    def __init__(self, kubeconfig: Path) -> None:
        text = YAML(typ="safe").load(kubeconfig.read_text())
        server = text["clusters"][0]["cluster"]
        self.url = str(server["server"])
        self._authority = kubeconfig.with_name("authority.pem")
        self._authority.write_bytes(base64.b64decode(server["certificate-authority-data"]))
        self._session = requests.Session()
        self._session.trust_env = False  # no proxy of this machine leads into the box
        self._session.verify = str(self._authority)
        self._session.headers["Authorization"] = f"Bearer {text['users'][0]['user']['token']}"

    def request(self, method: str, path: str, body: Any = None) -> tuple[int, Any]:
        """Status and answer, as JSON where it is. Raises requests.RequestException where there is none."""
        merging = {"Content-Type": "application/merge-patch+json"} if method == "PATCH" else None
        answer = self._session.request(method, f"{self.url}{path}", json=body, timeout=SECONDS, headers=merging)
        is_json = answer.headers.get("Content-Type", "").startswith("application/json")
        return answer.status_code, answer.json() if is_json else answer.text

    def as_account(self, space: str, name: str, kubeconfig: Path, file: Path) -> Path:
        """Write a kubeconfig, otherwise like this one, of a service account of a namespace. Raises LabError."""
        asked = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
        status, answer = self.request("POST", f"/api/v1/namespaces/{space}/serviceaccounts/{name}/token", asked)
        if status != 201:
            raise LabError(f"the API server of the box gives {name} of {space} no token: {status} {answer}")
        config = YAML(typ="safe").load(kubeconfig.read_text())
        config["users"][0]["user"] = {"token": answer["status"]["token"]}
        file.write_text(json.dumps(config))
        return file

    def answers(self) -> bool:
        """Whether it is ready to serve."""
        try:
            return self.request("GET", "/readyz")[0] == 200
        except requests.RequestException:
            return False

    def get(self, path: str) -> Any:
        """Raises LabError where it cannot be had."""
        try:
            status, answer = self.request("GET", path)
        except requests.RequestException as error:
            raise LabError(f"GET {path}: {type(error).__name__}") from error
        if status != 200:
            raise LabError(f"GET {path} answered {status}: {message(answer)}")
        return answer

    def create(self, item: Mapping[str, Any]) -> None:
        """Raises LabError where it is refused."""
        base, plural = PLACES[item["kind"]]
        space = item["metadata"].get("namespace")
        path = f"{base}/namespaces/{space}/{plural}" if space else f"{base}/{plural}"
        try:
            status, answer = self.request("POST", path, item)
        except requests.RequestException as error:
            raise LabError(f"making {item['kind']} {item['metadata']['name']}: {type(error).__name__}") from error
        if status not in (200, 201):
            raise LabError(f"making {item['kind']} {item['metadata']['name']} answered {status}: {message(answer)}")

    def evict(self, space: str, pod: str) -> tuple[int, str]:
        """Ask for a pod's eviction, which budgets may refuse: status (429: refused) and message."""
        body = {
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"name": pod, "namespace": space},
            "deleteOptions": {"gracePeriodSeconds": 0},
        }
        status, answer = self.request("POST", f"/api/v1/namespaces/{space}/pods/{pod}/eviction", body)
        return status, message(answer)


def message(answer: Any) -> str:
    """The text of a Status object, or of whatever else came."""
    return str(answer.get("message", answer) if isinstance(answer, dict) else answer)[:300]


def is_ready(item: Mapping[str, Any]) -> bool:
    """Whether a node or a pod has the condition Ready."""
    conditions = item.get("status", {}).get("conditions", [])
    return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)


def rolled_out(item: Mapping[str, Any]) -> bool:
    """Whether all pods that a controller of pods wants are ready."""
    status = item.get("status", {})
    if item["kind"] == "DaemonSet":
        wanted, ready = status.get("desiredNumberScheduled", 0), status.get("numberReady", 0)
    else:
        wanted, ready = item["spec"]["replicas"], status.get("readyReplicas", 0)
    return bool(wanted > 0 and ready >= wanted)
