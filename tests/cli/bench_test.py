"""fak bench model: the table that a person reads, and the JSON that is laid beside llama-bench's."""
import json
import re

import support

LLAMA_BENCH_FIELDS = {
    "build_commit", "cpu_info", "backends", "model_filename", "model_type", "model_size", "model_n_params", "n_batch",
    "n_ubatch", "n_threads", "type_k", "type_v", "n_prompt", "n_gen", "n_depth", "test_time", "avg_ns", "stddev_ns",
    "avg_ts", "stddev_ts", "samples_ns", "samples_ts",
}


class Bench(support.CliTest):
    def test_a_table(self):
        said = self.fak("bench", "model", self.model, "-p", "8", "-n", "2", "--parallel", "1,2", "-r", "2")[0]
        head, rule, *rows = [line for line in said.splitlines() if line.startswith("|")]
        columns = [name.strip() for name in head.strip("|").split("|")]
        self.assertEqual(columns[:7], ["model", "size", "params", "backend", "threads", "test", "t/s"])
        self.assertRegex(rule, r"^[|:\- ]+$")
        self.assertEqual([row.split("|")[6].strip() for row in rows], ["pp8", "tg2", "tg2 x 2"])
        for line in (rule, *rows):
            self.assertEqual(len(line), len(head), said)
            self.assertEqual(line.count("|"), head.count("|"))

    def test_json(self):
        said = self.fak("bench", "model", self.model, "-p", "8", "-n", "0", "-r", "3", "--json")[0]
        (row,) = json.loads(said)
        self.assertLessEqual(LLAMA_BENCH_FIELDS, set(row))
        self.assertEqual((row["n_prompt"], row["n_gen"], len(row["samples_ns"])), (8, 0, 3))
        self.assertAlmostEqual(row["avg_ts"], sum(row["samples_ts"]) / 3, delta=1e-6 * row["avg_ts"])
        self.assertTrue(re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d+Z", row["test_time"]), row)

    def test_what_does_not_fit_the_context_is_named_before_the_table(self):
        for flags, words in ((("-p", "100000"), "--n-prompt 100000 doesn't fit the context of "),
                             (("-p", "8", "-n", "100000"), "--n-gen 100000 doesn't"),
                             (("-p", "8", "-d", "100000"), "--n-prompt 8 behind --n-depth 100000 doesn't")):
            out, err = self.fak("bench", "model", self.model, *flags, status=1)
            self.assertEqual(out, "")
            self.assertIn(words, err)

    def test_a_peer_that_is_not_there(self):
        said = self.fak("bench", "model", self.model, "-p", "8", "-n", "0", "--peer", "other=/nowhere", status=1)[1]
        self.assertIn("/nowhere/llama-bench", said)


support.main()
