"""mlx-lm's server on the CPU, with SmolLM2 unpacked from its GGUF."""

import os
import subprocess
import time
from pathlib import Path

import checks
from engine import DEGRADED, IMPOSSIBLE, ROOT, Engine, model_path
from venv import make_venv
from wire import ask, tell

ESTABLISHED, CLOSE_WAIT = "01", "08"  # as /proc/net/tcp has them


class MlxLm(Engine):
    name = "mlx-lm"
    adapter = "mlx"
    endless = {"logit_bias": {"2": -100}}  # SmolLM2's end
    owned = {"adapters": "nowhere", "draft_model": "nowhere"}
    hidden = (("GET", "/slots"), ("POST", "/chat/completions"))
    tokens = 8
    load_tokens = 2
    long_tokens = 60
    look_every_s = 0.1
    limits = {
        "messages": (IMPOSSIBLE, "it serves chats and completions only"),
        "responses": (IMPOSSIBLE, "it serves chats and completions only"),
        "tokenize": (IMPOSSIBLE, "it has no tokenizer to ask"),
        "refusals": (DEGRADED, "it names no bound, and begins with any prompt"),
        "gone_whole": (DEGRADED, "it writes nothing before the end, and so never sees that its client left"),
        "gone_whole_busy": (DEGRADED, "it writes nothing before the end, and so never sees that its client left"),
        "metrics_engine": (IMPOSSIBLE, "it has no metrics"),
        "stop": (DEGRADED, "it cuts the string out of the text, which goes on behind it"),
        "evict": (IMPOSSIBLE, "it has no call that empties its prompt cache"),
        "evict_exact": (IMPOSSIBLE, "it has no call that empties its prompt cache"),
    }
    more = {"gone_whole_busy": checks.GONE_WHOLE_BUSY}

    def install(self):
        self.python = make_venv(self.folder, Path(__file__).with_suffix(".txt"))
        self.model_folder = self.folder / "smollm2"
        self.hub = self.folder / "hub"  # without it GET /v1/models is 200 and empty
        (self.hub / "hub").mkdir(parents=True, exist_ok=True)
        if not (self.model_folder / "config.json").exists():
            subprocess.run([self.python, ROOT / "tests/real/unpack_gguf.py", model_path(self.fak, "smollm2"),
                            self.model_folder], check=True)

    def command(self):
        return ([self.python, "-m", "mlx_lm", "server", "--model", self.model_folder, "--host", "127.0.0.1",
                 "--port", self.port], {"HF_HOME": str(self.hub), "HF_HUB_OFFLINE": "1"})

    def ready(self):
        return ask(self.address, "GET", "/health", timeout=10).status == 200

    def version(self):
        return ""  # it doesn't say

    def context(self):
        return 0

    def model(self):
        return str(self.model_folder)

    def edited(self, body):
        return body.replace(f'"{self.model()}"'.encode(), b'"default_model"')

    def running(self):
        """It has no figures: the connections that it hasn't closed, of clients that left too; one when there is none
        and it computes still."""
        port = f":{self.port:04X}"
        rows = [line.split() for line in open("/proc/net/tcp").readlines()[1:]]
        held = sum(1 for row in rows if row[1].endswith(port) and row[3] in (ESTABLISHED, CLOSE_WAIT))
        return held or int(self.computes())

    def computes(self):
        def ticks():
            fields = open(f"/proc/{self.process.pid}/stat").read().rsplit(")", 1)[1].split()
            return int(fields[11]) + int(fields[12])

        before = ticks()
        time.sleep(0.3)
        return ticks() - before > 0.1 * 0.3 * os.sysconf("SC_CLK_TCK")


def stop(ride):
    """It cuts the stop string out and goes on behind it; fak passes on what it says."""
    body = ride.chat(max_tokens=16)
    path = "/v1/chat/completions"
    with ride.front() as front:
        plain = tell(front.address, path, body)
        word = max(plain.text.split()[1:-1], key=len)
        through, direct = (tell(address, path, body | {"stop": [word]})
                           for address in (front.address, ride.engine.address))
    checks.expect(plain.status == through.status == 200, plain, through)
    checks.expect(through.text == direct.text and through.finish == direct.finish,
                  f"{through.text!r}, {through.finish}; the engine itself {direct.text!r}, {direct.finish}")
    before, _, _ = plain.text.partition(word)
    checks.expect(word not in through.text and through.text.startswith(before), f"{word!r}: {through.text!r}")
    behind = through.text[len(before):]
    checks.expect(behind, f"nothing behind {word!r}: it stops there by now: {through}")
    return DEGRADED, f"{plain.text!r}, with stop {word!r}: {through.text!r}, {through.finish}"


MlxLm.more["stop"] = ("`stop` ends the answer", stop)

ENGINE = MlxLm
