#include "tensor/cuda_backend.h"

#include <dlfcn.h>

#include <cstdlib>
#include <filesystem>
#include <string>
#include <system_error>
#include <utility>

#include "tensor/cuda/entry.h"

namespace fak::tensor {
namespace {

namespace fs = std::filesystem;

Result<std::string> FindLibrary() {
  if (const char* named = std::getenv("FAK_CUDA_LIBRARY"); named != nullptr && *named != '\0') {
    return std::string(named);
  }
  std::error_code failed;
  const fs::path program = fs::read_symlink("/proc/self/exe", failed);
  const fs::path library = program.parent_path() / "libfak_cuda.so";
  if (failed || !fs::exists(library, failed)) {
    return Fail(Code::kNotFound,
                "no libfak_cuda.so beside the program (make build CUDA=1 makes one)");
  }
  return library.string();
}

}  // namespace

Result<std::unique_ptr<Backend>> LoadCudaBackend(int device) {
  TRY_ASSIGN(const std::string path, FindLibrary());
  void* const library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    const char* const why = dlerror();
    return Fail(Code::kNotFound, why == nullptr ? path + ": can't be loaded" : std::string(why));
  }
  const auto open = reinterpret_cast<cuda::OpenFunction*>(dlsym(library, cuda::kOpenSymbol));
  Result<std::unique_ptr<Backend>> opened;
  if (open == nullptr || !open(FAK_CUDA_ABI, device, &opened)) {
    return Fail(Code::kUnsupported, path + ": belongs to another build of fak");
  }
  return opened;
}

}  // namespace fak::tensor
