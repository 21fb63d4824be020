"""Security policies as AsyncAPI's security schemes: every mechanism it has."""

from __future__ import annotations

from typing import Any

from dragoman.language import syntax as s
from dragoman.language.pointer import read_pointer

_SIMPLE = {
    "USER_PASSWORD": {"type": "userPassword"},
    "X509": {"type": "X509"},
    "SYMMETRIC_ENCRYPTION": {"type": "symmetricEncryption"},
    "ASYMMETRIC_ENCRYPTION": {"type": "asymmetricEncryption"},
    "BASIC_AUTHENTICATION": {"type": "http", "scheme": "basic"},
    "JWT": {"type": "http", "scheme": "bearer", "bearerFormat": "JWT"},
}
_SASL = {
    "SASL_PLAIN": "plain",
    "SASL_SCRAM_SHA_256": "scramSha256",
    "SASL_SCRAM_SHA_512": "scramSha512",
    "SASL_GSSAPI": "gssapi",
}
_FLOWS = {
    "OAUTH_IMPLICIT": "implicit",
    "OAUTH_PASSWORD": "password",
    "OAUTH_CLIENT_CREDENTIALS": "clientCredentials",
    "OAUTH_AUTHORIZATION_CODE": "authorizationCode",
    "OAUTH_FLOW": "authorizationCode",
}
_URLS = {
    "implicit": ("authorizationUrl",),
    "password": ("tokenUrl",),
    "clientCredentials": ("tokenUrl",),
    "authorizationCode": ("authorizationUrl", "tokenUrl"),
}
_UNKNOWN_URL = "https://example.com/to-be-defined"


def scheme(policy: s.Policy, spec: tuple[int, int]) -> dict[str, Any]:
    """The scheme of a policy. What no mechanism of this version says is kept as an extension."""
    mechanism = policy.mechanism.text
    settings = policy.settings.plain() if policy.settings else {}
    description = str(settings.get("description") or f"Policy {policy.name.text}: {mechanism}.")
    if mechanism in _SIMPLE:
        return {**_SIMPLE[mechanism], "description": description}
    if mechanism in _SASL:
        # SASL came with version 2.1.
        if spec < (2, 1):
            kind = "X509" if mechanism == "SASL_GSSAPI" else "userPassword"
            return {"type": kind, "description": description}
        return {"type": _SASL[mechanism], "description": description}
    if mechanism in _FLOWS:
        return _oauth(_FLOWS[mechanism], settings, description, spec)
    if mechanism == "OPEN_ID_CONNECT":
        url = str(settings.get("openIdConnectUrl", _UNKNOWN_URL))
        return {"type": "openIdConnect", "openIdConnectUrl": url, "description": description}
    if mechanism in ("API_KEY", "HTTP_API_KEY"):
        return _api_key(policy, description)
    return {"type": "userPassword", "description": description, "x-eip-mechanism": mechanism}


def scopes_of(settings: dict[str, Any]) -> dict[str, str]:
    """The scopes with what they are for: an object, a list of names, or one name."""
    said = settings.get("scopes", {})
    if isinstance(said, dict):
        return {name: str(purpose) for name, purpose in said.items()}
    return {str(scope): str(scope) for scope in (said if isinstance(said, list) else [said])}


def _oauth(flow: str, settings: dict[str, Any], description: str, spec: tuple[int, int]) -> dict[str, Any]:
    scopes = scopes_of(settings)
    body: dict[str, Any] = {url: settings.get(url, _UNKNOWN_URL) for url in _URLS[flow]}
    body["availableScopes" if spec >= (3, 0) else "scopes"] = scopes
    return {"type": "oauth2", "description": description, "flows": {flow: body}}


def _api_key(policy: s.Policy, description: str) -> dict[str, Any]:
    place = policy.place.value if policy.place else ""
    pointer = read_pointer(place)
    if policy.mechanism.text == "HTTP_API_KEY":
        name = pointer.tokens[-1] if pointer and pointer.tokens else policy.name.text
        where = place if place in ("query", "header", "cookie") else "header"
        return {"type": "httpApiKey", "name": name, "in": where, "description": description}
    # The specification knows no other place than these two: the pointer is told in words.
    where = place if place in ("user", "password") else "user"
    said = f" The key is in {place}." if pointer else ""
    return {"type": "apiKey", "in": where, "description": description + said}
