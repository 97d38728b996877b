#pragma once

#include <memory>
#include <string>

#include "base/result.h"
#include "tensor/backend.h"

namespace CLI {
class App;
}  // namespace CLI

namespace fak::cli {

// --device: auto, cpu, cuda or cuda:N.
void AddDevice(CLI::App& verb, std::string& device);

// The GPU that --device means; null: the CPU. `auto` means a GPU when the library for it is there
// and a device answers, unless `cpu_asked` (a flag that only a CPU obeys was given). Says on stderr
// what was chosen and why, unless that is the CPU of a program without the library.
[[nodiscard]] Result<std::unique_ptr<tensor::Backend>> OpenGpu(const std::string& device,
                                                               bool cpu_asked);

}  // namespace fak::cli
