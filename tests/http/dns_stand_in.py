"""A DNS server for tests, over UDP: what it has is what a test gives it."""

import socket
import struct
import threading

A, AAAA, SRV = 1, 28, 33
NO_ERROR, NAME_ERROR = 0, 3


def encoded(name):
    return b"".join(bytes([len(label)]) + label.encode() for label in name.rstrip(".").split(".")) + b"\0"


def address(text):
    return socket.inet_pton(socket.AF_INET6 if ":" in text else socket.AF_INET, text)


def service(port, target, priority=0, weight=0):
    return struct.pack("!HHH", priority, weight, port) + encoded(target)


class DnsStandIn:
    """`records`: by (name, type) a time to live and the data of each record; `asked`: each question that came.
    `silent`: it answers nothing."""

    def __init__(self):
        self.records, self.asked, self.silent = {}, [], False
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._socket.bind(("127.0.0.1", 0))
        self.server = "127.0.0.1:%d" % self._socket.getsockname()[1]
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def close(self):
        self._socket.sendto(b"", self._socket.getsockname())
        self._thread.join()
        self._socket.close()

    def times_asked(self, name, kind):
        return self.asked.count((name, kind))

    def _serve(self):
        while True:
            query, client = self._socket.recvfrom(4096)
            if not query:
                return
            labels, at = [], 12
            while query[at]:
                labels.append(query[at + 1:at + 1 + query[at]].decode())
                at += 1 + query[at]
            name = ".".join(labels)
            kind = struct.unpack_from("!H", query, at + 1)[0]
            self.asked.append((name, kind))
            if not self.silent:
                self._socket.sendto(self._answer(query, at + 5, name, kind), client)

    def _answer(self, query, question_end, name, kind):
        known = any(each == name for each, _ in self.records)
        ttl, datas = self.records.get((name, kind), (0, []))
        flags = 0x8580 | (NO_ERROR if known else NAME_ERROR)  # an answer, authoritative, recursion available
        head = query[:2] + struct.pack("!HHHHH", flags, 1, len(datas), 0, 0)
        rows = b"".join(b"\xc0\x0c" + struct.pack("!HHIH", kind, 1, ttl, len(data)) + data for data in datas)
        return head + query[12:question_end] + rows
