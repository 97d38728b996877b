#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "gateway/test_support.h"

namespace fak::gateway {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

class EvictTest : public GatewayTest {
 protected:
  static GatewayOptions WithAlice() {
    GatewayOptions options;
    options.keys.Add("admin", {"root", 1.0, true});
    options.keys.Add("a", {"alice", 1.0, false});
    return options;
  }
  net::HttpResponse Evict(const char* body) {
    return Ask("POST", "/v1/fak/cache/evict", body, {{"x-api-key", "admin"}});
  }
};

TEST_F(EvictTest, EvictsAndTellsARowForEachWorker) {
  driver_.outcomes_ = {
      {"a", driver::EvictReport{driver::EvictGuarantee::kWholePrefix, "POST /x", 2, 32}, true}};
  Start(WithAlice());
  const auto done =
      Evict(R"({"scope":"prefix","token_ids":[1,2],"tenant":"alice","cache_salt":"s"})");
  EXPECT_EQ(done.status, 200);
  EXPECT_EQ(done.body,
            R"({"results":[{"worker":"a","status":"done","guarantee":"whole_prefix",)"
            R"("call":"POST /x","blocks":2,"tokens_left":32,"honours_cache_salt":true}]})");
  EXPECT_EQ(driver_.evicted_.scope, driver::EvictScope::kPrefix);
  EXPECT_EQ(driver_.evicted_.tokens, (std::vector<int32_t>{1, 2}));
  EXPECT_EQ(driver_.evicted_.cache_salt, "5:alices");
  driver_.outcomes_.push_back({"b", Fail(Code::kUnsupported, "no", "guarantee"), false});
  const auto refused = Evict(R"({"scope":"all","guarantee":"exact"})");
  EXPECT_EQ(refused.status, 400);
  EXPECT_THAT(refused.body, HasSubstr(R"("worker":"b","status":"refused","guarantee":"none")"));
  EXPECT_THAT(refused.body, HasSubstr(R"("param":"guarantee","code":"unsupported")"));
  EXPECT_EQ(driver_.evicted_.demanded, driver::EvictGuarantee::kExact);
}

TEST_F(EvictTest, EmptiesNobodysCacheButThatOfTheTenantAndSaltThatAreNamed) {
  driver_.outcomes_ = {{"a", driver::EvictReport{}, true}};
  Start(WithAlice());
  const std::tuple<const char*, driver::EvictScope, const char*> kCases[] = {
      {R"({"scope":"all"})", driver::EvictScope::kAll, ""},
      {R"({"scope":"all","tenant":"alice"})", driver::EvictScope::kTenant, "5:alice"},
      {R"({"scope":"all","tenant":"alice","cache_salt":"s"})", driver::EvictScope::kSalt,
       "5:alices"},
      // The caller's own, as the salts of its requests are.
      {R"({"scope":"all","cache_salt":"s"})", driver::EvictScope::kSalt, "4:roots"},
      {R"({"scope":"prefix","prompt":"x"})", driver::EvictScope::kPrefix, "4:root"},
  };
  for (const auto& [body, scope, salt] : kCases) {
    EXPECT_EQ(Evict(body).status, 200) << body;
    EXPECT_EQ(driver_.evicted_.scope, scope) << body;
    EXPECT_EQ(driver_.evicted_.cache_salt, salt) << body;
  }
}

TEST_F(EvictTest, EvictsNothingOfATenantThatIsNone) {
  driver_.outcomes_ = {{"a", driver::EvictReport{}, true}};
  Start(WithAlice());
  driver_.evicted_.cache_salt = "nothing was asked for";
  for (const char* body : {R"({"scope":"all","tenant":"nobody"})", R"({"scope":"all","tenant":""})",
                           R"({"scope":"prefix","prompt":"x","tenant":"nobody"})"}) {
    const auto refused = Evict(body);
    EXPECT_EQ(refused.status, 400) << body;
    EXPECT_THAT(refused.body, HasSubstr(R"("param":"tenant")")) << body;
  }
  EXPECT_THAT(Evict(R"({"scope":"all","tenant":"nobody"})").body, HasSubstr(R"(\"nobody\")"));
  EXPECT_EQ(driver_.evicted_.cache_salt, "nothing was asked for");
}

// Whoever misspells what narrows the call would have more emptied than is meant.
TEST_F(EvictTest, RefusesFieldsThatNobodyKnows) {
  driver_.outcomes_ = {{"a", driver::EvictReport{}, true}};
  driver_.sleeps_ = true;
  driver_.has_slots_ = true;
  Start();
  const std::tuple<const char*, const char*, const char*> kCases[] = {
      {"cache/evict", R"({"scope":"all","bogus":1})", "bogus"},
      {"cache/evict", R"({"scope":"all","token_ids":[1]})", "token_ids"},
      {"cache/evict", R"({"scope":"prefix","prompt":"x","tools":[]})", "tools"},
      {"cache/evict",
       R"({"scope":"prefix","messages":[{"role":"user","content":"h"}],"tenat":"alice"})", "tenat"},
      {"upstream/sleep", R"({"workers":"a"})", "workers"},
      {"upstream/wake", R"({"level":1})", "level"},
      {"upstream/slot/erase", R"({"slot":1,"file":"f"})", "file"},
      {"upstream/slot/save", R"({"slot":1,"file":"f","node":1})", "node"},
  };
  for (const auto& [path, body, field] : kCases) {
    const auto refused = Ask("POST", "/v1/fak/" + std::string(path), body);
    EXPECT_EQ(refused.status, 400) << body;
    EXPECT_THAT(refused.body, HasSubstr(R"("param":")" + std::string(field) + '"')) << body;
  }
  // What shapes the prompt of a chat, and all else that its request has.
  EXPECT_EQ(Evict(R"({"scope":"prefix","messages":[{"role":"user","content":"h"}],)"
                  R"("tools":[],"temperature":0})")
                .status,
            200);
}

// 0 would say that somebody counted.
TEST_F(EvictTest, TellsNoBlocksThatNobodyCounted) {
  driver_.outcomes_ = {
      {"a", driver::EvictReport{.guarantee = driver::EvictGuarantee::kWholePrefix}, true}};
  Start();
  const auto done = Evict(R"({"scope":"all"})");
  EXPECT_EQ(done.status, 200);
  EXPECT_THAT(done.body, Not(HasSubstr("blocks")));
}

TEST_F(EvictTest, EvictsNothingOfAModelThatNobodyBehindLists) {
  Start();
  const auto nobody = Evict(R"({"scope":"all","model":"also-m"})");
  EXPECT_EQ(driver_.evicted_.model, "also-m");
  EXPECT_EQ(nobody.status, 404);
  EXPECT_THAT(nobody.body, HasSubstr(R"("param":"model")"));
}

TEST_F(EvictTest, RefusesEvictionsThatMeanNothing) {
  Start();
  for (const char* body :
       {"{}", "[]", R"({"scope":"some"})", R"({"scope":"prefix"})",
        R"({"scope":"prefix","prompt":"a","token_ids":[1]})",
        R"({"scope":"prefix","token_ids":[]})", R"({"scope":"prefix","token_ids":[-1]})",
        R"({"scope":"all","guarantee":"perfect"})", R"({"scope":"all","cache_salt":1})"}) {
    EXPECT_EQ(Evict(body).status, 400) << body;
  }
  EXPECT_EQ(Evict(R"({"scope":"all","model":"x"})").status, 404);
}

}  // namespace
}  // namespace fak::gateway
