#include "wire/document_edit.h"

#include <gtest/gtest.h>

#include <vector>

#include "base/json.h"

namespace fak::wire {
namespace {

std::string Edit(std::string_view object, std::vector<MemberEdit> edits) {
  return EditMembers(object, edits);
}

TEST(EditMembers, LeavesEveryOtherByteAsItWas) {
  EXPECT_EQ(Edit("{ \"a\" : 1.0 ,\n\"b\":\"\\u00e9\" , \"c\":[ {\"b\":1}, \"}\\\"]\" ] }\n",
                 {{"b", "2"}}),
            "{ \"a\" : 1.0 ,\n\"b\":2 , \"c\":[ {\"b\":1}, \"}\\\"]\" ] }\n");
  const std::string untouched = " {\"a\":{},\"a\":[],\"z\":-1e5,\"t\":true} ";
  EXPECT_EQ(Edit(untouched, {}), untouched);
}

TEST(EditMembers, AppendsWhatIsNotThere) {
  EXPECT_EQ(Edit("{}", {{"a", "1"}}), "{\"a\":1}");
  EXPECT_EQ(Edit("{ \"x\":1 }", {{"a", "1"}, {"b", "[]"}}), "{ \"x\":1,\"a\":1,\"b\":[] }");
}

TEST(EditMembers, RemovesWithTheComma) {
  EXPECT_EQ(Edit("{\"a\":1,\"b\":2,\"c\":3}", {{"a", std::nullopt}}), "{\"b\":2,\"c\":3}");
  EXPECT_EQ(Edit("{\"a\":1, \"b\":2, \"c\":3}", {{"b", std::nullopt}}), "{\"a\":1, \"c\":3}");
  EXPECT_EQ(Edit("{\"a\":1,\"b\":2}", {{"b", std::nullopt}}), "{\"a\":1}");
  EXPECT_EQ(Edit("{\"a\":1}", {{"a", std::nullopt}, {"b", "2"}}), "{\"b\":2}");
  EXPECT_EQ(Edit("{\"a\":1,\"b\":2,\"a\":3}", {{"a", std::nullopt}}), "{\"b\":2}");
}

TEST(EditMembers, FindsNamesHoweverTheyAreSpelled) {
  EXPECT_EQ(Edit("{\"mod\\u0065l\":\"x\",\"m\":0}", {{"model", std::nullopt}}), "{\"m\":0}");
  EXPECT_EQ(Edit("{\"a\":1,\"a\":2}", {{"a", "3"}}), "{\"a\":3,\"a\":3}");
}

TEST(EditListed, EditsWhatIsThereInEachObjectOfTheList) {
  const std::vector<MemberEdit> edits = {{"a", std::nullopt}, {"b", "null"}};
  const auto edit = [&edits](std::string_view object) { return EditListed(object, "l", edits); };
  EXPECT_EQ(edit(R"({"a":1,"l":[ {"a":[1,2],"c":"]"} , 7, {"b":{"a":1}} ],"b":2})"),
            R"({"a":1,"l":[ {"c":"]"} , 7, {"b":null} ],"b":2})");
  for (const char* untouched :
       {R"({"l":[]})", R"({"l":7,"a":1})", R"({})", R"({"l":[[{"a":1}]]})"}) {
    EXPECT_EQ(edit(untouched), untouched);
  }
}

TEST(EditMembers, GivesWhatEditingTheTreeGives) {
  const std::string_view documents[] = {
      "{}", "{\"a\":null}", "{\"b\":[1,{\"a\":\"\\\\\"}],\"a\":{\"a\":{}},\"c\":\"{,}\"}",
      "{\"c\":1,\"a\":\"\\\"\",\"c\":false}"};
  for (const std::string_view document : documents) {
    for (const char* name : {"a", "b", "c", "d"}) {
      Json tree = *ParseJson(document);
      tree.Set(name, 7);
      EXPECT_EQ(Edit(document, {{name, "7"}}), tree.Dump()) << document;
      tree = *ParseJson(document);
      tree.Remove(name);
      EXPECT_EQ(Edit(document, {{name, std::nullopt}}), tree.Dump()) << document;
    }
  }
}

}  // namespace
}  // namespace fak::wire
