"""Cases: what a file must say, and that an error names its place."""

from __future__ import annotations

from pathlib import Path

import pytest
from shipped import CASES, ROOT

from chaos.base.errors import InvalidInput
from chaos.definitions.upstream import load_case

CASE = f"""\
apiVersion: opensearch-chaos/v1
kind: upstream
name: deaf
title: it is deaf
thread: new
topology: {ROOT}/topologies/one-node.yaml
reproduces: {{3.8.0: always}}
promise: {{says: it listens, source: "https://example.org"}}
expected: it listens
seen: it does not
cause: ears
steps:
  - run: curl -s "$a_node"
    seen: deaf
    expected: well
control:
  says: with ears
  steps:
    - {{run: curl -s "$a_node", seen: deaf, expected: well}}
"""


def case(folder: Path, *changes: tuple[str, str], name: str = "deaf") -> Path:
    text = CASE
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    file = folder / f"{name}.yaml"
    file.write_text(text)
    return file


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_a_shipped_case_is_valid_and_named_for_the_versions_that_have_it(path: Path) -> None:
    found = load_case(path)
    written = found.written
    least = {"3.8.0"} if found.topology.service_hosts else {"3.4.0", "3.8.0"}  # repository-s3 is there for 3.8.0 alone
    assert least <= set(written.versions) <= {"2.19.6", "3.4.0", "3.8.0"}
    assert written.cause and len(written.title) < 160


def test_a_case_runs_every_node_on_the_version_that_is_asked_for(tmp_path: Path) -> None:
    found = load_case(case(tmp_path)).on("2.19.6")
    assert found.version == "2.19.6" and {node.version for node in found.nodes} == {None}


def test_nodes_of_a_mixed_case_keep_the_version_that_is_their_own(tmp_path: Path) -> None:
    """So a case can be about an upgrade that has stopped half way."""
    shipped = load_case(ROOT / "experiments" / "upstream" / "old-replicas-of-a-new-primary.yaml")
    found = shipped.on("3.4.0")
    versions = {node.name: node.version or found.version for node in found.nodes}
    assert versions == {"a-cm": "2.19.6", "a-old-1": "2.19.6", "a-old-2": "2.19.6", "a-new": "3.4.0"}
    mixed = case(tmp_path, ("reproduces:", "mixed: true\nreproduces:"))
    with pytest.raises(InvalidInput, match=r"deaf\.yaml:7:8: no node of one-node has a version of its own"):
        load_case(mixed)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (("thread: new", "thread: '#1'"), "deaf.yaml:5:9: .*https address, or new"),
        (("name: deaf", "name: blind"), "deaf.yaml:3:7: the name is blind and the file is deaf.yaml"),
        (
            ("    seen: deaf\n    expected: well\n", "    seen: deaf\n"),
            "deaf.yaml:13:5: steps: expected and seen",
        ),
        (("    seen: deaf\n    expected: well\n", ""), "deaf.yaml:12:1: no step decides"),
        (("    seen: deaf", "    seen: '('"), "deaf.yaml:14:11: .*no regular expression"),
        (("  - run:", "  - pause: a-data\n  - run:"), "deaf.yaml:13:12: node a-data is not in topology one-node"),
        (
            ("  - run:", "  - cut: [a-node, a-data]\n  - run:"),
            "deaf.yaml:13:10: node a-data is not in topology one-node",
        ),
        (("  - run:", "  - wait: 5\n  - run:"), "deaf.yaml:13:11: .*no unit"),
        (("  - run:", "  - wait: 5s\n    kill: a-node\n  - run:"), "deaf.yaml:13:5: steps: a step does one thing"),
        (("  - run:", "  - {wait: 5s, must: x}\n  - run:"), "deaf.yaml:13:5: steps: wait prints nothing"),
        (("one-node.yaml", "3az-secure.yaml"), "deaf.yaml:6:11: 3az-secure is secured"),
        (("3.8.0: always", "3.8.0: often"), "deaf.yaml:7:"),
        (("kind: upstream", "kind: topology"), "of kind topology, and of kind upstream was expected"),
    ],
)
def test_what_is_wrong_is_said_with_its_place(tmp_path: Path, change: tuple[str, str], says: str) -> None:
    with pytest.raises(InvalidInput, match=says):
        load_case(case(tmp_path, change))


def test_results_belong_to_the_steps_and_not_to_the_words(tmp_path: Path) -> None:
    first = load_case(case(tmp_path)).written.fingerprint
    assert load_case(case(tmp_path, ("cause: ears", "cause: other"))).written.fingerprint == first
    assert load_case(case(tmp_path, ("says: with ears", "says: hearing"))).written.fingerprint == first
    assert load_case(case(tmp_path, ("    seen: deaf", "    seen: dea"))).written.fingerprint != first
