#include "cli/pull.h"

#include "cli/progress.h"
#include "tensor/gguf.h"

namespace fak::cli {

Result<hub::Entry> FindOrPull(const std::string& reference, const std::atomic<bool>* maybe_cancel,
                              bool check) {
  hub::Store store(hub::CacheFolder());
  ProgressBar bar;
  hub::PullOptions options;
  options.on_progress = [&bar](const hub::Progress& progress) {
    bar.Show(progress.what, progress.done, progress.total);
  };
  options.on_note = [&bar](std::string_view note) { bar.Note(note); };
  options.maybe_cancel = maybe_cancel;
  options.check_what_is_here = check;
  options.check_file = [](const std::string& path) { return tensor::GgufFile::CheckPart(path); };
  TRY_ASSIGN(hub::Entry entry,
             store.Pull(reference.empty() ? hub::kDefaultModel : reference, options));
  bar.Finish();
  return entry;
}

}  // namespace fak::cli
