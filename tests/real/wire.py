"""HTTP as a client sees it, a relay that records what passes, and Prometheus text. Standard library only."""

import http.client
import json
import re
import select
import socket
import struct
import threading
import time
from dataclasses import dataclass, field


@dataclass
class Reply:
    """A whole answer. Status 0: none came, and `body` says why."""

    status: int
    headers: dict = field(default_factory=dict)
    body: bytes = b""

    @property
    def json(self):
        try:
            return json.loads(self.body)
        except ValueError:
            return None

    def __str__(self):
        return f"{self.status} {self.body[:200].decode(errors='replace')}"


def ask(address, method, path, body=None, timeout=180, headers=None):
    """One request on a connection of its own. `body`: bytes as they are, anything else as JSON."""
    if body is not None and not isinstance(body, bytes):
        body = json.dumps(body).encode()
    connection = http.client.HTTPConnection(*address, timeout=timeout)
    try:
        connection.request(method, path, body, ({"content-type": "application/json"} if body else {}) | (headers or {}))
        answer = connection.getresponse()
        return Reply(answer.status, {k.lower(): v for k, v in answer.getheaders()}, answer.read())
    except (OSError, http.client.HTTPException) as error:
        return Reply(0, {}, repr(error).encode())
    finally:
        connection.close()


class Stream:
    """An answer as server-sent events, read one at a time: (name, data) with data as bytes."""

    def __init__(self, address, path, body, timeout=180):
        self.connection = http.client.HTTPConnection(*address, timeout=timeout)
        body = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.connection.request("POST", path, body, {"content-type": "application/json"})
        self.socket = self.connection.sock
        self.answer = self.connection.getresponse()
        self.status = self.answer.status
        self.cut = False  # ended without the end that HTTP/1.1 wants

    def __iter__(self):
        name, data = "", []
        while True:
            try:
                line = self.answer.readline()
            except (OSError, http.client.HTTPException):
                self.cut = True
                return
            if not line:
                return
            line = line.rstrip(b"\r\n")
            if not line:
                if data:
                    yield name, b"\n".join(data)
                name, data = "", []
            elif line.startswith(b"data:"):
                data.append(line[5:].removeprefix(b" "))
            elif line.startswith(b"event:"):
                name = line[6:].strip().decode()

    def leave(self):
        """Closes the connection; the moment when."""
        now = time.monotonic()
        self.socket.shutdown(socket.SHUT_RDWR)
        self.answer.close()
        self.connection.close()
        return now


@dataclass
class Told:
    """What a chat or a completion said, streamed or not."""

    status: int
    text: str = ""
    finish: str | None = None
    usage: dict | None = None
    error: dict | None = None
    done: bool = False  # [DONE] came
    chunks: list = field(default_factory=list)
    took_s: float = 0.0

    def __str__(self):
        if self.error is not None or self.status != 200:
            return f"status {self.status}, error {json.dumps(self.error)[:160]}"
        return f"{self.text!r}, {self.finish}, {self.usage}"


def error_of(document):
    """The error in a body or an event, in OpenAI's, Anthropic's, mlx-lm's or Dynamo's shape."""
    if not isinstance(document, dict):
        return None
    error = document.get("error")
    if isinstance(error, str):
        return {"message": error}
    if error is None and "message" in document and "code" in document:
        return document
    return error


def tell(address, path, body):
    """Sends a chat or a completion, and reads it whole."""
    started = time.monotonic()
    told = Told(0)
    if not body.get("stream"):
        reply = ask(address, "POST", path, body)
        told.status = reply.status
        _take(told, reply.json, "message")
        if told.status != 200 and told.error is None:
            told.error = {"message": str(reply)}
    else:
        stream = Stream(address, path, body)
        told.status = stream.status
        if stream.status != 200:
            raw = stream.answer.read()
            told.error = error_of(Reply(stream.status, {}, raw).json) or {"message": raw.decode(errors="replace")}
        else:
            take_events(told, stream)
    told.took_s = time.monotonic() - started
    return told


def take_events(told, stream):
    for _, data in stream:
        if data == b"[DONE]":
            told.done = True
            continue
        _take(told, json.loads(data), "delta")
    return told


def _take(told, document, part):
    told.chunks.append(document)
    if not isinstance(document, dict):
        return
    told.error = error_of(document) or told.error
    told.usage = document.get("usage") or told.usage
    for choice in document.get("choices") or []:
        told.text += choice.get("text") or (choice.get(part) or {}).get("content") or ""
        told.finish = choice.get("finish_reason") or told.finish


class Passage:
    """One connection through a Tap."""

    def __init__(self):
        self.sent = bytearray()  # from fak
        self.got = bytearray()  # from the engine
        self.gone_at = None  # when fak closed it

    def requests(self):
        """The whole requests that fak sent: (method, path, headers, body)."""
        rest, found = bytes(self.sent), []
        while b"\r\n\r\n" in rest:
            head, rest = rest.split(b"\r\n\r\n", 1)
            first, *lines = head.decode("latin-1").split("\r\n")
            headers = {k.lower(): v.strip() for k, v in (line.split(":", 1) for line in lines)}
            length = int(headers.get("content-length", 0))
            method, path, _ = first.split(" ")
            found.append((method, path, headers, rest[:length]))
            rest = rest[length:]
        return found


class Tap:
    """A relay between fak and an engine that records what passes and when fak closes a connection."""

    def __init__(self, target):
        self.target = target
        self.passages = []
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.address = self.listener.getsockname()
        threading.Thread(target=self._accept, daemon=True).start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.listener.close()

    def requests(self, path_part=""):
        return [each for passage in list(self.passages) for each in passage.requests() if path_part in each[1]]

    def carrying(self, path_part, words=b""):
        """The last connection whose last request is to such a path, with these words in its body."""
        for passage in reversed(list(self.passages)):
            requests = passage.requests()
            if requests and path_part in requests[-1][1] and words in requests[-1][3]:
                return passage
        return None

    def _accept(self):
        while True:
            try:
                ours, _ = self.listener.accept()
            except OSError:
                return
            passage = Passage()
            self.passages.append(passage)
            threading.Thread(target=self._relay, args=(ours, passage), daemon=True).start()

    def _relay(self, ours, passage):
        try:
            theirs = socket.create_connection(self.target)
        except OSError:
            ours.close()
            return
        for end in (ours, theirs):
            end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        try:
            while True:
                for ready in select.select([ours, theirs], [], [])[0]:
                    bytes_ = ready.recv(1 << 16)
                    if ready is ours:
                        if not bytes_:
                            passage.gone_at = time.monotonic()
                            return
                        passage.sent += bytes_
                        theirs.sendall(bytes_)
                    else:
                        if not bytes_:
                            return
                        passage.got += bytes_
                        ours.sendall(bytes_)
        except OSError:
            passage.gone_at = passage.gone_at or time.monotonic()
        finally:
            ours.close()
            # As an engine sees a client that left: nothing more is read.
            theirs.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 0, 0))
            theirs.close()


def samples(text):
    """Prometheus text as [(name, labels, value)]."""
    found = []
    for line in text.splitlines():
        match = re.fullmatch(r"([a-zA-Z_:][\w:]*)(?:\{(.*)\})? (\S+)(?: \d+)?", line)
        if match:
            labels = dict(re.findall(r'([a-zA-Z_]\w*)="((?:[^"\\]|\\.)*)"', match[2] or ""))
            found.append((match[1], labels, float(match[3])))
    return found


def total(rows, name, **labels):
    """The sum of a family's samples with these labels, or None if there is none."""
    values = [v for n, have, v in rows if n == name and all(have.get(k) == x for k, x in labels.items())]
    return sum(values) if values else None


def histogram(rows, name, **labels):
    """A histogram's samples with these labels, added over the others, as {le: .., "sum": .., "count": ..}; None if there is none."""
    found = {part: total(rows, f"{name}_{part}", **labels) for part in ("sum", "count")}
    for row, have, value in rows:
        if row == f"{name}_bucket" and all(have.get(key) == want for key, want in labels.items()):
            bound = float(have["le"])
            found[bound] = found.get(bound, 0) + value
    return found if found["count"] is not None else None
