"""The fleet file is read again, on SIGHUP and when it has changed, and no stream notices."""

import unittest

import fleet_changes_test
from serving import Serving
from tiny_server import FAK, Front, eventually


class FileFront(Front):
    """In front of what a fleet file names."""

    def __init__(self, path, *flags, ready=True):
        self._clients = []
        Serving.__init__(self, FAK, "--config", path, "--log-format", "json", *flags, ready=ready)


class Reload(fleet_changes_test.FleetCase):
    def start_front(self):
        self.path = self.file(self.table("a") + self.table("b"))
        front = FileFront(self.path, "--routing-policy", "round_robin")
        self.addCleanup(front.__exit__)
        return front

    def table(self, name, more=""):
        url = f"http://127.0.0.1:{self.replicas[name].port}"
        return f'[[replica]]\nname = "{name}"\nengine = "fak"\nurl = "{url}"\n{more}'

    def source(self):
        [source] = self.front.fleet()["sources"]
        return source

    def test_on_a_signal_and_when_it_changes(self):
        self.assertEqual((self.source()["name"], self.source()["replicas"]), (self.path, 2))
        self.replicas["c"] = self.start_replica()
        before = self.front.replica("a")["attempts"]
        self.write(self.table("a") + self.table("c"))
        self.hang_up()
        self.wait_names(["a", "c"])
        self.assertEqual(self.front.replica("a")["attempts"], before)  # it is still the same one
        self.wait_healthy("c")
        self.assertEqual(self.routes(), {"a", "c"})
        self.write(self.table("b") + self.table("a", "weight = 3.0\n"))
        eventually(lambda: sorted(self.names()) == ["a", "b"], "the change is seen without a signal")
        self.assertEqual(self.front.replica("a")["weight"], 3)
        self.assertGreater(self.front.replica("a")["attempts"], before)

    def test_a_stream_runs_across(self):
        stream = self.open_stream("a")
        self.write(self.table("b"))
        self.hang_up()
        eventually(lambda: "leaving" in self.front.replica("a"), "a leaves")
        self.write(self.table("b") + self.table("a"))
        self.hang_up()
        eventually(lambda: len(self.names()) == 3, "a is there again, beside the one that leaves")
        body = stream.read().decode()
        self.assertTrue(body.endswith("data: [DONE]\n\n"), body[-200:])
        self.assertNotIn('"error"', body)
        self.wait_names(["b", "a"])
        self.front.wait_quiet()

    def test_a_bad_file_is_refused_whole(self):
        for text, where in (
            (self.table("a") + "[[replica]]\nname = \"x\"\nurl = 1\n", ":7:7: replica[1].url: must be a string"),
            ("[[replica]\n", ":1:11: "),
            (self.table("b") + "[[replica]]\nurl = \"http://h\"\nengine = \"tgi\"\n", ":7:10: replica[1].engine: "),
            (self.table("b") + self.table("b"), ":6:8: replica[1].name: another replica is called b already"),
            ("[serve]\nport = 1\n", ": it names no replica"),
            ('[[replica]]\nengine = "native"\n', ": a model can't be served here instead"),
            (self.table("b") + f'[[replica]]\nname = "x"\nurl = "http://127.1:{self.front.port}"\n',
             f": upstream http://127.1:{self.front.port}: that is where this server itself listens"),
        ):
            self.write(text)
            self.hang_up()
            said = eventually(lambda: self.source().get("error", "").startswith(self.path + where), f"{where} is said")
            self.assertTrue(said)
            self.assertEqual(self.names(), ["a", "b"])
        self.assertEqual(self.routes(), {"a", "b"})
        self.write(self.table("b"))
        self.hang_up()
        self.wait_names(["b"])
        self.assertNotIn("error", self.source())

    def test_a_storm_of_reloads(self):
        with self.asked_all_the_time():
            for i in range(100):
                updates = self.source()["updates"]
                self.write(self.table("b") + (self.table("a") if i % 2 else ""))
                self.hang_up()
                eventually(lambda: self.source()["updates"] > updates, "it was read")
        self.wait_names(["b", "a"])
        self.front.wait_quiet()
        self.assertIsNone(self.front.process.poll())

    def test_an_operators_changes_outlast_it(self):
        self.replicas["c"] = self.start_replica()
        self.fleet_verb("add", self.upstream("c"))
        self.fleet_verb("remove", "a", "--wait")
        updates = self.source()["updates"]
        self.hang_up()
        eventually(lambda: self.source()["updates"] > updates, "it was read")
        self.assertEqual(self.names(), ["b", "c"])

    def test_ends_on_sigterm_still(self):
        self.assertEqual(self.front.end(), 0)


if __name__ == "__main__":
    unittest.main()
