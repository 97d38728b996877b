"""What is measured: each proxy started on a core of its own in front of the scripted upstream."""

import http.client
import json
import os
import re
import secrets
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path.insert(0, str(ROOT / "tests/real"))
from engine import NotHere  # noqa: E402
from venv import make_venv  # noqa: E402: of tests/real

BUILD = ROOT / "build/release"
READY_S = 60

NGINX = """
daemon off;
worker_processes 1;
pid {folder}/nginx.pid;
error_log {folder}/error.log;
worker_rlimit_nofile 20000;
events {{ worker_connections 10000; }}
http {{
  access_log off;
  client_body_temp_path {folder}/body;
  proxy_temp_path {folder}/proxy;
  fastcgi_temp_path {folder}/fastcgi;
  uwsgi_temp_path {folder}/uwsgi;
  scgi_temp_path {folder}/scgi;
  client_max_body_size 64m;
  client_body_buffer_size 16m;
  keepalive_requests 1000000;
  tcp_nodelay on;
  upstream engine {{ server 127.0.0.1:{upstream}; keepalive 1024; keepalive_requests 1000000; }}
  server {{
    listen 127.0.0.1:{port} backlog=4096;
    location / {{
      proxy_pass http://engine;
      proxy_http_version 1.1;
      proxy_set_header Connection "";
      proxy_buffering off;
      proxy_read_timeout 600s;
    }}
  }}
}}
"""


class LoadFailed(Exception):
    """An answer wasn't whole, more than half of the large prompts had none, or a program ended."""


def cpu_model():
    return re.search(r"model name\s*: (.*)", Path("/proc/cpuinfo").read_text())[1]


def busy_share(seconds=2):
    """What share of their time the machine's cores spend on other work."""
    def times():
        return [int(each) for each in Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:]]
    before = times()
    time.sleep(seconds)
    spent = [after - earlier for after, earlier in zip(times(), before)]
    return 1 - (spent[3] + spent[4]) / max(1, sum(spent))


def free_port():
    with socket.socket() as each:
        each.bind(("127.0.0.1", 0))
        return each.getsockname()[1]


def children(pid):
    """The process and all below it."""
    found = [pid]
    for task in Path(f"/proc/{pid}/task").iterdir():
        for child in (task / "children").read_text().split():
            found += children(int(child))
    return found


def cpu_s(pid):
    """User and system time of all threads of these processes."""
    ticks = 0
    for each in children(pid):
        after_name = Path(f"/proc/{each}/stat").read_text().rpartition(")")[2].split()
        ticks += int(after_name[11]) + int(after_name[12])
    return ticks / os.sysconf("SC_CLK_TCK")


def rss_bytes(pid):
    total = 0
    for each in children(pid):
        total += int(re.search(r"VmRSS:\s+(\d+)", Path(f"/proc/{each}/status").read_text())[1]) * 1024
    return total


class Proxy:
    """One that is running. `load` and `idle` drive it from the other core."""

    def __init__(self, bench, name, process, port, key="none", slow=False):
        self.bench, self.name, self.process, self.port, self.key = bench, name, process, port, key
        self.slow = slow  # gets a load that it can do

    def load(self, **load):
        before = cpu_s(self.process.pid)
        figures = self.bench.ask(port=self.port, key=self.key, **load)
        used = cpu_s(self.process.pid) - before
        if figures["errors"]:
            raise LoadFailed(f"{self.name}, {load}: {figures}")
        # Large prompts that don't get through slow nobody down: such a load would say nothing.
        due = figures["seconds"] * 1000 / load["big_every_ms"] if "big_every_ms" in load else 0
        if figures["bigs"] < due / 2:
            raise LoadFailed(f"{self.name}: {figures['bigs']} large prompts were answered, of {due:.0f} that were due")
        figures["cpu_us"] = used * 1e6 / figures["chunks"]
        return figures

    def idle(self, streams):
        """Resident bytes while that many streams are open and silent."""
        held = self.bench.ask(port=self.port, key=self.key, streams=streams, events=2, hold=1)
        if held["held"] != streams:
            raise LoadFailed(f"{self.name}: {streams} idle streams can't be held: {held}")
        return rss_bytes(self.process.pid)


class Bench:
    """The upstream and the proxies, while they run."""

    def __init__(self, names):
        cores = sorted(os.sched_getaffinity(0))
        if len(cores) < 2:
            raise NotHere("two cores are needed, one for the proxy and one for the load")
        self.load_core, self.proxy_core = cores[0], cores[1]
        self.names = names
        self.processes, self.proxies = [], []

    def __enter__(self):
        self.folder = Path(tempfile.mkdtemp(prefix="fak-e2e-"))
        try:
            self.upstream = free_port()
            self.loader = self.start("load", [BUILD / "bench/e2e_load", f"upstream={self.upstream}"], self.load_core,
                                     stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
            wait_for(self.upstream)
            for name in self.names:
                self.proxies.append(STARTERS[name](self))
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        for process in reversed(self.processes):
            process.terminate()
        for process in self.processes:
            try:
                process.wait(timeout=20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)

    def start(self, name, command, core, **more):
        log = open(self.folder / f"{name}.log", "w")
        process = subprocess.Popen(["taskset", "-c", str(core), *map(str, command)],
                                   **{"stdin": subprocess.DEVNULL, "stdout": log, "stderr": log, **more})
        self.processes.append(process)
        return process

    def ask(self, **load):
        """Runs a load and returns its figures."""
        self.loader.stdin.write(" ".join(f"{name}={value}" for name, value in load.items()) + "\n")
        self.loader.stdin.flush()
        line = self.loader.stdout.readline()
        if not line:
            raise LoadFailed(f"the load program ended: {self.log_of('load')}")
        return json.loads(line)

    def log_of(self, name):
        return (self.folder / f"{name}.log").read_text()[-2000:]


def wait_for(port, path=None, process=None, headers=None):
    """Until something listens there and, with a path, answers it with 200."""
    end = time.monotonic() + READY_S
    while time.monotonic() < end:
        if process is not None and process.poll() is not None:
            break
        try:
            if path is None:
                socket.create_connection(("127.0.0.1", port), timeout=2).close()
                return
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
            connection.request("GET", path, headers=headers or {})
            if connection.getresponse().status == 200:
                return
        except OSError:
            pass
        time.sleep(0.1)
    raise LoadFailed(f"nothing answers on port {port}")


def peer(name):
    """The program of tools/peers/NAME."""
    found = subprocess.run([ROOT / "tools/peers" / name], stdout=subprocess.PIPE, text=True, check=False)
    if found.returncode != 0:
        raise NotHere(f"{name} can't be had here")
    return found.stdout.strip()


def start_nginx(bench):
    program = peer("nginx")
    port = free_port()
    config = bench.folder / "nginx.conf"
    config.write_text(NGINX.format(folder=bench.folder, port=port, upstream=bench.upstream))
    process = bench.start("nginx", [program, "-p", bench.folder, "-c", config, "-e", bench.folder / "error.log"],
                          bench.proxy_core)
    wait_for(port, "/v1/models", process)
    return Proxy(bench, "nginx", process, port)


def start_fak(bench):
    port = free_port()
    process = bench.start("fak", [BUILD / "fak", "serve", "--port", port, "--upstream",
                                  f"vllm+http://127.0.0.1:{bench.upstream}"], bench.proxy_core)
    wait_for(port, "/ready", process)
    return Proxy(bench, "fak", process, port)


def environment(name):
    """The interpreter of a proxy in Python, its packages pinned in NAME.txt."""
    folder = ROOT / "build/peers" / name
    folder.mkdir(parents=True, exist_ok=True)
    return make_venv(folder, HERE / f"{name}.txt")


def start_router(bench):
    port = free_port()
    process = bench.start("router", [environment("router"), "-m", "sglang_router.launch_router", "--port", port,
                                     "--host", "127.0.0.1", "--worker-urls", f"http://127.0.0.1:{bench.upstream}",
                                     "--policy", "round_robin", "--prometheus-host", "127.0.0.1",
                                     "--prometheus-port", free_port(), "--log-level", "warn",
                                     "--worker-startup-check-interval", 1], bench.proxy_core)
    wait_for(port, "/readiness", process)
    return Proxy(bench, "router", process, port)


def start_litellm(bench):
    port, key = free_port(), "sk-" + secrets.token_hex(16)
    config = bench.folder / "litellm.yaml"
    config.write_text(f"""
model_list:
  - model_name: bench
    litellm_params: {{model: openai/bench, api_base: "http://127.0.0.1:{bench.upstream}/v1", api_key: none}}
router_settings: {{num_retries: 0}}
""")
    program = environment("litellm").parent / "litellm"
    # It doesn't start without a key, and would fetch a list of prices.
    process = bench.start("litellm", [program, "--config", config, "--host", "127.0.0.1", "--port", port,
                                      "--num_workers", 1], bench.proxy_core,
                          env={**os.environ, "LITELLM_MASTER_KEY": key, "LITELLM_LOCAL_MODEL_COST_MAP": "True",
                               "LITELLM_TELEMETRY": "False"})
    wait_for(port, "/health/liveliness", process)
    return Proxy(bench, "litellm", process, port, key=key, slow=True)


STARTERS = {"nginx": start_nginx, "fak": start_fak, "router": start_router, "litellm": start_litellm}
