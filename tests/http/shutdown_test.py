"""SIGTERM with work in hand: streams finish, or end with an error when there is no time; exit status 0."""

import re
import signal
import socket
import time
import unittest

from tiny_server import CONTEXT, Server, completion, eventually, read_all, read_through, statuses


class Shutdown(unittest.TestCase):
    def test_streams_finish(self):
        with Server("--shutdown-settle", "2000") as server:
            idle = server.connect()
            streams = [server.connect() for _ in range(8)]
            for client in streams:
                client.sendall(completion(stream=True, max_tokens=600))
            whole = server.connect()
            whole.sendall(completion(max_tokens=600))
            begun = [read_through(client, b"data: ") for client in streams]
            server.process.send_signal(signal.SIGTERM)
            # Not ready at once, while what comes is still answered.
            eventually(lambda: server.ask("GET", "/ready")[0] == 503, "it is not ready")
            self.assertEqual(server.ask("GET", "/health")[0], 200)
            for client, received in zip(streams, begun, strict=True):
                received += read_all(client)
                self.assertEqual(received.count(b"data: [DONE]"), 1, received[-300:])
                self.assertEqual(received.count(b'"finish_reason":"length"'), 1)
                self.assertNotIn(b'"error"', received)
            self.assertIn(b'"completion_tokens":600', read_all(whole))
            self.assertEqual(read_all(idle), b"")
            self.assertEqual(server.process.wait(30), 0)
            with self.assertRaises(OSError):
                server.connect()

    def test_what_takes_longer_than_the_bound_is_told_so(self):
        flags = ("--shutdown-timeout", "1", "--shutdown-settle", "50", "--max-num-seqs", "2")
        with Server(*flags) as server:
            # Longer than any of the bounds: the tokens of many choices one after the other.
            stream = server.connect()
            stream.sendall(completion(stream=True, max_tokens=CONTEXT, n=128))
            read_through(stream, b"data: ")
            waiting = server.connect()
            waiting.sendall(completion())
            stuck = server.connect(receive_buffer=4096)  # it never reads
            stuck.sendall(completion(stream=True, max_tokens=CONTEXT, n=8, logprobs=20))
            begun = time.monotonic()
            server.process.send_signal(signal.SIGTERM)
            received = read_all(stream)
            self.assertNotIn(b"[DONE]", received)
            error = re.search(rb'data: \{"error":\{"message":"([^"]*)"', received)
            self.assertIn(b"shutting down", error[1])
            self.assertTrue(received.endswith(b"\r\n0\r\n\r\n"))
            self.assertEqual(statuses(read_all(waiting)), [503])
            self.assertEqual(server.process.wait(30), 0)
            self.assertLess(time.monotonic() - begun, 10)

    def test_a_second_signal_waits_for_nobody(self):
        with Server("--shutdown-timeout", "60") as server:
            client = server.connect()
            client.sendall(completion(stream=True, max_tokens=CONTEXT, n=64))
            read_through(client, b"data: ")
            begun = time.monotonic()
            server.process.send_signal(signal.SIGTERM)
            time.sleep(0.05)
            server.process.send_signal(signal.SIGTERM)
            self.assertEqual(server.process.wait(30), 0)
            self.assertLess(time.monotonic() - begun, 10)

    def test_clients_that_send_half_a_request_are_not_waited_for(self):
        with Server("--shutdown-timeout", "30", "--shutdown-settle", "0") as server:
            half_head, half_body = server.connect(), server.connect()
            half_head.sendall(b"P")
            half_body.sendall(completion()[:-5])
            server.complete()
            begun = time.monotonic()
            server.process.send_signal(signal.SIGTERM)
            self.assertEqual(read_all(half_head), b"")
            refused = read_all(half_body)
            self.assertEqual(statuses(refused), [503])
            self.assertIn(b"shutting down", refused)
            self.assertEqual(server.process.wait(30), 0)
            self.assertLess(time.monotonic() - begun, 8)


if __name__ == "__main__":
    unittest.main()
