#include "metrics/mirror.h"

#include <utility>

namespace fak::metrics {

void Mirror::Show(std::vector<MirrorValue> values, int64_t fresh_until_ns) {
  const std::lock_guard lock(mutex_);
  known_ = true;
  fresh_until_ns_ = fresh_until_ns;
  values_ = std::move(values);
}

void Mirror::Down() {
  const std::lock_guard lock(mutex_);
  known_ = true;
  fresh_until_ns_ = 0;
}

void Mirror::Clear() {
  const std::lock_guard lock(mutex_);
  known_ = false;
  values_.clear();
}

Mirror::Shown Mirror::At(int64_t now_ns) const {
  const std::lock_guard lock(mutex_);
  Shown shown{known_, known_ && now_ns < fresh_until_ns_, {}};
  for (const MirrorValue& value : values_) {
    if (shown.up || InfoOf(value.row).type != RowType::kGauge) {
      shown.values.push_back(value);
    }
  }
  return shown;
}

}  // namespace fak::metrics
