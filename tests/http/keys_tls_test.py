"""Keys of two tenants over TLS: who may ask what, whose cache is whose, and what is never written down."""

import hashlib
import http.client
import json
import os
import ssl
import subprocess
import unittest

from tiny_server import FOLDER, PATIENCE_S, Server, eventually

ALICE, BOB = "alice-secret-1", "bob-secret-2"
OPEN = ("/health", "/ready", "/version")
PROMPT = "A prefix that is longer than a few blocks of sixteen positions each is."


def made_with_openssl():
    os.makedirs(FOLDER, exist_ok=True)
    certificate, key = (os.path.join(FOLDER, f"{name}.{os.getpid()}.pem") for name in ("cert", "key"))
    command = "openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=localhost".split()
    command += ["-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"]
    subprocess.run([*command, "-keyout", key, "-out", certificate], check=True, capture_output=True)
    return certificate, key


def keys_file():
    path = os.path.join(FOLDER, f"keys.{os.getpid()}.toml")
    with open(path, "w", encoding="utf-8") as file:
        for name, key, admin in (("alice", ALICE, "true"), ("bob", BOB, "false")):
            digest = hashlib.sha256(key.encode()).hexdigest()
            file.write(f'[[key]]\nname = "{name}"\nhash = "sha256:{digest}"\nadmin = {admin}\n')
    return path


class TlsServer(Server):
    def __init__(self):
        self.certificate, key = made_with_openssl()
        flags = ("--ssl-certfile", self.certificate, "--ssl-keyfile", key)
        super().__init__(*flags, "--keys-file", keys_file())

    def ask(self, method, path, body=None, headers=None):
        context = ssl.create_default_context(cafile=self.certificate)
        connection = http.client.HTTPSConnection(
            "127.0.0.1", self.port, timeout=PATIENCE_S, context=context
        )
        try:
            connection.request(method, path, body and json.dumps(body), headers or {})
            response = connection.getresponse()
            return response.status, response.headers, response.read()
        finally:
            connection.close()


class KeysAndTls(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = TlsServer()
        cls.addClassCleanup(cls.server.__exit__)

    def status(self, path, key=None, body=None):
        headers = {"authorization": f"Bearer {key}"} if key else {}
        return self.server.ask("POST" if body else "GET", path, body, headers)[0]

    def cached(self, key):
        body = {"prompt": PROMPT, "max_tokens": 1}
        status, _, answer = self.server.ask("POST", "/v1/completions", body, {"x-api-key": key})
        self.assertEqual(status, 200, answer)
        return json.loads(answer)["usage"]["prompt_tokens_details"]["cached_tokens"]

    def test_plain_http_gets_no_answer(self):
        client = self.server.connect()
        client.sendall(b"GET /health HTTP/1.1\r\nHost: h\r\n\r\n")
        try:
            self.assertNotIn(b"200", client.recv(4096))
        except ConnectionResetError:
            pass

    def test_who_may_ask_what(self):
        for path in OPEN:
            self.assertEqual(self.status(path), 200, path)
        for path in ("/v1/models", "/metrics", "/openapi.json", "/v1/fak/load"):
            self.assertEqual(self.status(path), 401, path)
            self.assertEqual(self.status(path, "wrong"), 401, path)
            self.assertEqual(self.status(path, ALICE), 200, path)
        self.assertEqual(self.status("/v1/models", BOB), 200)
        self.assertEqual(self.status("/v1/fak/load", BOB), 403)
        evict = {"scope": "all"}
        self.assertEqual(self.status("/v1/fak/cache/evict", BOB, evict), 403)
        self.assertEqual(self.status("/v1/fak/cache/evict", None, evict), 401)

    def test_no_tenant_hits_what_another_computed(self):
        self.cached(ALICE)
        self.assertGreater(self.cached(ALICE), 16)
        self.assertEqual(self.cached(BOB), 0)
        self.assertGreater(self.cached(BOB), 16)

    def test_the_log_names_tenants_and_no_key(self):
        self.cached(BOB)
        eventually(lambda: any(r.get("tenant") == "bob" for r in self.server.access()), "bob's line")
        self.assertNotRegex("\n".join(self.server.log), "secret")


if __name__ == "__main__":
    unittest.main()
