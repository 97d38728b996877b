#include "fleet/replica_json.h"

#include <utility>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace fak::fleet {
namespace {

Result<driver::ReplicaSpec> Read(const char* text) {
  return ReadReplicaJson(*ParseJson(text));
}

TEST(ReadReplicaJson, TakesEveryKey) {
  const auto spec = Read(R"({"name":"a","engine":"vllm","url":"http://a","model":"m","weight":0.5,)"
                         R"("max_concurrency":8,"api_key":"secret","metrics_urls":["http://a:9"],)"
                         R"("kv_events":["tcp://a:1"],"data_parallel_rank":2,"allow_fields":["x"],)"
                         R"("allow_headers":["y"]})");
  ASSERT_TRUE(spec) << spec.error().detail;
  EXPECT_EQ(spec->name, "a");
  EXPECT_EQ(spec->engine, "vllm");
  EXPECT_EQ(spec->url, "http://a");
  EXPECT_EQ(spec->model, "m");
  EXPECT_EQ(spec->weight, 0.5);
  EXPECT_EQ(spec->max_concurrency, 8);
  EXPECT_EQ(spec->api_key, "secret");
  EXPECT_EQ(spec->metrics_urls, std::vector<std::string>{"http://a:9"});
  EXPECT_EQ(spec->options.Dump(),
            R"({"kv_events":["tcp://a:1"],"allow_fields":["x"],"allow_headers":["y"],)"
            R"("data_parallel_rank":2})");
}

TEST(ReadReplicaJson, HasTheFilesDefaults) {
  const auto spec = Read(R"({"url":"http://a"})");
  ASSERT_TRUE(spec);
  EXPECT_EQ(spec->engine, "auto");
  EXPECT_EQ(spec->weight, 1);
  EXPECT_EQ(spec->max_concurrency, 0);
  EXPECT_EQ(spec->options.Dump(), "{}");
}

TEST(ReadReplicaJson, SaysWhatIsWrong) {
  const std::pair<const char*, const char*> kCases[] = {
      {"[]", ""},
      {R"({"name":"a"})", "url"},
      {R"({"url":1})", "url"},
      {R"({"url":""})", "url"},
      {R"({"url":"http://a","ulr":1})", "ulr"},
      {R"({"url":"http://a","weight":-1})", "weight"},
      {R"({"url":"http://a","weight":"1"})", "weight"},
      {R"({"url":"http://a","max_concurrency":0})", "max_concurrency"},
      {R"({"url":"http://a","metrics_urls":"http://a"})", "metrics_urls"},
      {R"({"url":"http://a","kv_events":[1]})", "kv_events"},
      {R"({"url":"http://a","data_parallel_rank":-1})", "data_parallel_rank"},
      {R"({"url":"http://a","api_key":"a b"})", ""},
      {R"({"url":"http://a","engine":"native"})", "engine"},
  };
  for (const auto& [text, field] : kCases) {
    const auto spec = Read(text);
    ASSERT_FALSE(spec) << text;
    EXPECT_EQ(spec.error().code, Code::kInvalidArgument) << text;
    EXPECT_EQ(spec.error().field, field) << text;
  }
}

}  // namespace
}  // namespace fak::fleet
