"""An upstream that breaks in every way: the client gets the right text or a typed error, never both, never a hang."""

import contextlib
import gzip
import http.client
import json
import os
import re
import socket
import threading
import time
import unittest
from pathlib import Path

from served import Server

PATIENCE_S = 20
TEXT = "Hello, Wörld — done."
PIECES = ["Hello", ", ", "Wörld", " — ", "done."]
CHAT = "/v1/chat/completions"


def chunk(delta, finish=None):
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    return json.dumps({"id": "c", "object": "chat.completion.chunk", "choices": [choice]}, ensure_ascii=False)


def event(data):
    return f"data: {data}\n\n".encode()


STREAM = b"".join(event(chunk({"content": piece})) for piece in PIECES)
STREAM += event(chunk({}, "stop")) + event("[DONE]")
FINISHED = STREAM.index(b'"stop"') + len(b'"stop"')  # before that the answer isn't whole
WHOLE = json.dumps(
    {"choices": [{"index": 0, "message": {"role": "assistant", "content": TEXT}, "finish_reason": "stop"}]}
).encode()

# A chat of llama.cpp b11434 with SmolLM2, as it came, with its chunks: three tokens, the end, the usage.
RECORDED = (Path(__file__).parents[1] / "golden/streams/llamacpp-b11434.txt").read_bytes()


def head(*fields, status="200 OK", kind="text/event-stream"):
    # The script's end closes it: nobody may send a second request into it.
    lines = [f"HTTP/1.1 {status}", f"content-type: {kind}", "connection: close", *fields]
    return ("\r\n".join(lines) + "\r\n\r\n").encode()


def chunked(parts):
    return b"".join(b"%x\r\n%s\r\n" % (len(part), part) for part in parts) + b"0\r\n\r\n"


def pieces_of(data, size):
    return [data[at : at + size] for at in range(0, len(data), size)]


class Upstream:
    """Lists a model, and answers chats with what `script(connection, request)` writes."""

    def __init__(self):
        self.script = None
        self.paths = {CHAT}  # that the script answers
        self.documents = {}  # by path: of GETs
        self.model = "m"
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=64)
        self.url = f"http://127.0.0.1:{self.listener.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        with contextlib.suppress(OSError):
            while True:
                connection = self.listener.accept()[0]
                threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection):
        connection.settimeout(PATIENCE_S)
        with connection, contextlib.suppress(OSError, ValueError):
            if request := self._request(connection):
                path, body = request
                if path in self.paths:
                    self.script(connection, body)
                    return
                if path == "/v1/models":
                    answer, status = json.dumps({"object": "list", "data": [{"id": self.model}]}).encode(), "200 OK"
                elif path in self.documents:
                    answer, status = json.dumps(self.documents[path]).encode(), "200 OK"
                else:
                    answer, status = b'{"detail":"Not Found"}', "404 Not Found"
                fields = f"content-length: {len(answer)}"
                connection.sendall(head(fields, status=status, kind="application/json") + answer)

    @staticmethod
    def _request(connection):
        received = b""
        while b"\r\n\r\n" not in received:
            part = connection.recv(65536)
            if not part:
                return None
            received += part
        top, _, body = received.partition(b"\r\n\r\n")
        length = 0
        for line in top.split(b"\r\n")[1:]:
            name, _, value = line.partition(b":")
            if name.lower() == b"content-length":
                length = int(value)
        while len(body) < length:
            body += connection.recv(65536)
        return top.split(b" ")[1].decode(), json.loads(body or b"null")


class Answer:
    """What a client made of it."""

    def __init__(self, address, stream):
        connection = http.client.HTTPConnection(*address, timeout=PATIENCE_S)
        with contextlib.closing(connection):
            body = {"model": "m", "stream": stream, "messages": [{"role": "user", "content": "hi"}]}
            connection.request("POST", CHAT, json.dumps(body))
            response = connection.getresponse()
            self.status = response.status
            self.broken = False
            try:
                self.body = response.read()
            except (http.client.IncompleteRead, ConnectionError) as error:
                self.broken = True
                self.body = getattr(error, "partial", b"")
        self.text, self.error, self.finished, self.done = "", None, False, False
        if self.status == 200 and stream:
            self._read_stream()
        else:
            self._read(json.loads(self.body))

    def _read_stream(self):
        for block in self.body.split(b"\n\n"):
            if block == b"data: [DONE]":
                self.done = True
            elif block:
                assert block.startswith(b"data: "), block[:80]
                self._read(json.loads(block[6:]))

    def _read(self, document):
        if "error" in document:
            self.error = document["error"]
            return
        for choice in document["choices"]:
            part = choice.get("delta") or choice.get("message") or {}
            self.text += part.get("content") or ""
            self.finished |= choice["finish_reason"] is not None


class UpstreamFaults(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.upstream = Upstream()
        cls.addClassCleanup(cls.upstream.listener.close)
        cls.server = Server(os.environ["FAK"], "--upstream", f"openai+{cls.upstream.url}")
        cls.addClassCleanup(cls.server.__exit__)

    def ask(self, script, stream=True):
        self.upstream.script = script
        return Answer(self.server.address, stream)

    def sends(self, data, stream=True, reset=False):
        def script(connection, _):
            connection.sendall(data)
            if reset:
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")

        return self.ask(script, stream)

    def right(self, answer, text=TEXT):
        self.assertEqual((answer.status, answer.error, answer.broken), (200, None, False), answer.body)
        self.assertEqual(answer.text, text)
        self.assertTrue(answer.finished)

    def failed(self, answer, *words, status=502, text=TEXT):
        """A typed error and no end that looks like a success; before any text it has its own status."""
        self.assertIsNotNone(answer.error, answer.body[-300:])
        for word in words:
            self.assertIn(word, answer.error["message"])
        self.assertTrue(answer.error["type"])
        self.assertFalse(answer.finished or answer.done, answer.body[-300:])
        if answer.status != 200:
            self.assertEqual((answer.status, answer.text), (status, ""))
        self.assertTrue(text.startswith(answer.text), answer.text)

    def test_what_is_whole_is_right(self):
        for name, data in {
            "to the end of the connection": head() + STREAM,
            "with a length": head(f"content-length: {len(STREAM)}") + STREAM,
            "in one chunk": head("transfer-encoding: chunked") + chunked([STREAM]),
            "a byte a chunk": head("transfer-encoding: chunked") + chunked(pieces_of(STREAM, 1)),
            "CRLF": head() + STREAM.replace(b"\n", b"\r\n"),
            "CR": head() + STREAM.replace(b"\n", b"\r"),
            "with a BOM and comments": head() + b"\xef\xbb\xbf: hi\n\n" + STREAM,
            "after 100 Continue": b"HTTP/1.1 100 Continue\r\n\r\n" + head() + STREAM,
        }.items():
            with self.subTest(name):
                self.right(self.sends(data))
        self.right(self.sends(head(f"content-length: {len(WHOLE)}") + WHOLE, stream=False), TEXT)

    def test_cut_at_every_byte(self):
        framings = {
            "close": head() + STREAM,
            "length": head(f"content-length: {len(STREAM)}") + STREAM,
            "chunked": head("transfer-encoding: chunked") + chunked(pieces_of(STREAM, 50)),
        }
        for name, data in framings.items():
            finished = len(data) - len(chunked(pieces_of(STREAM[FINISHED:], 50)))
            for at in range(len(data)):
                with self.subTest(framing=name, at=at):
                    answer = self.sends(data[:at])
                    if answer.error is None:
                        self.assertGreater(at, finished - 100)
                        self.right(answer)
                    else:
                        self.failed(answer)

    def test_a_recorded_stream_cut_at_every_byte(self):
        begins = head("transfer-encoding: chunked")
        text = self.sends(begins + RECORDED).text
        self.right(self.sends(begins + RECORDED), text)
        self.assertGreater(len(text), 10)
        reason = re.search(rb'"finish_reason":"', RECORDED).end()
        ended = RECORDED.index(b"\n\n", reason) + 2  # its event is whole then
        for at in range(len(RECORDED)):
            with self.subTest(at=at):
                answer = self.sends(begins + RECORDED[:at])
                self.assertEqual(answer.error is None, at >= ended, answer.body[-300:])
                if answer.error is None:
                    self.right(answer, text)
                else:
                    self.failed(answer, text=text)

    def test_a_whole_answer_cut_at_every_byte(self):
        data = head(f"content-length: {len(WHOLE)}", kind="application/json") + WHOLE
        for at in range(len(data)):
            with self.subTest(at=at):
                self.failed(self.sends(data[:at], stream=False))

    def test_reset_in_the_middle(self):
        for at in (0, 10, len(head()) + 100):
            with self.subTest(at=at):
                self.failed(self.sends((head() + STREAM)[:at], reset=True))

    def test_wrong_lengths(self):
        one_too_many = self.sends(head(f"content-length: {len(STREAM) + 1}") + STREAM)
        self.right(one_too_many)  # all of the answer came: an error would take it back
        self.assertTrue(one_too_many.done)
        short = head(f"content-length: {FINISHED - 40}") + STREAM
        self.failed(self.sends(short))
        for length in ("-1", "1, 2", "99999999999999999999", "0x10", ""):
            with self.subTest(length):
                self.failed(self.sends(head(f"content-length: {length}") + STREAM))
        for size in (b"-1", b"zz", b"ffffffffffffffffff", b"0x5"):
            with self.subTest(size):
                self.failed(self.sends(head("transfer-encoding: chunked") + size + b"\r\n" + STREAM))
        both = head("transfer-encoding: chunked", "content-length: 5") + chunked([STREAM])
        self.failed(self.sends(both))

    def test_an_error_after_the_first_byte(self):
        begun = head() + event(chunk({"content": PIECES[0]}))
        for error in (
            event('{"error":{"message":"out of memory","type":"server_error","code":500}}'),
            event('{"object":"error","message":"out of memory"}'),
            b"event: error\n" + event('{"error":{"message":"out of memory"}}'),
        ):
            with self.subTest(error):
                self.failed(self.sends(begun + error + event("[DONE]")), "out of memory")

    def test_statuses_are_the_clients_before_a_byte(self):
        body = b'{"error":{"message":"no such thing","type":"x"}}'
        for upstream, ours in {"400 Bad": 400, "404 Not Found": 404, "429 Slow": 429, "500 Oh": 502, "503 Busy": 503}.items():
            for stream in (True, False):
                with self.subTest(upstream, stream=stream):
                    answer = self.sends(
                        head(f"content-length: {len(body)}", status=upstream, kind="application/json") + body, stream
                    )
                    self.assertEqual(answer.status, ours)
                    self.failed(answer, "no such thing", status=ours)
        self.failed(self.sends(head("location: http://127.0.0.1:1/", "content-length: 0", status="307 Go")))
        self.failed(self.sends(head("content-length: 0", status="204 No Content")))

    def test_what_is_no_stream(self):
        page = b"<html>Bad Gateway</html>"
        for name, data in {
            "a page": head(f"content-length: {len(page)}", kind="text/html") + page,
            "gzip": head("content-encoding: gzip") + gzip.compress(STREAM),
            "nothing": head("content-length: 0"),
            "no HTTP": b"SSH-2.0-OpenSSH\r\n\r\n",
            "NUL bytes": head() + b"data: \0\0\0\n\n",
            "invalid UTF-8": head() + STREAM.replace("ö".encode(), b"\xf6"),
            "half a surrogate": head() + STREAM.replace("ö".encode(), b"\\ud800"),
            "no JSON": head() + event("{"),
            "a list": head() + event("[1]"),
            "nesting": head() + event("[" * 100_000),
            "done at once": head() + event("[DONE]"),
            "done inside": head() + event(chunk({"content": "Hello"})) + event("[DONE]"),
            "a head without end": b"HTTP/1.1 200 OK\r\n" + b"x-a: b\r\n" * 100_000,
            "a line without end": b"HTTP/1.1 200 " + b"x" * 1_000_000,
        }.items():
            with self.subTest(name):
                self.failed(self.sends(data))

    def test_words_of_the_protocol_in_the_text(self):
        text = "data: [DONE]\n\nevent: error\n\n"
        stream = event(chunk({"content": text})) + event(chunk({}, "stop")) + event("[DONE]")
        self.right(self.sends(head() + stream), text)

    def test_large_events(self):
        large = "x" * 20_000_000
        stream = event(chunk({"content": large})) + event(chunk({}, "stop")) + event("[DONE]")
        self.right(self.sends(head(f"content-length: {len(stream)}") + stream), large)
        too_large = head() + b"data: " + b"x" * 33_600_000
        self.failed(self.sends(too_large), "33554432")

    def test_a_slow_drip(self):
        def script(connection, _):
            for part in pieces_of(head() + STREAM, 40):
                connection.sendall(part)
                time.sleep(0.01)

        self.right(self.ask(script))

    def test_a_half_close_is_no_end_of_the_answer(self):
        def script(connection, _):
            connection.sendall(head("transfer-encoding: chunked") + chunked(pieces_of(STREAM, 50)))
            connection.shutdown(socket.SHUT_WR)
            connection.recv(1)

        self.right(self.ask(script))

    def tearDown(self):
        self.right(self.sends(head() + STREAM))  # nobody else was harmed


if __name__ == "__main__":
    unittest.main()
