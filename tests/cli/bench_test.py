"""fak bench: tables that a person reads, and JSON; of a model's, that which is laid beside llama-bench's."""
import json
import re
import subprocess
from pathlib import Path

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

    def test_nothing_to_measure_is_an_error(self):
        for flags in (("-p", "0", "-n", "0"), ("-p", "0,0", "-n", "0", "--json")):
            out, err = self.fak("bench", "model", self.model, *flags, status=2)
            self.assertEqual(out, "")
            self.assertIn("nothing to measure", self.one_line(err))

    def test_a_peer_that_is_not_there(self):
        said = self.fak("bench", "model", self.model, "-p", "8", "-n", "0", "--peer", "other=/nowhere", status=1)[1]
        self.assertIn("/nowhere/llama-bench", said)


class BenchRoofline(support.CliTest):
    def roofline(self, *flags, **options):
        return self.fak("bench", "roofline", "--memory", "16MiB", "-r", "2", *flags, **options)

    def test_a_table(self):
        out = self.roofline("--isa", "scalar", "-t", "1,2")[0]
        first, blank, head, *rows = out.splitlines()
        self.assertRegex(first, r"16\.8 MB are read, \d+ % of it in huge pages; medians of 2 rounds$")
        self.assertEqual(head.split(), ["threads", "ISA", "median", "least", "most"])
        self.assertEqual([re.split(r"  +", row)[:3] for row in rows],
                         [[what, count, "scalar"] for what in ("read, GB/s", "int8 dot, Gop/s", "fp32 FMA, Gop/s")
                          for count in "12"])
        self.assertEqual({len(row[:66].rstrip()) for row in rows}, {len(head)}, out)
        self.assertRegex(rows[0], r"  [1248] streams?, (no prefetch|prefetch 1024 bytes ahead)$")

    def test_json(self):
        said = json.loads(self.roofline("--isa", "scalar", "-t", "1", "--json")[0])
        self.assertEqual([row["what"] for row in said["ceilings"]], ["read", "int8 dot", "fp32 FMA"])
        self.assertEqual([row["unit"] for row in said["ceilings"]], ["B/s", "op/s", "op/s"])
        for row in said["ceilings"]:
            self.assertEqual((row["isa"], row["threads"], len(row["samples"])), ("scalar", 1, 2))
            self.assertEqual([row["least"], row["most"]], sorted(row["samples"]))
            self.assertAlmostEqual(row["median"], sum(row["samples"]) / 2, delta=1e-6 * row["median"])
        self.assertEqual(said["memory_bytes"], 16 << 20)
        self.assertLessEqual(said["huge_page_bytes"], 16 << 20)
        self.assertNotIn("model", said)

    def test_a_model_beside_the_bounds(self):
        flags = (self.model, "--isa", "scalar", "-t", "1", "-p", "8", "-n", "4")
        said = json.loads(self.roofline(*flags, "--json")[0])["model"]
        self.assertEqual((said["isa"], said["threads"]), ("scalar", 1))
        self.assertEqual((said["decode"]["test"], said["prefill"]["test"]), ("tg4", "pp8"))
        self.assertEqual(said["prefill"]["bound"], "int8 dot")
        for part, share in (("decode", "share_of_read"), ("prefill", "share_of_bound")):
            self.assertEqual(len(said[part]["samples_ts"]), 2)
            self.assertGreater(said[part][share], 0)
        out = self.roofline(*flags)[0]
        self.assertRegex(out, r"(?m)^tg4 .* %  of reading memory, GB/s$")
        self.assertRegex(out, r"(?m)^pp8 .* %  of int8 dot, Gop/s$")

    def test_what_is_wrong_is_named(self):
        for status, flags, words in ((2, ("--memory", "much"), "--memory"), (2, ("-t", "0"), "--threads: must be"),
                                     (2, ("-t", "5", "--memory", "16MiB"), "4 MiB a thread are the least"),
                                     (2, (self.model, "-t", "1,2"), "one --threads"),
                                     (1, (self.model, "-p", "100000"), "--n-prompt 100000"),
                                     (1, ("--memory", "1000TiB"), "that are available")):
            out, err = self.fak("bench", "roofline", *flags, status=status)
            self.assertEqual(out, "")
            self.assertIn(words, err)


class BenchLoad(support.CliTest):
    def test_a_table(self):
        out = self.fak("bench", "load", self.model, "-r", "1", "-t", "1")[0]
        first, blank, head, *rows = out.splitlines()
        self.assertRegex(first, r" of weights, .* that KV may take; \w+, 1 thread; medians of 1 run$")
        self.assertEqual(re.split(r"  +", head.strip()),
                         ["loaded, ms", "first token, ms", "GB/s", "VmHWM", "cached before"])
        self.assertEqual([row.split()[0] for row in rows[:2]], ["cold", "warm"])
        self.assertEqual({len(row) for row in rows[:2]}, {len(head)}, out)

    def test_json(self):
        said = json.loads(self.fak("bench", "load", self.model, "-r", "2", "-t", "1", "--isa", "scalar",
                                   "--kv-cache-memory", "4MiB", "-p", "3", "--json")[0])
        self.assertEqual((said["isa"], said["threads"], said["n_prompt"]), ("scalar", 1, 3))
        self.assertEqual(said["file_bytes"], self.model.stat().st_size)
        self.assertLess(said["weight_bytes"], said["file_bytes"])
        self.assertLessEqual(said["kv_bytes"], 4 << 20)
        for part in ("cold", "warm"):
            self.assertEqual(len(said[part]["runs"]), 2)
            for run in said[part]["runs"]:
                self.assertLess(0, run["load_ms"])
                self.assertLess(run["load_ms"], run["first_token_ms"])
                self.assertLessEqual(said["weight_bytes"], run["peak_bytes"])
        self.assertEqual([run["cached_before"] for run in said["warm"]["runs"]], [1, 1])

    def test_what_is_wrong_is_named(self):
        for flags, words in (((self.model, "-p", "100000"), "100000"), (("/nowhere/m.gguf",), "/nowhere/m.gguf"),
                             ((self.model, "--kv-cache-memory", "1"), "--kv-cache-memory")):
            out, err = self.fak("bench", "load", *flags, "-r", "1", status=1)
            self.assertEqual(out, "")
            self.assertIn(words, err)


class BenchDoctor(support.CliTest):
    ROWS = ["clock", "clock afterwards", "steal", "other load", "processor limit", "memory", "memory limit", "swap",
            "huge pages", "NUMA nodes", "governor"]

    def test_text_and_json_say_the_same_things(self):
        # Whether this machine is quiet isn't ours to say; that the exit status follows from the rows is.
        for flags in ((), ("--json",)):
            done = subprocess.run([support.FAK, "bench", "doctor", "-t", "2", *flags], capture_output=True, text=True,
                                  env=self.env, timeout=support.PATIENCE_S)
            if flags:
                said = json.loads(done.stdout)
                rows = {row["what"]: row["verdict"] for row in said["findings"]}
                self.assertEqual(said["spoiled"], "spoils" in rows.values())
                self.assertTrue(all(row["value"] and (row["verdict"] == "ok") == (row["advice"] == "")
                                    for row in said["findings"]), said)
            else:
                rows = {line[:17].strip(): line[18:25].strip() for line in done.stdout.splitlines() if line[0] != " "}
            self.assertEqual(list(rows), self.ROWS, done.stdout)
            self.assertLessEqual(set(rows.values()), {"ok", "note", "spoils"})
            self.assertEqual(done.returncode, 1 if "spoils" in rows.values() else 0, done.stdout + done.stderr)


class BenchServe(support.CliTest):
    def setUp(self):
        super().setUp()
        server = self.start("serve", self.model, "--port", "0")
        self.url = re.search(r"http://[^ ]+", self.line_of(server, " is ready on "))[0]

    def serve(self, *flags, **options):
        return self.fak("bench", "serve", "--output-len", "5", "-n", "6", *flags, **options)

    def test_a_table_with_a_column_a_target(self):
        out, _ = self.serve("--target", "a=" + self.url, "--target", "b=" + self.url + "/v1", "--input-len", "12",
                              "--concurrency", "2", "-r", "2", "--slo", "ttft:60000")
        head, blank, names, *rows = out.splitlines()
        self.assertIn("synthetic: 6 requests, 2 open at a time; 72 words of prompts, 30 tokens of answers", head)
        self.assertEqual((blank, names.split()), ("", ["a", "b", "ratio"]))
        figures = {row[:19].strip(): row[19:].split() for row in rows if row}
        self.assertEqual(figures["whole answers"], ["12", "12"])
        self.assertEqual(figures["output tokens"], ["60", "60"])
        self.assertEqual(len(figures["TTFT mean, ms"]), 3)
        self.assertRegex(figures["goodput, requests/s"][2], r"^[\d.]+x$")
        self.assertIn("b and a: 6 of 6 answers have the same text", rows)

    def test_json_with_every_request(self):
        kept = self.folder / "kept.json"
        out = self.serve("--target", self.url, "--rate", "50", "--chat", "--input-len", "12", "-r", "1", "--records", "--json", "-o", kept)[0]
        self.assertEqual(json.loads(kept.read_text()), json.loads(out))
        (run,) = json.loads(out)["points"][0]["targets"][0]["runs"]
        self.assertEqual((run["completed"], run["total_output_tokens"]), (6, 30))
        self.assertLessEqual(run["p50_ttft_ms"], run["p99_ttft_ms"])
        self.assertEqual([record["fault"] for record in run["records"]], [""] * 6)
        planned = [record["planned_ns"] for record in run["records"]]
        self.assertEqual(planned, sorted(planned))
        self.assertTrue(all(record["sent_ns"] >= record["planned_ns"] for record in run["records"]))

    def test_a_sweep_has_a_row_a_load(self):
        out = self.serve("--target", self.url, "--input-len", "12", "--concurrency", "4,1", "-r", "1")[0]
        names, first, second = out.splitlines()[3:6]
        self.assertEqual(names.split()[0], "open")
        self.assertEqual([first.split()[0], second.split()[0]], ["1", "4"])
        self.assertIn("knee: ", out)

    def test_two_documents_are_compared(self):
        for name, words in (("a", "12"), ("b", "12"), ("c", "13")):
            self.serve("--target", self.url, "--input-len", words, "-r", "1", "-o", self.folder / f"{name}.json")
        out = self.fak("bench", "compare", "a.json", "b.json")[0]
        self.assertRegex(out, r"(?m)^open 1 .* p50_ttft_ms +[\d.]+ +[\d.]+ +[+-][\d.]+%$")
        out = self.fak("bench", "compare", "a.json", "b.json", "--fail-if", "p50_ttft_ms>-100%", status=1)[0]
        self.assertIn("FAIL p50_ttft_ms>-100%: ", out)
        self.assertIn("they differ in input_len (", self.fak("bench", "compare", "a.json", "c.json", status=2)[1])
        out = self.fak("bench", "compare", "a.json", "c.json", "--allow", "mismatch=input_len")[0]
        self.assertIn("not comparable: they differ in input_len\n", out)

    def test_no_run_finds_its_prompts_cached(self):
        out = self.serve("--target", self.url, "--input-len", "40", "-r", "3", "--json")[0]
        for run in json.loads(out)["points"][0]["targets"][0]["runs"]:
            self.assertLess(run["cached_tokens"], run["total_input_tokens"] / 4)

    def test_what_is_wrong_is_named(self):
        for flags, words in ((("--target", "ftp://x"), "--target ftp://x"),
                             (("--target", self.url, "--target", self.url), "given twice"),
                             (("--target", self.url, "--slo", "ttft:0"), "no time above 0"),
                             (("--target", self.url, "--rate", "1,2", "--concurrency", "1,2"), "not both"),
                             (("--target", self.url, "--model", "a", "--model", "b"), "--model")):
            self.assertIn(words, self.serve(*flags, status=2)[1])
        self.assertIn("Connection refused", self.serve("--target", "http://127.0.0.1:1", status=1)[1])

    def test_refusals_are_counted(self):
        out, err = self.serve("--target", self.url, "--model", "nobody", "-r", "1", status=1)
        self.assertIn(": 6 status (404: ", out)
        self.assertRegex(out, r"whole answers +0\n")
        self.assertIn("gave not one whole answer", self.one_line(err))

    def test_a_target_without_an_answer_makes_the_status_1(self):
        both = ("--target", "a=" + self.url, "--target", "b=" + self.url, "--input-len", "12", "-r", "1")
        self.serve(*both)
        out, err = self.serve(*both, "--model", "tiny", "--model", "nobody", "--json", status=1)
        self.assertEqual([target["runs"][0]["completed"] for target in json.loads(out)["points"][0]["targets"]], [6, 0])
        self.assertEqual(self.one_line(err), "fak: b gave not one whole answer")


TRACES = Path(__file__).resolve().parents[1] / "sim/traces"


class BenchRoute(support.CliTest):
    def setUp(self):
        super().setUp()
        self.trace = self.folder / "short.jsonl"
        lines = (TRACES / "mooncake_1000.jsonl").read_text().splitlines()[:60]
        self.trace.write_text("\n".join(lines) + "\n")

    def route(self, *flags, **options):
        return self.fak("bench", "route", *flags, **options)

    def test_a_table_and_a_plot(self):
        said = self.route("--trace", str(self.trace), "--policies", "cache_aware,random,sglang", "--replicas", "2,4",
                          "--load", "0.5")[0]
        heads = [line for line in said.splitlines() if line.split()[:1] == ["replicas"]]
        self.assertEqual([head.split() for head in heads],
                         2 * [["replicas", "load", "gateways", "cache_aware", "random", "sglang"]])
        rows = [line for line in said.splitlines() if re.match(r" +[24]  0\.50 ", line)]
        self.assertEqual(len(rows), 4, said)
        self.assertEqual({len(row) for row in rows[:2]}, {len(heads[0])}, said)
        self.assertRegex(said, r"\ncache_aware +1\.00x  #+\n")
        self.assertIn("60 requests, ", said)

    def test_json_is_the_same_for_a_seed(self):
        flags = ("--trace", str(self.trace), "--json", "--gateways", "3", "--seed", "7")
        said = self.route(*flags)[0]
        self.assertEqual(said, self.route(*flags)[0])
        rows = json.loads(said)
        self.assertEqual(rows[0]["policy"], "cache_aware")
        self.assertIn("sglang", {row["policy"] for row in rows})
        self.assertTrue(all(row["ttft_p99_ms"] >= row["ttft_p50_ms"] > 0 for row in rows), rows)
        self.assertTrue(all(row["gateways"] == 3 for row in rows), rows)

    def test_what_is_wrong_is_named(self):
        broken = self.folder / "broken.jsonl"
        broken.write_text(self.trace.read_text().splitlines()[0] + '\n{"timestamp": 1}\n')
        bad = self.folder / "sim.toml"
        bad.write_text("[engine]\nkv-blocks = 0\n")
        trace = ("--trace", str(self.trace))
        for status, flags, words in (
                (1, ("--trace", str(broken)), "broken.jsonl:2: needs input_length"),
                (1, ("--trace", "/nowhere"), "/nowhere"),
                (1, (*trace, "--kv-blocks", "2"), "blocks, and a replica has 2"),
                (1, (*trace, "--sim-file", str(bad)), "sim.toml:2:13: engine.kv-blocks: must be at least 1"),
                (2, (*trace, "--policies", "best"), "--policies: must be one of cache_aware, power_of_two, "),
                (2, (*trace, "--load", "0"), "--load: must be above 0"),
                (2, (), "--trace")):
            out, err = self.route(*flags, status=status)
            self.assertEqual(out, "")
            self.assertIn(words, err)


support.main()
