"""A fleet of real replicas over a tiny model, which are killed, stopped, started anew and drained while clients ask.

Every request ends in exactly one of an answer and a typed error. An answer is the model's own, to the byte; an error comes
only where bytes had been sent, or nobody could serve.
"""

import http.client
import json
import os
import signal
import subprocess
import threading
import unittest

from tiny_server import DEEP, FAK, PATIENCE_S, Front, Server, eventually
from upstream_faults_test import CHAT, Upstream, head

ASKED = {"prompt": "Once upon a time", "max_tokens": 24, "temperature": 0, "ignore_eos": True}
GONE_S = 40  # a stopped replica is noticed after a probe's interval and its time-out


class Outcome:
    """What one client got: `text` whole, or `error` with its type, and whether bytes of a stream had come before."""

    def __init__(self, address, stream, patience_s=PATIENCE_S):
        self.text, self.error, self.began, self.finishes = "", None, False, 0
        connection = http.client.HTTPConnection(*address, timeout=patience_s)
        try:
            connection.request("POST", "/v1/completions", json.dumps({**ASKED, "stream": stream}))
            answer = connection.getresponse()
            self.route = answer.headers.get("x-fak-route")
            self.request_id = answer.headers.get("x-request-id")
            body = answer.read().decode()
        finally:
            connection.close()
        if not stream or answer.status != 200:
            self._read(json.loads(body))
            return
        self.began = True
        blocks = body.split("\n\n")
        assert blocks[-1] == "", body[-200:]
        for block in blocks[:-1]:
            if block != "data: [DONE]":
                self._read(json.loads(block.removeprefix("data: ")))
        assert (blocks[-2] == "data: [DONE]") == (self.error is None), body[-300:]

    def _read(self, document):
        if "error" in document:
            assert self.error is None
            self.error = document["error"]
            assert self.error["type"], document
            return
        for choice in document["choices"]:
            self.text += choice["text"]
            self.finishes += choice["finish_reason"] is not None


class Fleet(unittest.TestCase):
    def setUp(self):
        self.replicas = {name: self.start_replica() for name in "abc"}
        upstreams = [f"{name}=fak+http://127.0.0.1:{each.port}" for name, each in self.replicas.items()]
        self.front = Front(upstreams, "--routing-policy", "round_robin")
        self.addCleanup(self.front.__exit__)
        self.reference = Outcome(self.front.address, stream=False).text
        self.assertTrue(self.reference)

    def start_replica(self, port=0):
        replica = Server(port=port)
        self.addCleanup(replica.__exit__)
        return replica

    def wait_back(self, name):
        """Asks meanwhile: a breaker that has opened wants an answer."""

        def is_back():
            self.right(Outcome(self.front.address, stream=False))
            return self.front.replica(name)["state"] == "healthy"

        eventually(is_back, f"{name} is back", GONE_S)

    def right(self, outcome):
        self.assertIsNone(outcome.error)
        self.assertEqual((outcome.text, outcome.finishes), (self.reference, 1))

    def load(self, clients, requests):
        """Clients that ask at once, each in turn; their outcomes when they have ended."""
        outcomes, broken = [], []

        def client(number):
            for i in range(requests):
                try:
                    outcomes.append(Outcome(self.front.address, stream=(number + i) % 2 == 0))
                except Exception as error:  # neither an answer nor a typed error
                    broken.append(repr(error))

        threads = [threading.Thread(target=client, args=(number,)) for number in range(clients)]
        for thread in threads:
            thread.start()

        def end():
            for thread in threads:
                thread.join()
            self.assertEqual(broken, [])
            self.assertEqual(len(outcomes), clients * requests)
            for outcome in outcomes:
                if outcome.error is None:
                    self.right(outcome)
                else:
                    self.assertTrue(outcome.began, outcome.error)
                    self.assertTrue(self.reference.startswith(outcome.text))
            self.front.wait_quiet()
            return outcomes

        return end

    def test_killed_and_started_anew_under_load(self):
        end = self.load(clients=6, requests=200 if DEEP else 40)
        for name in "abc":
            port = self.replicas[name].port
            self.replicas[name].kill()
            eventually(lambda: self.front.replica(name)["state"] != "healthy", f"{name} is missed")
            self.replicas[name] = self.start_replica(port)
            self.wait_back(name)
        end()

    def test_half_the_fleet_restarts(self):
        self.replicas["d"] = self.start_replica()
        entry = {"name": "d", "engine": "fak", "url": f"http://127.0.0.1:{self.replicas['d'].port}"}
        self.assertEqual(self.front.ask("POST", "/v1/fak/fleet/add", entry)[0], 200)
        eventually(lambda: self.front.replica("d")["state"] == "healthy", "d has joined")
        end = self.load(clients=6, requests=40)
        half = {name: self.replicas[name].port for name in "ab"}
        for name in half:
            self.replicas[name].kill()
        for name in half:
            eventually(lambda: self.front.replica(name)["state"] != "healthy", f"{name} is missed")
        self.assertFalse(self.front.fleet().get("panic", False))
        for name, port in half.items():
            self.replicas[name] = self.start_replica(port)
        for name in half:
            self.wait_back(name)
        outcomes = end()
        # Whoever had nothing yet has an answer.
        self.assertTrue(all(outcome.error is None or outcome.began for outcome in outcomes))

    def test_stopped_under_load(self):
        stopped = self.replicas["a"].process
        os.kill(stopped.pid, signal.SIGSTOP)
        os.waitid(os.P_PID, stopped.pid, os.WSTOPPED)  # until then its threads run on
        end = self.load(clients=6, requests=10)
        try:
            outcomes = end()
        finally:
            os.kill(stopped.pid, signal.SIGCONT)
        # Nothing had come of those that were sent there, so all have answers.
        self.assertTrue(all(outcome.error is None for outcome in outcomes))
        self.wait_back("a")

    def test_drained_under_load(self):
        end = self.load(clients=4, requests=20)
        said = subprocess.run(
            [FAK, "fleet", "drain", "a", "--wait", "--url", f"http://127.0.0.1:{self.front.port}"],
            capture_output=True, text=True, timeout=PATIENCE_S, check=True).stdout
        self.assertEqual(said, "a: draining, 0 requests open\n")
        before = self.front.replica("a")["attempts"]
        outcomes = end()
        self.assertTrue(all(outcome.error is None for outcome in outcomes))
        self.assertEqual(self.front.replica("a")["attempts"], before)
        subprocess.run([FAK, "fleet", "undrain", "a", "--url", f"http://127.0.0.1:{self.front.port}"],
                       capture_output=True, timeout=PATIENCE_S, check=True)
        self.assertEqual(self.front.replica("a")["state"], "healthy")
        self.assertEqual(self.front.ask("POST", "/v1/fak/fleet/drain", {"name": "nobody"})[0], 404)

    def test_status(self):
        for _ in range(3):
            self.right(Outcome(self.front.address, stream=True))
        table = subprocess.run([FAK, "fleet", "status", "--url", f"http://127.0.0.1:{self.front.port}"],
                               capture_output=True, text=True, timeout=PATIENCE_S, check=True).stdout
        lines = table.splitlines()
        self.assertTrue(lines[0].startswith("REPLICA  STATE"), table)
        self.assertEqual([line.split()[:2] for line in lines[1:4]], [[name, "healthy"] for name in "abc"])
        self.assertEqual(lines[4], "policy round_robin")
        shown = subprocess.run(
            [FAK, "fleet", "status", "--json", "--url", f"http://127.0.0.1:{self.front.port}"],
            capture_output=True, text=True, timeout=PATIENCE_S, check=True).stdout
        self.assertEqual([each["models"] for each in json.loads(shown)["replicas"]], [["tiny"]] * 3)

    def test_tells_the_route_to_admins_and_to_the_log(self):
        outcome = Outcome(self.front.address, stream=False)
        name = outcome.route.split(";")[0]
        self.assertIn(name, "abc")
        [record] = eventually(lambda: [each for each in self.front.access() if each["request_id"] == outcome.request_id],
                              "the log has it")
        self.assertEqual(record["upstream"], name)
        self.assertIn("next in turn", record["route"])


class Faults(unittest.TestCase):
    """One replica that is well, and a scripted one beside it."""

    def setUp(self):
        self.well = Server()
        self.addCleanup(self.well.__exit__)
        self.bad = Upstream()
        self.addCleanup(self.bad.listener.close)
        self.bad.model = "tiny"  # as the other one

    def front(self):
        front = Front([f"bad=openai+{self.bad.url}", f"well=fak+http://127.0.0.1:{self.well.port}"],
                      "--routing-policy", "round_robin")
        self.addCleanup(front.__exit__)
        return front

    def chat(self, front):
        chat = {"model": "tiny", "messages": [{"role": "user", "content": "hi"}], "max_tokens": 4}
        return front.ask("POST", CHAT, chat)

    def answers(self, status, *fields):
        body = b'{"error":{"message":"no","type":"t"}}'

        def script(connection, _):
            connection.sendall(head(f"content-length: {len(body)}", *fields, status=status,
                                    kind="application/json") + body)

        self.bad.script = script

    def test_only_500s(self):
        self.answers("500 Internal Server Error")
        front = self.front()

        def its_breaker_opens():
            self.assertEqual(self.chat(front)[0], 200)
            return front.replica("bad")["breaker"] == "open"

        eventually(its_breaker_opens, "its breaker opens")
        bad = front.replica("bad")
        self.assertEqual((bad["state"], bad["failures"]), ("down", 5))
        self.assertIn("500", bad["why"])

    def test_a_full_one(self):
        self.answers("429 Too Many Requests", "retry-after: 30")
        front = self.front()
        for _ in range(10):
            self.assertEqual(self.chat(front)[0], 200)
        bad = front.replica("bad")
        self.assertEqual((bad["breaker"], bad["attempts"], bad["failures"]), ("closed", 1, 0))

    def test_a_refusal_that_would_repeat(self):
        self.answers("400 Bad Request")
        front = self.front()
        seen = sorted(self.chat(front)[0] for _ in range(10))
        self.assertEqual(seen, [200] * 5 + [400] * 5)
        self.assertEqual(front.replica("bad")["state"], "healthy")

    def test_another_model_than_it_lists(self):
        self.answers("404 Not Found")
        front = self.front()
        for _ in range(6):
            self.assertEqual(self.chat(front)[0], 200)


if __name__ == "__main__":
    unittest.main()
