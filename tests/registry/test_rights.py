"""Keys, passwords, tokens, roles, TLS, and what an unguarded server refuses."""

from __future__ import annotations

import datetime
import ipaddress
import json
import ssl
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import jwt
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import NameOID
from tests.registry.guarding import bearer, new_key
from tests.registry.schemas import ORDER, ORDER_WITH_NOTE

from dragoman.core.errors import ConfigurationError, Forbidden
from dragoman.registry import connect
from dragoman.registry.access import Grant
from dragoman.registry.http.authenticate import JwtOptions
from dragoman.registry.http.server import Server, ServerOptions, check_exposure
from dragoman.registry.keys import REGISTRY, create_password

AUDIENCE = "registry"
SIGNING_KEY = rsa.generate_private_key(public_exponent=65537, key_size=2048)
PUBLIC_KEY = (
    SIGNING_KEY.public_key()
    .public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    .decode()
)
BODY = {"schema": ORDER.text}


@pytest.fixture
def guarded() -> Iterator[Server]:
    options = ServerOptions(
        store="sqlite://:memory:",
        port=0,
        credentials=True,
        jwt=JwtOptions(PUBLIC_KEY, "RS256", AUDIENCE, "https://issuer"),
    )
    with Server(options) as running:
        yield running


def signed(key: Any = SIGNING_KEY, algorithm: str = "RS256", **claims: Any) -> str:
    usual = {
        "sub": "service-a",
        "aud": AUDIENCE,
        "iss": "https://issuer",
        "exp": time.time() + 600,
        "roles": ["write:orders-"],
    }
    return jwt.encode({**usual, **claims}, key, algorithm=algorithm)


def test_without_credentials_only_the_probes_answer(guarded: Server) -> None:
    refused = httpx.get(f"{guarded.url}/subjects")
    assert refused.status_code == 401
    assert refused.json()["error_code"] == 40101
    assert "Basic" in refused.headers["www-authenticate"]
    assert httpx.get(f"{guarded.url}/health").status_code == 200
    assert httpx.get(f"{guarded.url}/ready").status_code == 200
    assert httpx.get(f"{guarded.url}/metrics").status_code == 401
    assert httpx.get(f"{guarded.url}/docs").status_code == 401


def test_a_key_is_user_and_password_or_a_bearer_token(guarded: Server) -> None:
    key = new_key(guarded.service, "read")
    for _ in range(2):
        assert httpx.get(f"{guarded.url}/subjects", auth=(key.id, key.secret)).status_code == 200
        assert httpx.get(f"{guarded.url}/subjects", headers=bearer(key.token)).status_code == 200
        assert httpx.get(f"{guarded.url}/subjects", auth=(key.id, "wrong")).status_code == 401
        assert httpx.get(f"{guarded.url}/subjects", headers=bearer(key.id + ".wrong")).status_code == 401


def test_a_user_has_a_password(guarded: Server) -> None:
    grants = (Grant.parse("admin"),)
    guarded.service.engine.write_now(
        lambda tx: create_password(tx, "ada", "correct horse", grants, author="test"), REGISTRY
    )
    assert httpx.get(f"{guarded.url}/subjects", auth=("ada", "correct horse")).status_code == 200
    assert httpx.get(f"{guarded.url}/subjects", auth=("ada", "battery staple")).status_code == 401
    assert httpx.get(f"{guarded.url}/subjects", auth=("bob", "correct horse")).status_code == 401
    with pytest.raises(ConfigurationError):
        guarded.service.engine.write_now(
            lambda tx: create_password(tx, "eve", "short", grants, author="test"), REGISTRY
        )


def test_secrets_are_stored_as_hashes(guarded: Server) -> None:
    key = new_key(guarded.service, "read")
    stored = guarded.service.engine.read_now(lambda tx: str(tx.execute("SELECT * FROM registry_keys")))
    assert key.id in stored
    assert key.secret not in stored


def test_roles_hold_for_a_prefix(guarded: Server) -> None:
    admin, writer = new_key(guarded.service, "admin"), new_key(guarded.service, "write:orders-", "read:pub-")
    url, mine = guarded.url, bearer(writer.token)
    for name in ("secret-value", "pub-value"):
        answer = httpx.post(f"{url}/contracts/{name}", json=BODY, headers=bearer(admin.token))
        assert answer.status_code == 200
    assert httpx.post(f"{url}/contracts/orders-value", json=BODY, headers=mine).status_code == 200
    assert httpx.post(f"{url}/subjects/orders-value/versions", json=BODY, headers=mine).status_code == 200
    for path in ("/contracts/secret-value", "/subjects/secret-value/versions/1"):
        for _ in range(2):
            assert httpx.get(url + path, headers=bearer(admin.token)).status_code == 200
            assert httpx.get(url + path, headers=mine).status_code == 403
    denied = httpx.post(f"{url}/contracts/pub-value", json=BODY, headers=mine)
    assert denied.status_code == 403
    assert denied.json()["code"] == "registry.forbidden"
    assert httpx.get(f"{url}/contracts/pub-value", headers=mine).status_code == 200
    assert httpx.get(f"{url}/subjects", headers=mine).json() == ["orders-value", "pub-value"]
    assert httpx.put(f"{url}/config", json={"compatibility": "NONE"}, headers=mine).status_code == 403
    assert httpx.delete(f"{url}/subjects/orders-value", headers=mine).status_code == 200
    gone = httpx.delete(f"{url}/subjects/orders-value?permanent=true", headers=mine)
    assert gone.status_code == 403


def test_a_schema_is_seen_by_those_who_see_one_of_its_contracts(guarded: Server) -> None:
    admin, reader = new_key(guarded.service, "admin"), new_key(guarded.service, "read:orders-")
    url = guarded.url
    for name, body in (("orders-value", BODY), ("secret-value", {"schema": ORDER_WITH_NOTE.text})):
        httpx.post(f"{url}/contracts/{name}", json=body, headers=bearer(admin.token))
    for path in ("/schemas/{}", "/schemas/ids/{}"):
        for _ in range(2):
            assert httpx.get(url + path.format(2), headers=bearer(admin.token)).status_code == 200
            assert httpx.get(url + path.format(1), headers=bearer(reader.token)).status_code == 200
            assert httpx.get(url + path.format(2), headers=bearer(reader.token)).status_code == 404


def test_an_administrator_makes_and_revokes_keys_and_reads_the_log(guarded: Server) -> None:
    admin = bearer(new_key(guarded.service, "admin").token)
    url = guarded.url
    made = httpx.post(f"{url}/keys", json={"owner": "bob", "grants": ["read"]}, headers=admin).json()
    assert httpx.get(f"{url}/subjects", headers=bearer(made["token"])).status_code == 200
    assert httpx.get(f"{url}/keys", headers=bearer(made["token"])).status_code == 403
    listed = httpx.get(f"{url}/keys", headers=admin)
    assert {each["owner"] for each in listed.json()} == {"ada", "bob"}
    assert made["secret"] not in listed.text
    assert httpx.delete(f"{url}/keys/{made['id']}", headers=admin).json() == {"success": True}
    assert httpx.get(f"{url}/subjects", headers=bearer(made["token"])).status_code == 401
    assert httpx.delete(f"{url}/keys/{made['id']}", headers=admin).status_code == 404
    refused = httpx.post(f"{url}/keys", json={"owner": "bob", "grants": ["rule"]}, headers=admin)
    assert refused.status_code == 422
    log = httpx.get(f"{url}/history", headers=admin)
    assert [each["action"] for each in log.json()] == ["key-revoked", "key-created", "key-created"]
    assert log.json()[0]["author"] == "ada"
    assert made["secret"] not in log.text


def test_an_expired_key_is_refused(guarded: Server) -> None:
    key = new_key(guarded.service, "read", expires=time.time() - 1)
    assert httpx.get(f"{guarded.url}/subjects", headers=bearer(key.token)).status_code == 401


def test_a_token_of_the_right_issuer_and_audience_is_accepted(guarded: Server) -> None:
    answer = httpx.post(f"{guarded.url}/contracts/orders-value", json=BODY, headers=bearer(signed()))
    assert answer.status_code == 200
    denied = httpx.post(f"{guarded.url}/contracts/other-value", json=BODY, headers=bearer(signed()))
    assert denied.status_code == 403
    history = guarded.service.engine.read_now(lambda tx: tx.execute("SELECT author FROM registry_history"))
    assert list(history) == [("service-a",)]


def test_roles_of_other_services_in_a_token_grant_nothing(guarded: Server) -> None:
    token = signed(roles=["billing-user", "read:orders-"])
    assert httpx.get(f"{guarded.url}/subjects", headers=bearer(token)).status_code == 200
    denied = httpx.post(f"{guarded.url}/contracts/orders-value", json=BODY, headers=bearer(token))
    assert denied.status_code == 403


def test_tokens_that_are_not_right_are_refused(guarded: Server) -> None:
    stranger = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    unsigned = jwt.encode({"sub": "x", "aud": AUDIENCE, "exp": time.time() + 60}, None, algorithm="none")
    for token in (
        signed(aud="another"),
        signed(iss="https://elsewhere"),
        signed(exp=time.time() - 10),
        signed(stranger),
        signed(ec.generate_private_key(ec.SECP256R1()), "ES256"),
        signed("x" * 64, "HS256"),
        unsigned,
        signed()[:-2],
        "a.b.c",
    ):
        assert httpx.get(f"{guarded.url}/subjects", headers=bearer(token)).status_code == 401


def test_a_public_key_is_no_shared_secret() -> None:
    with pytest.raises(ConfigurationError):
        JwtOptions(PUBLIC_KEY, "HS256", AUDIENCE)
    with pytest.raises(ConfigurationError):
        JwtOptions(PUBLIC_KEY, "none", AUDIENCE)
    with pytest.raises(ConfigurationError):
        JwtOptions(PUBLIC_KEY, "RS256", "")


async def test_the_client_brings_credentials(guarded: Server) -> None:
    key = new_key(guarded.service, "write:orders-")
    for registry in (
        connect(guarded.url, username=key.id, password=key.secret),
        connect(guarded.url, token=key.token),
        connect(guarded.url.replace("//", f"//{key.id}:{key.secret}@")),
    ):
        assert (await registry.register("orders-value", ORDER)).version == 1
        with pytest.raises(Forbidden) as denied:
            await registry.register("other-value", ORDER)
        assert denied.value.code == "registry.forbidden"
        await registry.close()
    nobody = connect(guarded.url)
    with pytest.raises(Forbidden) as refused:
        await nobody.contracts()
    assert refused.value.code == "registry.unauthenticated"
    await nobody.close()


def self_signed(folder: Path) -> tuple[Path, Path]:
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "127.0.0.1")])
    now = datetime.datetime.now(datetime.UTC)
    address = x509.IPAddress(ipaddress.ip_address("127.0.0.1"))
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([address]), critical=False)
        .sign(key, hashes.SHA256())
    )
    certificate_file, key_file = folder / "server.pem", folder / "server.key"
    certificate_file.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    key_file.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
    return certificate_file, key_file


async def test_the_server_speaks_tls(tmp_path: Path) -> None:
    certificate, key = self_signed(tmp_path)
    options = ServerOptions(store="sqlite://:memory:", port=0, certificate=str(certificate), key=str(key))
    with Server(options) as server:
        assert server.url.startswith("https://")
        registry = connect(server.url, ca=str(certificate))
        assert (await registry.register("orders-value", ORDER)).version == 1
        await registry.close()
        with pytest.raises(httpx.ConnectError):
            httpx.get(f"{server.url}/health", verify=ssl.create_default_context())


def test_an_open_server_stays_on_this_machine() -> None:
    for host in ("0.0.0.0", "::", "192.0.2.1", "registry.example.org"):
        with pytest.raises(ConfigurationError) as refused:
            check_exposure(ServerOptions(store="sqlite://:memory:", host=host))
        assert refused.value.code == "configuration.public"
        check_exposure(ServerOptions(store="sqlite://:memory:", host=host, credentials=True))
        check_exposure(ServerOptions(store="sqlite://:memory:", host=host, public_without_credentials=True))
    for host in ("127.0.0.1", "::1", "localhost"):
        check_exposure(ServerOptions(store="sqlite://:memory:", host=host))


def test_requests_beyond_the_limits_are_refused(server: Server) -> None:
    url = f"{server.url}/contracts/orders-value"
    huge = httpx.post(url, content=b"[" + b"1," * 5_000_000, headers={"Content-Type": "application/json"})
    assert huge.status_code == 413
    deep = httpx.post(url, json={"schema": "[" * 5000 + "]" * 5000})
    assert deep.status_code == 422
    nested = httpx.post(url, content=b'{"schema": ' + b"[" * 100_000)
    assert nested.status_code in (400, 422)
    long = httpx.post(url, json={"schema": '"' + "x" * 4_500_000 + '"'})
    assert (long.status_code, long.json()["code"]) == (422, "registry.schema-too-large")
    references = [{"name": f"n{i}", "contract": "c", "version": 1} for i in range(300)]
    many = httpx.post(url, json={"schema": ORDER.text, "references": references})
    assert many.status_code == 422
    for pattern in ("(a+)+$", "^([a-z]*)*x", "(?:\\w+)+", "x" * 2000):
        schema = json.dumps({"type": "string", "pattern": pattern})
        bad = httpx.post(url, json={"type": "JSON", "schema": schema})
        assert (bad.status_code, bad.json()["code"]) == (422, "schema.invalid")
    fine = json.dumps({"type": "string", "pattern": "^([a-z]+-)*[a-z]+$"})
    assert httpx.post(f"{server.url}/contracts/j", json={"type": "JSON", "schema": fine}).status_code == 200


def test_references_may_not_lead_in_circles_or_too_far(server: Server) -> None:
    url = server.url
    httpx.put(f"{url}/mode/a", json={"mode": "IMPORT"})
    httpx.post(
        f"{url}/subjects/a/versions",
        json={
            "schema": ORDER.text,
            "version": 1,
            "id": 1,
            "references": [{"name": "shop.Order", "subject": "a", "version": 1}],
        },
    )
    httpx.delete(f"{url}/mode/a")
    body = {"schema": ORDER.text, "references": [{"name": "x.Y", "subject": "a", "version": 1}]}
    refused = httpx.post(f"{url}/subjects/b/versions", json=body)
    assert refused.status_code == 422
    assert "circle" in refused.json()["message"]


def test_a_string_that_is_never_closed_is_refused_at_once(server: Server) -> None:
    endless = '"' + '\\"' * 100_000
    answer = httpx.post(f"{server.url}/contracts/orders-value", json={"schema": endless})
    assert (answer.status_code, answer.json()["code"]) == (422, "schema.invalid.json")


def test_credentials_that_are_not_even_text_are_refused(guarded: Server) -> None:
    for header in (b"Basic \xff\xfe", b"Basic ///", b"Basic", b"Bearer \xff.\xff", b"\xff"):
        answer = httpx.get(f"{guarded.url}/subjects", headers={"Authorization": header})
        assert (answer.status_code, answer.json()["error_code"]) == (401, 40101)


def test_strangers_are_not_told_about_a_database_that_is_away(guarded: Server) -> None:
    guarded.service.engine.database.close()
    answer = httpx.get(f"{guarded.url}/subjects", auth=("ada", "correct horse"))
    assert (answer.status_code, answer.json()["error_code"]) == (503, 50001)
    assert "database" not in answer.text


def test_a_key_lives_for_some_time(guarded: Server) -> None:
    admin = bearer(new_key(guarded.service, "admin").token)
    body = {"owner": "bob", "grants": ["read"]}
    for lifetime in (0, -5):
        refused = httpx.post(f"{guarded.url}/keys", json={**body, "lifetime": lifetime}, headers=admin)
        assert (refused.status_code, refused.json()["code"]) == (422, "registry.invalid.lifetime")
    made = httpx.post(f"{guarded.url}/keys", json={**body, "lifetime": 600}, headers=admin).json()
    assert httpx.get(f"{guarded.url}/subjects", headers=bearer(made["token"])).status_code == 200
