"""A check in Python that a run asks as a command: it gets the run's folder and its nodes, and ends with the right code.

``expect: [{command: [python, -m, my_package.my_check]}]``; the module ends in ``answer(my_check)``. The check returns
None where it holds and a sentence where it does not, and raises :class:`Unknown` where it cannot tell.
"""

from __future__ import annotations

import json
import os
import sys
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn

import urllib3

from chaos.base import surroundings
from chaos.base.access import PLAIN, Access
from chaos.base.addresses import Address
from chaos.base.errors import ChaosError
from chaos.base.netsock import Endpoint
from chaos.opensearch.rest import NodeClient, short

HOLDS, FAILS, UNKNOWN, BROKEN = 0, 1, 3, 2
"""Exit codes: the last one is an error of the check itself."""
TIMEOUT_SECONDS = 5.0


class Unknown(Exception):
    """The check cannot tell: the expectation is inconclusive. Its text says why."""


@dataclass(frozen=True)
class Asked:
    """What a check may look at. ``folder``: the run's; ``nodes``: name to URL; ``phase``: the one that waits for it,
    None once the load has settled."""

    folder: Path
    nodes: Mapping[str, str]
    phase: str | None = None
    access: Access = field(default=PLAIN, repr=False)

    @classmethod
    def of_environment(cls, environment: Mapping[str, str] = os.environ) -> Asked:
        """From what a run puts into a command's environment. Raises :class:`Unknown` outside of a run."""
        try:
            nodes = {str(name): str(url) for name, url in json.loads(environment[surroundings.NODES]).items()}
            folder = Path(environment[surroundings.RUN])
        except (KeyError, ValueError, AttributeError) as error:
            raise Unknown(
                f"no run asks: {surroundings.RUN} and {surroundings.NODES} are not in the environment"
            ) from error
        tls = any(url.startswith("https:") for url in nodes.values())
        access = Access(
            tls=tls,
            ca=environment.get(surroundings.CA) if tls else None,
            user=environment.get(surroundings.USER),
            password=environment.get(surroundings.PASSWORD_FROM),
        )
        return cls(folder, nodes, environment.get(surroundings.PHASE), access)

    def get(self, path: str, node: str | None = None) -> Any:
        """The JSON that ``GET path`` gives, of this node, or of the first one that answers. Raises :class:`Unknown`
        where no node answers with status 2xx."""
        failed = []
        for name in [node] if node is not None else list(self.nodes):
            try:
                status, said = self._client(name).request("GET", path)
            except (urllib3.exceptions.HTTPError, OSError) as error:
                failed.append(f"{name}: {short(error) if isinstance(error, urllib3.exceptions.HTTPError) else error}")
                continue
            if 200 <= status < 300:
                return said
            failed.append(f"{name}: status {status}")
        raise Unknown(f"no node answers GET {path} ({'; '.join(failed) or 'there are no nodes'})")

    def _client(self, node: str) -> NodeClient:
        if node not in self.nodes:
            raise Unknown(f"there is no node {node}: there are {', '.join(self.nodes)}")
        at = Address.parse(self.nodes[node])
        return NodeClient(Endpoint(at.host, at.port), access=self.access, timeout=TIMEOUT_SECONDS)


Check = Callable[[Asked], str | None]


def answer(check: Check) -> NoReturn:
    """Ask a check, print what it says, and end this process with the exit code that says it to the run."""
    code, says = judged(check)
    if says:
        print(says, flush=True)
    sys.exit(code)


def judged(check: Check) -> tuple[int, str]:
    """Exit code and words. Whatever else a check raises is an error of its own, with its traceback."""
    try:
        says = check(Asked.of_environment())
    except (Unknown, ChaosError) as error:
        return UNKNOWN, str(error)
    except Exception:
        return BROKEN, traceback.format_exc()
    return (HOLDS, "") if says is None else (FAILS, says)
