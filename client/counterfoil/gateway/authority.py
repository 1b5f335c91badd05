"""The gateway's own certificate authority, for clients that insist on https.

1. Its certificate is limited to the names of the settings (RFC 5280, section 4.2.1.10): with its key, one can pretend
   to be this gateway and nothing else.
2. The server's certificate is for these names, lasts 90 days, and is made anew when a third of that is left.
3. The keys (ECDSA on P-256) are files of mode 0600. The authority is never made anew by itself: clients trust it.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address, ip_network
from pathlib import Path
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from counterfoil.gating.files import write_private
from counterfoil.gating.settings import BadSettings, read_secret

_AUTHORITY_DAYS: Final = 3_650
_SERVER_DAYS: Final = 90
_EARLIER: Final = timedelta(hours=1)
"""Certificates begin so much earlier, for clients whose clocks are slow."""


class Authority:
    """The authority and the server's certificate in a folder: ca.pem, ca.key, server.pem and server.key."""

    def __init__(self, folder: Path, names: Sequence[str]) -> None:
        self._folder = folder
        self._names = [_name(each) for each in names]
        self.certificate = folder / "ca.pem"
        self.server_certificate = folder / "server.pem"
        self.server_key = folder / "server.key"

    def create(self, now: datetime) -> None:
        """Make an authority in the place of one that may be there; clients must be given its certificate."""
        key = ec.generate_private_key(ec.SECP256R1())
        subject = _subject(f"Counterfoil gateway {now:%Y-%m-%d}")
        made = (
            _certificate(subject, subject, key.public_key(), now, _AUTHORITY_DAYS)
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(_usage(signs_certificates=True), critical=True)
            .add_extension(_constraints(self._names), critical=True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
            .sign(key, hashes.SHA256())
        )
        for each in (self.server_certificate, self.server_key):
            each.unlink(missing_ok=True)
        _write_key(self._folder / "ca.key", key)
        write_private(self.certificate, made.public_bytes(serialization.Encoding.PEM))

    def renew(self, now: datetime) -> bool:
        """Make the authority if there is none, and the server's certificate when it is due; return whether it was made.

        Raises `BadSettings` for an authority of other names, or whose key cannot be read or others may read.
        """
        if not self.certificate.exists():
            self.create(now)
        authority = self._load(self.certificate)
        if authority.extensions.get_extension_for_class(x509.NameConstraints).value != _constraints(self._names):
            raise BadSettings(
                "gateway.tls_names are not those of this gateway's authority. `counterfoil-gateway ca --new` makes "
                "another one; every client must be given its certificate."
            )
        key = _read_key(self._folder / "ca.key")
        if key.public_key() != authority.public_key():
            raise BadSettings(f"{self._folder / 'ca.key'} is not the key of ca.pem; `counterfoil-gateway ca --new`.")
        if self.server_certificate.exists() and self.server_key.exists():
            present = self._load(self.server_certificate)
            due = present.not_valid_after_utc - now < timedelta(days=_SERVER_DAYS) / 3
            # A crash between the two files leaves a certificate of another key.
            if not due and present.public_key() == _read_key(self.server_key).public_key():
                return False
        own = ec.generate_private_key(ec.SECP256R1())
        made = (
            _certificate(_subject("Counterfoil gateway"), authority.subject, own.public_key(), now, _SERVER_DAYS)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(x509.SubjectAlternativeName(self._names), critical=False)
            .add_extension(_usage(signs_certificates=False), critical=True)
            .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
            .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(key.public_key()), critical=False)
            .sign(key, hashes.SHA256())
        )
        _write_key(self.server_key, own)
        write_private(self.server_certificate, made.public_bytes(serialization.Encoding.PEM))
        return True

    def _load(self, path: Path) -> x509.Certificate:
        try:
            return x509.load_pem_x509_certificate(path.read_bytes())
        except (OSError, ValueError) as fault:
            raise BadSettings(f"{path} is no certificate that can be read.") from fault


def _name(given: str) -> x509.DNSName | x509.IPAddress:
    try:
        return x509.IPAddress(ip_address(given))
    except ValueError:
        return x509.DNSName(given)


def _constraints(names: Sequence[x509.DNSName | x509.IPAddress]) -> x509.NameConstraints:
    """Permit these names; a kind of name of which none is permitted is excluded, since it would be free otherwise."""
    hosts = [each for each in names if isinstance(each, x509.DNSName)]
    addresses = [x509.IPAddress(ip_network(each.value)) for each in names if isinstance(each, x509.IPAddress)]
    excluded: list[x509.GeneralName] = [] if hosts else [x509.DNSName("")]
    excluded += [] if addresses else [x509.IPAddress(ip_network(each)) for each in ("0.0.0.0/0", "::/0")]
    return x509.NameConstraints([*hosts, *addresses], excluded or None)


def _subject(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _certificate(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey, now: datetime, days: int
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now.astimezone(UTC) - _EARLIER)
        .not_valid_after(now.astimezone(UTC) + timedelta(days=days))
    )


def _usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs_certificates,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _read_key(path: Path) -> ec.EllipticCurvePrivateKey:
    try:
        key = serialization.load_pem_private_key(read_secret(path).encode(), None)
    except ValueError as fault:
        raise BadSettings(f"{path} is no key that can be read.") from fault
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise BadSettings(f"{path} is no key of this gateway's authority.")
    return key


def _write_key(path: Path, key: ec.EllipticCurvePrivateKey) -> None:
    form = (serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    write_private(path, key.private_bytes(*form))
