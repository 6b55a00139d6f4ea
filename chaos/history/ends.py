"""How a process ended, from what is known of it: the words of the event ``process.ended``, for writer and checks alike.

The event is written for every process of a run that ends while it is watched (:mod:`chaos.instruments.process_exits`)::

    what        node, toxiproxy, service, http, driver, controller, echo or keeper
    name        of the node, or of the host or zone whose it is; ``node`` and ``zone`` where it has them
    pid         its number; ``t`` of the event is when the kernel said that it was gone
    exit_code   what it exited with; None where a signal ended it, or nobody knows
    signal      the signal that ended it, by name; a process that takes SIGTERM in good order says so as well (143)
    oom_kill    whether the kernel's counter of kills for want of memory grew; None where there is none
    fatal       the first line of its log, or of the JVM's report, by which it died of an error of its own
    sent        whether the JVM's report says that a process sent it the signal that it died of
    report      the name of the JVM's report in the run's ``logs``, None where it left none
    log_tail    the last lines of its log
    commanded   whether a move of ours had asked for it
    during      the phase that lets others end it (:mod:`chaos.history.during`); left out elsewhere
    how         ``by itself``, ``from outside`` or ``unknown``

``processes.watched`` says which processes are watched from then on, ``processes.unwatched`` until when, and why if that
was too early.
"""

from __future__ import annotations

import re
import signal
import textwrap
from collections.abc import Iterable, Mapping
from typing import Any

KIND = "process.ended"
WATCHED, UNWATCHED = "processes.watched", "processes.unwatched"
ITSELF, OUTSIDE, UNKNOWN = "by itself", "from outside", "unknown"
SIGNALLED = 128
"""A shell's exit code of a process that a signal ended is this and the signal's number."""
SENT = frozenset({"SIGHUP", "SIGINT", "SIGKILL", "SIGTERM", "SIGQUIT", "SIGUSR1", "SIGUSR2", "SIGPIPE", "SIGALRM"})
"""Signals that no process of ours ends of unless somebody sends them."""
FATAL = re.compile(
    r"fatal error in thread"  # OpenSearch's handler of errors that nothing catches; it ends the node
    r"|uncaught exception in thread \[main\]"  # it did not start
    r"|A fatal error has been detected by the Java Runtime Environment"
    r"|(?:Terminating|Aborting) due to java\.lang\.OutOfMemoryError"
    r"|There is insufficient memory for the Java Runtime Environment"
    r"|Error occurred during initialization of VM"
    r"|^panic: |^fatal error: "  # a Go program
)
"""Lines after which nothing lives on."""
ERROR = re.compile(r"[\w.$]+(?:Error|Exception)\b")
"""The first line of a stack."""
REPORTED = re.compile(
    r"^#\s+(?:Internal Error|SIG\w+|fatal error|Out of Memory Error|There is insufficient memory).*", re.M
)
"""The line of the JVM's report that says what happened."""
BY_KILL = re.compile(r"\(sent by kill\)|^siginfo:.*\b(?:si_pid|sent from pid)\b", re.M)
"""The JVM notes who sent a signal; what an instruction of its own raised has an address instead."""
REPORT_HEAD = 4096
"""Characters of a report within which it says what happened."""
MIXED = 200
"""Lines below a fatal one within which the stack of its error begins, where other threads' lines come between: stacks
of the same moment have some 40 lines each."""
SPOKEN = 240
"""Characters of a fatal line in a sentence; the event and the log have all of it."""
LINES, CHARACTERS = 20, 400
"""How many of a log's last lines are kept, and how much of each."""


def parted(code: int | None) -> tuple[int | None, str | None]:
    """(exit code, signal) of a code as a shell (128 and the signal) or Python (the signal, negative) says it."""
    if code is None:
        return None, None
    number = -code if code < 0 else code - SIGNALLED
    try:
        return None, signal.Signals(number).name
    except ValueError:
        return code, None


def how(fact: Mapping[str, Any]) -> str:
    """Who ended it: ``by itself``, ``from outside``, or ``unknown``, by the fields of the event."""
    number, code = fact.get("signal"), fact.get("exit_code")
    if fact.get("oom_kill"):
        return OUTSIDE  # the kernel; no node has a limit that it could know of, unless a fault set one
    if number in SENT or fact.get("sent"):
        return OUTSIDE
    if code == 0 and fact.get("what") != "node":
        return UNKNOWN  # in good order, as a program of ours does that was told to
    if fact.get("report") or fact.get("fatal") or code is not None:
        return ITSELF
    return UNKNOWN


def sentence(fact: Mapping[str, Any]) -> str:
    """``node a-data was ended from outside (SIGKILL)``."""
    what, name, who = str(fact.get("what")), str(fact.get("name")), how(fact)
    subject = {
        "node": f"node {name}",
        "toxiproxy": f"the Toxiproxy of {name}",
        "http": f"the HTTP layer of {name}",
        "service": f"the service {name}",
        "driver": "the load driver",
        "echo": "the echo beside the nodes",
        "keeper": "the keeper, which would have undone this run had the runner died,",
        "controller": f"the failover controller of zone {name}",
    }.get(what, f"{what} {name}")
    told = [f"exit code {fact['exit_code']}" if fact.get("exit_code") is not None else str(fact.get("signal") or "")]
    if fact.get("oom_kill"):
        told.append("the kernel, for want of memory")
    if who == ITSELF and fact.get("fatal"):
        told.append(textwrap.shorten(str(fact["fatal"]), SPOKEN, placeholder=" …"))
    known = "; ".join(each for each in told if each) or "nobody knows how"
    verb = {ITSELF: "ended by itself", OUTSIDE: "was ended from outside"}.get(who, "ended, and nobody knows why")
    return f"{subject} {verb} ({known})"


def first_fatal(lines: Iterable[str]) -> str | None:
    """The first line that a process dies of, without what logs put before it, and with the error that it names next.

    Where threads die together their lines mix: then one that names its error at once comes before those that do not,
    and of those the error is the next that begins a line.
    """
    known = list(lines)
    later = None
    for number, line in enumerate(known):
        if found := FATAL.search(line):
            said = line[found.start() :].strip()
            below = [each.strip() for each in known[number + 1 : number + 1 + MIXED]]
            if below and ERROR.match(below[0]):
                return f"{said}: {below[0]}"[:CHARACTERS]
            named = next((each for each in below if ERROR.match(each)), None)
            later = later or (f"{said}: {named}" if named else said)[:CHARACTERS]
    return later


def reported(text: str) -> tuple[str | None, bool]:
    """(What the JVM's report says happened, whether somebody sent the signal)."""
    found = [line.lstrip("# ").strip() for line in REPORTED.findall(text[:REPORT_HEAD])]
    return ("; ".join(found)[:CHARACTERS] or None), BY_KILL.search(text) is not None


def tail(lines: Iterable[str]) -> list[str]:
    """The last lines, clipped; where a fatal one came before them, also those that begin with it."""
    known = [line.rstrip()[:CHARACTERS] for line in lines]
    first = next((number for number, line in enumerate(known) if FATAL.search(line)), len(known))
    if first >= len(known) - LINES:
        return known[-LINES:]
    half = LINES // 2
    return [*known[first : first + half], "…", *known[1 - half :]]
