"""Streams that go on at another replica when theirs is killed: `fak serve --resume-streams`.

Two native servers over a tiny model, one of which is killed in the middle of every stream: what the client gets is what it
gets from an undisturbed one, to the byte but for ids and times. And vLLM's completions, against a stand-in.
"""

import http.client
import json
import unittest

from tiny_server import PATIENCE_S, Front, Server, eventually
from upstream_faults_test import Upstream, head

TOKENS = 1800
COMPLETIONS, CHAT = "/v1/completions", "/v1/chat/completions"
USAGE = {"stream_options": {"include_usage": True}}
GREEDY = {"prompt": "Once upon a time", "max_tokens": TOKENS, "temperature": 0, "seed": 3, "ignore_eos": True, **USAGE}
DRAWN = {**GREEDY, "temperature": 0.9, "seed": 11, "frequency_penalty": 0.2, "logprobs": 2}
TALK = {"messages": [{"role": "user", "content": "Tell me"}], "max_tokens": TOKENS, "temperature": 1.0, "seed": 5,
        "ignore_eos": True, "logprobs": True, "top_logprobs": 2, **USAGE}


class Stream:
    """A stream whose chunks are read one by one; at the one of that number `on_chunk` is called."""

    def __init__(self, server, path, body, at=None, on_chunk=None):
        self.chunks, self.done = [], False
        connection = http.client.HTTPConnection(*server.address, timeout=PATIENCE_S)
        try:
            connection.request("POST", path, json.dumps({**body, "stream": True}))
            answer = connection.getresponse()
            assert answer.status == 200, answer.read()
            self.request_id = answer.headers["x-request-id"]
            for line in answer:
                line = line.strip().removeprefix(b"data: ")
                if line == b"[DONE]":
                    self.done = True
                elif line:
                    self.chunks.append(json.loads(line))
                    if len(self.chunks) == at:
                        on_chunk()
        finally:
            connection.close()

    def text(self):
        return "".join(choice.get("text") or choice.get("delta", {}).get("content") or ""
                       for chunk in self.chunks for choice in chunk.get("choices", []))

    def told(self):
        """All but what is of the one stream: its id, its time, and the part of its prompt that was cached."""
        chunks = [{name: value for name, value in chunk.items() if name not in ("id", "created")}
                  for chunk in self.chunks]
        for chunk in chunks:
            if chunk.get("usage"):
                chunk["usage"].pop("prompt_tokens_details")
        return chunks


class Native(unittest.TestCase):
    def setUp(self):
        self.replicas = {}
        for name in "ab":
            self.replicas[name] = Server()
            self.addCleanup(self.replicas[name].__exit__)
        self.reference = Server()
        self.addCleanup(self.reference.__exit__)

    def front(self, *flags):
        upstreams = [f"{name}=fak+http://127.0.0.1:{each.port}" for name, each in self.replicas.items()]
        front = Front(upstreams, "--routing-policy", "round_robin", *flags)
        self.addCleanup(front.__exit__)
        return front

    def kill_who_answers(self, front):
        def kill():
            [name] = [each["name"] for each in front.fleet()["replicas"] if each["in_flight"] > 0]
            self.replicas[name].kill()

        return kill

    def check(self, path, body, at):
        front = self.front("--resume-streams")
        undisturbed = Stream(self.reference, path, body)
        self.assertTrue(undisturbed.done)
        stream = Stream(front, path, body, at, self.kill_who_answers(front))
        self.assertTrue(stream.done, stream.chunks[-1])
        self.assertEqual(stream.told(), undisturbed.told())
        self.assertEqual(len({(chunk["id"], chunk["created"]) for chunk in stream.chunks}), 1)
        self.assertEqual(stream.chunks[-1]["usage"]["completion_tokens"], TOKENS)
        [record] = eventually(
            lambda: [each for each in front.access() if each["request_id"] == stream.request_id], "the log has it")
        self.assertEqual((record["resumed"], record["attempts"], record["completion_tokens"]), (1, 2, TOKENS))
        self.assertNotIn("error", record)
        self.assertEqual(front.fleet()["retries"]["resumed"], 1)
        self.assertEqual(front.metrics()["migrations_total:ok"], 1)
        front.wait_quiet()

    def test_a_greedy_completion(self):
        self.check(COMPLETIONS, GREEDY, at=20)

    def test_a_drawn_completion_with_log_probabilities(self):
        self.check(COMPLETIONS, DRAWN, at=33)

    def test_a_drawn_chat_with_log_probabilities(self):
        self.check(CHAT, TALK, at=7)

    def test_token_ids_that_the_client_asked_for(self):
        self.check(COMPLETIONS, {**GREEDY, "return_token_ids": True}, at=10)

    # Its seed is that of the server that began.
    def test_without_a_seed(self):
        front = self.front("--resume-streams")
        body = {name: value for name, value in TALK.items() if name != "seed"}
        stream = Stream(front, CHAT, body, 9, self.kill_who_answers(front))
        self.assertTrue(stream.done, stream.chunks[-1])
        seed = stream.chunks[0]["seed"]
        self.assertEqual(stream.told(), Stream(self.reference, CHAT, {**body, "seed": seed}).told())

    def test_is_an_error_event_without_the_flag(self):
        front = self.front()
        stream = Stream(front, COMPLETIONS, GREEDY, 20, self.kill_who_answers(front))
        self.assertFalse(stream.done)
        self.assertIn("error", stream.chunks[-1])
        self.assertTrue(Stream(self.reference, COMPLETIONS, GREEDY).text().startswith(stream.text()))

    def test_not_at_a_server_that_is_not_alike(self):
        self.replicas["b"].kill()
        self.replicas["b"] = Server("--max-model-len", "1024")
        self.addCleanup(self.replicas["b"].__exit__)
        front = self.front("--resume-streams")
        stream = Stream(front, COMPLETIONS, GREEDY, 20, self.kill_who_answers(front))
        self.assertFalse(stream.done)
        self.assertIn("error", stream.chunks[-1])

    def test_a_client_of_the_gateway_has_no_say_in_it(self):
        front = self.front("--resume-streams")
        asked = {**GREEDY, "continue_answer": {"token_ids": [5]}}
        status, _, body = front.ask("POST", COMPLETIONS, asked)
        self.assertEqual((status, json.loads(body)["error"]["param"]), (400, "continue_answer"))

    # As a gateway asks for it, or anybody who has the ids.
    def test_the_field_itself(self):
        asked = {**GREEDY, "return_token_ids": True}
        asked.pop("stream_options")
        whole = self.reference.complete(**asked)
        ids = whole["choices"][0]["token_ids"]
        artifact = json.loads(self.reference.ask("GET", "/version")[2])["artifact"]
        self.assertEqual(json.loads(self.replicas["a"].ask("GET", "/version")[2])["artifact"], artifact)
        for said in (1, 900, TOKENS - 1, TOKENS):
            rest = self.replicas["a"].complete(
                **asked, continue_answer={"token_ids": ids[:said], "artifact": artifact, "created": whole["created"]})
            self.assertEqual(rest["choices"][0]["token_ids"], ids[said:])
            self.assertTrue(whole["choices"][0]["text"].endswith(rest["choices"][0]["text"]))
            self.assertEqual(rest["choices"][0]["finish_reason"], "length")
            self.assertEqual(rest["usage"]["completion_tokens"], TOKENS)
        status, _, body = self.replicas["a"].ask(
            "POST", COMPLETIONS, {**asked, "continue_answer": {"token_ids": ids[:1], "artifact": "another"}})
        self.assertEqual((status, json.loads(body)["error"]["param"]), (400, "continue_answer.artifact"))


class StandIn(Upstream):
    """Of vLLM: counts from what its prompt ends with, an id and a number a token; dies after `dies_after` of them."""

    def __init__(self, dies_after=None):
        super().__init__()
        self.dies_after, self.asked = dies_after, []
        self.paths, self.documents = {COMPLETIONS}, {"/version": {"version": "0.32.0"}}
        self.script = self.complete

    def complete(self, connection, body):
        self.asked.append(body)
        prompt = body["prompt"] if isinstance(body["prompt"], list) else [1000, 1001]
        first = prompt[-1] + 1 if prompt[-1] < 1000 else 0
        connection.sendall(head("transfer-encoding: chunked"))

        def send(document):
            data = b"data: " + (document if isinstance(document, bytes) else json.dumps(document).encode()) + b"\n\n"
            connection.sendall(b"%x\r\n%s\r\n" % (len(data), data))

        shape = {"id": f"cmpl-{id(self)}", "object": "text_completion", "created": 7, "model": "m"}
        for i in range(body["max_tokens"]):
            if i == self.dies_after:
                return  # and the connection is closed
            choice = {"index": 0, "text": f"{first + i} ", "logprobs": None, "finish_reason": None, "stop_reason": None,
                      "prompt_token_ids": None, "token_ids": None}
            if body.get("return_token_ids"):
                choice |= {"token_ids": [first + i], "prompt_token_ids": prompt if i == 0 else None}
            if i == body["max_tokens"] - 1:
                choice["finish_reason"] = "length"
            send({**shape, "choices": [choice]})
        send({**shape, "choices": [], "usage": {
            "prompt_tokens": len(prompt), "completion_tokens": body["max_tokens"],
            "total_tokens": len(prompt) + body["max_tokens"]}})
        send(b"[DONE]")
        connection.sendall(b"0\r\n\r\n")


class Vllm(unittest.TestCase):
    def run_one(self, *flags, **fields):
        first, second = StandIn(dies_after=4), StandIn()
        for each in (first, second):
            self.addCleanup(each.listener.close)
        front = Front([f"a=vllm+{first.url}", f"b=vllm+{second.url}"], "--routing-policy", "round_robin", *flags)
        self.addCleanup(front.__exit__)
        body = {"model": "m", "prompt": "count", "max_tokens": 10, **USAGE, **fields}
        for _ in range(2):  # the one that dies may be the second in turn
            stream = Stream(front, COMPLETIONS, body)
            if first.asked:
                return stream, first, second
        self.fail("the one that dies was never asked")

    def test_goes_on(self):
        stream, first, second = self.run_one("--resume-streams")
        self.assertTrue(stream.done, stream.chunks[-1])
        self.assertEqual(stream.text(), "".join(f"{i} " for i in range(10)))
        self.assertEqual(second.asked[-1]["prompt"], [1000, 1001, 0, 1, 2, 3])
        self.assertEqual(second.asked[-1]["max_tokens"], 6)
        self.assertTrue(first.asked[-1]["return_token_ids"])
        self.assertEqual(len({chunk["id"] for chunk in stream.chunks}), 1)
        self.assertEqual(stream.chunks[-1]["usage"],
                         {"prompt_tokens": 2, "completion_tokens": 10, "total_tokens": 12})
        for chunk in stream.chunks[:-1]:
            self.assertIsNone(chunk["choices"][0]["token_ids"])
            self.assertIsNone(chunk["choices"][0]["prompt_token_ids"])

    def test_not_where_a_stop_string_may_have_begun(self):
        stream, first, _ = self.run_one("--resume-streams", stop=["never"])
        self.assertFalse(stream.done)
        self.assertIn("error", stream.chunks[-1])
        self.assertNotIn("return_token_ids", first.asked[-1])


if __name__ == "__main__":
    unittest.main()
