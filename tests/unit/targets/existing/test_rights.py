"""The least rights of a target's user: what its file does not allow is not in them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from staging import file
from typer.testing import CliRunner

from chaos.cli import app
from chaos.definitions.existing import ExistingFile
from chaos.targets.existing import rights


def of(**keys: Any) -> ExistingFile:
    return ExistingFile.model_validate(file().model_dump(mode="json", by_alias=True, exclude_none=True) | keys)


def test_what_the_file_does_not_allow_is_not_in_the_role() -> None:
    looking = rights.role(of())
    seen = (*rights.LOOK, *rights.AUDIT, *rights.AUDIT_SNAPSHOTS)
    assert looking["cluster_permissions"] == list(seen)
    assert [each["index_patterns"] for each in looking["index_permissions"]] == [["*"]]
    node = rights.role(of(rung="node", until="2027-01-31", notes=".chaos", settings=["a.b"]))
    assert set(node["cluster_permissions"]) == {*seen, *rights.RUN}
    assert node["index_permissions"][1] == {
        "index_patterns": ["oschaos-*", ".failover-canary-*", ".chaos"],
        "allowed_actions": ["indices_all"],
    }
    zone = rights.role(of(rung="zone", until="2027-01-31", settings=["a.b"]))
    acts = {*rights.ZONES, *rights.CONTROLLERS}
    assert set(zone["cluster_permissions"]) == {*seen, *rights.RUN, *acts, *rights.SETTINGS}
    assert not set(rights.SETTINGS) & set(rights.role(of(rung="zone", until="2027-01-31"))["cluster_permissions"])


def test_nothing_that_is_not_ours_may_be_written() -> None:
    every = of(rung="zone", until="2027-01-31", settings=["a.b"], reads={"indices": ["orders"], "most": "1/s"})
    for each in rights.role(every)["index_permissions"]:
        ours = all(pattern.startswith(("oschaos-", ".")) for pattern in each["index_patterns"])
        acts = [action for action in each["allowed_actions"] if not action.endswith("/get")]
        assert ours or all(":write/" not in action and ":admin/" not in action for action in acts)


def test_a_policy_of_iam_lets_look_and_search_what_may_be_read() -> None:
    signed = of(access={"sigv4": {"region": "eu-west-1"}}, reads={"indices": ["orders"], "most": "1/s"})
    look, search = rights.policy(signed)["Statement"]
    assert look["Action"] == ["es:ESHttpGet"] and "eu-west-1" in look["Resource"][0]
    assert search == {
        "Effect": "Allow",
        "Action": ["es:ESHttpPost"],
        "Resource": ["arn:aws:es:eu-west-1:ACCOUNT:domain/DOMAIN/orders/_search"],
    }
    assert len(rights.policy(of())["Statement"]) == 1


def test_a_policy_of_iam_lets_runs_touch_their_own_indices_and_what_the_rung_allows() -> None:
    def allowed(**more: Any) -> dict[str, set[str]]:
        found: dict[str, set[str]] = {}
        for statement in rights.policy(of(until="2027-01-31", notes=".notes", prefix="ours-", **more))["Statement"]:
            for resource in statement["Resource"]:
                found.setdefault(resource.partition("DOMAIN/")[2], set()).update(statement["Action"])
        return found

    node, zone = allowed(rung="node"), allowed(rung="zone", settings=["a.b"])
    assert set(node) == {"*", "ours-*", ".notes", ".notes/*"} and node["*"] == {"es:ESHttpGet"}
    assert set(zone) - set(node) == {
        "_cluster/routing/awareness/*",
        "_cluster/decommission/awareness*",
        "_cluster/voting_config_exclusions",
        "_cluster/settings",
    }
    assert "_cluster/settings" not in allowed(rung="zone")


def test_the_command_prints_json_alone(tmp_path: Path) -> None:
    path = tmp_path / "staging.yaml"
    path.write_text(json.dumps(of().model_dump(mode="json", by_alias=True, exclude_none=True)))
    for options in ([], ["--iam"]):
        done = CliRunner().invoke(app, ["target", "rights", str(path), *options])
        assert done.exit_code == 0 and json.loads(done.stdout)
