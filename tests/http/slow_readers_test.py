"""500 clients that ask for streams and don't read them."""

import time
import unittest

from tiny_server import DEEP, Server, completion, eventually, read_through

READERS = 500
# What one of them is sent: some 0.1 MB, in the deep variant ten times that.
TOKENS, LOGPROBS = (400, 20) if DEEP else (40, 20)


class SlowReaders(unittest.TestCase):
    def test_they_hold_up_nobody_and_cost_little(self):
        flags = ("--max-num-seqs", "64", "--kv-cache-memory", "512MiB")
        with Server(*flags, files_max=2048) as server:
            stream = completion(stream=True, max_tokens=300, seed=1, prompt="quick", priority=-1)

            def quick():
                with server.connect() as client:
                    client.settimeout(600)  # for a place in the batch
                    begun = time.monotonic()
                    client.sendall(stream)
                    received = read_through(client, b"data: [DONE]")
                    self.assertEqual(received.count(b'"finish_reason":"length"'), 1)
                    return time.monotonic() - begun

            quick()
            before = server.resident_bytes()
            slow = [server.connect(receive_buffer=4096) for _ in range(READERS)]
            request = completion(
                stream=True, max_tokens=TOKENS, logprobs=LOGPROBS, return_token_ids=True
            )
            for client in slow:
                client.sendall(request)
            eventually(lambda: server.metrics()["num_requests_running"] > 32, "they are served")
            beside = quick()
            quick()
            eventually(
                lambda: server.metrics()["num_requests_running"] == 0, "all is computed", 600
            )
            grown = server.resident_bytes() - before
            # Not one of them has read a byte, and no step has waited for that: all is computed.
            server.wait_idle()
            after = quick()
            print(
                f"\n{READERS} readers: {grown / 2**20:.0f} MiB more memory; a stream of 300 tokens "
                f"took {beside:.2f} s beside them, {after:.2f} s after them"
            )
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
