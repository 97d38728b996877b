"""README.md is two screens long, shows the table that `fak capabilities` prints, as it is printed, and
names no verb or file that isn't there; tests that capabilities name exist.
Usage: readme.py FAK README.md BUILD"""
import json
import re
import shlex
import subprocess
import sys
from pathlib import Path

program, page, build = sys.argv[1:]
text = Path(page).read_text()
root = Path(page).resolve().parent


def run(*arguments):
    return subprocess.run([program, *arguments], check=True, capture_output=True, text=True).stdout


LINES_MAX = 120  # the table, and two screens of about 40

failures = []
if text.count("\n") > LINES_MAX:
    failures.append(f"README.md has {text.count(chr(10))} lines, more than {LINES_MAX}")
if run("capabilities") not in text:
    failures.append("the table of `fak capabilities` differs from the one in README.md")
verbs = {"help", *re.findall(r"^  (\w+) ", run("--help").partition("ubcommands:")[2], re.M)}
for verb in sorted(set(re.findall(r"(?:`|\$ )fak ([a-z]+)", text))):
    if verb not in verbs:
        failures.append(f"README.md names `fak {verb}`, which is no verb")
for capability in json.loads(run("capabilities", "--json")):
    words = shlex.split(capability["proof"])
    if words[:1] == ["fak"] and words[1] not in verbs:
        failures.append(f"`fak capabilities` names `fak {words[1]}`, which is no verb")
    if words and words[0].startswith(("tools/", "tests/")) and not (root / words[0]).exists():
        failures.append(f"`fak capabilities` names {words[0]}, which isn't there")
    if words[:2] == ["ctest", "-R"]:
        listed = subprocess.run(["ctest", "--test-dir", build, "-N", "-R", words[2]],
                                check=True, capture_output=True, text=True).stdout
        if "Total Tests: 0" in listed:
            failures.append(f"`fak capabilities` names ctest -R {words[2]}, which no test matches")
print("\n".join(failures) or "README.md and the program agree")
sys.exit(bool(failures))
