"""The Docker engine, spoken to through docker-py; what it refuses becomes a LabError here.

Every container, network and volume of ours carries labels: the lab's id, the machine and the state folder that the lab
belongs to, and what it is. So they are found again by every process that asks the engine, whatever became of the one
that made them.
"""

from __future__ import annotations

import io
import os
import platform
import socket
import sys
import tarfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import docker
import requests
from docker.errors import APIError, DockerException, ImageNotFound, NotFound
from docker.models.containers import Container
from docker.types import IPAMConfig, IPAMPool

from chaos.base import paths
from chaos.base.errors import LabError, MissingPrerequisite

LAB, STATE, PART, HOST, MACHINE = (f"opensearch-chaos.{word}" for word in ("lab", "state", "part", "host", "machine"))
"""Labels. ``PART`` is proxy, node, data or network; ``HOST`` is the lab's host that it belongs to."""
SOCKET = Path("/var/run/docker.sock")
CALL_SECONDS = 90.0
"""An engine that lets a request wait for longer hangs."""
SUBNETS = 254
"""198.18.1.0/24 to 198.18.254.0/24: set aside for testing between devices (RFC 2544), nobody routes them."""
REMEDY = "install and start the Docker engine, let this user reach its socket, or use a local lab"


@contextmanager
def _translated(doing: str) -> Iterator[None]:
    try:
        yield
    except APIError as error:
        raise LabError(f"the Docker engine refused {doing}: {error.explanation or error}") from error
    except (DockerException, requests.RequestException, OSError) as error:
        raise LabError(f"the Docker engine failed at {doing}: {error}") from error


@dataclass(frozen=True)
class Owned:
    """A lab's container, network or volume, as the engine lists it."""

    lab: str
    state: str
    what: str
    machine: str = ""
    """By :func:`chaos.base.paths.machine`; empty: of a version that did not say."""

    @property
    def is_ours(self) -> bool:
        """Whether it is of this machine, and of no lab that another state folder of it still has."""
        return paths.is_this_machine(self.machine) and not paths.lives_elsewhere(self.state, self.lab)


def _owned(labels: Mapping[str, str], what: str) -> Owned:
    return Owned(labels[LAB], labels.get(STATE, ""), what, labels.get(MACHINE, ""))


class Engine:
    """One Docker engine. Every method raises LabError when it does not do as asked."""

    def __init__(self, client: docker.DockerClient) -> None:
        self.client = client

    @classmethod
    def open(cls) -> Engine:
        """The engine of this environment (``$DOCKER_HOST``, the socket). Raises MissingPrerequisite without one."""
        try:
            client = docker.from_env(timeout=int(CALL_SECONDS))
            client.ping()
        except (DockerException, requests.RequestException, OSError) as error:
            cause = str(error).splitlines()[0][:200]
            raise MissingPrerequisite(f"no Docker engine answers: {cause}", remedy=REMEDY) from error
        return cls(client)

    @classmethod
    def if_any(cls) -> Engine | None:
        """The engine, where there seems to be one and it answers."""
        if not os.environ.get("DOCKER_HOST") and not SOCKET.exists():
            return None
        try:
            return cls.open()
        except MissingPrerequisite:
            return None

    def shares_our_kernel(self) -> bool:
        """Whether processes of containers are processes of this machine."""
        with _translated("a question"):
            info = self.client.info()
        return (
            not os.environ.get("DOCKER_HOST", "unix://").startswith(("tcp://", "ssh://"))
            and info.get("KernelVersion") == platform.release()
            and info.get("Name") == socket.gethostname()
        )

    # ---- images -------------------------------------------------------------------------------

    def folder(self) -> Path | None:
        """Where it keeps images and volumes, by its own word; None when it does not say."""
        with suppress(LabError), _translated("asking where its data lies"):
            return Path(str(self.client.info()["DockerRootDir"]))
        return None

    def image(self, name: str) -> Mapping[str, Any] | None:
        """What the engine knows of an image that it has; None when it has none of that name."""
        try:
            with _translated(f"looking for image {name}"):
                return dict(self.client.images.get(name).attrs)
        except LabError as error:
            if isinstance(error.__cause__, ImageNotFound):
                return None
            raise

    def pull(self, name: str) -> Mapping[str, Any]:
        with _translated(f"pulling image {name}"):
            return dict(self.client.images.pull(name).attrs)

    # ---- making -------------------------------------------------------------------------------

    def labels(self, lab: str, part: str, host: str = "") -> dict[str, str]:
        state = str(paths.state().absolute())
        return {LAB: lab, STATE: state, PART: part, HOST: host, MACHINE: paths.machine()}

    def make_network(self, lab: str, name: str) -> str:
        """A bridge with a /24 of its own; returns its first three numbers (``198.18.7``)."""
        first = sum(lab.encode()) % SUBNETS
        for step in range(SUBNETS):
            prefix = f"198.18.{1 + (first + step) % SUBNETS}"
            pool = IPAMPool(subnet=f"{prefix}.0/24", gateway=f"{prefix}.254")
            try:
                with _translated("a network"):
                    self.client.networks.create(
                        name,
                        driver="bridge",
                        ipam=IPAMConfig(pool_configs=[pool]),
                        labels=self.labels(lab, "network"),
                    )
            except LabError as error:
                if "overlap" in str(error).lower():  # another lab's
                    continue
                raise
            return prefix
        raise LabError("no network is free for the lab: 198.18.0.0/16 is in use")

    def make_volume(self, lab: str, name: str, host: str) -> None:
        with _translated(f"volume {name}"):
            self.client.volumes.create(name, labels=self.labels(lab, "data", host))

    def make_container(
        self,
        lab: str,
        name: str,
        part: str,
        host: str,
        image: str,
        *,
        address: tuple[str, str] | None = None,
        ports: Sequence[int] = (),
        **options: Any,
    ) -> Container:
        """A container that does not run yet. ``address``: network and IPv4; ``ports`` are published on loopback."""
        if address is not None:
            network, ip = address
            options |= {
                "network": network,
                "networking_config": {network: self.client.api.create_endpoint_config(ipv4_address=ip)},
            }
        with _translated(f"container {name}"):
            return self.client.containers.create(
                image,
                name=name,
                labels=self.labels(lab, part, host),
                ports={f"{port}/tcp": ("127.0.0.1", None) for port in ports},
                detach=True,
                **options,
            )

    # ---- containers ---------------------------------------------------------------------------

    def container(self, name: str) -> Container | None:
        """A container as it is now; None when there is none."""
        try:
            with _translated(f"looking for {name}"):
                return self.client.containers.get(name)
        except LabError as error:
            if isinstance(error.__cause__, NotFound):
                return None
            raise

    def there(self, name: str) -> Container:
        found = self.container(name)
        if found is None:
            raise LabError(f"container {name} is gone")
        return found

    def tell(self, container: Container, verb: str, **options: Any) -> None:
        """``start``, ``kill``, ``stop``, ``pause`` … A container that is so already is fine (304, 409)."""
        try:
            with _translated(f"{verb} of {container.name}"):
                getattr(container, verb)(**options)
        except LabError as error:
            cause = error.__cause__
            if not (isinstance(cause, APIError) and cause.status_code in (304, 409)):
                raise

    def update(self, container: Container, **limits: Any) -> None:
        with _translated(f"limits of {container.name}"):
            container.update(**limits)

    def stats(self, container: Container) -> Mapping[str, Any]:
        with _translated(f"counters of {container.name}"):
            return dict(self.client.api.stats(container.id, stream=False, one_shot=True))

    def put(self, container: Container, folder: str, files: Mapping[str, str | bytes], uid: int) -> None:
        """Write small files into a container, whether it runs or not; they are readable by ``uid`` alone."""
        packed = io.BytesIO()
        with tarfile.open(fileobj=packed, mode="w") as archive:
            for name, content in files.items():
                data = content.encode() if isinstance(content, str) else content
                entry = tarfile.TarInfo(name)
                entry.size, entry.mode, entry.uid, entry.gid = len(data), 0o600, uid, uid
                entry.mtime = int(time.time())
                archive.addfile(entry, io.BytesIO(data))
        with _translated(f"files for {container.name}"):
            if not container.put_archive(folder, packed.getvalue()):
                raise LabError(f"{container.name} took no files in {folder}")

    def has(self, container: Container, path: str) -> bool:
        """Whether there is a file or folder of that path in a container, whether it runs or not."""
        try:
            with _translated(f"a look into {container.name}"):
                stream, _ = container.get_archive(path, chunk_size=512)
                next(iter(stream), b"")
                return True
        except LabError as error:
            if isinstance(error.__cause__, NotFound):
                return False
            raise

    def logs(self, container: Container, lines: int | None = None) -> str:
        with _translated(f"the log of {container.name}"):
            return bytes(container.logs(tail="all" if lines is None else lines)).decode(errors="replace")

    def execute(self, container: Container, command: Sequence[str]) -> int:
        """Run a command in a running container, its output on ours; its exit code."""
        with _translated(f"a command in {container.name}"):
            made = self.client.api.exec_create(container.id, list(command))["Id"]
            for piece in self.client.api.exec_start(made, stream=True):
                sys.stdout.buffer.write(piece)
                sys.stdout.buffer.flush()
            return int(self.client.api.exec_inspect(made)["ExitCode"])

    # ---- finding and taking away --------------------------------------------------------------

    def owned(self, lab: str | None = None) -> list[Owned]:
        """Everything of one lab, or of all labs, in the order in which it can be taken away."""
        wanted = {"label": LAB if lab is None else f"{LAB}={lab}"}
        found = []
        with _translated("a list of what is ours"):
            for each in self.client.api.containers(all=True, filters=wanted):
                found.append(_owned(each["Labels"], f"container {each['Names'][0].lstrip('/')}"))
            for each in self.client.api.networks(filters=wanted):
                found.append(_owned(each["Labels"], f"network {each['Name']}"))
            for each in self.client.api.volumes(filters=wanted)["Volumes"] or ():
                found.append(_owned(each["Labels"], f"volume {each['Name']}"))
        return found

    def ours(self, lab: str | None = None) -> list[Owned]:
        """The same without what is of another machine, or of a lab that another state folder still has: another user of
        the engine may have one of the same id."""
        return [each for each in self.owned(lab) if each.is_ours]

    def keep_logs(self, lab: str, folder: Path) -> None:
        """Write what each container of a lab of ours has said to ``folder``; what cannot be had is left out."""
        with suppress(LabError, OSError):
            for each in self.client.containers.list(all=True, filters={"label": f"{LAB}={lab}"}):
                if not _owned(each.labels, "").is_ours:
                    continue
                node = each.labels.get(PART) == "node"
                name = f"{'' if node else 'toxiproxy-'}{each.labels.get(HOST)}.log"
                (folder / name).write_text(self.logs(each))

    def remove(self, lab: str) -> list[str]:
        """Take away everything of a lab of ours; returns what would not go."""
        problems = []
        for _ in range(3):  # something may have been made while the first round looked
            left = self.ours(lab)
            if not left:
                return []
            problems = [text for each in left if (text := self._removed(each)) is not None]
        return problems or [f"{each.what} is still here" for each in self.ours(lab)]

    def _removed(self, each: Owned) -> str | None:
        kind, _, name = each.what.partition(" ")
        try:
            with _translated(f"the removal of {each.what}"):
                if kind == "container":
                    self.client.api.remove_container(name, force=True, v=True)
                elif kind == "network":
                    self.client.api.remove_network(name)
                else:
                    self.client.api.remove_volume(name, force=True)
        except LabError as error:
            cause = error.__cause__
            if isinstance(cause, NotFound) or (isinstance(cause, APIError) and "already in progress" in str(cause)):
                return None
            return str(error)
        return None

    def load(self, file: Path, repository: str, tag: str, changes: list[str]) -> None:
        """Make an image of a root file system."""
        with _translated(f"the import of {repository}:{tag}"):
            said = self.client.api.import_image_from_file(str(file), repository=repository, tag=tag, changes=changes)
        if '"error"' in said:
            raise LabError(f"the Docker engine did not take {repository}:{tag}: {said.strip()[-300:]}")

    def discard(self, container: str, volume: str | None = None) -> None:
        """Take one container, and its volume where that is named, away; fine when they are gone."""
        whats = [f"container {container}", *([f"volume {volume}"] if volume else [])]
        for each in (Owned("", "", what) for what in whats):
            if (problem := self._removed(each)) is not None:
                raise LabError(problem)
