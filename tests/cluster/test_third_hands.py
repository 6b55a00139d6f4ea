"""A third hand steers the cluster in mid-run: on a real cluster it is seen within seconds, named, and the run ends."""

from __future__ import annotations

import pytest
from clusterkit import DATA, Cli, await_event, events, findings, in_effect, nothing_left

from chaos.history import configuration
from chaos.observe.proof import problems
from chaos.opensearch.requests import weights_path
from chaos.opensearch.views import administer, await_green

SLOW = DATA / "slow.yaml"
VOTES = "/_cluster/voting_config_exclusions"
ANEW = ", and there is a new one of its name"
"""After a deleted index, once the load has written again."""
HANDS = {
    "cluster": (
        ("PUT", "/_cluster/settings", {"persistent": {"cluster.routing.allocation.enable": "none"}}),
        ("PUT", "/_cluster/settings", {"persistent": {"cluster.routing.allocation.enable": None}}),
        "changed the cluster's setting cluster.routing.allocation.enable from unset to none",
    ),
    "index": (
        ("PUT", "/{index}/_settings", {"index.refresh_interval": "30s"}),
        None,
        "changed the load's index's setting index.refresh_interval from unset to 30s",
    ),
    "closed": (  # from then on each request of the load is refused as wrong
        ("POST", "/{index}/_close", None),
        None,
        "changed the load's index's setting index.verified_before_close from unset to true",
    ),
    "deleted": (  # and the load's next write makes one anew
        ("DELETE", "/{index}", None),
        None,
        "deleted the load's index",
    ),
    "weights": (
        ("PUT", weights_path(), {"weights": {"a": "1", "b": "1", "c": "0"}, "_version": -1}),
        ("DELETE", weights_path(), {"_version": 0}),
        "changed the zones' weights from unset to a 1, b 1, c 0",
    ),
    "votes": (
        ("POST", f"{VOTES}?node_names=b-all", None),
        ("DELETE", f"{VOTES}?wait_for_removal=false", None),
        "changed which nodes have no vote from unset to b-all",
    ),
}


@pytest.mark.full
@pytest.mark.parametrize("hand", HANDS)
def test_who_steers_the_cluster_in_mid_run_is_found(tiny, out, hand):
    there, back, says = HANDS[hand]
    running = Cli("run", SLOW, "--out", out, "--on", tiny.id)
    try:
        await_event(running, out, in_effect)
        (made,) = [event["index"] for event in events(out) if event["kind"] == "index.routing"]
        method, path, body = there
        assert administer(tiny, method, path.format(index=made), body)[0] == 200
        code, output = running.end()
    finally:
        if back is not None:
            assert administer(tiny, *back)[0] == 200
    assert code == 3, output
    found = findings(out)
    assert found["outcome"] == "inconclusive" and found["clean"] is True
    assert f"omebody else {says}, between " in found["summary"].replace(ANEW, ""), found["summary"]
    (event,) = [event for event in events(out) if event["kind"] == configuration.CHANGED]
    assert 0 < event["t"] - event["since"] < 30e9
    assert await_green(tiny, 60)[0] and problems(tiny) == [] and nothing_left() == []
