"""What the tests of the program share: running it in a folder of its own, a tiny model, a terminal, and
a server that stands in for others. Each test file is called with the paths of fak and fak-tiny-model."""
import hashlib
import http.server
import json
import os
import pty
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import termios
import threading
import time
import unittest
from pathlib import Path

FAK, TINY_MODEL = sys.argv[1:3]
PATIENCE_S = 60


class CliTest(unittest.TestCase):
    """Every test has an empty home, cache and working folder, and an environment without FAK_*."""

    @classmethod
    def setUpClass(cls):
        cls.models = Path(tempfile.mkdtemp(prefix="fak_cli_models_"))
        cls.model = cls.models / "tiny.gguf"
        subprocess.run([TINY_MODEL, "llama", "Q8_0", str(cls.model)], check=True,
                       stdout=subprocess.DEVNULL)

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.models)

    def setUp(self):
        self.folder = Path(tempfile.mkdtemp(prefix="fak_cli_"))
        self.cache = self.folder / "cache"
        self.env = {name: value for name, value in os.environ.items()
                    if not name.startswith(("FAK_", "XDG_", "HF_", "PIP_"))}
        self.env.update(HOME=str(self.folder), FAK_CACHE=str(self.cache), TERM="dumb")
        self.children = []

    def tearDown(self):
        for child in self.children:
            if child.poll() is None:
                child.kill()
            child.wait()
            for pipe in (child.stdin, child.stdout, child.stderr):
                if pipe:
                    pipe.close()
        shutil.rmtree(self.folder)

    def fak(self, *words, status=0, input="", env=None, before=None):
        """Runs to the end; gives stdout and stderr."""
        done = subprocess.run([FAK, *map(str, words)], input=input, capture_output=True, text=True,
                              cwd=self.folder, env={**self.env, **(env or {})}, timeout=PATIENCE_S,
                              preexec_fn=before)
        self.assertEqual(done.returncode, status, f"{words}: {done.stdout}{done.stderr}")
        return done.stdout, done.stderr

    def start(self, *words, env=None, **options):
        child = subprocess.Popen([FAK, *map(str, words)], cwd=self.folder,
                                 env={**self.env, **(env or {})}, stdin=subprocess.DEVNULL,
                                 stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **options)
        self.children.append(child)
        return child

    def line_of(self, child, part, patience_s=PATIENCE_S):
        """Waits for a line of stderr that has this part. A child that doesn't say it in time is killed."""
        late = threading.Event()
        clock = threading.Timer(patience_s, lambda: (late.set(), child.kill()))
        clock.start()
        said = []
        try:
            for line in child.stderr:
                if part in line:
                    return line.rstrip("\n")
                said.append(line)
        finally:
            clock.cancel()
        how = f"said nothing for {patience_s} s that has" if late.is_set() else "ended without a line that has"
        self.fail(f"{child.args[0]} {how} {part!r}, only: {''.join(said)}")

    def one_line(self, text):
        """An error is one line, and not what a crash leaves."""
        self.assertEqual(len(text.strip().splitlines()), 1, text)
        for sign in ("CHECK", "terminate", "Assertion", "what()", "Segmentation"):
            self.assertNotIn(sign, text)
        return text.strip()

    def wait_for(self, condition, what):
        until = time.monotonic() + PATIENCE_S
        while not condition():
            self.assertLess(time.monotonic(), until, f"waited in vain for {what}")
            time.sleep(0.02)


class Terminal:
    """fak on a terminal of some width."""

    def __init__(self, test, *words, columns=80, env=None):
        self.test = test
        self.text = ""
        pid, self.fd = pty.fork()
        if pid == 0:
            termios.tcsetwinsize(0, (24, columns))
            os.chdir(test.folder)
            os.execve(FAK, [FAK, *map(str, words)], {**test.env, "TERM": "xterm", **(env or {})})
        self.pid = pid
        self.status = None

    def wait_for(self, text):
        """Reads until the text has come; drops all up to its end."""
        until = time.monotonic() + PATIENCE_S
        while text not in self.text:
            self.test.assertLess(time.monotonic(), until, f"no {text!r} in {self.text!r}")
            if not self.read(0.2):
                self.test.assertIn(text, self.text)
        before, _, self.text = self.text.partition(text)
        return before

    def read(self, wait_s):
        if select.select([self.fd], [], [], wait_s)[0]:
            try:
                got = os.read(self.fd, 65536)
            except OSError:  # the program has closed it
                got = b""
            self.text += got.decode(errors="replace")
            return bool(got)
        return True

    def type(self, text):
        os.write(self.fd, text.encode())

    def end(self):
        """Waits for the end of the program; gives its exit status."""
        while self.read(0.2):
            pass
        self.status = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        os.close(self.fd)
        return self.status

    def kill(self):
        if self.status is None:
            os.kill(self.pid, signal.SIGKILL)
            self.end()


class StandIn:
    """Serves files with ranges and ETags (or without), at a rate, and keeps the requests."""

    def __init__(self, files, bytes_a_second=None, ranges=True, etags=True):
        self.requests = []
        stand_in = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self):
                stand_in.requests.append((self.path, dict(self.headers)))
                body = files.get(self.path)
                if body is None:
                    self.send_error(404)
                    return
                etag = f'"{hashlib.sha1(body).hexdigest()}"'
                wanted = self.headers.get("range") if ranges else None
                first = 0
                if wanted and (not etags or self.headers.get("if-range") == etag):
                    first = int(wanted[len("bytes="):-1])
                self.send_response(206 if first else 200)
                if first:
                    self.send_header("content-range", f"bytes {first}-{len(body) - 1}/{len(body)}")
                self.send_header("content-length", str(len(body) - first))
                if etags:
                    self.send_header("etag", etag)
                if self.path.endswith("/"):
                    self.send_header("content-type", "text/html")
                self.end_headers()
                piece = len(body) if not bytes_a_second else bytes_a_second // 20
                try:
                    for at in range(first, len(body), piece):
                        self.wfile.write(body[at:at + piece])
                        if bytes_a_second:
                            time.sleep(0.05)
                except OSError:  # the client has gone
                    self.close_connection = True

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.server.handle_error = lambda *_: None  # clients that go are what tests are about
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.server.shutdown()
        self.server.server_close()


class UpstreamStandIn:
    """An engine as far as serving in front of it needs: lists models, answers chats for those it has."""

    def __init__(self, test, models, port=0, refusal="Not Found", status=404):
        self.asked_for = []
        stand_in = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def answer(self, status, body):
                data = json.dumps(body, separators=(",", ":")).encode()
                self.send_response(status)
                self.send_header("content-type", "application/json")
                self.send_header("content-length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def do_GET(self):
                if self.path == "/v1/models":
                    self.answer(200, {"data": [{"id": model} for model in models]})
                else:
                    self.answer(status, {"detail": refusal})

            def do_POST(self):
                asked = json.loads(self.rfile.read(int(self.headers["content-length"])) or "{}")
                model = asked.get("model")
                if self.path != "/v1/chat/completions":
                    self.answer(status, {"detail": refusal})
                elif model not in models:
                    self.answer(404, {"error": {"message": f"no model {model}"}})
                else:
                    stand_in.asked_for.append(model)
                    message = {"role": "assistant", "content": "hello"}
                    self.answer(200, {"model": model, "choices": [
                        {"index": 0, "message": message, "finish_reason": "stop"}]})

            def log_message(self, *_):
                pass

        http.server.ThreadingHTTPServer.allow_reuse_address = True
        server = http.server.ThreadingHTTPServer(("127.0.0.1", port), Handler)
        server.daemon_threads = True
        self.url = f"http://127.0.0.1:{server.server_port}"
        threading.Thread(target=server.serve_forever, daemon=True).start()
        test.addCleanup(server.server_close)
        test.addCleanup(server.shutdown)


def main():
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]])
