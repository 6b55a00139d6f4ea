"""The options with which a command is told how to reach a cluster that is not ours."""

from __future__ import annotations

from typing import Annotated

import typer

from chaos.base.access import REFERENCES, Access
from chaos.base.addresses import Address
from chaos.base.errors import InvalidInput
from chaos.base.sigv4 import SigV4

User = Annotated[str | None, typer.Option("--user", help="Of basic authentication.", show_default=False)]
Password = Annotated[
    str | None, typer.Option("--password", help=f"Where it stands: {REFERENCES}.", metavar="REF", show_default=False)
]
Authority = Annotated[
    str | None, typer.Option("--ca", help="PEM file of whom to trust; default the system's.", show_default=False)
]
TlsName = Annotated[
    str | None,
    typer.Option(
        "--tls-name",
        help="The name that the server's certificate must have, where its address is another.",
        metavar="NAME",
        show_default=False,
    ),
]
Insecure = Annotated[bool, typer.Option("--insecure", help="Do not check the server's certificate.")]
Certificate = Annotated[
    str | None, typer.Option("--certificate", help="PEM file of a client certificate.", show_default=False)
]
Key = Annotated[str | None, typer.Option("--key", help="PEM file of its key.", show_default=False)]
Region = Annotated[
    str | None,
    typer.Option("--sigv4", help="Sign for AWS, for a domain in REGION.", metavar="REGION", show_default=False),
]
Profile = Annotated[
    str | None,
    typer.Option(
        "--aws-profile", help="Whose credentials sign; default as boto3 finds them.", metavar="NAME", show_default=False
    ),
]


def is_url(target: str) -> bool:
    return "://" in target


def reached(
    url: str,
    *,
    user: str | None = None,
    password: str | None = None,
    ca: str | None = None,
    tls_name: str | None = None,
    insecure: bool = False,
    certificate: str | None = None,
    key: str | None = None,
    sigv4: str | None = None,
    aws_profile: str | None = None,
) -> tuple[str, int, Access]:
    """Host, port and access. Raises InvalidInput, which never holds a password that stands in the address."""
    address = Address.parse(url)
    if aws_profile is not None and sigv4 is None:
        raise InvalidInput("--aws-profile says who signs, and nothing is signed", remedy="give --sigv4 REGION too")
    if insecure and ca is not None:
        raise InvalidInput("--insecure checks no certificate, and --ca says which to trust", remedy="leave one out")
    if insecure and tls_name is not None:
        raise InvalidInput("--insecure checks no certificate, and --tls-name says which", remedy="leave one out")
    access = Access(
        tls=address.tls,
        ca=ca,
        tls_name=tls_name,
        verify=not insecure,
        user=user,
        password=password,
        certificate=certificate,
        key=key,
        sigv4=None if sigv4 is None else SigV4(sigv4, profile=aws_profile),
    )
    return address.host, address.port, access
