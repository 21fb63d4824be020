"""A Kafka server with listeners that ask for credentials: SASL in the clear, TLS with certificates, both."""

from __future__ import annotations

import datetime
import ipaddress
from collections.abc import Sequence
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from tests.services.kafka import Kafka
from tests.services.ports import free_port

PASSWORD = "wonder & land"
_MODULES = "org.apache.kafka.common.security"


class SecuredKafka(Kafka):
    def __init__(self, data: Path) -> None:
        super().__init__(data)
        self.sasl_port, self.tls_port, self.both_port = free_port(), free_port(), free_port()
        self.folder = data.parent / f"{data.name}-certificates"
        self.folder.mkdir()
        authority = Authority(self.folder)
        self.ca = authority.path
        self.server = authority.issue("server")
        self.client = authority.issue("client")

    def users(self) -> Sequence[str]:
        return (f"SCRAM-SHA-256=[name=alice,password={PASSWORD}]",)

    def settings(self) -> dict[str, str]:
        plain = super().settings()
        places = {"SASL": self.sasl_port, "TLS": self.tls_port, "BOTH": self.both_port}
        listeners = "".join(f",{name}://127.0.0.1:{port}" for name, port in places.items())
        protocols = ",SASL:SASL_PLAINTEXT,TLS:SSL,BOTH:SASL_SSL"
        sign_in = "listener.name.sasl"
        scram = f"{_MODULES}.scram.ScramLoginModule required;"
        return {
            **plain,
            "listeners": plain["listeners"] + listeners,
            "advertised.listeners": plain["advertised.listeners"] + listeners,
            "listener.security.protocol.map": plain["listener.security.protocol.map"] + protocols,
            f"{sign_in}.sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,OAUTHBEARER",
            f"{sign_in}.plain.sasl.jaas.config": (
                f'{_MODULES}.plain.PlainLoginModule required user_alice="{PASSWORD}";'
            ),
            f"{sign_in}.scram-sha-256.sasl.jaas.config": scram,
            f"{sign_in}.oauthbearer.sasl.jaas.config": (
                f"{_MODULES}.oauthbearer.OAuthBearerLoginModule required "
                'unsecuredLoginStringClaim_sub="server";'
            ),
            "listener.name.both.sasl.enabled.mechanisms": "SCRAM-SHA-256",
            "listener.name.both.scram-sha-256.sasl.jaas.config": scram,
            "listener.name.tls.ssl.client.auth": "required",
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(self.server.both),
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(self.ca),
        }


class Identity:
    """A certificate with its key, in a file each and both in one."""

    def __init__(self, folder: Path, name: str, key: bytes, certificate: bytes) -> None:
        self.key, self.certificate, self.both = (
            folder / f"{name}.{kind}.pem" for kind in ("key", "certificate", "both")
        )
        self.key.write_bytes(key)
        self.certificate.write_bytes(certificate)
        self.both.write_bytes(key + certificate)


class Authority:
    """Signs certificates that are good for a day."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "authority")])
        authority = x509.BasicConstraints(ca=True, path_length=None)
        certificate = self._certificate(self._name, self._key).add_extension(authority, critical=True)
        self.path = folder / "ca.pem"
        self.path.write_bytes(_pem(certificate.sign(self._key, hashes.SHA256())))

    def issue(self, name: str) -> Identity:
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        address = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))])
        signed = self._certificate(subject, key).add_extension(address, critical=False)
        raw = key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        return Identity(self._folder, name, raw, _pem(signed.sign(self._key, hashes.SHA256())))

    def _certificate(self, subject: x509.Name, key: ec.EllipticCurvePrivateKey) -> x509.CertificateBuilder:
        now = datetime.datetime.now(datetime.UTC)
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - datetime.timedelta(days=1))
            .not_valid_after(now + datetime.timedelta(days=1))
        )


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)
