#!/usr/bin/env python3
"""Perplexity and speed of the three real models, beside llama.cpp's on the same files.

    beside_llama_cpp.py FAK LLAMA_CPP_BIN [--perplexity] [--speed] [--threads N] [--repetitions N]

Fails when perplexity is more than 0.5 % above llama.cpp's, or speed, as the ratio of medians of
alternating runs, below 0.9 of its generation or 0.7 of its prompt processing. Several sequences at once, and some
behind a depth, by llama-batched-bench, are shown without a floor. The text is Python's own help pages and the GPL, where
Debian has it: at least 20,000 tokens for each vocabulary. Both parts if none is named. Speed means
something on an idle machine only.
"""

import argparse
import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from pydoc_data import topics

MODELS = ["smollm2", "qwen2.5-coder:0.5b", "gemma3:270m"]
TEXT_BYTES = 120_000
TEXT_TOKENS_MIN = 20_000
WINDOW = 512
PERPLEXITY_ABOVE_MAX = 1.005
FLOORS = {"n_prompt": 0.7, "n_gen": 0.9}


def run(*command):
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))}: exit {done.returncode}\n{done.stderr[-2000:]}")
    return done


def text_of():
    pages = "\n\n".join(topics.topics[name].strip() for name in sorted(topics.topics))
    licence = Path("/usr/share/common-licenses/GPL-3")
    half = TEXT_BYTES // 4 if licence.exists() else 0
    whole = (licence.read_text()[:half] if half else "") + pages
    return whole.encode()[:TEXT_BYTES].decode(errors="ignore").strip()


def path_of(fak, model):
    run(fak, "pull", model)
    rows = json.loads(run(fak, "list", "--json").stdout)
    return next(row["path"] for row in rows if row["name"] == model)


def perplexity(fak, peer, model, path, text, threads):
    ours = json.loads(run(fak, "perplexity", model, text, "--json", "--window", WINDOW, "-t", threads).stdout)
    done = run(f"{peer}/llama-perplexity", "-m", path, "-f", text, "-t", threads, "-c", WINDOW)
    theirs = re.search(r"Final estimate: PPL = ([\d.]+) \+/- ([\d.]+)", done.stdout + done.stderr)
    windows = re.search(r"over (\d+) chunks", done.stdout + done.stderr)
    if theirs is None or windows is None or int(windows[1]) != ours["windows"]:
        sys.exit(f"{model}: llama-perplexity did other work: {(done.stdout + done.stderr)[-600:]}")
    tokens = ours["windows"] * ours["window"]  # the last, shorter window is in neither count
    if tokens < TEXT_TOKENS_MIN:
        sys.exit(f"{model}: the text has {tokens} tokens in whole windows, and {TEXT_TOKENS_MIN} are wanted")
    ratio = ours["perplexity"] / float(theirs[1])
    holds = ratio <= PERPLEXITY_ABOVE_MAX
    print(f"{model:20} {ours['windows']:7} {ours['perplexity']:10.4f} {float(theirs[1]):10.4f} "
          f"+/- {float(theirs[2]):6.4f} {ratio:8.4f}  {'ok' if holds else 'TOO HIGH'}", flush=True)
    return holds


def speed(fak, peer, model, threads, repetitions):
    rows = json.loads(run(fak, "bench", "model", model, "-p", 512, "-n", 128, "-t", threads, "-r",
                          repetitions, "--peer", f"llama.cpp={peer}", "--json").stdout)
    holds = True
    for kind, floor in FLOORS.items():
        ours, theirs = (next(row for row in rows if row["engine"] == engine and row[kind] > 0)
                        for engine in ("fak", "llama.cpp"))
        ratio = ours["median_ts"] / theirs["median_ts"]
        holds &= ratio >= floor
        print(f"{model:20} {'pp512' if kind == 'n_prompt' else 'tg128':>7} {ours['median_ts']:10.1f} "
              f"{theirs['median_ts']:10.1f} {ratio:8.2f}x  {'ok' if ratio >= floor else 'TOO SLOW'}",
              flush=True)
    return holds


def together(fak, peer, model, threads):
    """Several sequences that generate at once, and behind a depth: shown, and no floor."""
    for depth, parallel in ((0, (4, 8, 16)), (512, (1, 4))):
        rows = json.loads(run(fak, "bench", "model", model, "-p", 0, "-n", 32, "-t", threads, "-r", 3,
                              "-d", depth, "--parallel", ",".join(map(str, parallel)),
                              "--peer", f"llama.cpp={peer}", "--json").stdout)
        for sequences in parallel:
            ours, theirs = (next(row["median_ts"] for row in rows
                                 if row["engine"] == engine and row["n_parallel"] == sequences)
                            for engine in ("fak", "llama.cpp"))
            print(f"{model:20} {f'{sequences}x tg32':>7} {ours:10.1f} {theirs:10.1f} "
                  f"{ours / theirs:8.2f}x  {f'behind {depth}, ' if depth else ''}no floor", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("fak", type=Path)
    parser.add_argument("peer", type=Path)
    parser.add_argument("--perplexity", action="store_true")
    parser.add_argument("--speed", action="store_true")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--repetitions", type=int, default=5)
    given = parser.parse_args()
    both = given.perplexity == given.speed
    paths = {model: path_of(given.fak, model) for model in MODELS}
    holds = True
    if both or given.perplexity:
        print(f"{'perplexity':20} {'windows':>7} {'fak':>10} {'llama.cpp':>10} {'':10} {'ratio':>8}")
        with tempfile.NamedTemporaryFile("w", suffix=".txt") as text:
            text.write(text_of())
            text.flush()
            for model, path in paths.items():
                holds &= perplexity(given.fak, given.peer, model, path, text.name, given.threads)
    if both or given.speed:
        print(f"{'tokens a second':20} {'test':>7} {'fak':>10} {'llama.cpp':>10} {'ratio':>8}")
        for model in MODELS:
            holds &= speed(given.fak, given.peer, model, given.threads, given.repetitions)
        together(given.fak, given.peer, MODELS[0], given.threads)
    return 0 if holds else 1


if __name__ == "__main__":
    sys.exit(main())
