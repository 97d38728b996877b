#include "tensor/gguf.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <array>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "base/test_folder.h"
#include "tensor/gguf_split.h"
#include "tensor/gguf_writer.h"

namespace fak::tensor {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::StrEq;

class GgufFileTest : public testing::Test {
 protected:
  std::string Path(std::string_view name) const { return folder_.Path(name); }

  const TestFolder folder_;
};

std::vector<std::byte> Pattern(size_t count, int first) {
  std::vector<std::byte> bytes(count);
  for (size_t i = 0; i < count; ++i) {
    bytes[i] = static_cast<std::byte>(static_cast<size_t>(first) + i * 7);
  }
  return bytes;
}

// Six tensors t0 to t5 of F32, 8 x 4, and a few keys.
GgufWriter SixTensors() {
  GgufWriter writer;
  writer.Set("general.architecture", "llama");
  writer.Set("llama.block_count", 3u);
  for (int i = 0; i < 6; ++i) {
    writer.AddTensor("t" + std::to_string(i), DType::kF32, {8, 4}, Pattern(128, i));
  }
  return writer;
}

void ExpectSixTensors(const GgufFile& file) {
  ASSERT_EQ(file.tensors().size(), 6u);
  for (int i = 0; i < 6; ++i) {
    const GgufTensor* tensor = file.FindTensor("t" + std::to_string(i));
    ASSERT_NE(tensor, nullptr);
    std::vector<std::byte> data(tensor->bytes);
    file.WillNeed(*tensor);
    ASSERT_TRUE(file.Read(*tensor, 0, data));
    EXPECT_EQ(data, Pattern(128, i));
  }
}

void ExpectRefused(const std::string& path, Code code, const std::string& says) {
  const auto file = GgufFile::Open(path);
  ASSERT_FALSE(file);
  EXPECT_EQ(file.error().code, code) << file.error().detail;
  EXPECT_THAT(file.error().detail, HasSubstr(says));
}

TEST_F(GgufFileTest, ReadsWhatTheWriterWrote) {
  GgufWriter writer;
  writer.Set("general.architecture", "qwen2");
  writer.Set("general.alignment", 64u);
  writer.Set("u8", uint8_t{200});
  writer.Set("i8", int8_t{-3});
  writer.Set("u16", uint16_t{60000});
  writer.Set("i16", int16_t{-300});
  writer.Set("u32", uint32_t{4'000'000'000});
  writer.Set("i32", int32_t{-5});
  writer.Set("u64", uint64_t{6});
  writer.Set("i64", int64_t{7});
  writer.Set("f32", 0.25f);
  writer.Set("f64", 0.125);
  writer.Set("yes", true);
  writer.Set("text", "first");
  writer.Set("text", "replaced");
  writer.SetArray("words", std::vector<std::string>{"", "a", std::string("b\0c", 3)});
  writer.SetArray<float>("floats", std::array{1.0f, -2.0f});
  writer.SetArray<int32_t>("ints", std::array{1, -2, 3});
  writer.SetArray<bool>("bools", std::array{true, false});
  writer.SetArray<int32_t>("none", std::span<const int32_t>());
  writer.AddTensor("m", DType::kQ8_0, {64, 3, 2}, Pattern(6 * 68, 1));
  writer.AddTensor("v", DType::kF32, {1}, Pattern(4, 2));
  ASSERT_TRUE(writer.Write(Path("model.gguf")));

  const auto file = GgufFile::Open(Path("model.gguf"));
  ASSERT_TRUE(file) << file.error().detail;
  const GgufFile& f = **file;
  EXPECT_EQ(f.keys().size(), 19u);
  EXPECT_EQ(f.keys()[13].name, "text");
  EXPECT_EQ(f.GetU32("u8").value(), 200u);
  EXPECT_EQ(f.Find("i8")->IntegerAt(0), -3);
  EXPECT_EQ(f.GetU32("u16").value(), 60000u);
  EXPECT_EQ(f.Find("i16")->IntegerAt(0), -300);
  EXPECT_EQ(f.GetU32("u32").value(), 4'000'000'000u);
  EXPECT_EQ(f.Find("i32")->IntegerAt(0), -5);
  EXPECT_EQ(f.GetU32("u64").value(), 6u);
  EXPECT_EQ(f.GetU32("i64").value(), 7u);
  EXPECT_EQ(f.GetF32("f32").value(), 0.25f);
  EXPECT_EQ(f.GetF32("f64").value(), 0.125f);
  EXPECT_TRUE(f.GetBool("yes").value());
  EXPECT_EQ(f.GetString("text").value(), "replaced");
  const GgufStrings words = f.GetStrings("words").value();
  EXPECT_THAT(std::vector<std::string>(words.begin(), words.end()),
              ElementsAre("", "a", std::string("b\0c", 3)));
  EXPECT_THAT(f.GetF32Array("floats").value(), ElementsAre(1.0f, -2.0f));
  EXPECT_THAT(f.GetI32Array("ints").value(), ElementsAre(1, -2, 3));
  EXPECT_THAT(f.GetBoolPerLayer("bools", 2).value(), ElementsAre(true, false));
  EXPECT_TRUE(f.GetI32Array("none").value().empty());

  const GgufTensor* m = f.FindTensor("m");
  ASSERT_NE(m, nullptr);
  EXPECT_EQ(m->dims, 3);
  EXPECT_THAT(m->shape, ElementsAre(64, 3, 2, 1));
  EXPECT_EQ(m->rows(), 6);
  EXPECT_EQ(m->offset % 64, 0u);
  std::vector<std::byte> row(68);
  ASSERT_TRUE(f.Read(*m, 5 * 68, row));
  const auto all = Pattern(6 * 68, 1);
  EXPECT_TRUE(std::equal(row.begin(), row.end(), all.begin() + 5 * 68));
  EXPECT_EQ(f.FindTensor("n"), nullptr);
}

TEST_F(GgufFileTest, NamesFileAndKeyInErrors) {
  ASSERT_TRUE(SixTensors().Write(Path("m.gguf")));
  const auto file = GgufFile::Open(Path("m.gguf"));
  ASSERT_TRUE(file);
  const auto missing = (*file)->GetU32("llama.context_length");
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().code, Code::kDataCorrupt);
  EXPECT_EQ(missing.error().detail,
            Path("m.gguf") + ": metadata key 'llama.context_length' is missing");
  EXPECT_EQ((*file)->GetU32("llama.context_length", 7).value(), 7u);
  const auto wrong = (*file)->GetU32("general.architecture", 7);
  ASSERT_FALSE(wrong) << "a fallback must not hide a wrong type";
  EXPECT_EQ(
      wrong.error().detail,
      Path("m.gguf") + ": metadata key 'general.architecture': is string and must be an integer");
}

TEST_F(GgufFileTest, OpensAHeadLargerThanTheFirstRead) {
  std::vector<std::string> tokens;
  for (int i = 0; i < 200'000; ++i) {
    tokens.push_back("token number " + std::to_string(i));
  }
  GgufWriter writer = SixTensors();
  writer.SetArray("tokenizer.ggml.tokens", tokens);
  ASSERT_TRUE(writer.Write(Path("m.gguf")));
  const auto file = GgufFile::Open(Path("m.gguf"));
  ASSERT_TRUE(file) << file.error().detail;
  const GgufStrings read = (*file)->GetStrings("tokenizer.ggml.tokens").value();
  EXPECT_TRUE(std::equal(read.begin(), read.end(), tokens.begin(), tokens.end()));
  ExpectSixTensors(**file);
}

TEST_F(GgufFileTest, RefusesEveryTruncation) {
  ASSERT_TRUE(SixTensors().Write(Path("m.gguf")));
  const auto bytes = std::filesystem::file_size(Path("m.gguf"));
  for (auto size = bytes; size-- > 0;) {
    std::filesystem::resize_file(Path("m.gguf"), size);
    const auto file = GgufFile::Open(Path("m.gguf"));
    ASSERT_FALSE(file) << size;
    EXPECT_EQ(file.error().code, Code::kDataCorrupt) << size;
  }
}

TEST_F(GgufFileTest, SaysSoWhenTheFileIsCutShortAfterItWasOpened) {
  ASSERT_TRUE(SixTensors().Write(Path("m.gguf")));
  const auto file = GgufFile::Open(Path("m.gguf"));
  ASSERT_TRUE(file);
  const GgufTensor& last = (*file)->tensors().back();
  std::filesystem::resize_file(Path("m.gguf"), last.offset + 5);
  std::vector<std::byte> data(last.bytes);
  const Status read = (*file)->Read(last, 0, data);
  ASSERT_FALSE(read);
  EXPECT_EQ(read.error().code, Code::kDataCorrupt);
  EXPECT_THAT(read.error().detail,
              StrEq("tensor 't5': " + Path("m.gguf") +
                    ": the file was cut short after it was opened: it ends at or before byte " +
                    std::to_string(last.offset + 5) + ", and had " +
                    std::to_string((*file)->file_bytes())));
}

TEST_F(GgufFileTest, RefusesWhatIsNoRegularFile) {
  ExpectRefused(Path("absent.gguf"), Code::kNotFound, Path("absent.gguf") + ": No such file");
  ExpectRefused(folder_.path(), Code::kInvalidArgument, "not a regular file");
  ASSERT_EQ(mkfifo(Path("pipe").c_str(), 0600), 0);
  ExpectRefused(Path("pipe"), Code::kInvalidArgument, "not a regular file");
}

TEST_F(GgufFileTest, OpensASplitModelByAnyOfItsParts) {
  ASSERT_TRUE(SixTensors().WriteSplit(Path("m"), 3));
  for (const char* name :
       {"m-00001-of-00003.gguf", "m-00002-of-00003.gguf", "m-00003-of-00003.gguf"}) {
    const auto file = GgufFile::Open(Path(name));
    ASSERT_TRUE(file) << file.error().detail;
    EXPECT_EQ((*file)->parts(), 3u);
    EXPECT_EQ((*file)->GetU32("llama.block_count").value(), 3u);
    EXPECT_EQ((*file)->FindTensor("t5")->part, 2u);
    ExpectSixTensors(**file);
  }
}

TEST_F(GgufFileTest, RefusesASplitModelWithAMissingPart) {
  ASSERT_TRUE(SixTensors().WriteSplit(Path("m"), 3));
  std::filesystem::remove(Path("m-00002-of-00003.gguf"));
  ExpectRefused(Path("m-00003-of-00003.gguf"), Code::kNotFound,
                "part 2 of a split model: " + Path("m-00002-of-00003.gguf"));
}

TEST_F(GgufFileTest, ChecksOnePartWhereverTheOthersAre) {
  ASSERT_TRUE(SixTensors().WriteSplit(Path("m"), 3));
  std::filesystem::rename(Path("m-00002-of-00003.gguf"), Path("part-2"));
  EXPECT_TRUE(GgufFile::CheckPart(Path("part-2")));
  std::filesystem::resize_file(Path("part-2"), std::filesystem::file_size(Path("part-2")) - 1);
  EXPECT_EQ(GgufFile::CheckPart(Path("part-2")).error().code, Code::kDataCorrupt);
}

TEST_F(GgufFileTest, RefusesAPartThatIsACopyOrALinkOfAnother) {
  ASSERT_TRUE(SixTensors().WriteSplit(Path("m"), 3));
  std::filesystem::remove(Path("m-00003-of-00003.gguf"));
  std::filesystem::create_symlink(Path("m-00001-of-00003.gguf"), Path("m-00003-of-00003.gguf"));
  ExpectRefused(Path("m-00001-of-00003.gguf"), Code::kDataCorrupt,
                "m-00003-of-00003.gguf: its name says part 3 of 3, its keys split.no and "
                "split.count say part 1 of 3");
  ExpectRefused(Path("m-00003-of-00003.gguf"), Code::kDataCorrupt, "its name says part 3 of 3");
}

TEST_F(GgufFileTest, RefusesPartsOfDifferentModels) {
  ASSERT_TRUE(SixTensors().WriteSplit(Path("m"), 2));
  ASSERT_TRUE(SixTensors().WriteSplit(Path("n"), 3));
  std::filesystem::rename(Path("n-00002-of-00003.gguf"), Path("m-00002-of-00002.gguf"));
  ExpectRefused(Path("m-00001-of-00002.gguf"), Code::kDataCorrupt, "say part 2 of 3");
}

TEST_F(GgufFileTest, RefusesAPartThatWasRenamed) {
  ASSERT_TRUE(SixTensors().WriteSplit(Path("m"), 2));
  std::filesystem::rename(Path("m-00001-of-00002.gguf"), Path("other.gguf"));
  ExpectRefused(Path("other.gguf"), Code::kDataCorrupt,
                "one of 2 parts of a split model, but not named NAME-00001-of-00002.gguf");
}

TEST_F(GgufFileTest, RefusesATensorThatIsInTwoParts) {
  GgufWriter one = SixTensors();
  one.Set("split.no", uint16_t{0});
  one.Set("split.count", uint16_t{2});
  ASSERT_TRUE(one.Write(Path("m-00001-of-00002.gguf")));
  one.Set("split.no", uint16_t{1});
  ASSERT_TRUE(one.Write(Path("m-00002-of-00002.gguf")));
  ExpectRefused(Path("m-00002-of-00002.gguf"), Code::kDataCorrupt, "tensor 't0' is in ");
}

TEST_F(GgufFileTest, RefusesASplitModelWithAnotherNumberOfTensors) {
  GgufWriter one = SixTensors();
  one.Set("split.no", uint16_t{0});
  one.Set("split.count", uint16_t{2});
  one.Set("split.tensors.count", int32_t{7});
  ASSERT_TRUE(one.Write(Path("m-00001-of-00002.gguf")));
  GgufWriter two;
  two.Set("split.no", uint16_t{1});
  two.Set("split.count", uint16_t{2});
  ASSERT_TRUE(two.Write(Path("m-00002-of-00002.gguf")));
  ExpectRefused(Path("m-00001-of-00002.gguf"), Code::kDataCorrupt,
                "the parts hold 6 tensors, split.tensors.count says 7");
}

TEST_F(GgufFileTest, RefusesNonsenseInSplitKeys) {
  GgufWriter writer = SixTensors();
  writer.Set("split.count", 5000u);
  ASSERT_TRUE(writer.Write(Path("m-00001-of-05000.gguf")));
  ExpectRefused(Path("m-00001-of-05000.gguf"), Code::kPayloadTooLarge,
                "'split.count': 5000 parts (at most 1024)");
  writer.Set("split.count", "two");
  ASSERT_TRUE(writer.Write(Path("m.gguf")));
  ExpectRefused(Path("m.gguf"), Code::kDataCorrupt,
                "metadata key 'split.count': is string and must be an integer");
}

TEST_F(GgufFileTest, TakesAMergedModelAsWhole) {
  GgufWriter writer = SixTensors();
  writer.Set("split.count", uint16_t{0});
  ASSERT_TRUE(writer.Write(Path("m-00001-of-00003.gguf")));
  const auto file = GgufFile::Open(Path("m-00001-of-00003.gguf"));
  ASSERT_TRUE(file) << file.error().detail;
  EXPECT_EQ((*file)->parts(), 1u);
}

TEST_F(GgufFileTest, WritesTheSameBytesEachTime) {
  ASSERT_TRUE(SixTensors().Write(Path("a.gguf")));
  ASSERT_TRUE(SixTensors().Write(Path("b.gguf")));
  const auto read = [&](std::string_view name) {
    std::ifstream file(Path(name), std::ios::binary);
    return std::string(std::istreambuf_iterator<char>(file), {});
  };
  EXPECT_EQ(read("a.gguf"), read("b.gguf"));
}

TEST_F(GgufFileTest, CopiesKeysOfAnotherFile) {
  GgufWriter writer = SixTensors();
  writer.Set("flag", true);
  writer.SetArray("words", std::vector<std::string>{"a", "bc"});
  writer.SetArray<float>("floats", std::array{1.0f, 2.0f});
  ASSERT_TRUE(writer.Write(Path("a.gguf")));
  const auto a = GgufFile::Open(Path("a.gguf"));
  ASSERT_TRUE(a);
  GgufWriter copier;
  for (const GgufKey& key : (*a)->keys()) {
    copier.Copy(key);
  }
  ASSERT_TRUE(copier.Write(Path("b.gguf")));
  const auto b = GgufFile::Open(Path("b.gguf"));
  ASSERT_TRUE(b) << b.error().detail;
  ASSERT_EQ((*b)->keys().size(), (*a)->keys().size());
  for (size_t i = 0; i < (*a)->keys().size(); ++i) {
    const GgufKey& key = (*a)->keys()[i];
    const GgufKey& copy = (*b)->keys()[i];
    EXPECT_EQ(copy.name, key.name);
    EXPECT_EQ(copy.value.TypeText(), key.value.TypeText());
    EXPECT_TRUE(std::equal(copy.value.bytes.begin(), copy.value.bytes.end(),
                           key.value.bytes.begin(), key.value.bytes.end()));
  }
}

TEST_F(GgufFileTest, SaysWhyAFileCantBeWritten) {
  const Status written = SixTensors().Write(Path("no/such/folder.gguf"));
  ASSERT_FALSE(written);
  EXPECT_EQ(written.error().code, Code::kIoError);
  EXPECT_THAT(written.error().detail, HasSubstr("No such file or directory"));
  const Status full = SixTensors().Write("/dev/full");
  ASSERT_FALSE(full);
  EXPECT_THAT(full.error().detail, HasSubstr("No space left on device"));
}

TEST(SplitPath, IsReadAndWrittenInOneForm) {
  const auto path = ParseSplitPath("dir/model-Q4-00002-of-00012.gguf");
  ASSERT_TRUE(path);
  EXPECT_EQ(path->prefix, "dir/model-Q4");
  EXPECT_EQ(path->number, 2u);
  EXPECT_EQ(path->count, 12u);
  EXPECT_EQ(FormatSplitPath(*path), "dir/model-Q4-00002-of-00012.gguf");
  for (const char* other :
       {"model.gguf", "m-00002-of-00001.gguf", "m-00000-of-00001.gguf", "m-0001-of-0002.gguf",
        "m-00001-of-00002.bin", "00001-of-00002.gguf", "m-+0001-of-00002.gguf", ""}) {
    EXPECT_FALSE(ParseSplitPath(other)) << other;
  }
}

}  // namespace
}  // namespace fak::tensor
