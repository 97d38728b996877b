"""A fak that serves, for tests: started on a free port, stopped at the end, its exit status looked at."""
import http.client
import json
import re
import subprocess
import threading


class Server:
    def __init__(self, fak, *arguments):
        self.process = subprocess.Popen([fak, "serve", "--port", "0", "--log-level", "warning", *arguments],
                                        stderr=subprocess.PIPE, text=True)
        self.log = []
        for line in self.process.stderr:
            self.log.append(line)
            ready = re.search(r" is ready on http://([\d.]+):(\d+)", line)
            if ready:
                self.address = ready[1], int(ready[2])
                break
        else:
            raise SystemExit("the server did not get ready:\n" + "".join(self.log))
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self):  # so that the pipe never fills
        for line in self.process.stderr:
            self.log.append(line)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.terminate()
        status = self.process.wait(timeout=60)
        if status != 0:
            raise SystemExit(f"the server ended with status {status}:\n" + "".join(self.log))

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
