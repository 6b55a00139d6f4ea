"""Pods in a target's file: what belongs together, what is refused with its place, and what production is."""

from __future__ import annotations

from pathlib import Path

import pytest
from unit.definitions.test_existing import UNTIL, written

from chaos.base.errors import InvalidInput
from chaos.definitions.existing import load_existing
from chaos.targets.existing import offered

UID = "0b1c2d3e-0000-4000-8000-00000000000"
SECTION = f"""\
kubernetes:
  namespace: search
  selector: app.kubernetes.io/name=opensearch
  identity:
    cluster: {UID}1
    namespace: {UID}2
    stateful_sets: {{opensearch-data: {UID}3}}
"""


def file(folder: Path, section: str = SECTION, *changes: tuple[str, str]) -> Path:
    plain = written(folder, (UNTIL, UNTIL + section))
    text = plain.read_text()
    for old, new in changes:
        assert old in text, (old, text)
        text = text.replace(old, new)
    plain.write_text(text)
    return plain


def pods(text: str) -> str:
    """A pod for each node of the file, by the node's own name."""
    lines = text.splitlines()
    begin = lines.index("nodes:") + 1
    for number in range(begin, len(lines)):
        if not lines[number].startswith("  "):
            break
        name = lines[number].strip().partition(":")[0]
        lines[number] = lines[number].replace("{", f"{{pod: {name}, ", 1)
    return "\n".join(lines) + "\n"


def with_pods(folder: Path, section: str = SECTION) -> Path:
    plain = file(folder, section)
    plain.write_text(pods(plain.read_text()))
    return plain


def test_pods_are_a_capability_where_the_file_names_them_and_only_there(tmp_path: Path) -> None:
    target = load_existing(with_pods(tmp_path))
    assert offered.by(target.written)("pods") is None
    assert target.kubeconfig is None
    plain = load_existing(written(tmp_path))
    assert "the file names no pods of Kubernetes" in str(offered.by(plain.written)("pods"))


def test_a_kubeconfig_is_beside_the_file(tmp_path: Path) -> None:
    target = load_existing(with_pods(tmp_path, SECTION + "  kubeconfig: keys/box.yaml\n"))
    assert target.kubeconfig == tmp_path / "keys" / "box.yaml"


def test_every_node_has_its_pod(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="has no pod: expected the pod of each node"):
        load_existing(file(tmp_path))


def test_a_pod_without_kubernetes_is_refused(tmp_path: Path) -> None:
    plain = written(tmp_path)
    plain.write_text(pods(plain.read_text()))
    with pytest.raises(InvalidInput, match="pod is of Kubernetes, and the file does not say which"):
        load_existing(plain)


def test_a_pod_is_one_nodes(tmp_path: Path) -> None:
    plain = with_pods(tmp_path)
    lines = plain.read_text().splitlines()
    named = [line.split("pod: ")[1].partition(",")[0] for line in lines if "{pod: " in line]
    plain.write_text("\n".join(lines).replace(f"pod: {named[1]},", f"pod: {named[0]},") + "\n")
    with pytest.raises(InvalidInput, match=f"{named[0]} is that of .* already"):
        load_existing(plain)


def test_what_is_forwarded_begins_on_loopback(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match=r"is not on loopback|no node has a url"):
        load_existing(with_pods(tmp_path, SECTION + "  forward: 9200\n"))


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("namespace: search", "namespace: Search", "namespace"),
        ("namespace: search", "namespace: search-prod", "the namespace search-prod is called prod"),
        ("  namespace: search", "  context: live\n  namespace: search", "the context live is called live"),
        (f"cluster: {UID}1", "cluster: 12", "cluster"),
        (f"{{opensearch-data: {UID}3}}", "{}", "stateful_sets"),
        ("  selector: app.kubernetes.io/name=opensearch\n", "", '"selector" is missing'),
    ],
)
def test_what_cannot_be_is_refused(tmp_path: Path, old: str, new: str, says: str) -> None:
    assert old in SECTION
    with pytest.raises(InvalidInput, match=says):
        load_existing(with_pods(tmp_path, SECTION.replace(old, new)))
