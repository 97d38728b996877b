"""What the checks need to know of a real engine. One subclass an engine, in engines/."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

from wire import ask, samples

ROOT = Path(__file__).resolve().parents[2]

HONOURED = "honoured"
DEGRADED = "degraded"  # something of it is lost, and the check asserts what
IMPOSSIBLE = "impossible"  # the engine has no such thing, and fak says so; the check asserts that


class NotHere(Exception):
    """The engine can't be had on this machine, and why."""


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return listener.getsockname()[1]


def model_path(fak, model):
    """The file of a model in fak's store, downloaded if need be."""
    subprocess.run([fak, "pull", model], check=True, capture_output=True)
    listed = subprocess.run([fak, "list", "--json"], check=True, capture_output=True, text=True).stdout
    return next(row["path"] for row in json.loads(listed) if row["name"] == model)


class Engine:
    """Installed once, started and killed often, always on the same ports."""

    name = ""  # as on our command line
    adapter = ""  # what `fak probe` calls it
    start_s = 120  # until it must be ready

    # What isn't honoured there: {check: (verdict, why)}. A check that finds another verdict than this
    # fails, better ones included: docs/engines.md has the same cells.
    limits = {}

    endless = {"ignore_eos": True}  # makes a generation go on to max_tokens
    extra = {"fak_unknown": {"b": 1.0, "a": [True]}}  # fields that neither we nor it know
    refuses_unknown = False  # and answers 400 to them
    repeats = True  # the same request at temperature 0 gets the same text
    owned = {}  # fields that steer it, with values that it would act on
    hidden = ()  # (method, path) of its own endpoints, which must not be reachable
    fak_flags = ()  # of the `fak serve` in front
    look_every_s = 0.02  # at its own figures, where that disturbs nothing
    stops_in_s = 2.0  # after its client left, where it can see that
    tokens = 16  # of an ordinary answer
    load_tokens = 8  # of an answer in the known load
    long_tokens = 1500  # of an answer that is still running when somebody dies or leaves
    evicts = None  # the guarantee that POST /v1/fak/cache/evict gives; None: it makes no call
    flags = ()  # that `command` adds
    pushes_out = 0  # prompts after which another is no longer where it was computed
    kv_events = False
    untold = set()  # signals of which the probe says that they can't be told
    metrics_settle_s = 1.5  # until its own figures stand still
    more = {}  # checks of its own: {name: function of a Ride}

    def __init__(self, folder, fak):
        self.folder = Path(folder)
        self.folder.mkdir(parents=True, exist_ok=True)
        self.fak = fak
        self.port = free_port()
        self.process = None

    # --- To be written for each engine.

    def install(self):
        """Puts it where `command` finds it; cheap when that was done before."""
        raise NotImplementedError

    def command(self):
        """How it is started: (arguments, environment beside ours)."""
        raise NotImplementedError

    def version(self):
        raise NotImplementedError

    def context(self):
        """Tokens that one request may have, as the engine says; 0 when it doesn't."""
        raise NotImplementedError

    def running(self):
        """How many requests it works on, by its own figures."""
        raise NotImplementedError

    def figures(self, rows):
        """What its metrics mean in our schema: {row without fak_serving_: number}, a histogram as
        {"sum": .., "count": .., le: ..}. Written apart from the adapter, from the engine's own documents."""
        return {}

    def tokens_of(self, text):
        """The text's token ids, asked for directly; None where it has no tokenizer."""
        return None

    def resets(self):
        """Whether the engine empties its cache when asked for it directly."""
        return False

    def sleeps(self):
        """Whether the engine goes to sleep when told to directly. It is awake afterwards."""
        return False

    def saves_slots(self):
        """Whether the engine writes a slot to a file when told to directly."""
        return False

    def renders(self):
        """Whether the engine tells the prompt that it makes of a chat."""
        return False

    def edited(self, body):
        """What fak makes of the bytes of a whole chat."""
        return body

    # --- The same for all.

    @property
    def address(self):
        return ("127.0.0.1", self.port)

    @property
    def metrics_address(self):
        return self.address

    def ready(self):
        return bool(self.models())

    def models(self):
        listed = ask(self.address, "GET", "/v1/models", timeout=10).json
        return [each["id"] for each in listed["data"]] if listed else []

    def model(self):
        """What clients ask it for."""
        return self.models()[0]

    def metrics(self):
        reply = ask(self.metrics_address, "GET", "/metrics")
        return samples(reply.body.decode()) if reply.status == 200 else []

    def start(self):
        arguments, environment = self.command()
        with open(self.folder / "server.log", "ab") as log:
            self.process = subprocess.Popen(
                [str(each) for each in arguments], stdout=log, stderr=log, stdin=subprocess.DEVNULL,
                env=os.environ | environment, cwd=self.folder, start_new_session=True)
        end = time.monotonic() + self.start_s
        while not self.ready():
            if self.process.poll() is not None or time.monotonic() > end:
                tail = (self.folder / "server.log").read_bytes()[-3000:].decode(errors="replace")
                self.kill()
                sys.exit(f"{self.name} did not get ready:\n{tail}")
            time.sleep(0.2)

    def kill(self):
        """kill -9 of all its processes."""
        if self.process is not None:
            try:
                os.killpg(self.process.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
            self.process.wait()
            self.process = None

    def stop(self):
        """Holds all its processes, as a machine that swaps does: connections are taken and nobody answers."""
        os.killpg(self.process.pid, signal.SIGSTOP)

    def go_on(self):
        os.killpg(self.process.pid, signal.SIGCONT)

    def settle(self, wanted=0, within_s=30.0):
        """Seconds until it works on that many requests; None when it doesn't get there in time."""
        started = time.monotonic()
        while True:
            if self.running() == wanted:
                return time.monotonic() - started
            left = started + within_s - time.monotonic()
            if left <= 0:
                return None
            time.sleep(min(self.look_every_s, left))
