"""Verbs, --help, and where a flag's value comes from (docs/decisions/0007-flags.md)."""
import json
import os
import re
import subprocess
from pathlib import Path

import support


class Flags(support.CliTest):
    def verbs(self):
        listed = self.fak("--help")[0].partition("ubcommands:")[2]
        return re.findall(r"^  (\w+) ", listed, re.M)

    def test_every_verb_has_help_with_an_example(self):
        self.assertGreater(len(self.verbs()), 10)
        for verb in self.verbs():
            shown = self.fak(verb, "--help")[0]
            self.assertIn("Example", shown, verb)
            self.assertIn(f"fak {verb}", shown)
            self.assertEqual(self.fak("help", verb)[0], shown)
        self.assertEqual(self.fak("help")[0], self.fak("--help")[0])
        self.assertEqual(self.fak("help", "bench", "model")[0], self.fak("bench", "model", "--help")[0])

    def test_help_says_which_flags_take_several_words(self):
        serve = self.fak("serve", "--help")[0]
        self.assertRegex(serve, r"--upstream TEXT  ")
        self.assertIn("sglang", serve)
        self.assertNotIn(" ... ", serve)
        self.assertRegex(self.fak("rm", "--help")[0], r"TEXT \.\.\.")

    def test_probe_says_how_a_url_is_meant(self):
        said = self.one_line(self.fak("probe", "127.0.0.1:1", status=1)[1])
        self.assertIn("did you mean http://127.0.0.1:1?", said)
        self.assertNotIn("NAME", said)

    def test_who_does_not_answer_comes_with_what_to_check(self):
        said = self.one_line(self.fak("probe", "http://127.0.0.1:1", status=1)[1])
        self.assertRegex(said, "can't connect: .*; check that a server runs there, on that port$")
        for words in (["status"], ["drain", "a"], ["remove", "a"], ["add", "c=http://h"]):
            said = self.one_line(self.fak("fleet", *words, "--url", "http://127.0.0.1:1", status=1)[1])
            self.assertRegex(said, r"can't connect: .*; --url says where .* \(default: http://127.0.0.1:8000\)$")
        said = self.one_line(self.fak("fleet", "add", "c", status=1)[1])
        self.assertEqual(said, "fak: c: is a name without a URL: c=http://HOST:PORT")

    def test_every_help_names_config_and_files_that_are_there(self):
        root = Path(__file__).resolve().parents[2]
        for verb in ([verb] for verb in self.verbs() if verb not in ("bench", "fleet")):
            self.assertIn("--config FILE", self.fak(*verb, "--help")[0], verb)
        for verb in (["bench", "route"], ["bench", "load"], ["bench", "compare"], ["perplexity"], ["fleet", "explain"]):
            shown = self.fak(*verb, "--help")[0].partition("Example")[2]
            for file in re.findall(r"\S+\.(?:jsonl|json|gguf|raw)\b|LICENSE", shown):
                made = f"-o {file}" in shown or f"> {file}" in shown
                self.assertTrue(made or (root / file).exists(), (verb, file))

    def test_probe_cuts_nothing_in_a_pipe_and_explains_a_refused_yes(self):
        upstream = support.UpstreamStandIn(self, ["m"], refusal="Not Found, " + "at all, " * 20 + "sorry")
        shown = self.fak("probe", f"openai+{upstream.url}")[0]
        self.assertIn("sorry", shown)
        upstream = support.UpstreamStandIn(self, ["m"], refusal="Bad", status=400)
        self.assertRegex(self.fak("probe", f"openai+{upstream.url}")[0],
                         r"yes .* 400: it is there, and refuses an empty request")

    def test_probe_names_what_it_asked_and_what_can_not_be_told(self):
        upstream = support.UpstreamStandIn(self, ["m"], refusal="Bad", status=400)
        shown = self.fak("probe", f"dynamo+{upstream.url}")[0]
        self.assertRegex(shown, r"(?m)^version: it doesn't say$")
        self.assertRegex(shown, r"(?m)^models: m \(GET /v1/models\)$")
        self.assertRegex(shown, r"(?m)^embeddings +can't be told +POST /v1/embeddings ")
        self.assertRegex(shown, r"(?m)^abort +yes +- +as measured ")
        found = json.loads(self.fak("probe", f"dynamo+{upstream.url}", "--json")[0])
        self.assertEqual(found["asked"], {"models": "GET /v1/models"})
        has = {each["signal"]: each["has"] for each in found["signals"]}
        self.assertEqual((has["embeddings"], has["messages"], has["metrics"]), (None, True, False))

    def test_a_pasted_url_is_refused_with_what_to_leave_out(self):
        for words in (["probe"], ["serve", "smollm2", "--upstream"]):
            said = self.one_line(self.fak(*words, "http://127.0.0.1:1/v1/chat/completions", status=1)[1])
            self.assertIn("leave out /v1/chat/completions", said)
            said = self.one_line(self.fak(*words, "http://127.0.0.1:1/v1?key=SECRET", status=1)[1])
            self.assertIn("has no query", said)
            self.assertNotIn("SECRET", said)

    def test_a_wrong_verb_is_named(self):
        for words in (["srve"], ["srve", "--help"], ["--config", "x", "srve"], ["help", "srve"]):
            said = self.fak(*words, status=2)[1]
            self.assertIn('no verb "srve" (did you mean serve?)', said)
        self.assertIn("needs a verb: serve, run", self.fak(status=2)[1])
        self.assertIn("needs a verb: model", self.fak("bench", status=2)[1])
        self.assertIn('no verb "modle" (did you mean model?)', self.fak("bench", "modle", status=2)[1])
        self.assertNotIn("mean", self.fak("xyzzyx", status=2)[1])

    def test_a_wrong_flag_is_named(self):
        for words, said in ((["serve", "--prot", "1"], "fak serve: there is no --prot (did you mean --port?)"),
                            (["serve", "--prot=1"], "there is no --prot (did"),
                            (["list", "x"], 'fak list: "x" is one word too many'),
                            (["bench", "model", "--n-prmpt", "1"], "fak bench model: there is no --n-prmpt"),
                            (["serve", "--port"], "--port"),
                            (["serve", "--port", "x"], "--port"),
                            (["serve", "--port", "70000"], "--port"),
                            (["serve", "--kv-cache-dtype", "q4"], "--kv-cache-dtype"),
                            (["rm"], "model is required")):
            shown = self.fak(*words, status=2)[1]
            self.assertIn(said, shown)
            self.assertIn("--help says more", shown)

    def test_what_is_given_more_than_once_is_named(self):
        for words, said in ((["serve", "smollm2", "--model", "gemma3:270m"], "--model: give the model once, not "),
                            (["serve", "--port", "1", "--port", "2"], "--port: is given more than once")):
            shown = self.fak(*words, status=2)[1]
            self.assertIn(f"fak serve: {said}", shown)
            self.assertEqual("smollm2 and gemma3:270m" in shown or "gemma3:270m and smollm2" in shown,
                             "smollm2" in words)

    def test_what_cannot_be_written_is_said(self):
        for words in (["list"], ["capabilities"], ["help"], ["inspect", self.model], ["tokenize", self.model, "hi", "--ids"]):
            with open("/dev/full", "w") as full:
                done = subprocess.run([support.FAK, *map(str, words)], stdout=full, stderr=subprocess.PIPE,
                                      stdin=subprocess.DEVNULL, text=True, env=self.env)
            self.assertEqual(done.returncode, 1, words)
            self.assertEqual(self.one_line(done.stderr), "fak: standard output: No space left on device")
        reader, writer = os.pipe()
        os.close(reader)
        done = subprocess.run([support.FAK, "list"], stdout=writer, stderr=subprocess.PIPE, env=self.env)
        os.close(writer)
        self.assertEqual((done.returncode, done.stderr), (141, b""))

    def test_other_programs_verbs_are_known(self):
        for other, ours in (("models", "list"), ("ps", "list"), ("remove", "rm")):
            self.assertIn(f'no verb "{other}" (did you mean {ours}?)', self.fak(other, status=2)[1])

    def test_help_and_version_as_people_type_them(self):
        version = self.fak("--version")[0]
        for words in (["version"], ["-v"], ["-V"]):
            self.assertEqual(self.fak(*words)[0], version)
        self.assertEqual(self.fak("help", "help")[0], self.fak("--help")[0])
        self.assertIn("there is no -v", self.fak("list", "-v", status=2)[1])

    def test_help_has_the_defaults_and_the_routes(self):
        shown = re.sub(r"\s+", " ", self.fak("help", "run")[0])
        self.assertEqual(shown.count("(default: the model's, else "), 4)
        self.assertIn("(default: what the context holds)", shown)
        shown = re.sub(r"\s+", " ", self.fak("help", "bench", "model")[0])
        for flag, default in (("--n-prompt", 512), ("--n-gen", 128), ("--n-depth", 0), ("--parallel", 1)):
            self.assertRegex(shown, rf"{flag} [^-]*\[\[?{default}\]?\]")
        shown = self.fak("help", "serve")[0]
        for part in ("/health", "/ready", "/metrics", "/openapi.json", "printf %s KEY | sha256sum", "[[key]]"):
            self.assertIn(part, shown)

    def test_a_number_out_of_its_range_is_named_with_the_range(self):
        for verb, flag, value, wanted in (
                ("run", "--min-p", "5", "0 to 1"), ("run", "--min-p", "-0.1", "0 to 1"),
                ("run", "--temp", "-1", "0 or more"), ("run", "--temp", "nan", "0 or more"),
                ("run", "--temp", "inf", "at most 3.40282e+38"), ("run", "--temp", "warm", "0 or more"),
                ("run", "--top-p", "5", "above 0, at most 1"), ("run", "--top-p", "-1", "above 0, at most 1"),
                ("run", "--top-p", "0", "above 0, at most 1"), ("run", "--top-k", "-7", "-1 to 2147483647"),
                ("run", "--max-tokens", "-4", "1 to 2147483647"), ("run", "--max-tokens", "0", "1 to 2147483647"),
                ("run", "--threads", "100000", "0 to 1024"), ("inspect", "--threads", "-1", "0 to 1024"),
                ("serve", "--port", "80000", "0 to 65535"), ("serve", "--port", "-1", "0 to 65535"),
                ("run", "--top-k", "1.5", "an integer, -1 to 2147483647"),
                ("run", "--max-tokens", "99999999999", "1 to 2147483647"),
                ("run", "--max-model-len", "-1", "0 to 16777216"), ("run", "--block-size", "0", "16 to 256"),
                ("run", "--long-prefill-token-threshold", "-1", "0 to 16777216"),
                ("inspect", "--max-num-seqs", "0", "1 to 4096"),
                ("inspect", "--max-num-seqs", "x", "1 to 4096"),
                ("inspect", "--max-num-batched-tokens", "99999999999", "1 to 65536"),
                ("inspect", "--threads", "1.5", "an integer, 0 to 1024"),
                ("serve", "--port", "80.5", "an integer, 0 to 65535"),
                ("serve", "--shutdown-timeout", "-1", "0 to 86400")):
            said = self.fak(verb, "hello", flag, value, status=2)[1]
            self.assertIn(f"{flag}: must be {wanted}, not {value}\n", said)
            variable = "FAK" + flag.replace("--", "_").replace("-", "_").upper()
            said = self.one_line(self.fak(verb, "hello", status=2, env={variable: value})[1])
            self.assertIn(variable, said)
            self.assertIn(f"must be {wanted}, not {value}", said)

    def test_an_origin_is_one_that_browsers_send(self):
        for value, wanted in (("http://localhost:3000/", "must be http://localhost:3000, as"),
                              ("https://Desk.example:443", "must be https://desk.example, as"),
                              ("http://a/b?c", "must be http://a, as"), ("foo", "like https://"),
                              ("tauri://localhost/", "like https://"), ("http://u:secret@a", "like https://"),
                              ("http://", "like https://"), ("localhost:3000", "like https://"),
                              ("null", "not null, which any site's page can send")):
            said = self.fak("serve", "hello", "--allowed-origin", value, status=2)[1]
            self.assertIn("--allowed-origin: must be ", said)
            self.assertIn(wanted, said)
            self.assertNotIn("secret", said)
        for value in ("*", "http://localhost:3000", "https://desk.example", "http://[::1]:81",
                      "chrome-extension://abc", "tauri://localhost"):
            said = self.fak("serve", "hello", "--allowed-origin", value, "--port", "-1", status=2)[1]
            self.assertNotIn("--allowed-origin", said)

    # The engine's flags, each where it changes something.
    SERVING = {"chat-template", "max-num-batched-tokens", "long-prefill-token-threshold",
               "no-enable-prefix-caching"}
    MEMORY = {"max-model-len", "block-size", "kv-cache-dtype", "kv-cache-memory"}
    MACHINE = {"device", "threads", "isa"}
    ENGINE_FLAGS = {
        "serve": SERVING | MEMORY | MACHINE | {"max-num-seqs"},
        "run": SERVING | MEMORY | MACHINE,
        "inspect": MEMORY | MACHINE | {"chat-template", "max-num-seqs", "max-num-batched-tokens"},
        "verify": {"device"},
        "perplexity": MEMORY | MACHINE | {"max-num-batched-tokens"},
        "bench model": MEMORY | MACHINE | {"max-num-batched-tokens"},
    }

    def test_a_verb_offers_the_flags_that_do_something_there(self):
        known = set().union(*self.ENGINE_FLAGS.values())
        for verb in [*self.verbs(), "bench model"]:
            shown = set(re.findall(r"^  .*?--([a-z-]+)", self.fak(*verb.split(), "--help")[0], re.M))
            self.assertEqual(shown & known, self.ENGINE_FLAGS.get(verb, set()), verb)

    def config(self, text):
        path = self.folder / ".config" / "fak" / "config.toml"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    def context_of(self, *words, **options):
        shown = self.fak("inspect", *words, **options)[0]
        return int(re.search(r"here +context (\d+)", shown)[1])

    def test_the_command_line_wins_over_the_environment_over_the_file(self):
        model = self.model
        self.config("[inspect]\nmax-model-len = 64\n")
        env = {"FAK_MAX_MODEL_LEN": "96"}
        self.assertEqual(self.context_of(model), 64)
        self.assertEqual(self.context_of(model, env=env), 96)
        self.assertEqual(self.context_of(model, "--max-model-len", 128, env=env), 128)
        other = self.folder / "other.toml"
        other.write_text("[inspect]\nmax-model-len = 160\n")
        self.assertEqual(self.context_of(model, "--config", other), 160)
        self.assertEqual(self.context_of(model, env={"FAK_CONFIG": str(other)}), 160)

    def test_every_long_name_of_a_flag_is_one_everywhere(self):
        self.assertEqual(self.context_of(self.model, "--ctx-size", 96), 96)
        self.assertEqual(self.context_of(self.model, env={"FAK_CTX_SIZE": "96"}), 96)
        path = self.config("[inspect]\nctx-size = 160\n")
        self.assertEqual(self.context_of(self.model), 160)
        self.assertEqual(self.context_of(self.model, env={"FAK_MAX_MODEL_LEN": "96"}), 96)
        path.write_text("[inspect]\nctx-size = 160\nmax-model-len = 64\n")
        said = self.one_line(self.fak("inspect", self.model, status=2)[1])
        self.assertIn("config.toml:2:12: inspect.ctx-size: is another name of max-model-len", said)
        path.write_text("[run]\ntemperature = 5\ntemprature = 5\n")
        self.assertIn("run.temprature: fak run has no such flag (did you mean temperature?)",
                      self.one_line(self.fak("run", "hello", status=2)[1]))
        self.assertIn("FAK_TEMPERATURE", self.one_line(
            self.fak("run", "hello", "--config", self.config(""), status=2, env={"FAK_TEMPERATURE": "-1"})[1]))

    def test_a_variable_that_no_flag_listens_to_is_said_with_the_nearest(self):
        path = str(self.config(""))
        said = self.fak("list", env={"FAK_TEMPRATURE": "0", "FAK_PORT": "1", "FAK_CONFIG": path})[1]
        self.assertEqual(said, "fak: no flag listens to FAK_TEMPRATURE in the environment "
                               "(did you mean FAK_TEMPERATURE?)\n")
        self.assertEqual(self.fak("list")[1], "")

    def test_help_says_where_a_flag_may_come_from(self):
        for words, table in ((["serve"], "[serve]"), (["bench", "model"], "[bench.model]")):
            shown = self.fak(*words, "--help")[0]
            self.assertIn("FAK_<NAME>", shown)
            self.assertIn(table, shown)
        shown = self.fak("pull", "--help")[0]
        for part in ("FAK_CACHE", "HF_TOKEN", "HF_ENDPOINT", "smollm2", "https://",
                     "hf:owner/repo[:file-or-quant]", "pypi:wheel[+wheel...]==version", ".gguf"):
            self.assertIn(part, shown)

    def test_the_model_comes_from_all_three_too(self):
        self.config(f'[inspect]\nmodel = "{self.model}"\n[verify]\nmodel = "nosuch.gguf"\n'
                    f'[bench.model]\nmodel = "{self.model}"\nn-prompt = [8]\nn-gen = []\nrepetitions = 1\n')
        self.assertIn("tiny.gguf", self.fak("inspect")[0])
        self.assertIn("tiny.gguf", self.fak("inspect", "--model", self.model)[0])
        self.assertIn("other.gguf", self.fak("inspect", status=1, env={"FAK_MODEL": "other.gguf"})[1])
        self.assertIn("nosuch.gguf", self.fak("verify", status=1)[1])
        self.assertIn("pp8", self.fak("bench", "model", "-n", "0")[0])
        self.assertIn("other.gguf", self.fak("run", "hi", status=1, env={"FAK_MODEL": "other.gguf"})[1])
        self.assertIn("first.gguf", self.fak("run", "first.gguf", "hi", status=1,
                                             env={"FAK_MODEL": "other.gguf"})[1])
        self.assertIn("FAK_MODEL in the environment: other.gguf",
                      self.fak("serve", status=1, env={"FAK_MODEL": "other.gguf"})[1])

    def test_a_secret_of_the_file_is_a_string_and_is_never_shown(self):
        for value, said in (("0x1F", "serve.api-key: must be a string"), ("1234567", "must be a string"),
                            ("[1234567]", "must be a string"), ("12345678901234567890", "config.toml:2:")):
            self.config(f"[serve]\napi-key = {value}\n")
            shown = self.one_line(self.fak("serve", self.model, status=2)[1])
            self.assertIn(said, shown)
            self.assertNotIn("1234567", shown)

    def test_a_wrong_key_or_value_is_named_with_its_place(self):
        for text, words, said in (
                ("[inspect]\nmax-model-len = 64\nmax-modle-len = 1\n", ["inspect", self.model],
                 "config.toml:3:17: inspect.max-modle-len: fak inspect has no such flag "
                 "(did you mean max-model-len?)"),
                ("[srve]\nport = 1\n", ["list"],
                 "config.toml:1:1: srve: no verb of fak has that name (did you mean serve?)"),
                ("port = 1\n", ["list"], "config.toml:1:8: port: no verb of fak has that name"),
                ("[bench.modle]\nx = 1\n", ["bench", "model", self.model], "bench.modle: fak bench has no such verb"),
                ("[serve]\nport = \"x\"\n", ["serve", self.model], "config.toml:2:8: serve.port: wrong value"),
                ("[serve]\nport = 2026-11-29\n", ["serve", self.model], "config.toml:2:8: serve.port: must be"),
                ("[serve\n", ["list"], "config.toml:1:")):
            path = self.config(text)
            shown = self.one_line(self.fak(*words, status=2)[1])
            self.assertIn(said, shown)
            self.assertTrue(shown.startswith(f"fak: {path}:"), shown)
        self.config("")
        self.assertIn("FAK_PORT", self.one_line(
            self.fak("serve", self.model, status=2, env={"FAK_PORT": "x"})[1]))
        self.assertIn("none.toml", self.one_line(self.fak("--config", "none.toml", "list", status=2)[1]))


support.main()
