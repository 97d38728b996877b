"""fak run: in pipes, on terminals wide and narrow, and what Ctrl-C does at each stage."""
import os
import signal
import socket
import subprocess

import support
from support import Terminal


# A tiny model's longest answer takes a second or more.
SLOW = ("--isa", "scalar", "--threads", "1")


class Run(support.CliTest):
    def test_answers_a_prompt_a_pipe_and_both(self):
        options = ("--temp", "0", "-n", "8", "--model", self.model)
        out = self.fak("run", "hello", *options)[0]
        self.assertGreater(len(out), 1)
        self.assertEqual(self.fak("run", *options, input="hello")[0], out)
        self.assertEqual(self.fak("run", self.model, "hello", "--temp", "0", "-n", "8")[0], out)
        self.assertNotEqual(self.fak("run", "hello", *options, input="and more")[0], "")
        self.assertIn("no prompt", self.one_line(self.fak("run", *options, status=1)[1]))

    def test_a_prompt_that_is_not_utf8_is_refused_with_the_byte(self):
        cases = ((b"caf\xc3\xa9 \xff!", "byte 6 (0xFF)"), (b"\xe2\x82", "byte 0 (0xE2)"),
                 (b"ab\xc0\xaf", "byte 2 (0xC0)"))
        for bytes_, place in cases:
            done = subprocess.run([support.FAK, "run", "--model", self.model], input=bytes_, env=self.env,
                                  cwd=self.folder, capture_output=True, timeout=support.PATIENCE_S)
            self.assertEqual(done.returncode, 1)
            self.assertEqual(self.one_line(done.stderr.decode()), f"fak: standard input: {place} is not UTF-8")
            word = os.fsdecode(bytes_)
            said = self.one_line(self.fak("run", "--model", self.model, "x", word, status=1)[1])
            number, _, byte = place.removeprefix("byte ").partition(" ")
            self.assertEqual(said, f"fak: the prompt: byte {int(number) + 2} {byte} is not UTF-8")
            said = self.one_line(self.fak("run", "--model", self.model, "x", "--system", word, status=2)[1])
            self.assertEqual(said, f"fak: --system: {place} is not UTF-8")

    def test_says_that_a_model_without_a_template_completes(self):
        bare = self.folder / "bare.gguf"
        bare.write_bytes(self.model.read_bytes().replace(b"tokenizer.chat_template", b"tokenizer.no_template__"))
        _, said = self.fak("run", "hello", "--model", bare, "-n", "2", "--stats")
        self.assertIn("no chat template", said)
        self.assertIn("tokens", said)
        said = self.one_line(self.fak("run", "hello", "--model", bare, "--system", "Be brief.", status=2)[1])
        self.assertIn("--system", said)
        self.assertIn("no chat template", said)

    def test_stats_have_a_speed_where_there_is_one(self):
        options = ("run", "hello", "--model", self.model, "--temp", "0", "--stats", "-n")
        self.assertRegex(self.fak(*options, "8")[1],
                         r"\[\d+ prompt tokens, 0 cached, first token after .*; 8 tokens, [0-9.]+/s\]")
        self.assertRegex(self.fak(*options, "1")[1], r"first token after [^;]*; 1 tokens?\]")

    def test_no_escape_leaves_for_a_pipe_or_a_plain_terminal(self):
        options = ("run", "hello", "--model", self.model, "-n", "4", "--temp", "0")  # else it may draw one
        out, said = self.fak(*options, env={"TERM": "xterm"})
        self.assertNotIn("\x1b", out + said)
        plain = Terminal(self, *options, env={"TERM": "dumb", "NO_COLOR": "1"})
        self.addCleanup(plain.kill)
        self.assertEqual(plain.end(), 0)
        self.assertNotIn("\x1b", plain.text)

    def test_a_reader_that_goes_ends_it_without_a_word(self):
        child = self.start("run", "hello", "--model", self.model, "--temp", "0", "-n", "2000", *SLOW)
        child.stdout.close()
        child.stdout = None
        self.assertEqual(child.wait(support.PATIENCE_S), 141)
        self.assertEqual(child.stderr.read(), "")

    def answer(self, *words, **options):
        return self.fak("run", "--model", self.model, "-n", "12", *words, **options)[0]

    def test_every_flag_of_sampling_does_something(self):
        greedy = self.answer("hello", "--temp", "0")
        drawn = self.answer("hello", "--temp", "2", "--seed", "1")
        self.assertNotEqual(drawn, greedy)
        self.assertEqual(self.answer("hello", "--temp", "2", "--seed", "1"), drawn)
        self.assertNotEqual(self.answer("hello", "--temp", "2", "--seed", "2"), drawn)
        self.assertEqual(self.answer("hello", env={"FAK_TEMPERATURE": "0"}), greedy)
        # Each of these leaves only the likeliest token.
        for only in (("--top-k", "1"), ("--top-p", "1e-6"), ("--min-p", "1")):
            self.assertEqual(self.answer("hello", "--temp", "2", "--seed", "1", *only), greedy, only)

    def test_a_seed_is_one_that_a_request_may_have(self):
        for seed in ("18446744073709551616", "18446744073709551615", "9223372036854775808",
                     "-9223372036854775809", "1.5", "x"):
            said = self.fak("run", "hello", "--model", self.model, f"--seed={seed}", status=2)[1]
            self.assertIn("--seed: must be an integer, -9223372036854775808 to 9223372036854775807, not " + seed, said)
            said = self.fak("bench", "route", "--trace", "none", f"--seed={seed}", status=2)[1]
            self.assertIn("--seed: must be an integer, ", said)
        drawn = [self.answer("hello", "--temp", "2", "--seed", seed)
                 for seed in ("9223372036854775807", "-9223372036854775808", "-2", "0")]
        self.assertEqual(len(set(drawn)), 4, drawn)
        self.assertNotEqual(self.answer("hello", "--temp", "2", "--seed", "-1"),
                            self.answer("hello", "--temp", "2", "--seed", "-1"))

    def test_a_system_message_and_a_template_reach_the_model(self):
        plain = self.answer("hello", "--temp", "0")
        self.assertNotEqual(self.answer("hello", "--temp", "0", "--system", "Be brief."), plain)
        template = self.folder / "deaf.jinja"
        template.write_text("{{ messages | length }}: always the same")
        deaf = ("--temp", "0", "--chat-template", template)
        self.assertNotEqual(self.answer("hello", *deaf), plain)
        self.assertEqual(self.answer("hello", *deaf), self.answer("good night", *deaf))
        template.write_text("other than the model's own")
        shown = self.fak("inspect", self.model, "--chat-template", template)[0]
        self.assertIn(f"chat template  {len(template.read_text())} bytes", shown)

    def test_a_word_that_is_rather_a_model_is_no_prompt(self):
        for word, said in (("smolm2", "did you mean smollm2?"), ("gemma3:1b", "did you mean gemma3:270m?"),
                           ("gemma3", "did you mean gemma3:270m?"), ("llama3:8b", "llama3:8b"),
                           ("smollm3 hi", "did you mean smollm2?"), ("gemma3:1b hi", "did you mean gemma3:270m?"),
                           ("gemma3 hi", "did you mean gemma3:270m?"), ("smollm hi", "did you mean smollm2?"),
                           ("llama3 hi", 'fak run "llama3 ..."'), ("Small models", 'fak run "Small ..."'),
                           ("llama3:8b hi", "of two words the first is the model"),
                           ("smollm3 is what", "did you mean smollm2?"),
                           ("qwen2.5-coder hi", "did you mean qwen2.5-coder:0.5b?")):
            shown = self.one_line(self.fak("run", *word.split(), status=1)[1])
            first = word.split()[0]
            self.assertIn(f'"{first}" is no model that is known', shown)
            self.assertIn(said, shown)
            self.assertIn(f'fak run --model smollm2 "{first}"' if first == word else f'fak run "{first} ..."', shown)
        for words in (["./x", "hi"], ["some/x", "hi"], ["./x"]):
            self.assertIn(f'"{words[0]}" is no file here', self.one_line(self.fak("run", *words, status=1)[1]))
        for words in (["run", "nosuch.gguf", "hi"], ["serve", "nosuch.gguf"]):
            shown = self.one_line(self.fak(*words, status=1)[1])
            self.assertIn("nosuch.gguf: No such file", shown)
            self.assertIn("fak list", shown)
        self.assertGreater(len(self.answer("smolm2")), 1)

    def test_a_first_word_that_may_be_a_model_is_never_silently_a_prompt(self):
        (self.folder / "notes.md").write_text("Once upon a time\n")
        config = self.folder / "c.toml"
        config.write_text(f'[run]\nmodel = "{self.model}"\nn = 4\n'.replace("n = 4", "max-tokens = 4"))
        self.assertIn('"notes.md" is a file, but no GGUF',
                      self.one_line(self.fak("run", "notes.md", "hi", "--config", config, status=1)[1]))
        for words, said in ((["gem", "stones", "are"], "(did you mean gemma3:270m?)"),
                            (["llama3:8b", "is", "what"], '"llama3:8b"'),
                            (["notes.md", "says", "it"], '"notes.md" is a file'), (["notes.md"], "no GGUF")):
            shown = self.one_line(self.fak("run", *words, "--config", config)[1])
            self.assertIn("taken as a prompt: ", shown)
            self.assertIn(said, shown)
        for words in (["why", "is", "it"], ["Small", "models", "are"], ["smollm3 in one argument"], ["a:", "b"],
                      ["and/or", "is", "it"], ["Why?", "now"]):
            self.assertEqual(self.fak("run", *words, "--config", config)[1], "", words)
        model = self.folder / "no-ending"
        model.write_bytes(self.model.read_bytes())
        self.assertEqual(self.fak("run", "no-ending", "hello", "--temp", "0", "-n", "8")[0],
                         self.fak("run", self.model, "hello", "--temp", "0", "-n", "8")[0])

    def test_prose_is_no_model_whatever_it_begins_or_ends_with(self):
        config = self.folder / "c.toml"
        config.write_text(f'[run]\nmodel = "{self.model}"\nmax-tokens = 4\n')
        for text in ("https://example.com is down, why is that?", "What is inside model.gguf",
                     "hf: is a prefix", "pypi:\tas well"):
            out, said = self.fak("run", text, "--config", config)
            self.assertEqual(said, "", text)
            self.assertGreater(len(out), 1, text)
        spaced = self.folder / "my model.gguf"
        spaced.write_bytes(self.model.read_bytes())
        self.assertEqual(self.fak("run", spaced.name, "hello", "--temp", "0", "-n", "8")[0],
                         self.fak("run", self.model, "hello", "--temp", "0", "-n", "8")[0])

    def test_a_model_given_twice_is_not_dropped(self):
        said = self.one_line(self.fak("run", "smollm2", "hi", "--model", "gemma3:270m", status=2)[1])
        self.assertIn('"smollm2" and --model gemma3:270m: give the model once', said)
        self.assertIn("first.gguf", self.fak("run", "first.gguf", "hi", status=1,
                                             env={"FAK_MODEL": "other.gguf"})[1])

    def test_a_full_disk_is_said(self):
        with open("/dev/full", "w") as full:
            done = subprocess.run([support.FAK, "run", "hello", "--model", self.model, "-n", "4"],
                                  stdout=full, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL,
                                  text=True, env=self.env)
        self.assertEqual(done.returncode, 1)
        self.assertIn("No space left", done.stderr)

    def test_a_closed_stdin_is_nothing_to_stop_for(self):
        self.fak("run", "hello", "--model", self.model, "-n", "2", before=lambda: os.close(0))

    def test_what_comes_over_a_socket_is_read_as_from_a_pipe(self):
        ours, theirs = socket.socketpair()
        with ours, theirs:
            theirs.setblocking(False)
            child = subprocess.Popen([support.FAK, "run", "--model", self.model, "--temp", "0", "-n", "8"],
                                     stdin=theirs, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                     env=self.env)
            self.children.append(child)
            ours.sendall(b"hel")
            ours.sendall(b"lo")
            ours.shutdown(socket.SHUT_WR)
            out, said = child.communicate(timeout=support.PATIENCE_S)
        self.assertEqual(child.returncode, 0, said)
        self.assertEqual(out, self.fak("run", "--model", self.model, "--temp", "0", "-n", "8", "hello")[0])

    def chat(self, *words, **options):
        chat = Terminal(self, "run", "--model", self.model, "--temp", "0", *words, **options)
        self.addCleanup(chat.kill)
        chat.wait_for("Chat with")
        chat.wait_for("\r\n> ")
        return chat

    def test_a_chat_and_its_commands(self):
        for columns in (80, 12):
            chat = self.chat("-n", "8", columns=columns)
            chat.type("hello\n")
            self.assertGreater(len(chat.wait_for("\r\n> ")), len("hello\r\n"))
            chat.type("/help\n")
            chat.wait_for("/clear")
            chat.wait_for("> ")
            chat.type("/clear\n")
            chat.wait_for("history cleared")
            chat.type("/exit\n")
            self.assertEqual(chat.end(), 0)
            chat = self.chat()
            chat.type("\x04")
            self.assertEqual(chat.end(), 0)

    def test_a_chat_says_what_it_does_not_know_and_takes_no_keys_for_text(self):
        chat = Terminal(self, "run", "--model", self.model, "--temp", "0", "-n", "8")
        self.addCleanup(chat.kill)
        chat.wait_for("Chat with tiny. ")
        chat.wait_for("> ")

        def ask(typed, last):
            chat.type(typed)
            chat.wait_for(last + "\r\n")
            return chat.wait_for("\r\n> ")

        plain = ask("hello\n", "hello")
        chat.type("/foo\n")
        chat.wait_for("there is no /foo")
        chat.wait_for("ends in \\")
        chat.type("/clear\n")
        chat.wait_for("cleared")
        chat.wait_for("> ")
        self.assertEqual(ask("\x1b[A\x1b[1;5Dhel\x1bOClo\n", "lo"), plain)
        chat.type("/clear\n")
        chat.wait_for("cleared")
        chat.wait_for("> ")
        chat.type("hello\\\n")
        chat.wait_for("\r\n. ")
        self.assertNotEqual(ask("again\n", "again"), plain)
        chat.type("/exit\n")
        self.assertEqual(chat.end(), 0)

    def test_a_chat_remembers_until_it_is_cleared(self):
        chat = self.chat("-n", "8")

        def ask():
            chat.type("hello\n")
            chat.wait_for("hello\r\n")
            return chat.wait_for("\r\n> ")

        first = ask()
        self.assertNotEqual(ask(), first)
        chat.type("/clear\n")
        chat.wait_for("> ")
        self.assertEqual(ask(), first)
        chat.type("/exit\n")
        self.assertEqual(chat.end(), 0)

    def test_ctrl_c_at_the_prompt_says_how_to_leave(self):
        chat = self.chat("-n", "4")
        chat.type("half a thought\x03")
        chat.wait_for("Ctrl-D leaves")
        chat.wait_for("> ")
        chat.type("hello\n")
        chat.wait_for("\r\n> ")
        chat.type("/exit\n")
        self.assertEqual(chat.end(), 0)

    def test_ctrl_c_stops_an_answer_and_not_the_chat(self):
        chat = self.chat("-n", "2000", "--stats", *SLOW)
        chat.type("hello\n")
        chat.wait_for("hello\r\n")
        self.wait_for(lambda: chat.read(0.1) and len(chat.text) > 20, "an answer")
        chat.type("\x03")
        stats = chat.wait_for("interrupted]").rpartition("[")[2]
        self.assertRegex(stats, r"^[1-9]\d* prompt tokens, 0 cached, first token after .*; [1-9]\d* tokens")
        self.assertNotIn("-", stats.partition("after")[2])
        chat.wait_for("> ")
        chat.type("/exit\n")
        self.assertEqual(chat.end(), 0)

    def test_ctrl_c_ends_a_single_answer_with_its_status(self):
        child = self.start("run", "hello", "--model", self.model, "--temp", "0", "-n", "2000", *SLOW)
        self.assertNotEqual(child.stdout.read(1), "")
        child.send_signal(signal.SIGINT)
        self.assertEqual(child.wait(support.PATIENCE_S), 130)

    def test_ctrl_c_ends_a_download_that_goes_on_another_time(self):
        body = self.model.read_bytes()
        with support.StandIn({"/m.gguf": body}, bytes_a_second=len(body) // 10) as server:
            url = f"{server.url}/m.gguf"
            for columns in (80, 20):
                run = Terminal(self, "run", "--model", url, "hi", columns=columns)
                self.addCleanup(run.kill)
                run.wait_for("downloading"[:columns])
                run.type("\x03")
                self.assertEqual(run.end(), 130)
                self.assertIn("cancelled", run.text)
                drawn = [line.split("\x1b[K")[-1] for line in run.text.split("\r")]
                self.assertLess(max(len(line) for line in drawn if "cancelled" not in line), columns)
            self.assertIn("Range", {name.title() for name in server.requests[-1][1]})


support.main()
