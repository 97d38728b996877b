#include "base/hot_lines.h"

#include <gtest/gtest.h>

#include <array>
#include <memory>

namespace fak {
namespace {

struct alignas(64) Room {
  std::array<char, 64 * 200> bytes;
};

TEST(HotLines, HasEveryLineThatAPieceTouches) {
  static Room room;
  HotLines hot;
  hot.Add(room.bytes.data() + 63, 2);
  EXPECT_EQ(hot.lines(), 2u);
  hot.Add(room.bytes.data() + 64, 64);
  EXPECT_EQ(hot.lines(), 3u);
  hot.Add(room.bytes.data() + 192, 0);
  EXPECT_EQ(hot.lines(), 3u);
  hot.AddBuffer({room.bytes.data() + 192, 129});
  EXPECT_EQ(hot.lines(), 6u);
  hot.AddBuffer({room.bytes.data(), 4096});
  EXPECT_EQ(hot.lines(), 14u);
  hot.Clear();
  EXPECT_EQ(hot.lines(), 0u);
}

TEST(HotLines, LeavesOutWhatIsTooMuch) {
  static Room room;
  HotLines hot;
  hot.AddObject(room);
  EXPECT_EQ(hot.lines(), HotLines::kLinesMax);
  hot.Add(room.bytes.data(), 1);
  EXPECT_EQ(hot.lines(), HotLines::kLinesMax);
  hot.Prefetch();
  hot.Clear();
  for (size_t i = 0; i < HotLines::kSpansMax + 1; ++i) {
    hot.Add(room.bytes.data(), 1);
  }
  EXPECT_EQ(hot.lines(), HotLines::kSpansMax);
  hot.Prefetch();
}

TEST(HotLines, MayPointAtWhatIsGone) {
  HotLines hot;
  hot.Add(nullptr, 64);
  {
    const auto gone = std::make_unique<Room>();
    hot.AddObject(*gone);
  }
  EXPECT_EQ(hot.lines(), HotLines::kLinesMax);
  hot.Prefetch();
}

}  // namespace
}  // namespace fak
