"""What the system has too little of, or takes away: descriptors, a port, the model's file."""

import os
import shutil
import subprocess
import time
import unittest

from tiny_server import FAK, FOLDER, Server, completion, eventually, model_path, read_through


class Resources(unittest.TestCase):
    def test_accepting_recovers_from_a_lack_of_descriptors(self):
        with Server(files_max=40) as server:
            streaming = server.connect()
            streaming.sendall(completion(stream=True, max_tokens=2000))
            read_through(streaming, b"data: ")
            others = [server.connect() for _ in range(100)]  # the kernel takes them
            eventually(
                lambda: len(os.listdir(f"/proc/{server.process.pid}/fd")) >= 39,
                "no descriptor is left",
            )
            read_through(streaming, b"data: [DONE]")
            before = server.cpu_seconds()
            time.sleep(1)
            self.assertLess(server.cpu_seconds() - before, 0.2, "it spins")
            for client in [*others, streaming]:
                client.close()
            self.assertEqual(server.complete()["object"], "text_completion")
            server.wait_idle()
            self.assertEqual(server.end(), 0)

    def test_a_port_that_is_taken(self):
        with Server() as server:
            second = subprocess.run(
                [FAK, "serve", model_path(), "--port", str(server.port)],
                capture_output=True,
                text=True,
                timeout=60,
                check=False,
            )
            self.assertEqual(second.returncode, 1)
            self.assertIn(f"127.0.0.1:{server.port}: Address already in use", second.stderr)

    def test_a_model_file_cut_short_under_a_server(self):
        path = os.path.join(FOLDER, f"cut.{os.getpid()}.gguf")
        shutil.copy(model_path(), path)
        self.addCleanup(os.remove, path)
        fields = {"max_tokens": 32, "temperature": 0, "ignore_eos": True}
        with Server(model=path) as server:
            whole = server.complete(**fields)["choices"]
            os.truncate(path, 1000)
            self.assertEqual(server.complete(**fields)["choices"], whole)
            self.assertEqual(server.complete(prompt="never seen", **fields)["usage"]["completion_tokens"], 32)
        again = subprocess.run(
            [FAK, "serve", path, "--port", "0"], capture_output=True, text=True, timeout=60, check=False
        )
        self.assertEqual(again.returncode, 1)
        self.assertIn(path, again.stderr)

    def test_a_request_timeout(self):
        with Server("--request-timeout", "0.3", "--max-num-seqs", "1") as server:
            long = server.connect()
            long.sendall(completion(stream=True, max_tokens=2000, n=64))
            read_through(long, b"data: ")
            waits = {"prompt": "waits", "max_tokens": 2000, "n": 64, "ignore_eos": True}
            status, _, body = server.ask("POST", "/v1/completions", waits)
            self.assertEqual(status, 504, body)
            self.assertIn(b"300 ms", body)
            self.assertIn(b'"code":"deadline_exceeded"', read_through(long, b"\r\n0\r\n\r\n"))
            server.wait_idle()
            self.assertEqual(server.complete(max_tokens=2)["usage"]["completion_tokens"], 2)


if __name__ == "__main__":
    unittest.main()
