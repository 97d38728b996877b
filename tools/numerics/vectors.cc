// Runs the scalar specification over the test vectors and prints a digest a rule.
// usage: vectors [GOLDEN FILE]
#include <cstdint>
#include <vector>

#include "cases.h"
#include "golden.h"

namespace fak::vectors {
namespace {

struct RunHere {
  std::vector<Digest> digests;

  template <class Case>
  void Do() {
    uint64_t digest = 0;
    for (int item = 0; item < Case::kItems; ++item) {
      Sink out(static_cast<uint64_t>(item));
      Case::Run(item, out);
      digest += out.sum();
    }
    digests.push_back({NameOf<Case>(), Case::kItems, digest});
  }
};

}  // namespace
}  // namespace fak::vectors

int main(int argc, char** argv) {
  fak::vectors::RunHere here;
  fak::vectors::VisitAll(here);
  return fak::vectors::Report(here.digests, argc > 1 ? argv[1] : nullptr);
}
