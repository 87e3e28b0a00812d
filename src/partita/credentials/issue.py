"""Certificates: of an authority, and of those whom it lets in."""

from __future__ import annotations

import ipaddress
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from partita.naming import parse_address

#: Clocks may differ by so much; more is said to be wrong.
_SLACK = timedelta(hours=1)
#: Longer than boards are in use: a new authority is a new site.
AUTHORITY_DAYS = 20 * 365


class Pair(NamedTuple):
    """A certificate and its private key, in PEM format."""

    certificate: str
    key: str


class Period(NamedTuple):
    """When a certificate is valid."""

    start: datetime
    end: datetime


def from_now(days: float) -> Period:
    """The next ``days``, and the last hour."""
    now = datetime.now(UTC)
    return Period(now - _SLACK, now + timedelta(days=days))


def make_authority(cluster: str, period: Period) -> Pair:
    """An authority that signs certificates and nothing else, signed by itself."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = _name(f"partita {cluster}"[:64])
    builder = _begin(name, name, key.public_key(), period)
    builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
    usage = _usage(key_cert_sign=True, crl_sign=True)
    return _end(builder.add_extension(usage, critical=True), key, key)


def issue(authority: Pair, subject: str, hosts: tuple[str, ...], period: Period) -> Pair:
    """A certificate for both ends of a connection, with a new key; it ends with the authority's.

    Args:
        subject: Its common name.
        hosts: Names and IP addresses that others may reach its owner at.
    """
    signer = x509.load_pem_x509_certificate(authority.certificate.encode())
    signing = serialization.load_pem_private_key(authority.key.encode(), None)
    if not isinstance(signing, ec.EllipticCurvePrivateKey):
        raise ValueError("the authority's key is of another kind")
    key = ec.generate_private_key(ec.SECP256R1())
    ends = min(period.end, signer.not_valid_after_utc)
    builder = _begin(_name(subject), signer.subject, key.public_key(), Period(period.start, ends))
    both = [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
    for extension, critical in (
        (x509.BasicConstraints(ca=False, path_length=None), True),
        (_usage(digital_signature=True), True),
        (x509.ExtendedKeyUsage(both), False),
        (x509.SubjectAlternativeName([_host(host) for host in hosts]), False),
    ):
        builder = builder.add_extension(extension, critical=critical)
    return _end(builder, key, signing)


def find_hosts(name: str, address: str) -> tuple[str, ...]:
    """What a certificate may say of where its owner is.

    >>> find_hosts("nano", "tls/192.0.2.7:7447")
    ('nano', '192.0.2.7')
    """
    parts = parse_address(address)
    hosts = (name,) if parts is None else (name, parts.host.strip("[]"))
    return tuple(dict.fromkeys(hosts))


def read_period(certificate: str) -> Period:
    """When a certificate in PEM format is valid.

    Raises:
        ValueError: It is none.
    """
    read = x509.load_pem_x509_certificate(certificate.encode())
    return Period(read.not_valid_before_utc, read.not_valid_after_utc)


def _name(common: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common)])


def _host(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host.partition("%")[0]))
    except ValueError:
        return x509.DNSName(host)


def _begin(
    name: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey, period: Period
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(period.start)
        .not_valid_after(period.end)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
    )


def _end(
    builder: x509.CertificateBuilder,
    key: ec.EllipticCurvePrivateKey,
    signing: ec.EllipticCurvePrivateKey,
) -> Pair:
    identity = x509.AuthorityKeyIdentifier.from_issuer_public_key(signing.public_key())
    signed = builder.add_extension(identity, critical=False).sign(signing, hashes.SHA256())
    encoded = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    return Pair(signed.public_bytes(serialization.Encoding.PEM).decode(), encoded.decode())


def _usage(
    *, digital_signature: bool = False, key_cert_sign: bool = False, crl_sign: bool = False
) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=digital_signature,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=key_cert_sign,
        crl_sign=crl_sign,
        encipher_only=False,
        decipher_only=False,
    )
