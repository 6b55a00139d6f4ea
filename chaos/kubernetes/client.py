"""The API server of one Kubernetes, by the official client. Answers are JSON as they came; errors are one line each.

The client is the extra ``opensearch-chaos[kubernetes]``. It is imported when it is first needed. Answers are taken as
JSON and not as its models, whose checks differ between its versions.
"""

from __future__ import annotations

import json
import os
import socket
import threading
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

from chaos.base.errors import ChaosError, FaultError, InvalidInput, LabError, MissingPrerequisite, Unanswered
from chaos.base.extras import KUBERNETES
from chaos.base.text import one_line

CONNECT_SECONDS, ANSWER_SECONDS = 5.0, 20.0
IN_POD = "KUBERNETES_SERVICE_HOST"
"""Kubernetes sets it in each container: where there is no kubeconfig, the pod's own account is meant."""
NOT_FOUND, CONFLICT, REFUSED = 404, 409, 429
UNKNOWN = (500, 502, 503, 504)
"""Answers that do not say whether a change was made: etcd's that ran out of time, and a gateway's."""


class Refused(FaultError):
    """The API server's own no. ``status``: of HTTP; ``detail``: its message."""

    def __init__(self, what: str, status: int, detail: str) -> None:
        super().__init__(f"{what}: the API server answers {status}: {detail}")
        self.status, self.detail = status, detail


def library() -> Any:
    """The official client. Raises MissingPrerequisite without it."""
    try:
        import kubernetes.client
        import kubernetes.config
        import kubernetes.stream
    except ImportError:
        raise MissingPrerequisite("Kubernetes needs the Python package kubernetes", remedy=KUBERNETES.install) from None
    return kubernetes


class Client:
    """Requests as the user of a kubeconfig's context, or as the account of the pod that this runs in.

    ``kubeconfig`` None: as kubectl finds it. Nothing is sent until something is asked.
    """

    def __init__(self, context: str | None = None, kubeconfig: Path | None = None) -> None:
        self._context, self._kubeconfig = context, kubeconfig
        self._configured: Any = None
        self._api: Any = None
        self._making = threading.Lock()
        self.default_namespace: str | None = None
        """The namespace that the context names; None where it names none."""
        self.named: str | None = context
        """The context that is used; None for the pod's own account."""

    @property
    def says(self) -> str:
        """Where it leads, in words."""
        return "the pod's own account" if self.in_pod else f"context {self.named or '(the current one)'}"

    @property
    def in_pod(self) -> bool:
        named = self._context or self._kubeconfig or os.environ.get("KUBECONFIG")
        return not named and IN_POD in os.environ and not Path("~/.kube/config").expanduser().exists()

    def _configuration(self) -> Any:
        """Raises InvalidInput where there is no kubeconfig, or none that can be read, or no such context."""
        with self._making:
            if self._configured is None:
                self._configured = self._load()
            return self._configured

    def _load(self) -> Any:
        config, made = library().config, library().client.Configuration()
        # the library reads the variable once, when it is imported
        file = os.environ.get("KUBECONFIG") if self._kubeconfig is None else str(self._kubeconfig)
        try:
            if self.in_pod:
                config.load_incluster_config(client_configuration=made)
            else:
                contexts, current = config.list_kube_config_contexts(config_file=file)
                chosen = next((each for each in contexts if each["name"] == self._context), None)
                if self._context is not None and chosen is None:
                    known = ", ".join(each["name"] for each in contexts)
                    raise InvalidInput(f"the kubeconfig has no context {self._context}", remedy=f"there are: {known}")
                used = chosen or current or {}
                self.named = used.get("name")
                self.default_namespace = (used.get("context") or {}).get("namespace")
                config.load_kube_config(config_file=file, context=self._context, client_configuration=made)
        except ChaosError:
            raise
        except Exception as error:  # of the library, of YAML, of a plugin that gives credentials
            where = self.says if self.in_pod else f"the kubeconfig {file or '~/.kube/config'}"
            raise InvalidInput(
                f"{where} cannot be used: {one_line(str(error))[:300]}",
                remedy="name it with --kubeconfig, or export KUBECONFIG; try: kubectl cluster-info",
            ) from None
        made.retries = False
        return made

    def _made(self) -> Any:
        configuration = self._configuration()
        with self._making:
            if self._api is None:
                self._api = library().client.ApiClient(configuration)
            return self._api

    def call(self, group: str, method: str, *arguments: Any, changes: bool = False, **named: Any) -> Any:
        """One request of the client's own method, for example ``call("CoreV1Api", "read_namespaced_pod", …)``: its
        answer as JSON.

        Raises :class:`Refused` where the API server says no, LabError where it gives no answer, and Unanswered where
        what ``changes`` something has none.
        """
        api = getattr(library().client, group)(self._made())
        what = f"Kubernetes, {method.replace('_', ' ')} {' '.join(each for each in arguments if isinstance(each, str))}"
        lost = Unanswered if changes else LabError
        try:
            answer = getattr(api, method)(
                *arguments, _preload_content=False, _request_timeout=(CONNECT_SECONDS, ANSWER_SECONDS), **named
            )
            status, data = answer.status, answer.data if answer.data is not None else answer.read()
        except library().client.ApiException as error:
            if not error.status:
                raise lost(f"{what}: no answer: {one_line(str(error.reason))[:200]}") from None
            raise _no(what, int(error.status), message(error.body), changes) from None
        except Exception as error:
            import urllib3

            if not isinstance(error, OSError | urllib3.exceptions.HTTPError):
                raise
            raise lost(f"{what}: no answer: {type(error).__name__}: {one_line(str(error))[:200]}") from None
        if not 200 <= status < 300:
            raise _no(what, int(status), message(data), changes)
        try:
            said = json.loads(data)
            whole = isinstance(said["items"], list) if method.startswith("list_") else isinstance(said, dict)
        except (ValueError, LookupError, TypeError):
            whole = False
        if not whole:
            raise lost(f"{what}: what answered is no API server")
        if said.get("kind") == "Status" and said.get("status") == "Failure":  # an eviction's no may come with a 201
            raise Refused(what, int(said.get("code") or status), message(data))
        return said

    def core(self, method: str, *arguments: Any, **named: Any) -> Any:
        """:meth:`call` of the group without a name: pods, namespaces, nodes."""
        return self.call("CoreV1Api", method, *arguments, **named)

    def found(self, method: str, *arguments: Any, **named: Any) -> Any:
        """:meth:`core`; None where there is no such object."""
        try:
            return self.core(method, *arguments, **named)
        except Refused as error:
            if error.status == NOT_FOUND:
                return None
            raise

    def may(self, verb: str, resource: str, *, group: str = "", namespace: str = "", name: str = "") -> bool:
        """Whether this user may do so, as the API server's authorizers say (SelfSubjectAccessReview)."""
        resource, _, sub = resource.partition("/")
        asked = {"verb": verb, "resource": resource, "subresource": sub, "group": group}
        asked |= {"namespace": namespace, "name": name}
        body = {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SelfSubjectAccessReview",
            "spec": {"resourceAttributes": {key: value for key, value in asked.items() if value or key == "group"}},
        }
        said = self.call("AuthorizationV1Api", "create_self_subject_access_review", body)
        return bool(said.get("status", {}).get("allowed", False))

    def into(self, namespace: str, pod: str, port: int) -> socket.socket:
        """A stream to a port of a pod through the API server. Raises LabError where there is none.

        Each has an API client of its own: the library turns one into a way for streams while it opens one.
        """
        kubernetes = library()
        made = kubernetes.client.CoreV1Api(kubernetes.client.ApiClient(self._configuration()))
        try:
            forwarded = kubernetes.stream.portforward(
                made.connect_get_namespaced_pod_portforward, pod, namespace, ports=str(port)
            )
        except kubernetes.client.ApiException as error:
            reason = one_line(str(error.reason))[:200]
            raise LabError(f"no way into pod {pod} by the API server: {reason}") from None
        # the library's wrapper has no file descriptor of its own to wait for
        return forwarded.socket(port)._socket  # type: ignore[no-any-return]

    def execute(self, namespace: str, pod: str, command: Sequence[str], within: float) -> CompletedProcess[bytes]:
        """Run a program in the only container of a pod, as ``kubectl exec`` does; it gets no input. Raises LabError
        where it could not be run, or does not end within so many seconds: it may go on then."""
        kubernetes = library()
        made = kubernetes.client.CoreV1Api(kubernetes.client.ApiClient(self._configuration()))
        what = f"no program could be run in pod {pod}"
        try:
            stream = kubernetes.stream.stream(
                made.connect_get_namespaced_pod_exec,
                pod,
                namespace,
                command=list(command),
                stdin=False,
                stdout=True,
                stderr=True,
                tty=False,
                binary=True,
                _preload_content=False,
                _request_timeout=CONNECT_SECONDS,
            )
        except kubernetes.client.ApiException as error:
            raise LabError(f"{what}: {one_line(str(error.reason))[:200]}") from None
        import websocket  # the client's own

        try:
            stream.run_forever(timeout=within)
            if stream.is_open():
                raise LabError(f"{what}: it has not ended within {within:g} s")
            out, err, status = (stream.read_channel(number) for number in (1, 2, 3))
            code = _exit_code(json.loads(status))
        except (OSError, websocket.WebSocketException) as error:
            raise LabError(f"{what}: {type(error).__name__}: {one_line(str(error))[:200]}") from None
        except (ValueError, LookupError, TypeError):
            raise LabError(f"{what}: the API server does not say how it ended") from None
        finally:
            with suppress(OSError, websocket.WebSocketException):
                stream.close()
        return CompletedProcess(list(command), code, out, err)

    def close(self) -> None:
        with self._making:
            if self._api is not None:
                self._api.close()
                self._api = None


def _exit_code(status: Any) -> int:
    """Of a Status object about a program that has ended. Raises LabError where it could not be started; LookupError,
    TypeError or ValueError where it is none."""
    if status["status"] == "Success":
        return 0
    if status.get("reason") != "NonZeroExitCode":
        raise LabError(f"no program could be run there: {one_line(str(status['message']))[:300]}")
    return int(status["details"]["causes"][0]["message"])


def _no(what: str, status: int, detail: str, changes: bool) -> Refused | Unanswered:
    """The error for an answer that is none of success."""
    if changes and status in UNKNOWN:
        return Unanswered(f"{what}: the API server answers {status}, so what became of it is not known: {detail}")
    return Refused(what, status, detail)


def message(body: Any) -> str:
    """The text of a Status object, or of whatever else came, in one line."""
    text = body.decode("utf-8", "replace") if isinstance(body, bytes) else str(body)
    with suppress(ValueError, KeyError, TypeError):
        text = str(json.loads(text)["message"])
    return one_line(text)[:300]
