#include "cli/device.h"

#include <CLI/CLI.hpp>

#include <cstdio>
#include <optional>
#include <string_view>
#include <utility>

#include "base/printable.h"
#include "base/strings.h"
#include "tensor/cuda_backend.h"

namespace fak::cli {
namespace {

// The number of a GPU: "cuda", "cuda:1". Nothing for other words.
std::optional<int> GpuOf(std::string_view device) {
  if (device == "cuda") {
    return 0;
  }
  constexpr std::string_view kPrefix = "cuda:";
  if (!device.starts_with(kPrefix)) {
    return std::nullopt;
  }
  const auto number = ParseUint(device.substr(kPrefix.size()));
  constexpr uint64_t kMost = 63;
  return number && *number <= kMost ? std::optional(static_cast<int>(*number)) : std::nullopt;
}

void Say(const std::string& line) {
  std::fprintf(stderr, "fak: %s\n", Printable(line).c_str());
}

}  // namespace

void AddDevice(CLI::App& verb, std::string& device) {
  verb.add_option("--device", device, "auto, cpu, cuda or cuda:N; auto: a GPU where one answers")
      ->check([](const std::string& value) {
        return value == "auto" || value == "cpu" || GpuOf(value)
                   ? std::string()
                   : "must be auto, cpu, cuda or cuda:N, not " + value;
      })
      ->capture_default_str();
}

Result<std::unique_ptr<tensor::Backend>> OpenGpu(const std::string& device, bool cpu_asked) {
  const bool is_auto = device == "auto";
  if (device == "cpu" || (is_auto && cpu_asked)) {
    return nullptr;
  }
  auto backend = tensor::LoadCudaBackend(GpuOf(device).value_or(0));
  if (backend) {
    const tensor::BackendInfo info = (*backend)->info();
    Say("device " + info.name + " (" + info.isa + "), " +
        (is_auto ? "as it answers; --device cpu takes the CPU" : "as asked for"));
    return backend;
  }
  if (!is_auto) {
    backend.error().field = "--device";
    backend.error().detail = "--device " + device + ": " + backend.error().detail;
    return backend;
  }
  if (backend.error().code != Code::kNotFound) {
    Say("device cpu: " + backend.error().detail);
  }
  return nullptr;
}

}  // namespace fak::cli
