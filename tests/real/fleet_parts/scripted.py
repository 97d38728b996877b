#!/usr/bin/env python3
"""A replica that answers with numbered tokens, at a replica's pace, and fails at times in ways that it writes down.

    scripted.py PORT LOG FAULT_SHARE

Every answer has a mark of its own before each number, so that a token that is lost, repeated, or another answer's shows:
" 3fa2.0 3fa2.1 3fa2.2". A line of JSON a request goes to LOG when its fault is chosen: {"id": .., "fault": ..}.
GET /open says how many are open. Which request fails, and how, follows from its id.
"""

import json
import random
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

PACE_S = 0.03  # between two tokens
FAULTS = {
    "status_500": "an error before anything",
    "full": "429, with Retry-After",
    "cut_early": "the connection closed before the first token",
    "cut": "the connection closed in the middle",
    "error_event": "an error event in the middle of a stream",
}


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    lock, opened = threading.Lock(), 0
    log, share = None, 0.0

    def log_message(self, *_):
        pass

    def do_GET(self):
        documents = {"/v1/models": {"object": "list", "data": [{"id": "smollm2", "object": "model"}]},
                     "/open": {"open": Handler.opened}}
        self.whole(*((200, documents[self.path]) if self.path in documents else (404, {"error": {"message": "no"}})))

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        if self.path not in ("/v1/chat/completions", "/v1/completions"):
            self.whole(404, {"error": {"message": "no"}})
            return
        with Handler.lock:
            Handler.opened += 1
        try:
            self.answer(body)
        except OSError:
            self.close_connection = True  # whoever asked has left
        finally:
            with Handler.lock:
                Handler.opened -= 1

    def answer(self, body):
        chance = random.Random(self.headers["x-request-id"] or "")
        fault = chance.choice(list(FAULTS)) if chance.random() < Handler.share else None
        if fault == "error_event" and not body.get("stream"):
            fault = "cut"
        with Handler.lock:
            Handler.log.write(json.dumps({"id": self.headers["x-request-id"] or "", "fault": fault}) + "\n")
            Handler.log.flush()
        chat = "messages" in body
        tokens = body.get("max_tokens", 16)
        self.mark = f"{chance.randrange(1 << 32):08x}"
        if fault in ("status_500", "full"):
            self.whole(*((500, {"error": {"message": "told to", "type": "server_error"}}) if fault == "status_500" else
                         (429, {"error": {"message": "told to", "type": "rate_limit_error"}})),
                       **({"retry-after": "1"} if fault == "full" else {}))
        elif body.get("stream"):
            self.stream(chat, tokens, fault, chance)
        else:
            self.at_once(chat, tokens, fault)

    def whole(self, status, document, **headers):
        data = json.dumps(document).encode()
        self.send_response(status)
        for name, value in {"content-type": "application/json", "content-length": len(data), **headers}.items():
            self.send_header(name, str(value))
        self.end_headers()
        self.wfile.write(data)

    def at_once(self, chat, tokens, fault):
        time.sleep(PACE_S * tokens)
        text = "".join(f" {self.mark}.{i}" for i in range(tokens))
        said = {"message": {"role": "assistant", "content": text}} if chat else {"text": text}
        document = {"id": self.mark, "object": "chat.completion" if chat else "text_completion", "model": "smollm2",
                    "choices": [{"index": 0, **said, "finish_reason": "length"}], "usage": usage(tokens)}
        if not fault:
            self.whole(200, document)
            return
        data = json.dumps(document).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data[:len(data) // 2 if fault == "cut" else 0])
        self.close_connection = True

    def stream(self, chat, tokens, fault, chance):
        breaks_at = {"cut_early": 0, "cut": 1 + chance.randrange(tokens), "error_event": 1 + chance.randrange(tokens)}
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("transfer-encoding", "chunked")
        self.end_headers()
        if chat:
            self.event(self.chunk(chat, {"role": "assistant", "content": ""}))
        for i in range(tokens):
            time.sleep(PACE_S)
            if fault and i == breaks_at[fault]:
                break
            text = f" {self.mark}.{i}"
            self.event(self.chunk(chat, {"content": text} if chat else text))
        if fault == "error_event":
            self.event({"error": {"message": "told to", "type": "server_error"}})
            self.wfile.write(b"0\r\n\r\n")
        if fault:
            self.close_connection = True
            return
        self.event(self.chunk(chat, {} if chat else "", "length"))
        self.event({"id": self.mark, "choices": [], "usage": usage(tokens)})
        self.event("[DONE]")
        self.wfile.write(b"0\r\n\r\n")

    def chunk(self, chat, said, finish=None):
        return {"id": self.mark, "object": "chat.completion.chunk" if chat else "text_completion", "model": "smollm2",
                "choices": [{"index": 0, "delta" if chat else "text": said, "finish_reason": finish}]}

    def event(self, document):
        data = f"data: {document if isinstance(document, str) else json.dumps(document)}\n\n".encode()
        self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))


def usage(tokens):
    return {"prompt_tokens": 1, "completion_tokens": tokens, "total_tokens": tokens + 1}


class Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128


if __name__ == "__main__":
    port, log, share = sys.argv[1:]
    Handler.log, Handler.share = open(log, "a", encoding="utf-8"), float(share)
    Server(("127.0.0.1", int(port)), Handler).serve_forever()
