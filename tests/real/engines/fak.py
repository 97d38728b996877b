"""fak itself as a replica: the native engine with SmolLM2, which publishes its KV events."""

import json

from checks import GONE_WHOLE_BUSY, PARAGRAPH, cached_of, expect, in_schema
from engine import HONOURED, IMPOSSIBLE, Engine, free_port
from predictor import Predictor
from wire import ask, tell, total

BLOCK = 16  # tokens

def kv_blocks(ride):
    """The blocks that its KV events make us expect of each prompt are those that its counter counts."""
    engine, rows = ride.engine, []

    def hits():
        return total(engine.metrics(), "fak_serving_prefix_cache_hits_total") or 0

    def one(what, prompt, **more):
        ids = engine.tokens_of(prompt)
        predicted = predictor.ask(tokens=ids)["cached"]
        before = hits()
        told = tell(front.address, "/v1/completions", ride.completion(prompt=prompt, max_tokens=2, **more))
        expect(told.status == 200, f"{what}: {told}")
        rows.append((what, len(ids), predicted, int(hits() - before), cached_of(told)))

    shared = PARAGRAPH * 6
    with ride.front() as front, Predictor(ride) as predictor:
        ask(engine.address, "POST", "/v1/fak/cache/evict", {"scope": "all"})
        one("cold", shared)
        one("the same", shared)
        one("and more", shared + "On the last page stood the name of a ship.")
        one("another end", PARAGRAPH * 5 + "The quick brown fox jumps over the lazy dog.")
        one("less than a block", "The quick brown fox")
        one("less than a block, again", "The quick brown fox")
        for i in range(5):  # more than its cache holds
            one(f"a long one, {i}", f"Chapter {i}. " + PARAGRAPH * 36)
        one("after evictions", shared)
        one("the last long one", "Chapter 4. " + PARAGRAPH * 36)
        exact = {"scope": "prefix", "prompt": shared, "guarantee": "exact"}
        evicted = ask(front.address, "POST", "/v1/fak/cache/evict", exact)
        expect(evicted.status == 200, evicted)
        one("after its eviction", shared)
        one("after its eviction, again", shared)
        before = predictor.ask(tokens=[1])["cleared"]
        engine.kill()
        engine.start()
        gone = predictor.ask(tokens=engine.tokens_of(shared))
        expect(gone["cleared"] > before and gone["blocks"] == 0, f"after a restart: {gone}")
        expect(front.until_ready(200, 10) is not None, "fak isn't ready after a restart")
        one("after a restart", shared)
        one("after a restart, again", shared)
        end = predictor.ask(tokens=[1])
    # Of a block that is filled in part, and not told, it takes what fits.
    off = [row for row in rows if not (row[2] <= row[3] < row[2] + BLOCK and row[3] == row[4])]
    expect(not off, f"(request, tokens, predicted, counted, reported): {off}")
    by = {row[0]: row[3] for row in rows}
    expect(by["after evictions"] < by["the same"], f"nothing was pushed out: {by}")
    # What ends with the prompt goes; what it begins with stays.
    expect(by["the last long one"] > 0 and by["after its eviction"] < by["the same"], f"{by}")
    hit, predicted, tokens = (sum(row[i] for row in rows) for i in (3, 2, 1))
    return HONOURED, (f"{len(rows)} requests, {hit} of {tokens} tokens hit, {predicted} predicted, in whole blocks; "
                      f"{end['stored']} blocks stored, {end['removed']} removed")


class Fak(Engine):
    name = "fak"
    adapter = "fak"
    start_s = 60
    evicts = "exact"
    kv_events = True
    limits = {
        "messages": (IMPOSSIBLE, "the native engine doesn't serve /v1/messages yet"),
        "responses": (IMPOSSIBLE, "the native engine doesn't serve /v1/responses yet"),
    }
    more = {
        "gone_whole_busy": GONE_WHOLE_BUSY,
        "kv_blocks": ("hits predicted from its KV events, to less than a block", kv_blocks),
    }

    def install(self):
        endpoints = {"endpoint": f"tcp://127.0.0.1:{free_port()}", "replay_endpoint": f"tcp://127.0.0.1:{free_port()}"}
        self.events = json.dumps({"enable_kv_cache_events": True, **endpoints})

    def command(self):
        return [self.fak, "serve", "smollm2", "--port", self.port, "--threads", 1, "--max-model-len", 4096,
                "--kv-cache-memory", "128MiB", "--kv-events-config", self.events, "--log-level", "warning"], {}

    def ready(self):
        return ask(self.address, "GET", "/ready", timeout=10).status == 200

    def version(self):
        return ask(self.address, "GET", "/version").json["version"]

    def context(self):
        return ask(self.address, "GET", "/v1/models").json["data"][0]["max_model_len"]

    def running(self):
        return total(self.metrics(), "fak_serving_num_requests_running")

    def tokens_of(self, text):
        return ask(self.address, "POST", "/tokenize", {"prompt": text}).json.get("tokens")

    def resets(self):
        return ask(self.address, "POST", "/v1/fak/cache/evict", {"scope": "all"}).status == 200

    def figures(self, rows):
        found = in_schema(rows, "native")
        found.pop("engine_up")
        return found


ENGINE = Fak
