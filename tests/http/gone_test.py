"""Clients that leave, at every stage: nothing of them stays, and nobody else notices."""

import json
import re
import socket
import struct
import time
import unittest

from tiny_server import CONTEXT, Server, completion, eventually, read_through

LONG = "x" * (CONTEXT - 100)


class Gone(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        # Two places and small steps: a third request waits, a long prompt takes many steps.
        cls.server = Server("--max-num-seqs", "2", "--max-num-batched-tokens", "16")
        cls.addClassCleanup(cls.server.__exit__)
        cls.server.complete()
        cls.idle_sockets = cls.server.sockets()

    def tearDown(self):
        self.server.wait_idle()
        eventually(
            lambda: self.server.sockets() <= self.idle_sockets, "the connections are closed"
        )
        self.assertEqual(
            self.server.complete(max_tokens=8, temperature=0, ignore_eos=True)["usage"][
                "completion_tokens"
            ],
            8,
        )

    @staticmethod
    def leave(client, how):
        if how == "reset":
            client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        if how == "half":
            client.shutdown(socket.SHUT_WR)
            client.recv(1 << 20)
        client.close()

    def cancelled(self):
        return self.server.metrics().get("requests_total:cancelled", 0)

    def leave_in(self, request, stage, count=4):
        """Sends the request, waits for the stage, and leaves, in every way. On a busy machine an answer may be
        whole before its client has left: then it is tried again."""
        for how in ("close", "reset", "half"):
            for _ in range(5):
                before = self.cancelled()
                clients = [self.server.connect() for _ in range(count)]
                for client in clients:
                    client.sendall(request)
                stage(clients)
                for client in clients:
                    self.leave(client, how)
                self.server.wait_idle()
                cancelled = self.cancelled() - before
                if cancelled == count:
                    break
            self.assertEqual(cancelled, count, how)

    def test_before_and_in_the_head_and_in_the_body(self):
        request = completion()
        before = self.cancelled()
        for sent in (b"", b"POS", request[:40], request[: request.index(b"\r\n\r\n") + 4], request[:-3]):
            for how in ("close", "reset"):
                client = self.server.connect()
                client.sendall(sent)
                time.sleep(0.01)
                self.leave(client, how)
        self.server.wait_idle()
        self.assertEqual(self.cancelled(), before)  # the engine never heard of them

    def test_in_the_queue(self):
        """Four clients, two places: two of them never ran."""
        for how in ("close", "reset", "half"):
            before = self.cancelled()
            runners = [self.server.connect() for _ in range(2)]
            for client in runners:
                client.sendall(completion(stream=True, max_tokens=CONTEXT))
                read_through(client, b"data: ")
            waiting = [self.server.connect() for _ in range(4)]
            for client in waiting:
                client.sendall(completion())
            eventually(
                lambda: self.server.metrics()["num_requests_waiting"] == 4, "four of them wait"
            )
            for client in waiting:
                self.leave(client, how)
            eventually(
                lambda: self.server.metrics()["num_requests_waiting"] == 0, "none of them waits"
            )
            for client in runners:
                read_through(client, b"data: ")  # they still run
                self.leave(client, "close")
            self.server.wait_idle()
            self.assertEqual(self.cancelled() - before, 6)

    def test_in_the_prefill(self):
        def begun(_):
            eventually(
                lambda: self.server.metrics()["num_requests_running"] == 2, "they are computed"
            )

        # Another first letter each time: nothing of the prompt may be cached already.
        for letter in "abc":
            before = self.cancelled()
            clients = [self.server.connect() for _ in range(4)]
            for i, client in enumerate(clients):
                client.sendall(completion(prompt=f"{letter}{i}{LONG}", max_tokens=90, n=1))
            begun(clients)
            for client in clients:
                self.leave(client, "reset" if letter == "a" else "close")
            self.server.wait_idle()
            self.assertEqual(self.cancelled() - before, 4)

    def test_in_the_decode(self):
        def streaming(clients):
            read_through(clients[0], b"data: ")

        self.leave_in(completion(stream=True, max_tokens=CONTEXT), streaming, count=2)
        self.leave_in(completion(stream=True, max_tokens=CONTEXT, n=8), streaming, count=2)

    def test_while_a_whole_answer_is_made(self):
        def running(_):
            eventually(lambda: self.server.metrics()["num_requests_running"] == 2, "they run")

        self.leave_in(completion(max_tokens=CONTEXT), running, count=2)

    def test_nobody_else_notices(self):
        fields = {"max_tokens": 200, "seed": 3, "ignore_eos": True, "logprobs": 1}
        alone = self.server.complete(**fields)["choices"]
        leaving = [self.server.connect() for _ in range(8)]
        for client in leaving:
            client.sendall(completion(stream=True, max_tokens=CONTEXT))
        with self.server.connect() as staying:
            staying.sendall(completion(**fields, stream=True))
            for client in leaving:
                self.leave(client, "reset")
            received = read_through(staying, b"data: [DONE]")
        text = self.text_of(received)
        self.assertEqual(text, alone[0]["text"])

    @staticmethod
    def text_of(received):
        chunks = re.findall(rb"data: (\{.*\})\n", received)
        return "".join(
            choice["text"] for chunk in chunks for choice in json.loads(chunk)["choices"]
        )


if __name__ == "__main__":
    unittest.main()
