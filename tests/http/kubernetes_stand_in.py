"""A Kubernetes API server for tests, as far as EndpointSlices of one namespace go: list and watch."""

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

TOKEN = "the-token"


class KubernetesStandIn:
    """`put` and `delete` change slices as a cluster would. What watches got before `forget` can't be had again."""

    def __init__(self, namespace="default", service="vllm"):
        self.path = f"/apis/discovery.k8s.io/v1/namespaces/{namespace}/endpointslices"
        self.selector = f"kubernetes.io/service-name={service}"
        self.slices, self.events, self.version, self.oldest = {}, [], 100, 0
        self.lists, self.watches, self.refused = 0, [], []
        self.closing = False
        self.changed = threading.Condition()
        self.start()

    def start(self, port=0):
        stand_in = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self):
                stand_in.answer(self)

            def log_message(self, *_):
                pass

        self.closing = False
        self._server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
        self._server.daemon_threads = True
        self.port = self._server.server_port
        self.url = f"http://127.0.0.1:{self.port}"
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()

    def stop(self):
        with self.changed:
            self.closing = True
            self.changed.notify_all()
        self._server.shutdown()
        self._server.server_close()

    def put(self, name, endpoints, port, port_name="http"):
        """endpoints: (address, conditions) each."""
        with self.changed:
            self.version += 1
            kind = "MODIFIED" if name in self.slices else "ADDED"
            self.slices[name] = {
                "metadata": {"name": name, "resourceVersion": str(self.version)},
                "addressType": "IPv4",
                "endpoints": [{"addresses": [address], "conditions": conditions} for address, conditions in endpoints],
                "ports": [{"name": "metrics", "port": 1}, {"name": port_name, "port": port}],
            }
            self._tell(kind, self.slices[name])

    def delete(self, name):
        with self.changed:
            self.version += 1
            gone = self.slices.pop(name)
            gone["metadata"]["resourceVersion"] = str(self.version)
            self._tell("DELETED", gone)

    def bookmark(self):
        with self.changed:
            self.version += 1
            self._tell("BOOKMARK", {"metadata": {"resourceVersion": str(self.version)}})

    def forget(self):
        """Compacts: open watches end, and older versions are gone."""
        with self.changed:
            self.version += 1
            self.oldest = self.version
            self.changed.notify_all()

    def _tell(self, kind, item):
        self.events.append((self.version, {"type": kind, "object": json.loads(json.dumps(item))}))
        self.changed.notify_all()

    def answer(self, request):
        url = urlsplit(request.path)
        query = {key: values[0] for key, values in parse_qs(url.query).items()}
        if request.headers.get("authorization") != f"Bearer {TOKEN}":
            return self._refuse(request, 401, "Unauthorized")
        if url.path != self.path or query.get("labelSelector") != self.selector:
            return self._refuse(request, 404, "the server could not find the requested resource")
        if query.get("watch") == "1":
            return self._watch(request, query)
        with self.changed:
            self.lists += 1
            body = {"kind": "EndpointSliceList", "metadata": {"resourceVersion": str(self.version)},
                    "items": list(self.slices.values())}
        return self._send(request, 200, body)

    def _refuse(self, request, status, message):
        self.refused.append((status, request.path))
        self._send(request, status, {"kind": "Status", "code": status, "message": message})

    @staticmethod
    def _send(request, status, document):
        body = json.dumps(document).encode()
        request.send_response(status)
        request.send_header("content-type", "application/json")
        request.send_header("content-length", str(len(body)))
        request.end_headers()
        request.wfile.write(body)

    def _watch(self, request, query):
        seen = int(query["resourceVersion"])
        self.watches.append((seen, query.get("allowWatchBookmarks"), int(query["timeoutSeconds"])))
        request.send_response(200)
        request.send_header("content-type", "application/json")
        request.send_header("transfer-encoding", "chunked")
        request.end_headers()
        request.close_connection = True

        def send(event):
            line = json.dumps(event).encode() + b"\n"
            request.wfile.write(b"%x\r\n" % len(line) + line + b"\r\n")
            request.wfile.flush()

        try:
            while True:
                with self.changed:
                    gone = seen < self.oldest
                    new = [event for version, event in self.events if version > seen]
                    if not gone and not new and not self.closing:
                        self.changed.wait(1)
                        continue
                    seen = max(seen, self.version)
                if self.closing:
                    return
                if gone:
                    send({"type": "ERROR", "object": {"kind": "Status", "code": 410, "reason": "Expired",
                                                      "message": "too old resource version"}})
                    request.wfile.write(b"0\r\n\r\n")
                    return
                for event in new:
                    send(event)
        except OSError:
            pass  # the client has gone
