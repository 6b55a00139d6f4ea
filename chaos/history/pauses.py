"""A paused process of the run, as events: the words for writer, checks and pages alike.

process.paused    ``what``: node, service or http; ``name``, and ``node`` and ``zone`` where it has them; ``pid``;
                  ``state``: the kernel's letter, T (a signal, or its engine) or t (a debugger); ``commanded``:
                  whether a move of ours paused it; ``during``: the phase that permits external actors to do so
                  (:mod:`chaos.history.during`), left out elsewhere. ``t`` is the first look that found it paused,
                  ``since`` the last one before it, that did not (ns; null: there was none)
process.resumed   ``what``, ``name``, ``pid``; ``gone``: it had ended, or was another one. ``t`` is the first look
                  that did not find it paused
pauses.watched    the watch begins
pauses.unwatched  the watch ends; ``because``: why, if that was too early
"""

from __future__ import annotations

PAUSED, RESUMED = "process.paused", "process.resumed"
WATCHED, UNWATCHED = "pauses.watched", "pauses.unwatched"
