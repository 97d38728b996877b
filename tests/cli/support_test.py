"""What the other tests here lean on fails by itself, and says why, where the program falls silent."""
import subprocess

import support


class LineOf(support.CliTest):
    def shell(self, script):
        child = subprocess.Popen(["sh", "-c", script], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.children.append(child)
        return child

    def test_gives_the_line(self):
        child = self.shell("echo one >&2; echo two words >&2; exec sleep 600")
        self.assertEqual(self.line_of(child, "words"), "two words")

    def test_waits_no_longer_than_it_says(self):
        child = self.shell("echo one >&2; exec sleep 600")
        with self.assertRaisesRegex(AssertionError, "sh said nothing for 0.2 s that has 'two', only: one"):
            self.line_of(child, "two", patience_s=0.2)
        self.assertNotEqual(child.wait(), 0)

    def test_says_what_a_child_said_that_ended(self):
        with self.assertRaisesRegex(AssertionError, "sh ended without a line that has 'two', only: one"):
            self.line_of(self.shell("echo one >&2"), "two")


support.main()
