"""llama.cpp's llama-server with SmolLM2, built by tools/peers/llama.cpp."""

import contextlib
import json
import subprocess

import checks
from checks import QUESTION
from engine import DEGRADED, HONOURED, IMPOSSIBLE, ROOT, Engine, model_path
from wire import ask, tell, total


def evict_slots(ride):
    """Without a cache in RAM the erased slots are all there was."""
    with variant(ride, "--slot-save-path", ride.engine.folder, "--cache-ram", 0) as other:
        return checks.evict(other)


def evict_off(ride):
    """Without --slot-save-path it erases nothing, the probe says so, and no call is made."""
    with variant(ride) as other:
        reply = ask(other.engine.address, "POST", "/slots/0?action=none")
        checks.expect(reply.status == 501, f"action=none: {reply}")
        checks.probe(other)
        with other.front() as front:
            evicted = ask(front.address, "POST", "/v1/fak/cache/evict", {"scope": "all"})
            saved = on_slot(front, "save", 0, file="x.bin")
    checks.expect(saved.status == 400 and saved.json["results"][0]["status"] == "refused", saved)
    row = evicted.json["results"][0]
    checks.expect(row["guarantee"] == "none" and "--slot-save-path" in row["call"], row)
    return IMPOSSIBLE, row["call"]


def on_slot(front, action, slot, **more):
    return ask(front.address, "POST", f"/v1/fak/upstream/slot/{action}", {"slot": slot, **more})


def slots(ride):
    """What a slot holds is written to a file and read back; a slot that isn't there and a path are refused."""
    body = ride.completion(prompt=checks.PARAGRAPH * 8, max_tokens=2)
    with variant(ride, "--slot-save-path", ride.engine.folder, "--cache-ram", 0) as other:
        address = other.engine.address
        with other.front() as front:

            def cached():
                told = tell(front.address, "/v1/completions", body)
                checks.expect(told.status == 200, told)
                return checks.cached_of(told)

            def act(action, **more):
                reply = on_slot(front, action, slot, **more)
                checks.expect(reply.status == 200 and reply.json["results"][0]["status"] == "done", reply)
                return reply.json["results"][0]["tokens"]

            cold = cached()
            slot = next(each["id"] for each in ask(address, "GET", "/slots").json if each.get("n_prompt_tokens"))
            saved = act("save", file="warm.bin")
            erased = act("erase")
            emptied = cached()
            act("erase")
            restored = act("restore", file="warm.bin")
            warm = cached()
            refused = [on_slot(front, "save", 99, file="x.bin"), on_slot(front, "save", 0, file="../x.bin"),
                       on_slot(front, "restore", 0, file="never-saved.bin")]
            beyond = ask(address, "POST", "/slots/99?action=erase")
    checks.expect(cold == emptied == 0 < warm, f"cached cold, after the erasure, after the restoration: {cold}, "
                  f"{emptied}, {warm}")
    checks.expect(saved == restored == erased, f"tokens saved {saved}, restored {restored}, erased {erased}")
    checks.expect([reply.status for reply in refused] == [400] * 3, *refused)
    return HONOURED, (f"{saved} tokens saved and restored, {warm} of them found; slot 99 of 4: 400, where it says "
                      f"{beyond.status}")


def apply_template(ride):
    """The prompt that it makes of a chat, as it says it itself."""
    path, body = "/apply-template", {"messages": QUESTION}
    with ride.tapped() as front:
        through = ask(front.address, "POST", path, body | ride.engine.owned)
        sent = json.loads(front.tap.carrying(path).requests()[-1][3])
        empty = ask(front.address, "POST", path, {})
    direct = ask(ride.engine.address, "POST", path, body)
    checks.expect(through.status == 200 and through.json == direct.json, f"{through}, the engine itself {direct}")
    checks.expect(sent == body and empty.status == 400, f"the engine got {sent}; without messages: {empty}")
    return HONOURED, f"{through.json['prompt'][:50]!r}"


def timings(ride):
    """timings reach the client; the tokens that its prompt cache had are hits of ours, in streams too."""
    path, found = "/v1/chat/completions", []
    with ride.front() as front:
        for more in ({}, {}, {"stream": True, "stream_options": {"include_usage": True}}):
            told = tell(front.address, path, ride.chat(max_tokens=2, **more))
            said = [chunk["timings"]["cache_n"] for chunk in told.chunks if "timings" in chunk]
            checks.expect(said and said[-1] == checks.cached_of(told), f"cache_n {said}: {told}")
            found.append(said[-1])
        hits = checks.in_schema(front.metrics(), "gateway").get("prefix_cache_hits_total")
    checks.expect(found[1] > 0 and found[2] > 0 and hits == sum(found), f"cache_n {found}, hits {hits}")
    return HONOURED, f"cache_n {found}, as in usage; {hits:.0f} hits counted"


@contextlib.contextmanager
def variant(ride, *flags):
    """The same server started in another way."""
    engine = LlamaCpp(ride.engine.folder, ride.engine.fak)
    engine.programs, engine.model_file, engine.flags = ride.engine.programs, ride.engine.model_file, flags
    try:
        engine.start()
        yield checks.Ride(engine, ride.fak)
    finally:
        engine.kill()


class LlamaCpp(Engine):
    name = "llama.cpp"
    adapter = "llamacpp"
    evicts = "none"
    # Each look at its figures puts off by a second that it notices a client that left.
    look_every_s = 1.5
    pushes_out = 4  # slots: what they held goes to its cache in RAM
    limits = {
        "evict_off": (IMPOSSIBLE, "without `--slot-save-path` it answers 501 to every action on a slot"),
        "gone_whole_busy": (DEGRADED, "it looks for its client after a second in which nobody's request had a result"),
        "evict": (DEGRADED, "it erases its slots; what its cache in RAM (`--cache-ram`) holds comes back"),
        "evict_exact": (IMPOSSIBLE, "it erases slots, whole"),
    }
    more = {
        "gone_whole_busy": checks.GONE_WHOLE_BUSY,
        "evict_slots": ("evict, with `--cache-ram 0`", evict_slots),
        "evict_off": ("evict and slots, without `--slot-save-path`", evict_off),
        "slots": ("a slot saved, erased and restored: warm, cold, warm", slots),
        "apply_template": ("`/apply-template` passes", apply_template),
        "timings": ("`timings` pass, and what its prompt cache had is counted", timings),
    }
    owned = {"id_slot": 3, "slot_id": 3}
    hidden = (("GET", "/slots"), ("GET", "/props"), ("POST", "/props"), ("POST", "/slots/0?action=erase"),
              ("POST", "/slots/0?action=save"), ("POST", "/slots/0?action=restore"), ("POST", "/completion"),
              ("POST", "/infill"), ("POST", "/v1/rerank"), ("POST", "/lora-adapters"))

    def install(self):
        done = subprocess.run([ROOT / "tools/peers/llama.cpp"], stdout=subprocess.PIPE, text=True, check=True)
        self.programs = done.stdout.strip()
        self.model_file = model_path(self.fak, "smollm2")
        self.flags = ("--slot-save-path", self.folder)

    def command(self):
        # A long prompt is cancelled between batches, and all others wait for that: hence -b.
        return [f"{self.programs}/llama-server", "-m", self.model_file, "--alias", "smollm2", "--host", "127.0.0.1",
                "--port", self.port, "-t", 1, "-c", 8192, "-np", 4, "-b", 256, "--metrics", "--slots", "--props",
                "--jinja", *self.flags], {}

    def ready(self):
        return ask(self.address, "GET", "/health", timeout=10).status == 200

    def props(self):
        return ask(self.address, "GET", "/props").json

    def version(self):
        return self.props()["build_info"]

    def context(self):
        return self.props()["default_generation_settings"]["n_ctx"]

    def running(self):
        rows = self.metrics()
        return total(rows, "llamacpp:requests_processing") + total(rows, "llamacpp:requests_deferred")

    def tokens_of(self, text):
        body = {"content": text, "add_special": True, "parse_special": True}
        return ask(self.address, "POST", "/tokenize", body).json["tokens"]

    def resets(self):
        return ask(self.address, "POST", "/slots/0?action=erase").status == 200

    def saves_slots(self):
        return ask(self.address, "POST", "/slots/0?action=save", {"filename": "probe.bin"}).status == 200

    def renders(self):
        return "prompt" in (ask(self.address, "POST", "/apply-template", {"messages": QUESTION}).json or {})

    def figures(self, rows):
        def own(name):
            return total(rows, f"llamacpp:{name}")

        # Its prompt tokens are those that it computed.
        prompt = own("prompt_tokens_total") + own("prompt_tokens_cached_total")
        return {
            "num_requests_running": own("requests_processing"),
            "num_requests_waiting": own("requests_deferred"),
            "prompt_tokens_total": prompt,
            "prefix_cache_queries_total": prompt,
            "prefix_cache_hits_total": own("prompt_tokens_cached_total"),
            "generation_tokens_total": own("tokens_predicted_total"),
            "spec_decode_draft_tokens_total": own("spec_decode_num_draft_tokens_total"),
            "spec_decode_accepted_tokens_total": own("spec_decode_num_accepted_tokens_total"),
        }


ENGINE = LlamaCpp
