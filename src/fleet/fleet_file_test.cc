#include "fleet/fleet_file.h"

#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/file.h"
#include "base/limits.h"

namespace fak::fleet {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

Result<std::vector<driver::ReplicaSpec>> Read(const std::string& text) {
  const auto file = ConfigTable::Parse(text, "f.toml");
  if (!file) {
    return Fail(file.error());
  }
  return ReadReplicas(*file, [](driver::ReplicaSpec& spec) -> Status {
    if (spec.engine == "tgi") {
      return Fail(Code::kInvalidArgument, "no engine tgi", "engine");
    }
    if (spec.options.Find("data_parallel_rank") != nullptr && spec.engine == "auto") {
      return Fail(Code::kInvalidArgument, "data_parallel_rank: takes none", "data_parallel_rank");
    }
    spec.name = spec.name.empty() ? spec.url : spec.name;
    return {};
  });
}

TEST(ReadReplicas, TakesEveryKey) {
  const std::string key_file = ::testing::TempDir() + "fleet_file_test.key";
  ASSERT_TRUE(WriteFileAtomically(key_file, "secret\n"));
  const auto specs = Read(
      "[serve]\nport = 1\n"
      "[[replica]]\nname = \"a\"\nengine = \"vllm\"\nurl = \"http://a\"\n"
      "api-key-file = \"" +
      key_file +
      "\"\n"
      "metrics-urls = [\"http://a:9\", \"http://b:9\"]\nkv-events = [\"tcp://a:1\"]\n"
      "data-parallel-rank = 2\nweight = 0.5\nmax-concurrency = 8\nmodel = \"m\"\nallow-fields = "
      "[\"x\"]\nallow-headers = [\"y\"]\ngeneration-probe-interval = 9\n"
      "generation-probe-timeout = 3\n"
      "[[replica]]\nurl = \"http://b\"\n");
  ASSERT_TRUE(specs) << specs.error().detail;
  ASSERT_EQ(specs->size(), 2u);
  const driver::ReplicaSpec& a = specs->front();
  EXPECT_EQ(a.name, "a");
  EXPECT_EQ(a.engine, "vllm");
  EXPECT_EQ(a.url, "http://a");
  EXPECT_EQ(a.api_key, "secret");
  EXPECT_EQ(a.metrics_urls, (std::vector<std::string>{"http://a:9", "http://b:9"}));
  EXPECT_EQ(a.options.Dump(),
            R"({"kv_events":["tcp://a:1"],"allow_fields":["x"],"allow_headers":["y"],)"
            R"("data_parallel_rank":2,"generation_probe_interval":9,)"
            R"("generation_probe_timeout":3})");
  EXPECT_EQ(a.weight, 0.5);
  EXPECT_EQ(a.max_concurrency, 8);
  EXPECT_EQ(a.model, "m");
  const driver::ReplicaSpec& b = specs->back();
  EXPECT_EQ(b.weight, 1);
  EXPECT_EQ(b.max_concurrency, 0);
  EXPECT_EQ(b.name, "http://b");
  EXPECT_EQ(b.engine, "auto");
  EXPECT_EQ(b.options.Dump(), "{}");
}

TEST(ReadReplicas, TakesANativeOneAlone) {
  const auto specs = Read("[[replica]]\nname = \"n\"\nengine = \"native\"\nmodel = \"smollm2\"\n");
  ASSERT_TRUE(specs) << specs.error().detail;
  EXPECT_EQ(specs->front().engine, driver::kNativeEngine);
  EXPECT_EQ(specs->front().model, "smollm2");
}

TEST(ReadReplicas, HasNoneWithoutTables) {
  const auto specs = Read("[serve]\nport = 1\n");
  ASSERT_TRUE(specs);
  EXPECT_TRUE(specs->empty());
}

TEST(ReadReplicas, SaysWhereItIsWrong) {
  const std::pair<const char*, const char*> kCases[] = {
      {"[[replica]]\nurl = 1\n", "f.toml:2:7: replica[0].url: must be a string"},
      {"[[replica]]\nurl = \"\"\n", "f.toml:2:7: replica[0].url: is empty"},
      {"[[replica]]\nulr = \"http://a\"\n", "f.toml:2:7: replica[0].ulr: "},
      {"replica = 1\n", "f.toml:1:11: replica: must be"},
      {"[[replica]]\nurl = \"http://a\"\n[[replica]]\nengine = \"tgi\"\n",
       "f.toml:4:10: replica[1].engine: no engine tgi"},
      {"[[replica]]\nurl = \"http://a\"\ndata-parallel-rank = 1\n",
       "f.toml:3:22: replica[0].data-parallel-rank: takes none"},
      {"[[replica]]\nurl = \"http://a\"\n[[replica]]\nname = \"http://a\"\n",
       "f.toml:4:8: replica[1].name: another replica is called http://a already"},
      {"[[replica]]\nurl = \"http://a\"\n[[replica]]\nname = \"n\"\nengine = \"native\"\n",
       "f.toml:5:10: replica[1].engine: a native replica has to be the only one"},
      {"[[replica]]\nweight = -1\n", "f.toml:2:10: replica[0].weight: must be from 0"},
      {"[[replica]]\nweight = nan\n", "f.toml:2:10: replica[0].weight: must be from 0"},
      {"[[replica]]\nmax-concurrency = 0\n",
       "f.toml:2:19: replica[0].max-concurrency: must be a number"},
      {"[[replica]]\napi-key-file = \"/nonexistent\"\n",
       "f.toml:2:16: replica[0].api-key-file: /nonexistent: "},
      {"[[replica]]\nkv-events = \"tcp://a\"\n", "f.toml:2:13: replica[0].kv-events: must be"},
  };
  for (const auto& [text, said] : kCases) {
    const auto specs = Read(text);
    ASSERT_FALSE(specs) << text;
    EXPECT_EQ(specs.error().code, Code::kInvalidArgument);
    EXPECT_THAT(specs.error().detail, StartsWith(said));
  }
}

TEST(ReadReplicas, TakesABoundedNumber) {
  std::string text;
  for (size_t i = 0; i <= limits::kUpstreamsMax; ++i) {
    text += "[[replica]]\nurl = \"http://" + std::to_string(i) + "\"\n";
  }
  const auto specs = Read(text);
  ASSERT_FALSE(specs);
  EXPECT_THAT(specs.error().detail, HasSubstr("at most 256 replicas"));
}

}  // namespace
}  // namespace fak::fleet
