"""Replicas that tell a real etcd of themselves, each by a key under a lease."""

import base64
import json
import shutil
import socket
import subprocess
import tempfile
import threading
import unittest
import urllib.request
from pathlib import Path

import fleet_changes_test
import fleet_reload_test
from tiny_server import PATIENCE_S, Server, eventually

ETCD = shutil.which("etcd") or shutil.which(str(Path(__file__).resolve().parents[2] / ".cache/etcd"))
PREFIX = "/fak/replicas/"


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


class Etcd:
    def __init__(self):
        self.folder = tempfile.mkdtemp()
        self.url, self._peer = (f"http://127.0.0.1:{free_port()}" for _ in range(2))
        self.start()

    def start(self):
        self.process = subprocess.Popen(
            [ETCD, "--data-dir", self.folder, "--listen-client-urls", self.url, "--advertise-client-urls", self.url,
             "--listen-peer-urls", self._peer, "--initial-advertise-peer-urls", self._peer,
             "--initial-cluster", f"default={self._peer}"],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        eventually(self._answers, "etcd answers")

    def _answers(self):
        try:
            return self.call("/v3/kv/range", key="AA==") is not None
        except OSError:
            return False

    def kill(self):
        self.process.kill()
        self.process.wait()

    def close(self):
        self.kill()
        shutil.rmtree(self.folder)

    def call(self, path, **body):
        request = urllib.request.Request(self.url + path, json.dumps(body).encode())
        with urllib.request.urlopen(request, timeout=PATIENCE_S) as answer:
            return json.load(answer)

    def lease(self, ttl_s):
        return self.call("/v3/lease/grant", TTL=ttl_s)["ID"]

    def put(self, name, entry, lease="0"):
        value = entry if isinstance(entry, str) else json.dumps(entry)
        self.call("/v3/kv/put", key=encoded(PREFIX + name), value=encoded(value), lease=lease)

    def delete(self, name):
        self.call("/v3/kv/deleterange", key=encoded(PREFIX + name))


def encoded(text):
    return base64.b64encode(text.encode()).decode()


@unittest.skipIf(ETCD is None, "there is no etcd here; tools/install-deps --tools puts it into .cache")
class EtcdTest(fleet_changes_test.FleetCase):
    def setUp(self):
        self.etcd = Etcd()
        self.addCleanup(self.etcd.close)
        self.replicas = {name: self.start_replica() for name in "ab"}
        self.path = self.file(f'[[discover]]\netcd = "{self.etcd.url}"\n')
        self.front = fleet_reload_test.FileFront(self.path, "--routing-policy", "round_robin", ready=False)
        self.addCleanup(self.front.__exit__)

    def entry(self, name, **more):
        return {"engine": "fak", "url": f"http://127.0.0.1:{self.replicas[name].port}", **more}

    def source(self):
        return next(each for each in self.front.fleet()["sources"] if each["name"].startswith("etcd"))

    def state(self, name):
        return self.front.replica(name)["state"]

    def put_both(self):
        for name in "ab":
            self.etcd.put(name, self.entry(name))
        self.wait_names(["a", "b"])
        for name in "ab":
            self.wait_healthy(name)
        self.learn_reference()

    def test_keys_come_change_and_go(self):
        self.put_both()
        self.assertEqual(self.routes(), {"a", "b"})
        self.etcd.put("a", self.entry("a", weight=5))
        eventually(lambda: self.front.replica("a")["weight"] == 5, "its weight has changed")
        self.assertGreater(self.front.replica("a")["attempts"], 0)  # it is still the same one
        self.etcd.put("c", "no JSON")
        self.etcd.put("d", {"engine": "fak"})
        self.etcd.put("e", self.entry("b"))
        self.wait_names(["a", "b", "e"])
        stream = self.open_stream("e")
        self.etcd.delete("e")
        eventually(lambda: self.front.replica("e").get("leaving"), "e leaves")
        self.assertTrue(stream.read().decode().endswith("data: [DONE]\n\n"))
        self.wait_names(["a", "b"])

    def test_one_whose_lease_is_lost_is_suspect_until_it_is_back(self):
        self.put_both()
        lease = self.etcd.lease(2)
        self.etcd.put("a", self.entry("a"), lease)
        stop = threading.Event()

        def keep():
            while not stop.wait(0.5):
                self.etcd.call("/v3/lease/keepalive", ID=lease)

        keeper = threading.Thread(target=keep)
        keeper.start()
        try:
            updates = self.source()["updates"]
            self.etcd.put("b", self.entry("b", weight=2))
            eventually(lambda: self.source()["updates"] > updates, "etcd was heard of")
            self.assertEqual(self.state("a"), "healthy")
        finally:
            stop.set()
            keeper.join()
        eventually(lambda: self.state("a") == "suspect", "a is suspect")
        self.assertEqual(self.front.replica("a")["why"], "its lease in etcd is lost")
        self.assertEqual(self.routes(), {"b"})
        self.etcd.put("a", self.entry("a"), self.etcd.lease(60))
        self.wait_healthy("a")
        self.assertEqual(self.routes(), {"a", "b"})

    def test_the_last_known_stay_while_etcd_is_away(self):
        self.put_both()
        self.etcd.kill()
        eventually(lambda: self.source().get("error"), "it is said")
        self.assertEqual(self.names(), ["a", "b"])
        self.assertEqual(self.routes(), {"a", "b"})
        self.etcd.start()
        self.etcd.delete("a")
        self.wait_names(["b"])
        eventually(lambda: "error" not in self.source(), "it is well again")
        self.etcd.put("a", self.entry("a"))
        self.wait_names(["b", "a"])


if __name__ == "__main__":
    unittest.main()
