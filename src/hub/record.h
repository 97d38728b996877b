#pragma once

#include <optional>
#include <string>

#include "hub/store.h"

namespace fak::hub {

// The record beside a pulled model, <its first file>.json. Pure function.
std::string RecordOf(const Entry& entry);
// nullopt when a file of it isn't there. Of what is no record: the model that it lies beside, with
// record_damaged.
std::optional<Entry> ReadRecord(const std::string& path);

}  // namespace fak::hub
