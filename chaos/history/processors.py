"""Which processors a run may use, and the events that say so.

The plan's ``machine.usable`` says that these events are due: ``processors`` (numbers of those that the runner may use),
``of`` (how many the machine has), ``quota`` (processors' worth of time, or None). The events are written by the watch
over them (:mod:`chaos.instruments.processors`):

    machine.usable     what runner, load driver, nodes and Toxiproxies may use from now on, at first and whenever it
                       changes: ``of``; ``sets``: each different set of processors that one of them is held to, without
                       those that may use all; ``who``: process → ``sets``, ``by`` (``affinity`` or ``cpuset``) and
                       ``quota``, of those alone that are limited; ``unknown``: processes of which that cannot be read
    machine.throttled  a quota made somebody wait: ``since`` and ``until`` (monotonic ns), ``groups``: seconds of
                       waiting by control group, with ``who`` is in it
    machine.unwatched  ``last``: the last look (monotonic ns), ``because``: why, if the watch broke

In ``driver.jsonl`` ``usable`` has the slices of each of those sets: ``of`` (numbers) and ``slices`` (start, end, busy
share of these processors), like ``processors`` has them of the whole machine.
"""

from __future__ import annotations

USABLE, THROTTLED, UNWATCHED = "machine.usable", "machine.throttled", "machine.unwatched"
