#include "perf/page_cache.h"

#include <sys/vfs.h>

#include <string>

#include <gtest/gtest.h>

#include "base/file.h"
#include "base/test_folder.h"

namespace fak::perf {
namespace {

TEST(PageCache, DropsAFileAndSeesIt) {
  const TestFolder folder;
  constexpr long kTmpfs = 0x01021994;
  struct statfs info{};
  ASSERT_EQ(statfs(folder.path().c_str(), &info), 0);
  if (info.f_type == kTmpfs) {
    GTEST_SKIP() << "a file system in memory has nothing to drop";
  }
  const std::string path = folder.Path("file");
  ASSERT_TRUE(WriteFileAtomically(path, std::string(1 << 20, 'x')));
  EXPECT_EQ(CachedShare(path), 1.0);
  ASSERT_TRUE(DropFromCache(path));
  EXPECT_EQ(CachedShare(path), 0.0);
  ASSERT_TRUE(ReadFile(path, 2 << 20));
  EXPECT_EQ(CachedShare(path), 1.0);
}

TEST(PageCache, NamesWhatIsNotThere) {
  EXPECT_EQ(CachedShare("/nowhere/file").error().code, Code::kNotFound);
  EXPECT_EQ(DropFromCache("/nowhere/file").error().code, Code::kNotFound);
  const TestFolder folder;
  ASSERT_TRUE(WriteFileAtomically(folder.Path("empty"), ""));
  EXPECT_EQ(CachedShare(folder.Path("empty")), 1.0);
}

}  // namespace
}  // namespace fak::perf
