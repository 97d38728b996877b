"""A fak that serves, for tests: stopped at the end, its exit status looked at."""
import http.client
import json
import re
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from serving import Serving


class Server(Serving):
    def __init__(self, fak, *arguments):
        super().__init__(fak, "--log-level", "warning", *arguments)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        status = self.end()
        self.close()
        if status != 0:
            raise SystemExit(f"the server ended with status {status}:\n" + "\n".join(self.log))

    def send(self, path, body):
        """Sends a request, and returns its connection."""
        connection = http.client.HTTPConnection(*self.address, timeout=300)
        connection.request("POST", path, json.dumps(body))
        return connection

    def post(self, path, body):
        """The answer, its head read. SystemExit unless it is 200."""
        answer = self.send(path, body).getresponse()
        if answer.status != 200:
            raise SystemExit(f"{path}: status {answer.status}: {answer.read().decode()}")
        return answer

    def metric(self, name):
        """The value of the first row of that name, as text."""
        connection = http.client.HTTPConnection(*self.address, timeout=60)
        connection.request("GET", "/metrics")
        rows = connection.getresponse().read().decode()
        return re.search(rf"^{name}(?:{{.*}})? (\S+)$", rows, re.M)[1]


def events(answer):
    """The data of each event of a stream, [DONE] left out."""
    for line in answer:
        if line.startswith(b"data: ") and line.strip() != b"data: [DONE]":
            yield line[len(b"data: "):]
