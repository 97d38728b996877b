"""Replicas that come and go while clients ask: by `fak fleet add` and `remove`."""

import contextlib
import http.client
import json
import os
import signal
import socket
import subprocess
import tempfile
import threading
import time
import unittest

import fleet_test
from fleet_test import Outcome
from tiny_server import FAK, PATIENCE_S, Front, Server, eventually


class FleetCase(unittest.TestCase):
    """Two replicas, a and b, and one in front of them; without tests."""

    def setUp(self):
        self.replicas = {name: self.start_replica() for name in "ab"}
        self.front = self.start_front()
        self.learn_reference()

    def start_replica(self):
        replica = Server()
        self.addCleanup(replica.__exit__)
        return replica

    def start_front(self):
        front = Front([self.upstream(name) for name in "ab"], "--routing-policy", "round_robin")
        self.addCleanup(front.__exit__)
        return front

    def upstream(self, name):
        return f"{name}=fak+http://127.0.0.1:{self.replicas[name].port}"

    def fleet_verb(self, *words, status=0):
        """What it says: on stdout, or stderr where it fails."""
        ran = subprocess.run([FAK, "fleet", *words, "--url", f"http://127.0.0.1:{self.front.port}"],
                             capture_output=True, text=True, timeout=PATIENCE_S, check=False)
        self.assertEqual(ran.returncode, status, ran.stderr)
        return ran.stderr if status else ran.stdout

    @contextlib.contextmanager
    def asked_all_the_time(self):
        """By four clients, two of them streaming; every answer is the reference."""
        broken = []
        stop = threading.Event()

        def client(stream):
            while not stop.is_set():
                outcome = Outcome(self.front.address, stream=stream)
                if (outcome.error, outcome.text, outcome.finishes) != (None, self.reference, 1):
                    broken.append(vars(outcome))

        clients = [threading.Thread(target=client, args=(i % 2 == 0,)) for i in range(4)]
        for each in clients:
            each.start()
        try:
            yield
        finally:
            stop.set()
            for each in clients:
                each.join()
        self.assertEqual(broken, [])

    def file(self, text):
        """Its path; it goes with the test."""
        handle, path = tempfile.mkstemp()
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
        self.addCleanup(os.remove, path)
        return path

    def write(self, text):
        """As the fleet file, in one step."""
        with open(self.path + ".new", "w", encoding="utf-8") as file:
            file.write(text)
        os.rename(self.path + ".new", self.path)

    def hang_up(self):
        os.kill(self.front.process.pid, signal.SIGHUP)

    def wait_names(self, names):
        eventually(lambda: self.names() == names, f"the fleet is {names}")

    def learn_reference(self):
        self.reference = Outcome(self.front.address, stream=False).text
        self.assertTrue(self.reference)

    def names(self):
        return [each["name"] for each in self.front.fleet()["replicas"]]

    def route(self):
        outcome = Outcome(self.front.address, stream=False)
        self.assertEqual((outcome.error, outcome.text), (None, self.reference))
        return outcome.route.split(";")[0]

    def routes(self):
        return {self.route() for _ in range(2 * len(self.names()))}

    def wait_healthy(self, name):
        eventually(lambda: self.front.replica(name)["state"] == "healthy", f"{name} is healthy")

    def open_stream(self, at):
        """An answer from that replica, of which the first bytes are there."""
        while True:
            connection = http.client.HTTPConnection(*self.front.address, timeout=PATIENCE_S)
            self.addCleanup(connection.close)
            connection.request("POST", "/v1/completions",
                               json.dumps({**fleet_test.ASKED, "max_tokens": 1500, "stream": True}))
            answer = connection.getresponse()
            self.assertEqual(answer.status, 200)
            self.assertTrue(answer.read1(1))
            if answer.headers["x-fak-route"].split(";")[0] == at:
                return answer
            connection.close()


class Changes(FleetCase):
    def test_added_and_removed(self):
        self.replicas["c"] = self.start_replica()
        self.assertRegex(self.fleet_verb("add", self.upstream("c"), "--weight", "1"), "^c: (joining|suspect|healthy)\n$")
        self.wait_healthy("c")
        self.assertEqual(self.routes(), {"a", "b", "c"})
        self.assertIn("another replica is called c already", self.fleet_verb("add", self.upstream("c"), status=1))
        self.assertIn("no engine", self.fleet_verb("add", "d=what+http://127.0.0.1:1", status=1))
        for host in ("127.0.0.1", "127.1", "0.0.0.0", "localhost", "[::ffff:127.0.0.1]"):
            said = self.fleet_verb("add", f"d=http://{host}:{self.front.port}", status=1)
            self.assertIn("where this server itself listens", said)
        self.assertEqual(self.fleet_verb("remove", "a", "--wait"), "a: gone\n")
        self.assertEqual(self.names(), ["b", "c"])
        self.assertEqual(self.routes(), {"b", "c"})
        self.assertIn("no upstream has the name a", self.fleet_verb("remove", "a", status=1))
        # The same name for another one.
        self.fleet_verb("add", f"a=fak+http://127.0.0.1:{self.replicas['a'].port}")
        self.wait_healthy("a")
        self.assertEqual(self.routes(), {"a", "b", "c"})

    def test_a_stream_outlasts_the_removal_of_its_replica(self):
        stream = self.open_stream("a")
        self.assertEqual(self.fleet_verb("remove", "a"), "a: leaves, 1 requests open\n")
        row = next(each for each in self.front.fleet()["replicas"] if each["name"] == "a")
        self.assertEqual((row["state"], row["leaving"], row["in_flight"]), ("draining", True, 1))
        self.assertEqual(self.routes(), {"b"})
        body = stream.read().decode()
        self.assertTrue(body.endswith("data: [DONE]\n\n"), body[-200:])
        self.assertNotIn('"error"', body)
        eventually(lambda: self.names() == ["b"], "a is forgotten")
        self.front.wait_quiet()

    def test_all_removed_and_one_added(self):
        for name in "ab":
            self.fleet_verb("remove", name, "--wait")
        self.assertEqual(self.names(), [])
        status, headers, body = self.front.ask("POST", "/v1/completions", fleet_test.ASKED)
        self.assertEqual((status, json.loads(body)["error"]["message"]), (503, "there is no upstream at present"))
        self.assertEqual(headers["retry-after"], "1")
        self.assertEqual(self.front.ask("GET", "/ready")[0], 503)
        self.fleet_verb("add", self.upstream("b"))
        self.wait_healthy("b")
        self.assertEqual(self.routes(), {"b"})

    def test_changed_all_the_time_under_load(self):
        with self.asked_all_the_time():
            for _ in range(10):
                self.fleet_verb("remove", "a", "--wait")
                self.fleet_verb("add", self.upstream("a"))
                self.wait_healthy("a")
        self.front.wait_quiet()
        self.assertEqual(sorted(self.names()), ["a", "b"])

    def test_explained_before_it_is_sent(self):
        self.fleet_verb("drain", "a")
        path = self.file(json.dumps({"model": "tiny", "prompt": "Once upon a time"}))
        before = self.front.fleet()
        table = self.fleet_verb("explain", path)
        self.assertRegex(table, r"^  REPLICA +STATE +COST")
        self.assertRegex(table, r"(?m)^  a +draining +- .* draining$")
        self.assertRegex(table, r"(?m)^\* b +healthy +0 +0 +0 +0 +1$")
        self.assertRegex(table, r"(?m)^policy round_robin, model tiny, prompt of \d+ tokens$")
        said = json.loads(self.fleet_verb("explain", path, "--json"))
        self.assertEqual((said["chosen"], [each["name"] for each in said["replicas"]]), ("b", ["a", "b"]))
        after = self.front.fleet()
        self.assertEqual([each["attempts"] for each in after["replicas"]],
                         [each["attempts"] for each in before["replicas"]])
        self.assertEqual(self.route(), "b")

    def test_a_start_waits_for_all_that_are_silent_together(self):
        def seconds(count):
            listeners = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
            began = time.monotonic()
            front = Front([self.upstream("a")] + [
                f"s{i}=openai+http://127.0.0.1:{each.getsockname()[1]}" for i, each in enumerate(listeners)])
            took = time.monotonic() - began
            front.__exit__()
            for each in listeners:
                each.close()
            return took

        self.assertLess(seconds(6), 3 * seconds(1))

    def test_the_rows_of_one_that_left_are_gone(self):
        self.assertEqual(self.routes(), {"a", "b"})
        rows = self.front.ask("GET", "/metrics")[2].decode()
        self.assertIn('worker="a"', rows)
        self.fleet_verb("remove", "a", "--wait")
        rows = self.front.ask("GET", "/metrics")[2].decode()
        self.assertNotIn('worker="a"', rows)
        self.assertIn('worker="b"', rows)
        self.fleet_verb("add", self.upstream("a"))
        self.wait_healthy("a")
        self.assertEqual(self.routes(), {"a", "b"})
        rows = self.front.ask("GET", "/metrics")[2].decode()
        self.assertRegex(rows, r'fak_serving_requests_total\{[^}]*outcome="ok",[^}]*worker="a"\} 2\n')


if __name__ == "__main__":
    unittest.main()
