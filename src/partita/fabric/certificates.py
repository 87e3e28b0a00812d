"""Whether a device's own credentials can work: nothing else would say why nobody answers."""

from __future__ import annotations

import contextlib
import ssl
from pathlib import Path

from partita.errors import ClusterError

#: X509_V_ERR_CERT_NOT_YET_VALID and X509_V_ERR_CERT_HAS_EXPIRED of OpenSSL.
_TIMES = {9: "is not valid yet (is this machine's clock right?)", 10: "has expired"}
#: X509_V_ERR_* of OpenSSL where the issuer is not among the trusted ones.
STRANGERS = frozenset({2, 7, 18, 19, 20, 21})
#: X509_V_ERR_HOSTNAME_MISMATCH and X509_V_ERR_IP_ADDRESS_MISMATCH of OpenSSL.
MISNAMED = frozenset({62, 64})
_CERTIFICATE, _KEY = "-----BEGIN CERTIFICATE-----", "PRIVATE KEY-----"
#: X.509's number of the version that has extensions, the only one that peers accept.
_VERSION = 3


def check_credentials(authority: str, certificate: str, key: str) -> None:
    """Shake hands with oneself in memory, which checks what others will check.

    Raises:
        ClusterError: A file is of another kind, the key is another certificate's, or the
            certificate is out of date, of X.509 version 1, or not signed by the authority.
    """
    for path, mark, what in (
        (authority, _CERTIFICATE, "the authority's certificate"),
        (certificate, _CERTIFICATE, "a certificate"),
        (key, _KEY, "a private key"),
    ):
        _check_pem(path, mark, what)
    server, client = load_contexts(authority, certificate, key)
    client.check_hostname = False
    try:
        version = _shake_hands(server, client, None)
    except ssl.SSLCertVerificationError as error:
        if error.verify_code in _TIMES:
            raise ClusterError(
                f"Certificate '{certificate}' or its authority {_TIMES[error.verify_code]}. "
                "Sign a new one.",
                subject=certificate,
            ) from None
        if error.verify_code in STRANGERS:
            raise ClusterError(
                f"Certificate '{certificate}' is not signed by the authority '{authority}' "
                f"({error.verify_message}), so that no device which trusts that one accepts it. "
                "Sign it by the authority of the cluster.",
                subject=certificate,
            ) from None
        return  # what is left is the others' to judge, such as what a certificate is for
    if version is not None and version < _VERSION:
        raise ClusterError(
            f"Certificate '{certificate}' is of X.509 version {version}, which the others refuse: "
            "allowed is version 3. Sign it anew with a name in it: openssl req with -addext "
            "subjectAltName=DNS:NAME, openssl x509 with -copy_extensions copy.",
            subject=certificate,
        )


def is_for_host(authority: str, certificate: str, key: str, host: str) -> bool:
    """Whether those who reach a device at ``host`` find that name in its certificate.

    Only credentials of :func:`check_credentials` can be asked about.
    """
    server, client = load_contexts(authority, certificate, key)
    client.hostname_checks_common_name = False  # nor do the others
    try:
        _shake_hands(server, client, host)
    except ssl.SSLCertVerificationError as error:
        return error.verify_code not in MISNAMED
    return True


def load_contexts(
    authority: str, certificate: str, key: str
) -> tuple[ssl.SSLContext, ssl.SSLContext]:
    """A server's context and a client's with the same credentials.

    Raises:
        ClusterError: They cannot be loaded.
    """
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    client = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    try:
        client.load_verify_locations(authority)
        for context in (server, client):
            context.load_cert_chain(certificate, key, password="")  # nobody is there to type one
    except (ssl.SSLError, OSError) as error:
        if getattr(error, "reason", "") == "KEY_VALUES_MISMATCH":
            why = f"'{key}' is not the key of '{certificate}'"
        else:
            why = f"a file is damaged, or the key is encrypted ({error.strerror or error})"
        raise ClusterError(
            f"Credentials '{authority}', '{certificate}' and '{key}' cannot be used: {why}. "
            "Give an authority, a certificate and its key without a password, in PEM format.",
            subject=certificate,
        ) from None
    return server, client


def _check_pem(path: str, mark: str, what: str) -> None:
    try:
        text = Path(path).read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        raise ClusterError(
            f"File '{path}' of the credentials cannot be read: {error.strerror}.", subject=path
        ) from None
    if mark in text:
        return
    held = (
        "a private key" if _KEY in text else "a certificate" if _CERTIFICATE in text else "no PEM"
    )
    raise ClusterError(
        f"File '{path}' holds {held}, needed is {what} in PEM format. Are --authority, "
        "--certificate and --key each given their own file?",
        subject=path,
    )


def _shake_hands(server: ssl.SSLContext, client: ssl.SSLContext, host: str | None) -> int | None:
    """The X.509 version of the server's certificate; None where nothing could be agreed on.

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
            return None
    seen = ours.getpeercert() or {}
    version = seen.get("version")
    return version if isinstance(version, int) else None
