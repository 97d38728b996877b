#!/usr/bin/env python3
"""Whether text comes back from its tokens: decode(encode(x)) is x, for any bytes, but for two losses that
src/text/README.md names and the references have too. Exactly these are allowed here.

    read_back.py FAK ENCODE

With a command line: of smollm2, as FAK pulls it, by the program tokenizer_encode.
"""

import json
import subprocess
import sys
import tempfile
from pathlib import Path

import corpus

# Vocabularies without a token for every byte, and the bytes that they lack: these are lost.
LACKS = {
    "gpt-neox": bytes.fromhex("c0 c1 f5 f6 f7 f8 f9 fa fb fc fd fe ff"),
    "smollm2": bytes.fromhex("04 06 13 14 16 1d c0 c1 f1 f2 f5 f6 f7 f8 f9 fa fb fc fd fe ff"),
}
BLANK = "\u2581".encode()  # SentencePiece writes blanks so, and reads it as one


def holds(encode, vocabulary, name, path):
    """And what was lost, in words. The file must hold every byte and a U+2581."""
    done = subprocess.run([encode, "--decode", vocabulary, path], capture_output=True, check=True)
    data = Path(path).read_bytes()
    if b"SentencePiece" in done.stderr:
        return done.stdout == data.replace(BLANK, b" "), "U+2581 as a blank"
    lacks = LACKS.get(name, b"")
    detail = f"without {lacks.hex(' ')}" if lacks else ""
    return done.stdout == data.translate(None, lacks), detail


def main():
    fak, encode = sys.argv[1:]
    subprocess.run([fak, "pull", "smollm2"], check=True, stdout=subprocess.DEVNULL)
    listed = json.loads(subprocess.run([fak, "list", "--json"], check=True, capture_output=True).stdout)
    vocabulary = next(row["path"] for row in listed if row["name"] == "smollm2")
    with tempfile.NamedTemporaryFile() as file:
        file.write(corpus.any_bytes())
        file.flush()
        same, detail = holds(encode, vocabulary, "smollm2", file.name)
    print(f"smollm2: {'comes back' if same else 'DOES NOT COME BACK'} {detail}")
    return 0 if same else 1


if __name__ == "__main__":
    sys.exit(main())
