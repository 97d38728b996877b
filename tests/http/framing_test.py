"""Bytes that are no requests, or not as one expects them: cut anywhere, in chunks, smuggled, far too many, too slow."""

import socket
import threading
import time
import unittest

from tiny_server import DEEP, Server, completion, eventually, post, read_all, read_through, statuses

GET = b"GET /health HTTP/1.1\r\nHost: h\r\n\r\n"
HEAD = b"POST /v1/completions HTTP/1.1\r\nHost: h\r\n"
BODY = b'{"prompt":"Hi","max_tokens":2}'
LENGTH = b"Content-Length: %d\r\n" % len(BODY)
CHUNKED = b"Transfer-Encoding: chunked\r\n"
WHOLE_CHUNK = b"%x\r\n%s\r\n0\r\n\r\n" % (len(BODY), BODY)

# On each of these two servers in a row could see different requests.
SMUGGLED = {
    "both": (HEAD + LENGTH + CHUNKED + b"\r\n" + WHOLE_CHUNK, 400),
    "two lengths": (HEAD + LENGTH + b"Content-Length: 0\r\n\r\n" + BODY, 400),
    "the same length twice": (HEAD + LENGTH + LENGTH + b"\r\n" + BODY, 400),
    "a list of lengths": (HEAD + b"Content-Length: 30, 30\r\n\r\n" + BODY, 400),
    "a signed length": (HEAD + b"Content-Length: +30\r\n\r\n" + BODY, 400),
    "a length in hex": (HEAD + b"Content-Length: 0x1e\r\n\r\n" + BODY, 400),
    "a negative length": (HEAD + b"Content-Length: -1\r\n\r\n" + BODY, 400),
    "a length too large for 64 bits": (HEAD + b"Content-Length: 1%020d\r\n\r\n" % 0 + BODY, 400),
    "chunked twice": (HEAD + CHUNKED + CHUNKED + b"\r\n" + WHOLE_CHUNK, 400),
    "chunked and identity": (HEAD + b"Transfer-Encoding: chunked, identity\r\n\r\n", 501),
    "another coding": (HEAD + b"Transfer-Encoding: xchunked\r\n\r\n", 501),
    "chunked in HTTP/1.0": (HEAD.replace(b"/1.1", b"/1.0") + CHUNKED + b"\r\n" + WHOLE_CHUNK, 400),
    "a blank before the colon": (HEAD + b"Content-Length : 30\r\n\r\n" + BODY, 400),
    "a continued line": (HEAD + b"X: a\r\n b\r\n" + LENGTH + b"\r\n" + BODY, 400),
    "a continued coding": (HEAD + b"Transfer-Encoding:\r\n chunked\r\n\r\n" + WHOLE_CHUNK, 400),
    "a bare LF": (HEAD.replace(b"\r\n", b"\n") + LENGTH + b"\r\n" + BODY, 400),
    "a bare CR": (HEAD + b"X: a\rTransfer-Encoding: chunked\r\n\r\n", 400),
    "a NUL": (HEAD + b"X: a\0b\r\n\r\n", 400),
    "no host": (b"GET /health HTTP/1.1\r\n\r\n", 400),
    "two hosts": (b"GET /health HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", 400),
    "a chunk size that is none": (HEAD + CHUNKED + b"\r\nzz\r\n", 400),
    "a chunk size with a sign": (HEAD + CHUNKED + b"\r\n+1\r\na\r\n0\r\n\r\n", 400),
    "a chunk size with 0x": (HEAD + CHUNKED + b"\r\n0x1\r\na\r\n0\r\n\r\n", 400),
    "a chunk size of 17 digits": (HEAD + CHUNKED + b"\r\n1" + b"0" * 16 + b"\r\na\r\n", 400),
    "a chunk longer than it says": (HEAD + CHUNKED + b"\r\n1\r\nab\r\n0\r\n\r\n", 400),
    "a chunk that ends in LF": (HEAD + CHUNKED + b"\r\n1\na\n0\n\n", 400),
    "HTTP/2": (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 505),
    "a method alone": (b"GET\r\n\r\n", 400),
    "no target": (b"GET  HTTP/1.1\r\nHost: h\r\n\r\n", 400),
    "CONNECT": (b"CONNECT h:1 HTTP/1.1\r\nHost: h\r\n\r\n", 501),
    "TLS": (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\r\n\r\n", 400),
    "too long a body": (HEAD + b"Content-Length: 99999999999\r\n\r\n", 413),
    "a header of 1 MB": (HEAD + b"X: " + b"x" * (1 << 20) + b"\r\n\r\n", 431),
    "a target of 1 MB": (b"GET /" + b"x" * (1 << 20) + b" HTTP/1.1\r\nHost: h\r\n\r\n", 431),
    "300 header fields": (HEAD + b"".join(b"X%d: y\r\n" % i for i in range(300)) + b"\r\n", 431),
}


class Framing(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = Server()
        cls.addClassCleanup(cls.server.__exit__)

    def exchange(self, *pieces):
        with self.server.connect() as client:
            for piece in pieces:
                client.sendall(piece)
            return read_all(client)

    def test_nothing_can_be_smuggled(self):
        for name, (sent, status) in SMUGGLED.items():
            with self.subTest(name), self.server.connect() as client:
                try:
                    client.sendall(sent + GET)
                except OSError:
                    pass  # refused before all of it had been sent
                received = read_all(client)
                self.assertEqual(statuses(received), [status], received[-300:])
                self.assertIn(b"\r\nConnection: close\r\n", received)
                self.assertIn(b"\r\nx-request-id: req-", received)
                self.assertIn(b'{"error":{"message":"', received)
        def logged():
            return sorted(r["status"] for r in self.server.access() if r["status"] != 200)

        eventually(lambda: len(logged()) >= len(SMUGGLED), "the access log")
        self.assertEqual(logged(), sorted(status for _, status in SMUGGLED.values()))

    def test_bodies_come_in_any_pieces(self):
        chunks = b"".join(b"%x;e=%d\r\n%c\r\n" % (1, byte, byte) for byte in BODY)
        request = HEAD + CHUNKED + b"\r\n" + chunks + b"0\r\nTrailer: x\r\n\r\n"
        with self.server.connect() as client:
            client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            for at in range(0, len(request), 7):
                client.sendall(request[at : at + 7])
            self.assertEqual(statuses(read_through(client, b'"usage"')), [200])
            client.sendall(HEAD + LENGTH + b"Expect: 100-continue\r\n\r\n")
            self.assertIn(b"HTTP/1.1 100 Continue\r\n\r\n", read_through(client, b"\r\n\r\n"))
            client.sendall(BODY)
            self.assertEqual(statuses(read_through(client, b'"usage"')), [200])

    def test_pipelined_requests_are_answered_in_order(self):
        with self.server.connect() as client:
            requests = []
            for i in range(20):
                requests.append(completion(max_tokens=i % 3 + 1, stream=i % 2 == 1))
                requests.append(GET)
            bad = post("/v1/completions", b"{").replace(b"Host: h", b"Host: h\r\nConnection: close")
            client.sendall(b"".join(requests) + bad)
            received = read_all(client)
        self.assertEqual(statuses(received), [200] * 40 + [400])
        answers = received.split(b"HTTP/1.1 ")[1:]
        for i in range(20):
            self.assertIn(b"event-stream" if i % 2 else b"text_completion", answers[2 * i])
            self.assertIn(b'{"status":"ok"}', answers[2 * i + 1])

    def test_a_refusal_does_not_wait_for_the_body(self):
        with Server("--api-key", "secret") as server, server.connect() as client:
            client.sendall(HEAD + b"Content-Length: 1000000\r\n\r\n")
            self.assertEqual(statuses(read_all(client)), [401])

    def test_slow_senders_are_cut_and_hold_up_nobody(self):
        """A head may take 10 s, dripping or not (a body 60 s: only in the deep variant)."""
        begun = time.monotonic()
        slow = [self.server.connect() for _ in range(100)]
        for client in slow:
            client.sendall(HEAD + (b"Content-Length: 1000\r\n\r\n{" if DEEP else b""))
        done = threading.Event()

        def drip():
            while not done.wait(0.5):
                for client in slow[::2]:
                    try:
                        client.sendall(b" " if DEEP else b"X: y\r\n")
                    except OSError:
                        pass

        dripper = threading.Thread(target=drip)
        dripper.start()
        try:
            slowest = 0.0
            for _ in range(50):
                asked = time.monotonic()
                self.server.complete(max_tokens=4)
                slowest = max(slowest, time.monotonic() - asked)
                time.sleep(0.02)
            self.assertLess(slowest, 5)
            for client in slow:
                received = read_all(client)
                # One that dripped on may have lost the answer to the reset of its own connection.
                self.assertIn(statuses(received), ([408], []))
                client.close()
        finally:
            done.set()
            dripper.join()
        took = time.monotonic() - begun
        self.assertGreater(took, 58 if DEEP else 9)
        self.assertLess(took, 75 if DEEP else 30)
        timed_out = [r for r in self.server.access() if r["status"] == 408]
        self.assertEqual(len(timed_out), len(slow))
        self.assertEqual({r["error"] for r in timed_out}, {"deadline_exceeded"})
        eventually(lambda: self.server.sockets() < 10, "the connections are closed")


if __name__ == "__main__":
    unittest.main()
