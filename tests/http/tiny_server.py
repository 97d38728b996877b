"""A `fak serve` over a tiny model, and clients that say exactly what a test wants to be said.

The environment names the programs: FAK, FAK_TINY_MODEL (fak-tiny-model), and FAK_HTTP_FOLDER, where files go.
FAK_DEEP=1 asks for the long variants (tools/deep.d/45-http).
"""

import http.client
import json
import os
import re
import resource
import socket
import subprocess
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from serving import Serving

FAK = os.environ["FAK"]
FOLDER = os.environ["FAK_HTTP_FOLDER"]
DEEP = os.environ.get("FAK_DEEP") == "1"
PATIENCE_S = 60
CONTEXT = 2048
BLOCK = 16

TEMPLATE = (
    "{% for message in messages %}<{{ message.role }}>{{ message.content }}{% endfor %}"
    "{% if add_generation_prompt %}<assistant>{% endif %}"
)


def model_path():
    """A model of three layers with random weights: 303 tokens, one a byte of ASCII text."""
    os.makedirs(FOLDER, exist_ok=True)
    path = os.path.join(FOLDER, "tiny.gguf")
    if not os.path.exists(path):
        made = f"{path}.{os.getpid()}"
        subprocess.run([os.environ["FAK_TINY_MODEL"], "llama", "Q4_0", made], check=True)
        os.rename(made, path)
    return path


def eventually(condition, what, patience_s=PATIENCE_S):
    end = time.monotonic() + patience_s
    while not (value := condition()):
        if time.monotonic() > end:
            raise AssertionError(f"not within {patience_s} s: {what}")
        time.sleep(0.01)
    return value


def files_limit(files_max):
    """For a child, before it runs the program; None: as it is here."""

    def limit():
        if files_max:
            resource.setrlimit(resource.RLIMIT_NOFILE, (files_max, files_max))

    return limit


class Server(Serving):
    """Over the tiny model; killed at the end of a `with`, if it still runs."""

    def __init__(self, *flags, model=None, files_max=None, port=0):
        self._clients = []  # closed with the server
        template = os.path.join(FOLDER, f"template.{os.getpid()}.jinja")
        model = model or model_path()
        with open(template, "w", encoding="utf-8") as file:
            file.write(TEMPLATE)

        super().__init__(FAK, model, "--threads", "1", "--log-format", "json", "--served-model-name", "tiny",
                         "--chat-template", template, *flags, before=files_limit(files_max), port=port)

    @property
    def port(self):
        return self.address[1]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for client in self._clients:
            client.close()
        self.close()

    def connect(self, receive_buffer=None):
        client = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        self._clients.append(client)
        client.settimeout(PATIENCE_S)
        if receive_buffer:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        client.connect(("127.0.0.1", self.port))
        return client

    def ask(self, method, path, body=None, headers=None):
        """Status, headers and body of one request on a connection of its own."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE_S)
        try:
            if isinstance(body, (dict, list)):
                body = json.dumps(body)
            if isinstance(body, str):
                body = body.encode()
            connection.request(method, path, body, headers or {})
            response = connection.getresponse()
            return response.status, response.headers, response.read()
        finally:
            connection.close()

    def complete(self, **fields):
        status, _, body = self.ask("POST", "/v1/completions", {"prompt": "Hello", **fields})
        assert status == 200, (status, body)
        return json.loads(body)

    def metrics(self):
        values = {}
        for line in self.ask("GET", "/metrics")[2].decode().splitlines():
            if found := re.fullmatch(r"fak_serving_(\w+)\{(.*)\} (\S+)", line):
                outcome = re.search(r'(?:outcome|kind)="(\w+)"', found[2])
                values[found[1] + (":" + outcome[1] if outcome else "")] = float(found[3])
        return values

    def wait_idle(self):
        """Waits until nothing is left of any request: no sequence, no block, no descriptor of its own."""

        def idle():
            load = json.loads(self.ask("GET", "/v1/fak/load")[2])
            values = self.metrics()
            return (
                load["running"] == load["waiting"] == load["backlog_tokens"] == 0
                and load["kv_blocks_free"] == load["kv_blocks_total"]
                and values["num_requests_running"] == values["num_requests_waiting"] == 0
                and values["kv_cache_usage_perc"] == 0
            )

        eventually(idle, "the engine holds nothing")

    def sockets(self):
        folder = f"/proc/{self.process.pid}/fd"
        count = 0
        for name in os.listdir(folder):
            try:
                count += os.readlink(os.path.join(folder, name)).startswith("socket:")
            except OSError:
                pass  # closed meanwhile
        return count

    def resident_bytes(self):
        with open(f"/proc/{self.process.pid}/statm", encoding="ascii") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    def cpu_seconds(self):
        with open(f"/proc/{self.process.pid}/stat", encoding="ascii") as file:
            fields = file.read().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def access(self):
        """The access log's records so far."""
        records = [json.loads(line) for line in list(self.log) if line.startswith("{")]
        return [record for record in records if record["message"] == "request"]


class Front(Server):
    """In front of upstreams, [NAME=][ENGINE+]URL each."""

    def __init__(self, upstreams, *flags, files_max=None):
        self._clients = []
        named = [word for upstream in upstreams for word in ("--upstream", upstream)]
        Serving.__init__(self, FAK, "--log-format", "json", *named, *flags, before=files_limit(files_max))

    def fleet(self):
        status, _, body = self.ask("GET", "/v1/fak/fleet")
        assert status == 200, (status, body)
        return json.loads(body)

    def replica(self, name):
        return next(each for each in self.fleet()["replicas"] if each["name"] == name)

    def wait_quiet(self):
        """Waits until nothing of any request is counted anywhere."""

        def quiet():
            fleet = self.fleet()
            return fleet["open_requests"] == 0 and all(
                each["in_flight"] == each["backlog_tokens"] == 0 for each in fleet["replicas"]
            )

        eventually(quiet, "the fleet holds nothing")


def post(path, document, headers=""):
    """The bytes of a POST."""
    body = document if isinstance(document, bytes) else json.dumps(document).encode()
    head = f"POST {path} HTTP/1.1\r\nHost: h\r\n{headers}Content-Length: {len(body)}\r\n\r\n"
    return head.encode() + body


def completion(**fields):
    """The bytes of a completion that runs for `max_tokens`, whatever the model says."""
    fields = {"prompt": "Hello", "max_tokens": 16, "ignore_eos": True, **fields}
    return post("/v1/completions", fields)


def read_all(client):
    received = b""
    try:
        while part := client.recv(65536):
            received += part
    except ConnectionResetError:
        pass
    return received


def read_through(client, end):
    received = b""
    while end not in received:
        part = client.recv(65536)
        if not part:
            raise AssertionError(f"the connection ended before {end}: {received[-200:]}")
        received += part
    return received


def statuses(received):
    return [int(status) for status in re.findall(rb"HTTP/1\.1 (\d{3}) ", received)]
