"""One port for all services: who may listen where, whose request goes to whom, and what tampering looks like."""

from __future__ import annotations

import http.client
import importlib.util
import json
import socket
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from fiskit import PLACE, World, alarm, arn, client, code_of, template, underway
from fistamper import AstrayHands, IdleHands, Times, elsewhere, tampering

from chaos.base.errors import InvalidInput
from chaos.fis_endpoint.opening import opened
from chaos.fis_endpoint.own import Alarms
from chaos.fis_endpoint.policy import parse
from chaos.fis_endpoint.routing import Reply
from chaos.fis_endpoint.server import TIME_SCALE, Request

exceptions = pytest.importorskip("botocore.exceptions", reason="boto3 is the extra [aws]")
ClientError = exceptions.ClientError
needs_moto = pytest.mark.skipif(importlib.util.find_spec("moto") is None, reason="moto is not installed")


def scoped(service: str, region: str = PLACE.region) -> dict[str, str]:
    scope = f"local/20260101/{region}/{service}/aws4_request"
    return {"Authorization": f"AWS4-HMAC-SHA256 Credential={scope}, SignedHeaders=host, Signature=0"}


def asked(
    url: str, method: str, path: str, body: bytes = b"", headers: dict[str, str] | None = None
) -> tuple[int, Any, bytes]:
    where = urlsplit(url)
    connection = http.client.HTTPConnection(where.hostname or "", where.port or 0, timeout=60)
    try:
        connection.request(method, path, body, headers or {})
        answer = connection.getresponse()
        return answer.status, answer.headers, answer.read()
    finally:
        connection.close()


@contextmanager
def recording(
    answer: tuple[int, dict[str, str], bytes],
) -> Iterator[tuple[str, list[tuple[str, str, dict[str, str], bytes]]]]:
    """A server that says the same to everybody, and remembers what it was asked."""
    seen: list[tuple[str, str, dict[str, str], bytes]] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            seen.append((self.command, self.path, {name.lower(): each for name, each in self.headers.items()}, body))
            self.send_response_only(answer[0])
            for name, value in answer[1].items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(answer[2])))
            self.end_headers()
            self.wfile.write(answer[2])

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}", seen
    finally:
        server.shutdown()
        server.server_close()


@pytest.mark.parametrize("host", ["0.0.0.0", "192.0.2.1", "::", "localhost", "example.org", ""])
def test_no_address_but_loopback_is_listened_on(tmp_path: Path, host: str) -> None:
    with pytest.raises(InvalidInput, match=r"loopback|no IP address"), World().open(tmp_path / "j.jsonl", host=host):
        pass


def test_a_port_that_is_taken_is_named(tmp_path: Path) -> None:
    with World().open(tmp_path / "a.jsonl") as there:
        port = int(urlsplit(there.url).port or 0)
        with pytest.raises(InvalidInput, match=f":{port}"), World().open(tmp_path / "b.jsonl", port=port):
            pass


@pytest.mark.parametrize("scale", [0.0, -1.0, float("inf"), float("nan")])
def test_a_time_scale_that_is_none_is_refused(tmp_path: Path, scale: float) -> None:
    with pytest.raises(InvalidInput, match="time scale"), World().open(tmp_path / "j.jsonl", time_scale=scale):
        pass


def test_each_answer_of_fis_says_the_time_scale_and_experiments_do_not(tmp_path: Path) -> None:
    with World().open(tmp_path / "j.jsonl", time_scale=3600) as there:
        fis = client(there.url)
        of = fis.create_experiment_template(**template())["experimentTemplate"]["id"]
        answer = fis.start_experiment(experimentTemplateId=of, clientToken="s")
        assert answer["ResponseMetadata"]["HTTPHeaders"][TIME_SCALE] == "3600"
        there.engine.wait(answer["experiment"]["id"])
        over = fis.get_experiment(id=answer["experiment"]["id"])["experiment"]
        assert over["state"]["status"] == "completed"
        assert over["actions"]["stop"]["parameters"] == {"startInstancesAfterDuration": "PT1H"}
        assert 1 <= (over["endTime"] - over["startTime"]).total_seconds() < 3600
        with pytest.raises(ClientError) as error:
            fis.get_experiment(id="EXP0")
        assert error.value.response["ResponseMetadata"]["HTTPHeaders"][TIME_SCALE] == "3600"


def test_another_region_or_no_signature_is_refused(tmp_path: Path) -> None:
    with World().open(tmp_path / "j.jsonl") as there:
        status, headers, body = asked(there.url, "GET", "/experiments", headers=scoped("fis", "us-east-1"))
        assert (status, headers["x-amzn-errortype"]) == (403, "InvalidSignatureException") and PLACE.region in str(body)
        for authorization in ({}, {"Authorization": "Basic bG9jYWw6bG9jYWw="}):
            status, headers, _ = asked(there.url, "GET", "/experiments", headers=authorization)
            assert (status, headers["x-amzn-errortype"]) == (403, "MissingAuthenticationTokenException")
        assert asked(there.url, "GET", "/experiments", headers=scoped("fis"))[0] == 200


def test_a_request_without_a_length_that_can_be_read_is_refused(tmp_path: Path) -> None:
    with World().open(tmp_path / "j.jsonl") as there:
        for header in ({"Transfer-Encoding": "chunked"}, {"Content-Length": "x"}, {"Content-Length": str(10**9)}):
            where = urlsplit(there.url)
            with socket.create_connection((where.hostname, where.port), 60) as connection:
                lines = ["POST /experiments HTTP/1.1", *(f"{a}: {b}" for a, b in {**scoped("fis"), **header}.items())]
                connection.sendall("\r\n".join([*lines, "", ""]).encode())
                assert connection.recv(100).startswith(b"HTTP/1.1 400")


def test_other_services_are_motos_byte_by_byte(tmp_path: Path) -> None:
    body = bytes(range(256))
    with (
        recording((207, {"X-Odd": "a, b", "Content-Type": "application/octet-stream"}, body)) as (url, seen),
        World().open(tmp_path / "j.jsonl", moto=url) as there,
    ):
        headers = {**scoped("dynamodb"), "X-Mine": "é".encode("latin-1").decode("latin-1")}
        status, told, answer = asked(there.url, "POST", "/a%2Fb?x=%20&y", body, headers)
        assert (status, answer, told["X-Odd"]) == (207, body, "a, b")
        [(method, path, sent, content)] = seen
        assert (method, path, content) == ("POST", "/a%2Fb?x=%20&y", body)
        assert sent["authorization"] == headers["Authorization"] and sent["x-mine"] == "é"
        asked(there.url, "GET", "/experiments", headers=scoped("fis"))
        assert len(seen) == 1, "FIS is never moto's"


def test_a_handler_goes_before_moto_and_may_leave_a_request_to_it(tmp_path: Path) -> None:
    def ssm(request: Request) -> Reply | None:
        return Reply(200, {}, b'{"Command": {}}') if request.operation == "SendCommand" else None

    with (
        recording((200, {}, b'{"Commands": []}')) as (url, seen),
        World().open(tmp_path / "j.jsonl", moto=url, handlers={"ssm": ssm}) as there,
    ):
        mine = client(there.url, "ssm")
        mine.send_command(DocumentName="AWS-RunShellScript", InstanceIds=["i-0123456789abcdef0"])
        assert seen == []
        assert mine.list_commands()["Commands"] == [] and len(seen) == 1


def test_a_service_that_nobody_has_and_a_moto_that_is_gone(tmp_path: Path) -> None:
    with World().open(tmp_path / "a.jsonl") as there:
        with pytest.raises(ClientError) as error:
            client(there.url, "ssm").list_commands()
        assert code_of(error.value) == ("UnknownOperationException", 404)
    with recording((200, {}, b"")) as (url, _):
        pass
    with World().open(tmp_path / "b.jsonl", moto=url) as there, pytest.raises(ClientError) as error:
        client(there.url, "ec2").describe_instances()
    assert code_of(error.value) == ("ServiceUnavailableException", 503)


def test_a_handler_that_breaks_is_a_500_that_says_so(tmp_path: Path) -> None:
    def broken(request: Request) -> Reply:
        raise KeyError("oops")

    with World().open(tmp_path / "j.jsonl", handlers={"ssm": broken}) as there:
        with pytest.raises(ClientError, match="KeyError") as error:
            client(there.url, "ssm").list_commands()
        assert code_of(error.value) == ("InternalServerException", 500)


def test_each_operation_is_denied_by_its_name(tmp_path: Path) -> None:
    denied = ["fis:StartExperiment", "ec2:StartInstances", "ssm:SendCommand", "iam:GetRole", "sts:GetCallerIdentity"]
    policy = parse(
        {
            "Statement": [
                {"Effect": "Allow", "Action": "*", "Resource": "*"},
                {"Effect": "Deny", "Action": [*denied, "cloudwatch:Describe*"], "Resource": "*"},
            ]
        }
    )
    with World().open(tmp_path / "j.jsonl", policy=policy) as there:
        fis = client(there.url)
        of = fis.create_experiment_template(**template())["experimentTemplate"]["id"]
        instance = "i-0123456789abcdef0"
        calls: list[tuple[Callable[[], Any], str]] = [
            (lambda: fis.start_experiment(experimentTemplateId=of), "AccessDeniedException"),
            (lambda: client(there.url, "ec2").start_instances(InstanceIds=[instance]), "UnauthorizedOperation"),
            (
                lambda: client(there.url, "ssm").send_command(DocumentName="a-document", InstanceIds=[instance]),
                "AccessDeniedException",
            ),
            (lambda: client(there.url, "iam").get_role(RoleName="a-role"), "AccessDenied"),
            (lambda: client(there.url, "cloudwatch").describe_alarms(), "AccessDeniedException"),
        ]
        for call, code in calls:
            with pytest.raises(ClientError, match="not authorized to perform") as error:
                call()
            assert code_of(error.value) == (code, 403)
        assert there.engine.experiments() == []
        with pytest.raises(ClientError) as error:
            client(there.url, "ec2").describe_instances()
        assert code_of(error.value)[0] == "UnknownOperationException", "what is allowed is not denied"
        with pytest.raises(ClientError) as error:
            client(there.url, "sts").get_caller_identity()
        assert code_of(error.value)[0] == "UnknownOperationException", "no policy denies it, as on AWS"


# a restart


def test_what_a_dead_endpoint_began_is_ended_before_anybody_is_answered(tmp_path: Path) -> None:
    world = World()
    with world.open(tmp_path / "first.jsonl") as there:
        fis = client(there.url)
        of = fis.create_experiment_template(**template())["experimentTemplate"]["id"]
        name = fis.start_experiment(experimentTemplateId=of, clientToken="s")["experiment"]["id"]
        there.engine.wait(name, underway)
        (tmp_path / "second.jsonl").write_bytes((tmp_path / "first.jsonl").read_bytes())
        dead = dict(world.hands.effect)
    world.hands.effect.update(dead)
    ended: list[bool] = []
    serve = tampering(lambda operation: ended.append(not world.hands.effect))
    with world.open(tmp_path / "second.jsonl", serve=serve) as there:
        fis = client(there.url)
        assert fis.get_experiment(id=name)["experiment"]["state"]["error"]["code"] == "InternalFailure"
        assert fis.start_experiment(experimentTemplateId=of, clientToken="s")["experiment"]["id"] == name
        assert ended == [True, True] and there.left == ()


def test_closing_ends_what_is_under_way(tmp_path: Path) -> None:
    world = World()
    with world.open(tmp_path / "j.jsonl") as there:
        fis = client(there.url)
        of = fis.create_experiment_template(**template())["experimentTemplate"]["id"]
        name = fis.start_experiment(experimentTemplateId=of, clientToken="s")["experiment"]["id"]
        there.engine.wait(name, underway)
        assert world.hands.effect
    assert world.hands.effect == {}
    with world.open(tmp_path / "j.jsonl") as there:
        assert client(there.url).get_experiment(id=name)["experiment"]["state"]["status"] == "stopped"


# tampering


@contextmanager
def tampered(folder: Path, tamper: Times, **given: Any) -> Iterator[tuple[World, Any, str]]:
    world = World()
    with world.open(folder / "j.jsonl", serve=tampering(tamper), **given) as there:
        yield world, there, there.url


def start_of(fis: Any) -> str:
    of = fis.create_experiment_template(**template())["experimentTemplate"]["id"]
    return str(fis.start_experiment(experimentTemplateId=of, clientToken="s")["experiment"]["id"])


@pytest.mark.parametrize("what", ["throttle", "error", "drop"])
@pytest.mark.parametrize(
    "operation", ["CreateExperimentTemplate", "StartExperiment", "StopExperiment", "GetExperiment"]
)
def test_whatever_is_lost_at_a_start_a_repeat_makes_one_experiment(tmp_path: Path, what: Any, operation: str) -> None:
    tamper = Times(what, frozenset({operation}), left=2)
    with tampered(tmp_path, tamper) as (_, there, url):
        fis = client(url, attempts=3)
        name = start_of(fis)
        there.engine.wait(name, underway)
        assert fis.get_experiment(id=name)["experiment"]["id"] == name
        try:
            fis.stop_experiment(id=name)
        except ClientError as error:
            assert (operation, what) == ("StopExperiment", "drop"), "only a stop that came through may find it over"
            assert code_of(error)[0] == "ValidationException"
        assert tamper.left == 0 and tamper.seen.count(operation) == 3
        assert len(there.engine.experiments()) == 1
        assert len(fis.list_experiment_templates()["experimentTemplates"]) == 1


def test_half_an_answer_is_an_answer_without_members_to_botocore(tmp_path: Path) -> None:
    """No exception and no repeat: who reads such an answer must miss the member, and repeat with the same token."""
    with tampered(tmp_path, Times("cut", frozenset({"StartExperiment"}))) as (_, there, url):
        fis = client(url, attempts=3)
        of = fis.create_experiment_template(**template())["experimentTemplate"]["id"]
        half = fis.start_experiment(experimentTemplateId=of, clientToken="s")
        assert "experiment" not in half and half["ResponseMetadata"]["HTTPStatusCode"] == 200
        name = fis.start_experiment(experimentTemplateId=of, clientToken="s")["experiment"]["id"]
        assert [each["id"] for each in there.engine.experiments()] == [name]


@pytest.mark.parametrize(("what", "made"), [("hang", 0), ("hang after", 1)])
def test_an_answer_that_never_comes(tmp_path: Path, what: Any, made: int) -> None:
    with tampered(tmp_path, Times(what, frozenset({"StartExperiment"}))) as (_, there, url):
        with pytest.raises(exceptions.ReadTimeoutError):
            start_of(client(url, read_timeout=0.5))
        assert len(there.engine.experiments()) == made


def test_a_stop_that_does_nothing(tmp_path: Path) -> None:
    with tampered(tmp_path, Times("idle stop", frozenset({"StopExperiment"}), left=10)) as (world, there, url):
        fis = client(url)
        name = start_of(fis)
        there.engine.wait(name, underway)
        assert fis.stop_experiment(id=name)["experiment"]["state"]["status"] == "stopping"
        assert fis.get_experiment(id=name)["experiment"]["state"]["status"] == "running" and world.hands.effect


def test_actions_that_are_skipped_behind_the_clients_back(tmp_path: Path) -> None:
    with tampered(tmp_path, Times("skip", frozenset({"StartExperiment"}))) as (world, there, url):
        fis = client(url)
        name = start_of(fis)
        there.engine.wait(name)
        over = fis.get_experiment(id=name)["experiment"]
        assert over["state"]["status"] == "completed" and over["actions"]["stop"]["state"]["status"] == "skipped"
        assert world.hands.calls == []


@pytest.mark.parametrize(("more", "expected"), [(False, [arn(7)]), (True, [arn(0), arn(7)])])
def test_another_or_one_more_target(tmp_path: Path, more: bool, expected: list[str]) -> None:
    tamper = Times("cut", frozenset())
    with tampered(tmp_path, tamper, resolve=elsewhere(arn(7), more=more)) as (world, there, url):
        fis = client(url)
        name = start_of(fis)
        there.engine.wait(name, underway)
        told = fis.list_experiment_resolved_targets(experimentId=name)["resolvedTargets"]
        assert [each["targetInformation"]["arn"] for each in told] == expected
        [doing] = world.hands.effect.values()
        assert list(doing.targets["Instances"]) == expected


def test_another_target_behind_everybodys_back_and_hands_that_do_nothing(tmp_path: Path) -> None:
    world = World()
    for hands, hit in (
        (AstrayHands(world.hands, arn(7)), [arn(7)]),
        (IdleHands(world.hands), []),
        (IdleHands(world.hands, begins=True), [arn(0)]),
    ):
        world.hands.effect.clear()
        file = tmp_path / f"{type(hands).__name__}{len(hit)}.jsonl"
        with opened(world.setup(file, hands=hands, time_scale=36000)) as there:
            fis = client(there.url)
            name = start_of(fis)
            there.engine.wait(name, lambda each: bool(each["resolved"]))
            told = fis.list_experiment_resolved_targets(experimentId=name)["resolvedTargets"]
            assert [each["targetInformation"]["arn"] for each in told] == [arn(0)]
            there.engine.wait(name)
            assert fis.get_experiment(id=name)["experiment"]["state"]["status"] == "completed"
        left = [each for doing in world.hands.effect.values() for each in doing.targets["Instances"]]
        assert left == (hit if isinstance(hands, IdleHands) else [])
        assert isinstance(hands, IdleHands) or world.hands.of("begin") == ["stop"]


# moto


@pytest.fixture(scope="module")
def moto() -> Iterator[str]:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    url = f"http://127.0.0.1:{port}"
    try:
        deadline = time.monotonic() + 60
        while not _answers(url):
            assert process.poll() is None and time.monotonic() < deadline, "moto did not start"
            threading.Event().wait(0.1)
        yield url
    finally:
        process.kill()
        process.wait()


def _answers(url: str) -> bool:
    try:
        with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(f"{url}/moto-api/", timeout=5):
            return True
    except OSError:
        return False


@needs_moto
def test_one_port_for_motos_services_and_fis(tmp_path: Path, moto: str) -> None:
    """Clients of EC2, STS and CloudWatch reach moto through the endpoint; an alarm set there stops an experiment."""
    world = World()
    states = Alarms(client(moto, "cloudwatch"))
    with world.open(tmp_path / "j.jsonl", moto=moto, alarm_state=states) as there:
        assert client(there.url, "sts").get_caller_identity()["Account"] == PLACE.account
        vpc = client(there.url, "ec2").create_vpc(CidrBlock="10.0.0.0/16")["Vpc"]["VpcId"]
        assert vpc in [each["VpcId"] for each in client(moto, "ec2").describe_vpcs()["Vpcs"]]
        cloudwatch = client(there.url, "cloudwatch")
        cloudwatch.put_metric_alarm(
            AlarmName="slow",
            ComparisonOperator="GreaterThanThreshold",
            EvaluationPeriods=1,
            MetricName="latency",
            Namespace="shop",
            Period=60,
            Statistic="Average",
            Threshold=1.0,
        )
        stop = [{"source": "aws:cloudwatch:alarm", "value": alarm("slow")}]
        fis = client(there.url)
        of = fis.create_experiment_template(**template(stopConditions=stop))["experimentTemplate"]["id"]
        cloudwatch.set_alarm_state(AlarmName="slow", StateValue="INSUFFICIENT_DATA", StateReason="new")
        early = fis.start_experiment(experimentTemplateId=of, clientToken="a")["experiment"]["id"]
        assert "INSUFFICIENT_DATA" in there.engine.wait(early)["state"]["reason"] and world.hands.calls == []
        cloudwatch.set_alarm_state(AlarmName="slow", StateValue="OK", StateReason="measured")
        name = fis.start_experiment(experimentTemplateId=of, clientToken="b")["experiment"]["id"]
        there.engine.wait(name, underway)
        cloudwatch.set_alarm_state(AlarmName="slow", StateValue="ALARM", StateReason="measured")
        assert there.engine.wait(name)["state"]["status"] == "stopped" and world.hands.effect == {}
        with pytest.raises(LookupError):
            states(alarm("nothing"))


def test_the_policy_names_operations_of_each_protocol() -> None:
    def of(service: str, path: str = "/", body: bytes = b"", **headers: str) -> str:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        return Request("POST", path, named, body, service, PLACE.region).operation

    form = "application/x-www-form-urlencoded; charset=utf-8"
    assert of("ssm", x_amz_target="AmazonSSM.SendCommand") == "SendCommand"
    assert of("ec2", body=b"Action=StartInstances&Version=1", content_type=form) == "StartInstances"
    assert of("sts", "/?Action=GetCallerIdentity") == "GetCallerIdentity"
    assert of("monitoring", "/service/GraniteServiceVersion20100801/operation/DescribeAlarms") == "DescribeAlarms"
    assert of("s3", "/bucket/key") == ""


def test_a_journal_says_the_time_scale(tmp_path: Path) -> None:
    with World().open(tmp_path / "j.jsonl", time_scale=60):
        pass
    rows = [json.loads(line) for line in (tmp_path / "j.jsonl").read_text().splitlines()]
    assert [row["time_scale"] for row in rows if row["kind"] == "opened"] == [60]
