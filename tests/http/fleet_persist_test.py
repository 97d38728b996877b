"""What `fak fleet ... --persist` changes is there again after a restart, and nothing else is."""

import os
import stat
import tempfile
import unittest

import fleet_changes_test
from serving import DidNotStart
from tiny_server import Front, eventually


class Persist(fleet_changes_test.FleetCase):
    def start_front(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.state = os.path.join(folder.name, "state.toml")
        return self.start_again()

    def start_again(self):
        front = Front([self.upstream(name) for name in "ab"], "--routing-policy", "round_robin",
                      "--fleet-state-file", self.state)
        self.addCleanup(front.__exit__)
        return front

    def restart(self):
        self.assertEqual(self.front.end(), 0)
        self.front = self.start_again()

    def state_of(self, name):
        return self.front.replica(name)["state"]

    def test_what_shall_last_lasts(self):
        for name in "cd":
            self.replicas[name] = self.start_replica()
        key = self.file("its-own-key\n")
        self.fleet_verb("add", self.upstream("c"), "--weight", "2", "--replica-api-key-file", key, "--persist")
        self.fleet_verb("add", self.upstream("d"))
        self.fleet_verb("remove", "a", "--wait", "--persist")
        self.fleet_verb("drain", "b", "--persist")
        self.assertEqual(stat.S_IMODE(os.stat(self.state).st_mode), 0o600)
        self.restart()
        self.wait_names(["b", "c"])
        self.assertEqual((self.state_of("b"), self.front.replica("c")["weight"]), ("draining", 2))
        self.wait_healthy("c")
        self.assertEqual(self.routes(), {"c"})
        # What isn't asked to last is gone with the process; what is, undoes it.
        self.fleet_verb("undrain", "b")
        self.restart()
        self.assertEqual(self.state_of("b"), "draining")
        self.fleet_verb("undrain", "b", "--persist")
        self.fleet_verb("remove", "c", "--wait", "--persist")
        self.restart()
        self.wait_names(["b"])
        self.wait_healthy("b")
        self.fleet_verb("add", self.upstream("a"), "--persist")
        self.restart()
        eventually(lambda: sorted(self.names()) == ["a", "b"], "a is back")

    def test_a_damaged_file_is_refused_at_the_start(self):
        self.assertEqual(self.front.end(), 0)
        with open(self.state, "w", encoding="utf-8") as file:
            file.write('removed = []\n[[replica]]\nname = "c"\nurl = 7\n')
        with self.assertRaisesRegex(DidNotStart, self.state + r":4:7: replica\[0\]\.url: must be a string"):
            self.start_again()

    def test_without_a_file_it_is_refused(self):
        front = Front([self.upstream(name) for name in "ab"])
        self.addCleanup(front.__exit__)
        self.front = front
        said = self.fleet_verb("remove", "a", "--persist", status=1)
        self.assertIn("--fleet-state-file", said)
        self.assertEqual(self.names(), ["a", "b"])


if __name__ == "__main__":
    unittest.main()
