"""Dynamo: its frontend, which routes by KV, and its simulated workers ("mockers"). Their text is random."""

import json
import os
import random
import shutil
import socket
import subprocess
import time
from pathlib import Path

from checks import GOES_ON_S, PROBE_EVERY_S, STORY, close, expect, in_schema, wait_for
from engine import DEGRADED, HONOURED, IMPOSSIBLE, Engine, free_port
from venv import make_venv
from wire import Stream, Told, ask, histogram, samples, take_events, tell, total

HERE = Path(__file__).parent
WORKERS = 2
CONTEXT = 8192
LEASE_S = 12.0  # until a worker that died is missed


def low_port():
    """A free one that fits the 16 bits with a sign which its system port has."""
    while True:
        port = random.randrange(20000, 32768)
        with socket.socket() as tried:
            if tried.connect_ex(("127.0.0.1", port)) != 0:
                return port


class Dynamo(Engine):
    name = "dynamo"
    adapter = "dynamo"
    start_s = 120
    evicts = None
    repeats = False
    endless = {}  # a mocker never ends by itself
    refuses_unknown = True
    long_tokens = 1500
    metrics_settle_s = 2
    owned = {"nvext": {"backend_instance_id": 1, "agent_hints": {"priority": 100}, "token_data": [1, 2, 3]}}
    hidden = (("GET", "/busy_threshold"), ("POST", "/busy_threshold"), ("GET", "/live"),
              ("POST", "/v1/rerank"), ("POST", "/v1/classify"), ("POST", "/v1/pooling"), ("GET", "/v1/models/smollm2/ready"))
    untold = {"embeddings"}
    limits = {
        "probe": (DEGRADED, "it serves /v1/embeddings whatever the model is, so that nothing tells whether one has any"),
        "refusals": (DEGRADED, "it answers 500, and doesn't say that the prompt is too long"),
        "tokenize": (IMPOSSIBLE, "its frontend has no tokenizer to ask"),
        "evict": (IMPOSSIBLE, "nothing there evicts"),
        "evict_exact": (IMPOSSIBLE, "nothing there evicts"),
    }
    migrations = 0  # how often a request may go on at another worker
    disaggregated = False

    def install(self):
        self.python = make_venv(self.folder, HERE / "dynamo.txt")
        self.model_folder = self.folder / "model"
        write_model(self.model_folder)
        self.system_ports = [low_port() for _ in range(WORKERS)]
        self.event_ports = [free_port() for _ in range(WORKERS)]
        self.bootstrap_port = free_port()
        self.workers = []

    def environment(self):
        # Discovery by files, no broker, and every address that it tells others on loopback.
        return {
            "DYN_DISCOVERY_BACKEND": "file", "DYN_FILE_KV": str(self.folder / "store"), "DYN_REQUEST_PLANE": "tcp",
            "DYN_EVENT_PLANE": "zmq", "DYN_TCP_RPC_HOST": "127.0.0.1", "DYN_TCP_RESPONSE_STREAM_HOST": "127.0.0.1",
            "DYN_EVENT_PLANE_HOST": "127.0.0.1", "DYN_SYSTEM_HOST": "127.0.0.1", "HF_HUB_OFFLINE": "1",
            "HOME": str(self.folder / "home"), "TOKIO_WORKER_THREADS": "1",
        }

    def command(self):
        return [self.python, "-m", "dynamo.frontend", "--http-host", "127.0.0.1", "--http-port", self.port,
                "--router-mode", "kv", "--migration-limit", self.migrations, "--enable-anthropic-api"], self.environment()

    def start_worker(self, i):
        command = [self.python, "-m", "dynamo.mocker", "--model-path", self.model_folder, "--model-name", "smollm2",
                   "--block-size", 16, "--num-gpu-blocks-override", 2048, "--max-num-seqs", 64,
                   "--max-model-len", CONTEXT, "--speedup-ratio", 1]
        if not self.disaggregated:
            command += ["--zmq-kv-events-ports", self.event_ports[i]]
        elif i == 0:
            command += ["--disaggregation-mode", "prefill", "--zmq-kv-events-ports", self.event_ports[i],
                        "--bootstrap-ports", self.bootstrap_port]
        else:
            command += ["--disaggregation-mode", "decode"]
        environment = os.environ | self.environment() | {
            "DYN_SYSTEM_PORT": str(self.system_ports[i]), "DYN_SYSTEM_USE_ENDPOINT_HEALTH_STATUS": '["generate"]'}
        with open(self.folder / f"worker{i}.log", "ab") as log:
            self.workers[i] = subprocess.Popen([str(each) for each in command], stdout=log, stderr=log,
                                               stdin=subprocess.DEVNULL, env=environment, start_new_session=True)

    def start(self):
        shutil.rmtree(self.folder / "store", ignore_errors=True)
        (self.folder / "store").mkdir()
        (self.folder / "home").mkdir(exist_ok=True)
        self.workers = [None] * WORKERS
        for i in range(WORKERS):
            self.start_worker(i)
        super().start()

    def kill_worker(self, i):
        self.workers[i].kill()
        self.workers[i].wait()

    def kill(self):
        for i, worker in enumerate(self.workers):
            if worker is not None:
                self.kill_worker(i)
        super().kill()

    def ready(self):
        reply = ask(self.address, "GET", "/v1/models/smollm2/ready", timeout=10)
        if reply.status != 200 or not reply.json["ready"]:
            return False
        kinds = [kind for each in reply.json["namespaces"].values() for kind in each["worker_types"].values()]
        return sum(kind["workers"] for kind in kinds) == WORKERS

    def version(self):
        return ask(self.address, "GET", "/openapi.json").json["info"]["version"]

    def context(self):
        return ask(self.address, "GET", "/v1/models").json["data"][0]["context_window"]

    def running(self):
        return total(self.metrics(), "dynamo_frontend_inflight_requests") or 0

    def figures(self, rows):
        def own(name, **labels):
            return total(rows, f"dynamo_frontend_{name}", **labels)

        queued = own("queued_requests") or 0
        found = {
            "num_requests_running": own("inflight_requests") - queued,
            "num_requests_waiting": queued,
            "prompt_tokens_total": own("input_sequence_tokens_sum"),
            "prefix_cache_queries_total": own("input_sequence_tokens_sum"),
            "prefix_cache_hits_total": own("cached_tokens_sum"),
            "generation_tokens_total": own("output_tokens_total"),
            "requests_total:ok": own("requests_total", status="success"),
        }
        for row, name in (("time_to_first_token_seconds", "time_to_first_token_seconds"),
                          ("inter_token_latency_seconds", "inter_token_latency_seconds"),
                          ("e2e_request_latency_seconds", "request_duration_seconds"),
                          ("request_prompt_tokens", "input_sequence_tokens"),
                          ("request_generation_tokens", "output_sequence_tokens")):
            found[row] = histogram(rows, f"dynamo_frontend_{name}")
        return found


def write_model(folder):
    """What a mocker needs of a model: a tokenizer of bytes, a template. It makes up ids 1000 to 1999: each a word."""
    folder.mkdir(exist_ok=True)
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    alphabet = [chr(b) for b in printable] + [chr(256 + i) for i in range(256 - len(printable))]
    tokens = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", *sorted(alphabet)]
    tokens += [f"\u0120w{i:04}" for i in range(len(tokens), 2048)]
    template = ("{% for message in messages %}{{'<|im_start|>' + message['role'] + '\\n' + message['content'] + "
                "'<|im_end|>\\n'}}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}")
    bytes_ = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
    special = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
    files = {
        "tokenizer": {
            "version": "1.0", "truncation": None, "padding": None, "normalizer": None, "pre_tokenizer": bytes_,
            "added_tokens": [{"id": i, "content": tokens[i], **special} for i in range(3)],
            "post_processor": None, "decoder": bytes_,
            "model": {"type": "BPE", "vocab": {token: i for i, token in enumerate(tokens)}, "merges": []}},
        "tokenizer_config": {
            "tokenizer_class": "PreTrainedTokenizerFast", "bos_token": tokens[1], "eos_token": tokens[2],
            "chat_template": template, "model_max_length": CONTEXT},
        "config": {
            "architectures": ["LlamaForCausalLM"], "model_type": "llama", "vocab_size": len(tokens), "bos_token_id": 1,
            "eos_token_id": 2, "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4,
            "num_key_value_heads": 2, "intermediate_size": 128, "max_position_embeddings": CONTEXT,
            "rms_norm_eps": 1e-5, "hidden_act": "silu", "torch_dtype": "float16", "tie_word_embeddings": True},
        "generation_config": {"bos_token_id": 1, "eos_token_id": 2},
    }
    for name, content in files.items():
        (folder / f"{name}.json").write_text(json.dumps(content, ensure_ascii=False))
    (folder / "chat_template.jinja").write_text(template)


# --- Checks of its own.


def ready(front):
    return ask(front.address, "GET", "/ready").status == 200


def governs(ride):
    """It routes, and no client's word reaches its router: a worker that isn't there would be refused."""
    engine = ride.engine
    pins = [({"x-dynamo-worker-instance-id": "1"}, {}), ({"x-worker-instance-id": "1"}, {}),
            ({}, {"nvext": {"backend_instance_id": 1}}), ({}, {"nvext": {"decode_worker_id": 1}})]
    seen = []
    with ride.front() as front:
        for headers, more in pins:
            body = ride.completion(max_tokens=2, **more)
            for address in (engine.address, front.address):
                seen.append(ask(address, "POST", "/v1/completions", body, headers=headers).status)
    expect(seen == [400, 200] * len(pins), f"itself and through fak: {seen}")
    return HONOURED, f"{len(pins)} ways to name a worker: 400 from the engine itself, 200 through fak"


def workers_gone(ride):
    """Without workers it says that it is healthy; fak isn't ready and says 503, until there are some again."""
    engine = ride.engine
    short = {"model": engine.model(), "prompt": STORY, "max_tokens": 2}
    with ride.front() as front:
        expect(ready(front), "fak isn't ready before")
        for i in range(WORKERS):
            engine.kill_worker(i)
        away = wait_for(lambda: not ready(front), LEASE_S + PROBE_EVERY_S + GOES_ON_S)
        health = ask(engine.address, "GET", "/health").status
        expect(away is not None and health == 200, f"fak not ready after {away} s; its /health {health}")
        empty = wait_for(lambda: ask(engine.address, "POST", "/v1/completions", short).status == 404, LEASE_S)
        told = tell(front.address, "/v1/completions", short)
        expect(told.status == 503 and told.error.get("type"), f"with no worker: {told}")
        for i in range(WORKERS):
            engine.start_worker(i)
        expect(wait_for(engine.ready, 60) is not None, "the workers didn't come back")
        back = wait_for(lambda: ready(front), PROBE_EVERY_S + GOES_ON_S)
        told = tell(front.address, "/v1/completions", short)
        expect(back is not None and told.status == 200, f"ready after {back} s: {told}")
    return HONOURED, (f"not ready {away:.1f} s after their kill -9, its own /health 200; 503, where it says "
                      f"{503 if empty is None else 404}; ready {back:.1f} s after they were")


def busy_worker(engine):
    for i, port in enumerate(engine.system_ports):
        rows = samples(ask(("127.0.0.1", port), "GET", "/metrics").body.decode())
        if total(rows, "dynamo_component_inflight_requests", dynamo_endpoint="generate"):
            return i
    return None


def migration(ride):
    """kill -9 of a worker in mid-stream, another takes over: the client has every token, and our metrics show it."""
    engine = ride.engine
    engine.kill()
    engine.migrations = 3
    wanted = 400
    try:
        engine.start()
        with ride.front("--metrics-scrape-interval", 1) as front:
            stream = Stream(front.address, "/v1/completions", ride.completion(
                max_tokens=wanted, stream=True, stream_options={"include_usage": True}))
            events, told = iter(stream), Told(200)
            take_events(told, [next(events) for _ in range(50)])
            engine.kill_worker(busy_worker(engine))
            take_events(told, events)
            time.sleep(2.5)  # two looks at its metrics
            rows = in_schema(front.metrics(), "engine")
    finally:
        engine.kill()
        engine.migrations = 0
    expect(told.done and told.finish == "length" and told.error is None, told)
    words = len(told.text.split())
    expect(words == told.usage["completion_tokens"] == wanted, f"{words} words, {told.usage}")
    moved = {row: value for row, value in rows.items() if row.startswith("migrations_total")}
    expect(moved == {"migrations_total:ok": 1}, moved)
    return HONOURED, f"{words} of {wanted} tokens, no error, migrations_total {moved['migrations_total:ok']:.0f}"


def roles(ride):
    """Prefill and decode apart: answers pass; the frontend and both workers are read, each under its own label worker
    and its role, with its own figures."""
    engine = ride.engine
    engine.kill()
    engine.disaggregated = True
    asked = 5
    try:
        engine.start()
        places = [engine.address, *(("127.0.0.1", port) for port in engine.system_ports)]
        flags = [word for place in places for word in ("--upstream-metrics-url", "http://{}:{}/metrics".format(*place))]
        with ride.front("--metrics-scrape-interval", 1, *flags) as front:
            answers = [tell(front.address, "/v1/chat/completions", ride.chat()) for _ in range(asked)]
            time.sleep(3.5)  # the frontend names roles first
            theirs = [histogram(samples(ask(place, "GET", "/metrics").body.decode()), name, **labels)
                      for place, (name, labels) in zip(places, [
                          ("dynamo_frontend_request_duration_seconds", {}),
                          *[("dynamo_component_request_duration_seconds", {"dynamo_endpoint": "generate"})] * WORKERS])]
            rows = [row for row in front.metrics() if row[1].get("source") == "engine"]
    finally:
        engine.kill()
        engine.disaggregated = False
    bad = [str(told) for told in answers if told.status != 200 or told.usage["completion_tokens"] != engine.tokens]
    expect(not bad, bad)
    name = "{}:{}".format(*engine.address)
    found = {}
    for worker, role, want in zip((name, f"{name}/1", f"{name}/2"), ("aggregated", "prefill", "decode"), theirs):
        own = [row for row in rows if row[1]["worker"] == worker]
        kinds = {labels["role"] for row, labels, _ in own if not row.endswith("engine_up")}
        expect(kinds == {role}, f"{worker}: roles {kinds}, {own}")
        ours = in_schema(own, "engine")
        expect(ours["engine_up"] == 1 and close(ours["e2e_request_latency_seconds"], want) and want["count"] == asked,
               f"{worker}: {ours['e2e_request_latency_seconds']}, itself {want}")
        found[role] = len(ours)
    expect({labels["worker"] for _, labels, _ in rows} == {name, f"{name}/1", f"{name}/2"}, "another worker's rows")
    return HONOURED, f"{asked} answers; rows by role, each its own worker: {found}"


Dynamo.more = {
    "governs": ("no worker of a client's choice", governs),
    "workers_gone": ("not ready while no worker is there", workers_gone),
    "migration": ("a request that another worker takes over: whole, and counted", migration),
    "roles": ("prefill and decode apart: frontend and both workers read, each with its role", roles),
}

ENGINE = Dynamo
