#include "base/control_group.h"

#include <gtest/gtest.h>

#include <map>

namespace fak {
namespace {

using Files = std::map<std::string, std::string>;

constexpr char kV2Mount[] =
    "24 1 8:1 / / rw - ext4 /dev/sda1 rw\n"
    "30 24 0:26 / /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw,nsdelegate\n";
constexpr char kV1Mounts[] =
    "31 24 0:27 / /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory\n"
    "32 24 0:28 / /sys/fs/cgroup/cpu,cpuacct ro - cgroup cgroup rw,cpu,cpuacct\n";

GroupLimits LimitsOf(const std::string& mounts, const std::string& groups, Files files) {
  files["/proc/self/mountinfo"] = mounts;
  files["/proc/self/cgroup"] = groups;
  return GroupLimitsFrom([&files](const std::string& path) {
    const auto at = files.find(path);
    return at == files.end() ? std::string() : at->second;
  });
}

TEST(GroupLimits, AreNoneWithoutGroupsOrWithMax) {
  EXPECT_EQ(LimitsOf("", "", {}), GroupLimits());
  EXPECT_EQ(LimitsOf(kV2Mount, "", {}), GroupLimits());
  EXPECT_EQ(LimitsOf("nothing to read", "0::\nx\n", {}), GroupLimits());
  EXPECT_EQ(LimitsOf(kV2Mount, "0::/\n",
                     {{"/sys/fs/cgroup/memory.max", "max\n"},
                      {"/sys/fs/cgroup/memory.current", "5\n"},
                      {"/sys/fs/cgroup/cpu.max", "max 100000\n"}}),
            GroupLimits());
  EXPECT_EQ(LimitsOf(kV1Mounts, "4:cpu,cpuacct:/\n",
                     {{"/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "-1\n"},
                      {"/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us", "100000\n"}}),
            GroupLimits());
}

TEST(GroupLimits, OfANestedGroupAreTheLeastOfItAndThoseAbove) {
  const std::string top = "/sys/fs/cgroup/";
  const Files files = {{top + "a.slice/memory.max", "1000\n"},
                       {top + "a.slice/memory.current", "950\n"},
                       {top + "a.slice/memory.stat", "anon 7\ninactive_file 20\nactive_file 9\n"},
                       {top + "a.slice/cpu.max", "800000 100000\n"},
                       {top + "a.slice/b.service/memory.max", "700\n"},
                       {top + "a.slice/b.service/memory.current", "100\n"},
                       {top + "a.slice/b.service/cpu.max", "150000 100000\n"},
                       {top + "other/memory.max", "1\n"}};
  // The group's own limit is the strictest, but what is left is the upper one's.
  EXPECT_EQ(LimitsOf(kV2Mount, "0::/a.slice/b.service\n", files), (GroupLimits{700, 70, 2}));
  EXPECT_EQ(LimitsOf(kV2Mount, "0::/a.slice\n", files), (GroupLimits{1000, 70, 8}));
  EXPECT_EQ(LimitsOf(kV2Mount, "0::/\n", files), GroupLimits());
}

TEST(GroupLimits, OfVersion1AreReadByController) {
  const std::string memory = "/sys/fs/cgroup/memory/";
  const std::string cpu = "/sys/fs/cgroup/cpu,cpuacct/";
  const Files files = {{memory + "m/memory.limit_in_bytes", "500\n"},
                       {memory + "m/memory.usage_in_bytes", "600\n"},
                       {memory + "m/memory.stat", "total_inactive_file 300\ninactive_file 1\n"},
                       {memory + "memory.limit_in_bytes", "9223372036854771712\n"},
                       {memory + "c/memory.limit_in_bytes", "3\n"},
                       {cpu + "c/cpu.cfs_quota_us", "50000\n"},
                       {cpu + "c/cpu.cfs_period_us", "100000\n"},
                       {cpu + "m/cpu.cfs_quota_us", "100\n"}};
  EXPECT_EQ(LimitsOf(kV1Mounts, "5:memory:/m\n4:cpu,cpuacct:/c\n", files),
            (GroupLimits{500, 200, 1}));
  // More used than allowed leaves nothing.
  EXPECT_EQ(LimitsOf(kV1Mounts, "5:memory:/m\n",
                     {{memory + "m/memory.limit_in_bytes", "500"},
                      {memory + "m/memory.usage_in_bytes", "600"}}),
            (GroupLimits{500, 0, 0}));
}

TEST(GroupLimits, OfAContainerAreThoseOfWhatIsMounted) {
  const std::string mount =
      "33 24 0:27 /docker/abc /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory\n";
  const std::string folder = "/sys/fs/cgroup/memory/";
  const Files files = {{folder + "memory.limit_in_bytes", "400"},
                       {folder + "in/memory.limit_in_bytes", "300"}};
  EXPECT_EQ(LimitsOf(mount, "5:memory:/docker/abc\n", files), (GroupLimits{400, 400, 0}));
  EXPECT_EQ(LimitsOf(mount, "5:memory:/docker/abc/in\n", files), (GroupLimits{300, 300, 0}));
  EXPECT_EQ(LimitsOf(mount, "5:memory:/docker/abcd/in\n", files), (GroupLimits{400, 400, 0}));
  EXPECT_EQ(LimitsOf(mount, "5:memory:/../in\n", files), (GroupLimits{400, 400, 0}));
}

}  // namespace
}  // namespace fak
