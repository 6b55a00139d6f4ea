"""Every client of ours against a server that lets through only what is signed for AWS, over real connections."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, unquote_to_bytes

import pytest
from apart import examples
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from opensearchpy.exceptions import AuthorizationException, TransportError
from opensearchpy.exceptions import ConnectionError as NoConnection
from sigv4 import Domain, Key, Refused, Verifier, serving
from unit.base.test_sigv4 import SECRET, TARGETS, TOKEN

from chaos.base.access import PLAIN, Access
from chaos.base.errors import InvalidInput
from chaos.base.netsock import Endpoint
from chaos.base.sigv4 import SigV4
from chaos.history.format import Outcome
from chaos.load.config import ClientHost, DriverConfig, OperationConfig, Target
from chaos.load.connections import by_default_policy, single
from chaos.load.outcomes import of_error
from chaos.opensearch.cluster import Zoning
from chaos.opensearch.rest import NodeClient, opensearch
from chaos.programs.audit import cluster
from chaos.programs.failover.rest import Api, discover

ACCESS = Access(sigv4=SigV4("eu-central-1"))
"""An access keeps its credentials, and each test has others: ``replace`` gives one that has not asked yet."""

Client = Callable[[str, str, Any], Any]
"""Method, target and body → the decoded answer. Raises AssertionError where it was not status 200."""


@pytest.fixture(autouse=True, params=["key", "role"])
def aws(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str | None]:
    """Credentials of a user, and of a role with a session token, in the environment; nothing of this machine's own."""
    token = TOKEN if request.param == "role" else None
    nowhere = str(tmp_path_factory.getbasetemp() / "no-such-file")
    with pytest.MonkeyPatch.context() as patch:
        for name in ("AWS_PROFILE", "AWS_DEFAULT_PROFILE", "AWS_SESSION_TOKEN", "AWS_SECURITY_TOKEN"):
            patch.delenv(name, raising=False)
        for name in ("AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE"):
            patch.setenv(name, nowhere)
        patch.setenv("AWS_EC2_METADATA_DISABLED", "true")
        patch.setenv("AWS_ACCESS_KEY_ID", "AKIDEXAMPLE")
        patch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
        if token is not None:
            patch.setenv("AWS_SESSION_TOKEN", token)
        yield token


@pytest.fixture
def domain(aws: str | None) -> Iterator[Domain]:
    with serving(Verifier((Key("AKIDEXAMPLE", SECRET, aws),), "eu-central-1")) as domain:
        yield domain


def node_client(port: int, access: Access) -> Client:
    client = NodeClient(Endpoint("127.0.0.1", port), access=replace(access))

    def ask(method: str, target: str, body: Any) -> Any:
        status, said = client.request(method, target, body=body)
        assert status == 200, said
        return said

    return ask


def failover(port: int, access: Access) -> Client:
    api = Api(replace(access))

    def ask(method: str, target: str, body: Any) -> Any:
        answer = api.ask_at(f"127.0.0.1:{port}", method, target, body, timeout=5.0)
        assert answer.ok, answer.body
        return answer.body

    return ask


def library(port: int, access: Access) -> Client:
    client = opensearch(Endpoint("127.0.0.1", port), access=replace(access), timeout=5.0)

    def ask(method: str, target: str, body: Any) -> Any:
        try:
            return client.transport.perform_request(method, target, body=body)
        except TransportError as error:
            raise AssertionError(error.info) from error

    return ask


def loaded(port: int, access: Access, *, policy: bool = False) -> Client:
    config = DriverConfig(
        seed=1,
        out=Path("history"),
        operations=(OperationConfig(name="read", kind="search", rate=1),),
        clients=(ClientHost(zone="a"),),
        targets=(Target(node="a-data", zone="a", host="127.0.0.1", port=port),),
        access=access,
    )
    config = DriverConfig.model_validate_json(config.model_dump_json())  # as it goes to the driver's process
    if policy:
        client = by_default_policy(dict(enumerate(config.targets)), None, config.access, pool=5, timeout_s=5.0)
    else:
        client = single(config.targets[0], 0, None, config.access, pool=5)

    def ask(method: str, target: str, body: Any) -> Any:
        text = body if body is None or isinstance(body, bytes | str) else json.dumps(body)
        try:
            status, said = client.transport.perform_request(method, target, body=text, timeout=5.0)
        except TransportError as error:
            raise AssertionError(error.info) from error
        assert status == 200
        return json.loads(said)

    return ask


def policied(port: int, access: Access) -> Client:
    return loaded(port, access, policy=True)


CLIENTS = [node_client, failover, library, loaded, policied]
TARGETS_OF_OPENSEARCH = [
    "/",
    "/chaos-*,logs-2026/_search?expand_wildcards=open,hidden",
    "/%3Clogs-%7Bnow%2Fd%7D%3E/_count",
    "/<logs-{now}>/_count",
    "/two words/_doc/a%20b",
    "/bücher/_doc/ሴ😀",
    "/x/_doc/a%2Fb%2fc",
    "/x/_doc/1+1=2",
    "/x/_doc/100%",
    "/x/_doc/%2e%2E",
    "/x/_doc/(a)!'$:@;=&[]|^`\"\\",
    "//x//_doc/./1/../2/",
    "/_cat/shards?v",
    "/_cat/shards?v&format=json&h=index,shard",
    "/_cluster/state?filter_path=a,b.*,-c.**&h=index,shard",
    "/x/_search?z=1&a=2&a=1&A=0&a=1",
    "/x/_search?q=two words+and%2Bplus%20more",
    "/x/_search?q=a:b/c?d@e=f~g*h(i)",
    "/x/_search?q=bücher&ሴ=1",
    "/x/_search?q=100%&r=%zz",
    "/x/_search?a=&=b&&c",
    "/x/_search?",
    "/_tasks/node-1:123?wait_for_completion=true&timeout=10s",
]
BODIES = [
    None,
    {},
    {"query": {"match": {"title": "Bücher, ሴ 😀"}}},
    '{"index":{}}\n{"a":"ü"}\n',
    b'{"index":{}}\n{}\n',
    b"",
    "",
]


@pytest.mark.parametrize("client", CLIENTS)
def test_whatever_is_asked_is_let_through(client: Any, domain: Domain, aws: str | None) -> None:
    ask = client(domain.port, ACCESS)
    for number, target in enumerate(TARGETS_OF_OPENSEARCH):
        for method in ("GET", "PUT", "POST", "DELETE"):
            body = BODIES[(number + len(method)) % len(BODIES)]
            assert ask(method, target, body) == ([] if target.startswith("/_cat/") else {"n": 1}), (method, target)
    assert len(domain.taken) == 4 * len(TARGETS_OF_OPENSEARCH) and domain.refused == []
    for request, target in zip(domain.taken[::4], TARGETS_OF_OPENSEARCH, strict=True):
        # OpenSearch gets what was meant
        path, _, query = target.partition("?")
        sent_path, _, sent_query = request.target.decode("ascii").partition("?")
        assert [*map(unquote_to_bytes, sent_path.split("/"))] == [*map(unquote_to_bytes, path.split("/"))]
        meant = [pair for pair in parse_qsl(query, keep_blank_values=True) if pair != ("", "")]
        assert parse_qsl(sent_query, keep_blank_values=True) == meant and "+" not in sent_query
        assert request.header("x-amz-security-token") == aws and request.header("x-amz-content-sha256")


@pytest.mark.parametrize("client", CLIENTS)
def test_bodies_arrive_as_they_were_signed(client: Any, domain: Domain) -> None:
    ask = client(domain.port, ACCESS)
    for body in BODIES:
        ask("POST", "/_bulk", body)
    assert len(domain.taken) == len(BODIES) and domain.refused == []
    for request, body in zip(domain.taken, BODIES, strict=True):
        if isinstance(body, dict):
            assert json.loads(request.body) == body
        else:
            assert request.body == (body.encode() if isinstance(body, str) else body or b"")


@pytest.mark.parametrize("client", [node_client, library, loaded])
@given(data=st.data())
@settings(
    max_examples=examples(60),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
def test_any_target_is_let_through(client: Any, domain: Domain, data: st.DataObject) -> None:
    ask = client(domain.port, ACCESS)
    target = data.draw(TARGETS.filter(lambda target: not target.startswith("/_cat/")))
    assert ask("POST", target, data.draw(st.sampled_from(BODIES))) == {"n": 1}


def test_parameters_of_opensearch_py(domain: Domain) -> None:
    client = opensearch(Endpoint("127.0.0.1", domain.port), access=replace(ACCESS), timeout=5.0)
    client.search(index="chaos-*,b", params={"q": "two words, a+b", "filter_path": "a,b", "allow_no_indices": "true"})
    client.index(index="<x-{now/d}>", id="a/b c", body={"a": "ü"}, params={"routing": "ሴ"})
    client.bulk(body=[{"index": {"_index": "x"}}, {"a": 1}])
    client.cat.shards(params={"v": "", "h": "index,shard"})
    client.indices.exists(index="x y")
    assert len(domain.taken) == 5 and domain.refused == []
    assert dict(parse_qsl(domain.taken[0].target.decode().partition("?")[2]))["q"] == "two words, a+b"


# ---- what is not let through -----------------------------------------------------------------------------


@pytest.mark.parametrize("client", CLIENTS)
def test_a_client_that_does_not_sign_is_refused(client: Any, domain: Domain) -> None:
    for access in (PLAIN, Access(sigv4=SigV4("us-east-1")), Access(sigv4=SigV4("eu-central-1", service="s3"))):
        with pytest.raises(AssertionError):
            client(domain.port, access)("GET", "/x/_search?q=1", None)
    assert domain.taken == [] and len(domain.refused) == 3


def test_what_was_sent_is_refused_when_anything_of_it_is_changed(domain: Domain) -> None:
    node_client(domain.port, ACCESS)("POST", "/x,y/_search?a=1&b=2", {"a": 1})
    (request,) = domain.taken
    domain.verifier.verify(request)
    now = datetime.now(UTC)
    for other in (
        replace(request, body=request.body.replace(b"1", b"2")),
        replace(request, body=b""),
        replace(request, target=request.target.replace(b"x", b"z")),
        replace(request, target=request.target.replace(b"a=1", b"a=2")),
        replace(request, method="PUT"),
        replace(request, headers=tuple((k, "x/y" if k == "Content-Type" else v) for k, v in request.headers)),
    ):
        assert other != request
        with pytest.raises(Refused):
            domain.verifier.verify(other)
    for verifier in (
        replace(domain.verifier, region="us-east-1"),
        replace(domain.verifier, service="aoss"),
        replace(domain.verifier, now=now + timedelta(minutes=16)),
        replace(domain.verifier, now=now - timedelta(minutes=16)),
        replace(domain.verifier, keys=(Key("AKIDEXAMPLE", SECRET, "another token"),)),
    ):
        with pytest.raises(Refused):
            verifier.verify(request)


def test_opensearch_pys_own_connection_signs_another_query_than_aws_has(domain: Domain) -> None:
    """Why we have a connection and a signer of our own: it stops to fail when opensearch-py has repaired that."""
    import boto3
    from opensearchpy import OpenSearch, Urllib3AWSV4SignerAuth

    credentials = boto3.Session().get_credentials()
    client = OpenSearch(
        hosts=[{"host": "127.0.0.1", "port": domain.port}],
        http_auth=Urllib3AWSV4SignerAuth(credentials, "eu-central-1"),
        max_retries=0,
    )
    client.transport.perform_request("GET", "/x/_search", params={"q": "word"})
    with pytest.raises(AuthorizationException):
        client.transport.perform_request("GET", "/x/_search", params={"q": "two words"})


# ---- nobody else gets it ---------------------------------------------------------------------------------


@pytest.mark.parametrize("client", CLIENTS)
def test_no_redirect_is_followed(client: Any, domain: Domain) -> None:
    """Neither to another server nor on the same one."""
    with serving(domain.verifier) as other:
        for elsewhere in (f"http://127.0.0.1:{other.port}/", "/elsewhere"):
            domain.gone, domain.elsewhere = {"/x"}, elsewhere
            with pytest.raises(AssertionError):
                client(domain.port, ACCESS)("GET", "/x", None)
        assert other.taken == other.refused == []
    assert [request.target for request in domain.taken] == [b"/x", b"/x"]


# ---- without credentials ---------------------------------------------------------------------------------


def test_credentials_that_are_gone_are_our_own_error(domain: Domain, monkeypatch: pytest.MonkeyPatch) -> None:
    """No word on the cluster: neither a refusal of its, nor a connection that failed."""
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    with pytest.raises(InvalidInput, match="no AWS credentials"):
        node_client(domain.port, ACCESS)("GET", "/", None)
    with pytest.raises(InvalidInput, match="no AWS credentials"):
        Api(replace(ACCESS))
    client = opensearch(Endpoint("127.0.0.1", domain.port), access=replace(ACCESS), timeout=5.0)
    with pytest.raises(NoConnection) as caught:
        client.info()
    assert of_error(caught.value) == (Outcome.UNKNOWN, 0)
    assert domain.taken == domain.refused == []


# ---- programs --------------------------------------------------------------------------------------------


def test_the_failover_controller_finds_nodes_and_says_why_not(domain: Domain) -> None:
    address = f"127.0.0.1:{domain.port}"
    node = {"name": "a", "roles": ["data"], "attributes": {"zone": "a"}, "http": {"publish_address": address}}
    domain.said["/_nodes/http"] = {"nodes": {"id": node}}
    (found,), _ = discover(Api(replace(ACCESS)), [address], Zoning(), timeout=5.0)
    assert found.name == "a"
    domain.verifier.now = datetime.now(UTC) + timedelta(hours=1)
    nodes, why = discover(Api(replace(ACCESS)), [address], Zoning(), timeout=5.0)
    assert nodes == [] and "clock" in why


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"now": datetime.now(UTC) + timedelta(hours=1)}, "(?s)Signature expired: .*set the clock of this machine"),
        ({"now": datetime.now(UTC) - timedelta(hours=1)}, "(?s)Signature not yet current: .*set the clock"),
        ({"keys": (Key("AKIDEXAMPLE", "another", None), Key("AKIDEXAMPLE", "another", TOKEN))}, "AWS rejects the sig"),
        ({"keys": (Key("AKIDOTHER", SECRET),)}, "does not know these credentials"),
        ({"region": "us-east-1"}, "give the domain's region with --sigv4"),
    ],
)
def test_the_audit_says_why_aws_refuses(wrong: dict[str, Any], says: str, domain: Domain, aws: str | None) -> None:
    if "keys" in wrong:
        wrong = {"keys": tuple(replace(key, token=aws) for key in wrong["keys"])}
    domain.verifier = replace(domain.verifier, **wrong)
    with pytest.raises(InvalidInput, match=says) as caught:
        cluster.of_url("127.0.0.1", domain.port, replace(ACCESS))
    assert TOKEN not in str(caught.value) and "(403)" in str(caught.value)


def test_the_audit_of_a_domain_that_wants_a_signature(domain: Domain) -> None:
    with pytest.raises(InvalidInput, match=r"signed requests only.*--sigv4"):
        cluster.of_url("127.0.0.1", domain.port, PLAIN)
    domain.said["/"] = {"version": {"number": "2.19.0", "distribution": "opensearch"}}
    assert "OpenSearch 2.19.0" in cluster.of_url("127.0.0.1", domain.port, replace(ACCESS)).origin
    assert len(domain.taken) > 5
