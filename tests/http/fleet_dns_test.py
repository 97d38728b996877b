"""Replicas that DNS names come and go with it; where it is gone, the last known ones stay."""

import unittest

import fleet_changes_test
import fleet_reload_test
from dns_stand_in import A, AAAA, SRV, DnsStandIn, address, service
from tiny_server import Server, eventually

NAME = "replicas.example"
SERVICE = "_http._tcp.replicas.example"


class Dns(fleet_changes_test.FleetCase):
    def setUp(self):
        self.dns = DnsStandIn()
        self.addCleanup(self.dns.close)
        first = self.start_at("127.0.0.2", 0)
        self.replicas = {"127.0.0.2": first}
        for last in (3, 4):
            self.replicas[f"127.0.0.{last}"] = self.start_at(f"127.0.0.{last}", first.port)
        self.port = first.port
        self.reference = None

    def start_at(self, host, port):
        replica = Server("--host", host, port=port)
        self.addCleanup(replica.__exit__)
        return replica

    def start(self, text):
        self.path = self.file(text)
        self.front = fleet_reload_test.FileFront(self.path, "--routing-policy", "round_robin", ready=False)
        self.addCleanup(self.front.__exit__)

    def addresses(self, *lasts, ttl=1):
        self.dns.records[NAME, A] = ttl, [address(f"127.0.0.{last}") for last in lasts]

    def by_address(self, name=NAME):
        return f'[[discover]]\ndns = "{name}"\ndns-server = "{self.dns.server}"\nport = {self.port}\nengine = "fak"\n'

    def wait_lasts(self, *lasts):
        names = [f"127.0.0.{last}:{self.port}" for last in lasts]
        eventually(lambda: sorted(self.names()) == names, f"the fleet is {names}")

    def source(self):
        return self.front.fleet()["sources"][-1]

    def test_addresses_come_and_go(self):
        self.addresses(2, 3)
        self.start(self.by_address())
        self.wait_lasts(2, 3)
        for last in (2, 3):
            self.wait_healthy(f"127.0.0.{last}:{self.port}")
        self.learn_reference()
        self.assertEqual(self.routes(), {f"127.0.0.{last}:{self.port}" for last in (2, 3)})
        stream = self.open_stream(f"127.0.0.3:{self.port}")
        self.addresses(2, 4)
        eventually(lambda: f"127.0.0.4:{self.port}" in self.names(), "4 has come")
        self.assertTrue(stream.read().decode().endswith("data: [DONE]\n\n"))
        self.wait_lasts(2, 4)
        self.wait_healthy(f"127.0.0.4:{self.port}")
        self.assertEqual(self.routes(), {f"127.0.0.{last}:{self.port}" for last in (2, 4)})

    def test_the_last_known_stay_where_it_is_gone(self):
        self.addresses(2, 3)
        self.start(self.by_address())
        self.wait_lasts(2, 3)
        self.dns.silent = True
        eventually(lambda: "no DNS server has answered" in self.source().get("error", ""), "it is said")
        self.wait_lasts(2, 3)
        self.dns.silent = False
        self.dns.records = {}
        eventually(lambda: "no such records" in self.source().get("error", ""), "it is said")
        self.wait_lasts(2, 3)
        self.addresses(3)
        self.wait_lasts(3)
        self.assertNotIn("error", self.source())

    def test_it_is_asked_again_when_its_time_is_over(self):
        self.addresses(2, ttl=3600)
        other = "other.example"
        self.dns.records[other, A] = 1, [address("127.0.0.4")]
        self.start(self.by_address() + self.by_address(other))
        self.wait_lasts(2, 4)
        self.addresses(3)
        eventually(lambda: self.dns.times_asked(other, A) >= 5, "one that holds for a second is asked again")
        self.assertEqual((self.dns.times_asked(NAME, A), self.dns.times_asked(NAME, AAAA)), (1, 1))
        self.wait_lasts(2, 4)

    def test_services(self):
        ports = [self.replicas[f"127.0.0.{last}"].port for last in (2,)]
        local = [self.start_at("127.0.0.1", 0), self.start_at("127.0.0.1", 0)]
        self.dns.records[SERVICE, SRV] = 1, [service(local[0].port, "localhost", 10, 60),
                                             service(local[1].port, "localhost", 10, 20),
                                             service(ports[0], "elsewhere.example", 20, 1)]
        self.start(f'[[discover]]\ndns-services = "{SERVICE}"\ndns-server = "{self.dns.server}"\nengine = "fak"\n')
        names = sorted(f"localhost:{each.port}" for each in local)
        eventually(lambda: sorted(self.names()) == names, "both have come, and not the one of another priority")
        self.assertEqual(self.front.replica(f"localhost:{local[0].port}")["weight"], 60)
        for name in names:
            self.wait_healthy(name)
        self.learn_reference()
        self.assertEqual(self.routes(), set(names))

    def test_a_discovery_that_the_file_takes_out_takes_its_replicas_along(self):
        self.addresses(2, 3)
        self.start(self.by_address())
        self.wait_lasts(2, 3)
        table = f'[[replica]]\nname = "a"\nengine = "fak"\nurl = "http://127.0.0.4:{self.port}"\n'
        self.write(self.by_address() + table)
        self.hang_up()
        eventually(lambda: "a" in self.names(), "a has come")
        self.assertEqual(len(self.names()), 3)
        self.write(table)
        self.hang_up()
        self.wait_names(["a"])
        self.assertEqual([each["name"] for each in self.front.fleet()["sources"]], [self.path])

    def test_a_wrong_table_is_refused(self):
        self.addresses(2)
        self.start(self.by_address())
        self.wait_lasts(2)
        for text, said in (
            ('[[discover]]\ndns = "x"\n', ":1:1: discover[0].port: is missing"),
            ('[[discover]]\nport = 1\n', ":1:1: discover[0].dns: is missing"),
            ('[[discover]]\ndns = "x"\nport = 1\ndns-server = "x"\n', ":4:14: discover[0].dns-server: x: must be the"),
            ('[[discover]]\ndns = "x"\nport = 1\nname = "x"\n', ":4:8: discover[0].name: "),
        ):
            self.write(text)
            self.hang_up()
            eventually(lambda: self.front.fleet()["sources"][0].get("error", "").startswith(self.path + said), said)
        self.wait_lasts(2)


if __name__ == "__main__":
    unittest.main()
