#include "hub/download.h"
#include "hub/fetch.h"

namespace fak::hub {

Result<Fetched> FetchUrl(const std::string& url, const std::string& folder,
                         const PullOptions& options) {
  TRY_ASSIGN(const std::unique_ptr<HttpSession> session, HttpSession::Make(options));
  TRY_ASSIGN(FetchedFile file,
             DownloadFile(*session, {.url = url}, folder + "/model", {}, options));
  return Fetched{{std::move(file)}};
}

}  // namespace fak::hub
