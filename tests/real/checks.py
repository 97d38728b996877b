"""What is checked of every engine behind fak: CHECKS, in order. A check returns (verdict, what was seen), or
raises Failed. `ride` is a Ride: the engine, and fak in front of it."""

import http.client
import json
import re
import socket
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from engine import DEGRADED, HONOURED, IMPOSSIBLE
from serving import Serving
from wire import Stream, Tap, Told, ask, error_of, samples, take_events, tell, total

CLOSES_WITHIN_MS = 100
PROBE_EVERY_S = 5.0
PROBE_TIMEOUT_S = 10.0
GOES_ON_S = 2.0  # allowed beside the interval, on a busy machine
LOAD = 50

QUESTION = [{"role": "user", "content": "What is the capital of France? Answer with one sentence."}]
STORY = "Once upon a time, in a small village by the sea, there lived"
PARAGRAPH = ("The keeper of the lighthouse wrote down every ship that passed, its name and its colours, the hour and "
             "the wind, and closed the book when the lamp was lit. ")


class Failed(Exception):
    pass


def expect(holds, *what):
    if not holds:
        raise Failed(" ".join(str(each) for each in what))


def wait_for(holds, within_s):
    """Seconds until it holds, or None."""
    started = time.monotonic()
    while time.monotonic() < started + within_s:
        if holds():
            return time.monotonic() - started
        time.sleep(0.05)
    return None


class Front(Serving):
    """`fak serve --upstream` before the engine, through a Tap if there is one."""

    def __init__(self, ride, tap=None, flags=(), kind=""):
        self.tap = tap
        host, port = tap.address if tap else ride.engine.address
        super().__init__(ride.fak, "--log-level", "warning", "--upstream", f"{kind}http://{host}:{port}",
                         *ride.engine.fak_flags, *flags)
        expect(self.until_ready(200, 30) is not None, "fak did not get ready: " + "\n".join(self.log))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.tap:
            self.tap.__exit__()
        status = self.end()
        self.close()
        expect(status == 0, f"fak ended with status {status}:", "\n".join(self.log)[-500:])

    def until_ready(self, status, within_s):
        """Seconds until GET /ready answers with that status, or None."""
        return wait_for(lambda: ask(self.address, "GET", "/ready").status == status, within_s)

    def metrics(self):
        return samples(ask(self.address, "GET", "/metrics").body.decode())


class Ride:
    def __init__(self, engine, fak):
        self.engine = engine
        self.fak = fak
        self.loaded = None

    def front(self, *flags):
        return Front(self, flags=flags)

    def tapped(self, *flags, kind=""):
        return Front(self, Tap(self.engine.address), flags, kind)

    def chat(self, **more):
        return {"model": self.engine.model(), "messages": QUESTION, "temperature": 0, "max_tokens": self.engine.tokens,
                **more}

    def completion(self, **more):
        return {"model": self.engine.model(), "prompt": STORY, "temperature": 0, "max_tokens": self.engine.tokens,
                **more}

    def long(self, **more):
        return self.completion(**self.engine.endless, max_tokens=self.engine.long_tokens, **more)


# --- What it is.

SURFACES = {
    "messages": ("/v1/messages", {"max_tokens": 1, "messages": QUESTION}),
    "responses": ("/v1/responses", {"max_output_tokens": 16, "input": "Hello"}),
    "embeddings": ("/v1/embeddings", {"input": "Hello"}),
}


def serves(engine, surface):
    path, body = SURFACES[surface]
    return ask(engine.address, "POST", path, {"model": engine.model(), **body}).status == 200


def probe(ride):
    """fak probe says what the engine itself says, and a signal is there when a real request is answered."""
    engine = ride.engine
    host, port = engine.address
    done = subprocess.run([ride.fak, "probe", f"http://{host}:{port}", "--json"], capture_output=True, text=True,
                          timeout=120)
    expect(done.returncode == 0, "fak probe:", done.stderr)
    found = json.loads(done.stdout)
    says = {"engine": found["engine"], "version": found["version"], "models": found["models"],
            "context": found.get("context_length", 0)}
    is_so = {"engine": engine.adapter, "version": engine.version(), "models": engine.models(),
             "context": engine.context()}
    signals = {each["signal"]: each["has"] for each in found["signals"]}
    # Our own requests, with bodies that ask for something, and not those that the probe makes.
    has = {
        "metrics": bool(engine.metrics()) and engine.metrics_address == engine.address,
        "kv_events": engine.kv_events,
        "tokenizer": engine.tokens_of("fak") is not None,
        "cache_reset": engine.resets(),
        "sleep": engine.sleeps(),
        "slots": engine.saves_slots(),
        "apply_template": engine.renders(),
        "abort": not {"gone_stream", "gone_whole", "gone_whole_busy"} & set(engine.limits),
        **{surface: serves(engine, surface) for surface in SURFACES},
    }
    for name, (ours, theirs) in {key: (says[key], is_so[key]) for key in says}.items():
        expect(ours == theirs, f"{name}: the probe says {ours!r}, the engine {theirs!r}")
    untold = {name for name, yes in signals.items() if yes is None}
    expect(untold == engine.untold, f"can't be told: {untold}, and should be {engine.untold}")
    wrong = {name for name in (signals.keys() | has.keys()) - untold if signals.get(name) != has.get(name)}
    expect(not wrong, f"the probe says {signals}, it is {has}")
    asked = {name for name in ("version", "models", "context_length") if found.get(name)}
    expect(set(found["asked"]) == asked, f"the probe names what it asked for {found['asked']}, and found {asked}")
    there = [name for name, yes in signals.items() if yes]
    seen = (f"{says['engine']} {says['version'] or 'of no version'}, context {says['context'] or 'not said'}; "
            f"has {', '.join(there) or 'no signal'}")
    return (DEGRADED, f"{seen}; can't be told: {', '.join(untold)}") if untold else (HONOURED, seen)


# --- Answers.


def same_answer(path, make, stream):
    def check(ride):
        """Text (where it is the same each time), finish reason, usage and the names of members are the engine's own."""
        body = make(ride)
        if stream:
            body |= {"stream": True, "stream_options": {"include_usage": True}}
        tell(ride.engine.address, path, body)  # so that both find the cache in the same state
        direct = tell(ride.engine.address, path, body)
        expect(direct.status == 200 and direct.text, "the engine itself:", direct)
        with ride.front() as front:
            through = tell(front.address, path, body)
        expect(through.text, through)
        for part in ("status", "finish", "done") + (("text",) if ride.engine.repeats else ()):
            ours, theirs = getattr(through, part), getattr(direct, part)
            expect(ours == theirs, f"{part}: {ours!r}, from the engine itself {theirs!r}")
        counts = ("prompt_tokens", "completion_tokens", "total_tokens")
        for name in counts:
            ours, theirs = ((told.usage or {}).get(name) for told in (through, direct))
            expect(ours == theirs, f"{name}: {ours}, from the engine itself {theirs}")
        names = [{key for chunk in told.chunks for key in chunk} for told in (through, direct)]
        expect(names[0] == names[1], f"members: {names[0] ^ names[1]}")
        parts = f"{len(through.chunks)} chunks" if stream else "one document"
        return HONOURED, f"{through.text[:40]!r}, {through.finish}, {parts}"

    return check


def untouched(ride):
    """Unknown fields, order, white space and the text of numbers reach the engine; its bytes reach the client."""
    engine = ride.engine
    extra = json.dumps(engine.extra)[1:-1]
    body = (f'{{"max_tokens":4 , "temperature": 0.0,\n "model":{json.dumps(engine.model())},'
            f'"messages":[{{"content":"h\\u0069","role":"user"}}],{extra}}}').encode()
    with ride.tapped() as front:
        reply = ask(front.address, "POST", "/v1/chat/completions", body)
        passage = front.tap.carrying("/v1/chat/completions")
        sent = passage.requests()[-1][3]
        raw = bytes(passage.got)
    expect(sent == engine.edited(body), f"the engine got {sent!r}")
    if engine.refuses_unknown:
        direct = ask(engine.address, "POST", "/v1/chat/completions", body)
        expect(reply.status == direct.status == 400, f"status {reply.status}, from the engine itself {direct.status}")
        expect(error_of(direct.json)["message"] in error_of(reply.json)["message"], reply)
        return HONOURED, f"it refuses unknown fields, and the client reads so: {error_of(reply.json)['message'][:60]}"
    expect(reply.status == 200, reply)
    expect(reply.body.strip() in raw, f"not the engine's own bytes: {reply.body[:200]!r}")
    return HONOURED, f"{len(body)} bytes as sent, {len(reply.body)} bytes as answered"


def usage(ride):
    """A stream's usage goes to the clients that asked for it, and we ask for all."""
    path = "/v1/chat/completions"
    with ride.tapped() as front:
        whole = tell(front.address, path, ride.chat())
        asked = tell(front.address, path, ride.chat(stream=True, stream_options={"include_usage": True}))
        silent = tell(front.address, path, ride.chat(stream=True))
        sent = json.loads(front.tap.carrying(path).requests()[-1][3])
    expect(whole.usage and whole.usage["completion_tokens"] > 0, "no usage in a whole answer:", whole)
    for name in ("prompt_tokens", "completion_tokens"):
        streamed = (asked.usage or {}).get(name)
        expect(streamed == whole.usage[name], f"{name} streamed: {streamed}, whole {whole.usage[name]}")
    expect(silent.usage is None, f"usage {silent.usage} went to a client that didn't ask")
    expect(not any(chunk.get("choices") == [] for chunk in silent.chunks), "a chunk without choices went to it")
    expect(sent["stream_options"]["include_usage"] is True, f"we didn't ask: {sent}")
    return HONOURED, f"{whole.usage['prompt_tokens']} + {whole.usage['completion_tokens']} tokens, streamed and not"


def surface(name):
    def check(ride):
        """Served: the same text and the same kinds of event. Not served: refused in the surface's own words."""
        path, body = SURFACES[name]
        engine = ride.engine
        body = {"model": engine.model(), **body, "temperature": 0}
        body |= {"max_tokens": engine.tokens} if name == "messages" else {"max_output_tokens": engine.tokens}
        with ride.front() as front:
            through = ask(front.address, "POST", path, body)
            if not serves(engine, name):
                expect(400 <= through.status < 500 and error_of(through.json), through)
                return IMPOSSIBLE, f"{through.status}: {error_of(through.json)['message'][:70]}"
            direct = ask(engine.address, "POST", path, body)
            texts = [texts_of(reply.json) for reply in (through, direct)]
            expect(through.status == 200 and texts[0], through)
            expect(texts[0] == texts[1] or not engine.repeats, f"{texts[0]!r}, itself {texts[1]!r}")
            runs = [list(Stream(address, path, body | {"stream": True})) for address in (front.address, engine.address)]
        kinds = [sorted({json.loads(data)["type"] for _, data in run if data != b"[DONE]"}) for run in runs]
        expect(kinds[0] == kinds[1], f"kinds of event: {kinds[0]}, itself {kinds[1]}")
        streamed = ["".join(deltas_of(data) for _, data in run) for run in runs]
        expect(streamed[0] and streamed[1], f"streamed {streamed[0]!r}, itself {streamed[1]!r}")
        expect(streamed[0] == streamed[1] == texts[0] or not engine.repeats,
               f"streamed {streamed[0]!r}, itself {streamed[1]!r}")
        expect(all(json.loads(data)["type"] == event for event, data in runs[0]), "an event without its name")
        return HONOURED, f"{texts[0][:30]!r}, {len(runs[0])} events of {len(kinds[0])} kinds"

    return check


def texts_of(document):
    """The text of a message or a response."""
    blocks = (document or {}).get("content") or [part for item in (document or {}).get("output", [])
                                                 for part in item.get("content") or []]
    return "".join(block.get("text", "") for block in blocks)


def deltas_of(data):
    if data == b"[DONE]":
        return ""
    delta = json.loads(data).get("delta")
    return delta if isinstance(delta, str) else (delta or {}).get("text", "")


# --- What a client may not do.


def steering(ride):
    """Fields and headers that would steer the engine from inside never reach it."""
    engine = ride.engine
    headers = {"authorization": "Bearer client", "cookie": "a=b", "x-fak-test": "1", "x-session-id": "s",
               "x-data-parallel-rank": "0", "x-dynamo-worker-instance-id": "1", "x-prefiller-host-port": "127.0.0.1:1"}
    with ride.tapped() as front:
        body = ride.chat(max_tokens=4) | engine.owned
        reply = ask(front.address, "POST", "/v1/chat/completions", body, headers=headers)
        _, _, got, body = front.tap.carrying("/v1/chat/completions").requests()[-1]
    expect(reply.status == 200, reply)
    kept = sorted(set(json.loads(body)) & set(engine.owned)) + sorted(set(got) & set(headers))
    expect(not kept, f"the engine got {kept}")
    return HONOURED, f"{', '.join(engine.owned) or 'no field'} and {len(headers)} headers stayed here"


def hidden(ride):
    """The engine's own and administrative endpoints can't be reached."""
    with ride.tapped() as front:
        for method, path in ride.engine.hidden:
            before = len(front.tap.requests(path))
            reply = ask(front.address, method, path, {} if method == "POST" else None)
            expect(reply.status in (404, 405), f"{method} {path}: {reply}")
            expect(len(front.tap.requests(path)) == before, f"{method} {path} went on")
    return HONOURED, f"404 for {', '.join(path for _, path in ride.engine.hidden) or 'what there is none of'}"


def refusals(ride):
    """A prompt that is too long is refused before a stream begins, and says so; a senseless field never goes on."""
    engine = ride.engine
    words = "one two three four five six seven eight nine ten " * (engine.context() // 5 + 200)
    seen = []
    with ride.front() as front:
        wrong = tell(front.address, "/v1/chat/completions", ride.chat(temperature="hot"))
        expect(wrong.status == 400 and "temperature" in json.dumps(wrong.error), wrong)
        if not engine.context():
            return DEGRADED, "it names no bound; a temperature that is no number: 400"
        for stream in (False, True):
            body = ride.completion(prompt=words, max_tokens=4, stream=stream)
            told = tell(front.address, "/v1/completions", body)
            expect(told.status >= 400 and told.error, f"too long, {'stream' if stream else 'whole'}: {told}")
            seen.append((told.status, told.error.get("code")))
        direct = ask(engine.address, "POST", "/v1/completions", ride.completion(prompt=words, max_tokens=4))
    if direct.status >= 500:  # it doesn't say that the prompt is why
        expect(all(status >= 500 for status, _ in seen), f"{seen}, from the engine itself {direct}")
        return DEGRADED, f"whole and streamed {seen}, from the engine itself {direct.status}"
    expect(set(seen) == {(400, "context_length_exceeded")}, seen)
    return HONOURED, f"400 {seen[0][1]}, whole and streamed"


# --- Clients that leave.


def leave(ride, stream, busy):
    """Worst ms until fak closed the upstream's connection, and the seconds until the engine no longer worked for
    that client, or None where it went on. Busy: for another client it does."""
    engine = ride.engine
    others = 1 if busy else 0
    closed_ms, idle_s = [], []
    with ride.tapped() as front:
        for i in range(3):
            other = Other(front, ride.long(stream=True)) if busy else None
            name = f"leaves-{i}"
            body = ride.long(stream=stream, user=name)
            if stream:
                client = Stream(front.address, "/v1/completions", body)
                expect(client.status == 200, f"status {client.status}")
                events = iter(client)
                for _ in range(3):
                    expect(next(events, None), "the stream ended early")
            else:
                client = Unread(front.address, "/v1/completions", body)
                expect(engine.settle(others + 1, 30) is not None, "the engine never began")
            passage = front.tap.carrying("/v1/completions", name.encode())
            expect(passage, "the request never reached the engine")
            at = client.leave()
            end = at + 5
            while passage.gone_at is None and time.monotonic() < end:
                time.sleep(0.001)
            expect(passage.gone_at, "fak kept the connection for 5 s")
            closed_ms.append((passage.gone_at - at) * 1000)
            idle = engine.settle(others, engine.stops_in_s)
            idle_s.append(None if idle is None else time.monotonic() - at)
            if other:
                expect(not other.ended.is_set(), "the other client's answer ended too soon to say anything")
                other.leave()
            expect(engine.settle(0, 600) is not None, "the engine was busy for 600 s")
    expect(max(closed_ms) <= CLOSES_WITHIN_MS, f"fak closed after {closed_ms} ms")
    return max(closed_ms), None if None in idle_s else max(idle_s)


class Unread(Stream):
    """A request whose answer nobody waits for."""

    def __init__(self, address, path, body):
        self.connection = http.client.HTTPConnection(*address, timeout=60)
        self.connection.request("POST", path, json.dumps(body), {"content-type": "application/json"})
        self.socket = self.connection.sock
        self.answer = self.socket.makefile("rb")


class Other(Stream):
    """A client that stays, and reads."""

    def __init__(self, front, body):
        super().__init__(front.address, "/v1/completions", body)
        self.ended = threading.Event()
        events = iter(self)
        expect(self.status == 200 and next(events, None), f"another client's stream: status {self.status}")
        self.reader = threading.Thread(target=self._read, args=(events,), daemon=True)
        self.reader.start()

    def _read(self, events):
        for _ in events:
            pass
        self.ended.set()

    def leave(self):
        self.socket.shutdown(socket.SHUT_RDWR)
        self.reader.join()
        self.connection.close()


def gone(stream, busy=False):
    def check(ride):
        """fak closes the engine's connection within 100 ms; the engine stops within 2 s, if it can."""
        closed, idle = leave(ride, stream, busy)
        seen = f"closed after at most {closed:.0f} ms"
        if idle is None:
            return DEGRADED, f"{seen}; the engine goes on for more than {ride.engine.stops_in_s:.0f} s"
        return HONOURED, f"{seen}; the engine stopped within {idle:.2f} s"

    return check


# --- Engines that die.


def killed(ride):
    """kill -9 while a stream and a whole answer are under way: both end with an error, and neither as if whole."""
    engine = ride.engine
    with ride.front() as front, ThreadPoolExecutor(1) as pool:
        whole = pool.submit(tell, front.address, "/v1/completions", ride.long())
        stream = Stream(front.address, "/v1/completions", ride.long(stream=True), timeout=30)
        expect(stream.status == 200, f"status {stream.status}")
        events = iter(stream)
        told = Told(200)
        take_events(told, [next(events) for _ in range(3)])
        expect(engine.settle(2, 30) is not None, "the engine never worked on both")
        engine.kill()
        at = time.monotonic()
        take_events(told, events)
        ended_s = time.monotonic() - at
        answer = whole.result(timeout=60)
        refused = tell(front.address, "/v1/completions", {"model": "any", "prompt": STORY})
    engine.start()
    expect(told.error and told.error.get("type") and told.error.get("message"), f"the stream's end: {told}")
    expect(not told.done and told.finish is None, f"[DONE] {told.done}, finish reason {told.finish}")
    expect(not stream.cut, "fak cut the stream")
    expect(ended_s < 2, f"the stream hung for {ended_s:.1f} s")
    expect(answer.status in (502, 503) and answer.error.get("type"), f"the whole answer: {answer}")
    expect(refused.status == 503 and refused.error.get("type"), f"a request to a dead engine: {refused}")
    return HONOURED, (f"stream: error {told.error.get('code')} after {ended_s * 1000:.0f} ms and no [DONE]; "
                      f"whole: {answer.status}; next: {refused.status} in {refused.took_s * 1000:.0f} ms")


def restarted(ride):
    """While the engine is away fak isn't ready; within a probe's interval of its return fak serves again."""
    engine = ride.engine
    with ride.front() as front:
        expect(ask(front.address, "GET", "/ready").status == 200, "fak isn't ready before")
        engine.kill()
        away = front.until_ready(503, PROBE_EVERY_S + GOES_ON_S)
        expect(away is not None, "fak says that it is ready without an engine")
        refused = tell(front.address, "/v1/completions", {"model": "any", "prompt": STORY})
        expect(refused.status == 503 and refused.error.get("type"), f"while it is away: {refused}")
        engine.start()
        ready = front.until_ready(200, PROBE_EVERY_S + GOES_ON_S)
        expect(ready is not None, f"not ready {PROBE_EVERY_S + GOES_ON_S} s after the engine")
        told = tell(front.address, "/v1/chat/completions", ride.chat())
        expect(told.status == 200 and told.text, f"after the restart: {told}")
    return HONOURED, f"not ready {away:.1f} s after the kill, ready {ready:.1f} s after the engine was"


def stopped(ride):
    """SIGSTOP: it takes connections and answers nobody. Our own time-outs end what waits, and say so."""
    engine, bound_s = ride.engine, 4
    body = ride.completion(max_tokens=2)
    with ride.front("--request-timeout", bound_s) as front, ThreadPoolExecutor(1) as pool:
        engine.stop()
        try:
            whole = pool.submit(tell, front.address, "/v1/completions", body)
            streamed = tell(front.address, "/v1/completions", body | {"stream": True})
            told = [whole.result(timeout=60), streamed]
            away = front.until_ready(503, PROBE_EVERY_S + PROBE_TIMEOUT_S + GOES_ON_S)
        finally:
            engine.go_on()
        back = front.until_ready(200, PROBE_EVERY_S + PROBE_TIMEOUT_S + GOES_ON_S)
    expect(engine.settle(0, 600) is not None, "the engine was busy for 600 s")
    with ride.front() as patient:
        after = tell(patient.address, "/v1/completions", body)
    for one in told:
        expect(one.status == 504 and one.error.get("message"), f"a request to it: {one}")
        expect(one.took_s < bound_s + GOES_ON_S, f"504 after {one.took_s:.1f} s, bound {bound_s} s")
    expect(away is not None, "fak says that it is ready before an engine that hangs")
    expect(back is not None and after.status == 200, f"ready {back} s after it goes on: {after}")
    return HONOURED, (f"504 after {max(one.took_s for one in told):.1f} s ({told[0].error['message'][:50]}); "
                      f"not ready after {away:.1f} s more, ready {back:.1f} s after it went on")


# --- Figures.


def in_schema(rows, source):
    """Rows of our schema by one source: {row: number}, {row:label: number}, a histogram as {le: .., sum, count}."""
    found = {}
    for name, labels, value in rows:
        if labels.get("source") != source or not name.startswith("fak_serving_"):
            continue
        row = name.removeprefix("fak_serving_")
        base, _, part = row.rpartition("_")
        kind = labels.get("outcome") or labels.get("kind") or labels.get("slo")
        if part == "bucket":
            found.setdefault(base, {})[float(labels["le"])] = value
        elif part in ("sum", "count"):
            found.setdefault(base, {})[part] = value
        else:
            found[f"{row}:{kind}" if kind else row] = value
    return found


def load(ride):
    """50 requests, four at a time, of both surfaces, streamed and not: what was answered, what fak's /metrics
    says after it, and what the engine says of itself at the same moment."""
    if ride.loaded is None:
        engine = ride.engine
        with ride.front("--metrics-scrape-interval", 1) as front:

            def one(i):
                body = (ride.chat if i % 2 else ride.completion)(max_tokens=engine.load_tokens)
                body |= {"stream": True, "stream_options": {"include_usage": True}} if i % 4 < 2 else {}
                return tell(front.address, "/v1/chat/completions" if i % 2 else "/v1/completions", body)

            with ThreadPoolExecutor(4) as pool:
                told = list(pool.map(one, range(LOAD)))
            expect(engine.settle(0, 60) is not None, "the engine stayed busy")
            time.sleep(engine.metrics_settle_s)
            own = engine.metrics()
            time.sleep(2.5)  # two looks of fak's
            ride.loaded = told, front.metrics(), own
    return ride.loaded


def metrics_gateway(ride):
    """source="gateway": 50 requests, and the tokens that their answers reported."""
    told, rows, _ = load(ride)
    bad = [str(each) for each in told if each.status != 200 or each.error]
    expect(not bad, f"{len(bad)} of {LOAD} failed: {bad[:1]}")
    ours = in_schema(rows, "gateway")
    want = {
        "requests_total:ok": LOAD,
        "prompt_tokens_total": sum(each.usage["prompt_tokens"] for each in told),
        "generation_tokens_total": sum(each.usage["completion_tokens"] for each in told),
    }
    got = {row: ours.get(row) for row in want}
    expect(got == want, f"{got}, from the answers {want}")
    for row in ("e2e_request_latency_seconds", "request_prompt_tokens", "request_generation_tokens"):
        expect(ours[row]["count"] == LOAD, f"{row}: {ours[row]['count']} observations")
    streams = sum(1 for i in range(LOAD) if i % 4 < 2)
    first = ours["time_to_first_token_seconds"]["count"]
    expect(first == streams, f"time_to_first_token_seconds: {first} observations of {streams} streams")
    cached = [(each.usage.get("prompt_tokens_details") or {}).get("cached_tokens") for each in told]
    if None not in cached:
        hits = ours.get("prefix_cache_hits_total")
        expect(hits == sum(cached), f"prefix_cache_hits_total {hits}, from the answers {sum(cached)}")
    elif set(cached) == {None}:
        expect("prefix_cache_hits_total" not in ours, "hits that no answer reported")
    hits = "no cached tokens reported" if None in cached else f"{sum(cached)} of them cached"
    tokens = f"{want['prompt_tokens_total']} + {want['generation_tokens_total']} tokens"
    return HONOURED, f"{LOAD} requests, {tokens}, {hits}"


def metrics_engine(ride):
    """source="engine": every figure that the engine gives of itself, in our schema, and no other."""
    _, rows, own = load(ride)
    ours = in_schema(rows, "engine")
    if not own:
        expect(not ours, f"the engine has no metrics, and fak shows {sorted(ours)}")
        return IMPOSSIBLE, "the engine has no metrics, and fak shows no row"
    expect(ours.pop("engine_up", None) == 1, "engine_up isn't 1")
    want = ride.engine.figures(own)
    alone = f"fak alone has {sorted(set(ours) - set(want))}, the engine alone {sorted(set(want) - set(ours))}"
    expect(set(ours) == set(want), alone)
    off = [f"{row}: {ours[row]}, the engine {want[row]}" for row in want if not close(ours[row], want[row])]
    expect(not off, "; ".join(off))
    numbers = sum(len(value) if isinstance(value, dict) else 1 for value in want.values())
    return HONOURED, f"{len(want)} rows, {numbers} numbers, all equal"


def close(ours, theirs):
    """Equal, but for the last digits that a text of figures may lose."""
    if isinstance(theirs, dict):
        return set(ours) == set(theirs) and all(close(ours[key], theirs[key]) for key in theirs)
    return abs(ours - theirs) <= 1e-6 * max(1.0, abs(theirs))


# --- Cache control.


def cached_of(told):
    return ((told.usage or {}).get("prompt_tokens_details") or {}).get("cached_tokens")


def evict(ride):
    """POST /v1/fak/cache/evict: what was warm is cold, and the row says what was called."""
    engine = ride.engine
    prompt = "Count the ships in the harbour and write their names in the book. " * 20
    body = ride.completion(prompt=prompt, max_tokens=2)
    with ride.front() as front:
        cold, warm = (tell(front.address, "/v1/completions", body) for _ in range(2))
        for i in range(engine.pushes_out):  # to wherever it keeps what it has no place for
            told = tell(front.address, "/v1/completions", ride.completion(prompt=f"{i} {STORY}", max_tokens=2))
            expect(told.status == 200, told)
        evicted = ask(front.address, "POST", "/v1/fak/cache/evict", {"scope": "all", "guarantee": "whole_prefix"})
        if engine.evicts in (None, "none"):
            error = error_of(evicted.json) or {}
            expect(evicted.status == 400 and error.get("param") == "guarantee", f"whole_prefix: {evicted}")
            evicted = ask(front.address, "POST", "/v1/fak/cache/evict", {"scope": "all"})
        expect(evicted.status == 200, evicted)
        row = evicted.json["results"][0]
        expect(row["status"] == "done" and row["guarantee"] == (engine.evicts or "none"), row)
        if engine.evicts is None:
            return IMPOSSIBLE, f"guarantee none: {row['call'][:70]}"
        after = tell(front.address, "/v1/completions", body)
        again = tell(front.address, "/v1/completions", body)
    for told in (cold, warm, after, again):
        expect(told.status == 200, told)
    counts = [cached_of(told) for told in (warm, after, again)]
    expect(counts[0] and counts[2], f"cached tokens warm, after, again: {counts}")
    if counts[1]:
        return DEGRADED, f"{row['call']}: {counts[1]} of {counts[0]} tokens were still warm after it"
    expect(after.text == warm.text, f"{after.text!r}, before {warm.text!r}")
    return HONOURED, f"{row['call']}: {counts[0]} cached tokens, then 0, then {counts[2]}"


def evict_exact(ride):
    """guarantee "exact" is given by fak alone; elsewhere it is refused, and no call is made."""
    with ride.tapped() as front:
        before = len([r for r in front.tap.requests() if r[0] != "GET"])
        reply = ask(front.address, "POST", "/v1/fak/cache/evict",
                    {"scope": "prefix", "prompt": "Count the ships", "guarantee": "exact"})
        calls = len([r for r in front.tap.requests() if r[0] != "GET"]) - before
    if ride.engine.evicts == "exact":
        expect(reply.status == 200 and reply.json["results"][0]["guarantee"] == "exact", reply)
        return HONOURED, "given, by the engine's own answer"
    error = error_of(reply.json)
    expect(reply.status == 400 and error and error.get("param") == "guarantee", reply)
    expect(calls == 0, f"{calls} calls were made")
    return IMPOSSIBLE, f"400 {error.get('code')}, and no call was made"


def tokenize(ride):
    """POST /tokenize gives the engine's own tokens."""
    text = "The quick brown fox, 1234 times."
    own = ride.engine.tokens_of(text)
    with ride.front() as front:
        reply = ask(front.address, "POST", "/tokenize", {"model": ride.engine.model(), "prompt": text})
    if own is None:
        expect(400 <= reply.status < 500 or reply.status == 501, reply)
        return IMPOSSIBLE, f"{reply.status}: {error_of(reply.json)['message'][:60]}"
    expect(reply.status == 200 and reply.json["tokens"] == own, f"{reply}, from the engine itself {own}")
    return HONOURED, f"{len(own)} tokens"


GONE_WHOLE_BUSY = ("an answer that isn't streamed is left while it answers another client", gone(False, busy=True))

# What each says in docs/engines.md, and the check.
CHECKS = {
    "probe": ("`fak probe` says what is there", probe),
    "chat": ("chat as the engine answers it", same_answer("/v1/chat/completions", Ride.chat, False)),
    "chat_stream": ("the same, streamed", same_answer("/v1/chat/completions", Ride.chat, True)),
    "completion": ("completion", same_answer("/v1/completions", Ride.completion, False)),
    "completion_stream": ("the same, streamed", same_answer("/v1/completions", Ride.completion, True)),
    "messages": ("`/v1/messages`", surface("messages")),
    "responses": ("`/v1/responses`", surface("responses")),
    "untouched": ("bytes as sent and as answered, unknown fields too", untouched),
    "usage": ("usage counted, and withheld from those who didn't ask", usage),
    "refusals": ("too long a prompt: 400 before a stream begins", refusals),
    "tokenize": ("`/tokenize`", tokenize),
    "steering": ("fields and headers that steer it stay here", steering),
    "hidden": ("its own endpoints out of reach", hidden),
    "gone_stream": ("a client leaves a stream: closed in 100 ms, idle in 2 s", gone(True)),
    "gone_whole": ("the same, an answer that isn't streamed", gone(False)),
    "killed": ("`kill -9` in the middle: errors, no `[DONE]`, no hang", killed),
    "restarted": ("back within a probe's interval of its restart", restarted),
    "stopped": ("a stopped process (SIGSTOP): 504 within `--request-timeout`, not ready, and back", stopped),
    "metrics_gateway": ("50 requests counted by us", metrics_gateway),
    "metrics_engine": ("and by the engine: every figure equal to its own", metrics_engine),
    "evict": ("evict: warm becomes cold", evict),
    "evict_exact": ("evict with `guarantee: exact`", evict_exact),
}
