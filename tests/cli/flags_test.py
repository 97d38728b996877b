"""Verbs, --help, and where a flag's value comes from (docs/decisions/0007-flags.md)."""
import re

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
        self.assertIn("other.gguf", self.fak("serve", status=1, env={"FAK_MODEL": "other.gguf"})[1])

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
