"""llama.cpp's llama-server with SmolLM2, built by tools/peers/llama.cpp."""

import contextlib
import subprocess

import checks
from engine import DEGRADED, IMPOSSIBLE, ROOT, Engine, model_path
from wire import ask, total


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
    row = evicted.json["results"][0]
    checks.expect(row["guarantee"] == "none" and "--slot-save-path" in row["call"], row)
    return IMPOSSIBLE, row["call"]


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
        "evict_off": ("evict, without `--slot-save-path`", evict_off),
    }
    owned = {"id_slot": 3, "slot_id": 3}
    hidden = (("GET", "/slots"), ("GET", "/props"), ("POST", "/props"), ("POST", "/slots/0?action=erase"),
              ("POST", "/slots/0?action=save"), ("POST", "/completion"), ("POST", "/infill"),
              ("POST", "/apply-template"), ("POST", "/v1/rerank"), ("POST", "/lora-adapters"))

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
