"""How much memory fak serve takes at most (VmHWM, which counts file pages that it maps), beside what the model
file and the KV cache need; and how soon the default model answers when its file is in the page cache.

usage: memory.py FAK MODEL..."""
import concurrent.futures
import os
import statistics
import subprocess
import sys
import time

from served import Server

MEMORY_EXTRA_MAX = 150_000_000  # bytes beside file and KV
READY_S_MAX = 1.0
KV_BYTES = 32 << 20  # all of it will be used
REQUESTS = 32  # --max-num-seqs, by default
LONG_REQUESTS = 4  # of about 800 tokens; 32 MiB hold at most 2730
READY_RUNS = 5

fak, *models = sys.argv[1:]
failed = False


def report(good, what):
    global failed
    failed = failed or not good
    print(("ok     " if good else "FAILED ") + what, flush=True)


def peak_bytes(process):
    with open(f"/proc/{process.pid}/status") as status:
        return next(int(line.split()[1]) * 1024 for line in status if line.startswith("VmHWM"))


def fill(server):
    """As many requests as run at once, the first of them long enough to use every block of KV between them, with
    all that takes memory beside it."""
    def ask(i):
        body = {"prompt": f"{i}: " + "all the king's horses " * (150 if i < LONG_REQUESTS else 1), "max_tokens": 8, "ignore_eos": True,
                "logprobs": 5, "temperature": 1.0, "top_p": 0.9, "cache_salt": str(i)}
        return server.post("/v1/completions", body).read()

    with concurrent.futures.ThreadPoolExecutor(REQUESTS) as pool:
        list(pool.map(ask, range(REQUESTS)))


def path_of(model):
    pulled = subprocess.run([fak, "pull", model], check=True, capture_output=True, text=True)
    return pulled.stdout.strip()


for model in models:
    file_bytes = os.path.getsize(path_of(model))
    bound = file_bytes + KV_BYTES + MEMORY_EXTRA_MAX
    with Server(fak, model, "--kv-cache-memory", str(KV_BYTES)) as server:
        loaded = peak_bytes(server.process)
        fill(server)
        filled = peak_bytes(server.process)
        for when, peak in ("loaded", loaded), ("in use", filled):
            report(peak <= bound, f"{model}, {when}: {peak / 1e6:.0f} MB at most, {bound / 1e6:.0f} allowed "
                                  f"(file {file_bytes / 1e6:.0f} + KV {KV_BYTES / 1e6:.0f} + "
                                  f"{MEMORY_EXTRA_MAX / 1e6:.0f})")

with open(path_of(models[0]), "rb") as file:
    while file.read(1 << 20):
        pass
seconds = []
for _ in range(READY_RUNS):
    started = time.monotonic()
    with Server(fak, models[0]):
        seconds.append(time.monotonic() - started)
ready = statistics.median(seconds)
report(ready <= READY_S_MAX, f"{models[0]}: ready in {ready:.2f} s, {READY_S_MAX:.0f} allowed (the median of "
                             f"{READY_RUNS} runs, {min(seconds):.2f} to {max(seconds):.2f})")
sys.exit(failed)
