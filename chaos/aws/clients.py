"""boto3's clients for AWS, or for a stand-in on this machine, and never the one for the other.

A target says which it means. For a local one every client has the target's loopback endpoint, and a session of its own
that reads neither the environment nor AWS's files: no variable, profile or proxy can lead it elsewhere, and no real
credentials are sent. For AWS there must be nothing that leads to a stand-in. Either way each request is held against
its client's endpoint right before it is sent, and nothing but sts GetCallerIdentity is asked before the account was
found to be the target's.
"""

from __future__ import annotations

import ipaddress
import os
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any
from urllib.parse import urlsplit

from chaos.base.errors import ChaosError, FaultError, InvalidInput, MissingPrerequisite, Unanswered
from chaos.base.extras import AWS
from chaos.base.sigv4 import CREDENTIALS
from chaos.base.text import one_line

SERVICES = {
    "fis": "FIS",
    "ec2": "EC2",
    "ssm": "SSM",
    "sts": "STS",
    "cloudwatch": "CLOUDWATCH",
    "iam": "IAM",
    "resourcegroupstaggingapi": "RESOURCE_GROUPS_TAGGING_API",
    "opensearch": "OPENSEARCH",
}
"""boto3's name → what follows ``AWS_ENDPOINT_URL_`` for it."""
LOCAL_KEY, LOCAL_SECRET = "LOCALENDPOINTONLY", "no-secret-at-all"
"""What requests to a local endpoint are signed with. AWS has no such key: it would refuse them."""
ATTEMPTS = 5
"""Of each request, in botocore's standard mode: after throttling, 5xx and lost answers, with growing pauses. A repeat
is the same request, its clientToken too."""
CONNECT_TIMEOUT, READ_TIMEOUT = 5, 30
"""Seconds, of each attempt."""
PAUSES = float(sum(2**attempt for attempt in range(ATTEMPTS - 1)))
"""Seconds between the attempts of a request, at most: in botocore's standard mode up to 1, 2, 4 … of them."""
ANSWER_SECONDS = ATTEMPTS * (CONNECT_TIMEOUT + READ_TIMEOUT) + PAUSES
"""How long a question takes at most until it is known that AWS does not answer."""

MODELS = "remove what leads it there, such as models of services in AWS_DATA_PATH or ~/.aws/models"

_REGION = re.compile(r"[a-z]{2,4}(-[a-z]+)+-\d{1,2}")
_ACCOUNT = re.compile(r"\d{12}", re.ASCII)
_VARIABLE = "AWS_ENDPOINT_URL"
_TOKENS = ("nextToken", "NextToken", "PaginationToken", "Marker")
_UNSAID = frozenset({"SignatureDoesNotMatch", "IncompleteSignature", "InvalidSignatureException", "AuthFailure"})
"""Codes whose message may quote what was to be signed, the session token too."""
_ENCODED = re.compile(r"encoded authorization failure message:?\s*\S+", re.IGNORECASE)
_REQUEST_ID = re.compile(r"[(,;]?\s*\brequest[ _-]?id\b\s*[:=]?\s*[\w-]+\)?", re.IGNORECASE)
_SECRETS = re.compile(r"\b(?:AKIA|ASIA|AROA|AIDA)[A-Z0-9]{8,}\b|[A-Za-z0-9+/=]{40,}")


class AwsError(ChaosError):
    """AWS, or who answers in its place, did not do what its API says."""


class Clients:
    """The clients of one account in one region. Thread-safe; each is made once, when it is first asked for.

    ``endpoint``: of a local target, ``http://127.0.0.1:PORT``; None: AWS itself. ``profile``: of AWS's configuration,
    for AWS only; None is boto3's default. ``attempts``: of each request. Raises InvalidInput where anything could be
    sent to somebody else, before anything is sent, and MissingPrerequisite without boto3.
    """

    def __init__(
        self,
        region: str,
        profile: str | None = None,
        endpoint: str | None = None,
        *,
        account: str,
        attempts: int = ATTEMPTS,
    ) -> None:
        if not _REGION.fullmatch(region):
            raise InvalidInput(f"{region!r} is no region of AWS", remedy="for example eu-central-1")
        if not _ACCOUNT.fullmatch(account):
            raise InvalidInput("an account of AWS has twelve digits", remedy="write it as text, with its zeros")
        if endpoint is not None and profile is not None:
            raise InvalidInput("a local endpoint takes no profile of AWS", remedy="leave one out")
        self.region, self.profile, self.account, self._attempts = region, profile, account, attempts
        self.endpoint = None if endpoint is None else _loopback(endpoint)
        self._lock = threading.RLock()
        self._session: Any = None
        self._made: dict[tuple[str, bool], Any] = {}
        self._identity: str | None = None

    @property
    def local(self) -> bool:
        return self.endpoint is not None

    @property
    def fis(self) -> Any:
        return self.client("fis")

    @property
    def ec2(self) -> Any:
        return self.client("ec2")

    @property
    def ssm(self) -> Any:
        return self.client("ssm")

    @property
    def sts(self) -> Any:
        return self.client("sts")

    @property
    def cloudwatch(self) -> Any:
        return self.client("cloudwatch")

    @property
    def iam(self) -> Any:
        return self.client("iam")

    @property
    def tagging(self) -> Any:
        return self.client("resourcegroupstaggingapi")

    @property
    def domains(self) -> Any:
        return self.client("opensearch")

    def client(self, service: str, *, once: bool = False) -> Any:
        """A client of boto3, once it is known whose account this is. Raises as :meth:`check`.

        ``once``: it sends each request a single time, for what has no token by which a repeat would be known as one.
        """
        self.check()
        with self._lock:
            return self._client(service, once=once)

    def check(self) -> str:
        """The ARN that we act as. Asks sts once. Raises InvalidInput where the account is not the target's, and where
        there are no credentials or no answer."""
        with self._lock:
            if self._identity is None:
                self._identity = self._asked()
            return self._identity

    def _asked(self) -> str:
        where = self.endpoint or "AWS"
        try:
            answer = self._client("sts").get_caller_identity()
        except ChaosError:
            raise
        except Exception as error:  # botocore raises anything on an answer that is not AWS's
            remedy = "start the local endpoint" if self.local else CREDENTIALS
            raise InvalidInput(f"{where} does not say whose account this is: {said(error)}", remedy=remedy) from None
        account = answer.get("Account")
        if account != self.account:
            raise InvalidInput(
                f"{where} answers for the account {one_line(str(account))}, and the target is {self.account}",
                remedy="correct the target's account, or use credentials of that account",
            )
        return str(answer.get("Arn"))

    def _client(self, service: str, *, once: bool = False) -> Any:
        if service not in SERVICES:
            raise ValueError(f"no client for {service}")
        if (service, once) not in self._made:
            attempts = 1 if once else self._attempts
            made = self._local(service, attempts) if self.local else self._of_aws(service, attempts)
            self._made[service, once] = _guarded(made, service, self.endpoint)
        return self._made[service, once]

    def _local(self, service: str, attempts: int) -> Any:
        if self._session is None:
            self._session = deaf_session(self.region)
        return self._session.client(
            service,
            endpoint_url=self.endpoint,
            config=_config(
                attempts, proxies={}, use_fips_endpoint=False, use_dualstack_endpoint=False, inject_host_prefix=False
            ),
        )

    def _of_aws(self, service: str, attempts: int) -> Any:
        boto3 = _boto3()
        import botocore.session
        from botocore.exceptions import ProfileNotFound

        _refuse_variables()
        wrong: tuple[type[Exception], ...] = (*errors(), OSError, RuntimeError, ValueError)
        try:
            if self._session is None:
                core = botocore.session.Session(profile=self.profile)
                _refuse_profile(core)
                self._session = boto3.Session(botocore_session=core, region_name=self.region)
            return self._session.client(service, config=_config(attempts, ignore_configured_endpoint_urls=True))
        except ProfileNotFound as error:
            name = error.kwargs.get("profile")
            raise InvalidInput(f"AWS's configuration has no profile {name}", remedy="name another one") from None
        except wrong as error:
            raise InvalidInput(f"no client for AWS's {service}: {said(error)}", remedy=CREDENTIALS) from None


def _boto3() -> Any:
    try:
        import boto3
    except ImportError:
        raise MissingPrerequisite("speaking to AWS needs the Python package boto3", remedy=AWS.install) from None
    return boto3


def errors() -> tuple[type[Exception], ...]:
    """What botocore raises for a request: to be caught where it is sent, and told by :func:`said`."""
    _boto3()
    from botocore.exceptions import BotoCoreError, ClientError
    from botocore.parsers import ResponseParserError

    return BotoCoreError, ClientError, ResponseParserError


def _config(attempts: int, **more: Any) -> Any:
    from botocore.config import Config

    return Config(
        retries={"mode": "standard", "total_max_attempts": attempts},
        connect_timeout=CONNECT_TIMEOUT,
        read_timeout=READ_TIMEOUT,
        user_agent_extra="opensearch-chaos",
        **more,
    )


def deaf_session(region: str) -> Any:
    """One of boto3's that takes nothing from the environment or from AWS's files, with credentials that are none of
    AWS's. Raises MissingPrerequisite without boto3."""
    boto3 = _boto3()
    import botocore.session

    variables = {
        name: (None, None, default, conversion)
        for name, (_, _, default, conversion) in botocore.session.Session.SESSION_VARIABLES.items()
    }
    variables["config_file"] = variables["credentials_file"] = (None, None, os.devnull, None)
    core = botocore.session.Session(session_vars=variables)
    core.register_component("data_loader", _models())
    core.set_credentials(LOCAL_KEY, LOCAL_SECRET)
    return boto3.Session(botocore_session=core, region_name=region)


@cache
def _models() -> Any:
    """botocore's own descriptions of services, read once: those of EC2 take a fifth of a second for each session."""
    from botocore.loaders import create_loader

    return create_loader()


def _loopback(endpoint: str) -> str:
    """The endpoint as botocore takes it. Raises InvalidInput, without a password that may stand in it."""
    remedy = "write http://127.0.0.1:PORT, of the local endpoint"
    try:
        parts = urlsplit(endpoint)
        host, port = parts.hostname or "", parts.port
        loopback = ipaddress.ip_address(host).is_loopback and "%" not in host
    except ValueError:
        raise InvalidInput("a local endpoint has a loopback address, not a name", remedy=remedy) from None
    whole = parts.path in ("", "/") and not parts.query and not parts.fragment and "@" not in parts.netloc
    if not loopback or not whole or not port or parts.scheme not in ("http", "https"):
        raise InvalidInput("a local endpoint is a loopback address with its port, and nothing else", remedy=remedy)
    shown = f"[{host}]" if ":" in host else host
    return f"{parts.scheme}://{shown}:{port}"


def _refuse_variables() -> None:
    """Raises InvalidInput where a variable leads one of our services elsewhere, even if it may be ignored."""
    for name in (_VARIABLE, *(f"{_VARIABLE}_{service}" for service in SERVICES.values())):
        if os.environ.get(name):
            raise InvalidInput(
                f"the target is AWS, and {name} leads elsewhere",
                remedy="unset it, or give the target that local endpoint",
            )


def _refuse_profile(core: Any) -> None:
    """As :func:`_refuse_variables`, of ``endpoint_url`` in AWS's configuration."""
    scoped = core.get_scoped_config()
    services = core.full_config.get("services", {}).get(scoped.get("services"), {})
    ours = {name.lower() for name in SERVICES.values()}
    led = [
        name for name, each in services.items() if name in ours and isinstance(each, dict) and each.get("endpoint_url")
    ]
    if scoped.get("endpoint_url") or led:
        raise InvalidInput(
            f"the target is AWS, and endpoint_url of the profile {core.profile or 'default'} leads elsewhere",
            remedy="name another profile, or give the target that local endpoint",
        )


def _guarded(client: Any, service: str, endpoint: str | None) -> Any:
    """The client, once its endpoint is right, with a last look at each request. Raises InvalidInput."""
    url = client.meta.endpoint_url
    if endpoint is not None and url != endpoint:
        raise InvalidInput(f"the client for {service} goes to {url}, not to {endpoint}", remedy=MODELS)
    if endpoint is None and not _is_remote(url):
        raise InvalidInput(
            f"the target is AWS, and the client for {service} goes to {url}",
            remedy=MODELS,
        )
    expected = _origin(url)

    def look(request: Any, **_: Any) -> None:
        if _origin(request.url) != expected:
            raise InvalidInput(f"a request to {service} was to go elsewhere than to {url}", remedy=MODELS)

    client.meta.events.register_first(f"before-send.{client.meta.service_model.service_id.hyphenize()}", look)
    return client


def _origin(url: str) -> tuple[str, str | None, int | None]:
    parts = urlsplit(url)
    return parts.scheme, parts.hostname, parts.port


def _is_remote(url: str) -> bool:
    """Whether an address can be AWS's: TLS, and a name of more than one part."""
    parts = urlsplit(url)
    host = (parts.hostname or "").rstrip(".")
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return parts.scheme == "https" and "." in host and not host.endswith((".localhost", ".local", ".internal"))
    return False


def paged(client: Any, operation: str, **params: Any) -> list[dict[str, Any]]:
    """All pages of an operation, ``ListExperiments`` or ``list_experiments``: by botocore's paginator, or by the token
    in the answer where botocore has none for it.

    Raises AwsError when a token comes twice, since that would never end, and botocore's errors as they are.
    """
    from botocore import xform_name
    from botocore.exceptions import PaginationError

    method = xform_name(operation)
    pages: list[dict[str, Any]] = []
    seen: set[str] = set()
    try:
        for page in _pages(client, method, params):
            pages.append(page)
            token = _token(page)
            if token is not None and token[1] in seen:
                raise AwsError(f"{operation} answers the same page again and again", remedy="ask again later")
            if token is not None:
                seen.add(token[1])
    except PaginationError:
        raise AwsError(f"{operation} answers the same page again and again", remedy="ask again later") from None
    return pages


def _pages(client: Any, method: str, params: dict[str, Any]) -> Any:
    if client.can_paginate(method):
        yield from client.get_paginator(method).paginate(**params)
        return
    while True:
        page = getattr(client, method)(**params)
        yield page
        token = _token(page)
        if token is None:
            return
        params = {**params, token[0]: token[1]}


def _token(page: dict[str, Any]) -> tuple[str, str] | None:
    """The name of the member that asks for the next page, and its value."""
    return next(((name, page[name]) for name in _TOKENS if page.get(name)), None)


def said(error: BaseException) -> str:
    """What botocore reports, in one line without request ids, keys and tokens."""
    _boto3()
    from botocore import exceptions

    if isinstance(error, exceptions.ClientError):
        told = error.response.get("Error", {})
        code = str(told.get("Code") or "an error")
        message = str(told.get("Message") or "")
        page = message.lstrip().startswith("<")  # of a server in between, or of one that broke
        message = "" if page or code in _UNSAID else _clean(message)
        return f"{error.operation_name} answered {_clean(code)}" + (f": {message}" if message else "")
    if isinstance(error, exceptions.ParamValidationError):
        lines = [line.partition(", value:")[0] for line in str(error.kwargs.get("report", "")).splitlines()]
        return _clean(f"botocore refuses the request: {'; '.join(lines)}")
    if isinstance(error, exceptions.NoCredentialsError):
        return "no AWS credentials were found"
    if isinstance(error, exceptions.EndpointConnectionError):
        return _clean(f"nobody takes a connection at {_bare(error.kwargs.get('endpoint_url'))}")
    if isinstance(error, exceptions.ConnectTimeoutError | exceptions.ReadTimeoutError):
        return _clean(f"no answer in time from {_bare(error.kwargs.get('endpoint_url'))}")
    if isinstance(error, exceptions.ConnectionClosedError):
        return _clean(f"the connection to {_bare(error.kwargs.get('endpoint_url'))} ended before an answer")
    if isinstance(error, ChaosError):
        return error.message
    return type(error).__name__  # botocore's other words may quote what a credential program or a file said


@contextmanager
def in_words(service: str, operation: str) -> Iterator[None]:
    """What botocore raises, as a FaultError with what AWS says."""
    try:
        yield
    except ChaosError:
        raise
    except Exception as error:  # botocore makes its exceptions while it runs
        sent = any(each.__name__ == SENT for each in type(error).__mro__)
        kind = Unanswered if sent else FaultError
        raise kind(f"{service} {operation}: {said(error)}") from error


SENT = "HTTPClientError"
"""What botocore raises where a request may have been sent and no whole answer came, and not where none was sent."""


def _bare(url: Any) -> str:
    """Where an address leads, without its path and query."""
    parts = urlsplit(str(url or ""))
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}" if parts.netloc else "the endpoint"


def _clean(text: str) -> str:
    text = _ENCODED.sub("", text)
    text = _REQUEST_ID.sub("", text)
    return one_line(_SECRETS.sub("[removed]", text)).strip()[:400]
