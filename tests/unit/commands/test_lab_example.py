"""The example of ``lab exec`` names the address at which that host's node listens there."""

from __future__ import annotations

import re

from chaos.commands import labs
from chaos.definitions import load_topology
from chaos.targets.wiring import HTTP, Wiring


def test_the_example_asks_the_node_of_its_host() -> None:
    said = re.search(r"lab exec (\S+) (\S+) -- curl (\S+):(\d+)", str(labs.lab_exec.__doc__))
    assert said is not None
    wiring = Wiring.of_topology("3az", load_topology(said[1]))
    assert (said[3], int(said[4])) == (wiring[said[2]].loopback, HTTP)
