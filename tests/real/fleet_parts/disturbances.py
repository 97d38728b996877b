"""Who is killed, stopped, restarted and drained when, from one seed; and what was seen of the fleet meanwhile."""

import random
import threading
import time
from dataclasses import dataclass

from fleet_parts.members import hold, let_go
from wire import ask

AT_ONCE = 3  # replicas that are disturbed; the rest may serve
BACK_S = 120  # until a replica that is well again must be healthy in the gateway's eyes: probes, breaker, hysteresis
STALL_S = 5.0
LOOK_EVERY_S = 0.2
AHEAD = 60  # requests that may begin while a step waits for those before it
ALL = "*"

# What may break a stream that has begun, by whom. What isn't here mustn't.
BREAKS = {"kill", "stop and kill"}

KINDS = {
    "kill": "kill -9, and started anew",
    "stop": "SIGSTOP for some seconds, SIGCONT",
    "stop long": "SIGSTOP until its probe has failed, SIGCONT",
    "stop and kill": "SIGSTOP, kill -9, and started anew",
    "restart": "SIGTERM, and started anew",
    "drain": "drained and undrained",
    "roll": "drained until it is idle, restarted, undrained",
    "drain all": "nobody may serve for two seconds",
}
USUAL = ("kill", "kill", "stop", "stop long", "stop and kill", "restart", "drain", "roll")
COSTLY = ("stop", "drain", "roll", "stop long")  # where a start takes a minute
FASTEST_S = 0.5


@dataclass
class Step:
    """`at`: how many requests have begun."""

    at: int
    kind: str
    replica: str
    hold_s: float
    began: float = 0.0
    ended: float = 0.0  # it is healthy again; 0: it isn't over
    fault: str = ""

    def overlaps(self, begin, end):
        return self.began > 0 and self.began <= end and (self.ended == 0 or self.ended >= begin)


def plan(members, requests, seed):
    """One step for each 40 requests, spread over them; the same for the same seed."""
    chance = random.Random(f"plan {seed}")
    count = max(4, requests // 40)
    weights = [{"native": 4, "scripted": 2}.get(each.kind, 0.5 if each.costly else 1.5) for each in members]
    steps = []
    for i in range(count):
        member = chance.choices(members, weights)[0]
        kind = chance.choice(COSTLY if member.costly else USUAL)
        hold_s = chance.uniform(16, 22) if kind == "stop long" else chance.uniform(FASTEST_S, 3.0)
        steps.append(Step((i + 1) * requests // (count + 2), kind, member.label, hold_s))
    # What chance may leave out: each kind once, the costly one killed once, and a moment without anybody.
    if count >= 24:
        natives = [each.label for each in members if each.kind == "native"]
        for i, kind in enumerate(dict.fromkeys(USUAL)):
            steps[2 * i + 1].kind, steps[2 * i + 1].replica = kind, natives[i % len(natives)]
            steps[2 * i + 1].hold_s = 18.0 if kind == "stop long" else 1.0
        for each in members:
            if each.costly:
                late = steps[3 * count // 4]  # behind the moment without anybody, which waits for all
                late.kind, late.replica, late.hold_s = "kill", each.label, 1.0
    steps[2 * count // 3].kind, steps[2 * count // 3].replica, steps[2 * count // 3].hold_s = "drain all", ALL, 2.0
    return steps


class Watch:
    """What the gateway says of its replicas, several times a second, and when this machine held all of us still."""

    def __init__(self, address):
        self.address = address
        self.seen = []  # (when, {name: state})
        self.stalls = []  # (from, until)
        self.over = threading.Event()
        self._threads = [threading.Thread(target=work, daemon=True) for work in (self._look, self._beat)]
        for thread in self._threads:
            thread.start()

    def end(self):
        self.over.set()
        for thread in self._threads:
            thread.join()

    def fleet(self):
        return ask(self.address, "GET", "/v1/fak/fleet", timeout=60).json

    def states(self):
        fleet = self.fleet()
        return {each["name"]: each["state"] for each in fleet["replicas"]} if fleet else {}

    def _look(self):
        while not self.over.wait(LOOK_EVERY_S):
            states = self.states()
            self.seen.append((time.monotonic(), states))

    def _beat(self):
        last = time.monotonic()
        while not self.over.wait(0.2):
            now = time.monotonic()
            if now - last > STALL_S:
                self.stalls.append((last, now))
            last = now

    def stalled_s(self, begin, end):
        return sum(max(0.0, min(end, until) - max(begin, since)) for since, until in self.stalls)


class Disturber:
    """Does the steps, each when its time has come and its replica is well, in a thread of its own."""

    def __init__(self, members, steps, load, watch):
        self.members = members
        self.steps, self.load, self.watch = steps, load, watch
        self._busy, self._lock = set(), threading.Condition()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def is_alive(self):
        return self._thread.is_alive()

    def _run(self):
        running = []
        for step in self.steps:
            self.load.limit = step.at + AHEAD
            while self.load.started < step.at:
                time.sleep(0.02)
            with self._lock:
                self._lock.wait_for(lambda step=step: self._free(step))
                self._busy.add(step.replica)
            thread = threading.Thread(target=self._do, args=(step,), daemon=True)
            thread.start()
            running.append(thread)
        self.load.limit = self.load.requests
        for thread in running:
            thread.join()

    def _free(self, step):
        if step.replica == ALL:
            return not self._busy
        return ALL not in self._busy and step.replica not in self._busy and len(self._busy) < AT_ONCE

    def _do(self, step):
        step.began = time.monotonic()
        try:
            {"kill": self._kill, "stop": self._stop, "stop long": self._stop, "stop and kill": self._stop_and_kill,
             "restart": self._restart, "drain": self._drain, "roll": self._roll, "drain all": self._drain_all,
             }[step.kind](step)
            self._wait_back(step)
        except Exception as error:
            step.fault = f"{type(error).__name__}: {error}"
        with self._lock:
            self._busy.discard(step.replica)
            self._lock.notify_all()

    def _kill(self, step):
        member = self.members[step.replica]
        member.kill()
        time.sleep(step.hold_s)
        member.start()

    def _stop(self, step):
        member = self.members[step.replica]
        hold(member)
        time.sleep(step.hold_s)
        let_go(member)

    def _stop_and_kill(self, step):
        member = self.members[step.replica]
        hold(member)
        time.sleep(step.hold_s)
        member.kill()
        member.start()

    def _restart(self, step):
        member = self.members[step.replica]
        if not member.end() and member.ends_well:
            step.fault = "it hadn't ended 60 s after SIGTERM"
        member.start()

    def _tell(self, verb, name):
        reply = ask(self.watch.address, "POST", f"/v1/fak/fleet/{verb}", {"name": name}, timeout=60)
        if reply.status != 200:
            raise RuntimeError(f"{verb} {name}: {reply}")

    def _replica(self, name):
        return next(each for each in self.watch.fleet()["replicas"] if each["name"] == name)

    def _until_idle(self, name):
        end = time.monotonic() + BACK_S
        while self._replica(name)["in_flight"]:
            if time.monotonic() > end:
                raise RuntimeError(f"{name} was drained, and isn't idle after {BACK_S} s")
            time.sleep(0.05)

    def _drain(self, step):
        self._tell("drain", step.replica)
        self._until_idle(step.replica)
        before = self._replica(step.replica)["attempts"]
        time.sleep(step.hold_s)
        after = self._replica(step.replica)["attempts"]
        if after != before:
            step.fault = f"drained and idle it got {after - before} requests"
        self._tell("undrain", step.replica)

    def _roll(self, step):
        self._tell("drain", step.replica)
        self._until_idle(step.replica)
        self._restart(step)
        self._tell("undrain", step.replica)

    def _drain_all(self, step):
        for name in self.members:
            self._tell("drain", name)
        time.sleep(step.hold_s)
        for name in self.members:
            self._tell("undrain", name)

    def _wait_back(self, step):
        """Its breaker may want an answer, which the load brings, or at the end whoever asks then."""
        names = list(self.members) if step.replica == ALL else [step.replica]
        since = time.monotonic()
        while any(self.watch.states().get(name) != "healthy" for name in names):
            now = time.monotonic()
            if now - since - self.watch.stalled_s(since, now) > BACK_S:
                raise RuntimeError(f"not healthy {BACK_S} s after it was well again: {self.watch.states()}")
            time.sleep(0.1)
        step.ended = time.monotonic()
