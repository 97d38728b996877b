"""Documents that are no requests: each is refused with 400 and the field at fault, and harms nobody."""

import json
import unittest

from tiny_server import CONTEXT, Server

PATHS = ("/v1/completions", "/v1/chat/completions")
GOOD = {
    "/v1/completions": {"prompt": "Hi", "max_tokens": 2},
    "/v1/chat/completions": {"messages": [{"role": "user", "content": "Hi"}], "max_tokens": 2},
}

NOT_JSON = {
    b"": "JSON",
    b"{": "JSON",
    b"hello": "JSON",
    b'{"prompt": "Hi"} trailing': "JSON",
    b'{"prompt": "Hi",}': "JSON",
    b"{'prompt': 'Hi'}": "JSON",
    b'{"prompt": NaN}': "JSON",
    b'{"prompt": "Hi", "max_tokens": 01}': "JSON",
    b'{"prompt": "\xff\xfe"}': "UTF-8",
    b'{"prompt": "\xc0\xaf"}': "UTF-8",
    b'{"prompt": "\xed\xa0\x80"}': "UTF-8",
    b'{"prompt": "a\nb"}': "JSON",
    b'{"prompt": "\\ud800 alone"}': "unpaired",
    '{"prompt": "Hi"}'.encode("utf-16"): "UTF-8",
    b"[" * 100_000: "nest",
    b'{"a":' * 200 + b"1" + b"}" * 200: "nest",
    b"[]": "object",
    b"null": "object",
    b"7": "object",
    b'"text"': "object",
}

# A field, values that it can't have.
WRONG = {
    "model": [7, [], {"a": 1}],
    "max_tokens": ["8", -1, 1.5, []],
    "temperature": ["hot", -1, 1e400, [0.5]],
    "top_p": [1.5, -0.1, "x", {}],
    "top_k": [1.5, "x", []],
    "min_p": [-1, 2, "x"],
    "presence_penalty": ["x", 1e40],
    "frequency_penalty": [[]],
    "repetition_penalty": [0, -1, 1e-38, 1e38, "x"],
    "seed": ["x", 1.5, [], 2**64],
    "n": [0, -1, 129, 1.5, "x"],
    "stop": [7, [7], ["x"] * 17, "x" * 1025, {}],
    "stop_token_ids": ["x", [1.5], [-1], [100_000], ["1"]],
    "logit_bias": [7, {"x": 1}, {"100000": 1}, {"1": "x"}, []],
    "min_tokens": [-1, "x"],
    "stream": ["yes", 1, []],
    "stream_options": ["x", 7],
    "ignore_eos": ["x", 7],
    "priority": ["x", 1.5],
    "cache_salt": [7, "x" * 257],
}


class Requests(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = Server()
        cls.addClassCleanup(cls.server.__exit__)

    def refused(self, path, body, *words, param=None, status=400):
        got, headers, answer = self.server.ask("POST", path, body)
        with self.subTest(path=path, body=str(body)[:100]):
            self.assertEqual(got, status, answer)
            error = json.loads(answer)["error"]
            for word in words:
                self.assertIn(word, error["message"])
            if param:
                self.assertTrue(str(error["param"]).startswith(param), error)
            self.assertTrue(headers["x-request-id"])
            self.assertEqual(headers["content-type"], "application/json")

    def tearDown(self):
        for path in PATHS:
            status, _, answer = self.server.ask("POST", path, GOOD[path])
            self.assertEqual(status, 200, answer)
        self.server.wait_idle()

    def test_what_is_no_json_object(self):
        for path in PATHS:
            for body, word in NOT_JSON.items():
                self.refused(path, body, word)

    def test_values_that_a_field_cannot_have(self):
        for path in PATHS:
            for field, values in WRONG.items():
                for value in values:
                    # json.dumps would write Infinity
                    text = json.dumps(value).replace("Infinity", "1e400")
                    good = json.dumps({k: v for k, v in GOOD[path].items() if k != field})
                    self.refused(path, f'{good[:-1]}, "{field}": {text}}}', param=field)

    def test_prompts(self):
        for prompt in (7, {}, [], "", [[]], ["a", 7], [1, "a"], [1.5], [None], ["x"] * 257):
            self.refused("/v1/completions", {"prompt": prompt}, param="prompt")
        for token in (-1, 303, 99_999_999):
            words = f"token {token} is outside the vocabulary of 303"
            self.refused("/v1/completions", {"prompt": [1, token]}, words, param="prompt")
        self.refused("/v1/completions", {"prompt": [2**31]}, str(2**31), param="prompt")
        self.refused("/v1/completions", {}, param="prompt")
        for logprobs in ("x", -1, 21):
            self.refused(
                "/v1/completions", {"prompt": "x", "logprobs": logprobs}, param="logprobs"
            )

    def test_messages(self):
        for messages in (7, {}, [], [7], [{}], [{"role": 7, "content": "x"}]):
            self.refused("/v1/chat/completions", {"messages": messages})
        for content in (7, {}, [7], [{"type": "text"}], [{"type": "text", "text": 7}]):
            self.refused("/v1/chat/completions", {"messages": [{"role": "user", "content": content}]})
        many = [{"role": "user", "content": "x"}] * 4097
        self.refused("/v1/chat/completions", {"messages": many}, "4096", param="messages")

    def test_a_prompt_that_is_too_long(self):
        words = (str(CONTEXT), str(CONTEXT + 1))
        self.refused("/v1/completions", {"prompt": "x" * (CONTEXT + 1)}, *words, param="prompt")
        chat = {"messages": [{"role": "user", "content": "x" * CONTEXT}]}
        self.refused("/v1/chat/completions", chat, str(CONTEXT))
        # Longer than the room left is not wrong: it is lowered.
        answer = self.server.complete(
            prompt="x" * (CONTEXT - 2), max_tokens=100_000, ignore_eos=True
        )
        self.assertEqual(answer["usage"]["total_tokens"], CONTEXT)
        self.assertEqual(answer["choices"][0]["finish_reason"], "length")

    def test_what_is_not_here(self):
        self.refused("/v1/completions", {"prompt": "x", "model": "gpt"}, "gpt", "tiny", status=404)
        for path, body in {"/tokenize": {"prompt": "x"}, "/detokenize": {"tokens": [1]}}.items():
            self.refused(path, {**body, "model": "gpt"}, "gpt", "tiny", param="model", status=404)
            self.assertEqual(self.server.ask("POST", path, {**body, "model": "tiny"})[0], 200)
        self.refused("/v1/embeddings", {"input": "x"}, "/v1/embeddings", status=404)
        self.refused("/v1/responses", {"input": "x"}, "served here", "/v1/chat/completions", status=404)
        self.refused("/v1/models", {}, "takes GET, not POST", status=405)
        image = {"type": "image_url", "image_url": {"url": "data:image/png;base64,"}}
        messages = [{"role": "user", "content": [{"type": "text", "text": "what is it?"}, image]}]
        self.refused(PATHS[1], {"messages": messages}, "takes text only",
                     param="messages[0].content[1]")
        for field, value in {
            "tools": [{"type": "function", "function": {"name": "f"}}],
            "functions": [{"name": "f"}],
            "tool_choice": "required",
            "response_format": {"type": "json_object"},
            "guided_regex": "a",
            "grammar": "root ::= x",
            "allowed_token_ids": [5],
            "bad_words": ["x"],
            "modalities": ["audio"],
            "use_beam_search": True,
            "repeat_penalty": 1.1,
            "reasoning_effort": "high",
            "store": True,
            "function_call": {"name": "x"},
            "spaces_between_special_tokens": False,
            "detokenize": False,
            "length_penalty": 2,
            "samplers": ["top_k"],
        }.items():
            self.refused(PATHS[1], {**GOOD[PATHS[1]], field: value}, param=field)
        self.refused(PATHS[0], {"prompt": "x", "suffix": "y"}, param="suffix")
        for path in PATHS:
            self.refused(path, {**GOOD[path], "stream": True, "prompt_logprobs": 1}, param="prompt_logprobs")

    def test_what_is_odd_but_well(self):
        for fields in (
            {"prompt": "nul \0 and \x7f"},
            {"prompt": "\U0001f600"},
            {"prompt": "x", "unheard_of": {"deep": [1]}},
            {"prompt": "x", "temperature": None, "stop": None, "seed": None},
            {"prompt": "x", "suffix": ""},
            {"prompt": "x", "seed": -1},
            {"prompt": "x", "store": False, "length_penalty": 1.0, "user": "u", "metadata": {"a": "b"},
             "parallel_tool_calls": True, "service_tier": "auto", "add_special_tokens": False},
        ):
            self.server.complete(max_tokens=2, **fields)
        call = {"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}
        for turn in ({"content": None, "tool_calls": [call]}, {"tool_calls": [call]}):
            messages = [{"role": "user", "content": "hi"}, {"role": "assistant", **turn},
                        {"role": "tool", "tool_call_id": "c", "content": "7"}]
            self.refused(PATHS[1], {"messages": messages}, "doesn't show tool calls",
                         param="messages[1].tool_calls")

    def test_tools_that_the_template_shows(self):
        shown = ("{{ tools | tojson if tools }}{% for m in messages %}<{{ m.role }}>{{ m.content }}"
                 "{% for c in m.tool_calls %}<tool_call>\n{\"name\": \"{{ c.function.name }}\", \"arguments\": "
                 "{{ c.function.arguments | tojson }}}</tool_call>{% endfor %}{% endfor %}")
        with Server("--trust-request-chat-template") as server:
            call = {"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}
            body = {"messages": [{"role": "user", "content": "hi"}, {"role": "assistant", "tool_calls": [call]},
                                 {"role": "tool", "tool_call_id": "c", "content": "7"}],
                    "tools": [{"type": "function", "function": {"name": "f"}}],
                    "chat_template": shown, "max_tokens": 4, "temperature": 0}
            lengths = []
            for more in ({}, {"tool_choice": "auto"}, {"tool_choice": "none"}, {"tools": None}):
                status, _, answer = server.ask("POST", PATHS[1], {**body, **more})
                self.assertEqual(status, 200, answer)
                lengths.append(json.loads(answer)["usage"]["prompt_tokens"])
            self.assertEqual(lengths[0], lengths[1])
            self.assertEqual(lengths[0], lengths[2])
            self.assertGreater(lengths[0], lengths[3])
            named = {"type": "function", "function": {"name": "f"}}
            for field, value in (("tool_choice", "required"), ("tool_choice", named), ("tool_choice", 7)):
                status, _, answer = server.ask("POST", PATHS[1], {**body, field: value})
                self.assertEqual((status, json.loads(answer)["error"]["param"]), (400, field))

    def test_tokenizer_routes(self):
        for path in ("/tokenize", "/detokenize"):
            for body in (b"{", b"[]", b"7", b'{"a":' * 200):
                self.refused(path, body)
        for tokens in ("x", [1.5], [-1], [2**40], ["1"], {}):
            self.refused("/detokenize", {"tokens": tokens}, param="tokens")
        for token in (303, 2**20):
            self.refused("/detokenize", {"tokens": [token]}, param="tokens")
        self.refused("/tokenize", {"prompt": 7}, param="prompt")


if __name__ == "__main__":
    unittest.main()
