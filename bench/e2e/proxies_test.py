"""A load that says nothing is no measurement."""

import os
import unittest
from types import SimpleNamespace

from proxies import LoadFailed, Proxy


class Loads(unittest.TestCase):
    def load(self, bigs, errors=0, **load):
        figures = {"errors": errors, "chunks": 100, "seconds": 4.0, "bigs": bigs}
        bench = SimpleNamespace(ask=lambda **_: dict(figures))
        return Proxy(bench, "p", SimpleNamespace(pid=os.getpid()), 1).load(**load)

    def test_half_of_the_large_prompts_that_were_due_have_to_be_answered(self):
        self.assertEqual(self.load(2, big_every_ms=1000)["bigs"], 2)
        for bigs in (0, 1):
            with self.assertRaisesRegex(LoadFailed, f"p: {bigs} large prompts were answered, of 4"):
                self.load(bigs, big_every_ms=1000)
        self.assertEqual(self.load(0)["bigs"], 0)

    def test_an_answer_that_is_not_whole_is_a_failure(self):
        with self.assertRaises(LoadFailed):
            self.load(0, errors=1)


if __name__ == "__main__":
    unittest.main()
