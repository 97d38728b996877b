"""fak itself as a replica: the native engine with SmolLM2."""

from checks import in_schema
from engine import IMPOSSIBLE, Engine
from wire import ask, total


class Fak(Engine):
    name = "fak"
    adapter = "fak"
    start_s = 60
    evicts = "exact"
    limits = {
        "messages": (IMPOSSIBLE, "the native engine doesn't serve /v1/messages yet"),
        "responses": (IMPOSSIBLE, "the native engine doesn't serve /v1/responses yet"),
    }

    def install(self):
        pass

    def command(self):
        return [self.fak, "serve", "smollm2", "--port", self.port, "--threads", 1, "--max-model-len", 4096,
                "--log-level", "warning"], {}

    def ready(self):
        return ask(self.address, "GET", "/ready", timeout=10).status == 200

    def version(self):
        return ask(self.address, "GET", "/version").json["version"]

    def context(self):
        return ask(self.address, "GET", "/v1/models").json["data"][0]["max_model_len"]

    def running(self):
        return total(self.metrics(), "fak_serving_num_requests_running")

    def tokens_of(self, text):
        return ask(self.address, "POST", "/tokenize", {"prompt": text}).json.get("tokens")

    def resets(self):
        return ask(self.address, "POST", "/v1/fak/cache/evict", {"scope": "all"}).status == 200

    def figures(self, rows):
        found = in_schema(rows, "native")
        found.pop("engine_up")
        return found


ENGINE = Fak
