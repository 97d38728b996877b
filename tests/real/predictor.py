"""What an engine's KV events say of its cache, by way of tests/real/kv_hits."""

import json
import subprocess

from checks import expect
from wire import ask


class Predictor:
    """kv_hits, which knows of the engine's cache what its KV events say."""

    def __init__(self, ride):
        program = ride.fak.parent / "tests/real/kv_hits/kv_hits"
        expect(program.exists(), f"{program} isn't built: cmake --build ... --target kv_hits")
        sources = ask(ride.engine.address, "GET", "/kv_event_sources").body
        self.process = subprocess.Popen([program, "127.0.0.1", sources], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, text=True)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.stdin.close()
        self.process.wait(timeout=60)

    def ask(self, **request):
        self.process.stdin.write(json.dumps(request) + "\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        expect(line, "kv_hits ended")
        return json.loads(line)
