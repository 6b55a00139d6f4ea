"""Certificates of one lab: an authority whose key is never written, and what it signs.

Needs the Python package cryptography (16 MB installed), which only secured labs do: the extra ``[secure]``.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

VALID = timedelta(days=14)
SKEW = timedelta(hours=1)
"""How far clocks may differ between who makes a certificate and who reads it."""


class Authority:
    """Signs certificates of one lab, for as long as this object lives."""

    def __init__(self, lab: str) -> None:
        self._lab = lab
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = self._named("authority", "authority")
        usage = _usage(key_cert_sign=True, crl_sign=True)
        self._certificate = (
            self._begun(self._name, self._key.public_key())
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(usage, critical=True)
            .sign(self._key, hashes.SHA256())
        )

    @property
    def pem(self) -> str:
        return _pem(self._certificate)

    def issue(
        self,
        name: str,
        unit: str,
        addresses: Sequence[str] = (),
        names: Sequence[str] = (),
        valid: timedelta = VALID,
    ) -> tuple[str, str]:
        """A certificate for ``addresses`` (IP) and ``names`` (DNS), and its key in PKCS#8; both as PEM.

        A certificate with neither is a client's.
        """
        key = ec.generate_private_key(ec.SECP256R1())
        purposes = [ExtendedKeyUsageOID.CLIENT_AUTH]
        builder = self._begun(self._named(name, unit), key.public_key(), valid)
        known = [
            *(x509.IPAddress(ipaddress.ip_address(address)) for address in addresses),
            *map(x509.DNSName, names),
        ]
        if known:
            purposes.append(ExtendedKeyUsageOID.SERVER_AUTH)
            builder = builder.add_extension(x509.SubjectAlternativeName(known), critical=False)
        certificate = (
            builder.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(_usage(digital_signature=True), critical=True)
            .add_extension(x509.ExtendedKeyUsage(purposes), critical=False)
            .sign(self._key, hashes.SHA256())
        )
        secret = key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        return _pem(certificate), secret.decode()

    def _named(self, name: str, unit: str) -> x509.Name:
        parts = ((NameOID.ORGANIZATION_NAME, f"oschaos-{self._lab}"), (NameOID.ORGANIZATIONAL_UNIT_NAME, unit))
        return x509.Name([x509.NameAttribute(oid, text) for oid, text in (*parts, (NameOID.COMMON_NAME, name))])

    def _begun(
        self, subject: x509.Name, key: ec.EllipticCurvePublicKey, valid: timedelta = VALID
    ) -> x509.CertificateBuilder:
        now = datetime.now(UTC)
        return (
            x509.CertificateBuilder(self._name, subject, key, x509.random_serial_number(), now - SKEW, now + valid)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
            .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key()), critical=False)
        )


def _usage(**allowed: bool) -> x509.KeyUsage:
    every = [
        *("digital_signature", "content_commitment", "key_encipherment", "data_encipherment", "key_agreement"),
        *("key_cert_sign", "crl_sign", "encipher_only", "decipher_only"),
    ]
    return x509.KeyUsage(**{name: allowed.get(name, False) for name in every})


def _pem(certificate: x509.Certificate) -> str:
    return certificate.public_bytes(serialization.Encoding.PEM).decode()
