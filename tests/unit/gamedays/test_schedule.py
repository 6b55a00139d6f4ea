"""What schedulers are given: read by systemd's own tools, as YAML, as a line of cron; and held against the window."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from datetime import UTC, date, datetime, time, timedelta
from pathlib import Path
from typing import Any

import pytest
from calendarkit import WINDOW, gameday
from hypothesis import given
from hypothesis import strategies as st
from ruamel.yaml import YAML

from chaos.base.errors import InvalidInput
from chaos.definitions.gameday import WEEKDAYS, GameDay, Window
from chaos.gamedays.announce import stop_line
from chaos.gamedays.schedule import KINDS, Kind, printed
from chaos.gamedays.switches import lifted, object_name
from chaos.gamedays.windows import Opening, firings, opening_of
from chaos.kubernetes.rights import Right

NOW = datetime(2026, 1, 15, tzinfo=UTC)
ANALYZE = shutil.which("systemd-analyze")
needs_systemd = pytest.mark.skipif(ANALYZE is None, reason="no systemd-analyze is installed on this machine")
POD = {"file": "/run/opensearch-chaos/staging.stop", "kubernetes": "search"}
SLACK = 150 * 60 - 90 * 60 - 120
"""Of the usual day, in seconds."""


def texts(day: GameDay, kind: Kind, **more: Any) -> dict[str, str]:
    given = {"command": (sys.executable, "-m", "chaos"), "working": str(day.folder), "user": "chaos", "now": NOW}
    return printed(day, kind, **{**given, **more})


def loaded(text: str) -> Any:
    return YAML(typ="safe", pure=True).load(text)


def documents(text: str) -> list[Any]:
    """All of a file for Kubernetes; the CronJob is the last."""
    return [each for each in YAML(typ="safe", pure=True).load_all(text) if each is not None]


def stopped_by(kind: Kind) -> dict[str, Any]:
    """The way to stop that a day of this scheduler must have."""
    return {"stop": POD} if kind == "kubernetes" else {}


def unit(text: str) -> dict[str, list[str]]:
    """``Section.Key`` → values of a unit file."""
    found: dict[str, list[str]] = {}
    section = ""
    for line in text.splitlines():
        if line.startswith("["):
            section = line.strip("[]")
        elif line and not line.startswith("#"):
            key, _, value = line.partition("=")
            found.setdefault(f"{section}.{key}", []).append(value)
    return found


def fires(line: str, moment: datetime) -> bool:
    """Whether a line of cron fires at a moment, by the clock that the moment shows."""
    minute, hour, of_month, month, of_week = line.split()[:5]
    assert (of_month, month) == ("*", "*")
    assert re.fullmatch(r"[0-6](,[0-6])*", of_week) and 0 <= int(minute) < 60 and 0 <= int(hour) < 24
    weekdays = {int(each) for each in of_week.split(",")}
    return (moment.hour, moment.minute) == (int(hour), int(minute)) and moment.isoweekday() % 7 in weekdays


def analyze(*words: str) -> subprocess.CompletedProcess[str]:
    assert ANALYZE is not None
    return subprocess.run(
        [ANALYZE, *words], capture_output=True, text=True, timeout=60, env={"TZ": "UTC", "LC_ALL": "C"}, check=False
    )


def test_a_command_that_is_whole_is_run_as_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "experiments" / "gamedays"
    folder.mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    command = ["opensearch-chaos", "gameday", "run", "experiments/gamedays/staging-tuesday.yaml"]
    for given_command in (command, command[:1]):  # a checkout elsewhere, as it is here
        files = texts(gameday(folder), "systemd", command=given_command, working="/srv/chaos")
        service = unit(files[f"{NAME}.service"])
        assert service["Service.ExecStart"] == [" ".join(command)]
        assert service["Service.ExecStopPost"] == ["opensearch-chaos recover --on experiments/gamedays/staging.yaml"]
    monkeypatch.chdir("/")
    files = texts(gameday(folder), "systemd", command=command[:1], working="/srv/chaos")
    assert f"gameday run {folder}/staging-tuesday.yaml" in files[f"{NAME}.service"]


# ---------------------------------------------------------------------------------------------- systemd


def test_a_timer_and_its_service(tmp_path: Path) -> None:
    files = texts(gameday(tmp_path), "systemd")
    assert sorted(files) == [
        "opensearch-chaos-gameday-staging-tuesday.service",
        "opensearch-chaos-gameday-staging-tuesday.timer",
    ]
    timer = unit(files["opensearch-chaos-gameday-staging-tuesday.timer"])
    assert timer["Timer.OnCalendar"] == ["Tue *-*-* 10:00:00 Europe/Berlin", "Thu *-*-* 10:00:00 Europe/Berlin"]
    assert timer["Timer.Persistent"] == ["false"] and timer["Timer.AccuracySec"] == ["1s"]
    assert timer["Timer.Unit"] == ["opensearch-chaos-gameday-staging-tuesday.service"]
    assert 0 < int(timer["Timer.RandomizedDelaySec"][0]) < SLACK
    service = unit(files["opensearch-chaos-gameday-staging-tuesday.service"])
    expected = {
        "Service.Type": "exec",
        "Service.User": "chaos",
        "Service.WorkingDirectory": str(tmp_path),
        "Service.RuntimeMaxSec": str(92 * 60 + 900),
        "Service.KillMode": "mixed",
        "Service.Restart": "no",
        "Service.SuccessExitStatus": "1 3",
        "Service.ExecStart": f"{sys.executable} -m chaos gameday run staging-tuesday.yaml",
        "Service.ExecStopPost": f"{sys.executable} -m chaos recover --on staging.yaml",
    }
    assert {key: service[key] for key in expected} == {key: [value] for key, value in expected.items()}
    assert int(service["Service.TimeoutStopSec"][0]) > 120
    conditions = [key for key in service if key.startswith(("Unit.Condition", "Unit.Assert"))]
    assert conditions == [], "what systemd skips is a success to it: `gameday run` says itself that it refuses"


def test_a_window_with_little_room_has_no_random_delay(tmp_path: Path) -> None:
    day = gameday(tmp_path, window={**WINDOW, "to": "11:32"}, bounds={"day": "89m", "abort": "2m"})
    (_, timer) = sorted(texts(day, "systemd").items())
    assert "Timer.RandomizedDelaySec" in unit(timer[1])  # 60 s of room
    day = gameday(tmp_path, window={**WINDOW, "to": "11:32"}, bounds={"day": "5365s", "abort": "2m"})
    (_, timer) = sorted(texts(day, "systemd").items())
    assert "Timer.RandomizedDelaySec" not in unit(timer[1])


@needs_systemd
@pytest.mark.parametrize(
    ("folder", "stop"), [("plain", "/run/chaos.stop"), ('with blank, 100% "$HOME" é', "/run/50% of it/$x stop")]
)
def test_systemd_takes_the_units_as_they_are(tmp_path: Path, folder: str, stop: str) -> None:
    where = tmp_path / "units"
    where.mkdir()
    (tmp_path / folder).mkdir()
    day = gameday(tmp_path / folder, stop={"file": stop}, textfile=f"/var/lib/{folder.replace('/', '')}/x.prom")
    files = texts(day, "systemd", user="root")
    for name, text in files.items():
        (where / name).write_text(text)
    checked = analyze("verify", *(str(where / name) for name in files))
    assert checked.returncode == 0 and str(where) not in checked.stderr, checked.stderr
    (service,) = (name for name in files if name.endswith(".service"))
    (where / service).write_text(files[service].replace("Type=exec", "Type=often"))
    assert str(where / service) in analyze("verify", str(where / service)).stderr


@needs_systemd
@pytest.mark.parametrize("zone", ["Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "America/Havana"])
@pytest.mark.parametrize(("begins", "ends"), [("10:00", "13:00"), ("02:15", "05:00"), ("00:00", "03:00")])
def test_systemd_fires_when_the_window_opens(tmp_path: Path, zone: str, begins: str, ends: str) -> None:
    window = {"zone": zone, "days": ["sun", "wed"], "from": begins, "to": ends}
    day = gameday(tmp_path, window=window, bounds={"day": "30m"})
    timer = next(text for name, text in texts(day, "systemd").items() if name.endswith(".timer"))
    theirs: set[datetime] = set()
    for calendar in unit(timer)["Timer.OnCalendar"]:
        said = analyze("calendar", "--iterations=52", "--base-time=2026-01-15 00:00:00 UTC", calendar)
        assert said.returncode == 0, said.stderr
        found = re.findall(r"(?:Next elapse|Iter\. #\d+): \w{3} (\d{4}-\d\d-\d\d \d\d:\d\d:\d\d) UTC", said.stdout)
        assert len(found) == 52
        theirs |= {datetime.fromisoformat(each).replace(tzinfo=UTC) for each in found}
    last = min(max(theirs), datetime(2026, 12, 31, tzinfo=UTC))
    ours = {each.utc for each in firings(day.written.window, NOW, 104) if each.utc is not None and each.utc <= last}
    assert ours == {each for each in theirs if each <= last}


def test_what_systemd_reads_otherwise_is_escaped(tmp_path: Path) -> None:
    folder = tmp_path / "a b%c$d"
    day = gameday(folder)
    service = unit(texts(day, "systemd", command=("/opt/a b", '"', "50%"), working="/srv/x y%z")[f"{NAME}.service"])
    assert service["Service.ExecStart"][0] == (
        rf'"/opt/a b" "\"" 50%% gameday run "{tmp_path}/a b%%c$$d/staging-tuesday.yaml"'
    )
    assert service["Service.WorkingDirectory"] == ["/srv/x y%%z"]
    assert service["Service.ReadWritePaths"] == ['"-/srv/x y%%z"']


NAME = "opensearch-chaos-gameday-staging-tuesday"


def test_programs_of_others_keep_their_rights(tmp_path: Path) -> None:
    def hardened(day: GameDay) -> bool:
        return "Service.NoNewPrivileges" in unit(texts(day, "systemd")[f"{NAME}.service"])

    assert hardened(gameday(tmp_path))
    guards = {"users": {"counts": "outcome", "program": {"run": ["/usr/lib/nagios/check"]}}}
    assert not hardened(gameday(tmp_path, guards=guards))
    (tmp_path / "staging.yaml").write_text("hooks: {node.kill: {inject: [./kill]}}")
    assert not hardened(gameday(tmp_path))
    (tmp_path / "staging.yaml").write_text("name: staging")
    assert hardened(gameday(tmp_path))


# ------------------------------------------------------------------------------------------------- cron


def crontab(text: str) -> tuple[dict[str, str], list[str]]:
    """Variables and lines of a crontab."""
    assert text.endswith("\n")
    variables: dict[str, str] = {}
    lines: list[str] = []
    for line in text.splitlines():
        if line.startswith("#") or not line.strip():
            continue
        if found := re.fullmatch(r"([A-Z_]+)=(.*)", line):
            variables[found[1]] = found[2]
        else:
            lines.append(line)
    return variables, lines


def test_a_line_of_cron(tmp_path: Path) -> None:
    ((name, text),) = texts(gameday(tmp_path, name="staging.tuesday"), "cron").items()
    assert re.fullmatch(r"[A-Za-z0-9_-]+", name)  # cron leaves out other files of cron.d
    variables, (line,) = crontab(text)
    assert variables == {"CRON_TZ": "Europe/Berlin", "PATH": "/usr/local/bin:/usr/bin:/bin"}
    assert line.startswith("0 10 * * 2,4 chaos cd ")
    fired = [moment for hours in range(24 * 14) if fires(line, moment := datetime(2026, 7, 6) + timedelta(hours=hours))]
    assert fired == [datetime(2026, 7, day, 10) for day in (7, 9, 14, 16)]
    assert "Debian" in text


@pytest.mark.parametrize(
    ("day", "recover", "code", "ran"),
    [(0, 0, 0, 2), (1, 0, 1, 2), (4, 0, 4, 2), (0, 6, 6, 2), (1, 6, 6, 2)],
)
def test_what_cron_runs_recovers_and_ends_as_the_day_did(
    tmp_path: Path, day: int, recover: int, code: int, ran: int
) -> None:
    folder = tmp_path / "it's 100% ours"
    folder.mkdir()
    program = folder / "chaos program"
    program.write_text(
        f'#!/bin/sh\npwd >> "{tmp_path}/ran"; echo "$@" >> "{tmp_path}/said"\n'
        f'case "$1" in gameday) exit {day};; recover) exit {recover};; esac\n'
    )
    program.chmod(0o755)
    (text,) = texts(gameday(folder), "cron", command=(str(program),)).values()
    command = crontab(text)[1][0].split(" ", 6)[6]
    assert not re.search(r"(?<!\\)%", command)
    done = subprocess.run(["/bin/sh", "-c", command.replace("\\%", "%")], timeout=60, check=False)
    assert done.returncode == code
    assert (tmp_path / "ran").read_text().splitlines() == [str(folder)] * ran
    assert (tmp_path / "said").read_text().splitlines() == [
        "gameday run staging-tuesday.yaml",
        "recover --on staging.yaml",
    ]


# ------------------------------------------------------------------------------------------- Kubernetes


def test_a_cron_job(tmp_path: Path) -> None:
    (text,) = texts(gameday(tmp_path, stop=POD), "kubernetes", user="1000", image="opensearch-chaos:3").values()
    *beside, job = documents(text)
    assert [each["kind"] for each in beside] == ["ServiceAccount", "ConfigMap", "Role", "RoleBinding", "Role"]
    assert beside[1]["data"] == {}  # it says nothing of a stop
    assert (job["apiVersion"], job["kind"], job["metadata"]["name"]) == (
        "batch/v1",
        "CronJob",
        "gameday-staging-tuesday",
    )
    assert job["metadata"]["namespace"] == "search"
    spec = job["spec"]
    assert (spec["schedule"], spec["timeZone"]) == ("0 10 * * 2,4", "Europe/Berlin")
    assert (spec["concurrencyPolicy"], spec["startingDeadlineSeconds"]) == ("Forbid", 60)
    assert spec["jobTemplate"]["spec"]["backoffLimit"] == 0
    assert spec["jobTemplate"]["spec"]["activeDeadlineSeconds"] == 92 * 60 + 900
    pod = spec["jobTemplate"]["spec"]["template"]["spec"]
    assert pod["restartPolicy"] == "Never" and pod["terminationGracePeriodSeconds"] > 120
    assert pod["serviceAccountName"] == beside[0]["metadata"]["name"] and pod["securityContext"] == {"fsGroup": 1000}
    (container,) = pod["containers"]
    assert container["command"] == [sys.executable, "-m", "chaos", "gameday", "run", "staging-tuesday.yaml"]
    assert container["securityContext"] == {"runAsNonRoot": True, "runAsUser": 1000}
    assert {each["name"] for each in container["volumeMounts"]} == {each["name"] for each in pod["volumes"]}
    assert {each["mountPath"] for each in container["volumeMounts"]} == {
        f"{tmp_path}/gamedays",
        "/run/opensearch-chaos",
    }


def test_the_line_that_is_announced_writes_into_the_map_and_who_may_is_printed(tmp_path: Path) -> None:
    """kubectl is a program that says what it was called with: a cluster is not needed to know whom it asks for."""
    day = gameday(tmp_path, stop=POD)
    (text,) = texts(day, "kubernetes").values()
    _, there, runner, binding, people, _ = documents(text)
    programs, said = tmp_path / "bin", tmp_path / "said"
    programs.mkdir()
    (programs / "kubectl").write_text(f'#!/bin/sh\nfor word; do printf "%s\\n" "$word"; done >> {said}\n')
    (programs / "kubectl").chmod(0o755)
    name = there["metadata"]["name"]
    for line, value in ((stop_line(day, "never"), '"stopped by hand"'), (lifted("search", name), "null")):
        assert f"# {line}\n" in text
        said.unlink(missing_ok=True)
        subprocess.run(["/bin/sh", "-c", line], check=True, env={"PATH": f"{programs}:/usr/bin:/bin"}, timeout=60)
        patched = ["--namespace", "search", "patch", "configmap", name, "--type", "merge", "--patch"]
        assert said.read_text().splitlines() == [*patched, f'{{"data":{{"stop":{value}}}}}']
    may = [{"apiGroups": [""], "resources": ["configmaps"], "resourceNames": [name], "verbs": ["get", "patch"]}]
    assert runner["rules"] == people["rules"] == may
    assert people["metadata"]["name"] == f"{name}-stop" and binding["roleRef"]["name"] == name


def test_what_the_day_may_do_to_pods_of_another_namespace_is_bound_to_its_account(tmp_path: Path) -> None:
    pods = ("data", (Right("delete", "pods", "x"), Right("get", "nodes", "y", everywhere=True)))
    (text,) = texts(gameday(tmp_path, stop=POD), "kubernetes", pods=pods).values()
    role, binding, wide, wider = documents(text)[5:9]
    assert (role["metadata"], role["rules"][0]["verbs"]) == (
        {"name": "gameday-staging-tuesday-faults", "namespace": "data"},
        ["delete"],
    )
    who = [{"kind": "ServiceAccount", "name": "gameday-staging-tuesday", "namespace": "search"}]
    assert binding["subjects"] == wider["subjects"] == who and wide["rules"][0]["resources"] == ["nodes"]


@given(st.text(alphabet="abcXYZ019._-", min_size=1, max_size=90))
def test_a_name_of_objects_is_one_that_kubernetes_takes(name: str) -> None:
    made = object_name(name)
    assert len(made) <= 52 and re.fullmatch(r"[a-z0-9]([a-z0-9-]*[a-z0-9])?", made)


@pytest.mark.parametrize(
    ("kind", "stop"),
    [("kubernetes", {"file": "/run/x.stop"}), ("kubernetes", {"file": "/run/x.stop", "ssh": "a@b"}), ("systemd", POD)],
)
def test_a_way_to_stop_that_does_not_reach_the_runner_is_refused(
    tmp_path: Path, kind: Kind, stop: dict[str, str]
) -> None:
    with pytest.raises(InvalidInput, match="stop") as caught:
        texts(gameday(tmp_path, stop=stop), kind)
    assert caught.value.remedy is not None and "write stop: {file: " in caught.value.remedy


@pytest.mark.parametrize("stop", ["/tmp/chaos.stop", "/chaos.stop", "{working}/stop", "{above}/stop"])
def test_a_stop_file_hides_no_folder_of_the_image(tmp_path: Path, stop: str) -> None:
    file = stop.format(working=tmp_path, above=tmp_path.parent)
    (text,) = texts(gameday(tmp_path, stop={**POD, "file": file}), "kubernetes").values()
    pod = documents(text)[-1]["spec"]["jobTemplate"]["spec"]["template"]["spec"]
    assert [each["name"] for each in pod["volumes"]] == ["record"]
    assert [each["name"] for each in pod["containers"][0]["volumeMounts"]] == ["record"]


def test_names_fit_what_kubernetes_takes_and_stay_apart(tmp_path: Path) -> None:
    names = [
        documents(*texts(gameday(tmp_path, name=name, stop=POD), "kubernetes").values())[-1]["metadata"]["name"]
        for name in ("a", "a_b", "a.b", "a-b", "x" * 80, "x" * 81)
    ]
    assert len(set(names)) == len(names)
    assert all(len(name) <= 52 and re.fullmatch(r"[a-z0-9]([a-z0-9-]*[a-z0-9])?", name) for name in names)


# ----------------------------------------------------------------------------------------------- GitHub


def workflow(day: GameDay, monkeypatch: pytest.MonkeyPatch, **more: Any) -> tuple[str, Any]:
    monkeypatch.chdir(day.folder)
    (text,) = texts(day, "github", **{"working": ".", "command": ("opensearch-chaos",), **more}).values()
    return text, loaded(text)


def test_a_workflow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    announce = [{"slack": "env:SLACK_URL"}, {"webhook": "http://127.0.0.1:1/", "token": "file:token"}]
    text, made = workflow(gameday(tmp_path, announce=announce), monkeypatch)
    assert made["on"]["schedule"] == [{"cron": "0 8 * * 2,4"}, {"cron": "0 9 * * 2,4"}]
    assert "workflow_dispatch" in made["on"]
    assert made["concurrency"] == {"group": NAME, "cancel-in-progress": False}
    job = made["jobs"]["gameday"]
    day, recover = (step for step in job["steps"] if "run" in step)
    assert day["run"] == "opensearch-chaos gameday run staging-tuesday.yaml" and day["timeout-minutes"] == 107
    assert recover["run"] == "opensearch-chaos recover --on staging.yaml" and recover["if"] == "always()"
    assert job["timeout-minutes"] >= day["timeout-minutes"] + recover["timeout-minutes"]
    assert day["env"] == recover["env"] == {"SLACK_URL": "${{ secrets.SLACK_URL }}"}
    assert "The wrong one comes too early, and is refused" in text


def test_a_workflow_names_files_of_its_repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "experiments" / "gamedays"
    folder.mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    day = gameday(folder, target="../staging.yaml")
    (text,) = texts(day, "github", working=".").values()
    assert "gameday run experiments/gamedays/staging-tuesday.yaml" in text
    assert "recover --on experiments/staging.yaml" in text
    (text,) = texts(day, "github", working="tools").values()
    assert "gameday run ../experiments/gamedays/staging-tuesday.yaml" in text
    monkeypatch.chdir("/")
    monkeypatch.chdir(folder)
    with pytest.raises(InvalidInput, match="is not below this folder"):
        texts(gameday(tmp_path), "github", working=".")


ZONES = [
    "Europe/Berlin",
    "America/New_York",
    "Australia/Lord_Howe",
    "America/Havana",
    "Asia/Beirut",
    "Pacific/Auckland",
]


@given(
    st.sampled_from([*ZONES, "Etc/UTC", "Asia/Kathmandu"]),
    st.lists(st.sampled_from(WEEKDAYS), min_size=1, unique=True),
    st.integers(0, 23),
    st.sampled_from([0, 15, 59]),
    st.integers(0, 360),
)
def test_law_each_opening_of_a_year_has_its_line_in_utc(
    zone: str, days: list[str], hour: int, minute: int, ahead: int
) -> None:
    ends = (datetime(2026, 1, 1, hour, minute) + timedelta(hours=3)).time()
    window = {"zone": zone, "days": days, "from": f"{time(hour, minute):%H:%M}", "to": f"{ends:%H:%M}"}
    folder = Path.cwd()
    day = gameday(folder, window=window, bounds={"day": "30m"})
    (text,) = texts(day, "github", working=".", command=("opensearch-chaos",)).values()
    lines = [each["cron"] for each in loaded(text)["on"]["schedule"]]
    assert len(lines) <= 2
    opening = opening_of(Window.model_validate(window), date(2026, 1, 15) + timedelta(days=ahead))
    if isinstance(opening, Opening):
        assert sum(fires(line, opening.opens.astimezone(UTC)) for line in lines) == 1


# ------------------------------------------------------------------------------------------- what is refused


@pytest.mark.parametrize("kind", KINDS)
def test_a_window_that_no_scheduler_would_meet_is_refused(
    tmp_path: Path, kind: Kind, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for window in ({**WINDOW, "to": "11:32"}, {**WINDOW, "last_start": "10:00"}):
        with pytest.raises(InvalidInput, match="a day may begin for 0 s after its opening"):
            texts(gameday(tmp_path, window=window, **stopped_by(kind)), kind)
    late = {**WINDOW, "last_start": "10:14"}
    if kind == "github":
        with pytest.raises(InvalidInput, match="github may fire 900 s late"):
            texts(gameday(tmp_path, window=late), kind)
    else:
        assert texts(gameday(tmp_path, window=late, **stopped_by(kind)), kind)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"command": ()}, "there is no command"),
        ({"command": ("/opt/chaos\n",)}, "the command is empty, or cannot be written"),
        ({"command": ("/opt/chaos", "")}, "the command is empty, or cannot be written"),
        ({"working": "/srv/${{ secrets.X }}"}, "the working folder is empty, or cannot be written"),
        ({"working": "/srv\\"}, "the working folder is empty, or cannot be written"),
        ({"user": "a\nExecStart=/bin/sh"}, "the user is empty, or cannot be written"),
        ({"image": "x\ny"}, "the image is empty, or cannot be written"),
    ],
)
def test_what_would_write_more_than_it_says_is_refused(
    tmp_path: Path, kind: Kind, changes: dict[str, Any], says: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InvalidInput, match=says):
        texts(gameday(tmp_path), kind, **changes)


def test_a_stop_file_of_two_lines_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="the stop file is empty, or cannot be written"):
        texts(gameday(tmp_path, stop={"file": "/run/x\nExecStart=/bin/sh"}), "systemd")


@pytest.mark.parametrize(
    ("kind", "changes", "says"),
    [
        ("systemd", {"working": "srv"}, "the working folder srv is not absolute"),
        ("cron", {"command": ("./opensearch-chaos",)}, "the program ./opensearch-chaos is not absolute"),
        ("systemd", {"command": ("bin/opensearch-chaos",)}, "the program bin/opensearch-chaos is not absolute"),
        ("cron", {"user": "a b"}, "a b is no user's name"),
        ("cron", {"working": "/srv/" + "x" * 990}, "characters, and cron takes 990"),
        ("launchd", {}, "there is no schedule for launchd; write one of systemd, cron, kubernetes and github"),
    ],
)
def test_what_a_scheduler_cannot_be_given_is_refused(
    tmp_path: Path, kind: Kind, changes: dict[str, Any], says: str
) -> None:
    with pytest.raises(InvalidInput) as raised:
        texts(gameday(tmp_path), kind, **changes)
    assert says in str(raised.value)


@pytest.mark.parametrize("kind", KINDS)
def test_no_secret_is_printed(tmp_path: Path, kind: Kind, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLACK_URL", "https://hooks.example/s3cret")
    monkeypatch.chdir(tmp_path)
    day = gameday(tmp_path, announce=[{"slack": "env:SLACK_URL"}], **stopped_by(kind))
    assert not any("s3cret" in text for text in texts(day, kind).values())
