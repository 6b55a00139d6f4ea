"""A process of the run that somebody paused, as events: the words for writer, checks and pages alike.

process.paused    ``what``: node, service or http; ``name``, and ``node`` and ``zone`` where it has them; ``pid``;
                  ``state``: the kernel's letter, T (a signal, or its engine) or t (a debugger); ``commanded``:
                  whether a move of ours had asked for it; ``during``: the phase that lets others do it
                  (:mod:`chaos.history.during`), left out elsewhere. ``t`` is the first look that saw it paused
process.resumed   ``what``, ``name``, ``pid``; ``gone``: it had ended, or was another one. ``t`` is the first look
                  that did not see it paused any more
pauses.watched    from then on it is looked at whether processes are paused
pauses.unwatched  until then, and ``because``: why if that was too early
"""

from __future__ import annotations

PAUSED, RESUMED = "process.paused", "process.resumed"
WATCHED, UNWATCHED = "pauses.watched", "pauses.unwatched"
