"""What `fak serve` shows at /metrics, of its own engine and in front of another fak: promtool has nothing to say
against it, docs/metrics.md lists every row, and what the engine counts of itself arrives in front of it as it stands.
Usage: exposition.py FAK FAK-TINY-MODEL FOLDER. Exit status 77: no promtool."""
import json
import re
import shutil
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from serving import Serving

fak, tiny_model, folder = sys.argv[1:]
promtool = shutil.which("promtool") or shutil.which(str(Path(__file__).resolve().parents[2] / ".cache/promtool"))
if promtool is None:
    print("skipped: there is no promtool here; tools/install-deps --tests puts it into .cache")
    sys.exit(77)
folder = Path(folder)
folder.mkdir(parents=True, exist_ok=True)
document = Path(__file__).resolve().parents[2] / "docs/metrics.md"
servers = []
failures = []


def serve(*arguments):
    servers.append(Serving(fak, "--slo", "any=e2e:60000", *arguments))
    return "http://{}:{}".format(*servers[-1].address)


def complete(url, **fields):
    body = json.dumps({"prompt": "a b c d", "max_tokens": 5, "temperature": 0, **fields}).encode()
    request = urllib.request.Request(f"{url}/v1/completions", body, {"content-type": "application/json"})
    with urllib.request.urlopen(request, timeout=120) as answer:
        answer.read()


def metrics(url):
    with urllib.request.urlopen(f"{url}/metrics", timeout=60) as answer:
        return answer.read().decode()


def rows(text, source):
    """{(name, labels apart from worker, engine and source): value} of the rows of one source."""
    found = {}
    for line in text.splitlines():
        sample = re.fullmatch(r"(\w+)\{(.*)\} (\S+)", line)
        if sample and f'source="{source}"' in sample[2]:
            labels = re.findall(r'(\w+)="([^"]*)"', sample[2])
            kept = tuple(sorted(label for label in labels if label[0] not in ("worker", "engine", "source")))
            found[sample[1], kept] = float(sample[3])
    return found


def check(name, text):
    (folder / f"{name}.txt").write_text(text)
    lint = subprocess.run([promtool, "check", "metrics"], input=text, capture_output=True, text=True)
    if lint.returncode != 0 or lint.stdout or lint.stderr:
        failures.append(f"promtool about {name}: {lint.stdout}{lint.stderr}")
    for family in re.findall(r"^# TYPE (\S+)", text, re.M):
        if f"| `{family}` |" not in document.read_text():
            failures.append(f"docs/metrics.md has no row {family}")


try:
    model = folder / "tiny.gguf"
    subprocess.run([tiny_model, "llama", "F32", str(model)], check=True)
    anywhere = "tcp://127.0.0.1:*"
    events = {"enable_kv_cache_events": True, "endpoint": anywhere, "replay_endpoint": anywhere}
    native = serve(model, "--served-model-name", "tiny", "--threads", "1", "--kv-events-config", json.dumps(events))
    with urllib.request.urlopen(f"{native}/kv_event_sources", timeout=60) as answer:
        source = json.load(answer)["0"]
    front = serve("--upstream", f"fak+{native}", "--metrics-scrape-interval", "1",
                  "--upstream-kv-events", "{endpoint},replay={replay_endpoint}".format(**source))
    for stream in (False, True, True):
        complete(front, model="tiny", stream=stream, prompt="a b c d " * 12)  # more than a block
    check("native", metrics(native))
    own = rows(metrics(native), "native")
    for _ in range(600):  # its next scrape has the last request
        text = metrics(front)
        seen = rows(text, "engine")
        if seen.get(("fak_serving_requests_total", (("model", "tiny"), ("outcome", "ok"), ("role", "aggregated")))) == 3:
            break
        time.sleep(0.1)
    check("front", text)
    counted = {row: value for row, value in own.items() if not row[0].endswith("engine_up")}
    if not counted:
        failures.append("the engine shows no row of its own")
    for row, value in counted.items():
        if seen.get(row) != value:
            failures.append(f"{row} is {value} at the engine and {seen.get(row)} in front of it")
    gateway = rows(text, "gateway")
    for name in ("time_to_first_token_seconds_count", "e2e_request_latency_seconds_count", "prompt_tokens_total",
                 "generation_tokens_total", "requests_total", "goodput_requests_total"):
        if not any(row[0] == f"fak_serving_{name}" for row in gateway):
            failures.append(f"the gateway counts no {name}")
    for _ in range(600):
        gateway = {row[0]: value for row, value in rows(metrics(front), "gateway").items()}
        if gateway.get("fak_serving_kv_event_blocks_stored_total", 0) > 0:
            break
        time.sleep(0.1)
    else:
        failures.append("no KV events of the engine behind arrive")
    if any("kv_event" in row[0] for row in rows(metrics(native), "native")):
        failures.append("an engine that reads no KV events counts some")
    up = [value for row, value in seen.items() if row[0] == "fak_serving_engine_up"]
    if up != [1]:
        failures.append(f"engine_up is {up}")

    servers[0].kill()
    for _ in range(600):
        text = metrics(front)
        left = rows(text, "engine")
        if [value for row, value in left.items() if row[0] == "fak_serving_engine_up"] == [0]:
            break
        time.sleep(0.1)
    else:
        failures.append("engine_up stays 1 after the engine was killed")
    if any("num_requests" in row[0] or "usage_perc" in row[0] for row in left):
        failures.append("gauges of an engine that was killed are still there")
    if left.get(("fak_serving_requests_total", (("model", "tiny"), ("outcome", "ok"), ("role", "aggregated")))) != 3:
        failures.append("counters of an engine that was killed are gone")
    check("front-alone", text)
finally:
    for server in servers:
        server.close()
print("\n".join(failures) or "promtool and docs/metrics.md agree with both")
sys.exit(bool(failures))
