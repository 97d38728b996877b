#include "gateway/keys.h"

#include <cstdio>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/file.h"
#include "base/limits.h"
#include "base/test_folder.h"
#include "gateway/http_status.h"

namespace fak::gateway {
namespace {

using ::testing::HasSubstr;

std::string Written(const std::string& text) {
  static const TestFolder folder;
  const std::string path = folder.Path("keys.toml");
  EXPECT_TRUE(WriteFileAtomically(path, text));
  return path;
}

TEST(KeyRing, TakesBothHeadersAndNothingElse) {
  KeyRing keys;
  keys.Add("secret", {"alice", 2.0, true});
  EXPECT_EQ(keys.Find({{"authorization", "Bearer secret"}})->name, "alice");
  EXPECT_EQ(keys.Find({{"Authorization", "bearer  secret "}})->name, "alice");
  EXPECT_EQ(keys.Find({{"x-api-key", "secret"}})->weight, 2.0);
  for (const char* wrong : {"Bearer secre", "Bearer secrett", "Basic secret", "Bearer", "secret"}) {
    EXPECT_FALSE(keys.Find({{"authorization", wrong}})) << wrong;
  }
  EXPECT_FALSE(keys.Find({}));
}

TEST(KeyRing, ReadsTenantsFromAFile) {
  KeyRing keys;
  const std::string hash = Sha256::HexOf("k1");
  ASSERT_TRUE(keys.AddFile(
      Written("[[key]]\nname = \"a\"\nhash = \"sha256:" + hash +
              "\"\nweight = 3\nmax-concurrency = 4\n\n[[key]]\nname = \"b\"\nhash = \"sha256:" +
              Sha256::HexOf("k2") + "\"\nadmin = true\n")));
  EXPECT_EQ(keys.Find({{"x-api-key", "k1"}})->weight, 3.0);
  EXPECT_FALSE(keys.Find({{"x-api-key", "k1"}})->admin);
  EXPECT_TRUE(keys.Find({{"x-api-key", "k2"}})->admin);
  EXPECT_EQ(keys.Find({{"x-api-key", "k1"}})->limits.max_concurrency, 4);
  EXPECT_EQ(keys.Find({{"x-api-key", "k2"}})->limits.max_concurrency, 0);
  EXPECT_EQ(keys.Tenants().size(), 2u);
}

TEST(KeyRing, NamesWhatIsWrongInAFile) {
  const std::string long_name(limits::kTenantNameBytesMax + 1, 'a');
  const std::pair<std::string, const char*> kCases[] = {
      {"[[key]]\nname = \"a\"\n", "sha256"},
      {"[[key]]\nname = \"" + long_name + "\"\nhash = \"sha256:HASH\"\n", "128 bytes"},
      {"[[key]]\nhash = \"sha256:00\"\n", "name"},
      {"[[key]]\nname = \"a\"\nhash = \"md5:00\"\n", "sha256"},
      {"[[key]]\nname = \"a\"\nhahs = \"x\"\n",
       "(known: name, hash, weight, admin, max-concurrency, max-streams, "
       "requests-per-minute, tokens-per-minute)"},
      {"[[key]]\nname = \"a\"\nhash = \"sha256:HASH\"\nmax-concurrency = 0\n",
       ":4:19: key[0].max-concurrency: must be"},
      {"[[key]]\nname = \"a\"\nhash = \"sha256:HASH\"\n[[key]]\nname = \"a\"\n"
       "hash = \"sha256:" +
           Sha256::HexOf("other") + "\"\nmax-concurrency = 2\n",
       ":7:19: key[1].max-concurrency: must be the same for all keys of a"},
      {"[[key]]\nname = \"a\"\nhash = \"sha256:HASH\"\nrequests-per-minute = -1\n",
       ":4:23: key[0].requests-per-minute: must be a number of requests, from 1"},
      {"[[key]]\nname = \"a\"\nhash = \"sha256:HASH\"\ntokens-per-minute = 1.5\n",
       "key[0].tokens-per-minute"},
      {"[[key]]\nname = \"a\"\nhash = \"sha256:HASH\"\nmax-streams = 2\n[[key]]\n"
       "name = \"a\"\nhash = \"sha256:" +
           Sha256::HexOf("other") + "\"\n",
       "key[1].max-streams: must be the same for all keys of a"},
      {"[[keys]]\n", "keys"},
      {"", "no [[key]]"},
      {"key = []\n", "no [[key]]"},
      {"[[key]]\nname = \"a\"\nhash = \"sha256:HASH\"\nweight = inf\n", "weight"},
      {"[[key]]\nname = \"a\"\nhash = \"sha256:HASH\"\n[[key]]\nname = \"b\"\n"
       "hash = \"sha256:HASH\"\nadmin = true\n",
       "another key"},
  };
  for (const auto& [text, named] : kCases) {
    KeyRing keys;
    std::string file = text;
    for (size_t at; (at = file.find("HASH")) != std::string::npos;) {
      file.replace(at, 4, Sha256::HexOf("k"));
    }
    const Status added = keys.AddFile(Written(file));
    ASSERT_FALSE(added) << text;
    EXPECT_THAT(added.error().detail, HasSubstr(named));
  }
}

// They would share the prefix cache and be counted as one.
TEST(KeyRing, NobodyInTheFileIsTheTenantOfAGivenKey) {
  const std::string path =
      Written("[[key]]\nname = \"api-key\"\nhash = \"sha256:" + Sha256::HexOf("k") + "\"\n");
  KeyRing alone;
  EXPECT_TRUE(alone.AddFile(path));
  KeyRing keys;
  keys.Add("given", {"api-key", 1.0, true});
  keys.Add("another", {"api-key", 1.0, true});
  const Status added = keys.AddFile(path);
  ASSERT_FALSE(added);
  EXPECT_THAT(added.error().detail, HasSubstr(path + ":2:"));
  EXPECT_THAT(added.error().detail, HasSubstr("api-key is the tenant of --api-key"));
}

TEST(HttpStatus, PassesAnUpstreamsClientErrorOn) {
  Error error{Code::kUpstreamError, "x"};
  EXPECT_EQ(HttpStatusOf(error), 502);
  error.upstream_status = 422;
  EXPECT_EQ(HttpStatusOf(error), 422);
  error.upstream_status = 500;
  EXPECT_EQ(HttpStatusOf(error), 502);
  EXPECT_EQ(HttpStatusOf({Code::kContextTooLong, ""}), 400);
  EXPECT_EQ(HttpStatusOf({Code::kResourceExhausted, ""}), 503);
}

}  // namespace
}  // namespace fak::gateway
