"""What the system has too little of, or takes away: descriptors, a port, the model's file."""

import contextlib
import http.client
import json
import os
import resource
import shutil
import subprocess
import time
import unittest

from tiny_server import FAK, FOLDER, PATIENCE_S, Front, Server, completion, eventually, model_path, read_through
from upstream_faults_test import CHAT, WHOLE, Upstream, head

FILES = 40


def open_files(server):
    return len(os.listdir(f"/proc/{server.process.pid}/fd"))


def set_limit(server, files):
    """Of a running server; what it has open stays so."""
    resource.prlimit(server.process.pid, resource.RLIMIT_NOFILE, (files, FILES))


def ask(connection, path, body=None):
    connection.request("POST" if body else "GET", path, body)
    answer = connection.getresponse()
    return answer.status, answer.read()


def chat(connection):
    return ask(connection, CHAT, json.dumps({"model": "m", "messages": [{"role": "user", "content": "hi"}]}))


def is_taken(server):
    with contextlib.suppress(OSError, http.client.HTTPException):
        return server.ask("GET", "/health")[0] == 200
    return False


class Resources(unittest.TestCase):
    def upstream(self):
        """Closes each connection after its answer, so that each request and each probe needs another one."""
        upstream = Upstream()
        answer = head(f"content-length: {len(WHOLE)}", kind="application/json") + WHOLE
        upstream.script = lambda connection, _: connection.sendall(answer)
        self.addCleanup(upstream.listener.close)
        return upstream

    def test_accepting_recovers_from_a_lack_of_descriptors(self):
        with Server(files_max=FILES) as server:
            streaming = server.connect()
            streaming.sendall(completion(stream=True, max_tokens=2000))
            read_through(streaming, b"data: ")
            set_limit(server, open_files(server))
            others = [server.connect() for _ in range(100)]  # the kernel takes them
            read_through(streaming, b"data: [DONE]")
            before = server.cpu_seconds()
            time.sleep(1)
            self.assertLess(server.cpu_seconds() - before, 0.2, "it spins")
            set_limit(server, FILES)
            for client in [*others, streaming]:
                client.close()
            self.assertEqual(server.complete()["object"], "text_completion")
            server.wait_idle()
            self.assertEqual(server.end(), 0)

    def test_idle_clients_leave_descriptors_for_upstreams(self):
        upstream = self.upstream()
        with Front([f"a={upstream.url}"], files_max=FILES) as server:
            kept = http.client.HTTPConnection(*server.address, timeout=PATIENCE_S)
            self.addCleanup(kept.close)
            self.assertEqual(ask(kept, "/v1/fak/fleet")[0], 200)
            idle = [server.connect() for _ in range(60)]
            eventually(lambda: any("descriptors are open" in line for line in server.log), "it says so")
            time.sleep(0.5)
            self.assertLessEqual(open_files(server), 25)
            time.sleep(6)  # what it had kept of connections to the upstream is closed, and it was probed
            status, body = chat(kept)
            self.assertEqual(status, 200, body)
            for client in idle:
                client.close()
            eventually(lambda: is_taken(server), "it takes others again")
            self.assertEqual(server.replica("a")["state"], "healthy")

    def test_no_descriptor_of_ours_is_no_failure_of_the_upstream(self):
        upstream = self.upstream()
        with Front([f"a={upstream.url}"], files_max=FILES) as server:
            kept = http.client.HTTPConnection(*server.address, timeout=PATIENCE_S)
            self.addCleanup(kept.close)
            self.assertEqual(chat(kept)[0], 200)
            set_limit(server, 4)
            time.sleep(11)  # two probes
            for _ in range(10):
                status, body = chat(kept)
                self.assertEqual(status, 503, body)
                self.assertIn(b"can't connect: Too many open files", body)
            replica = json.loads(ask(kept, "/v1/fak/fleet")[1])["replicas"][0]
            self.assertEqual((replica["state"], replica["failures"]), ("healthy", 0), replica)
            set_limit(server, FILES)
            self.assertEqual(chat(kept)[0], 200)

    def test_a_port_that_is_taken(self):
        with Server() as server:
            second = subprocess.run(
                [FAK, "serve", model_path(), "--port", str(server.port)],
                capture_output=True,
                text=True,
                timeout=60,
                check=False,
            )
            self.assertEqual(second.returncode, 1)
            self.assertIn(f"127.0.0.1:{server.port}: Address already in use", second.stderr)

    def test_a_model_file_cut_short_under_a_server(self):
        path = os.path.join(FOLDER, f"cut.{os.getpid()}.gguf")
        shutil.copy(model_path(), path)
        self.addCleanup(os.remove, path)
        fields = {"max_tokens": 32, "temperature": 0, "ignore_eos": True}
        with Server(model=path) as server:
            whole = server.complete(**fields)["choices"]
            os.truncate(path, 1000)
            self.assertEqual(server.complete(**fields)["choices"], whole)
            self.assertEqual(server.complete(prompt="never seen", **fields)["usage"]["completion_tokens"], 32)
        again = subprocess.run(
            [FAK, "serve", path, "--port", "0"], capture_output=True, text=True, timeout=60, check=False
        )
        self.assertEqual(again.returncode, 1)
        self.assertIn(path, again.stderr)

    def test_a_request_timeout(self):
        with Server("--request-timeout", "0.3", "--max-num-seqs", "1") as server:
            long = server.connect()
            long.sendall(completion(stream=True, max_tokens=2000, n=64))
            read_through(long, b"data: ")
            waits = {"prompt": "waits", "max_tokens": 2000, "n": 64, "ignore_eos": True}
            status, _, body = server.ask("POST", "/v1/completions", waits)
            self.assertEqual(status, 504, body)
            self.assertIn(b"300 ms", body)
            self.assertIn(b'"code":"deadline_exceeded"', read_through(long, b"\r\n0\r\n\r\n"))
            server.wait_idle()
            self.assertEqual(server.complete(max_tokens=2)["usage"]["completion_tokens"], 2)


if __name__ == "__main__":
    unittest.main()
