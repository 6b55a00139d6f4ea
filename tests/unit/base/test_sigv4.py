"""Signing for AWS: who signs, what is signed, and a verifier of our own that is held against AWS's vectors."""

from __future__ import annotations

import json
import logging
import sys
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from urllib.parse import parse_qsl, unquote, urlsplit

import pytest
from apart import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from sigv4 import Key, Refused, Request, Verifier

from chaos.base.access import PLAIN, Access
from chaos.base.errors import InvalidInput, MissingPrerequisite
from chaos.base.sigv4 import Signer, SigV4, on_wire, refusal

SECRET, TOKEN = "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY", "6e86291e8372ff2a2260956d9b8aae1d763fbf315fa00fa3"
HOW = SigV4("eu-central-1")


@pytest.fixture(autouse=True)
def aws(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Credentials in the environment, and nothing of this machine's own; the folder of AWS's files."""
    for name in ("AWS_PROFILE", "AWS_DEFAULT_PROFILE", "AWS_SESSION_TOKEN", "AWS_SECURITY_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "credentials"))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIDEXAMPLE")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
    return tmp_path


# ---- the verifier --------------------------------------------------------------------------------------

SESSION = "6e86291e8372ff2a2260956d9b8aae1d763fbf315fa00fa31553b73ebf194267"
FORM = (
    ("Content-Type", "application/x-www-form-urlencoded"),
    ("Content-Length", "13"),
    ("x-amz-content-sha256", "9095672bbd1f56dfc5b65f3e153adc8731a4a654192329106275f4c7b24d0b6e"),
)
VECTORS: dict[str, tuple[str, str, tuple[tuple[str, str], ...], bytes, str]] = {
    "get-vanilla": (
        "GET",
        "/",
        (),
        b"",
        "5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31",
    ),
    "get-vanilla-query-order-key-case": (
        "GET",
        "/?Param2=value2&Param1=value1",
        (),
        b"",
        "b97d918cfa904a5beff61c982a1b6f458b799221646efd99d3219ec94cdf2500",
    ),
    "get-vanilla-query-order-encoded": (
        "GET",
        "/?Param-3=Value3&Param=Value2&%E1%88%B4=Value1",
        (),
        b"",
        "371d3713e185cc334048618a97f809c9ffe339c62934c032af5a0e595648fcac",
    ),
    "get-vanilla-utf8-query": (
        "GET",
        "/?ሴ=bar",
        (),
        b"",
        "2cdec8eed098649ff3a119c94853b13c643bcf08f8b0a1d91e12c9027818dd04",
    ),
    "get-utf8": ("GET", "/ሴ", (), b"", "8318018e0b0f223aa2bbf98705b62bb787dc9c0e678f255a891fd03141be5d85"),
    "get-space-normalized": (
        "GET",
        "/example space/",
        (),
        b"",
        "652487583200325589f1fba4c7e578f72c47cb61beeca81406b39ddec1366741",
    ),
    "get-slashes-normalized": (
        "GET",
        "//example//",
        (),
        b"",
        "9a624bd73a37c9a373b5312afbebe7a714a789de108f0bdfe846570885f57e84",
    ),
    "get-relative-relative-normalized": (
        "GET",
        "/example1/example2/../..",
        (),
        b"",
        "5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31",
    ),
    "get-header-value-trim": (
        "GET",
        "/",
        (("My-Header1", " value1"), ("My-Header2", ' "a   b   c"')),
        b"",
        "acc3ed3afb60bb290fc8d2dd0098b9911fcaa05412b367055dee359757a9c736",
    ),
    "get-header-key-duplicate": (
        "GET",
        "/",
        (("My-Header1", "value2"), ("My-Header1", "value2"), ("My-Header1", "value1")),
        b"",
        "c9d5ea9f3f72853aea855b47ea873832890dbdd183b4468f858259531a5138ea",
    ),
    "post-x-www-form-urlencoded": (
        "POST",
        "/",
        FORM,
        b"Param1=value1",
        "d3875051da38690788ef43de4db0d8f280229d82040bfac253562e56c3f20e0b",
    ),
    "get-vanilla-with-session-token": (
        "GET",
        "/",
        (("X-Amz-Security-Token", SESSION),),
        b"",
        "07ec1639c89043aa0e3e2de82b96708f198cceab042d4a97044c66dd9f74e7f8",
    ),
}
"""Method, target, headers beside Host and X-Amz-Date, body, signature. Source: github.com/awslabs/aws-c-auth,
tests/aws-signing-test-suite/v4 (commit 495329c), ``header-signed-request.txt`` of each."""


def vector(name: str) -> tuple[Verifier, Request]:
    method, target, more, body, signature = VECTORS[name]
    token = dict(more).get("X-Amz-Security-Token")
    headers = (("Host", "example.amazonaws.com"), ("X-Amz-Date", "20150830T123600Z"), *more)
    signed = ";".join(sorted({key.lower() for key, _ in headers}))
    scope = "AKIDEXAMPLE/20150830/us-east-1/service/aws4_request"
    said = f"AWS4-HMAC-SHA256 Credential={scope}, SignedHeaders={signed}, Signature={signature}"
    verifier = Verifier(
        (Key("AKIDEXAMPLE", SECRET, token),), "us-east-1", "service", datetime(2015, 8, 30, 12, 40, tzinfo=UTC)
    )
    return verifier, Request(method, target.encode(), (*headers, ("Authorization", said)), body)


@pytest.mark.parametrize("name", VECTORS)
def test_the_verifier_agrees_with_aws(name: str) -> None:
    verifier, request = vector(name)
    verifier.verify(request)


@pytest.mark.parametrize("name", VECTORS)
def test_the_verifier_refuses_each_vector_when_anything_of_it_is_another(name: str) -> None:
    verifier, request = vector(name)
    others = [
        replace(request, method="PUT"),
        replace(request, target=request.target + b"x"),
        replace(request, target=request.target + (b"&a" if b"?" in request.target else b"?a")),
        replace(request, body=request.body + b" "),
        replace(request, headers=(("Host", "example.org"), *request.headers[1:])),
        replace(request, headers=(*request.headers, ("X-Amz-Meta", "unsigned"))),
        replace(request, headers=request.headers[:-1]),
        *(replace(request, headers=request.headers[:n] + request.headers[n + 1 :]) for n in range(2)),
    ]
    for other in others:
        with pytest.raises(Refused):
            verifier.verify(other)
    for stricter in (
        replace(verifier, region="eu-central-1"),
        replace(verifier, service="es"),
        replace(verifier, now=verifier.now + timedelta(minutes=12)),
        replace(verifier, now=verifier.now - timedelta(minutes=20)),
        replace(verifier, keys=(replace(verifier.keys[0], secret="other"),)),
        replace(verifier, keys=(replace(verifier.keys[0], token="other"),)),
        replace(verifier, keys=()),
    ):
        with pytest.raises(Refused):
            stricter.verify(request)


# ---- what is signed ------------------------------------------------------------------------------------

TARGETS = st.builds(
    lambda path, query: "/" + path + (f"?{query}" if query else ""),
    st.text("ab/,*:+% ü€😀<>{}()'!$;=@.~\\\"\x7f2F", max_size=12),
    st.text("ab/,*:+% ü€😀<>{}()'!$=@.~\\\"?&2F", max_size=16),
)


@given(TARGETS)
@settings(max_examples=examples(400), deadline=None)
def test_what_is_sent_is_encoded_once_and_means_the_same(target: str) -> None:
    sent = on_wire(target)
    assert on_wire(sent) == sent
    assert set(sent) <= set("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._~%/?&=")
    path, _, query = target.partition("?")
    sent_path, _, sent_query = sent.partition("?")
    assert [unquote(each) for each in sent_path.split("/")] == [unquote(each) for each in path.split("/")]
    pairs = [pair for pair in parse_qsl(query, keep_blank_values=True) if pair != ("", "")]
    assert [pair for pair in parse_qsl(sent_query, keep_blank_values=True) if pair != ("", "")] == pairs


@given(TARGETS, st.binary(max_size=20) | st.none(), st.sampled_from(["GET", "PUT", "POST", "DELETE", "HEAD"]))
@settings(max_examples=examples(200), deadline=None)
def test_what_is_signed_is_verified(target: str, body: bytes | None, method: str) -> None:
    signer = Signer(HOW)
    signer._credentials._found = FIXED
    target, headers = access_of(signer).signed(method, "https://[::1]:9200", target, body, {"Content-Type": "x/y"})
    request = Request(method, target.encode("ascii"), tuple(headers.items()), body or b"")
    verifier = Verifier((Key("AKIDEXAMPLE", SECRET, TOKEN),), "eu-central-1")
    verifier.verify(request)
    assert headers["host"] == "[::1]:9200" and "content-type" in headers["Authorization"]
    with pytest.raises(Refused):
        verifier.verify(replace(request, body=request.body + b"\n"))
    with pytest.raises(Refused):
        verifier.verify(replace(request, target=request.target + b"/x"))


def access_of(signer: Signer) -> Access:
    access = Access(sigv4=HOW)
    access.__dict__["signer"] = signer
    return access


class _Fixed:
    def get_frozen_credentials(self) -> _Fixed:
        return self

    access_key, secret_key, token = "AKIDEXAMPLE", SECRET, TOKEN


FIXED = _Fixed()


@pytest.mark.parametrize(
    ("server", "host"),
    [
        ("https://Search-X.eu-central-1.es.amazonaws.com:443", "search-x.eu-central-1.es.amazonaws.com"),
        ("https://x.example.:443", "x.example."),
        ("https://x.example:80", "x.example:80"),
        ("http://x.example:80", "x.example"),
        ("http://x.example:443", "x.example:443"),
        ("http://127.0.0.1:9200", "127.0.0.1:9200"),
    ],
)
def test_the_host_is_sent_as_it_is_signed(server: str, host: str) -> None:
    _, headers = Access(sigv4=HOW).signed("GET", server, "/")
    assert headers["host"] == host and urlsplit(server).scheme
    Verifier((Key("AKIDEXAMPLE", SECRET),), "eu-central-1").verify(Request("GET", b"/", tuple(headers.items())))


# ---- who signs -----------------------------------------------------------------------------------------


def test_without_it_nothing_changes() -> None:
    assert PLAIN.signer is None and PLAIN.of_client() == {} and PLAIN.to_json() == {}
    assert PLAIN.signed("GET", "http://h:1", "/a,b?c d", None, {"x": "y"}) == ("/a,b?c d", {"x": "y"})


def test_it_is_written_down_without_a_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_SESSION_TOKEN", TOKEN)
    for how in (HOW, SigV4("us-gov-west-1", profile="team")):
        access = Access(tls=True, sigv4=how)
        if how.profile is None:
            access.check()
            assert access.signed("GET", "https://h:1", "/")[1]["X-Amz-Security-Token"] == TOKEN
        written = json.dumps(access.to_json()) + repr(access)
        assert not any(secret in written for secret in (SECRET, TOKEN, "AKIDEXAMPLE"))
        assert Access.from_json(json.loads(json.dumps(access.to_json()))) == access


def test_no_secret_is_logged(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.setenv("AWS_SESSION_TOKEN", TOKEN)
    with caplog.at_level(logging.DEBUG):
        Access(sigv4=HOW).signed("GET", "https://h:1", "/")
    assert TOKEN not in caplog.text and SECRET not in caplog.text


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        (lambda: SigV4(""), "no region"),
        (lambda: SigV4("eu central"), "no region"),
        (lambda: SigV4("eu-central-1\n"), "no region"),
        (lambda: SigV4("eu-central-1", service="aoss"), "OpenSearch Serverless"),
        (lambda: SigV4("eu-central-1", profile=""), "without a name"),
        (lambda: Access(user="u", password="env:P", sigv4=HOW), "not both"),
        (lambda: Access.from_json({"sigv4": {"region": "eu-central-1", "service": "aoss"}}), "OpenSearch Serverless"),
    ],
)
def test_what_does_not_fit_together_is_refused(wrong, says: str) -> None:
    with pytest.raises(InvalidInput, match=says):
        wrong()


def test_credentials_are_asked_for_late_and_found_by_profile(aws: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    access = Access(sigv4=SigV4("eu-central-1", profile="team"))
    assert access.of_client()["http_auth"] is access.signer
    with pytest.raises(InvalidInput, match="no profile team"):
        access.check()
    (aws / "credentials").write_text("[team]\naws_access_key_id = AKIDTEAM\naws_secret_access_key = sesame\n")
    assert "Credential=AKIDTEAM/" in access.signed("GET", "http://h:1", "/")[1]["Authorization"]


def test_credentials_that_were_renewed_are_used() -> None:
    class Renewed(_Fixed):
        asked = 0

        def get_frozen_credentials(self) -> _Fixed:
            self.asked += 1
            found = _Fixed()
            found.token = f"token-{self.asked}"
            return found

    access = Access(sigv4=HOW)
    assert access.signer is not None
    access.signer._credentials._found = Renewed()
    first, second = (access.signed("GET", "http://h:1", "/")[1]["X-Amz-Security-Token"] for _ in range(2))
    assert first != second


@pytest.mark.parametrize(
    ("environment", "files", "says"),
    [
        ({"AWS_ACCESS_KEY_ID": None, "AWS_SECRET_ACCESS_KEY": None}, {}, "no AWS credentials were found; set AWS_"),
        ({"AWS_SECRET_ACCESS_KEY": None}, {}, "without AWS_SECRET_ACCESS_KEY"),
        ({"AWS_PROFILE": "none"}, {}, "no profile none"),
        ({"AWS_PROFILE": "p"}, {"config": "[profile p]\ncredential_process = echo '{hunter2'\n"}, "cannot get AWS"),
        ({"AWS_PROFILE": "p"}, {"config": "[profile p]\ncredential_process = cat /hunter2\n"}, "cannot get AWS"),
        ({"AWS_PROFILE": "p"}, {"config": "hunter2"}, "cannot get AWS"),
    ],
)
def test_without_credentials_it_says_so_and_tells_no_secret(
    environment, files, says: str, aws: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in environment.items():
        monkeypatch.setenv(name, value) if value is not None else monkeypatch.delenv(name)
    if "AWS_PROFILE" in environment:
        monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    for name, text in files.items():
        (aws / name).write_text(text)
    for ask in (lambda: Access(sigv4=HOW).check(), lambda: Access(sigv4=HOW).signed("GET", "http://h:1", "/")):
        with pytest.raises(InvalidInput, match=says) as caught:
            ask()
        assert "hunter2" not in str(caught.value)


def test_without_boto3_the_remedy_is_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "boto3", None)
    with pytest.raises(MissingPrerequisite, match=r"pip install 'opensearch-chaos\[aws\]'"):
        Access(sigv4=HOW).check()


# ---- what AWS says -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("said", "says", "helps"),
    [
        ("Signature expired: 20260101T000000Z is now earlier than 20260101T010000Z (… - 5 min.)", "clock", "clock"),
        ("Signature not yet current: 20260101T000000Z is still later than …", "clock", "clock"),
        ("The security token included in the request is expired", "session token has expired", "sso login"),
        ("The security token included in the request is invalid.", "does not know these", "access key"),
        ("The request signature we calculated does not match … x-amz-security-token:hunter2", "rejects", "secret"),
        ("Credential should be scoped to a valid region.", "valid region", "--sigv4"),
        ("User: anonymous is not authorized to perform: es:ESHttpGet", "signed requests only", "--sigv4"),
        ("User: arn:aws:iam::1:user/u is not authorized to perform: es:ESHttpGet", "user/u", "access policy"),
    ],
)
def test_a_refusal_of_aws_is_told_in_words(said: str, says: str, helps: str) -> None:
    for key in ("message", "Message"):
        words, remedy = refusal({key: said}) or ("", "")
        assert says in words and helps in remedy and "hunter2" not in words


@pytest.mark.parametrize("said", [None, [], {}, {"message": 3}, {"message": "something else"}, {"error": "x"}, "x"])
def test_who_is_not_aws_has_no_refusal(said) -> None:
    assert refusal(said) is None
