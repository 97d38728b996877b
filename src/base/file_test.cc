#include "base/file.h"

#include <gtest/gtest.h>

#include <array>
#include <filesystem>
#include <fstream>
#include <span>

#include "base/is_file.h"
#include "base/test_folder.h"

namespace fak {
namespace {

namespace fs = std::filesystem;

class FileTest : public testing::Test {
 protected:
  std::string Path(const std::string& name) const { return folder_.Path(name); }
  void Write(const std::string& name, const std::string& bytes) const {
    std::ofstream(Path(name), std::ios::binary) << bytes;
  }
  const TestFolder folder_;
};

TEST_F(FileTest, ReadsWholeFilesWithinTheBound) {
  Write("a", std::string(200'000, 'x'));
  EXPECT_EQ(ReadFile(Path("a"), 200'000)->size(), 200'000u);
  EXPECT_EQ(ReadFile(Path("a"), 199'999).error().code, Code::kPayloadTooLarge);
  Write("empty", "");
  EXPECT_EQ(*ReadFile(Path("empty"), 0), "");
  EXPECT_GT(ReadFile("/proc/self/status", 1 << 20)->size(), 0u);
}

TEST_F(FileTest, KnowsAFileFromWhatIsNone) {
  Write("a", "");
  fs::create_symlink(Path("a"), Path("link"));
  fs::create_symlink(Path("none"), Path("dead"));
  for (const auto& [path, is] : {std::pair(Path("a"), true),
                                 {Path("link"), true},
                                 {Path("dead"), false},
                                 {Path("none"), false},
                                 {Path(""), false},
                                 {"/dev/null", false},
                                 {"", false}}) {
    EXPECT_EQ(IsFile(path), is) << path;
  }
}

TEST_F(FileTest, NamesThePathAndTheReason) {
  const auto missing = ReadFile(Path("none"), 10);
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().code, Code::kNotFound);
  EXPECT_EQ(missing.error().detail, Path("none") + ": No such file or directory");
}

TEST_F(FileTest, ReplacesAtomicallyAndLeavesNothingBeside) {
  Write("a", "old");
  ASSERT_TRUE(WriteFileAtomically(Path("a"), "new"));
  EXPECT_EQ(*ReadFile(Path("a"), 10), "new");
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_.path()), fs::directory_iterator()), 1);
  EXPECT_EQ(WriteFileAtomically(Path("no/a"), "x").error().code, Code::kNotFound);
  fs::create_directory(Path("dir"));
  EXPECT_FALSE(WriteFileAtomically(Path("dir"), "x"));
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_.path()), fs::directory_iterator()), 2);
}

TEST_F(FileTest, ReadsAtOffsetsAndReportsAShrunkFile) {
  Write("a", "0123456789");
  const auto file = RandomAccessFile::Open(Path("a"));
  ASSERT_TRUE(file);
  EXPECT_EQ(file->size(), 10u);
  std::array<char, 4> text{};
  const auto bytes = std::as_writable_bytes(std::span(text));
  ASSERT_TRUE(file->ReadAt(3, bytes));
  EXPECT_EQ(std::string(text.data(), 4), "3456");
  file->WillNeed(0, 10);
  ASSERT_TRUE(file->ReadAt(6, bytes));
  fs::resize_file(Path("a"), 8);
  EXPECT_EQ(file->ReadAt(6, bytes).error().code, Code::kDataCorrupt);
  EXPECT_EQ(RandomAccessFile::Open(folder_.path()).error().code, Code::kInvalidArgument);
}

TEST(TestFolder, IsItsOwnersAloneAndGoesWithIt) {
  std::string path;
  {
    const TestFolder folder, other;
    EXPECT_NE(folder.path(), other.path());
    path = folder.path();
    EXPECT_TRUE(WriteFileAtomically(folder.Path("a"), "x"));
    EXPECT_TRUE(fs::exists(path + "/a"));
  }
  EXPECT_FALSE(fs::exists(path));
}

}  // namespace
}  // namespace fak
