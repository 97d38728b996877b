"""Replicas that are the endpoints of a Kubernetes service, by a stand-in of its API server."""

import unittest

import fleet_changes_test
import fleet_reload_test
from kubernetes_stand_in import TOKEN, KubernetesStandIn
from tiny_server import Server, eventually

READY, NOT_READY = {"ready": True}, {"ready": False}


class Kubernetes(fleet_changes_test.FleetCase):
    def setUp(self):
        self.api = KubernetesStandIn()
        self.addCleanup(lambda: self.api.stop())
        first = self.start_at("127.0.0.2", 0)
        self.port = first.port
        self.replicas = {2: first, **{last: self.start_at(f"127.0.0.{last}", first.port) for last in (3, 4)}}

    def start_at(self, host, port):
        replica = Server("--host", host, port=port)
        self.addCleanup(replica.__exit__)
        return replica

    def start(self, token=TOKEN):
        token_file = self.file(token + "\n")
        self.path = self.file(f'[[discover]]\nkubernetes = "default/vllm"\nkubernetes-api = "{self.api.url}"\n'
                              f'token-file = "{token_file}"\nport-name = "http"\nengine = "fak"\n')
        self.front = fleet_reload_test.FileFront(self.path, "--routing-policy", "round_robin", ready=False)
        self.addCleanup(self.front.__exit__)

    def put(self, name, *lasts, not_ready=()):
        endpoints = [(f"127.0.0.{last}", READY) for last in lasts]
        self.api.put(name, endpoints + [(f"127.0.0.{last}", NOT_READY) for last in not_ready], self.port)

    def name(self, last):
        return f"127.0.0.{last}:{self.port}"

    def wait_lasts(self, *lasts):
        names = [self.name(last) for last in lasts]
        eventually(lambda: sorted(self.names()) == names, f"the fleet is {names}")

    def source(self):
        return self.front.fleet()["sources"][-1]

    def test_endpoints_come_and_go(self):
        self.put("vllm-1", 2, not_ready=[4])
        self.put("vllm-2", 3)
        self.start()
        self.wait_lasts(2, 3)
        for last in (2, 3):
            self.wait_healthy(self.name(last))
        self.learn_reference()
        self.assertEqual(self.routes(), {self.name(2), self.name(3)})
        stream = self.open_stream(self.name(3))
        self.put("vllm-1", 2, 4)
        self.wait_lasts(2, 3, 4)
        self.api.delete("vllm-2")
        eventually(lambda: self.front.replica(self.name(3)).get("leaving"), "3 leaves")
        self.assertTrue(stream.read().decode().endswith("data: [DONE]\n\n"))
        self.wait_lasts(2, 4)
        self.put("vllm-1")
        self.wait_lasts()
        self.assertEqual(self.api.lists, 1)
        self.assertEqual({each[1:] for each in self.api.watches}, {("true", 300)})

    def test_a_watch_goes_on_from_the_last_bookmark(self):
        self.put("vllm-1", 2)
        self.start()
        self.wait_lasts(2)
        eventually(lambda: self.api.watches, "it watches")
        self.put("vllm-1", 2, 3)
        self.wait_lasts(2, 3)
        self.api.bookmark()
        self.put("vllm-1", 3)
        self.wait_lasts(3)
        self.assertEqual((self.api.lists, len(self.api.watches)), (1, 1))

    def test_one_that_is_told_that_it_is_too_late_lists_anew(self):
        self.put("vllm-1", 2)
        self.start()
        self.wait_lasts(2)
        eventually(lambda: self.api.watches, "it watches")
        self.put("vllm-1", 3)
        self.wait_lasts(3)
        self.api.forget()
        eventually(lambda: self.api.lists == 2, "it lists again")
        eventually(lambda: len(self.api.watches) == 2, "and watches from there")
        self.assertGreaterEqual(self.api.watches[-1][0], self.api.oldest)
        self.assertNotIn("error", self.source())
        self.put("vllm-1", 4)
        self.wait_lasts(4)

    def test_the_last_known_stay_while_the_api_is_away(self):
        self.put("vllm-1", 2, 3)
        self.start()
        self.wait_lasts(2, 3)
        port = self.api.port
        self.api.stop()
        eventually(lambda: self.source().get("error"), "it is said")
        self.wait_lasts(2, 3)
        self.api.start(port)
        self.put("vllm-1", 3)
        self.wait_lasts(3)
        self.assertNotIn("error", self.source())

    def test_a_refusal_is_told(self):
        self.start(token="another")
        eventually(lambda: "answered 401: Unauthorized" in self.source().get("error", ""), "it is said")
        self.assertEqual(self.names(), [])


if __name__ == "__main__":
    unittest.main()
