#include <utility>

#include "ride/upstream_driver.h"
#include "ride/upstream_error.h"

// Putting an engine to sleep, and waking it.
namespace fak::ride {

void UpstreamDriver::SetAsleep(driver::SleepRequest request,
                               std::function<void(std::vector<driver::SleepOutcome>)> done) {
  if (!request.worker.empty() && request.worker != spec_.name) {
    done({});
    return;
  }
  const auto answer = [this, done](Result<std::string> call) {
    if (!call) {
      call = Fail(WithoutKey(std::move(call).error(), key()));
    }
    done({{spec_.name, std::move(call)}});
  };
  const std::shared_ptr<const Endpoint> known = endpoint();
  if (known == nullptr || draining_.load()) {
    answer(Fail(Code::kUnavailable, "what runs at upstream " + spec_.name + " isn't known"));
    return;
  }
  const Adapter& engine = *known->adapter;
  if (engine.put_to_sleep == nullptr) {
    answer(Fail(Code::kUnsupported,
                std::string(engine.engine) + " has no call that puts it to sleep"));
    return;
  }
  if (!known->Has(Signal::kSleep)) {
    answer(Fail(Code::kUnsupported, std::string(engine.engine) +
                                        " doesn't serve its calls for sleeping: vLLM does only "
                                        "when started with VLLM_SERVER_DEV_MODE=1"));
    return;
  }
  const Call call = request.wake ? engine.wake() : engine.put_to_sleep(request.level);
  loop_.Post([this, &engine, call, answer] {
    UpstreamTarget patient = target_;  // gigabytes move before it answers
    patient.call_ms = target_.timeouts.first_byte_ms;
    const std::string asked = call.method + " " + call.path;
    AskAt(patient, engine, {call}, [this, asked, answer](Result<Replies> replies) {
      if (!replies) {
        answer(Fail(replies.error()));
        return;
      }
      const Reply& reply = replies->At(asked);
      if (reply.status == 200) {
        CheckHealth();  // readiness follows at once
        answer(asked);
      } else {
        answer(Fail(reply.status == 0 ? Named({Code::kUnavailable, reply.body})
                                      : UpstreamError(reply.status, reply.body, key())));
      }
    });
  });
}

}  // namespace fak::ride
