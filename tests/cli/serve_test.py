"""fak serve when it can't: one line that names what is wrong, and no crash. And how it ends."""
import itertools
import json
import os
import re
import resource
import signal
import socket
import subprocess
import urllib.error
import urllib.request

import support


class Serve(support.CliTest):
    def setUp(self):
        super().setUp()
        self.env["FAK_PORT"] = "0"  # others may hold the default one

    def refused(self, *words, status=1, env=None):
        return self.one_line(self.fak("serve", *words, status=status, env=env)[1])

    def test_a_taken_port(self):
        with socket.socket() as other:
            other.bind(("127.0.0.1", 0))
            other.listen()
            port = other.getsockname()[1]
            said = self.refused(self.model, "--port", port)
            self.assertIn(f"127.0.0.1:{port}", said)
            self.assertIn("in use", said)
            self.assertIn("--port", said)

    def test_an_address_that_is_not_ours(self):
        self.assertIn("192.0.2.1", self.refused(self.model, "--host", "192.0.2.1", "--api-key", "k"))
        said = self.refused(self.model, "--host", "no.such.host", status=2)
        self.assertIn("no.such.host: must be an address", said)

    def test_a_public_address_without_a_key(self):
        for host in ("0.0.0.0", "::"):
            said = self.refused(self.model, "--host", host)
            self.assertIn(f"--host {host}", said)
            self.assertIn("--api-key", said)
            self.assertIn("--allow-unauthenticated", said)
        self.assertIn("--api-key", self.refused(self.model, "--api-key", "", status=2))
        self.assertIn("keys.toml", self.refused(self.model, "--keys-file", "keys.toml"))

    def test_tls_files(self):
        self.assertIn("--ssl-keyfile", self.refused(self.model, "--ssl-certfile", "c.pem", status=2))
        self.assertIn("--ssl-certfile", self.refused(self.model, "--ssl-keyfile", "k.pem", status=2))
        self.assertIn("none.pem", self.refused(self.model, "--ssl-certfile", "none.pem", "--ssl-keyfile",
                                               "none.pem"))
        for name in ("c.pem", "k.pem"):
            (self.folder / name).write_text("no PEM\n")
        self.assertIn("c.pem", self.refused(self.model, "--ssl-certfile", "c.pem", "--ssl-keyfile", "k.pem"))
        (self.folder / "c.pem").write_text("-----BEGIN PRIVATE KEY-----\n")
        (self.folder / "k.pem").write_text("-----BEGIN CERTIFICATE-----\n")
        said = self.refused(self.model, "--ssl-certfile", "c.pem", "--ssl-keyfile", "k.pem")
        self.assertIn("TLS certificate c.pem: it holds a private key and no certificate, and k.pem, given for the "
                      "key, holds a certificate: the two are swapped", said)

    def test_a_name_that_is_no_utf8_and_has_escapes(self):
        strange = self.folder / os.fsdecode(b"bad\xff\x1b[2J'.gguf")
        strange.write_bytes(self.model.read_bytes())
        server = self.start("serve", strange, "--port", 0)
        ready = self.line_of(server, " is ready on ")
        self.assertIn("(bad\ufffd\\x1B[2J', ", ready)
        url = re.search(r"http://[^ ]+", ready)[0]
        with urllib.request.urlopen(url + "/v1/models", timeout=60) as answer:
            self.assertEqual(json.loads(answer.read())["data"][0]["id"], "bad\ufffd\x1b[2J'")
        self.assertIn("2J'\\''", self.line_of(server, "try: "))

    def test_a_key_with_what_a_shell_or_a_file_adds(self):
        server = self.start("serve", self.model, "--port", 0, "--request-timeout", "0.0004",
                            env={"FAK_API_KEY": "k1\n"})
        url = re.search(r"http://[^ ]+", self.line_of(server, " is ready on "))[0]
        def status(path, body=None):
            try:
                request = urllib.request.Request(url + path, body, {"Authorization": "Bearer k1"})
                return urllib.request.urlopen(request, timeout=60).status
            except urllib.error.HTTPError as error:
                return error.code
        self.assertEqual(status("/v1/models"), 200)
        # A bound below a millisecond is one.
        self.assertEqual(status("/v1/completions", b'{"prompt": "a", "max_tokens": 4000}'), 504)
        for key in ("SECRET k", "\tSECRET", "SECRET\x01"):
            said = self.refused(self.model, status=2, env={"FAK_API_KEY": key})
            self.assertIn("--api-key", said)
            self.assertNotIn("SECRET", said)

    def test_flags_that_are_wrong(self):
        self.assertIn("--served-model-name", self.refused(self.model, "--served-model-name", "", status=2))
        for flag in ("--log-level", "--isa"):
            said = self.fak("serve", self.model, flag, "loud", status=2)[1]
            self.assertIn(flag, said)
            self.assertIn("loud", said)
        self.assertIn("--kv-cache-memory", self.refused(self.model, "--kv-cache-memory", "lots", status=2))
        self.assertIn("block", self.refused(self.model, "--block-size", "17", status=2))
        self.assertIn("none.jinja", self.refused(self.model, "--chat-template", "none.jinja"))
        self.assertIn("tiny.gguf/log", self.refused(self.model, "--log-file", self.model / "log"))
        said = self.refused(self.model, "--log-file", self.folder / "none" / "log")
        self.assertIn("none/log: No such file", said)
        self.assertFalse((self.folder / "none").exists())
        said = self.refused(self.model, "--kv-cache-memory", "1000000GiB", status=1)
        most = re.search(r"at most (\d+MiB) fits", said)[1]
        self.assertGreater(int(most[:-3]), 1)
        said = self.refused(self.model, "--kv-cache-memory", "1k", status=1)
        would_do = re.search(r"--kv-cache-memory (\w+) would do", said)[1]
        self.fak("run", "hello", "--model", self.model, "-n", "2", "--kv-cache-memory", would_do)
        self.assertIn("ftp://x", self.refused("--upstream", "ftp://x"))

    def test_a_system_that_starts_no_more_threads(self):
        if os.getuid() != 0:
            self.skipTest("only root can become somebody who has no other process")
        for folder in (self.models, self.folder):
            folder.chmod(0o777)
        for threads in range(1, 5):
            def limit():
                os.setgid(65534)
                os.setuid(65534)
                resource.setrlimit(resource.RLIMIT_NPROC, (threads, threads))

            try:
                said = self.fak("serve", self.model, "--threads", 2, "--port", 0, status=1, before=limit)[1]
            except PermissionError:
                self.skipTest("others than root can't reach the program where it stands")
            self.assertIn("the system start", self.one_line(said))

    def test_a_model_with_a_slip_in_its_name(self):
        self.assertIn('model "smolm2" is none that is known (did you mean smollm2?)',
                      self.refused("smolm2"))
        self.assertIn("(did you mean gemma3:270m?)", self.refused("gemma3:270"))

    def test_a_template_that_does_not_parse_is_named_once(self):
        (self.folder / "bad.jinja").write_text("{% if %}")
        self.assertRegex(self.refused(self.model, "--chat-template", "bad.jinja"),
                         r"^fak: bad.jinja: chat template: line 1")

    def test_more_threads_than_the_system_starts(self):
        def little_address_space():
            resource.setrlimit(resource.RLIMIT_AS, (2 << 30, 2 << 30))
        said = self.one_line(self.fak("serve", self.model, "--port", "0", "--threads", "1000", status=1,
                                      before=little_address_space)[1])
        self.assertRegex(said, r"started \d+ of 1000 threads")
        self.assertIn("--threads", said)

    def test_a_model_that_is_none(self):
        (self.folder / "empty.gguf").touch()
        (self.folder / "text.gguf").write_text("Once upon a time\n" * 100)
        (self.folder / "folder.gguf").mkdir()
        for path, said in (("none.gguf", "No such file"), ("empty.gguf", ""), ("text.gguf", "GGUF"),
                           ("folder.gguf", "folder"), ("/", "folder"), ("/dev/null", ""), ("nosuch", "alias")):
            shown = self.refused(path)
            self.assertIn(path, shown)
            self.assertIn(said, shown)

    def test_a_model_that_may_not_be_read(self):
        closed = self.folder / "closed.gguf"
        closed.write_bytes(self.model.read_bytes())
        closed.chmod(0)
        self.folder.chmod(0o755)
        before = (lambda: os.setuid(65534)) if os.geteuid() == 0 else None
        try:
            said = self.one_line(self.fak("serve", closed, status=1, before=before)[1])
        except PermissionError:
            self.skipTest("nobody else may run this program")
        self.assertIn(str(closed), said)
        self.assertIn("Permission denied", said)

    def test_a_model_cut_short(self):
        whole = self.model.read_bytes()
        cut = self.folder / "cut.gguf"
        for length in (3, 4, 8, 23, 24, 30, 100, 1000, len(whole) // 4, len(whole) // 2, len(whole) - 40):
            cut.write_bytes(whole[:length])
            for verb in ("serve", "inspect"):
                said = self.one_line(self.fak(verb, cut, status=1)[1])
                self.assertIn("cut.gguf", said, length)
                self.assertRegex(said, rf"the file is cut short \({length} of \d+ bytes at least\): download it again")
        cut.write_bytes(b"")
        self.assertIn("the file is empty: download it again", self.refused(cut))

    def test_a_signal_ends_it_well(self):
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            server = self.start("serve", self.model, "--port", "0", "--shutdown-settle", "0")
            self.assertIn("http://127.0.0.1:", self.line_of(server, "is ready on"))
            server.send_signal(number)
            self.assertEqual(server.wait(support.PATIENCE_S), 0)

    def test_it_outlives_its_terminal_where_nohup_says_so(self):
        server = self.start("serve", self.model, "--port", "0", "--shutdown-settle", "0",
                            preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN))
        url = re.search(r"http://[^ ]+", self.line_of(server, "is ready on"))[0]
        server.send_signal(signal.SIGHUP)
        for _ in range(20):
            with urllib.request.urlopen(url + "/ready", timeout=60) as answer:
                self.assertEqual(answer.status, 200)
        server.send_signal(signal.SIGTERM)
        self.assertEqual(server.wait(support.PATIENCE_S), 0)

    def test_open_requests_are_said_and_ended_by_a_second_signal(self):
        server = self.start("serve", self.model, "--port", "0", "--isa", "scalar", "--threads", "1")
        url = self.line_of(server, "is ready on").split(" is ready on ")[1].split()[0]
        asked = json.dumps({"stream": True, "max_tokens": 2000, "temperature": 0, "ignore_eos": True,
                            "messages": [{"role": "user", "content": "Say hello"}]})
        client = subprocess.Popen(["curl", "-sN", f"{url}/v1/chat/completions", "-d", asked],
                                  stdout=subprocess.PIPE, text=True)
        self.children.append(client)
        self.assertIn("data:", client.stdout.readline())
        server.send_signal(signal.SIGINT)
        said = self.line_of(server, "waiting up to")
        self.assertIn("fak: waiting up to 30 s for 1 request; Ctrl-C again ends it now", said)
        server.send_signal(signal.SIGINT)
        answer = client.communicate(timeout=support.PATIENCE_S)[0]
        self.assertIn("shutting down", answer.strip().splitlines()[-1])
        self.assertEqual(client.returncode, 0)
        self.assertEqual(server.wait(support.PATIENCE_S), 0)

    def test_tls_and_plain_ports_are_told_apart(self):
        subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", "k.pem", "-out",
                        "c.pem", "-days", "2", "-subj", "/CN=localhost"], cwd=self.folder, check=True,
                       capture_output=True)
        plain = self.start("serve", self.model, "--port", "0")
        url = self.line_of(plain, "is ready on").split(" is ready on ")[1].split()[0]
        said = self.one_line(self.fak("probe", url.replace("http:", "https:"), status=1)[1])
        self.assertIn("it speaks plain HTTP: use http://", said)
        self.assertIn("a TLS client on a port of plain HTTP", self.line_of(plain, "status=400"))
        tls = self.start("serve", self.model, "--port", "0", "--ssl-certfile", "c.pem", "--ssl-keyfile", "k.pem")
        url = self.line_of(tls, "is ready on").split(" is ready on ")[1].split()[0]
        said = self.one_line(self.fak("probe", url.replace("https:", "http:"), status=1)[1])
        self.assertIn("it speaks TLS: use https://", said)
        self.assertIn("plain HTTP on a port of TLS", self.line_of(tls, "status=400"))

    def test_a_keys_file_says_what_it_may_have(self):
        keys = self.folder / "keys.toml"
        keys.write_text('[[key]]\nname = "a"\nsecret = "x"\n')
        self.assertIn("(known: name, hash, weight, admin, max-concurrency, max-streams, requests-per-minute, tokens-per-minute)",
                      self.refused(self.model, "--keys-file", keys, status=1))

    def test_an_upstream_that_is_down_and_comes_back(self):
        with socket.socket() as nobody:
            nobody.bind(("127.0.0.1", 0))
            port = nobody.getsockname()[1]
            server = self.start("serve", "--upstream", f"b=http://127.0.0.1:{port}", "--port", "0")
            said = self.line_of(server, "is listening on")
            self.assertIn("not ready: 0 of 1 upstreams answer; asking again every 5 s", said)
            url = said.split(" is listening on ")[1].split(",")[0]
            for shown in (self.curl(f"{url}/ready"), self.chat(url, "m")):
                self.assertIn("upstream b: can't connect", shown)
                self.assertNotIn(str(port), shown)
        support.UpstreamStandIn(self, ["m"], port)
        self.line_of(server, "upstream b is back")
        self.assertIn('"model":"m"', self.chat(url, "m"))

    def test_an_upstream_that_is_down_is_told_once(self):
        a = support.UpstreamStandIn(self, ["m"])
        server = self.start("serve", "--upstream", f"a={a.url}", "--upstream", "b=http://127.0.0.1:1", "--port", "0",
                            "--shutdown-settle", "0")
        said = "".join(itertools.takewhile(lambda line: "is ready on" not in line, server.stderr))
        server.send_signal(signal.SIGTERM)
        said += server.communicate(timeout=support.PATIENCE_S)[1]  # the log writes when it can
        self.assertEqual(said.count("upstream b: can't connect"), 1, said)

    def test_an_upstream_that_refuses_our_key_is_not_ready(self):
        locked = self.start("serve", self.model, "--port", "0", "--api-key", "secret")
        locked_url = self.line_of(locked, "is ready on").split(" is ready on ")[1].split()[0]
        why = "GET /v1/models answered 401: give --upstream-api-key or --upstream-api-key-file"
        server = self.start("serve", "--upstream", f"a={locked_url}", "--port", "0")
        url = self.line_of(server, "not ready: 0 of 1 upstreams answer").split(" is listening on ")[1].split(",")[0]
        self.assertIn(f"upstream a: {why}", self.curl(f"{url}/ready"))
        shown = self.fak("probe", locked_url)[0]
        self.assertIn(f"models: it doesn't say: {why}\n", shown)
        for surface in ("messages", "responses", "embeddings"):
            self.assertRegex(shown, rf"(?m)^{surface} +can't be told +POST /v1/{surface} +401: .* it asks for a key$")
        found = json.loads(self.fak("probe", locked_url, "--json")[0])
        self.assertEqual((found["models"], found["why_no_models"]), ([], why))
        self.assertIsNone(next(each["has"] for each in found["signals"] if each["signal"] == "messages"))
        with_key = self.fak("probe", locked_url, "--upstream-api-key", "secret")[0]
        self.assertRegex(with_key, r"(?m)^messages +no .*; use /v1/chat/completions or /v1/completions  ")
        server = self.start("serve", "--upstream", f"a={locked_url}", "--upstream-api-key", "secret", "--port", "0")
        self.line_of(server, "is ready on")

    def curl(self, *words):
        return subprocess.run(["curl", "-s", *words], capture_output=True, text=True).stdout

    def chat(self, url, model):
        return self.curl(f"{url}/v1/chat/completions", "-d", json.dumps(
            {"model": model, "messages": [{"role": "user", "content": "Say hello"}]}))

    def paste(self, server):
        """Runs the command that is printed for that; gives its answer."""
        line = self.line_of(server, "try: ")
        return subprocess.run(line[len("try: "):], shell=True, capture_output=True, text=True).stdout

    def test_a_name_of_ones_own_in_front_of_upstreams(self):
        a, b = (support.UpstreamStandIn(self, ["m"]) for _ in range(2))
        for upstreams in ([a], [a, b]):
            words = [word for name, each in zip("ab", upstreams) for word in ("--upstream", f"{name}={each.url}")]
            server = self.start("serve", *words, "--served-model-name", "house", "--port", "0")
            self.assertIn('"model":"m"', self.paste(server))
            self.assertEqual(upstreams[0].asked_for[-1], "m")
        several = support.UpstreamStandIn(self, ["m", "o"])
        for upstreams in ([several], [a, support.UpstreamStandIn(self, ["o"])]):
            words = [word for name, each in zip("ab", upstreams) for word in ("--upstream", f"{name}={each.url}")]
            said = self.fak("serve", *words, "--served-model-name", "house", "--port", "0", status=2)[1]
            self.assertIn('which of them is "house"?', said)
            self.assertIn("--served-model-name m", said)
            self.assertEqual("--upstream-model m" in said, len(upstreams) == 1)
        server = self.start("serve", "--upstream", several.url, "--served-model-name", "o", "--port", "0")
        self.assertIn('"model":"o"', self.paste(server))

    def test_the_command_to_try_names_a_model_that_is_there(self):
        upstream = support.UpstreamStandIn(self, ["m", "o"])
        server = self.start("serve", "--upstream", upstream.url, "--port", "0")
        self.assertIn('"model":"m"', self.paste(server))
        server = self.start("serve", "--upstream", upstream.url, "--upstream-model", "nosuch", "--port", "0",
                            "--shutdown-settle", "0")
        self.assertIn("m, o", self.line_of(server, "is to be asked for nosuch"))
        self.line_of(server, "is ready on")
        server.send_signal(signal.SIGTERM)
        self.assertNotIn("try:", server.communicate(timeout=support.PATIENCE_S)[1])

    @staticmethod
    def own_name():
        """The machine's, where it leads here."""
        try:
            with socket.socket() as there:
                there.bind((socket.gethostname(), 0))
            return socket.gethostname()
        except OSError:
            return "localhost"

    def test_an_upstream_that_is_this_server_is_refused(self):
        for host, url in (("127.0.0.1", "http://127.0.0.1:4711"), ("127.0.0.1", "http://localhost:4711/v1"),
                          ("localhost", "x=http://127.0.0.1:4711"), ("0.0.0.0", "http://127.0.0.1:4711"),
                          ("127.0.0.1", "http://0.0.0.0:4711"), ("127.0.0.1", "http://127.1:4711"),
                          ("127.0.0.1", "http://LOCALHOST:4711"), ("127.0.0.1", "http://[::ffff:127.0.0.1]:4711"),
                          ("0.0.0.0", "http://127.0.0.2:4711"), ("0.0.0.0", f"http://{self.own_name()}:4711")):
            said = self.refused("--upstream", url, "--host", host, "--port", "4711", "--api-key", "k", status=2)
            self.assertIn("that is where this server itself listens; give one of them another port", said)

    def test_what_a_model_has_not_comes_with_what_to_do(self):
        server = self.start("serve", self.model, "--port", "0")
        url = self.line_of(server, "is ready on").split(" is ready on ")[1].split()[0]
        asked = {"messages": [{"role": "user", "content": "hi"}]}
        tool = {"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}
        for field, value, said in (("tools", [tool], "that of qwen2.5-coder:0.5b has"),
                                   ("response_format", {"type": "json_object"}, "fak serve --upstream URL")):
            self.assertIn(said, self.curl(f"{url}/v1/chat/completions", "-d", json.dumps({**asked, field: value})))
        self.assertIn("qwen2.5-coder:0.5b", self.fak("list")[0])
        shown = self.one_line(self.fak("fleet", "status", "--url", url, status=1)[1])
        self.assertIn("there is no fleet here", shown)
        self.assertIn("--url says where the fleet is served (default: http://127.0.0.1:8000)", shown)

    def test_several_upstreams_as_they_may_be_typed(self):
        for words in (["--upstream", "http://127.0.0.1:1", "http://127.0.0.1:2"],
                      ["http://127.0.0.1:2", "--upstream", "http://127.0.0.1:1"]):
            said = self.refused(*words, status=2)
            self.assertIn("repeat the flag for each: --upstream http://127.0.0.1:1 --upstream http://127.0.0.1:2",
                          said)
        said = self.refused("smollm2", "--upstream", "http://127.0.0.1:1", status=2)
        self.assertIn("smollm2: no model is loaded", said)
        a, b = (support.UpstreamStandIn(self, [name]) for name in "mo")
        server = self.start("serve", "--port", "0",
                            env={"FAK_UPSTREAM": f"a={a.url},b={b.url}", "FAK_MODEL": "other.gguf"})
        self.line_of(server, "upstream a: ")
        self.line_of(server, "upstream b: ")
        self.line_of(server, "is ready on")

    def fleet_file(self, text):
        path = self.folder / "fleet.toml"
        path.write_text(text)
        return path

    def test_replicas_of_a_fleet_file(self):
        a, b = (support.UpstreamStandIn(self, [name]) for name in "mo")
        file = self.fleet_file(f'[serve]\nport = 0\n[[replica]]\nname = "a"\nurl = "{a.url}"\n'
                               f'[[replica]]\nengine = "openai"\nurl = "{b.url}"\n')
        server = self.start("serve", "--config", file, env={"FAK_MODEL": "other.gguf"})
        self.assertIn("models: m", self.line_of(server, "upstream a: "))
        self.assertIn("openai at", self.line_of(server, f"upstream {b.url.split('//')[1]}: "))
        self.line_of(server, f"in front of {a.url}, {b.url}")
        server.kill()
        for words in (["--upstream", f"x={b.url}", "--served-model-name", "o"], [self.model]):
            server = self.start("serve", *words, "--config", file)
            self.line_of(server, "the replicas of the TOML file are passed over")
            self.assertNotIn(a.url, self.line_of(server, "is ready on"))
            server.kill()

    def test_a_native_replica_of_a_fleet_file(self):
        file = self.fleet_file('[serve]\nport = 0\nmax-model-len = 64\n'
                               f'[[replica]]\nengine = "native"\nmodel = "{self.model}"\n')
        server = self.start("serve", "--config", file)
        self.assertIn("context 64", self.line_of(server, "is ready on"))
        server.kill()
        server = self.start("serve", "--config", file, env={"FAK_MODEL": "nosuch.gguf"})
        self.line_of(server, "the model nosuch.gguf is passed over")
        self.line_of(server, "is ready on")
        for words in (["--config", file], [self.model]):
            said = self.refused(*words, "--upstream-model", "x", status=2)
            self.assertIn("--upstream-model: is for an upstream", said)

    def test_a_config_file_may_be_a_pipe(self):
        a = support.UpstreamStandIn(self, ["m"])
        read, write = os.pipe()
        os.write(write, f'[serve]\nport = 0\n[[replica]]\nurl = "{a.url}"\n'.encode())
        os.close(write)
        server = self.start("serve", "--config", f"/dev/fd/{read}", pass_fds=[read])
        os.close(read)
        self.line_of(server, f"in front of {a.url}")

    def test_a_signal_ends_it_while_it_waits_for_a_key_file(self):
        os.mkfifo(self.folder / "key")
        file = self.fleet_file(f'[[replica]]\nurl = "http://127.0.0.1:1"\napi-key-file = "{self.folder}/key"\n')
        server = self.start("serve", "--port", "0", "--config", file)
        writer = os.open(self.folder / "key", os.O_WRONLY)  # waits for it to read
        server.send_signal(signal.SIGTERM)
        self.assertEqual(server.wait(support.PATIENCE_S), -signal.SIGTERM)
        os.close(writer)

    def test_a_fleet_file_that_is_wrong_is_refused_with_the_place(self):
        for text, said in (
                ('[[replica]]\nurl = "http://127.0.0.1:1/?key=secret"\n', "fleet.toml:2:7: replica[0].url: "),
                ('[[replica]]\nname = "a b"\nurl = "http://h"\n', "fleet.toml:2:8: replica[0].name: "),
                ('[[replica]]\nname = "a"\n', "fleet.toml:1:1: replica[0].url: is missing"),
                ('[[replica]]\nengine = "native"\nname = "n"\n', "fleet.toml:3:8: replica[0].name: a model"),
                ('[[replica]]\nengine = "native"\ndata-parallel-rank = -7\n',
                 "fleet.toml:3:22: replica[0].data-parallel-rank: a model"),
                ('[[replica]]\nengine = "vllm"\nurl = "http://h"\ndata-parallel-rank = -7\n',
                 "fleet.toml:4:22: replica[0].data-parallel-rank: must be a rank"),
                ('[[replica]]\nengine = "tgi"\nurl = "http://h"\n', "fleet.toml:2:10: replica[0].engine: "),
                ('[[replica]]\nengine = "native"\nurl = "http://h"\n', "fleet.toml:3:7: replica[0].url: "),
                ('[[replica]]\nurl = "http://h"\ndata-parallel-rank = 1\n',
                 "fleet.toml:3:22: replica[0].data-parallel-rank: "),
                ('[[replica]]\nurl = "http://h"\nkv-events = ["x"]\n', "fleet.toml:3:13: replica[0].kv-events: "),
                ('[[replica]]\nurl = "http://h"\nmetrics-urls = ["x"]\n', "fleet.toml:3:16: replica[0].metrics-urls: ")):
            wrong = self.refused("--config", self.fleet_file(text))
            self.assertIn(said, wrong)
            self.assertNotIn("secret", wrong)

    def test_one_rank_and_different_metrics_urls_an_upstream(self):
        upstream = ["--upstream", "a=vllm+http://127.0.0.1:1"]
        flag = "--upstream-metrics-url"
        url = "http://127.0.0.1:2/m"
        self.assertIn(f"upstream a has the metrics URL {url} twice",
                      self.refused(*upstream, flag, url, flag, f"a={url}"))
        many = [word for i in range(257) for word in (flag, f"{url}{i}")]
        self.assertIn("upstream a has 257 metrics URLs, and may have 256", self.refused(*upstream, *many))
        flag = "--upstream-data-parallel-rank"
        self.assertIn(f"{flag} a=1: upstream a has one already: 0", self.refused(*upstream, flag, "0", flag, "a=1"))
        for wrong in ("-1", "x", "a=", "99999999999"):
            self.assertIn("must be a rank, from 0", self.refused(*upstream, f"{flag}={wrong}"))
        self.assertIn("no upstream has the name b", self.refused(*upstream, flag, "b=0"))
        self.assertIn("llamacpp takes no data-parallel rank",
                      self.refused("--upstream", "llamacpp+http://127.0.0.1:1", flag, "0"))
        self.assertIn("say which it is, as in vllm+http://127.0.0.1:1",
                      self.refused("--upstream", "http://127.0.0.1:1", flag, "0"))

    def test_a_flag_that_no_upstream_reads_is_refused(self):
        upstream = ["--upstream", "http://127.0.0.1:1"]
        given = {"chat-template": "t.jinja", "max-num-seqs": "4", "max-num-batched-tokens": "64", "isa": "scalar",
                 "long-prefill-token-threshold": "8", "no-enable-prefix-caching": None, "max-model-len": "64",
                 "block-size": "16", "kv-cache-dtype": "f32", "kv-cache-memory": "1GiB", "threads": "1",
                 "trust-request-chat-template": None, "tool-call-parser": "hermes", "allow-public-kv-events": None}
        for name, value in given.items():
            typed = [f"--{name}"] + ([value] if value else [])
            self.assertIn(f"fak: --{name}: is for a model", self.refused(*upstream, *typed, status=2))
        said = self.one_line(self.fak("serve", *upstream, status=2, env={"FAK_THREADS": "2"})[1])
        self.assertIn("FAK_THREADS in the environment: is for a model", said)
        (self.folder / "c.toml").write_text("[serve]\nctx-size = 64\n")
        said = self.refused(*upstream, "--config", self.folder / "c.toml", status=2)
        self.assertIn("max-model-len in the TOML file: is for a model", said)
        self.assertIn("http://127.0.0.1:1", said)

    def test_an_ipv6_address_is_written_as_urls_have_it(self):
        try:
            with socket.socket(socket.AF_INET6) as probe:
                probe.bind(("::1", 0))
        except OSError:
            self.skipTest("no IPv6 here")
        server = self.start("serve", self.model, "--host", "::1", "--port", "0")
        self.assertIn("http://[::1]:", self.line_of(server, "is ready on"))
        self.assertIn('"choices"', self.paste(server))


support.main()
