#include "base/file.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <filesystem>
#include <fstream>
#include <span>

namespace fak {
namespace {

namespace fs = std::filesystem;

class FileTest : public testing::Test {
 protected:
  FileTest() {
    std::string pattern = testing::TempDir() + "fak_file_XXXXXX";
    folder_ = mkdtemp(pattern.data());
  }
  ~FileTest() override { fs::remove_all(folder_); }
  std::string Path(const std::string& name) const { return folder_ + "/" + name; }
  void Write(const std::string& name, const std::string& bytes) const {
    std::ofstream(Path(name), std::ios::binary) << bytes;
  }
  std::string folder_;
};

TEST_F(FileTest, ReadsWholeFilesWithinTheBound) {
  Write("a", std::string(200'000, 'x'));
  EXPECT_EQ(ReadFile(Path("a"), 200'000)->size(), 200'000u);
  EXPECT_EQ(ReadFile(Path("a"), 199'999).error().code, Code::kPayloadTooLarge);
  Write("empty", "");
  EXPECT_EQ(*ReadFile(Path("empty"), 0), "");
  EXPECT_GT(ReadFile("/proc/self/status", 1 << 20)->size(), 0u);
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
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_), fs::directory_iterator()), 1);
  EXPECT_EQ(WriteFileAtomically(Path("no/a"), "x").error().code, Code::kNotFound);
  fs::create_directory(Path("dir"));
  EXPECT_FALSE(WriteFileAtomically(Path("dir"), "x"));
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_), fs::directory_iterator()), 2);
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
  EXPECT_EQ(RandomAccessFile::Open(folder_).error().code, Code::kInvalidArgument);
}

}  // namespace
}  // namespace fak
