#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "gateway/test_support.h"

namespace fak::gateway {
namespace {

using ::testing::HasSubstr;

TEST_F(GatewayTest, ActsOnSlotsAndTellsARowForEachWorker) {
  using Action = driver::SlotRequest::Action;
  Start();
  const std::string at = "/v1/fak/upstream/slot/";
  const char* body = R"({"worker":"a","slot":3,"file":"Warm-1_x.bin"})";
  EXPECT_EQ(Ask("POST", at + "save", body).status, 400);  // nobody here has any
  driver_.has_slots_ = true;
  driver_.slot_outcomes_ = {{"a", driver::SlotReport{"POST /slots/3?action=save", 42}}};
  const auto saved = Ask("POST", at + "save", body);
  EXPECT_EQ(saved.status, 200);
  EXPECT_EQ(saved.body,
            R"({"results":[{"worker":"a","status":"done","call":"POST /slots/3?action=save",)"
            R"("tokens":42}]})");
  EXPECT_EQ(driver_.slot_.action, Action::kSave);
  EXPECT_EQ(driver_.slot_.slot, 3);
  EXPECT_EQ(driver_.slot_.file, "Warm-1_x.bin");
  EXPECT_EQ(driver_.slot_.worker, "a");
  driver_.slot_outcomes_.push_back({"b", Fail(Code::kUnsupported, "it has none")});
  const auto mixed = Ask("POST", at + "restore", R"({"slot":0,"file":"x"})");
  EXPECT_EQ(mixed.status, 400);
  EXPECT_THAT(mixed.body, HasSubstr(R"("worker":"b","status":"refused")"));
  EXPECT_EQ(driver_.slot_.action, Action::kRestore);
  Ask("POST", at + "erase", R"({"slot":0})");
  EXPECT_EQ(driver_.slot_.action, Action::kErase);
  EXPECT_EQ(Ask("POST", at + "erase", R"({"slot":0,"worker":"nobody"})").status, 404);
}

TEST_F(GatewayTest, RefusesSlotsAndFilesThatMeanNothing) {
  driver_.has_slots_ = true;
  Start();
  const std::string at = "/v1/fak/upstream/slot/";
  for (const std::string file :
       {"", "..", ".hidden", "../x", "a/b", "a\\\\b", "/etc/passwd", "a b", "\\u0000", "%2e%2e"}) {
    const auto refused = Ask("POST", at + "save", R"({"slot":0,"file":")" + file + R"("})");
    EXPECT_EQ(refused.status, 400) << file;
    EXPECT_THAT(refused.body, HasSubstr(R"("param":"file")")) << file;
  }
  const std::string longest(128, 'a');
  driver_.slot_outcomes_ = {{"a", driver::SlotReport{}}};
  EXPECT_EQ(Ask("POST", at + "save", R"({"slot":0,"file":")" + longest + R"("})").status, 200);
  EXPECT_EQ(Ask("POST", at + "save", R"({"slot":0,"file":"a)" + longest + R"("})").status, 400);
  for (const char* wrong :
       {"", "[]", "{}", R"({"slot":-1})", R"({"slot":1024})", R"({"slot":"0"})"}) {
    EXPECT_EQ(Ask("POST", at + "erase", wrong).status, 400) << wrong;
  }
}

}  // namespace
}  // namespace fak::gateway
