"""The echo itself: started by :mod:`chaos.instruments.echo` as a program of its own, with nothing but Python's library.

One process asks, one for each data zone answers. A question comes at its intended time, is worked on by the process of
one zone, then by that of the next, as a search is by the node that took it and by one that has a copy; then the answer
is there. What it took counts from the intended time, so that whoever kept any of them waiting is in it. The work is
processor time, so a machine without a free processor shows, whoever has them.

First line on standard output: the answerers' pids as JSON. Then questions are asked until standard input ends, or this
process's parent does. One line of JSON for each second goes to the file: ``t`` (its start, CLOCK_MONOTONIC ns),
``kind`` echo, ``took_ms`` (of every question that was due in it, in their order; null: no answer within 5 s).
"""

import json
import os
import select
import signal
import socket
import struct
import sys
import time
from contextlib import suppress

SECOND = 1_000_000_000
PATIENCE_S = 5
QUESTION = struct.Struct("<QB")
"""Its number, and how many answerers are still to work on it."""
VISITS = 2


def work(ns: int) -> None:
    """Use this much processor time, however long that takes."""
    until = time.thread_time_ns() + ns
    while time.thread_time_ns() < until:
        pass


def answer(
    number: int, inboxes: list[tuple[socket.socket, socket.socket]], back: socket.socket, ns: int, asker: int
) -> None:
    """One answerer, until it is killed or whoever asks is gone.

    ``asker``: its pid, as it knows it itself; who is asked for a parent may have another one by then.
    """
    mine = inboxes[number][1]
    following = inboxes[(number + 1) % len(inboxes)][0]
    while os.getppid() == asker:
        ready, _, _ = select.select([mine], [], [], 1.0)
        if ready:
            k, visits = QUESTION.unpack(mine.recv(QUESTION.size))
            work(ns)
            (following if visits > 1 else back).send(QUESTION.pack(k, visits - 1))


def ask(out: int, inboxes: list[tuple[socket.socket, socket.socket]], back: socket.socket, rate: int) -> None:
    """Ask ``rate`` questions a second, in an open loop, until standard input ends."""
    begin = (time.monotonic_ns() // SECOND + 1) * SECOND
    step = SECOND // rate
    asked, written = 0, 0
    took: dict[int, float] = {}
    parent = os.getppid()
    while os.getppid() == parent:
        now = time.monotonic_ns()
        while begin + asked * step <= now:
            with suppress(BlockingIOError):  # so many wait already: this one has no answer either
                inboxes[asked % len(inboxes)][0].send(QUESTION.pack(asked, VISITS), socket.MSG_DONTWAIT)
            asked += 1
        due = (begin + asked * step - time.monotonic_ns()) / SECOND
        ready, _, _ = select.select([back, sys.stdin], [], [], max(0.0, due))
        if sys.stdin in ready:
            return  # nothing is ever said there: it has ended
        if back in ready:
            k, _ = QUESTION.unpack(back.recv(QUESTION.size))
            took[k] = round((time.monotonic_ns() - begin - k * step) / 1e6, 1)
        while begin + (written + 1) * SECOND <= time.monotonic_ns():
            numbers = range(written * rate, (written + 1) * rate)
            late = time.monotonic_ns() > begin + (written + 1 + PATIENCE_S) * SECOND
            if not late and any(k not in took for k in numbers):
                break
            line = {"t": begin + written * SECOND, "kind": "echo", "took_ms": [took.pop(k, None) for k in numbers]}
            os.write(out, json.dumps(line, separators=(",", ":")).encode() + b"\n")
            written += 1


def main(file: str, answerers: int, rate: int, work_us: int) -> None:
    """``file``: what is measured goes there. ``answerers``: one for each zone. ``work_us``: µs of work a visit."""
    out = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    inboxes = [socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM) for _ in range(answerers)]
    answered, back = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    pids = []
    me = os.getpid()
    for number in range(answerers):
        pid = os.fork()
        if pid == 0:
            answer(number, inboxes, answered, work_us * 1000, me)
            os._exit(0)
        pids.append(pid)
    print(json.dumps(pids), flush=True)
    try:
        ask(out, inboxes, back, rate)
    finally:
        for pid in pids:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)


if __name__ == "__main__":
    main(sys.argv[1], *map(int, sys.argv[2:5]))
