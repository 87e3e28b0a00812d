"""Whether a device's own credentials can work: nothing else would say why nobody answers."""

from __future__ import annotations

import contextlib
import ssl
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from partita.errors import ClusterError

#: X509_V_ERR_CERT_NOT_YET_VALID and X509_V_ERR_CERT_HAS_EXPIRED of OpenSSL.
_TIMES = {9: "is not valid yet (is this machine's clock right?)", 10: "has expired"}
#: X509_V_ERR_* of OpenSSL where the issuer is not among the trusted ones.
STRANGERS = frozenset({2, 7, 18, 19, 20, 21})
#: X509_V_ERR_HOSTNAME_MISMATCH and X509_V_ERR_IP_ADDRESS_MISMATCH of OpenSSL.
MISNAMED = frozenset({62, 64})
_CERTIFICATE, _KEY = "-----BEGIN CERTIFICATE-----", "PRIVATE KEY-----"
_COMMON = "commonName"
#: X.509's number of the version that has extensions, the only one that peers accept.
_VERSION = 3


@dataclass(frozen=True)
class TlsOptions:
    """Certificates for mutual TLS, in PEM format: three files, or their texts out of one.

    Attributes:
        authority: Certificate of the authority that signed all workers.
        verify_name: Whether the certificate's name must be the address's host.
        origin: File that the texts are from; empty where the other three are files.
    """

    authority: str
    certificate: str
    key: str
    verify_name: bool = True
    origin: str = ""

    @property
    def shown(self) -> TlsOptions:
        """The files to name to people."""
        place = self.origin
        return replace(self, authority=place, certificate=place, key=place) if place else self


def check_credentials(tls: TlsOptions) -> str:
    """Shake hands with oneself in memory, which checks what others will check.

    Returns:
        The certificate's common name; empty where it has none, or nothing came to pass.

    Raises:
        ClusterError: A file is of another kind, the key is another certificate's, or the
            certificate is out of date, of X.509 version 1, or not signed by the authority.
    """
    _check_pem(tls, "authority", _CERTIFICATE, "the authority's certificate")
    _check_pem(tls, "certificate", _CERTIFICATE, "a certificate")
    _check_pem(tls, "key", _KEY, "a private key")
    server, client = load_contexts(tls)
    client.check_hostname = False
    shown = tls.shown.certificate
    try:
        seen = _shake_hands(server, client, None)
    except ssl.SSLCertVerificationError as error:
        if error.verify_code in _TIMES:
            raise ClusterError(
                f"Certificate '{shown}' or its authority {_TIMES[error.verify_code]}. "
                f"{'Make new ones with partita keys rotate' if tls.origin else 'Sign a new one'}.",
                subject=shown,
            ) from None
        if error.verify_code in STRANGERS:
            raise ClusterError(
                f"Certificate '{shown}' is not signed by the authority '{tls.shown.authority}' "
                f"({error.verify_message}), so that no device which trusts that one accepts it. "
                "Sign it by the authority of the cluster.",
                subject=shown,
            ) from None
        return ""  # what is left is the others' to judge, such as what a certificate is for
    version = seen.get("version", _VERSION)
    if isinstance(version, int) and version < _VERSION:
        raise ClusterError(
            f"Certificate '{shown}' is of X.509 version {version}, which the others refuse: "
            "allowed is version 3. Sign it anew with a name in it: openssl req with -addext "
            "subjectAltName=DNS:NAME, openssl x509 with -copy_extensions copy.",
            subject=shown,
        )
    names = [value for part in seen.get("subject", ()) for key, value in part if key == _COMMON]
    return str(names[0]) if names else ""


def is_for_host(tls: TlsOptions, host: str) -> bool:
    """Whether those who reach a device at ``host`` find that name in its certificate.

    Only credentials of :func:`check_credentials` can be asked about.
    """
    server, client = load_contexts(tls)
    client.hostname_checks_common_name = False  # nor do the others
    try:
        _shake_hands(server, client, host)
    except ssl.SSLCertVerificationError as error:
        return error.verify_code not in MISNAMED
    return True


def load_contexts(tls: TlsOptions) -> tuple[ssl.SSLContext, ssl.SSLContext]:
    """A server's context and a client's with the same credentials.

    Raises:
        ClusterError: They cannot be loaded.
    """
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    client = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    try:
        with _as_files(tls) as files:
            try:
                client.load_verify_locations(files.authority)
                for context in (server, client):  # nobody is there to type a password
                    context.load_cert_chain(files.certificate, files.key, password="")
            except ssl.SSLError as error:
                raise _unusable(tls, _describe_damage(tls, files, error)) from None
    except OSError as error:
        raise _unusable(tls, f"they cannot be read: {error.strerror or error}") from None
    return server, client


def broken_join(origin: str, why: str) -> ClusterError:
    """The error for a join file that cannot be used."""
    return ClusterError(
        f"Join file '{origin}' cannot be used: {why}. Copy the file that partita keys made for this"
        " host once more.",
        subject=origin,
    )


def _unusable(tls: TlsOptions, why: str) -> ClusterError:
    if tls.origin:
        return broken_join(tls.origin, why)
    return ClusterError(
        f"Credentials '{tls.authority}', '{tls.certificate}' and '{tls.key}' cannot be used: {why}."
        " Give an authority, a certificate and its key without a password, in PEM format.",
        subject=tls.certificate,
    )


def _describe_damage(tls: TlsOptions, files: TlsOptions, error: ssl.SSLError) -> str:
    """Which of three files OpenSSL does not take, and why."""
    if error.reason == "KEY_VALUES_MISMATCH":
        key, certificate = f"'{tls.key}'", f"'{tls.certificate}'"
        if tls.origin:
            key, certificate = "its key", "its certificate"
        return f"{key} is not the key of {certificate}"
    for part in ("authority", "certificate"):
        try:
            ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(getattr(files, part))
        except ssl.SSLError:
            return f"the {part} is damaged ({error.strerror})"
    return f"the key is encrypted, or damaged ({error.strerror})"


@contextlib.contextmanager
def _as_files(tls: TlsOptions) -> Iterator[TlsOptions]:
    """The credentials in files, as OpenSSL wants them; what is text lies in its own for a moment.

    Raises:
        OSError: There is no room for them.
    """
    if not tls.origin:
        yield tls
        return
    with tempfile.TemporaryDirectory(prefix="partita-") as folder:  # which is this user's alone
        texts = {"authority": tls.authority, "certificate": tls.certificate, "key": tls.key}
        for name, text in texts.items():
            (Path(folder) / name).write_text(text, encoding="utf-8")
        authority, certificate, key = (f"{folder}/{name}" for name in texts)
        yield TlsOptions(authority, certificate, key)


def _check_pem(tls: TlsOptions, part: str, mark: str, what: str) -> None:
    text, shown = getattr(tls, part), getattr(tls.shown, part)
    if not tls.origin:
        try:
            text = Path(text).read_text(encoding="utf-8", errors="replace")
        except OSError as error:
            raise ClusterError(
                f"File '{shown}' of the credentials cannot be read: {error.strerror}.",
                subject=shown,
            ) from None
    if mark in text:
        return
    held = (
        "a private key" if _KEY in text else "a certificate" if _CERTIFICATE in text else "no PEM"
    )
    if tls.origin:
        raise broken_join(tls.origin, f"its {part} is {held}, needed is {what} in PEM format")
    raise ClusterError(
        f"File '{shown}' holds {held}, needed is {what} in PEM format. Are --authority, "
        "--certificate and --key each given their own file?",
        subject=shown,
    )


def _shake_hands(
    server: ssl.SSLContext, client: ssl.SSLContext, host: str | None
) -> dict[str, Any]:
    """The server's certificate as the client sees it; empty where nothing could be agreed on.

    Raises:
        ssl.SSLCertVerificationError: The client refuses the certificate.
    """
    there, back = ssl.MemoryBIO(), ssl.MemoryBIO()
    ours = client.wrap_bio(back, there, server_hostname=host)
    theirs = server.wrap_bio(there, back, server_side=True)
    for side in (ours, theirs, ours):
        try:
            with contextlib.suppress(ssl.SSLWantReadError):
                side.do_handshake()
        except ssl.SSLCertVerificationError:
            raise
        except ssl.SSLError:
            return {}
    return ours.getpeercert() or {}
