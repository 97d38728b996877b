"""The same request gives the same log probabilities, to the last digit, alone and among 15 others, cold and from
the prefix cache, whole and in small chunks, streamed and not. fak prints them so that every f32 has its own text,
so equal text is equal bits.

usage: same_bits.py FAK [MODEL]"""
import json
import sys
import time

from served import Server, events

fak = sys.argv[1]
model = sys.argv[2:3]

NOTES = " ".join(f"In year {1900 + 7 * i} the ship carried {13 * i % 90} crates of tea to port {i}." for i in range(6))
TARGETS = {
    "chat, greedy, whole": ("/v1/chat/completions", {
        "messages": [{"role": "user", "content": NOTES + " Sum up these notes."}],
        "max_tokens": 8, "ignore_eos": True, "temperature": 0, "logprobs": True, "top_logprobs": 5}),
    "completion, drawn, streamed": ("/v1/completions", {
        "prompt": NOTES + " After that year", "max_tokens": 8, "ignore_eos": True, "temperature": 0.9, "seed": 7,
        "logprobs": 4, "stream": True, "stream_options": {"include_usage": True}}),
}
OTHERS = 15
failed = False


def report(good, what):
    global failed
    failed = failed or not good
    print(("ok     " if good else "FAILED ") + what, flush=True)


def ask(server, target, **changes):
    """What the tokens are and their numbers as text, and how many prompt tokens came from the cache."""
    path, body = TARGETS[target]
    answer = server.post(path, {**body, **changes})
    parts = list(events(answer)) if body.get("stream") else [answer.read()]
    said, usage = [], None
    for part in parts:
        document = json.loads(part, parse_float=str, parse_int=str)  # numbers as they were printed
        usage = document.get("usage") or usage
        for choice in document["choices"]:
            numbers = choice["logprobs"]
            if numbers is None:
                continue
            if "content" in numbers:
                said += [(t["token"], t["logprob"], [(o["token"], o["logprob"]) for o in t["top_logprobs"]])
                         for t in numbers["content"]]
            else:
                said += zip(numbers["tokens"], numbers["token_logprobs"],
                            [list(top.items()) for top in numbers["top_logprobs"]])
    if len(said) != body["max_tokens"]:
        raise SystemExit(f"{target}: {len(said)} tokens with log probabilities, {body['max_tokens']} expected")
    return said, int(usage["prompt_tokens_details"]["cached_tokens"])


class Others:
    """15 long requests that are being answered: of all lengths, every second streamed, every third beginning as
    the targets do. Leaves by hanging up."""

    def __init__(self, server, salt):
        self.server = server
        self.connections = []
        for i in range(OTHERS):
            prompt = NOTES[:len(NOTES) * (i + 2) // 20] if i % 3 == 0 else f"Story {i}: " + "and so " * (3 * i)
            body = {"prompt": prompt, "max_tokens": 1000, "ignore_eos": True, "temperature": 1.0,
                    "cache_salt": salt, "stream": i % 2 == 0}
            self.connections.append(server.send("/v1/completions", body))

    def running(self):
        return int(float(self.server.metric("fak_serving_num_requests_running")))

    def all_run(self, seconds):
        """The gauge moves once a step: a request that has its answer may be counted for a moment longer."""
        end = time.monotonic() + seconds
        while self.running() != OTHERS:
            if time.monotonic() > end:
                return False
            time.sleep(0.05)
        return True

    def __enter__(self):
        if not self.all_run(120):
            raise SystemExit(f"{self.running()} other requests run, {OTHERS} expected")
        return self

    def __exit__(self, *_):
        report(self.all_run(5), f"  {OTHERS} others ran before and after")
        for connection in self.connections:
            connection.close()


def check(server, name, references):
    """Alone and among others, cold and not; the first server's first answers are the references."""
    for target in TARGETS:
        salt = target + name
        cold, cached = ask(server, target, cache_salt=salt)
        if target not in references:
            references[target] = cold
        expected = references[target]
        report(cold == expected and cached == 0, f"{name}: {target}: alone, cold")
        again, cached = ask(server, target, cache_salt=salt)
        report(again == expected and cached > 60, f"{name}: {target}: alone, {cached} tokens from the cache")
        with Others(server, salt + " crowd"):
            for name_of_salt, other_salt, from_cache in [
                ("cold", salt + " anew", False),
                ("cached", salt, True),
                ("on a prefix of theirs", salt + " crowd", "prompt" in TARGETS[target][1]),
            ]:
                among, cached = ask(server, target, cache_salt=other_salt)
                report(among == expected and (cached > 60) == from_cache,
                       f"{name}: {target}: among {OTHERS} others, {name_of_salt}, {cached} tokens from the cache")


def control(server, references):
    """What must differ, does: so that a comparison of nothing can't pass."""
    prompt = TARGETS["completion, drawn, streamed"][1]["prompt"]
    for name, target, changes in [
        ("another word", "completion, drawn, streamed", {"prompt": prompt.replace("year 1900", "year 1901")}),
        ("another seed", "completion, drawn, streamed", {"seed": 8}),
        ("a higher temperature", "completion, drawn, streamed", {"temperature": 1.5}),
    ]:
        report(ask(server, target, **changes)[0] != references[target], f"control: {name} differs")


references = {}
with Server(fak, *model, "--max-model-len", "2048") as server:
    check(server, "as it comes", references)
    control(server, references)
with Server(fak, *model, "--max-model-len", "2048", "--max-num-batched-tokens", "24", "--max-num-seqs", "24",
            "--threads", "3") as server:
    check(server, "24 rows a step, 3 threads", references)
with Server(fak, *model, "--max-model-len", "2048", "--kv-cache-dtype", "bf16") as server:
    for target, expected in references.items():
        report(ask(server, target)[0] != expected, f"control: {target}: bf16 KV differs")
sys.exit(failed)
