"""Names of models in the fleet file: what they mean, who stands in, and that they are read again."""

import json
import unittest

import fleet_changes_test
from fleet_reload_test import FileFront
from fleet_test import ASKED
from serving import DidNotStart
from tiny_server import Server, eventually

NAMES = '[[model]]\nname = "gpt"\nto = [{ model = "big" }]\nfallback = ["small"]\n'


class Models(fleet_changes_test.FleetCase):
    """A replica a with the model big, and b with small."""

    def start_replica(self):
        names = ["big", "small"][len(getattr(self, "started", [])):]
        replica = Server("--served-model-name", names[0])
        self.started = [*getattr(self, "started", []), replica]
        self.addCleanup(replica.__exit__)
        return replica

    def table(self, name, model):
        url = f"http://127.0.0.1:{self.replicas[name].port}"
        return f'[[replica]]\nname = "{name}"\nengine = "fak"\nmodel = "{model}"\nurl = "{url}"\n'

    def start_front(self):
        self.own = self.table("a", "big") + self.table("b", "small")
        self.path = self.file(self.own + NAMES)
        front = FileFront(self.path)
        self.addCleanup(front.__exit__)
        return front

    def learn_reference(self):
        pass

    def asked(self, model, **fields):
        """Status, the model that x-fak-model tells, and the replica."""
        status, headers, _ = self.front.ask("POST", "/v1/completions", {**ASKED, "model": model, **fields})
        return status, headers["x-fak-model"], (headers["x-fak-route"] or "").split(";")[0]

    def reload(self, text):
        updates = self.front.fleet()["sources"][0]["updates"]
        self.write(text)
        self.hang_up()
        eventually(lambda: self.front.fleet()["sources"][0]["updates"] > updates, "it was read")
        return self.front.fleet()["sources"][0].get("error", "")

    def test_a_name_means_a_model_and_another_stands_in(self):
        listed = json.loads(self.front.ask("GET", "/v1/models")[2])["data"]
        self.assertEqual(sorted(each["id"] for each in listed), ["big", "gpt", "small"])
        self.assertEqual(self.asked("gpt"), (200, "big", "a"))
        self.assertEqual(self.asked("small"), (200, None, "b"))
        self.assertEqual(self.asked("gpt-5")[0], 404)
        self.assertIn("model gpt: big; then small\n", self.fleet_verb("status"))
        self.replicas["a"].kill()
        for _ in range(5):
            self.assertEqual(self.asked("gpt"), (200, "small", "b"))
        self.assertEqual(self.asked("gpt", stream=True), (200, "small", "b"))
        told = eventually(lambda: [each for each in self.front.access() if "served_model" in each][5:], "it is logged")
        self.assertEqual((told[0]["model"], told[0]["served_model"]), ("gpt", "small"))
        [row] = self.front.fleet()["models"]
        self.assertEqual((row["requests"], row["fallbacks"]), ({"big": 1, "small": 6}, 6))
        self.front.wait_quiet()

    def test_a_drained_model_has_its_stand_in(self):
        self.fleet_verb("drain", "a")
        self.assertEqual(self.asked("gpt"), (200, "small", "b"))
        self.fleet_verb("undrain", "a")
        self.assertEqual(self.asked("gpt"), (200, "big", "a"))

    def test_read_again_with_the_file(self):
        self.assertEqual(self.reload(self.own + NAMES.replace('"big"', '"small"').replace('["small"]', '["big"]')), "")
        self.assertEqual(self.asked("gpt"), (200, "small", "b"))
        for text, where in (
            ('[[model]]\nname = "gpt"\nfallback = ["x"]\n[[model]]\nname = "x"\nto = [{ model = "gpt" }]\n',
             ":13:12: model[0].fallback: leads back to itself: gpt, then x, then gpt"),
            ('[[model]]\nname = "gpt"\nto = [{ model = "bigg" }]\n',
             ":13:17: model[0].to[0].model: there is no model bigg; upstreams list big, small"),
        ):
            self.assertTrue(self.reload(self.own + text).startswith(self.path + where))
            self.assertEqual(self.asked("gpt"), (200, "small", "b"))
        self.assertEqual(self.reload(self.own), "")
        self.assertEqual(self.asked("gpt")[0], 404)

    def test_a_name_of_nothing_is_refused_at_the_start(self):
        path = self.file(self.own + '[[model]]\nname = "gpt"\nto = [{ model = "none" }]\n')
        with self.assertRaisesRegex(DidNotStart, r":13:17: model\[0\]\.to\[0\]\.model: there is no model none"):
            FileFront(path)

    def test_a_conversation_stays_with_its_share(self):
        self.reload(self.own + '[[model]]\nname = "gpt"\nto = [{ model = "big" }, { model = "small" }]\n')
        seen = set()
        for user in range(20):
            models = {self.asked("gpt", user=str(user), max_tokens=1)[1] for _ in range(3)}
            self.assertEqual(len(models), 1)
            seen |= models
        self.assertEqual(seen, {"big", "small"})


if __name__ == "__main__":
    unittest.main()
