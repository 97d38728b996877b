"""A long prompt beside running streams: each of its chunks comes with a token for each of them."""

import json
import unittest

from tiny_server import CONTEXT, Server, completion, eventually, read_through

STREAMS = 2
CHUNK = 4  # rows of the prompt in a step
PROMPT = CONTEXT - 48
CHUNKS = PROMPT // CHUNK


class LongPrompt(unittest.TestCase):
    # Counted by the engine and not by a clock: streams that run when a prompt of as many chunks comes as they have
    # tokens to go are through before its first token. One that misses a few of the steps is not.
    def test_stalls_no_running_stream(self):
        with Server("--max-num-seqs", "4", "--max-num-batched-tokens", str(CHUNK + STREAMS)) as server:

            def beside(number):
                """Whether the streams still ran when the prompt's turn had come; fails if it stalled them."""
                before = server.metrics().get("generation_tokens_total", 0)
                streams = [server.connect() for _ in range(STREAMS)]
                for index, client in enumerate(streams):
                    client.sendall(completion(stream=True, max_tokens=CHUNKS, prompt=f"{number} {index}"))
                for client in streams:
                    read_through(client, b'"text"')
                # Its own beginning, so that nothing of it is cached.
                text = f"{number} ".ljust(PROMPT, "x")
                late = server.connect()
                late.sendall(completion(stream=True, max_tokens=1, prompt=text))
                load = {}

                def together():
                    load.update(json.loads(server.ask("GET", "/v1/fak/load")[2]))
                    return load["running"] != STREAMS

                eventually(together, "the prompt runs, or a stream has ended")
                read_through(late, b"data: [DONE]")
                tokens = server.metrics()["generation_tokens_total"] - before
                if load["running"] == STREAMS + 1:
                    self.assertEqual(tokens, STREAMS * CHUNKS + 1)
                for client in streams:
                    read_through(client, b"data: [DONE]")
                server.wait_idle()
                return load["running"] == STREAMS + 1

            self.assertTrue(any(beside(number) for number in range(20)), "never seen together")


if __name__ == "__main__":
    unittest.main()
