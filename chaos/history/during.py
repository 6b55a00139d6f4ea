"""What a phase waited for that is not ours (``during``), as events: the words for writer, checks and pages alike.

    during.begun    ``phase``, ``says``: what is waited for; ``how``: ``command`` or ``manual``; ``nodes`` that it may
                    end and whose processes must be seen to be others; ``settings`` of the cluster that it may change;
                    ``grade``: ``path``, or ``reported`` where nothing proves it. From here on the phase's clocks count.
    during.over     ``phase``, ``ok``, ``says``, ``seconds``; of a command ``exit_code`` (as a shell says it, None where
                    it was ended by us or by its deadline), ``log`` (file in the run's ``logs``) and ``last``, the last
                    lines of it
    during.setting  ``phase``, ``name``, ``before``, ``now``: a setting that it may change, seen to have changed
    during.proof    ``phase``, ``proven``, ``says``, and ``nodes``: name → ``before`` and ``after`` (``process``,
                    ``version``, ``started``: ms since 1970), each None where the node was not there

An end of a node's process (``process.ended``) that the phase allows has ``during``, the phase's name.
"""

from __future__ import annotations

BEGUN, OVER, PROOF = "during.begun", "during.over", "during.proof"
SETTING = "during.setting"
ALLOWS = "during"
"""The key of an end of a process that a phase allows."""
