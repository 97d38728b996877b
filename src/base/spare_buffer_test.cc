#include "base/spare_buffer.h"

#include <gtest/gtest.h>

#include <array>
#include <thread>

namespace fak {
namespace {

// Each test on a thread of its own, which has no spares yet.
template <class Test>
void OnThread(Test test) {
  std::thread(test).join();
}

TEST(SpareBuffer, GoesRound) {
  OnThread([] {
    std::string first(100, 'x');
    const char* const memory = first.data();
    GiveSpare(first);
    EXPECT_EQ(first, "");
    std::string second = "begun";
    TakeSpare(second);
    EXPECT_EQ(second, "begun");
    second += std::string(90, 'y');
    EXPECT_EQ(second.data(), memory);
    std::string third;
    TakeSpare(third);
    EXPECT_NE(third.data(), memory) << "there was one";
  });
}

TEST(SpareBuffer, LeavesMemoryThatABufferHas) {
  OnThread([] {
    std::string spare(100, 'x');
    GiveSpare(spare);
    std::string own(50, 'o');
    const char* const memory = own.data();
    TakeSpare(own);
    EXPECT_EQ(own.data(), memory);
    EXPECT_EQ(own, std::string(50, 'o'));
  });
}

TEST(SpareBuffer, KeepsFewAndNoneThatIsLarge) {
  OnThread([] {
    std::string large(kSpareBytesMax + 1, 'x');
    GiveSpare(large);
    EXPECT_LT(large.capacity(), 100u);
    std::array<std::string, kSpareBuffersMax + 2> many;
    for (std::string& each : many) {
      each.assign(100, 'x');
      GiveSpare(each);
    }
    size_t got = 0;
    for (std::string& each : many) {
      TakeSpare(each);
      got += each.capacity() >= 100 ? 1 : 0;
    }
    EXPECT_EQ(got, kSpareBuffersMax);
  });
}

}  // namespace
}  // namespace fak
