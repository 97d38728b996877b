"""Texts that tokenizers get wrong, the same on every machine with the same Python."""

import html.entities
import random
import sysconfig
import unicodedata
from pathlib import Path

MODULES = ["argparse.py", "email/header.py", "json/decoder.py", "statistics.py", "tokenize.py", "typing.py"]
LICENCES = Path("/usr/share/common-licenses")


def characters():
    """Every character that Python knows, in order; no surrogates, none for private use, no NUL."""
    codes = (chr(code) for code in range(1, 0x110000))
    return [c for c in codes if unicodedata.category(c) not in ("Cn", "Cs", "Co")]


def span(first, last):
    return [chr(code) for code in range(first, last)]


SCRIPTS = [span(0x4E00, 0x9FFF), span(0x3041, 0x30FF), span(0xAC00, 0xD7A3), span(0x410, 0x450), span(0x621, 0x64B),
           span(0x905, 0x940), span(0xE01, 0xE3A), span(0x391, 0x3C9)]
EMOJI = span(0x1F300, 0x1F650) + ["\u200d", "\ufe0f", "\U0001f3fd", "e\u0301", "\u0301"]
BLANKS = [" ", "  ", "\n", "\t", "\r\n", "\n\n", "   ", "\u3000", "\xa0", "\u2003", "\x0b", "\x0c", "\x85", "\u2028",
          "\u1680", "\u180e", "\u200b"]
QUOTES = ["'s", "'S", "'LL", "'re", "'d", "'\u017f", "'x", "I'M", "don't", "''t"]
SYMBOLS = "!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~"


def piece(draw, words):
    kind = draw.random()
    if kind < 0.35:
        return draw.choice(words) + draw.choice([" "] * 6 + BLANKS)
    if kind < 0.65:
        script = draw.choice(SCRIPTS)
        return "".join(draw.choice(script) for _ in range(draw.randint(1, 8)))
    if kind < 0.72:
        return "".join(draw.choice(EMOJI) for _ in range(draw.randint(1, 4)))
    if kind < 0.85:
        return draw.choice(BLANKS) * draw.randint(1, draw.choice([2, 3, 70]))
    if kind < 0.90:
        return str(draw.randint(0, 10 ** draw.randint(1, 15)))
    if kind < 0.95:
        return draw.choice(QUOTES)
    return "".join(draw.choice(SYMBOLS) for _ in range(draw.randint(1, 5)))


def mixed():
    """About 2 MB: programs, licences, every character in order and shuffled, and a salad of scripts."""
    draw = random.Random(7)
    library = Path(sysconfig.get_paths()["stdlib"])
    parts = [(library / name).read_text(encoding="utf-8") for name in MODULES]
    parts += [path.read_text(encoding="utf-8", errors="ignore") for path in sorted(LICENCES.glob("*"))[:6]]
    words = [word for part in parts for word in part.split()]
    known = characters()
    parts.append("".join(known))
    draw.shuffle(known)
    parts.append(" ".join("".join(known[at:at + 7]) for at in range(0, len(known) // 4, 7)))
    parts.append(" ".join(f"&{name} {character}" for name, character in sorted(html.entities.html5.items())))
    parts.append("".join(piece(draw, words) for _ in range(60000)))
    return "\n".join(parts)


def with_specials(names):
    """Special tokens, whole, cut and run together, between words and blanks."""
    draw = random.Random(11)
    out = []
    for _ in range(20000):
        name = draw.choice(names)
        kind = draw.random()
        if kind < 0.3:
            out.append(name)
        elif kind < 0.4:
            out.append(name[:draw.randint(0, len(name))])
        elif kind < 0.5:
            out.append(name[draw.randint(0, len(name)):])
        else:
            out.append(piece(draw, ["word", "user", "assistant", "<", "|", ">"]))
    return "".join(out)


def any_bytes():
    """Half a megabyte that is no UTF-8: every byte is in it, characters of all planes, and U+2581."""
    draw = random.Random(13)
    data = bytearray(mixed()[:300000].encode("utf-8"))
    for _ in range(len(data) // 10):
        data[draw.randrange(len(data))] = draw.randrange(256)
    whole = "".join(chr(plane << 16 | low) for plane in range(17) for low in (0x2581, 0xFFFC))
    return bytes(range(256)) + bytes(data) + whole.encode("utf-8") + b" \xe2\x96\x81\xe2\x96\x81x"
