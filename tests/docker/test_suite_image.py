"""The Dockerfile: built without any registry or index on a base of Debian's packages, and used as its page says."""

from __future__ import annotations

import json
import shutil
import uuid
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import imagekit
import pytest
import wheelkit

from chaos.base import paths
from chaos.base.errors import Exit

docker = pytest.importorskip("docker")
pytestmark = [
    pytest.mark.full,
    pytest.mark.skipif(imagekit.lacking() is not None, reason=imagekit.lacking() or ""),
]


@pytest.fixture(scope="module")
def client() -> Iterator[object]:
    client = docker.from_env(timeout=600)
    yield client
    client.close()


@pytest.fixture(scope="module")
def image(client: docker.DockerClient, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    context = tmp_path_factory.mktemp("context")
    shutil.copy(imagekit.ROOT / "Dockerfile", context)
    wheelkit.wheelhouse(context / "wheelhouse")
    name = f"opensearch-chaos-test-{uuid.uuid4().hex[:8]}"
    client.api.import_image_from_file(str(imagekit.base()), repository=f"{name}-base", tag="latest")
    try:
        client.images.build(
            path=str(context),
            tag=name,
            buildargs={"BASE": f"{name}-base:latest"},
            network_mode="none",  # neither apt nor pip asks anybody
            rm=True,
            forcerm=True,
        )
        yield name
    finally:
        for each in (name, f"{name}-base"):
            for found in client.images.list(each):
                for id in (*made_of(client, found.id), found.id):
                    with suppress(docker.errors.ImageNotFound):  # it went with the last that was made of it
                        client.images.remove(id, force=True)


def made_of(client: docker.DockerClient, id: str) -> Iterator[str]:
    """The images of a build's stages that were made of an image, the last first."""
    for each in client.api.images(all=True):
        if each["ParentId"] == id:
            yield from made_of(client, each["Id"])
            yield each["Id"]


def called(client: docker.DockerClient, image: str, *words: str, **options: object) -> tuple[int, str]:
    """The exit code of a container, and what it printed."""
    container = client.containers.create(image, list(words), **options)
    try:
        try:
            container.start()
        except docker.errors.APIError as error:
            if options.get("privileged") and "unable to apply caps" in str(error):
                pytest.skip("this machine grants no container all capabilities: a lab in one cannot be tried here")
            raise
        code = container.wait(timeout=500)["StatusCode"]
        return code, container.logs().decode()
    finally:
        container.remove(force=True)


def test_without_root_it_does_what_needs_no_lab(client: docker.DockerClient, image: str) -> None:
    assert called(client, image, "-un", entrypoint="id") == (0, "chaos\n")
    for words, says in (
        ((), "First steps"),
        (("faults", "node.kill"), "node.kill"),
        (("experiments",), "zone-network-slowdown"),
        (("validate", "experiments/ab/refresh-interval.yaml"), "valid experiment"),
        (("plan", "zone-network-slowdown"), "undo"),
    ):
        code, said = called(client, image, *words, network_mode="none")
        assert code == 0 and says in said, said
    code, said = called(client, image, "run", "no-fault", network_mode="none")
    assert code == Exit.USAGE and "root" in said, said


def test_a_privileged_container_has_a_lab(client: docker.DockerClient, image: str, tmp_path: Path) -> None:
    code, said = called(
        client,
        image,
        *("run", "no-fault", "--topology", "one-node", "--out", "/reports"),
        *(f"--set=phases.{phase}.for=10s" for phase in ("healthy", "idle", "still")),
        user="root",
        privileged=True,
        init=True,
        network_mode="none",
        volumes={
            str(paths.cache()): {"bind": "/var/cache/opensearch-chaos", "mode": "rw"},
            str(tmp_path): {"bind": "/reports", "mode": "rw"},
        },
    )
    (run,) = (path for path in tmp_path.iterdir() if (path / "plan.json").is_file())
    assert code in (Exit.PASS, Exit.WEAKNESS, Exit.INCONCLUSIVE), said
    assert json.loads((run / "clean.json").read_text())["clean"] is True, said
    findings = json.loads((run / "findings.json").read_text())
    lost = [each for each in findings["findings"] if each["metric"] == "acknowledged.lost"]
    assert [each["verdict"] for each in lost] == ["pass"], said
