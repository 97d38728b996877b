"""What must hold of a run, and for each of it a planted fault that it must not pass.

A check takes the Evidence and returns what is wrong, a line each. A plant spoils a copy of it in one place.
"""

import copy
import dataclasses
import re
from dataclasses import dataclass

from fleet_parts.disturbances import ALL, BREAKS, KINDS

SPECIAL = re.compile(r"<\|?\w+\|?>")  # tokens that are in no text
TRIES_MAX = 3  # docs/reliability.md
EDGE_S = 0.5  # between what happens and when it is seen of the fleet
RUN_OF_SOME_LENGTH = 1000  # requests, from which on everything must have happened


@dataclass
class Evidence:
    requests: int
    outcomes: list
    reference: dict
    steps: list
    seen: list  # (when, {replica: state})
    stalls: list  # (from, until): this machine held us still
    members: dict  # {label: Member}
    records: dict  # {request's id: lines of the access log}
    faults: dict  # {label: {id that a scripted replica saw: its fault}}
    counts: dict  # {where: {what: number}}, when all was over
    fleet: dict  # the gateway's, likewise
    totals: dict  # {replica: requests that the gateway's metrics count there}
    bound_s: float

    def kind(self, label):
        return self.members[label].kind if label in self.members else ""

    def stalled_s(self, begin, end):
        return sum(max(0.0, min(end, until) - max(begin, since)) for since, until in self.stalls)

    def kept(self):
        """Those whose clients stayed."""
        return [each for each in self.outcomes if not each.left]

    def answers(self):
        return [each for each in self.kept() if is_answer(each)]

    def fault_of(self, outcome):
        return next((fault for seen, fault in self.faults.get(outcome.replica, {}).items()
                     if seen.startswith(outcome.id)), None)


def is_answer(outcome):
    return outcome.status == 200 and not outcome.errors and not outcome.broken and outcome.done == int(outcome.stream)


def is_typed_error(outcome):
    return (len(outcome.errors) == 1 and not outcome.broken and not outcome.done
            and all(isinstance(outcome.error, dict) and outcome.error.get(key) for key in ("type", "message"))
            and (outcome.status >= 400 or outcome.stream))


def name(outcome):
    return f"{outcome.id} ({outcome.case.key}{', stream' if outcome.stream else ''}, at {outcome.replica or 'nobody'})"


# --- The checks.


def ended(e):
    found = [f"{len(e.outcomes)} ended of {e.requests}"] if len(e.outcomes) != e.requests else []
    if len({each.number for each in e.outcomes}) != len(e.outcomes):
        found.append("one ended twice")
    for each in e.kept():
        if is_answer(each) == is_typed_error(each):
            found.append(f"{name(each)}: neither an answer nor a typed error: status {each.status}, {each.broken}, "
                         f"{each.errors}, [DONE] {each.done}")
        took = each.ended - each.began - e.stalled_s(each.began, each.ended)
        if took > e.bound_s:
            found.append(f"{name(each)}: took {took:.0f} s, and the bound is {e.bound_s:.0f} s")
        if each.after_end:
            found.append(f"{name(each)}: {each.after_end} came behind its end")
    return found


def native(e):
    found = []
    for each in e.kept():
        if e.kind(each.replica) != "native":
            continue
        due = e.reference[each.case.key]
        if is_answer(each):
            usage = each.usages[0] if each.usages else due.usages[0]
            for what, got, want in (("text", each.text, due.text), ("finish", each.finishes, due.finishes),
                                    ("log probabilities", each.tokens, due.tokens),
                                    *((key, usage[key], due.usages[0][key])
                                      for key in ("prompt_tokens", "completion_tokens"))):
                if got != want:
                    found.append(f"{name(each)}: {what} {got!r}, and the reference is {want!r}")
        elif not due.text.startswith(each.text) or each.tokens != due.tokens[:len(each.tokens)]:
            found.append(f"{name(each)}: broke off after {each.text!r}, and the reference is {due.text!r}")
    return found


def whole(e):
    found = []
    for each in e.answers():
        fields = each.case.fields()
        wants_one = each.wants_usage or not each.stream
        # llama.cpp has the usage of a streamed completion in its last piece, which stays.
        may_have = wants_one or getattr(e.members.get(each.replica), "name", "") == "llama.cpp"
        if len(each.finishes) != 1:
            found.append(f"{name(each)}: finish reasons {each.finishes}")
            continue
        if len(each.usages) != 1 if wants_one else len(each.usages) > int(may_have):
            found.append(f"{name(each)}: {len(each.usages)} usages, asked for {int(wants_one)}")
            continue
        if not each.usages:
            continue
        usage, most = each.usages[0], fields["max_tokens"]
        tokens, bounded = usage["completion_tokens"], each.finishes == ["length"]
        scripted = e.kind(each.replica) == "scripted"
        if not (tokens == most if bounded else 0 < tokens <= most) or fields.get("ignore_eos") and not bounded:
            found.append(f"{name(each)}: {tokens} tokens of {most}, finish {each.finishes[0]}")
        if each.stream and (each.deltas > tokens or scripted and each.deltas != tokens):
            found.append(f"{name(each)}: {each.deltas} pieces, usage {tokens}")
        if each.tokens and len(each.tokens) != tokens:
            found.append(f"{name(each)}: {len(each.tokens)} tokens with log probabilities, usage {tokens}")
        if each.tokens and not spells(each.tokens, each.text):
            found.append(f"{name(each)}: tokens {[t[0] for t in each.tokens]}, text {each.text!r}")
        due = e.reference[each.case.key].usages[0]["prompt_tokens"]
        if not scripted and usage["prompt_tokens"] != due:
            found.append(f"{name(each)}: {usage['prompt_tokens']} prompt tokens, and there are {due}")
    return found


def spells(tokens, text):
    said = "".join(token for token, *_ in tokens if not SPECIAL.fullmatch(token))
    return said == text or "\ufffd" in said + text or "bytes:" in said


def numbered(e):
    found = []
    for each in e.kept():
        if e.kind(each.replica) != "scripted" or not each.text:
            continue
        words = each.text.split()
        mark = words[0].partition(".")[0]
        due = [f"{mark}.{i}" for i in range(len(words))]
        if words != due or is_answer(each) and len(words) != each.case.fields()["max_tokens"]:
            found.append(f"{name(each)}: {each.text!r}")
    return found


def nobody_could(e, outcome):
    for when, states in e.seen:
        if states and outcome.began - EDGE_S <= when <= outcome.ended + EDGE_S and not any(
                state == "healthy" and not any(step.overlaps(when, when) for step in e.steps
                                               if step.replica in (label, ALL))
                for label, state in states.items()):
            return True
    return False


def broken_by(e, outcome):
    """What was done to its replica meanwhile that may break a stream; None: nothing."""
    for step in e.steps:
        if step.replica != outcome.replica:
            continue
        breaks = step.kind in BREAKS or step.kind == "restart" and not e.members[step.replica].ends_well
        if breaks and step.overlaps(outcome.began, outcome.ended):
            return step.kind
    fault = e.fault_of(outcome)
    return fault if fault in ("cut", "error_event") else None


def lost_by_three(e, outcome):
    """It was tried at as many replicas as a request may be, and the last of them failed for a reason that we know."""
    attempts = max((record.get("attempts", 1) for record in e.records.get(outcome.id, [])), default=0)
    return attempts >= TRIES_MAX and bool(e.fault_of(outcome) or broken_by(e, outcome))


def errors(e):
    found = []
    for each in e.kept():
        if not is_typed_error(each) or e.stalled_s(each.began - 60, each.ended):
            continue
        said = f"{name(each)}: {each.status} {each.error} after {each.ended - each.began:.1f} s"
        if each.deltas and not broken_by(e, each):
            found.append(f"{said}, and nobody broke it")
        if not each.deltas and not nobody_could(e, each) and not lost_by_three(e, each):
            found.append(f"{said}, and somebody could have served it; the log: {e.records.get(each.id)}")
    return found


def logged(e):
    found = []
    for each in e.kept():
        records = e.records.get(each.id, [])
        if len(records) != 1:
            found.append(f"{name(each)}: {len(records)} lines in the access log")
            continue
        record = records[0]
        got = (record["status"], record.get("upstream", ""), "error" in record)
        if got != (each.status, each.replica, bool(each.errors)):
            found.append(f"{name(each)}: status {each.status}, error {each.error}; the log has {record}")
    return found


def idle(e):
    return [f"{where}: {what} is {number}" for where, rows in e.counts.items() for what, number in rows.items() if number]


def accounted(e):
    """What the gateway's metrics, its status and its log count of attempts is the same."""
    found = [f"{each['name']}: {each['attempts']} attempts in the status, {e.totals.get(each['name'], 0):.0f} in the metrics"
             for each in e.fleet["replicas"] if each["attempts"] != e.totals.get(each["name"], 0)]
    logs = sum(record.get("attempts", 1) for records in e.records.values() for record in records if "upstream" in record)
    attempts = sum(each["attempts"] for each in e.fleet["replicas"])
    return found + ([f"{attempts} attempts in the status, {logs} in the log"] if attempts != logs else [])


def back(e):
    found = [f"{step.kind} of {step.replica}: {step.fault}" for step in e.steps if step.fault]
    found += [f"{step.kind} of {step.replica} isn't over" for step in e.steps if step.began and not step.ended]
    return found + [f"{each['name']} is {each['state']} in the end: {each.get('why')}" for each in e.fleet["replicas"]
                    if each["state"] != "healthy"]


def happened(e):
    if e.requests < RUN_OF_SOME_LENGTH:
        return []
    found = [f"{label} answered nothing" for label in e.members
             if not any(each.replica == label for each in e.answers())]
    found += [f"{step.kind} of {step.replica} at {step.at} was never done" for step in e.steps if not step.began]
    found += [f"nothing was done by {kind}" for kind in KINDS if not any(step.kind == kind for step in e.steps)]
    if not any(record.get("attempts", 1) > 1 for records in e.records.values() for record in records):
        found.append("nothing was moved elsewhere")
    return found


# --- The plants.


def spoil(choose, change):
    """Spoils the first outcome that `choose` takes."""
    def plant(e):
        outcomes = list(e.outcomes)
        at = next((i for i, each in enumerate(outcomes) if choose(e, each)), None)
        if at is None:
            return None
        outcomes[at] = copy.deepcopy(outcomes[at])
        change(outcomes[at])
        return dataclasses.replace(e, outcomes=outcomes)
    return plant


def answered_by(*kinds, stream=None):
    return lambda e, each: (not each.left and is_answer(each) and e.kind(each.replica) in kinds and len(each.text) > 12
                            and bool(each.usages) and stream in (None, each.stream))


def changed(**fields):
    return lambda each: [setattr(each, key, value) for key, value in fields.items()]


def two_letters(each):
    each.text = each.text[:5] + each.text[6] + each.text[5] + each.text[7:]
    if each.text[5] == each.text[6]:
        each.text += "."


def repeated(each):
    words = each.text.split()
    each.text = " ".join(words[:2] + words[1:])


def an_error(deltas):
    def change(each):
        each.errors, each.done, each.finishes, each.deltas = [{"type": "server_error", "message": "planted"}], 0, [], deltas
        each.status = 200 if deltas else 502
        each.ended = each.began  # at one moment, so that no disturbance explains it by chance
    return change


def in_peace(e, each):
    """A stream that was answered, begun when somebody could serve and nobody disturbed its replica."""
    begun = dataclasses.replace(each, ended=each.began)
    return (answered_by("native", stream=True)(e, each) and not e.stalled_s(each.began - 60, each.began)
            and not nobody_could(e, begun) and not broken_by(e, begun) and len(e.records.get(each.id, [])) == 1)


def planted(**fields):
    return lambda e: dataclasses.replace(e, **{key: make(e) for key, make in fields.items()})


CHECKS = {
    "ended": ("each ends once, in an answer or a typed error, within its bound", ended, {
        "an answer that has an error too": spoil(answered_by("native"), changed(errors=[{"type": "t", "message": "m"}])),
        "an error without a type": spoil(answered_by("native"), changed(status=500, errors=[{"message": "m"}], done=0)),
        "a hang": spoil(answered_by("native"), lambda each: setattr(each, "ended", each.began + 1e4)),
        "one that never ended": planted(outcomes=lambda e: e.outcomes[1:]),
    }),
    "native": ("native answers are the reference's, to the byte and the bit", native, {
        "two letters in the wrong order": spoil(answered_by("native"), two_letters),
        "another log probability": spoil(lambda e, each: answered_by("native")(e, each) and each.tokens, lambda each:
                                         each.tokens.__setitem__(0, (each.tokens[0][0], -1e-9, each.tokens[0][2]))),
    }),
    "whole": ("one finish reason; usage, tokens and pieces agree; tokens spell the text", whole, {
        "two finish reasons": spoil(answered_by("ridden"), lambda each: each.finishes.append("length")),
        "usage of one token more": spoil(answered_by("ridden"), lambda each:
                                         each.usages[0].update(completion_tokens=each.usages[0]["completion_tokens"] + 1)),
        "a token that is lost": spoil(lambda e, each: answered_by("ridden")(e, each) and len(each.tokens) > 2,
                                      lambda each: each.tokens.pop(1)),
        "a piece that comes twice": spoil(answered_by("scripted", stream=True),
                                          lambda each: setattr(each, "deltas", each.deltas + 1)),
    }),
    "numbered": ("numbered tokens: none lost, none twice, none of another answer", numbered, {
        "one twice": spoil(answered_by("scripted"), repeated),
        "one lost": spoil(answered_by("scripted"), lambda each: setattr(each, "text", each.text.rpartition(" ")[0])),
    }),
    "errors": ("errors only where bytes had been sent and it was broken, nobody could serve, or three had lost it", errors, {
        "one before the first byte": spoil(in_peace, an_error(deltas=0)),
        "one in a stream that nobody broke": spoil(in_peace, an_error(deltas=1)),
    }),
    "logged": ("one line each in the access log, which says the same", logged, {
        "another replica": spoil(answered_by("native"), changed(route="x;because")),
        "a line that is missing": planted(records=lambda e: dict(list(e.records.items())[len(e.records) // 2:])),
    }),
    "idle": ("nothing stays counted: gauges, open requests, permits, backlog, blocks", idle, {
        "a permit that leaks": planted(counts=lambda e: e.counts | {"gateway": {"open requests": 1}}),
    }),
    "accounted": ("attempts agree in status, metrics and log", accounted, {
        "one attempt more": planted(totals=lambda e: {label: number + 1 for label, number in e.totals.items()}),
    }),
    "back": ("who was disturbed is healthy again", back, {
        "one that stays down": planted(fleet=lambda e: e.fleet | {
            "replicas": [each | {"state": "down"} for each in e.fleet["replicas"]]}),
    }),
    "happened": ("all of it happened", happened, {
        "a step that wasn't done": planted(
            steps=lambda e: [*e.steps[1:], dataclasses.replace(e.steps[0], began=0.0)],
            requests=lambda e: max(e.requests, RUN_OF_SOME_LENGTH)),
    }),
}


def judge(evidence, check):
    """(what is wrong, plants that pass unseen, plants for which the run had no place)"""
    _, look, plants = CHECKS[check]
    blind, without_place = [], []
    for what, plant in plants.items():
        spoiled = plant(evidence)
        if spoiled is None:
            without_place.append(what)
        elif len(look(spoiled)) <= len(look(evidence)):
            blind.append(what)
    return look(evidence), blind, without_place
