"""AWS Signature Version 4: how Amazon OpenSearch Service is told who asks.

A domain takes requests that are signed with an AWS secret key, each for itself: method, path, query, host, time and the
bytes of the body (https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_sigv-create-signed-request.html). The
signature is made by opensearch-py's signer. The key is found by boto3 where it always looks (environment, profile,
role), renewed by it when it expires, and written down nowhere. Both are imported when the first request is signed.
"""

from __future__ import annotations

import hashlib
import logging
import re
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, unquote_to_bytes, urlsplit

from chaos.base.errors import InvalidInput, MissingPrerequisite
from chaos.base.extras import AWS

CREDENTIALS = "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, log in with `aws sso login`, or name an --aws-profile"
SERVERLESS = (".aoss.amazonaws.com", ".aoss.amazonaws.com.cn")
"""What the names of OpenSearch Serverless end in."""
_NAME = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")
_ENCODED = re.compile(r"(%[0-9A-Fa-f]{2})")
_PORTS = {"http": 80, "https": 443}


@dataclass(frozen=True)
class SigV4:
    """What requests are signed for, and as whom: a ``profile`` of AWS's configuration, None boto3's default."""

    region: str
    service: str = "es"
    profile: str | None = None

    def __post_init__(self) -> None:
        if self.service == "aoss":
            raise serverless("the service aoss")
        if not (_NAME.fullmatch(self.region) and _NAME.fullmatch(self.service)):
            raise InvalidInput("no region of AWS, or no service", remedy="for example eu-central-1, and es")
        if self.profile == "":
            raise InvalidInput("a profile of AWS without a name", remedy="name it, or leave it out")


def serverless(what: str) -> InvalidInput:
    """Why OpenSearch Serverless is refused: it answers neither ``_nodes`` nor ``_cluster/health``."""
    return InvalidInput(
        f"{what} is OpenSearch Serverless, which has neither nodes nor health", remedy="give a domain's address"
    )


def is_serverless(host: str) -> bool:
    return host.lower().rstrip(".").endswith(SERVERLESS)


def on_wire(target: str) -> str:
    """A path and query as they are sent and signed: all is percent-encoded but letters, digits and ``-._~``.

    AWS encodes what it receives once more for the path, and decodes and encodes it anew for the query. urllib3 sends
    some characters as they are (``,*:``), opensearch-py a space as ``+``: only where all is encoded does everybody
    come to the same text. To OpenSearch it is the same request.
    """
    path, _, query = target.partition("#")[0].partition("?")
    parts = _ENCODED.split(path)  # every second one is an encoded byte: %2F is no slash
    parts = [part.upper() if n % 2 else quote(part, errors="surrogatepass") for n, part in enumerate(parts)]
    pairs = [pair.partition("=") for pair in query.split("&") if pair]
    sent = "&".join(f"{_anew(name)}{equals}{_anew(value)}" for name, equals, value in pairs)
    return "".join(parts) + (f"?{sent}" if sent else "")


def _anew(text: str) -> str:
    """A name or value of a query, where OpenSearch takes a plus for a space."""
    return quote(unquote_to_bytes(text.replace("+", " ").encode("utf-8", "surrogatepass")), safe="")


class _Credentials:
    """boto3's, as opensearch-py's signer asks for them: before every request. Raises InvalidInput without a secret."""

    def __init__(self, profile: str | None, region: str) -> None:
        self._asked = (profile, region)
        self._found: Any = None
        self._finding = threading.Lock()

    def get_frozen_credentials(self) -> Any:
        """Renewed where they would expire soon."""
        try:
            import boto3
            from botocore.exceptions import BotoCoreError, ClientError, PartialCredentialsError, ProfileNotFound
        except ImportError:
            raise MissingPrerequisite("signing for AWS needs the Python package boto3", remedy=AWS.install) from None
        # `from None`: what a helper program or a file with credentials said may be in botocore's words
        try:
            with self._finding:
                if self._found is None:
                    profile, region = self._asked
                    self._found = boto3.Session(profile_name=profile, region_name=region).get_credentials()
                found = self._found
            if found is not None:
                return found.get_frozen_credentials()
        except ProfileNotFound as error:
            name = error.kwargs.get("profile")
            raise InvalidInput(f"AWS's configuration has no profile {name}", remedy="name another one") from None
        except PartialCredentialsError as error:
            lacks = error.kwargs.get("cred_var")
            raise InvalidInput(f"AWS credentials without {lacks}", remedy=CREDENTIALS) from None
        except ClientError as error:
            why = f"{error.operation_name} answered {error.response.get('Error', {}).get('Code', 'an error')}"
            raise InvalidInput(f"AWS gives no credentials: {why}", remedy=CREDENTIALS) from None
        except (BotoCoreError, OSError, RuntimeError, ValueError) as error:
            raise InvalidInput(f"cannot get AWS credentials: {type(error).__name__}", remedy=CREDENTIALS) from None
        raise InvalidInput("no AWS credentials were found", remedy=CREDENTIALS)


class Signer:
    """Signs requests; opensearch-py takes it as ``http_auth``. Thread-safe. Nothing is asked of AWS before the first.

    What is signed must be what is sent: a target that :func:`on_wire` made, and the headers that come back.
    """

    def __init__(self, how: SigV4) -> None:
        self._how = how
        self._credentials = _Credentials(how.profile, how.region)
        self._sign: Any = None

    def check(self) -> None:
        """Raises InvalidInput, or MissingPrerequisite, where there is nothing to sign with."""
        self._credentials.get_frozen_credentials()

    def __call__(
        self, method: str, url: str, body: bytes | str | None, headers: Mapping[str, str] | None = None
    ) -> dict[str, str]:
        """These headers with the signature's. Raises InvalidInput or MissingPrerequisite, as :meth:`check`."""
        self.check()  # before opensearch-py's signer imports botocore by itself
        if self._sign is None:
            self._sign = self._signer()
        data = body.encode() if isinstance(body, str) else body
        parts = urlsplit(url)
        host = parts.hostname or ""
        host = f"[{host}]" if ":" in host else host
        # Both are sent as they are signed. urllib3's own Host has no dot at the end of a name where botocore has one;
        # opensearch-py before 3.2 sent the hash without signing it.
        given = {
            **(headers or {}),
            "host": host if parts.port in (None, _PORTS.get(parts.scheme)) else f"{host}:{parts.port}",
            "X-Amz-Content-SHA256": hashlib.sha256(data or b"").hexdigest(),
        }
        signed: dict[str, str] = self._sign(method, url, data, given)
        return signed

    def _signer(self) -> Any:
        from opensearchpy.helpers.signer import AWSV4Signer, Urllib3AWSV4SignerAuth

        class Verbatim(AWSV4Signer):
            @staticmethod
            def _fetch_url(url: str, headers: Any) -> str:
                """opensearch-py 3.2.0 encodes the query anew with ``+`` for a space, botocore signs that, and AWS has
                ``%20`` there: every request with a space in its query was refused. Ours is as it will be sent."""
                return url

        logger = logging.getLogger("botocore.auth")
        if logger.level == logging.NOTSET:
            logger.setLevel(logging.INFO)  # at DEBUG it writes down what it signs, the session token too
        made = Urllib3AWSV4SignerAuth(self._credentials, self._how.region, self._how.service)
        made.signer = Verbatim(self._credentials, self._how.region, self._how.service)
        return made


_REFUSALS = (
    (
        re.compile(r"signature expired|not yet current|\b(RequestTimeTooSkewed|RequestExpired)\b", re.IGNORECASE),
        "AWS's clock differs too much from this machine's",
        "set the clock of this machine (NTP)",
        True,
    ),
    (
        re.compile(r"token included in the request is expired|ExpiredToken", re.IGNORECASE),
        "the AWS session token has expired",
        "get new credentials, for example by `aws sso login`",
        False,
    ),
    (
        re.compile(r"token included in the request is invalid|UnrecognizedClient|InvalidClientTokenId", re.IGNORECASE),
        "AWS does not know these credentials",
        "check the access key and the session token, or name another --aws-profile",
        False,
    ),
    (  # AWS quotes what it expected to be signed, with the session token in it: not repeated
        re.compile(r"signature we calculated does not match|IncompleteSignature", re.IGNORECASE),
        "AWS rejects the signature",
        "check the secret access key",
        False,
    ),
    (
        re.compile(r"credential should be scoped", re.IGNORECASE),
        "AWS rejects what the signature is for",
        "give the domain's region with --sigv4",
        True,
    ),
    (
        re.compile(r"user: anonymous is not authorized|missing authentication token", re.IGNORECASE),
        "AWS takes signed requests only",
        "give the domain's region with --sigv4",
        False,
    ),
    (
        re.compile(r"is not authorized to perform", re.IGNORECASE),
        "AWS does not allow it",
        "allow es:ESHttp* in the domain's access policy, or name another --aws-profile",
        True,
    ),
)
"""Pattern, in our words, remedy, whether AWS's own words follow. AWS has no list of them; they are what its services
answer with status 403 (smithy's and IAM's "Common errors", and what users report of domains)."""


def refusal(answer: Any) -> tuple[str, str] | None:
    """What AWS says of a request that it let not through, and what helps; None where it is somebody else who speaks.

    Amazon's gateway stands before OpenSearch and has another shape of errors. Never holds a secret.
    """
    said = (answer.get("message") or answer.get("Message")) if isinstance(answer, dict) else None
    if not isinstance(said, str):
        return None
    for pattern, says, remedy, quoted in _REFUSALS:
        if pattern.search(said):
            return f"{says}: {' '.join(said.split())[:300]}" if quoted else says, remedy
    return None
