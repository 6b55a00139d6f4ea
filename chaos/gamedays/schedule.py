"""Files by which a scheduler of yours fires a game day. Nothing here runs one: ``gameday run`` holds every gate itself.

A scheduler may fire late, twice or by the wrong clock. What is printed only makes that rare, and bounds how long the
process may live. Facts: systemd 252 (systemd.timer(5), systemd.service(5), systemd.exec(5)), crontab(5) of cronie,
Kubernetes 1.27 and newer (CronJob with timeZone), GitHub Actions (workflow syntax).
"""

from __future__ import annotations

import json
import math
import os
import re
import shlex
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from io import StringIO
from pathlib import Path
from typing import Any, Literal, get_args
from zoneinfo import ZoneInfo

from chaos.base.errors import InvalidInput
from chaos.base.text import listed
from chaos.definitions.gameday import WEEKDAYS, GameDay, Window
from chaos.definitions.source import Source
from chaos.gamedays.announce import stop_line
from chaos.gamedays.switches import lifted, object_name
from chaos.gamedays.windows import changes, local
from chaos.kubernetes import rights
from chaos.kubernetes.rights import Right
from chaos.run.recovering_on import CONTROLLED_SECONDS

Kind = Literal["systemd", "cron", "kubernetes", "github"]
KINDS: tuple[Kind, ...] = get_args(Kind)
PATH = "/usr/local/bin:/usr/bin:/bin"
"""Where cron is told to look for programs, as systemd does by itself."""
GATES_SECONDS = 900
"""Above the day's own bounds: the gates come before it, and may wait for a lock, and until the cluster is still."""
UNDO_SECONDS = math.ceil(CONTROLLED_SECONDS) + 60
"""Above the abort bound: `recover` first watches that a dead run's lock stands still, and then undoes."""
ROOM: dict[Kind, int] = {"systemd": 30, "cron": 30, "kubernetes": 60, "github": 900}
"""Seconds by which each fires late on good days; a window without that much room would never be met."""
LATE_SECONDS = 60
"""How late a job of Kubernetes may still be started."""
LEAST_DELAY, MOST_DELAY = 10, 60
"""Seconds by which systemd may put off days that open at the same moment; less is not worth it."""
MOST_OF_LINE = 990
"""Characters that a command of cron may have."""
CHECKOUT_MINUTES = 15
"""Of a workflow, for all beside the day."""
IMAGE = "opensearch-chaos:CHANGE-ME"
LABEL = "opensearch-chaos/gameday"
"""Of a pod that holds a game day."""
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff]")


@dataclass(frozen=True)
class Plan:
    """What all files say of a day. Durations are whole seconds. ``pods``: the namespace of OpenSearch's pods, and what
    the day's experiments need there, where its target is in Kubernetes."""

    day: GameDay
    command: tuple[str, ...]
    working: str
    user: str
    now: datetime
    image: str
    pods: tuple[str, tuple[Right, ...]] | None = None

    @property
    def window(self) -> Window:
        return self.day.written.window

    @property
    def name(self) -> str:
        return f"opensearch-chaos-gameday-{self.day.name}"

    @property
    def runs(self) -> int:
        """How long the process may run until it is told to stop."""
        return math.ceil(float(self.day.written.bounds.day) + float(self.day.written.bounds.abort)) + GATES_SECONDS

    @property
    def stops(self) -> int:
        """How long it may take to stop."""
        return math.ceil(float(self.day.written.bounds.abort)) + UNDO_SECONDS

    @property
    def slack(self) -> int:
        """Seconds between the opening and the last moment at which a day may begin, on days without a clock change."""
        bounds = self.day.written.bounds
        room = _minutes(self.window.to, self.window) * 60 - float(bounds.day) - float(bounds.abort)
        if self.window.last_start is not None:
            room = min(room, _minutes(self.window.last_start, self.window) * 60)
        return math.floor(room)

    @property
    def run(self) -> tuple[str, ...]:
        return self.command if self.whole else (*self.command, "gameday", "run", self.file)

    @property
    def recover(self) -> tuple[str, ...]:
        return (*self.program, "recover", "--on", self._below(self.day.target))

    @property
    def whole(self) -> bool:
        """Whether the command that was given says already what it runs."""
        return "gameday" in self.command[1:]

    @property
    def program(self) -> tuple[str, ...]:
        """How opensearch-chaos is called."""
        return self.command[: self.command.index("gameday", 1)] if self.whole else self.command

    @property
    def file(self) -> str:
        return self._below(self.day.folder / Path(self.day.file).name)

    def _below(self, path: Path) -> str:
        """As it is named from the working folder, where a checkout is taken to be as it is here."""
        whole, here = Path(os.path.normpath(path)), Path.cwd()
        working = here / os.path.normpath(self.working)
        if whole.is_relative_to(working):
            return os.path.relpath(whole, working)
        if not whole.is_relative_to(here) or here == Path("/"):
            return str(whole)
        return os.path.relpath(whole, here if Path(self.working).is_absolute() else working)

    @property
    def secrets(self) -> list[str]:
        """Names of the environment that the day's file refers to; those of the target's file are not among them."""
        return sorted({text.removeprefix("env:") for text in _texts(self.day.written.model_dump(mode="json"))})

    @property
    def programs(self) -> bool:
        """Whether the day or its target runs programs of their owners, which may want other rights."""
        hooks = Source.read(self.day.target).data.get("hooks") if self.day.target.is_file() else None
        return bool(hooks) or any(guard.program is not None for guard in self.day.written.guards.values())


def printed(
    day: GameDay,
    kind: str,
    *,
    command: Sequence[str],
    working: str,
    user: str,
    now: datetime | None = None,
    image: str = IMAGE,
    pods: tuple[str, tuple[Right, ...]] | None = None,
) -> dict[str, str]:
    """File name → text of what fires a day at each opening of its window.

    ``command``: how opensearch-chaos is called (``["/opt/chaos/bin/opensearch-chaos"]``), or all that is run, as
    ``[…, "gameday", "run", FILE]`` with the file as it is named in ``working``. ``working``: the folder in which it
    runs, absolute, but for GitHub below the checkout. ``user``: as whom; for Kubernetes a number or a name, for GitHub
    whoever the runner is. ``now``: from when GitHub's offsets count. ``image`` and ``pods``, as :class:`Plan` has them:
    for Kubernetes. Raises InvalidInput.
    """
    which = next((each for each in KINDS if each == kind), None)
    if which is None:
        raise InvalidInput(f"there is no schedule for {kind}", remedy=f"write one of {listed(list(KINDS))}")
    made = Plan(day, tuple(command), working, user, now if now is not None else datetime.now(UTC), image, pods)
    _refuse(made, which)
    return PRINTERS[which](made)


def _refuse(plan: Plan, kind: Kind) -> None:
    stop = plan.day.written.stop.file
    for what, text in (
        *(("the command", word) for word in plan.command),
        *(("the working folder", plan.working), ("the user", plan.user), ("the image", plan.image)),
        *(("the day's file", plan.file), ("the target's file", str(plan.day.target)), ("the stop file", stop)),
    ):
        if text != text.strip() or not text or text.endswith("\\") or _CONTROL.search(text) or "${{" in text:
            raise InvalidInput(f"{what} is empty, or cannot be written into a file of {kind}", remedy="name another")
    if not plan.command:
        raise InvalidInput("there is no command", remedy="name the program, for example /opt/chaos/opensearch-chaos")
    if kind != "github" and not Path(plan.working).is_absolute():
        raise InvalidInput(f"the working folder {plan.working} is not absolute", remedy="name it from / on")
    if kind == "github" and Path(plan.file).is_absolute():
        raise InvalidInput(
            f"{plan.day.file} is not below this folder, and a workflow knows files of its repository only",
            remedy="go to the root of the repository and name it from there",
        )
    if kind in ("systemd", "cron") and "/" in plan.command[0] and not Path(plan.command[0]).is_absolute():
        raise InvalidInput(f"the program {plan.command[0]} is not absolute", remedy="name it from / on")
    if kind in ("systemd", "cron") and not re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,31}", plan.user):
        raise InvalidInput(f"{plan.user} is no user's name", remedy="name the user as whom it runs")
    stop_by = plan.day.written.stop
    if kind == "kubernetes" and stop_by.kubernetes is None:
        raise InvalidInput(
            "the line that stops it, and that is announced, goes by ssh, which reaches no pod",
            remedy=f"write stop: {{file: {stop_by.file}, kubernetes: NAMESPACE}}",
        )
    if kind != "kubernetes" and stop_by.kubernetes is not None:
        raise InvalidInput(
            f"its file says that it runs in Kubernetes (stop.kubernetes: {stop_by.kubernetes}), and that is how people "
            "are told to stop it",
            remedy=f"write stop: {{file: {stop_by.file}, ssh: HOST}}",
        )
    if plan.slack < ROOM[kind]:
        raise InvalidInput(
            f"a day may begin for {max(plan.slack, 0)} s after its opening, and {kind} may fire {ROOM[kind]} s late",
            remedy="write a longer window, or a later last_start",
        )


# ------------------------------------------------------------------------------------------------- systemd


def _systemd(plan: Plan) -> dict[str, str]:
    window, bounds = plan.window, plan.day.written.bounds
    calendars = "\n".join(
        f"OnCalendar={day.capitalize()} *-*-* {window.from_:%H:%M}:00 {window.zone}" for day in _ordered(window)
    )
    delay = min(MOST_DELAY, plan.slack // 4)
    delays = f"RandomizedDelaySec={delay}\nFixedRandomDelay=true\n" if delay >= LEAST_DELAY else ""
    timer = f"""\
# Fires the game day {plan.day.name} when its window opens. Late, twice or never: `gameday run` holds every gate itself.
# A day that was missed is not made up (Persistent=false), and one whose hour does not exist is left out.
[Unit]
Description=Game day {plan.day.name}

[Timer]
{calendars}
AccuracySec=1s
{delays}Persistent=false
Unit={plan.name}.service

[Install]
WantedBy=timers.target
"""
    service = f"""\
# Runs the game day {plan.day.name}: at most {bounds.day.text}, and {bounds.abort.text} for an abort.
# Tell somebody: add OnFailure=NAME@%n.service to [Unit]; that unit gets $MONITOR_EXIT_STATUS and its like.
# A program without a path is looked for in /usr/local/bin and /usr/bin: write all of it where it is elsewhere.
# Exit codes: 0 pass, 1 weakness, 3 inconclusive (a result each); 2 refused, 4 aborted, 5 error, 6 dirty, 7 held: a
# person must let it go on first (failures).
[Unit]
Description=Game day {plan.day.name}
Wants=network-online.target
After=network-online.target

[Service]
Type=exec
User={plan.user}
WorkingDirectory={_specifiers(plan.working)}
EnvironmentFile=-/etc/opensearch-chaos/{plan.day.name}.env
ExecStart={_exec(plan.run)}
ExecStopPost={_exec(plan.recover)}
Restart=no
RuntimeMaxSec={plan.runs}
KillMode=mixed
KillSignal=SIGTERM
TimeoutStopSec={plan.stops}
SuccessExitStatus=1 3
{_hardening(plan)}"""
    return {f"{plan.name}.timer": timer, f"{plan.name}.service": service}


def _hardening(plan: Plan) -> str:
    """What keeps the machine from the process, and the process from nothing that it needs."""
    # Not PrivateTmp: a stop file in /tmp would not be seen. Not ProtectHome: the working folder may be there.
    textfile = plan.day.written.textfile
    writable = [plan.working, *([str(Path(textfile).parent)] if textfile is not None else [])]
    settings = [
        "ProtectSystem=full",
        *(f"ReadWritePaths={_quoted('-' + path)}" for path in writable),
        "ProtectControlGroups=yes",
    ]
    if plan.programs:
        settings.append("# Programs of guards or hooks may call sudo: nothing here takes that from them.")
    else:
        settings += [
            "NoNewPrivileges=yes",
            "ProtectKernelModules=yes",
            "ProtectKernelTunables=yes",
            "RestrictSUIDSGID=yes",
            "RestrictRealtime=yes",
            "LockPersonality=yes",
        ]
    return "\n".join(settings) + "\n"


def _specifiers(text: str) -> str:
    return text.replace("%", "%%")


def _quoted(word: str) -> str:
    """One word of a list of systemd's."""
    escaped = _specifiers(word).replace("\\", "\\\\").replace('"', '\\"')
    return escaped if re.fullmatch(r"[A-Za-z0-9_./:=@,+%-]+", word) else f'"{escaped}"'


def _exec(words: Sequence[str]) -> str:
    """A command line of systemd's, which is no shell's. A dollar would be a variable."""
    return " ".join(_quoted(word).replace("$", "$$") for word in words)


# ---------------------------------------------------------------------------------------------------- cron


def _cron(plan: Plan) -> dict[str, str]:
    window = plan.window
    bounded = f"timeout --foreground -k {plan.stops} {plan.runs} {shlex.join(plan.run)}"
    inner = f"cd {shlex.quote(plan.working)} && {{ {bounded}; code=$?; {shlex.join(plan.recover)} && exit $code; }}"
    if len(inner) > MOST_OF_LINE:
        raise InvalidInput(
            f"the line would have {len(inner)} characters, and cron takes {MOST_OF_LINE}", remedy="use shorter paths"
        )
    numbers = ",".join(str(_cron_day(day)) for day in _ordered(window))
    line = f"{window.from_.minute} {window.from_.hour} * * {numbers} {plan.user} {_cron_escaped(inner)}"
    text = f"""\
# Fires the game day {plan.day.name} when its window opens. Late, twice or by the wrong clock: `gameday run` holds every
# gate itself. A file of /etc/cron.d (with the user in it), whose name must have no dot.
# CRON_TZ is understood by cronie (Fedora, RHEL, SUSE, Arch). Debian's and Ubuntu's cron, busybox and others take it for
# a variable, and fire by the machine's clock: there the machine's zone must be {window.zone}, or take systemd.
PATH={PATH}
CRON_TZ={window.zone}
{line}
"""
    return {re.sub(r"[^A-Za-z0-9_-]", "-", plan.name): text}


def _cron_escaped(command: str) -> str:
    """An unescaped percent sign would be the end of the line."""
    return command.replace("%", "\\%")


def _cron_day(day: str) -> int:
    """0 is Sunday."""
    return (WEEKDAYS.index(day) + 1) % 7


# ----------------------------------------------------------------------------------------------- Kubernetes


def _kubernetes(plan: Plan) -> dict[str, str]:
    window = plan.window
    name = object_name(plan.day.name)
    namespace = plan.day.written.stop.kubernetes
    assert namespace is not None
    numbers = ",".join(str(_cron_day(day)) for day in _ordered(window))
    record = os.path.normpath(os.path.join(plan.working, plan.day.written.record))
    stop = Path(plan.day.written.stop.file).parent
    mounts, volumes = "", ""
    # a folder that the pod's user may write: the stop file's is looked at too
    if len(stop.parts) > 2 and not any(Path(each).is_relative_to(stop) for each in (plan.working, record)):
        mounts = f"                - name: stop\n                  mountPath: {_yaml(str(stop))}\n"
        volumes = "            - name: stop\n              emptyDir: {}\n"
    text = f"""\
# Fires the game day {plan.day.name} when its window opens. A CronJob may make no job, or two: `gameday run` holds every
# gate itself. The image must hold opensearch-chaos, ssh-keygen and the repository with the day's file, or mount it.
# It wants a secret of that name for references env:NAME (or none), and a volume claim of that name for the record.
# To stop the day that is under way, and to let none begin, as each announcement says:
# {stop_line(plan.day, "")}
# To take that back:
# {lifted(namespace, name)}
# Who may: kubectl --namespace {namespace} create rolebinding {name}-stop --role {name}-stop --group GROUP
# Or: kubectl delete job JOB (it gets SIGTERM, and time to undo). To make no more jobs:
# kubectl --namespace {namespace} patch cronjob {name} --patch '{{"spec":{{"suspend":true}}}}'
# Nothing recovers for a pod that was killed with its node: opensearch-chaos recover --on FILE, from anywhere.
{"".join(f"---{chr(10)}{_document(each)}" for each in _beside(plan, name, namespace))}---
apiVersion: batch/v1
kind: CronJob
metadata:
  name: {name}
  namespace: {namespace}
spec:
  schedule: {_yaml(f"{window.from_.minute} {window.from_.hour} * * {numbers}")}
  timeZone: {_yaml(window.zone)}
  concurrencyPolicy: Forbid
  startingDeadlineSeconds: {LATE_SECONDS}
  successfulJobsHistoryLimit: 3
  failedJobsHistoryLimit: 3
  jobTemplate:
    spec:
      backoffLimit: 0
      activeDeadlineSeconds: {plan.runs}
      template:
        metadata:
          labels:
            {LABEL}: {name}
          annotations:
            cluster-autoscaler.kubernetes.io/safe-to-evict: "false"
        spec:
          restartPolicy: Never
          terminationGracePeriodSeconds: {plan.stops}
          serviceAccountName: {name}
{_of_pod(plan)}          containers:
            - name: gameday
              image: {_yaml(plan.image)}
              command:
{_items(plan.run, 16)}
              workingDir: {_yaml(plan.working)}
              envFrom:
                - secretRef:
                    name: {name}
                    optional: true
{_as_user(plan)}              volumeMounts:
                - name: record
                  mountPath: {_yaml(record)}
{mounts}          volumes:
            - name: record
              persistentVolumeClaim:
                claimName: {name}
{volumes}"""
    return {f"{plan.name}.yaml": text}


def _beside(plan: Plan, name: str, namespace: str) -> list[dict[str, Any]]:
    """What the CronJob needs beside it: who it is, what stops it, who may, and what it may do to OpenSearch's pods."""
    here = {"name": name, "namespace": namespace}
    core = {"apiVersion": "v1", "metadata": here}
    account = {"kind": "ServiceAccount", "name": name, "namespace": namespace}
    may = [{"apiGroups": [""], "resources": ["configmaps"], "resourceNames": [name], "verbs": ["get", "patch"]}]
    rbac = {"apiVersion": f"{rights.RBAC}/v1"}
    found: list[dict[str, Any]] = [
        {**core, "kind": "ServiceAccount"},
        {**core, "kind": "ConfigMap", "data": {}},
        {**rbac, "kind": "Role", "metadata": here, "rules": may},
        {
            **rbac,
            "kind": "RoleBinding",
            "metadata": here,
            "roleRef": {"apiGroup": rights.RBAC, "kind": "Role", "name": name},
            "subjects": [account],
        },
        {**rbac, "kind": "Role", "metadata": {**here, "name": f"{name}-stop"}, "rules": may},
    ]
    if plan.pods is not None:
        where, needed = plan.pods
        found += rights.manifests(where, needed, name, named=f"{name}-faults", home=namespace)
    return found


def _document(item: dict[str, Any]) -> str:
    from ruamel.yaml import YAML

    text = StringIO()
    YAML().dump(json.loads(json.dumps(item)), text)  # no anchors for what stands in it twice
    return text.getvalue()


def _of_pod(plan: Plan) -> str:
    """The group that may write its volumes."""
    return f"          securityContext:\n            fsGroup: {int(plan.user)}\n" if _number(plan.user) else ""


def _number(user: str) -> bool:
    return re.fullmatch(r"[1-9][0-9]{0,8}", user) is not None


def _as_user(plan: Plan) -> str:
    if plan.user == "root":
        return ""
    user = f"                runAsUser: {int(plan.user)}\n" if _number(plan.user) else ""
    return f"              securityContext:\n                runAsNonRoot: true\n{user}"


# --------------------------------------------------------------------------------------------------- GitHub


def _github(plan: Plan) -> dict[str, str]:
    lines = "\n".join(f"    - cron: {_yaml(each)}" for each in _utc(plan.window, plan.now))
    minutes = math.ceil(plan.runs / 60)
    undo = math.ceil(plan.stops / 60)
    secrets = "".join(f"          {name}: ${{{{ secrets.{name} }}}}\n" for name in plan.secrets)
    env = f"        env:\n{secrets}" if secrets else ""
    text = f"""\
# Fires the game day {plan.day.name} when its window opens, {plan.window.from_:%H:%M} in {plan.window.zone}.
# GitHub's schedules are in UTC, so there is a line for each offset of that zone within a year. On each day but one of
# them is right. The wrong one comes too early, and is refused by the window; or too late, and is refused by the window
# or because this window's day is over: `gameday run` holds every gate itself. A refused run is red (exit
# code 2), and so is one of a day that was stopped or is on hold (7).
# GitHub fires late, sometimes never, and no more after 60 days without activity in the repository.
# A workflow that is cancelled has 10 seconds: the last step, and `opensearch-chaos recover --on FILE` from anywhere,
# undo what is left. Where that is too long for you, fire it by systemd.
name: {_yaml(f"game day {plan.day.name}")}

on:
  schedule:
{lines}
  workflow_dispatch:

permissions:
  contents: read

concurrency:
  group: {_yaml(plan.name)}
  cancel-in-progress: false

jobs:
  gameday:
    runs-on: self-hosted  # a machine that reaches the target, and outlives a job
    timeout-minutes: {minutes + undo + CHECKOUT_MINUTES}
    defaults:
      run:
        working-directory: {_yaml(plan.working)}
    steps:
      - uses: actions/checkout@v4
      - name: Game day
        timeout-minutes: {minutes}
        run: {_yaml(shlex.join(plan.run))}
{env}      - name: Leave nothing behind
        if: always()
        timeout-minutes: {undo}
        run: {_yaml(shlex.join(plan.recover))}
{env}      - uses: actions/upload-artifact@v4
        if: always()
        with:
          name: {_yaml(plan.name)}
          path: {_yaml(os.path.normpath(os.path.join(plan.working, plan.day.written.record)))}
          if-no-files-found: warn
"""
    return {f"{plan.name}.yml": text}


def _utc(window: Window, now: datetime) -> list[str]:
    """Lines of cron in UTC, one for each offset that the zone has within a year, and for each shift of the weekday."""
    zone = ZoneInfo(window.zone)
    ahead = now + timedelta(days=366)
    offsets = {local(now, zone).utcoffset(): None}
    for change in changes(window.zone, now, 10):
        if change.at <= ahead:
            offsets[change.after.utcoffset()] = None
    lines: dict[tuple[int, int], list[int]] = {}
    for offset in offsets:
        assert offset is not None
        for day in _ordered(window):
            moment = datetime.combine(datetime(2023, 1, 1), window.from_) + timedelta(days=_cron_day(day)) - offset
            lines.setdefault((moment.hour, moment.minute), []).append(moment.isoweekday() % 7)
    return [
        f"{minute} {hour} * * {','.join(map(str, sorted(set(days))))}" for (hour, minute), days in sorted(lines.items())
    ]


PRINTERS: dict[Kind, Callable[[Plan], dict[str, str]]] = {
    "systemd": _systemd,
    "cron": _cron,
    "kubernetes": _kubernetes,
    "github": _github,
}


# --------------------------------------------------------------------------------------------------- common


def _ordered(window: Window) -> list[str]:
    return [day for day in WEEKDAYS if day in window.days]


def _minutes(clock: Any, window: Window) -> int:
    """From the opening to a time of day, by the clock."""
    return int((clock.hour - window.from_.hour) * 60 + clock.minute - window.from_.minute) % 1440


def _texts(value: Any) -> Iterator[str]:
    """References to the environment anywhere in a file."""
    if isinstance(value, dict):
        for each in value.values():
            yield from _texts(each)
    elif isinstance(value, list):
        for each in value:
            yield from _texts(each)
    elif isinstance(value, str) and re.fullmatch(r"env:[A-Za-z_][A-Za-z0-9_]*", value):
        yield value


def _yaml(text: str) -> str:
    """Text in double quotes, as JSON and YAML both read it."""
    return json.dumps(text, ensure_ascii=False)


def _items(words: Sequence[str], indent: int) -> str:
    return "\n".join(f"{' ' * indent}- {_yaml(word)}" for word in words)
