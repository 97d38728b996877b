"""What is asked, by whom, and what each request came to."""

import http.client
import json
import random
import threading
import time
from dataclasses import dataclass, field

from checks import PARAGRAPH
from fleet_parts.members import MODEL

GIVE_UP_S = 400  # of a client's own patience: far beyond what the gateway has promised
KEPT_S = 5.0  # idle
CHAT, COMPLETION = "/v1/chat/completions", "/v1/completions"

SHARED = (
    PARAGRAPH * 2,
    "In the valley of the three rivers every family kept a book of weather, and every book began with the same words. ",
    "You answer briefly and in plain words. You never guess, and say so where you don't know. ",
    "",
)
TAILS = ("The next morning", "Nobody had asked why", "Write one sentence about the sea.", "What is the capital of France?")
LENGTHS = (4, 8, 12, 16, 24, 40)


@dataclass(frozen=True)
class Case:
    """One thing to ask for, streamed or not: the same answer is due each time from the native engine."""

    key: str
    path: str
    body: str  # JSON

    def fields(self):
        return json.loads(self.body)


def all_cases(seed):
    """Greedy and seeded, with and without log probabilities, to a stop string, an end of its own and a bound."""
    chance = random.Random(seed)
    found = []
    for i, shared in enumerate(SHARED):
        for j, tail in enumerate(TAILS):
            for path in (CHAT, COMPLETION):
                for kind in ("greedy", "seeded", "stop", "free"):
                    fields = {"model": MODEL, "max_tokens": chance.choice(LENGTHS)}
                    if path == CHAT:
                        fields["messages"] = [{"role": "system", "content": shared}] * bool(shared)
                        fields["messages"] = [*fields["messages"], {"role": "user", "content": tail}]
                    else:
                        fields["prompt"] = shared + tail
                    if kind in ("greedy", "stop"):
                        fields["temperature"] = 0
                    else:
                        fields |= {"temperature": 0.8, "top_p": 0.95, "seed": chance.randrange(1, 1 << 31)}
                    if kind == "stop":
                        fields["stop"] = ["."]
                    elif kind != "free":
                        fields["ignore_eos"] = True
                        fields |= {"logprobs": True, "top_logprobs": 2} if path == CHAT else {"logprobs": 2}
                    found.append(Case(f"{i}{j}-{'chat' if path == CHAT else 'text'}-{kind}", path, json.dumps(fields)))
    return found


@dataclass
class Outcome:
    """What one request came to, as its client saw it."""

    number: int
    case: Case
    stream: bool
    wants_usage: bool
    began: float = 0.0
    ended: float = 0.0
    status: int = 0
    route: str = ""  # x-fak-route
    retry_after: str = ""
    text: str = ""
    tokens: list = field(default_factory=list)  # with their log probabilities, as they came
    deltas: int = 0  # pieces with content
    finishes: list = field(default_factory=list)
    usages: list = field(default_factory=list)
    done: int = 0  # [DONE]
    errors: list = field(default_factory=list)
    after_end: int = 0  # events behind [DONE] or an error, pieces with content behind a finish reason
    broken: str = ""  # neither an answer nor a typed error: why
    left: bool = False  # by its client

    @property
    def id(self):
        return f"fleet-{self.number:05}"

    @property
    def replica(self):
        return self.route.partition(";")[0]

    @property
    def error(self):
        return self.errors[0] if self.errors else None

    def take(self, document, part):
        if self.done or self.errors:
            self.after_end += 1
        if "error" in document:
            self.errors.append(document["error"])
            return
        if document.get("usage"):
            self.usages.append(document["usage"])
        for choice in document.get("choices") or []:
            said = choice.get("text") or (choice.get(part) or {}).get("content") or ""
            if said:
                self.after_end += bool(self.finishes)
                self.text += said
                self.deltas += 1
            self.tokens += tokens_in(choice.get("logprobs"))
            if choice.get("finish_reason") is not None:
                self.finishes.append(choice["finish_reason"])


def tokens_in(logprobs):
    """[(token, log probability, the most probable)], from either surface's form."""
    if not logprobs:
        return []
    if logprobs.get("content"):
        return [(each["token"], each["logprob"], [(top["token"], top["logprob"]) for top in each["top_logprobs"]])
                for each in logprobs["content"]]
    return list(zip(logprobs.get("tokens") or [], logprobs.get("token_logprobs") or [],
                    [list(top.items()) for top in logprobs.get("top_logprobs") or []]))


class Client:
    """Asks one after the other; keeps its connection or opens one each time."""

    def __init__(self, address, keeps):
        self.address, self.keeps, self.connection, self.last = address, keeps, None, 0.0

    def close(self):
        if self.connection:
            self.connection.close()
            self.connection = None

    def ask(self, outcome, leaves=False):
        body = outcome.case.fields()
        if outcome.stream:
            body["stream"] = True
            if outcome.wants_usage:
                body["stream_options"] = {"include_usage": True}
        if time.monotonic() - self.last > KEPT_S:  # so that the server doesn't close it as we write
            self.close()
        if not self.connection:
            self.connection = http.client.HTTPConnection(*self.address, timeout=GIVE_UP_S)
        outcome.began = time.monotonic()
        try:
            self.connection.request("POST", outcome.case.path, json.dumps(body),
                                    {"content-type": "application/json", "x-request-id": outcome.id})
            answer = self.connection.getresponse()
            outcome.status, outcome.route = answer.status, answer.headers.get("x-fak-route") or ""
            outcome.retry_after = answer.headers.get("retry-after") or ""
            if outcome.stream and answer.status == 200:
                self._read_stream(outcome, answer, leaves)
            else:
                outcome.take(json.loads(answer.read()), "message")
        except (OSError, http.client.HTTPException, ValueError, KeyError, TypeError) as error:
            outcome.broken = f"{type(error).__name__}: {error}"
        outcome.ended = self.last = time.monotonic()
        if not self.keeps or outcome.broken or outcome.left:
            self.close()
        return outcome

    def _read_stream(self, outcome, answer, leaves):
        while True:
            line = answer.readline()
            if not line:
                break
            line = line.strip()
            if line == b"data: [DONE]":
                outcome.after_end += bool(outcome.done or outcome.errors)
                outcome.done += 1
            elif line.startswith(b"data: "):
                outcome.take(json.loads(line[6:]), "delta")
                if leaves and outcome.deltas:
                    outcome.left = True
                    return
            elif line and not line.startswith(b":"):
                outcome.broken = f"a line of no event: {line[:80]}"
        if answer.chunk_left not in (None, 0) or not answer.isclosed():
            outcome.broken = outcome.broken or "the stream ended without the end that HTTP wants"


class Load:
    """`requests` requests by `clients` clients at once. `started`: how many so far; steps of others go by it."""

    def __init__(self, address, requests, clients, seed, cases):
        self.address, self.requests = address, requests
        self.outcomes = []
        self.started = 0
        self.limit = requests  # none begins beyond that: who disturbs keeps up
        self.cases, self.seed = cases, seed
        self._lock = threading.Lock()
        self._threads = [threading.Thread(target=self._client, args=(i,), daemon=True) for i in range(clients)]

    def begin(self):
        for thread in self._threads:
            thread.start()

    def running(self):
        return any(thread.is_alive() for thread in self._threads)

    def _next(self):
        while True:
            with self._lock:
                if self.started >= self.requests:
                    return None
                if self.started < self.limit:
                    self.started += 1
                    return self.started - 1
            time.sleep(0.02)

    def _client(self, i):
        client = Client(self.address, keeps=i % 2 == 0)
        while (number := self._next()) is not None:
            chance = random.Random(f"{self.seed}/{number}")  # what is asked doesn't hang on who asks
            stream = chance.random() < 0.6
            outcome = Outcome(number, chance.choice(self.cases), stream, wants_usage=chance.random() < 0.8)
            leaves = stream and chance.random() < 0.03
            try:
                client.ask(outcome, leaves)
            except Exception as error:  # a fault of ours: seen, not lost with the thread
                outcome.broken = repr(error)
            self.outcomes.append(outcome)
            if outcome.error and not outcome.deltas:
                time.sleep(min(float(outcome.retry_after or 0.2), 2.0))
        client.close()


def reference_of(address, cases, clients=4):
    """{case's key: its answer} from a server that nobody disturbs."""
    found, rest = {}, list(cases)

    def work():
        client = Client(address, keeps=True)
        while rest:
            try:
                case = rest.pop()
            except IndexError:
                break
            found[case.key] = client.ask(Outcome(-1, case, stream=False, wants_usage=True))
        client.close()

    threads = [threading.Thread(target=work) for _ in range(clients)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    bad = [f"{key}: {each.status} {each.error} {each.broken}" for key, each in found.items()
           if each.status != 200 or each.broken or len(each.finishes) != 1]
    if bad or len(found) != len(cases):
        raise RuntimeError(f"the reference isn't whole: {bad[:3]}")
    return found
