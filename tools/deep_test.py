"""tools/deep, with stages made up here: what it says last and its exit status for each mix of verdicts."""
import shutil
import subprocess
import tempfile
import unittest
from pathlib import Path

DEEP = Path(__file__).resolve().with_name("deep")


class Deep(unittest.TestCase):
    def setUp(self):
        self.root = Path(tempfile.mkdtemp(prefix="fak_deep_"))
        self.addCleanup(shutil.rmtree, self.root)
        (self.root / "tools/deep.d").mkdir(parents=True)
        shutil.copy(DEEP, self.root / "tools/deep")
        for stage, script in {"10-good": "exit 0", "20-bad": "exit 3", "30-absent": "echo no such tool; exit 77",
                              "40-fine": "exit 0"}.items():
            path = self.root / "tools/deep.d" / stage
            path.write_text(f"#!/bin/sh\n# What {stage} is for.\n{script}\n")
            path.chmod(0o755)

    def deep(self, *words):
        done = subprocess.run([self.root / "tools/deep", *words], capture_output=True, text=True, check=False)
        return done.returncode, done.stdout.splitlines()

    def test_all_passed(self):
        status, lines = self.deep("good", "fine")
        self.assertEqual((status, lines[-1]), (0, "2 passed"))

    def test_a_skip_is_no_pass(self):
        status, lines = self.deep("good", "absent", "fine")
        self.assertEqual((status, lines[-1]), (77, "2 passed, 1 skipped: absent"))
        self.assertTrue(any(line.startswith("absent") and line.endswith("no such tool") for line in lines))

    def test_a_failure_outweighs_a_skip(self):
        status, lines = self.deep()
        self.assertEqual((status, lines[-1]), (1, "2 passed, 1 skipped: absent, 1 FAILED: bad"))

    def test_names_no_stage(self):
        self.assertEqual(self.deep("none")[0], 2)


if __name__ == "__main__":
    unittest.main()
