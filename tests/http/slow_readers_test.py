"""500 clients that ask for streams and don't read them."""

import selectors
import threading
import time
import unittest

from tiny_server import DEEP, Server, completion, eventually, read_through

READERS = 500
# What one of them is sent: some 0.1 MB, in the deep variant ten times that.
TOKENS, LOGPROBS = (400, 20) if DEEP else (40, 20)
# A stream's time beside them, to that beside as many who read; it is computed with theirs in both.
BESIDE_RATIO_MAX = 5
# And once theirs are computed, and held for them, to that on an idle server.
HELD_RATIO_MAX, HELD_S = 5, 0.5


class Readers:
    """Read whatever comes to the clients, on a thread of their own, and throw it away."""

    def __init__(self, clients):
        self._ended = False
        self._selector = selectors.DefaultSelector()
        for client in clients:
            self._selector.register(client, selectors.EVENT_READ)
        self._thread = threading.Thread(target=self._read)
        self._thread.start()

    def _read(self):
        while not self._ended:
            for key, _ in self._selector.select(0.05):
                if not key.fileobj.recv(65536):
                    self._selector.unregister(key.fileobj)

    def end(self):
        self._ended = True
        self._thread.join()
        self._selector.close()


class SlowReaders(unittest.TestCase):
    def test_they_hold_up_nobody_and_cost_little(self):
        flags = ("--max-num-seqs", "64", "--kv-cache-memory", "512MiB")
        with Server(*flags, files_max=2048) as server:
            stream = completion(stream=True, max_tokens=300, seed=1, prompt="quick", priority=-1)
            request = completion(
                stream=True, max_tokens=TOKENS, logprobs=LOGPROBS, return_token_ids=True
            )

            def quick():
                with server.connect() as client:
                    client.settimeout(600)  # for a place in the batch
                    begun = time.monotonic()
                    client.sendall(stream)
                    received = read_through(client, b"data: [DONE]")
                    self.assertEqual(received.count(b'"finish_reason":"length"'), 1)
                    return time.monotonic() - begun

            def quick_beside(clients):
                for client in clients:
                    client.sendall(request)
                eventually(lambda: server.metrics()["num_requests_running"] > 32, "they are served")
                beside = quick()
                eventually(
                    lambda: server.metrics()["num_requests_running"] == 0, "all is computed", 600
                )
                return beside

            quick()
            alone = quick()
            before = server.resident_bytes()
            prompt = [server.connect() for _ in range(READERS)]
            readers = Readers(prompt)
            try:
                beside_prompt = quick_beside(prompt)
            finally:
                readers.end()
            for client in prompt:
                client.close()
            server.wait_idle()
            slow = [server.connect(receive_buffer=4096) for _ in range(READERS)]
            beside = quick_beside(slow)
            grown = server.resident_bytes() - before
            # Not one of them has read a byte, and no step has waited for that: all is computed.
            server.wait_idle()
            after = quick()
            print(
                f"\n{READERS} readers: {grown / 2**20:.0f} MiB more memory; a stream of 300 tokens "
                f"took {beside:.2f} s beside them, {beside_prompt:.2f} s beside as many who read; "
                f"{after:.2f} s after them, {alone:.2f} s before"
            )
            self.assertLess(beside, BESIDE_RATIO_MAX * beside_prompt)
            self.assertLess(after, max(HELD_S, HELD_RATIO_MAX * alone))
            self.assertLess(grown, (1024 if DEEP else 256) * 2**20)
            if not DEEP:
                # What was held for them is theirs in the end.
                for client in slow[:20]:
                    received = read_through(client, b"\r\n0\r\n\r\n")
                    self.assertTrue(received.endswith(b"data: [DONE]\n\n\r\n0\r\n\r\n"), received[-99:])
            for client in slow:
                client.close()
            eventually(lambda: server.sockets() < 10, "the connections are closed")


if __name__ == "__main__":
    unittest.main()
