#!/usr/bin/env python3
"""Checks what compilers and clang-format do not: one line a finding, `path:line: what`, exit 1 if any.

    tools/tidy.py [ROOT]

What is checked, and why: docs/decisions/0003-tidy.md. Exceptions are written where they apply:
`// tidy: table` in or just above a function whose length is data, and `// tidy: allow NAME: why` on
or just above a line for a banned call.
"""

import functools
import re
import subprocess
import sys
from pathlib import Path

FILE_LINES_MAX = 700
FUNCTION_LINES_MAX = 70

CXX = {".h", ".cc", ".cu", ".cuh"}
CODE = CXX | {".py", ".ts", ".js", ".sh"}

# Names of calls that are not used here: pattern over code without comments and strings, and why.
BANNED = {
    "sprintf": (r"\bv?sprintf\s*\(", "writes without a bound: use fmt::format or snprintf"),
    "strtok": (r"\bstrtok(?:_r)?\s*\(", "has hidden state: use the base splitters"),
    "rand": (r"\bs?rand\s*\(", "is global and unseeded: use the random seam of base"),
    "regex": (r"\bstd::w?regex\b|#\s*include\s*<regex>", "std::regex is slow and recursive: use PCRE2"),
    "endl": (r"\bstd::endl\b", "flushes: write '\\n'"),
    "coroutine": (r"\bco_(?:await|return|yield)\b", "gcc 12 miscompiles coroutines"),
    "new": (r"((?:unique|shared)_ptr<[^;(]*>\s*\w*\(\s*)?(?<![:\w])new\s+[\w:(]", "bare new: give it to an owner at once"),
    "delete": (r"\bdelete(?:\[\])?\s+[\w*(:]", "bare delete: let an owner do it"),
    "async": (r"\bstd::async\b", "starts hidden threads: use the thread pool"),
    "sleep_for": (r"\bsleep_(?:for|until)\s*\(|\bu?sleep\s*\(|\bnanosleep\s*\(", "sleeps: wait for an event"),
    "throw": (r"\bthrow\b", "we throw nothing: return Result"),
    "dynamic_cast": (r"\bdynamic_cast\b|\btypeid\b", "no RTTI outside tests"),
    "locale": (r"\bsetlocale\s*\(|\bstd::locale::global\b", "changes how numbers are printed"),
}
ALLOWED_IN_TESTS = {"new", "delete", "throw", "dynamic_cast"}

# Third-party headers, and the only rooms that may see them (docs/decisions/0001-dependencies.md).
LIBRARIES = {
    r"boost/|asio": {"net"},
    r"openssl/": {"base", "net"},
    r"simdjson|toml\+\+|spdlog/": {"base"},
    r"xxhash": {"base", "text"},
    r"pcre2|utf8proc": {"text"},
    r"prometheus/": {"metrics"},
    r"zmq\.h(pp)?$": {"net"},
    r"CLI/": {"cli"},
}

# Spelled so that this file does not hold what it looks for.
FOREIGN_PATHS = re.compile(r"(?<![\w.~}\])-])/(?:wor[k]|roo[t]|farm|home/\w+)/|\.\./share[d]\b")
OPEN_ENDS = re.compile(r"\bTOD[O]\b(?!\(#\d+\))|\bFIXM[E]\b|\bXX[X]\b|\bnot implemente[d]\b")
CPU_FLAGS = re.compile(r"-m(?:arch|tune)=nativ[e]|-ffast-mat[h]")


class Findings:
    def __init__(self):
        self.rows = []

    def add(self, path, line, what):
        self.rows.append((str(path), line, what))


class Tree:
    """The project's text files by path relative to the root, as git sees them."""

    def __init__(self, root):
        self.root = Path(root).resolve()
        self.text = {}
        self.names = set()
        for name in self._names():
            path = self.root / name
            if not path.is_file():
                continue
            self.names.add(name)
            try:
                self.text[name] = path.read_text(encoding="utf-8")
            except UnicodeDecodeError:
                pass

    def _names(self):
        try:
            out = subprocess.run(
                ["git", "-C", str(self.root), "ls-files", "-z", "-co", "--exclude-standard"],
                capture_output=True, check=True).stdout.decode()
            return sorted(set(out.split("\0")) - {""})
        except (OSError, subprocess.CalledProcessError):  # a source archive
            skipped = {"build", ".cache", "node_modules", "__pycache__"}
            return sorted(
                str(p.relative_to(self.root)) for p in self.root.rglob("*")
                if not skipped & set(p.relative_to(self.root).parts))

    def exists(self, name):
        return name in self.names or (self.root / name).is_dir()

    def with_suffix(self, suffixes, under=""):
        for name, text in self.text.items():
            if Path(name).suffix in suffixes and name.startswith(under):
                yield name, text


def is_data(name):
    """Files whose bytes are given, not written by us."""
    return name.startswith(("tests/golden/", "fuzz/corpus/")) or name.endswith(("package-lock.json", "LICENSE"))


def is_test(name):
    return name.endswith(("_test.cc", "_test.h", "/test_support.h", "_fuzz.cc")) or \
        name.startswith(("tests/", "fuzz/", "bench/"))


def line_of(text, offset):
    return text.count("\n", 0, offset) + 1


# Each alternative begins with its own character: the search skips to the next of those.
_TOKEN = re.compile(
    r'//(?:[^\n\\]|\\.|\\\n)*|/\*.*?\*/'
    r'|R"(?P<tag>[^ ()\\\t\n]*)\(.*?\)(?P=tag)"'
    r'|"(?:[^"\\\n]|\\.)*"'
    r"|'(?<![0-9A-Fa-f]')(?:[^'\\\n]|\\.)*'", re.S)


@functools.cache
def strip(text, keep_strings=False):
    """C++ without comments and the insides of literals; every line keeps its number."""
    def blank(match):
        token = match.group(0)
        if token[0] == "/":
            return " " + "\n" * token.count("\n")
        if keep_strings:
            return token
        return '""' + "\n" * token.count("\n")
    return _TOKEN.sub(blank, text)


# ---- rooms

def parse_rooms(tree, findings):
    """{room: {"USES": set, "TEST_USES": set}} from src/*/CMakeLists.txt, lowest level first."""
    order = re.findall(r"\b[a-z]+\b", re.search(
        r"foreach\(room\s+(.*?)\)", tree.text.get("src/CMakeLists.txt", ""), re.S).group(1))
    keywords = {"HEAVY", "USES", "LINKS", "EXTRA_SOURCES", "TEST_USES", "TEST_LINKS", "APART"}
    rooms = {}
    for room in order:
        name = f"src/{room}/CMakeLists.txt"
        call = re.search(r"fak_room\(\s*(\w+)(.*?)\n?\)", re.sub(r"#[^\n]*", "", tree.text.get(name, "")), re.S)
        if not call or call.group(1) != room:
            findings.add(name, 1, f"no fak_room({room} ...)")
            continue
        lists = {word: set() for word in keywords}
        current = None
        for word in call.group(2).split():
            if word in keywords:
                current = word
            elif current:
                lists[current].add(word)
        for used in lists["USES"]:
            if used not in order or order.index(used) >= order.index(room):
                findings.add(name, 1, f"{room} may not use {used}: rooms use only lower ones")
        rooms[room] = lists
    return rooms


def check_includes(tree, rooms, findings):
    for name, text in tree.with_suffix(CXX):
        parts = name.split("/")
        room = parts[1] if parts[0] == "src" and len(parts) > 2 else None
        code = strip(text, keep_strings=True)
        for match in re.finditer(r'^[ \t]*#[ \t]*include[ \t]*([<"])([^>"]+)[>"]', code, re.M):
            line, header = line_of(code, match.start()), match.group(2)
            for pattern, homes in LIBRARIES.items():
                if room and room not in homes and re.match(pattern, header):
                    findings.add(name, line, f"<{header}> belongs in {' or '.join(sorted(homes))} only")
            if match.group(1) != '"' or room not in rooms:
                continue
            target = header.split("/")[0]
            if target == "tests" and is_test(name):
                continue
            if "/" not in header or target not in rooms:
                findings.add(name, line, f'"{header}": write the path from src/, "room/file.h"')
                continue
            allowed = rooms[room]["USES"] | {room}
            if is_test(name):
                allowed = allowed | rooms[room]["TEST_USES"]
            if target not in allowed:
                findings.add(name, line, f"room {room} does not name {target} in its CMakeLists.txt")


def check_rooms(tree, rooms, findings):
    for room in rooms:
        readme = f"src/{room}/README.md"
        if readme not in tree.text:
            findings.add(f"src/{room}", 1, "the room has no README.md")
            continue
        for match in re.finditer(r"`([\w/]+\.(?:h|cc|cu|py|md))`", tree.text[readme]):
            named = match.group(1)
            if not any(tree.exists(p) for p in (f"src/{room}/{named}", f"src/{named}", named)):
                findings.add(readme, line_of(tree.text[readme], match.start()), f"{named} does not exist")
    for name, text in tree.with_suffix({".h", ".cuh"}):
        if not re.search(r"^#pragma once$", text, re.M):
            findings.add(name, 1, "no #pragma once")


# ---- sizes

def without_template(head):
    """A declaration's head without access labels and template<...> in front."""
    head = re.sub(r"^\s*(?:(?:public|private|protected)\s*:\s*)+", "", head).lstrip()
    while head.startswith("template"):
        depth = 0
        for at, char in enumerate(head):
            depth += (char == "<") - (char == ">")
            if char == ">" and depth == 0:
                head = head[at + 1:].lstrip()
                break
        else:
            break
    return head


def brace_kind(head, outer):
    """What an opening brace starts: n(amespace), c(lass), f(unction body) or o(ther)."""
    if re.search(r"\bnamespace\b[\w\s:]*$|\bextern\s*\"\"\s*$", head):
        return "n"
    head = without_template(head)
    if re.match(r"(?:typedef\s+)?(?:class|struct|union|enum)\b", head) and \
            not re.search(r"\)\s*(?:const|noexcept|override|final|\s)*$|=\s*$", head):
        return "c"
    return "f" if outer and re.search(r"\)[^;=]*$", head) else "o"


def functions(code):
    """(first line, last line) of each outermost function body in stripped code."""
    stack = []  # of open braces: kind, offset, start of its head
    start = 0
    for match in re.finditer(r"[{};]|^[ \t]*#(?:[^\n\\]|\\.)*", code, re.M | re.S):
        token, at = match.group(0), match.start()
        if token == "{":
            outer = all(kind in "nc" for kind, _, _ in stack)
            stack.append((brace_kind(code[start:at], outer), at, start))
        elif token == "}" and stack:
            kind, opened, head = stack.pop()
            if kind == "f" and code[match.end():].lstrip()[:1] in (",", "{"):
                start = head  # a member initialised with braces: the body is still to come
                continue
            if kind == "f":
                yield line_of(code, opened), line_of(code, at)
        elif token not in "};" and code[start:at].strip():
            continue  # a preprocessor line in the middle of a head
        start = match.end()


def check_sizes(tree, findings):
    for name, text in tree.text.items():
        if is_data(name):
            continue
        lines = text.split("\n")
        if Path(name).suffix in CODE and len(lines) - 1 > FILE_LINES_MAX:
            findings.add(name, FILE_LINES_MAX + 1, f"{len(lines) - 1} lines: split the file ({FILE_LINES_MAX} at most)")
        if Path(name).suffix not in CXX:
            continue
        for first, last in functions(strip(text)):
            length = last - first + 1
            if length > FUNCTION_LINES_MAX and not any(
                    "// tidy: table" in line for line in lines[max(0, first - 4):last]):
                findings.add(name, first, f"function of {length} lines ({FUNCTION_LINES_MAX} at most)")


# ---- words

def check_banned(tree, findings):
    for name, text in tree.with_suffix(CXX):
        code, lines = strip(text), text.split("\n")
        for banned, (pattern, why) in BANNED.items():
            if banned in ALLOWED_IN_TESTS and is_test(name):
                continue
            for match in re.finditer(pattern, code):
                line = line_of(code, match.start())
                if match.re.groups and match.group(1):
                    continue  # the lawful form
                near = lines[max(0, line - 2):line]
                if any(re.search(rf"// tidy: allow {banned}: \S", row) for row in near):
                    continue
                findings.add(name, line, f"{banned}: {why}")


def check_words(tree, findings):
    for name, text in tree.text.items():
        if is_data(name):
            continue
        for pattern, why in ((FOREIGN_PATHS, "a path of someone's machine"),
                             (OPEN_ENDS, "open end without an issue number, TOD" + "O(#123)"),
                             (CPU_FLAGS, "flag that makes results depend on the machine")):
            if pattern is CPU_FLAGS and Path(name).suffix in CXX | {".md", ".py"}:
                continue  # there it is only talked about
            for match in pattern.finditer(text):
                findings.add(name, line_of(text, match.start()), f"{why}: {match.group(0)}")


# ---- documents

def slug(heading):
    """The anchor that GitHub gives a heading."""
    heading = re.sub(r"[`*]|\[([^]]*)\]\([^)]*\)", r"\1", heading).strip().lower()
    return re.sub(r"[^\w\- ]", "", heading).replace(" ", "-")


def anchors(text):
    return {slug(h) for h in re.findall(r"^#+\s+(.*?)\s*#*$", text, re.M)}


def check_links(tree, findings):
    for name, text in tree.with_suffix({".md"}):
        prose = re.sub(r"^```.*?^```", lambda m: "\n" * m.group(0).count("\n"), text, flags=re.M | re.S)
        for match in re.finditer(r"\]\(<?([^)\s>]+)>?(?:\s+\"[^\"]*\")?\)", prose):
            target, _, anchor = match.group(1).partition("#")
            line = line_of(prose, match.start())
            if re.match(r"[a-z][a-z0-9+.-]*:", target):
                continue
            path = name
            if target:
                try:
                    path = str((tree.root / name).parent.joinpath(target).resolve().relative_to(tree.root))
                except ValueError:
                    findings.add(name, line, f"link leaves the project: {target}")
                    continue
                if path != "." and not tree.exists(path):
                    findings.add(name, line, f"dead link: {target}")
                    continue
            if anchor and path in tree.text and anchor not in anchors(tree.text[path]):
                findings.add(name, line, f"dead link: no heading #{anchor} in {path}")
    # Files that comments and documents send the reader to.
    mention = re.compile(r"(?<![\w/.<-])((?:docs|tests|bench|fuzz|tools|cmake)/[\w./-]*\w\.(?:md|cc|h|py|cmake|json))\b(?![*{])")
    for name, text in tree.text.items():
        if is_data(name) or name == "tools/tidy_test.py" or \
                Path(name).suffix not in CODE | {".md", ".txt", ".cmake"}:
            continue
        for match in mention.finditer(text):
            if not tree.exists(match.group(1)):
                findings.add(name, line_of(text, match.start()), f"{match.group(1)} does not exist")


UNITS = {"": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "ms": 1, "s": 1000, "min": 60000}


def limit_value(text):
    """'64 * 1024' and 64ull as C++ has them; '64 KiB', '10 s', '65,536' as the page has them."""
    written = re.fullmatch(r"([\d,]+)(?: (\w+))?", text)
    if written and (written.group(2) or "") in UNITS:
        return int(written.group(1).replace(",", "")) * UNITS[written.group(2) or ""]
    code = re.sub(r"(?<=\d)(?:[uU]?[lL]{1,2}|[uU])\b", "", text.replace("'", ""))
    if re.fullmatch(r"[\d\s*+<()-]+", code):
        return eval(code, {"__builtins__": {}})  # digits and operators only
    return None


def check_limits(tree, findings):
    header, page = "src/base/limits.h", "docs/limits.md"
    if header not in tree.text or page not in tree.text:
        findings.add(page, 1, f"{header} and {page} go together")
        return
    declared = {}
    code = strip(tree.text[header])
    for match in re.finditer(r"\b(k[A-Z]\w*)\s*=\s*([^;]+);", code):
        declared[match.group(1)] = (line_of(code, match.start()), match.group(2).strip())
    listed = {}
    for number, row in enumerate(tree.text[page].split("\n"), 1):
        cells = [cell.strip() for cell in row.split("|")]
        if len(cells) > 3 and (constant := re.fullmatch(r"`(k[A-Z]\w*)`", cells[1])):
            listed[constant.group(1)] = (number, cells[2])
    for constant, (line, value) in declared.items():
        if constant not in listed:
            findings.add(header, line, f"{constant} is not in {page}")
        elif limit_value(value) is None or limit_value(value) != limit_value(listed[constant][1]):
            findings.add(page, listed[constant][0], f"{constant} is {value} in {header}, not {listed[constant][1]}")
    for constant, (line, _) in listed.items():
        if constant not in declared:
            findings.add(page, line, f"{constant} is not in {header}")
        elif not any(re.search(rf"\b{constant}\b", strip(text)) for name, text in tree.with_suffix(CXX, "src/")
                     if name != header and not is_test(name)):
            findings.add(header, declared[constant][0], f"{constant} bounds nothing: no code names it")


def check(root):
    tree, findings = Tree(root), Findings()
    rooms = parse_rooms(tree, findings)
    check_includes(tree, rooms, findings)
    check_rooms(tree, rooms, findings)
    check_sizes(tree, findings)
    check_banned(tree, findings)
    check_words(tree, findings)
    check_links(tree, findings)
    check_limits(tree, findings)
    return sorted(set(findings.rows))


def main():
    root = sys.argv[1] if len(sys.argv) > 1 else Path(__file__).resolve().parent.parent
    rows = check(root)
    for path, line, what in rows:
        print(f"{path}:{line}: {what}")
    print(f"tidy: {len(rows)} findings", file=sys.stderr)
    return 1 if rows else 0


if __name__ == "__main__":
    sys.exit(main())
