#include "fleet/fleet_state.h"

#include <sys/stat.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/file.h"
#include "base/test_folder.h"

namespace fak::fleet {
namespace {

using ::testing::ElementsAre;
using ::testing::StartsWith;

const TestFolder& Folder() {
  static const TestFolder folder;
  return folder;
}

Result<FleetState> Open(const std::string& path) {
  return OpenFleetState(path, [](driver::ReplicaSpec& spec) -> Status {
    return spec.engine == "tgi" ? Status(Fail(Code::kInvalidArgument, "no engine tgi", "engine"))
                                : Status();
  });
}

TEST(FleetState, ReadsWhatItHasWritten) {
  const std::string path = Folder().Path("state.toml");
  const auto first = Open(path);  // which wasn't there
  ASSERT_TRUE(first) << first.error().detail;
  EXPECT_TRUE(first->added.empty());
  FleetState state;
  driver::ReplicaSpec spec = {
      .name = "c", .engine = "vllm", .url = "http://c:1/v1", .model = "m\x7f\"\\\n\xc3\xa4"};
  spec.api_key = "secret";
  spec.metrics_urls = {"http://c:2", "http://c:3"};
  spec.weight = 0.25;
  spec.max_concurrency = 7;
  spec.options = Json::Object{};
  spec.options.Set("kv_events", Json::Array{"tcp://c:5"});
  spec.options.Set("allow_headers", Json::Array{"x-tier"});
  spec.options.Set("data_parallel_rank", 3);
  spec.options.Set("generation_probe_interval", 0);
  spec.options.Set("generation_probe_timeout", 9);
  state.added.push_back(spec);
  state.added.push_back({.name = "d", .engine = "auto", .url = "http://d"});
  state.removed = {"a", "b\"x"};
  state.drained = {"c"};
  ASSERT_TRUE(WriteFleetState(path, state));
  struct stat file = {};
  ASSERT_EQ(stat(path.c_str(), &file), 0);
  EXPECT_EQ(file.st_mode & 0777, 0600U);
  const auto read = Open(path);
  ASSERT_TRUE(read) << read.error().detail;
  ASSERT_EQ(read->added.size(), 2u);
  const driver::ReplicaSpec& c = read->added.front();
  EXPECT_EQ(c.name, "c");
  EXPECT_EQ(c.engine, "vllm");
  EXPECT_EQ(c.url, "http://c:1/v1");
  EXPECT_EQ(c.model, "m\x7f\"\\\n\xc3\xa4");
  EXPECT_EQ(c.api_key, "secret");
  EXPECT_EQ(c.metrics_urls, spec.metrics_urls);
  EXPECT_EQ(c.weight, 0.25);
  EXPECT_EQ(c.max_concurrency, 7);
  EXPECT_EQ(c.options.Find("kv_events")->Dump(), R"(["tcp://c:5"])");
  EXPECT_EQ(c.options.Find("allow_headers")->Dump(), R"(["x-tier"])");
  EXPECT_EQ(c.options.Find("data_parallel_rank")->AsInt(), 3);
  EXPECT_EQ(c.options.Find("generation_probe_interval")->AsInt(), 0);
  EXPECT_EQ(c.options.Find("generation_probe_timeout")->AsInt(), 9);
  EXPECT_THAT(read->removed, ElementsAre("a", "b\"x"));
  EXPECT_THAT(read->drained, ElementsAre("c"));
}

TEST(FleetState, SaysWhereAFileIsDamaged) {
  const std::string path = Folder().Path("damaged.toml");
  const std::pair<const char*, const char*> kCases[] = {
      {"removed = [\"a\"", ":1:"},
      {"removed = \"a\"\n", ":1:11: removed: "},
      {"removed = []\ndrained = [\"a\", \"a\"]\n", ":2:11: drained: a is there twice"},
      {"remove = []\n", ":1:10: remove: "},
      {"[[replica]]\nname = \"c\"\nurl = 1\n", ":3:7: replica[0].url: must be a string"},
      {"[[replica]]\nurl = \"http://c\"\nengine = \"tgi\"\n",
       ":3:10: replica[0].engine: no engine"},
      {"[[replica]]\nengine = \"native\"\n", ":2:10: replica[0].engine: a model that is served"},
      {"[[replica]]\nurl = \"http://c\"\napi-key-file = \"k\"\n",
       ":3:16: replica[0].api-key-file: "},
  };
  for (const auto& [text, words] : kCases) {
    ASSERT_TRUE(WriteFileAtomically(path, text));
    const auto read = Open(path);
    ASSERT_FALSE(read) << text;
    EXPECT_THAT(read.error().detail, StartsWith(path + words)) << text;
  }
}

TEST(FleetState, AFileThatCannotBeWrittenIsSaidAtOnce) {
  EXPECT_FALSE(Open(Folder().Path("none/state.toml")));
}

TEST(FleetState, KeepsNoMoreNamesThanItMay) {
  FleetState state;
  for (size_t i = 0; i <= kFleetStateNamesMax; ++i) {
    state.removed.insert("r" + std::to_string(i));
  }
  EXPECT_EQ(WriteFleetState(Folder().Path("many.toml"), state).error().code,
            Code::kInvalidArgument);
}

}  // namespace
}  // namespace fak::fleet
