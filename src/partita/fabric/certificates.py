"""Whether a device's own certificate is valid now: nothing else would say why nobody answers."""

from __future__ import annotations

import contextlib
import ssl

from partita.errors import ClusterError

#: X509_V_ERR_CERT_NOT_YET_VALID and X509_V_ERR_CERT_HAS_EXPIRED of OpenSSL.
_TIMES = {9: "is not valid yet (is this machine's clock right?)", 10: "has expired"}


def check_dates(authority: str, certificate: str, key: str) -> None:
    """Shake hands with oneself in memory, which checks dates as others will.

    Raises:
        ClusterError: The certificate has expired, or is not valid yet.
    """
    try:
        server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        server.load_cert_chain(certificate, key)
        client = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        client.check_hostname = False
        client.load_verify_locations(authority)
    except (ssl.SSLError, OSError):
        return  # unreadable files are refused, with their names, by whoever opens the network
    there, back = ssl.MemoryBIO(), ssl.MemoryBIO()
    ours = client.wrap_bio(back, there)
    theirs = server.wrap_bio(there, back, server_side=True)
    for side in (ours, theirs, ours):
        try:
            with contextlib.suppress(ssl.SSLWantReadError):
                side.do_handshake()
        except ssl.SSLCertVerificationError as error:
            if error.verify_code in _TIMES:
                raise ClusterError(
                    f"Certificate '{certificate}' or its authority {_TIMES[error.verify_code]}. "
                    "Sign a new one.",
                    subject=certificate,
                ) from None
            return
        except ssl.SSLError:
            return
