"""Clients that speak to the right one alone: real ones of boto3, in an environment that would lead them elsewhere."""

from __future__ import annotations

import json
import socket
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from awslike import ACCOUNT, Asked, StandIn, identity, knows, stand_in

from chaos.aws import clients
from chaos.aws.clients import LOCAL_KEY, SERVICES, AwsError, Clients, paged, said
from chaos.base.errors import ChaosError, InvalidInput, MissingPrerequisite

REGION = "eu-central-1"
KEY, SECRET, TOKEN = "AKIAREALREALREALREAL", "realrealrealrealrealrealrealrealrealreal", "real-session-token"
ENV = ("AWS_", "BOTO", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "no_proxy")


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Nothing of this machine's own; the folder of AWS's files, with real credentials."""
    import os

    for name in [name for name in os.environ if name.startswith(ENV)]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "credentials"))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    (tmp_path / "credentials").write_text(
        f"[default]\naws_access_key_id={KEY}\naws_secret_access_key={SECRET}\naws_session_token={TOKEN}\n"
    )
    return tmp_path


@pytest.fixture
def local() -> Iterator[StandIn]:
    with stand_in() as it:
        yield it


@pytest.fixture
def elsewhere() -> Iterator[StandIn]:
    """Where everything hostile points to."""
    with stand_in() as it:
        yield it


@pytest.fixture
def reached(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Every address that this process connects or sends to. What is not loopback is not reached."""
    seen: list[Any] = []
    connect, sendto = socket.socket.connect, socket.socket.sendto

    def noted(address: Any) -> None:
        seen.append(address)
        if not str(address[0]).startswith("127."):
            raise OSError("no network in tests")

    def connects(self: socket.socket, address: Any) -> None:
        noted(address)
        connect(self, address)

    def sends(self: socket.socket, data: Any, *rest: Any) -> int:
        noted(rest[-1])
        return sendto(self, data, *rest)

    def resolves(host: Any, *rest: Any, **more: Any) -> Any:
        if str(host) != "127.0.0.1":
            seen.append((host, "resolved"))
            raise socket.gaierror("no network in tests")
        return getaddrinfo(host, *rest, **more)

    getaddrinfo = socket.getaddrinfo
    monkeypatch.setattr(socket.socket, "connect", connects)
    monkeypatch.setattr(socket.socket, "sendto", sends)
    monkeypatch.setattr(socket, "getaddrinfo", resolves)
    return seen


def hostile(name: str, other: StandIn, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One way in which an environment or AWS's files lead elsewhere, or break things."""
    if name == "AWS_ENDPOINT_URL":
        monkeypatch.setenv("AWS_ENDPOINT_URL", other.url)
    elif name == "AWS_ENDPOINT_URL_*":
        for service in SERVICES.values():
            monkeypatch.setenv(f"AWS_ENDPOINT_URL_{service}", other.url)
    elif name == "ignored":
        monkeypatch.setenv("AWS_IGNORE_CONFIGURED_ENDPOINT_URLS", "true")
    elif name == "proxies":
        for variable in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy"):
            monkeypatch.setenv(variable, other.url)
    elif name == "profile":
        (folder / "config").write_text(f"[profile bad]\nendpoint_url={other.url}\nregion=us-east-1\n")
        monkeypatch.setenv("AWS_PROFILE", "bad")
    elif name == "services":
        sections = "".join(f"{each.lower()} =\n  endpoint_url = {other.url}\n" for each in SERVICES.values())
        (folder / "config").write_text(f"[default]\nservices=bad\n[services bad]\n{sections}")
    elif name == "no such profile":
        monkeypatch.setenv("AWS_PROFILE", "is-not-there")
    elif name == "broken files":
        (folder / "config").write_text("[default\n???")
    elif name == "variants":
        monkeypatch.setenv("AWS_USE_FIPS_ENDPOINT", "true")
        monkeypatch.setenv("AWS_USE_DUALSTACK_ENDPOINT", "true")
        monkeypatch.setenv("AWS_STS_REGIONAL_ENDPOINTS", "legacy")
        monkeypatch.setenv("AWS_DEFAULTS_MODE", "standard")
    elif name == "monitoring":
        monkeypatch.setenv("AWS_CSM_ENABLED", "true")
        monkeypatch.setenv("AWS_CSM_HOST", "127.0.0.1")
        monkeypatch.setenv("AWS_CSM_PORT", str(other.port))
    elif name == "credentials":
        monkeypatch.setenv("AWS_ACCESS_KEY_ID", KEY)
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
        monkeypatch.setenv("AWS_SESSION_TOKEN", TOKEN)
        monkeypatch.setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", other.url)
        monkeypatch.setenv("AWS_REGION", "us-east-1")
        monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    elif name == "retries":
        monkeypatch.setenv("AWS_MAX_ATTEMPTS", "50")
        monkeypatch.setenv("AWS_RETRY_MODE", "legacy")
    elif name == "models":
        where = folder / "models" / "sts" / "2011-06-15"
        where.mkdir(parents=True)
        rules = {
            "version": "1.0",
            "parameters": {"Region": {"builtIn": "AWS::Region", "required": False, "type": "String"}},
            "rules": [{"conditions": [], "endpoint": {"url": other.url}, "type": "endpoint"}],
        }
        (where / "endpoint-rule-set-1.json").write_text(json.dumps(rules))
        (where / "service-2.json").write_text(json.dumps(STS))
        monkeypatch.setenv("AWS_DATA_PATH", str(folder / "models"))
    else:
        raise AssertionError(name)


STS = {
    "version": "2.0",
    "metadata": {
        "apiVersion": "2011-06-15",
        "endpointPrefix": "sts",
        "protocol": "query",
        "serviceId": "STS",
        "signatureVersion": "v4",
        "uid": "sts-2011-06-15",
        "xmlNamespace": "https://sts.amazonaws.com/doc/2011-06-15/",
        "serviceFullName": "x",
    },
    "operations": {
        "GetCallerIdentity": {
            "name": "GetCallerIdentity",
            "http": {"method": "POST", "requestUri": "/"},
            "input": {"shape": "In"},
            "output": {"shape": "Out", "resultWrapper": "GetCallerIdentityResult"},
        }
    },
    "shapes": {
        "In": {"type": "structure", "members": {}},
        "Out": {"type": "structure", "members": {"Account": {"shape": "S"}, "Arn": {"shape": "S"}}},
        "S": {"type": "string"},
    },
}
HOSTILE = (
    "AWS_ENDPOINT_URL",
    "AWS_ENDPOINT_URL_*",
    "ignored",
    "proxies",
    "profile",
    "services",
    "no such profile",
    "broken files",
    "variants",
    "monitoring",
    "credentials",
    "retries",
    "models",
)


def ask(made: Clients, *services: str) -> None:
    """A read of each of these; how it is answered does not matter."""
    asks = {
        "fis": "list_experiments",
        "ec2": "describe_instances",
        "ssm": "describe_instance_information",
        "sts": "get_caller_identity",
        "cloudwatch": "describe_alarms",
        "iam": "list_roles",
        "resourcegroupstaggingapi": "get_resources",
        "opensearch": "list_domain_names",
    }
    assert set(asks) == set(SERVICES)
    for service in services:
        with suppress(*clients.errors()):
            getattr(made.client(service), asks[service])()


# ---- a local target -------------------------------------------------------------------------------------


@pytest.mark.parametrize("way", [*HOSTILE, "all"])
def test_nothing_leads_a_local_target_elsewhere(
    way: str,
    local: StandIn,
    elsewhere: StandIn,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    reached: list[Any],
) -> None:
    for each in HOSTILE if way == "all" else (way,):
        hostile(each, elsewhere, folder, monkeypatch)
    local.reply = knows(lambda _: (403, {"message": "no"}))
    made = Clients(REGION, endpoint=local.url, account=ACCOUNT)
    services = tuple(SERVICES) if way == "all" else ("fis", "sts")  # ec2's client alone takes a second
    ask(made, *services)
    assert elsewhere.asked == []
    assert set(reached) == {("127.0.0.1", local.port)}
    signed = {"cloudwatch": "monitoring", "resourcegroupstaggingapi": "tagging", "opensearch": "es"}
    assert {each.service for each in local.asked} == {signed.get(service, service) for service in services}
    assert {each.key for each in local.asked} == {LOCAL_KEY}
    assert {each.region for each in local.asked if each.service != "iam"} == {REGION}
    assert not any("x-amz-security-token" in each.headers for each in local.asked)
    assert not any(KEY in str(each) or TOKEN in str(each) for each in local.asked)
    for service in services:
        assert made.client(service).meta.endpoint_url == local.url


def test_real_credentials_are_not_even_looked_for(
    local: StandIn, folder: Path, monkeypatch: pytest.MonkeyPatch, reached: list[Any]
) -> None:
    marker = folder / "was-run"
    (folder / "config").write_text(f"[default]\ncredential_process = touch {marker}\n")
    (folder / "credentials").unlink()
    Clients(REGION, endpoint=local.url, account=ACCOUNT).check()
    assert not marker.exists() and set(reached) == {("127.0.0.1", local.port)}


@pytest.mark.parametrize(
    "endpoint",
    [
        "http://192.0.2.1:4566",
        "https://fis.eu-central-1.amazonaws.com",
        "http://localhost:4566",
        "http://localhost.example.com:4566",
        "http://127.0.0.1.example.com:4566",
        "http://127.0.0.1:4566@example.com:80",
        "http://user:hunter2@127.0.0.1:4566",
        "http://0.0.0.0:4566",
        "http://[::ffff:127.0.0.1]:4566",
        "http://[::1%25lo]:4566",
        "http://2130706433:4566",
        "http://127.1:4566",
        "http://127.0.0.1",
        "http://127.0.0.1:0",
        "http://127.0.0.1:99999",
        "http://127.0.0.1:4566/path",
        "http://127.0.0.1:4566?query",
        "ftp://127.0.0.1:4566",
        "127.0.0.1:4566",
        "",
        "http://[",
    ],
)
def test_a_local_endpoint_is_loopback(endpoint: str, reached: list[Any]) -> None:
    with pytest.raises(InvalidInput, match=r"a local endpoint .*127\.0\.0\.1:PORT") as error:
        Clients(REGION, endpoint=endpoint, account=ACCOUNT)
    assert "hunter2" not in str(error.value) and reached == []


@pytest.mark.parametrize("endpoint", ["http://127.0.0.1:4566", "http://127.9.9.9:1/", "https://[::1]:4566"])
def test_every_loopback_address_will_do(endpoint: str) -> None:
    assert Clients(REGION, endpoint=endpoint, account=ACCOUNT).endpoint == endpoint.rstrip("/")


@pytest.mark.parametrize("service", sorted(SERVICES))
def test_nothing_is_asked_of_another_account(service: str, local: StandIn, reached: list[Any]) -> None:
    local.reply = knows(account="999999999999")
    made = Clients(REGION, endpoint=local.url, account=ACCOUNT)
    with pytest.raises(InvalidInput, match=r"answers for the account 999999999999, and the target is 123456789012"):
        made.client(service)
    assert [each.service for each in local.asked] == ["sts"]
    assert set(reached) == {("127.0.0.1", local.port)}


def test_an_answer_without_an_account_is_none(local: StandIn) -> None:
    local.reply = lambda _: (200, identity("").replace("<Account></Account>", ""))
    with pytest.raises(InvalidInput, match="answers for the account None"):
        Clients(REGION, endpoint=local.url, account=ACCOUNT).check()


@pytest.mark.parametrize(
    ("status", "answer"),
    [
        (200, "this is no XML"),
        (200, "<a><b/></a>"),
        (200, ""),
        (403, "<ErrorResponse><Error><Code>AccessDenied</Code></Error></ErrorResponse>"),
    ],
)
def test_who_does_not_say_an_account_is_refused(status: int, answer: str, local: StandIn) -> None:
    local.reply = lambda _: (status, answer)
    with pytest.raises(InvalidInput, match=r"does not say whose account this is: .*; start the local endpoint"):
        Clients(REGION, endpoint=local.url, account=ACCOUNT).fis  # noqa: B018
    assert {each.service for each in local.asked} == {"sts"}


def test_nobody_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clients, "ATTEMPTS", 1)
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with pytest.raises(InvalidInput, match=f"nobody takes a connection at http://127.0.0.1:{port}; start the local"):
        Clients(REGION, endpoint=f"http://127.0.0.1:{port}", account=ACCOUNT).check()


def test_the_account_is_asked_once_and_clients_are_made_once(local: StandIn) -> None:
    made = Clients(REGION, endpoint=local.url, account=ACCOUNT)
    assert made.check() == f"arn:aws:iam::{ACCOUNT}:user/tester"
    by_name = (made.fis, made.ec2, made.ssm, made.sts, made.cloudwatch, made.iam, made.tagging, made.domains)
    assert by_name == tuple(made.client(name) for name in SERVICES)
    assert len(local.asked) == 1 and made.local
    with pytest.raises(ValueError, match="no client for s3"):
        made.client("s3")


def test_requests_are_repeated_as_we_say(local: StandIn) -> None:
    config = Clients(REGION, endpoint=local.url, account=ACCOUNT).fis.meta.config
    assert config.retries == {"mode": "standard", "total_max_attempts": clients.ATTEMPTS}
    assert (config.connect_timeout, config.read_timeout) == (clients.CONNECT_TIMEOUT, clients.READ_TIMEOUT)


def test_a_request_that_is_led_elsewhere_on_its_way_is_not_sent(
    local: StandIn, elsewhere: StandIn, reached: list[Any]
) -> None:
    client = Clients(REGION, endpoint=local.url, account=ACCOUNT).fis

    def leads(request: Any, **_: Any) -> None:
        request.url = request.url.replace(str(local.port), str(elsewhere.port))

    client.meta.events.register("before-sign.fis", leads)
    with pytest.raises(InvalidInput, match="a request to fis was to go elsewhere"):
        client.list_experiments()
    assert elsewhere.asked == [] and len(local.asked) == 1
    assert set(reached) == {("127.0.0.1", local.port)}


@pytest.mark.parametrize(
    ("region", "account", "profile"),
    [
        ("", ACCOUNT, None),
        ("eu", ACCOUNT, None),
        ("eu-central-1.example.com", ACCOUNT, None),
        ("eu-central-1/", ACCOUNT, None),
        (REGION, "", None),
        (REGION, "12345678901", None),
        (REGION, "arn:aws:iam::1:root", None),
        (REGION, ACCOUNT, "default"),
    ],
)
def test_what_a_target_says_is_checked(region: str, account: str, profile: str | None) -> None:
    with pytest.raises(InvalidInput):
        Clients(region, profile, "http://127.0.0.1:4566", account=account)


def test_without_boto3_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "boto3", None)
    for endpoint in ("http://127.0.0.1:4566", None):
        with pytest.raises(MissingPrerequisite, match=r"opensearch-chaos\[aws\]"):
            Clients(REGION, endpoint=endpoint, account=ACCOUNT).check()


# ---- AWS itself -----------------------------------------------------------------------------------------


class Raw:
    """A body as botocore reads it."""

    def __init__(self, text: str) -> None:
        self.text = text

    def stream(self, **_: Any) -> Iterator[bytes]:
        yield self.text.encode()


def as_aws(made: Clients, account: str = ACCOUNT) -> list[Any]:
    """AWS's sts, without a network; the requests that it would have got."""
    from botocore.awsrequest import AWSResponse

    requests: list[Any] = []

    def answers(request: Any, **_: Any) -> Any:
        requests.append(request)
        return AWSResponse(request.url, 200, {}, Raw(identity(account)))

    made._client("sts").meta.events.register("before-send.sts", answers)
    return requests


def test_a_target_that_is_aws_speaks_to_aws(reached: list[Any]) -> None:
    made = Clients(REGION, account=ACCOUNT)
    requests = as_aws(made)
    made.check()
    (request,) = requests
    assert request.url == f"https://sts.{REGION}.amazonaws.com/"
    assert f"Credential={KEY}/" in str(request.headers["Authorization"])
    assert {name: made.client(name).meta.endpoint_url for name in SERVICES} == {
        "fis": f"https://fis.{REGION}.amazonaws.com",
        "ec2": f"https://ec2.{REGION}.amazonaws.com",
        "ssm": f"https://ssm.{REGION}.amazonaws.com",
        "sts": f"https://sts.{REGION}.amazonaws.com",
        "cloudwatch": f"https://monitoring.{REGION}.amazonaws.com",
        "iam": "https://iam.amazonaws.com",
        "resourcegroupstaggingapi": f"https://tagging.{REGION}.amazonaws.com",
        "opensearch": f"https://es.{REGION}.amazonaws.com",
    }
    assert reached == [] and not made.local and len(requests) == 1


def test_what_has_no_token_is_sent_once() -> None:
    made = Clients(REGION, account=ACCOUNT)
    as_aws(made)
    attempts = [made.client("opensearch", once=once).meta.config.retries for once in (False, True)]
    assert [each["total_max_attempts"] for each in attempts] == [5, 1]


def test_another_account_of_aws_is_refused(reached: list[Any]) -> None:
    made = Clients(REGION, account=ACCOUNT)
    as_aws(made, "999999999999")
    with pytest.raises(InvalidInput, match="AWS answers for the account 999999999999"):
        made.ec2  # noqa: B018
    assert reached == []


@pytest.mark.parametrize(
    "way",
    ["AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_*", "profile", "services", "models", "no such profile", "broken files"],
)
def test_a_target_that_is_aws_does_not_speak_to_a_stand_in(
    way: str, elsewhere: StandIn, folder: Path, monkeypatch: pytest.MonkeyPatch, reached: list[Any]
) -> None:
    hostile(way, elsewhere, folder, monkeypatch)
    with pytest.raises(InvalidInput) as error:
        Clients(REGION, account=ACCOUNT).fis  # noqa: B018
    assert reached == [] and elsewhere.asked == []
    words = str(error.value)
    assert "\n" not in words and "; " in words and KEY not in words
    if way == "models":
        assert "a request to sts was to go elsewhere" in words and "AWS_DATA_PATH" in words
    elif way not in ("no such profile", "broken files"):
        assert "the target is AWS, and " in words


@pytest.mark.parametrize("service", sorted(SERVICES.values()))
def test_each_variable_alone_is_refused(service: str, monkeypatch: pytest.MonkeyPatch, reached: list[Any]) -> None:
    monkeypatch.setenv(f"AWS_ENDPOINT_URL_{service}", "https://fis.eu-central-1.amazonaws.com.example.com")
    monkeypatch.setenv("AWS_IGNORE_CONFIGURED_ENDPOINT_URLS", "true")
    with pytest.raises(InvalidInput, match=f"AWS_ENDPOINT_URL_{service} leads elsewhere"):
        Clients(REGION, account=ACCOUNT).check()
    assert reached == []


def test_what_leads_services_elsewhere_that_we_do_not_use_does_not_matter(
    folder: Path, monkeypatch: pytest.MonkeyPatch, reached: list[Any]
) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", "http://127.0.0.1:9000")
    monkeypatch.setenv("AWS_ENDPOINT_URL", "")
    (folder / "config").write_text(
        "[default]\nservices=x\n[services x]\ns3 =\n  endpoint_url = http://127.0.0.1:9000\n"
    )
    made = Clients(REGION, account=ACCOUNT)
    as_aws(made)
    assert made.fis.meta.endpoint_url == f"https://fis.{REGION}.amazonaws.com" and reached == []


def test_variables_that_botocore_would_go_by_are_ours_by_name() -> None:
    """That the names in SERVICES are those that botocore looks for."""
    import boto3

    for service, name in SERVICES.items():
        identified = boto3.Session(region_name=REGION).client(service).meta.service_model.service_id
        assert str(identified).upper().replace(" ", "_") == name


def test_a_profile_that_is_not_there(reached: list[Any]) -> None:
    with pytest.raises(InvalidInput, match="no profile nobody; name another one"):
        Clients(REGION, "nobody", account=ACCOUNT).check()
    assert reached == []


def test_without_credentials(folder: Path, reached: list[Any]) -> None:
    (folder / "credentials").unlink()
    with pytest.raises(InvalidInput, match="no AWS credentials were found; set AWS_ACCESS_KEY_ID"):
        Clients(REGION, account=ACCOUNT).check()
    assert reached == []


def test_what_a_credential_program_says_is_not_repeated(folder: Path, reached: list[Any]) -> None:
    (folder / "credentials").unlink()
    (folder / "config").write_text("[default]\ncredential_process = sh -c 'echo hunter2; echo hunter2 >&2; exit 1'\n")
    with pytest.raises(InvalidInput) as error:
        Clients(REGION, account=ACCOUNT).check()
    assert "hunter2" not in str(error.value) and error.value.__cause__ is None
    assert reached == []


# ---- pages ----------------------------------------------------------------------------------------------


def pages_of(*tokens: str | None) -> Any:
    """Answers in their order, each with a token for the next."""
    left = list(tokens)

    def reply(asked: Asked) -> tuple[int, Any]:
        token = left.pop(0)
        return 200, {"experiments": [{"id": asked.target}]} | ({} if token is None else {"nextToken": token})

    return knows(reply)


@pytest.mark.parametrize(
    ("operation", "params"),
    [
        ("ListExperiments", {}),
        ("list_experiments", {}),
        ("ListExperimentTargetAccountConfigurations", {"experimentId": "EXP1"}),
    ],
)
def test_all_pages_are_read(operation: str, params: dict[str, Any], local: StandIn) -> None:
    local.reply = pages_of("one", "two", None)
    made = Clients(REGION, endpoint=local.url, account=ACCOUNT)
    assert len(paged(made.fis, operation, **params)) == 3
    asked = [each.target.partition("?")[2] for each in local.asked if each.service == "fis"]
    assert asked == ["", "nextToken=one", "nextToken=two"]


@pytest.mark.parametrize("tokens", [("one", "one", "one"), ("one", "two", "one", "two", "one")])
@pytest.mark.parametrize(
    ("operation", "params"),
    [("ListExperiments", {}), ("ListExperimentTargetAccountConfigurations", {"experimentId": "EXP1"})],
)
def test_pages_that_never_end_are_an_error(
    operation: str, params: dict[str, Any], tokens: tuple[str, ...], local: StandIn
) -> None:
    local.reply = pages_of(*tokens)
    made = Clients(REGION, endpoint=local.url, account=ACCOUNT)
    with pytest.raises(AwsError, match="answers the same page again and again"):
        paged(made.fis, operation, **params)


def test_what_has_no_pages_is_one(local: StandIn) -> None:
    made = Clients(REGION, endpoint=local.url, account=ACCOUNT)
    (page,) = paged(made.sts, "GetCallerIdentity")
    assert page["Account"] == ACCOUNT


def test_an_error_among_pages_is_an_error(local: StandIn) -> None:
    answers = [(200, {"experiments": [], "nextToken": "one"}), (403, {"message": "no"})]
    local.reply = knows(lambda _: answers.pop(0))
    made = Clients(REGION, endpoint=local.url, account=ACCOUNT)
    with pytest.raises(clients.errors()):
        paged(made.fis, "ListExperiments")


# ---- what is said ---------------------------------------------------------------------------------------


def client_error(code: str, message: str, **more: Any) -> Any:
    from botocore.exceptions import ClientError

    return ClientError({"Error": {"Code": code, "Message": message}, **more}, "StartExperiment")


@pytest.mark.parametrize(
    ("code", "message", "line"),
    [
        ("ConflictException", "a run is under way", "StartExperiment answered ConflictException: a run is under way"),
        ("500", "<!doctype html> <title>broken</title>", "StartExperiment answered 500"),
        ("ValidationException", "", "StartExperiment answered ValidationException"),
        (
            "Throttling",
            "Rate exceeded (Service: Fis, Status Code: 429, Request ID: 6e86291e-8372-ff2a-2260-956d9b8aae1d)",
            "StartExperiment answered Throttling: Rate exceeded (Service: Fis, Status Code: 429",
        ),
        (
            "UnauthorizedOperation",
            "You are not authorized. Encoded authorization failure message: " + "aB3-_" * 80,
            "StartExperiment answered UnauthorizedOperation: You are not authorized.",
        ),
        (
            "AccessDeniedException",
            "User: arn:aws:iam::123456789012:user/me is not authorized to perform: fis:StartExperiment on resource: "
            "arn:aws:fis:eu-central-1:123456789012:experiment-template/EXT1a2b3c",
            "StartExperiment answered AccessDeniedException: User: arn:aws:iam::123456789012:user/me is not authorized "
            "to perform: fis:StartExperiment on resource: "
            "arn:aws:fis:eu-central-1:123456789012:experiment-template/EXT1a2b3c",
        ),
        ("SignatureDoesNotMatch", f"should have been {TOKEN}", "StartExperiment answered SignatureDoesNotMatch"),
        ("X", f"key {KEY} of {SECRET}", "StartExperiment answered X: key [removed] of [removed]"),
        ("X", "two\nlines\x1b[31m", "StartExperiment answered X: two lines?[31m"),
    ],
)
def test_an_answer_is_told_in_one_line(code: str, message: str, line: str) -> None:
    told = said(client_error(code, message, ResponseMetadata={"RequestId": "6e86291e-8372"}))
    assert told == line and "\n" not in told
    assert KEY not in told and SECRET not in told and TOKEN not in told


def test_errors_of_botocore_are_told_in_one_line() -> None:
    from botocore import exceptions

    url = "http://user:hunter2@127.0.0.1:1/path?X-Amz-Security-Token=hunter2"
    cases = {
        exceptions.EndpointConnectionError(endpoint_url=url): "nobody takes a connection at http://127.0.0.1:1",
        exceptions.ReadTimeoutError(endpoint_url=url): "no answer in time from http://127.0.0.1:1",
        exceptions.ConnectTimeoutError(endpoint_url=url): "no answer in time from http://127.0.0.1:1",
        exceptions.ConnectionClosedError(
            endpoint_url=url
        ): "the connection to http://127.0.0.1:1 ended before an answer",
        exceptions.NoCredentialsError(): "no AWS credentials were found",
        exceptions.CredentialRetrievalError(provider="x", error_msg="hunter2"): "CredentialRetrievalError",
        exceptions.ParamValidationError(
            report='Missing required parameter in input: "id"\nInvalid type for parameter a, value: hunter2, type: int'
        ): 'botocore refuses the request: Missing required parameter in input: "id"; Invalid type for parameter a',
        ChaosError("ours", remedy="do"): "ours",
        OSError("hunter2"): "OSError",
    }
    for error, line in cases.items():
        assert said(error) == line
