"""An engine that is paused: its health check says 200, its list of models too, and no request gets an answer."""

import json
import threading
import unittest
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from tiny_server import Front, eventually

PROBE = b'{"model":"m","prompt":"1","max_tokens":1}'


class Engine:
    """A vLLM, as far as fak looks; what it was asked to generate is in `asked`."""

    def __init__(self):
        self.asked = []
        self.runs = threading.Event()
        self.runs.set()
        engine = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_):
                pass

            def answer(self, status, document):
                body = json.dumps(document).encode()
                self.send_response(status)
                self.send_header("content-length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def do_GET(self):
                known = self.path in ("/health", "/v1/models")
                self.answer(200 if known else 404, {"data": [{"id": "m", "owned_by": "vllm"}]})

            def do_POST(self):
                body = self.rfile.read(int(self.headers["content-length"]))
                if not self.path.endswith("completions"):
                    self.answer(404, {})
                    return
                engine.asked.append(body)
                engine.runs.wait()
                choice = {"index": 0, "text": "x", "message": {"content": "x"}, "finish_reason": "length"}
                try:
                    self.answer(200, {"choices": [choice], "usage": {"prompt_tokens": 1, "completion_tokens": 1}})
                except OSError:
                    pass  # nobody waits for it any more

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.server.block_on_close = False
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        self.url = f"vllm+http://127.0.0.1:{self.server.server_port}"

    def close(self):
        self.runs.set()
        self.server.shutdown()
        self.server.server_close()


class Paused(unittest.TestCase):
    def setUp(self):
        self.a, self.b = Engine(), Engine()
        self.addCleanup(self.a.close)
        self.addCleanup(self.b.close)
        self.front = Front(
            [f"a={self.a.url}", f"b={self.b.url}"],
            *("--routing-policy", "round_robin", "--metrics-scrape-interval", "0"),
            *("--generation-probe-interval", "1", "--generation-probe-timeout", "1"),
        )
        self.addCleanup(self.front.__exit__)

    def ask(self):
        return self.front.complete(model="m", max_tokens=1)["choices"][0]["text"]

    def rows(self, name, worker):
        text = self.front.ask("GET", "/metrics")[2].decode()
        lines = [line for line in text.splitlines() if line.startswith(name) and f'worker="{worker}"' in line]
        return sum(float(line.rpartition(" ")[2]) for line in lines)

    def test_a_paused_engine_whose_health_says_200(self):
        eventually(lambda: PROBE in self.a.asked and PROBE in self.b.asked, "both were asked for a token")
        self.a.runs.clear()
        # A client that has bad luck: it waits there before anybody knows.
        waited = []
        threads = [threading.Thread(target=lambda: waited.append(self.ask())) for _ in range(2)]
        for thread in threads:
            thread.start()
        why = eventually(
            lambda: (each := self.front.replica("a"))["state"] in ("suspect", "down") and each["why"], "a is out"
        )
        self.assertIn("one token", why)
        eventually(lambda: self.front.replica("a")["state"] == "down", "its breaker is open")
        for thread in threads:
            thread.join(30)
        self.assertEqual(waited, ["x", "x"])
        for _ in range(4):
            self.assertEqual(self.ask(), "x")
        self.assertEqual(self.front.replica("b")["state"], "healthy")
        self.a.runs.set()
        eventually(lambda: self.front.replica("a")["state"] == "healthy", "a is back, asked by us alone")
        self.assertEqual(self.front.replica("a")["breaker"], "closed")
        self.assertGreaterEqual(self.rows("fak_serving_generation_probes_failed_total", "a"), 5)
        self.assertEqual(self.rows("fak_serving_generation_probes_failed_total", "b"), 0)
        self.assertGreater(self.rows("fak_serving_generation_probes_total", "b"), 0)
        # Six requests and no more, wherever each went.
        self.assertEqual(self.rows("fak_serving_requests_total", "b"), 6)
        self.front.wait_quiet()

    def test_one_that_answers_clients_is_not_asked(self):
        eventually(lambda: PROBE in self.a.asked and PROBE in self.b.asked, "both were asked for a token")
        stop = threading.Event()

        def client():
            while not stop.wait(0.05):
                self.ask()

        thread = threading.Thread(target=client)
        thread.start()
        before = len(self.a.asked)
        eventually(lambda: len(self.a.asked) > before + 20, "clients ask")
        stop.set()
        thread.join()
        self.assertNotIn(PROBE, self.a.asked[before + 1 :])


if __name__ == "__main__":
    unittest.main()
