"""vLLM on the CPU with SmolLM2, its KV events on, and the switch that serves its cache reset."""

import hashlib
import json
import os
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from checks import GOES_ON_S, PARAGRAPH, PROBE_EVERY_S, cached_of, expect, wait_for
from engine import HONOURED, IMPOSSIBLE, Engine, free_port, model_path
from predictor import Predictor
from venv import make_venv
from wire import Stream, Told, ask, error_of, histogram, take_events, tell, total

HERE = Path(__file__).parent
BLOCK = 32  # tokens; its CPU kernels take no less
SEQUENCES = 4  # at once
BLOCKS = 160  # of KV: little, so that blocks are evicted in these checks


class Vllm(Engine):
    name = "vllm"
    adapter = "vllm"
    start_s = 600
    evicts = "whole_prefix"
    kv_events = True
    limits = {
        "evict_exact": (IMPOSSIBLE, "its one call empties the whole cache"),
        "sleep_mode": (IMPOSSIBLE, "on the CPU it has none: it takes the calls without the flag, and doesn't start with it"),
    }
    extra = {"fak_unknown": {"b": 1.0, "a": [True]}, "min_tokens": 1, "repetition_penalty": 1.00}
    owned = {"kv_transfer_params": {"remote_host": "127.0.0.1", "remote_port": 1}, "ec_transfer_params": {"a": 1},
             "request_id": "chosen-by-a-client"}
    hidden = (("POST", "/reset_prefix_cache"), ("POST", "/sleep?level=1"), ("POST", "/wake_up"), ("POST", "/pause"),
              ("POST", "/resume"), ("GET", "/is_paused"), ("GET", "/server_info"), ("GET", "/load"),
              ("POST", "/collective_rpc"), ("POST", "/invocations"),
              ("POST", "/scale_elastic_ep"), ("POST", "/v1/load_lora_adapter"), ("POST", "/inference/v1/generate"),
              ("POST", "/v1/chat/completions/render"), ("POST", "/abort_requests"))
    dev_mode = True

    def install(self):
        self.python = make_venv(self.folder, HERE / "vllm.txt", "python3.11")
        self.model_folder = self.folder / "smollm2"
        if not self.model_folder.exists():
            subprocess.run([self.python, HERE.parent / "gguf_to_hf.py", model_path(self.fak, "smollm2"),
                            self.model_folder], check=True, stdout=sys.stderr)
        self.kv_port, self.replay_port = free_port(), free_port()

    def command(self):
        # It binds what holds "::" and connects to the rest: this address is loopback alone.
        events = {"enable_kv_cache_events": True, "publisher": "zmq", "topic": "kv",
                  "endpoint": f"tcp://[::ffff:127.0.0.1]:{self.kv_port}",
                  "replay_endpoint": f"tcp://127.0.0.1:{self.replay_port}"}
        environment = {
            "HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1", "VLLM_NO_USAGE_STATS": "1", "DO_NOT_TRACK": "1",
            "VLLM_CPU_KVCACHE_SPACE": "1", "VLLM_CPU_OMP_THREADS_BIND": "nobind", "OMP_NUM_THREADS": "1",
            "VLLM_SERVER_DEV_MODE": str(int(self.dev_mode)), "XDG_CACHE_HOME": str(self.folder / "cache"),
        }
        # The program `vllm` of this package looks for one of another name, and ends.
        return [self.python, "-m", "vllm.entrypoints.openai.api_server", "--model", self.model_folder,
                "--served-model-name", "smollm2", "--host", "127.0.0.1", "--port", self.port, "--dtype", "bfloat16",
                "--max-model-len", 2048, "--max-num-seqs", SEQUENCES, "--scheduling-policy", "priority",
                "--block-size", BLOCK, "--num-gpu-blocks-override", BLOCKS, "--enable-prefix-caching",
                "--enable-prompt-tokens-details", "--enforce-eager", "--kv-events-config", json.dumps(events),
                *self.flags], environment

    def ready(self):
        return ask(self.address, "GET", "/health", timeout=10).status == 200

    def version(self):
        return ask(self.address, "GET", "/version").json["version"]

    def context(self):
        return ask(self.address, "GET", "/v1/models").json["data"][0]["max_model_len"]

    def running(self):
        rows = self.metrics()
        return total(rows, "vllm:num_requests_running") + total(rows, "vllm:num_requests_waiting")

    def tokens_of(self, text):
        return ask(self.address, "POST", "/tokenize", {"prompt": text}).json.get("tokens")

    def resets(self):
        return ask(self.address, "POST", "/reset_prefix_cache").status == 200

    def sleeps(self):
        slept = ask(self.address, "POST", "/sleep?level=1").status == 200
        expect(not slept or ask(self.address, "POST", "/wake_up").status == 200, "it doesn't wake up")
        return slept

    def hits(self):
        return total(self.metrics(), "vllm:prefix_cache_hits_total")

    def core(self):
        """The process that computes, a child of the server."""
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                name, group = Path(f"/proc/{pid}/comm").read_text(), os.getpgid(int(pid))
            except OSError:
                continue
            if group == self.process.pid and name.startswith("VLLM::Engine"):
                return int(pid)
        raise AssertionError("it has no engine process")

    def figures(self, rows):
        def own(name, **labels):
            return total(rows, f"vllm:{name}", **labels)

        ends = {reason: own("request_success_total", finished_reason=reason)
                for reason in ("stop", "length", "repetition", "error")}
        found = {
            "num_requests_running": own("num_requests_running"),
            "num_requests_waiting": own("num_requests_waiting"),
            "kv_cache_usage_perc": own("kv_cache_usage_perc"),
            "prompt_tokens_total": own("prompt_tokens_total"),
            "generation_tokens_total": own("generation_tokens_total"),
            "prefix_cache_queries_total": own("prefix_cache_queries_total"),
            "prefix_cache_hits_total": own("prefix_cache_hits_total"),
            "preemptions_total": own("num_preemptions_total"),
            "requests_total:ok": ends["stop"] + ends["length"] + ends["repetition"],
            "requests_total:error": ends["error"],
        }
        for row, name in (("time_to_first_token_seconds", "time_to_first_token_seconds"),
                          ("inter_token_latency_seconds", "inter_token_latency_seconds"),
                          ("time_per_output_token_seconds", "request_time_per_output_token_seconds"),
                          ("e2e_request_latency_seconds", "e2e_request_latency_seconds"),
                          ("request_queue_time_seconds", "request_queue_time_seconds"),
                          ("request_prompt_tokens", "request_prompt_tokens"),
                          ("request_generation_tokens", "request_generation_tokens")):
            found[row] = histogram(rows, f"vllm:{name}")
        return found


# --- Checks of its own.


def embeddings(ride):
    """A model that generates has none there: fak refuses, as the engine does."""
    body = {"model": ride.engine.model(), "input": "Hello"}
    direct = ask(ride.engine.address, "POST", "/v1/embeddings", body)
    with ride.front() as front:
        through = ask(front.address, "POST", "/v1/embeddings", body)
    expect(direct.status != 200, f"the engine serves it: {direct}")
    expect(400 <= through.status < 500 and error_of(through.json).get("code"), through)
    return HONOURED, f"{through.status} {error_of(through.json)['code']}, the engine itself {direct.status}"


def salts(ride):
    """cache_salt keeps caches apart, and tenants' caches are apart whatever salt they say."""
    reset(ride)

    def cached(front, salt=None, key=None):
        body = ride.completion(prompt=PARAGRAPH * 4, max_tokens=1) | ({"cache_salt": salt} if salt else {})
        headers = {"authorization": f"Bearer {key}"} if key else None
        reply = ask(front.address, "POST", "/v1/completions", body, headers=headers)
        expect(reply.status == 200, reply)
        return reply.json["usage"]["prompt_tokens_details"]["cached_tokens"]

    with ride.front() as front:
        seen = [cached(front, salt) for salt in ("a", "a", "b", None, "b", None)]
    expect(seen[:1] + seen[2:4] == [0, 0, 0] and min(seen[1], *seen[4:]) > 0, f"salts a, a, b, -, b, -: {seen}")
    keys = ride.engine.folder / "keys.toml"
    keys.write_text("".join(f'[[key]]\nname = "{name}"\nhash = "sha256:{hashlib.sha256(name.encode()).hexdigest()}"\n'
                            for name in ("north", "south")))
    with ride.front("--keys-file", keys) as front:
        tenants = [cached(front, "a", key) for key in ("north", "north", "south", "south")]
    expect(tenants[0] == tenants[2] == 0 < min(tenants[1], tenants[3]), f"tenants north, north, south, south: {tenants}")
    return HONOURED, f"cached with salts a, a, b, -, b, -: {seen}; of two tenants with salt a: {tenants}"


def reset(ride):
    expect(ask(ride.engine.address, "POST", "/reset_prefix_cache").json == {"success": True}, "the engine was busy")


def priority(ride):
    """Behind four that run, the three that wait go by their priority and not by their order."""
    order = []
    with ride.front() as front, ThreadPoolExecutor(7) as pool:
        running = [pool.submit(tell, front.address, "/v1/completions", ride.completion(
            **ride.engine.endless, max_tokens=80 + 60 * i)) for i in range(SEQUENCES)]
        expect(ride.engine.settle(SEQUENCES, 30) is not None, "the four never ran")

        def waiting(value):
            told = tell(front.address, "/v1/completions", ride.completion(
                **ride.engine.endless, max_tokens=12, priority=value))
            order.append(value)
            return told

        waited = []
        for i, value in enumerate((5, 0, -5)):
            waited.append(pool.submit(waiting, value))
            expect(ride.engine.settle(SEQUENCES + 1 + i, 30) is not None, f"priority {value} doesn't wait")
        bad = [str(each.result()) for each in running + waited if each.result().status != 200]
    expect(not bad, bad)
    expect(order == [-5, 0, 5], f"5, 0, -5 ended in the order {order}")
    return HONOURED, "5, 0, -5, queued in this order, ended as -5, 0, 5"


def transfer(ride):
    """kv_transfer_params (hosts to connect to) stays here, and goes on once the operator allows it."""
    body = ride.chat(max_tokens=2, kv_transfer_params={"do_remote_decode": False})
    got = []
    for flags in ((), ("--allow-upstream-field", "kv_transfer_params")):
        with ride.tapped(*flags) as front:
            reply = ask(front.address, "POST", "/v1/chat/completions", body)
            expect(reply.status == 200 and "kv_transfer_params" in reply.json, reply)
            got.append(json.loads(front.tap.carrying("/v1/chat").requests()[-1][3]).get("kv_transfer_params"))
    expect(got == [None, body["kv_transfer_params"]], f"the engine got {got}")
    return HONOURED, f"removed, and with --allow-upstream-field {got[1]}"


def rank(ride):
    """A client can't choose the data-parallel rank: one that isn't there would be refused. The operator can."""
    path, headers = "/v1/chat/completions", {"x-data-parallel-rank": "3"}
    direct = ask(ride.engine.address, "POST", path, ride.chat(max_tokens=2), headers=headers)
    with ride.front() as front:
        through = ask(front.address, "POST", path, ride.chat(max_tokens=2), headers=headers)
    expect(direct.status == 400 and through.status == 200, f"itself {direct}; through fak {through}")
    told = []
    for number in (0, 3):
        with ride.tapped("--upstream-data-parallel-rank", number, kind="vllm+") as front:
            told.append(ask(front.address, "POST", path, ride.chat(max_tokens=2), headers=headers).status)
            got = front.tap.carrying(path).requests()[-1][2].get("x-data-parallel-rank")
            expect(got == str(number), f"the engine got the rank {got}")
    expect(told == [200, 400], f"the operator's ranks 0, 3: {told}")
    return HONOURED, f"a client's 3: {direct.status} from the engine itself, 200 through fak; the operator's 0, 3: {told}"


def core_killed(ride):
    """kill -9 of the process that computes: the engine's stream ends with [DONE] under 200, ours with the error."""
    engine = ride.engine
    with ride.front() as front, ThreadPoolExecutor(1) as pool:
        whole = pool.submit(tell, front.address, "/v1/completions", ride.long())
        direct, through = (Stream(address, "/v1/completions", ride.long(stream=True), timeout=60)
                           for address in (engine.address, front.address))
        streams = [iter(direct), iter(through)]
        told = [Told(200), Told(200)]
        for one, events in zip(told, streams):
            take_events(one, [next(events) for _ in range(3)])
        expect(engine.settle(3, 30) is not None, "the engine never worked on all")
        os.kill(engine.core(), signal.SIGKILL)
        for one, events in zip(told, streams):
            take_events(one, events)
        answer = whole.result(timeout=60)
    engine.kill()
    expect(told[0].done and told[0].error, f"the engine's own stream: {told[0]}")
    expect(told[1].error and told[1].error.get("type") and not told[1].done and told[1].finish is None, told[1])
    expect(not through.cut, "fak cut the stream")
    expect(answer.status in (502, 503) and answer.error.get("type"), f"the whole answer: {answer}")
    return HONOURED, f"stream: {told[1].error.get('code')} and no [DONE], where it has both; whole: {answer.status}"


def begun(front, ride, **more):
    """A stream of which three events have come: what was told, and its other events."""
    stream = Stream(front.address, "/v1/completions", ride.completion(**ride.engine.endless, stream=True, **more),
                    timeout=120)
    expect(stream.status == 200, f"status {stream.status}")
    events, told = iter(stream), Told(200)
    take_events(told, [next(events) for _ in range(3)])
    return told, events


def server_killed(ride):
    """kill -9 of its API server alone: what computes lives on, and nobody answers for it. fak says so, and is back
    after a restart."""
    engine = ride.engine
    short = ride.completion(max_tokens=2)
    with ride.front() as front:
        told, events = begun(front, ride, max_tokens=engine.long_tokens)
        core = engine.core()
        engine.process.kill()
        engine.process.wait()
        take_events(told, events)
        away = front.until_ready(503, PROBE_EVERY_S + GOES_ON_S)
        orphan = Path(f"/proc/{core}").exists()
        refused = tell(front.address, "/v1/completions", short)
        engine.kill()
        engine.start()
        back = front.until_ready(200, PROBE_EVERY_S + GOES_ON_S)
        after = tell(front.address, "/v1/completions", short)
    expect(told.error and told.error.get("type") and not told.done and told.finish is None, f"the stream: {told}")
    expect(orphan and away is not None, f"its engine process lives on: {orphan}; fak not ready after {away} s")
    expect(refused.status == 503 and refused.error.get("type"), f"while it is away: {refused}")
    expect(back is not None and after.status == 200, f"ready {back} s after the restart: {after}")
    return HONOURED, (f"stream: {told.error.get('code')}, no [DONE]; its engine process lived on; not ready after "
                      f"{away:.1f} s, ready {back:.1f} s after the restart")


def terminated(ride):
    """SIGTERM with --shutdown-timeout: the stream under way ends well, what comes later is refused with our error. Its
    process may not end: 0.32.0 was seen to wait for tasks of its own for ever, all connections closed."""
    engine = ride.engine
    engine.kill()
    engine.flags = ("--shutdown-timeout", 60)
    try:
        engine.start()
        short = ride.completion(max_tokens=2)
        with ride.front() as front:
            told, events = begun(front, ride, max_tokens=200)
            engine.process.terminate()
            time.sleep(1)
            health = ask(engine.address, "GET", "/health").status
            direct, late = (tell(address, "/v1/completions", short) for address in (engine.address, front.address))
            take_events(told, events)
            ended = wait_for(lambda: engine.process.poll() is not None, 70)
            away = front.until_ready(503, PROBE_EVERY_S + GOES_ON_S)
    finally:
        engine.kill()
        engine.flags = ()
    expect(told.done and told.finish == "length" and told.error is None, f"the stream under way: {told}")
    expect(late.status in (502, 503) and late.error.get("type"), f"a request that came later: {late}")
    expect(away is not None, "fak is ready in front of one that shuts down")
    end = "it hadn't ended after 70 s" if ended is None else f"it ended after {ended:.0f} s"
    return HONOURED, (f"the stream had its end; later: {late.status}, where it says {direct.status} and /health {health}; "
                      f"{end}")


def core_stopped(ride):
    """SIGSTOP of the process that computes: its server answers /health as ever, and streams stall. Our time-out ends
    them with an error."""
    engine, bound_s = ride.engine, 6
    core = engine.core()
    with ride.front("--request-timeout", bound_s) as front:
        started = time.monotonic()
        told, events = begun(front, ride, max_tokens=engine.long_tokens)
        os.kill(core, signal.SIGSTOP)
        try:
            health = ask(engine.address, "GET", "/health", timeout=10).status
            take_events(told, events)
            ended_s = time.monotonic() - started
        finally:
            os.kill(core, signal.SIGCONT)
    expect(engine.settle(0, 60) is not None, "it computes for a client that left")
    with ride.front() as patient:
        after = tell(patient.address, "/v1/completions", ride.completion(max_tokens=2))
    expect(told.error and told.error.get("message") and not told.done, f"the stream: {told}")
    expect(ended_s < bound_s + GOES_ON_S, f"it ended after {ended_s:.1f} s, bound {bound_s} s")
    expect(after.status == 200, f"after SIGCONT: {after}")
    return HONOURED, f"error {told.error.get('code')} after {ended_s:.1f} s, its own /health {health}; well after SIGCONT"


def sleep_mode(ride):
    """Its CPU platform has no sleep mode. Without the flag it takes the calls, as `asleep` shows."""
    engine = ride.engine
    engine.kill()
    engine.flags = ("--enable-sleep-mode",)
    said = ""
    try:
        engine.start()
    except SystemExit as refusal:
        said = str(refusal)
    finally:
        engine.kill()
        engine.flags = ()
    expect("Sleep mode is not supported on current platform" in said, f"with --enable-sleep-mode it starts: {said}")
    return IMPOSSIBLE, "with --enable-sleep-mode it doesn't start: Sleep mode is not supported on current platform"


def no_reset(ride):
    """Without VLLM_SERVER_DEV_MODE there is no cache reset: the probe says so, and evict is refused."""
    engine = ride.engine
    engine.kill()
    engine.dev_mode = False
    try:
        engine.start()
        done = subprocess.run([ride.fak, "probe", "http://{}:{}".format(*engine.address), "--json"],
                              capture_output=True, text=True, timeout=120, check=True)
        has = {each["signal"]: each["has"] for each in json.loads(done.stdout)["signals"]}
        with ride.front() as front:
            demanded, asked = (ask(front.address, "POST", "/v1/fak/cache/evict", {"scope": "all", **more})
                               for more in ({"guarantee": "whole_prefix"}, {}))
    finally:
        engine.kill()
        engine.dev_mode = True
    expect(has["cache_reset"] is False and has["kv_events"] is True, has)
    error = error_of(demanded.json)
    expect(demanded.status == 400 and "VLLM_SERVER_DEV_MODE" in error["message"], demanded)
    expect(asked.status == 200 and asked.json["results"][0]["guarantee"] == "none", asked)
    return HONOURED, f"{demanded.status}: {error['message']}"


def asleep(ride):
    """Paused or asleep it answers /health with 200, and requests wait: fak isn't ready, until it is awake."""
    engine, seen = ride.engine, []
    with ride.front() as front:
        for rest, wake, whom in (("/pause", "/resume", engine), ("/sleep?level=1", "/wake_up", engine),
                                 ("/v1/fak/upstream/sleep", "/v1/fak/upstream/wake", front)):
            expect(ask(front.address, "GET", "/ready").status == 200, "fak isn't ready before")
            expect(ask(whom.address, "POST", rest).status == 200, f"POST {rest} was refused")
            away = wait_for(lambda: ask(front.address, "GET", "/ready").status == 503, PROBE_EVERY_S + GOES_ON_S)
            health = ask(engine.address, "GET", "/health").status
            expect(ask(whom.address, "POST", wake).status == 200, f"POST {wake} was refused")
            back = wait_for(lambda: ask(front.address, "GET", "/ready").status == 200, PROBE_EVERY_S + GOES_ON_S)
            expect(away is not None, f"{rest}: fak is ready all the time")
            expect(health == 200 and back is not None, f"{rest}: /health {health}, ready after {wake}: {back}")
            told = tell(front.address, "/v1/chat/completions", ride.chat())
            expect(told.status == 200 and told.text, f"after {wake}: {told}")
            seen.append(f"{rest}: not ready after {away:.1f} s, and {back:.1f} s after {wake} again")
    return HONOURED, "; ".join(seen)


# --- KV events.


def kv_hits(ride):
    """What the engine's KV events make us expect of each request's prompt is what its counter then counts."""
    engine = ride.engine
    rows = []  # (what, tokens, predicted, counted)

    def tokens(**of):
        return ask(engine.address, "POST", "/tokenize", {"model": engine.model(), **of}).json["tokens"]

    def counters():
        found = engine.metrics()
        return [total(found, f"vllm:prefix_cache_{name}_total") for name in ("queries", "hits")]

    def one(what, ids, salt=None, chat=None, max_tokens=2):
        """One request through fak; its answer's text."""
        said = predictor.ask(tokens=ids, **({"cache_salt": salt} if salt else {}))
        body = {"model": engine.model(), "temperature": 0, "max_tokens": max_tokens}
        body |= {"messages": chat} if chat else {"prompt": ids}
        body |= {"cache_salt": salt} if salt else {}
        before = counters()
        told = tell(front.address, "/v1/chat/completions" if chat else "/v1/completions", body)
        expect(told.status == 200, f"{what}: {told}")
        counted = wait_for(lambda: counters()[0] - before[0] >= len(ids), 10)
        expect(counted is not None and counters()[0] - before[0] == len(ids),
               f"{what}: {counters()[0] - before[0]} tokens were looked up, the prompt has {len(ids)}")
        rows.append((what, len(ids), said["cached"], int(counters()[1] - before[1]), cached_of(told)))
        return told.text

    shared = tokens(prompt=PARAGRAPH * 6)
    tail = tokens(prompt="On the last page stood the name of a ship that nobody had seen.")
    fox = tokens(prompt="The quick brown fox jumps over the lazy dog.")
    whole = shared[:4 * BLOCK]
    chat = [{"role": "user", "content": PARAGRAPH + "Write a long story about this book."}]
    with ride.front() as front, Predictor(ride) as predictor:
        # What was before it learns by replay; the reset comes with the next request, and everything before it then.
        reset(ride)
        tell(engine.address, "/v1/completions", ride.completion(prompt=fox, max_tokens=1))
        expect(wait_for(lambda: predictor.ask(tokens=shared)["cleared"] > 0, 30) is not None, "the reset was never told")
        one("cold", shared)
        one("the same", shared)
        one("and more", shared + tail)
        one("another end", shared[:5 * BLOCK + 7] + fox)
        one("four whole blocks, all cached", whole)
        one("less than a block", fox)
        one("less than a block, again", fox)
        one("salt a", shared, salt="a")
        one("salt a, again", shared, salt="a")
        one("salt b", shared, salt="b")
        one("no salt", shared)
        answer = one("a chat", tokens(messages=chat), chat=chat, max_tokens=80)
        chat += [{"role": "assistant", "content": answer}, {"role": "user", "content": "And then?"}]
        one("its second turn, answer included", tokens(messages=chat), chat=chat)
        for i in range(5):  # more than its cache holds
            one(f"a long one, {i}", tokens(prompt=f"Chapter {i}. " + PARAGRAPH * 36))
        one("after evictions", shared)
        one("the second turn, after evictions", tokens(messages=chat), chat=chat)
        one("the last long one", tokens(prompt="Chapter 4. " + PARAGRAPH * 36))
        cleared = predictor.ask(tokens=shared)["cleared"]
        evicted = ask(front.address, "POST", "/v1/fak/cache/evict", {"scope": "all", "guarantee": "whole_prefix"})
        expect(evicted.status == 200, evicted)
        silent = predictor.ask(tokens=shared)
        # It tells of a reset with its next step: until then, whoever asked for it has to know.
        expect(silent["cleared"] == cleared and silent["cached"] > 0, f"after the reset: {silent}")
        predictor.ask(forget=True)
        one("after a reset", shared)
        told = predictor.ask(tokens=shared)
        expect(told["cleared"] == cleared + 1, f"the reset was never told: {told}")
        one("after a reset, again", shared)
        one("salt a, after a reset", shared, salt="a")
        engine.kill()
        engine.start()
        gone = predictor.ask(tokens=shared)
        expect(gone["cleared"] > told["cleared"] and gone["blocks"] == 0, f"after a restart: {gone}")
        one("after a restart", shared)
        one("after a restart, again", shared)
        end = predictor.ask(tokens=shared)
    off = [row for row in rows if not row[2] == row[3] == row[4]]
    expect(not off, f"(request, tokens, predicted, counted, reported): {off}")
    by = {row[0]: row[3] for row in rows}
    expect(by["after evictions"] < by["no salt"] and by["the last long one"] > 0, f"nothing was evicted: {by}")
    return HONOURED, (f"{len(rows)} requests, {sum(row[3] for row in rows)} of {sum(row[1] for row in rows)} tokens hit, "
                      f"all predicted; {end['stored']} blocks stored, {end['removed']} removed, {end['cleared']} times "
                      "cleared")


Vllm.more = {
    "embeddings": ("`/v1/embeddings` of a model that only generates: refused, as there", embeddings),
    "salts": ("`cache_salt` and tenants keep caches apart", salts),
    "priority": ("`priority` orders what waits", priority),
    "transfer": ("`kv_transfer_params` only where allowed", transfer),
    "rank": ("the data-parallel rank is the operator's choice, no client's", rank),
    "asleep": ("not ready while it sleeps or is paused", asleep),
    "sleep_mode": ("sleep with `--enable-sleep-mode`, which gives its memory back", sleep_mode),
    "kv_hits": ("hits predicted from its KV events are those that it counts", kv_hits),
    "core_killed": ("`kill -9` of its engine process: an error, where it says `[DONE]`", core_killed),
    "server_killed": ("`kill -9` of its API server alone: not ready, and back after a restart", server_killed),
    "terminated": ("SIGTERM with `--shutdown-timeout`: what runs ends well, what comes is refused", terminated),
    "core_stopped": ("SIGSTOP of its engine process: an error within `--request-timeout`", core_stopped),
    "no_reset": ("without its development mode: no reset, and said so", no_reset),
}

ENGINE = Vllm
