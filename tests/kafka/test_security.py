"""Clients that sign in over TLS: by password (SCRAM), certificate, and token; quotas; and what errors say."""

from __future__ import annotations

import base64
import ipaddress
import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    ResourcePatternType,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

import kstreamnb as ks
from kstreamnb.kafka.application_reset import committed_positions, reset
from kstreamnb.kafka.bounded_reader import TopicFollower
from kstreamnb.kafka.broker_process import LocalBroker
from kstreamnb.kafka.output_batch import OutputBatch, columns_of
from kstreamnb.kafka.transactional_writer import TransactionalWriter
from tests.kafka.apps import PATIENCE_S, Bench, counting, counts, final
from tests.kafka.broker_cluster import _free_ports
from tests.kafka.old_brokers import broker_of

pytestmark = pytest.mark.kafka

PASSWORD = "pass, word=1"
REAUTH_S = 4.0
"""How long a session of a signed-in client lasts."""

LOGIN = "org.apache.kafka.common.security.{} required {};"


class Certificates:
    """An authority, and certificates that it has signed, as PEM files."""

    def __init__(self, folder: Path, name: str = "ca") -> None:
        self.folder, self._key = folder, ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        self.authority = folder / f"{name}.pem"
        self.authority.write_bytes(self._signed(self._name, self._key, ca=True))

    def issue(self, name: str, *, days: int = 1, password: str | None = None) -> tuple[Path, Path]:
        """Write a key and a certificate for a name and this machine's address; return both files."""
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        lock: Any = serialization.NoEncryption()
        if password is not None:
            lock = serialization.BestAvailableEncryption(password.encode())
        files = self.folder / f"{name}.key", self.folder / f"{name}.pem"
        form = serialization.PrivateFormat.PKCS8
        files[0].write_bytes(key.private_bytes(serialization.Encoding.PEM, form, lock))
        files[1].write_bytes(self._signed(subject, key, days=days))
        return files

    def _signed(self, subject: x509.Name, key: ec.EllipticCurvePrivateKey, *, ca: bool = False, days: int = 1) -> bytes:
        now = datetime.now(UTC)  # noqa: TID251 - of a certificate
        alternative = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))])
        builder = (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - timedelta(days=2))
            .not_valid_after(now + timedelta(days=days))
            .add_extension(x509.BasicConstraints(ca=ca, path_length=None), critical=True)
            .add_extension(alternative, critical=False)
        )
        return builder.sign(self._key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)


class TokenServer:
    """A token endpoint: answers client credentials with an unsigned token that is valid for some seconds."""

    def __init__(self, seconds: float = 3600.0) -> None:
        self.seconds, self.asked, outer = seconds, list[str](), self

        class Answer(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                outer.asked.append(self.headers["Authorization"])
                known = f"Basic {base64.b64encode(b'shop:hush').decode()}" == self.headers["Authorization"]
                reply = {"access_token": outer.token()} if known else {"error": "invalid_client"}
                body = json.dumps(reply | {"token_type": "Bearer", "expires_in": outer.seconds}).encode()
                self.send_response(200 if known else 401)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *arguments: object) -> None:
                """Print nothing."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Answer)
        self.url = f"http://127.0.0.1:{self._server.server_port}/token"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def token(self) -> str:
        """Return a token for the user "shop"."""
        now = int(time.time())  # noqa: TID251 - of a token
        parts = {"alg": "none"}, {"sub": "shop", "iat": now, "exp": now + self.seconds, "scope": "kafka"}
        encoded = [base64.urlsafe_b64encode(json.dumps(part).encode()).decode().rstrip("=") for part in parts]
        return ".".join([*encoded, ""])

    def close(self) -> None:
        """End the server."""
        self._server.shutdown()
        self._server.server_close()


class Secured:
    """A broker with a listener for everything, one for passwords and tokens over TLS, and one for certificates."""

    def __init__(self, folder: Path) -> None:
        self.certificates, self.tokens = Certificates(folder), TokenServer()
        ports = _free_ports(4)
        plain, sasl, tls, controller = (f"127.0.0.1:{port}" for port in ports)
        self.sasl, self.tls = sasl, tls
        key, certificate = self.certificates.issue("broker")
        store = folder / "broker-store.pem"
        store.write_bytes(key.read_bytes() + certificate.read_bytes())
        names = {"PLAINTEXT": plain, "SASL_SSL": sasl, "SSL": tls, "CONTROLLER": controller}
        protocols = "PLAINTEXT:PLAINTEXT,SASL_SSL:SASL_SSL,SSL:SSL,CONTROLLER:PLAINTEXT"
        token = LOGIN.format("oauthbearer.OAuthBearerLoginModule", 'unsecuredLoginStringClaim_sub="broker"')
        config = {
            "listeners": ",".join(f"{name}://{address}" for name, address in names.items()),
            "listener.security.protocol.map": protocols,
            "controller.quorum.voters": f"1@{controller}",
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": store,
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": self.certificates.authority,
            "listener.name.ssl.ssl.client.auth": "required",
            "listener.name.ssl.ssl.principal.mapping.rules": "RULE:^CN=(.*)$/$1/",
            "sasl.enabled.mechanisms": "SCRAM-SHA-512,OAUTHBEARER",
            "listener.name.sasl_ssl.scram-sha-512.sasl.jaas.config": LOGIN.format("scram.ScramLoginModule", ""),
            "listener.name.sasl_ssl.oauthbearer.sasl.jaas.config": token,
            "listener.name.sasl_ssl.connections.max.reauth.ms": int(REAUTH_S * 1000),
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": "User:ANONYMOUS",
        }
        self.broker: LocalBroker = broker_of(data=folder / "kafka", port=ports[0], config=config)

    def start(self) -> None:
        """Start it, with the user "shop", which may do everything that the recipe lists."""
        self.broker.start()
        self.admin = ks.kafka.Admin(self.broker.bootstrap_servers)
        for kind in (ResourceType.TOPIC, ResourceType.GROUP, ResourceType.TRANSACTIONAL_ID):
            allowed = AclOperation.ALL, AclPermissionType.ALLOW
            rule = AclBinding(kind, "shop", ResourcePatternType.PREFIXED, "User:shop", "*", *allowed)
            for future in self.admin.client.create_acls([rule]).values():
                future.result(PATIENCE_S)

    def add_password(self) -> None:
        """Give the user a password."""
        info = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 4096)
        user = UserScramCredentialUpsertion("shop", info, PASSWORD.encode())
        for future in self.admin.client.alter_user_scram_credentials([user]).values():
            future.result(PATIENCE_S)

    def over_sasl(self, mechanism: str, **own: object) -> dict[str, object]:
        """Return the settings of a client that signs in."""
        settings = {"bootstrap.servers": self.sasl, "security.protocol": "SASL_SSL", "sasl.mechanism": mechanism}
        settings["ssl.ca.location"] = str(self.certificates.authority)
        return {**settings, **{name.replace("_", "."): value for name, value in own.items()}}

    def password(self) -> dict[str, object]:
        """Return the settings of a client with a password."""
        return self.over_sasl("SCRAM-SHA-512", sasl_username="shop", sasl_password=PASSWORD)

    def certificate(self) -> dict[str, object]:
        """Return the settings of a client with a certificate, whose key has a passphrase."""
        key, certificate = self.certificates.issue("shop", password="hush")
        return {
            "bootstrap.servers": self.tls,
            "security.protocol": "SSL",
            "ssl.ca.location": str(self.certificates.authority),
            "ssl.certificate.location": str(certificate),
            "ssl.key.location": str(key),
            "ssl.key.password": "hush",
        }

    def token(self, secret: str = "hush") -> dict[str, object]:
        """Return the settings of a client that asks for tokens, by the names of Java's client."""
        login = f'clientId="shop" clientSecret="{secret}" scope="kafka"'
        handler = "org.apache.kafka.common.security.oauthbearer.secured.OAuthBearerLoginCallbackHandler"
        return self.over_sasl(
            "OAUTHBEARER",
            sasl_login_callback_handler_class=handler,
            sasl_oauthbearer_token_endpoint_url=self.tokens.url,
            sasl_jaas_config=LOGIN.format("oauthbearer.OAuthBearerLoginModule", login),
        )

    def unsecured_token(self) -> dict[str, object]:
        """Return the settings of a client that makes its token itself."""
        own = {"enable.sasl.oauthbearer.unsecure.jwt": True, "sasl.oauthbearer.config": "principal=shop scope=kafka"}
        return self.over_sasl("OAUTHBEARER") | own

    def token_of_a_function(self) -> dict[str, object]:
        """Return the settings of a client whose token a function returns, as those for cloud services do."""

        def token(config: str) -> tuple[str, float]:
            return self.tokens.token(), time.time() + self.tokens.seconds  # noqa: TID251 - of a token

        return self.over_sasl("OAUTHBEARER") | {"oauth_cb": token}


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    """A broker with three listeners, and a token endpoint."""
    made = Secured(tmp_path_factory.mktemp("secured"))
    with made.broker, closing(made.tokens):
        made.start()
        yield made


LOGINS = ("password", "certificate", "token", "unsecured_token", "token_of_a_function")


def _settings(secured: Secured, login: str) -> dict[str, object]:
    if login == "password":
        secured.add_password()
    return dict(getattr(secured, login)())


def _granted(call: Callable[[], Any]) -> Any:
    """Wait until the call succeeds: the broker takes a moment to know a new user and its permissions."""
    end = time.monotonic() + PATIENCE_S
    while True:
        try:
            return call()
        except ks.errors.AccessDeniedError:
            if time.monotonic() > end:
                raise


@pytest.mark.parametrize("login", LOGINS)
def test_every_client_signs_in_over_tls(secured: Secured, login: str) -> None:
    """S3-02: administration, producers, captures, transactions, positions and a reset."""
    me, name = _settings(secured, login), f"shop-{login}"
    _granted(lambda: ks.kafka.Admin(me).create_topic(name, exists_ok=True))
    assert 2 == ks.kafka.produce(me, [ks.TopicRecord(name, 0, 0, 5 + n, "k", n) for n in range(2)])
    assert [0, 1] == [record.value for record in ks.Sample.capture(me, name)]
    with closing(TransactionalWriter(me, name, "q1")) as writer:
        assert writer.open() is None
        columns = columns_of([(name, 0, 9, b"k", b"2", ())])
        assert OutputBatch(0, 1) == writer.publish(0, "offsets 0", columns, {name: {0: 2}})
    with closing(TransactionalWriter(me, name, "q1")) as writer:
        assert writer.open() is not None
    assert {name: {0: 2}} == committed_positions(ks.kafka.Admin(me), name)
    assert (f"{name}-commits",) == reset(me, name, force=True).topics


@pytest.mark.parametrize("login", ["password", "token"])
def test_connections_that_last_sign_in_again(secured: Secured, login: str) -> None:
    """The broker ends sessions after some seconds, and tokens expire; a follower and a writer continue."""
    seconds, secured.tokens.seconds = secured.tokens.seconds, 2 * REAUTH_S
    me, name = _settings(secured, login), f"shop-again-{login}"
    try:
        _granted(lambda: ks.kafka.Admin(me).create_topic(name, exists_ok=True))
        follower = TopicFollower(me, {name: {0: 0}}, most=100)
        with closing(follower), closing(TransactionalWriter(me, name, "q1")) as writer:
            writer.open()
            position = {name: {0: 0}}
            for batch in range(5):
                columns = columns_of([(name, 0, batch, b"k", b"%d" % batch, ())])
                assert OutputBatch(batch, 1) == writer.publish(batch, f"offsets {batch}", columns)
                after = follower.wait(position, PATIENCE_S)
                assert after is not None
                assert after != position
                position = after
                time.sleep(REAUTH_S * 0.8)
        assert login == "password" or len(secured.tokens.asked) > 3
    finally:
        secured.tokens.seconds = seconds


@pytest.mark.spark
@pytest.mark.parametrize("login", ["password", "certificate", "token"])
def test_a_deployment_signs_in_over_tls(secured: Secured, bench: Bench, login: str) -> None:
    """Its executors publish, so the workers sign in, too; no secret is in its texts."""
    me, name = _settings(secured, login), f"shop-deployed-{login}"
    above = Bench(bench.spark, secured.broker.bootstrap_servers, bench.folder)
    sent = above.fill(f"{name}-in", 10, 2)
    query = _granted(partial(bench.run, counting(name), bootstrap_servers=me, publish="executors"))
    assert counts(sent) == final(above.read(f"{name}-out"))
    assert 10 == len(above.read(f"{name}-out"))
    assert {f"{name}-in": {0: 5, 1: 5}} == above.group(name)
    shown = f"{query!r} {query.status()}"
    assert not any(secret in shown for secret in ("hush", PASSWORD))


def _refusal(servers: dict[str, object], patience_s: float = 60.0) -> str:
    """Return all texts of the error when topics are listed; they come soon, and without secrets."""
    began = time.monotonic()
    with pytest.raises(ks.errors.EngineError) as caught:
        ks.kafka.Admin(servers, patience_s=patience_s).topics()
    assert time.monotonic() - began < 45
    said = "\n".join([str(caught.value), *caught.value.__notes__])
    assert "guessed" not in said
    return said


def test_a_wrong_password_is_an_error_at_once(secured: Secured) -> None:
    """The broker says so; the hint names the settings."""
    secured.add_password()
    said = _refusal({**secured.password(), "sasl.password": "guessed"})
    assert "Authentication failed" in said
    assert "check user, password" in said


def test_a_broker_of_another_authority_is_an_error_at_once(secured: Secured, tmp_path: Path) -> None:
    """The client does not trust it."""
    other = Certificates(tmp_path, "other")
    said = _refusal({**secured.password(), "ssl.ca.location": str(other.authority)})
    assert "certificate verify failed" in said
    assert "ssl.ca.location" in said


def test_a_certificate_that_the_broker_does_not_accept_is_an_error_at_once(secured: Secured, tmp_path: Path) -> None:
    """One is missing, one has expired, and one is signed by another authority."""
    whole = secured.certificate()
    without = {name: value for name, value in whole.items() if not name.startswith(("ssl.key", "ssl.cert"))}
    refused = [_refusal(without)]
    old, foreign = secured.certificates.issue("old", days=-1), Certificates(tmp_path, "other").issue("shop")
    for key, certificate in (old, foreign):
        named = {"ssl.key.location": str(key), "ssl.certificate.location": str(certificate), "ssl.key.password": ""}
        refused.append(_refusal({**whole, **named}))
    for said in refused:
        assert "ssl.certificate.location" in said, said


def test_a_key_that_cannot_be_read_is_refused_before_anything_is_asked(secured: Secured) -> None:
    """Its passphrase is wrong, or its file is missing."""
    whole = secured.certificate()
    for setting in ({"ssl.key.password": "guessed"}, {"ssl.key.location": "/nowhere.key"}):
        with pytest.raises(ks.errors.ConfigError, match="refuses its settings"):
            ks.kafka.Admin({**whole, **setting})


def test_a_token_endpoint_that_refuses_or_is_away_is_an_error_at_once(secured: Secured) -> None:
    """The reason is that of the endpoint, not of the broker."""
    assert "sasl.oauthbearer" in _refusal(secured.token("guessed"))
    away = {**secured.token(), "sasl.oauthbearer.token.endpoint.url": "http://127.0.0.1:9/token"}
    assert "sasl.oauthbearer" in _refusal(away)


def test_plain_text_at_a_listener_of_tls_names_the_setting(secured: Secured) -> None:
    """Either side closes the connection, without a reason."""
    assert "security.protocol" in _refusal({"bootstrap.servers": secured.tls}, 1.0)
    plain = secured.broker.bootstrap_servers
    assert "security.protocol" in _refusal({**secured.certificate(), "bootstrap.servers": plain}, 1.0)
