"""The replicas of the fleet, each a process of its own that is killed, stopped and started anew on the same ports."""

import json
import os
import random
import signal
import socket
import subprocess
import sys
from pathlib import Path

from engine import Engine
from engines.fak import Fak
from engines.llama_cpp import LlamaCpp
from engines.vllm import Vllm
from wire import ask, total

MODEL = "smollm2"
HERE = Path(__file__).resolve().parent
AT_ONCE = 4  # requests open at one replica: beyond that they wait at the gateway


def low_port():
    """A free one that no outgoing connection gets while its owner is dead."""
    while True:
        port = random.randrange(20000, 32768)
        with socket.socket() as tried:
            if tried.connect_ex(("127.0.0.1", port)) != 0:
                return port


class Member:
    """What an Engine needs to be one of several. `kind`: whose answers its own are held to be like."""

    kind = "ridden"
    ends_well = False  # after SIGTERM it ends what it has
    start_s = 1800  # on a busy machine, which may hold all of us still for a while
    costly = False  # to start

    def __init__(self, label, folder, fak):
        self.label = label
        super().__init__(folder, fak)
        self.port = low_port()

    def toml(self):
        rows = {"name": self.label, "engine": self.adapter, "url": "http://{}:{}".format(*self.address),
                "max-concurrency": AT_ONCE, **self.more_toml()}
        return "[[replica]]\n" + "".join(f"{key} = {json.dumps(value)}\n" for key, value in rows.items()) + "\n"

    def more_toml(self):
        return {}

    def end(self):
        """SIGTERM, and whether it ended by itself."""
        self.process.terminate()
        try:
            self.process.wait(60)
            return True
        except subprocess.TimeoutExpired:
            return False
        finally:
            self.kill()

    def start(self):
        """Raises RuntimeError where it doesn't get ready."""
        try:
            super().start()
        except SystemExit as said:
            raise RuntimeError(str(said)) from None

    def counts(self):
        """What it says to be open, by name: all zero when nothing is."""
        return {"requests": self.running()}


class Native(Member, Fak):
    kind = "native"
    ends_well = True

    def install(self):
        ends = [f"tcp://127.0.0.1:{low_port()}" for _ in range(2)]
        self.events = json.dumps({"enable_kv_cache_events": True, "endpoint": ends[0], "replay_endpoint": ends[1]})
        self.kv_events = f"{ends[0]},replay={ends[1]}"

    def more_toml(self):
        return {"kv-events": [self.kv_events]}

    def command(self):
        return [self.fak, "serve", MODEL, "--port", self.port, "--threads", 1, "--max-model-len", 1024,
                "--kv-cache-memory", "48MiB", "--kv-events-config", self.events, "--log-level", "warning"], {}

    def counts(self):
        load = ask(self.address, "GET", "/v1/fak/load").json
        rows = self.metrics()
        return {"running": load["running"], "waiting": load["waiting"], "backlog tokens": load["backlog_tokens"],
                "blocks held": load["kv_blocks_total"] - load["kv_blocks_free"],
                "num_requests_running": total(rows, "fak_serving_num_requests_running"),
                "num_requests_waiting": total(rows, "fak_serving_num_requests_waiting"),
                "kv_cache_usage_perc": total(rows, "fak_serving_kv_cache_usage_perc")}


class RiddenVllm(Member, Vllm):
    costly = True

    def install(self):
        super().install()
        self.kv_port, self.replay_port = low_port(), low_port()

    def more_toml(self):
        return {"kv-events": [f"tcp://127.0.0.1:{self.kv_port},replay=tcp://127.0.0.1:{self.replay_port}"]}


class RiddenLlamaCpp(Member, LlamaCpp):
    pass


class Scripted(Member, Engine):
    name = "scripted"
    kind = "scripted"
    adapter = "openai"
    fault_share = 0.06

    def __init__(self, label, folder, fak):
        super().__init__(label, folder, fak)
        self.faults_log = self.folder / "faults.jsonl"
        self.faults_log.unlink(missing_ok=True)

    def install(self):
        pass

    def command(self):
        return [sys.executable, HERE / "scripted.py", self.port, self.faults_log, self.fault_share], {}

    def running(self):
        return ask(self.address, "GET", "/open").json["open"]

    def faults(self):
        """{a request's id as it came: what went wrong with it}"""
        lines = self.faults_log.read_text().splitlines() if self.faults_log.exists() else []
        said = []
        for line in lines:
            try:
                said.append(json.loads(line))
            except ValueError:  # it was killed as it wrote
                continue
        return {each["id"]: each["fault"] for each in said if each["fault"]}


def is_stopped(pid):
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "T"


def hold(member):
    """SIGSTOP, seen to have come into force."""
    member.stop()
    while not is_stopped(member.process.pid):
        os.sched_yield()


def let_go(member):
    os.killpg(member.process.pid, signal.SIGCONT)
