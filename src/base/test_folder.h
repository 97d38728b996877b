#pragma once

#include <stdlib.h>

#include <filesystem>
#include <string>
#include <string_view>
#include <system_error>

#include "base/result.h"

namespace fak {

// For tests only: a folder of its own, that goes with its owner.
class TestFolder {
 public:
  TestFolder() {
    CHECK(mkdtemp(path_.data()) != nullptr) << "no folder " << path_ << " could be made";
  }
  ~TestFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TestFolder(const TestFolder&) = delete;
  TestFolder& operator=(const TestFolder&) = delete;

  const std::string& path() const { return path_; }
  // Of what is in it.
  std::string Path(std::string_view name) const { return path_ + "/" + std::string(name); }

 private:
  std::string path_ = (std::filesystem::temp_directory_path() / "fak-test-XXXXXX").string();
};

}  // namespace fak
