#include "fleet/discovery.h"

#include <string>
#include <utility>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace fak::fleet {
namespace {

using ::testing::StartsWith;

Result<std::vector<DiscoverySpec>> Read(const std::string& text) {
  const auto file = ConfigTable::Parse(text, "f.toml");
  if (!file) {
    return Fail(file.error());
  }
  return ReadDiscoveries(*file, [](driver::ReplicaSpec& spec) -> Status {
    if (spec.engine == "tgi") {
      return Fail(Code::kInvalidArgument, "no engine tgi", "engine");
    }
    return {};
  });
}

TEST(ReadDiscoveries, TakesEveryKey) {
  const auto specs = Read(
      "[[discover]]\ndns = \"v.example\"\nport = 8000\ndns-server = \"10.0.0.2\"\ntls = true\n"
      "engine = \"vllm\"\nmodel = \"m\"\nweight = 2\nmax-concurrency = 8\nallow-fields = [\"x\"]\n"
      "[[discover]]\ndns-services = \"_h._tcp.v\"\ndns-server = \"10.0.0.2:5353\"\n"
      "[[discover]]\netcd = \"http://e:2379\"\nca-file = \"x.pem\"\n"
      "[[discover]]\nkubernetes = \"n/s\"\nkubernetes-api = \"http://k\"\ntoken-file = \"t\"\n"
      "port-name = \"http\"\nmodel = \"m\"\n");
  ASSERT_TRUE(specs) << specs.error().detail;
  ASSERT_EQ(specs->size(), 4u);
  const DiscoverySpec& a = specs->front();
  EXPECT_EQ(a.kind, DiscoverySpec::Kind::kDnsAddresses);
  EXPECT_EQ(a.source, "dns v.example:8000");
  EXPECT_EQ(a.name, "v.example");
  EXPECT_EQ(a.server, "10.0.0.2");
  EXPECT_EQ(a.port, 8000);
  EXPECT_TRUE(a.tls);
  EXPECT_EQ(a.like.engine, "vllm");
  EXPECT_EQ(a.like.model, "m");
  EXPECT_EQ(a.like.weight, 2);
  EXPECT_EQ(a.like.max_concurrency, 8);
  EXPECT_EQ(a.like.options.Dump(), R"({"allow_fields":["x"]})");
  const DiscoverySpec& b = (*specs)[1];
  EXPECT_EQ(b.kind, DiscoverySpec::Kind::kDnsServices);
  EXPECT_EQ(b.source, "dns-services _h._tcp.v");
  EXPECT_FALSE(b.tls);
  EXPECT_EQ(b.like.engine, "auto");
  const DiscoverySpec& c = (*specs)[2];
  EXPECT_EQ(c.kind, DiscoverySpec::Kind::kEtcd);
  EXPECT_EQ(c.source, "etcd http://e:2379 /fak/replicas/");
  EXPECT_EQ(c.ca_file, "x.pem");
  const DiscoverySpec& d = specs->back();
  EXPECT_EQ(d.kind, DiscoverySpec::Kind::kKubernetes);
  EXPECT_EQ(d.source, "kubernetes n/s");
  EXPECT_EQ(d.server, "http://k");
  EXPECT_EQ(d.token_file, "t");
  EXPECT_EQ(d.ca_file, "");
  EXPECT_EQ(d.port_name, "http");
  EXPECT_EQ(d.like.model, "m");
  EXPECT_TRUE(a == a);
  EXPECT_FALSE(a == b);
  DiscoverySpec other = a;
  other.like.weight = 3;
  EXPECT_FALSE(a == other);
}

TEST(ReadDiscoveries, SaysWhereItIsWrong) {
  const std::pair<const char*, const char*> kCases[] = {
      {"[[discover]]\nport = 1\n", "f.toml:1:1: discover[0].dns: is missing"},
      {"[[discover]]\ndns = \"x\"\n", "f.toml:1:1: discover[0].port: is missing"},
      {"[[discover]]\ndns = \"x\"\nport = 0\n", "f.toml:3:8: discover[0].port: must be from 1"},
      {"[[discover]]\ndns = \"\"\nport = 1\n", "f.toml:2:7: discover[0].dns: is empty"},
      {"[[discover]]\ndns = \"x\"\ndns-services = \"x\"\n",
       "f.toml:3:16: discover[0].dns-services: and dns"},
      {"[[discover]]\ndns-services = \"x\"\nport = 1\n", "f.toml:3:8: discover[0].port: is what"},
      {"[[discover]]\ndns = \"x\"\nport = 1\ndns-server = \"ns.example\"\n",
       "f.toml:4:14: discover[0].dns-server: ns.example: must be"},
      {"[[discover]]\ndns = \"x\"\nport = 1\nname = \"y\"\n", "f.toml:4:8: discover[0].name: "},
      {"[[discover]]\ndns = \"x\"\nport = 1\nengine = \"tgi\"\n",
       "f.toml:4:10: discover[0].engine: no engine tgi"},
      {"[[discover]]\ndns = \"x\"\nport = 1\nengine = \"native\"\n",
       "f.toml:4:10: discover[0].engine: a model that is served here"},
      {"[[discover]]\nkubernetes = \"n\"\n", "f.toml:2:14: discover[0].kubernetes: must be"},
      {"[[discover]]\nkubernetes = \"n/../s\"\n", "f.toml:2:14: discover[0].kubernetes: must be"},
      {"[[discover]]\nkubernetes = \"n/s\"\nkubernetes-api = \"k\"\n",
       "f.toml:3:18: discover[0].kubernetes-api: "},
      {"[[discover]]\netcd = \"e:2379\"\n", "f.toml:2:8: discover[0].etcd: "},
      {"[[discover]]\netcd = \"http://e\"\nport = 1\n", "f.toml:3:8: discover[0].port: "},
      {"[[discover]]\netcd = \"http://e\"\nprefix = \"\"\n",
       "f.toml:3:10: discover[0].prefix: is empty"},
      {"[[discover]]\ndns = \"x\"\nport = 1\n[[discover]]\ndns = \"x\"\nport = 1\n",
       "f.toml:5:7: discover[1].dns: there is another dns x:1"},
  };
  for (const auto& [text, said] : kCases) {
    const auto specs = Read(text);
    ASSERT_FALSE(specs) << text;
    EXPECT_EQ(specs.error().code, Code::kInvalidArgument);
    EXPECT_THAT(specs.error().detail, StartsWith(said));
  }
}

TEST(ReadDiscoveries, TakesABoundedNumber) {
  std::string text;
  for (size_t i = 0; i <= kDiscoveriesMax; ++i) {
    text += "[[discover]]\ndns = \"" + std::to_string(i) + "\"\nport = 1\n";
  }
  EXPECT_FALSE(Read(text));
}

}  // namespace
}  // namespace fak::fleet
