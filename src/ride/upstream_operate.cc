#include <utility>

#include "ride/json_reads.h"
#include "ride/upstream_driver.h"
#include "ride/upstream_error.h"

// What an operator tells an engine to do: to sleep and to wake, and its slots.
namespace fak::ride {

void UpstreamDriver::Operate(const std::function<Result<Call>(const Endpoint&)>& make,
                             std::function<void(Result<Operated>)> done) {
  const auto answer = [this, done = std::move(done)](Result<Operated> did) {
    if (!did) {
      did = Fail(WithoutKey(std::move(did).error(), key()));
    }
    done(std::move(did));
  };
  const std::shared_ptr<const Endpoint> known = endpoint();
  if (known == nullptr || draining_.load()) {
    answer(Fail(Code::kUnavailable, "what runs at upstream " + spec_.name + " isn't known"));
    return;
  }
  Result<Call> call = make(*known);
  if (!call) {
    answer(Fail(std::move(call).error()));
    return;
  }
  loop_.Post([this, known, call = *std::move(call), answer] {
    UpstreamTarget patient = target_;  // gigabytes move before it answers
    patient.call_ms = target_.timeouts.first_byte_ms;
    const std::string asked = call.method + " " + call.path;
    AskAt(patient, *known->adapter, {call}, [this, asked, answer](Result<Replies> replies) {
      if (!replies) {
        answer(Fail(replies.error()));
        return;
      }
      const Reply& reply = replies->At(asked);
      if (reply.status == 200) {
        CheckHealth();  // readiness follows at once
        answer(Operated{asked, reply});
      } else {
        answer(Fail(reply.status == 0 ? Named({Code::kUnavailable, reply.body})
                                      : UpstreamError(reply.status, reply.body, key())));
      }
    });
  });
}

void UpstreamDriver::SetAsleep(driver::SleepRequest request,
                               std::function<void(std::vector<driver::SleepOutcome>)> done) {
  if (!request.worker.empty() && request.worker != spec_.name) {
    done({});
    return;
  }
  const auto make = [&request](const Endpoint& known) -> Result<Call> {
    const Adapter& engine = *known.adapter;
    if (engine.put_to_sleep == nullptr) {
      return Fail(Code::kUnsupported,
                  std::string(engine.engine) + " has no call that puts it to sleep");
    }
    if (!known.Has(Signal::kSleep)) {
      return Fail(Code::kUnsupported, std::string(engine.engine) +
                                          " doesn't serve its calls for sleeping: vLLM does only "
                                          "when started with VLLM_SERVER_DEV_MODE=1");
    }
    return request.wake ? engine.wake() : engine.put_to_sleep(request.level);
  };
  Operate(make, [this, done = std::move(done)](Result<Operated> did) {
    done({{spec_.name, did ? Result<std::string>(std::move(did->call))
                           : Result<std::string>(Fail(std::move(did).error()))}});
  });
}

void UpstreamDriver::ActOnSlot(driver::SlotRequest request,
                               std::function<void(std::vector<driver::SlotOutcome>)> done) {
  if (!request.worker.empty() && request.worker != spec_.name) {
    done({});
    return;
  }
  const auto make = [&request](const Endpoint& known) -> Result<Call> {
    const Adapter& engine = *known.adapter;
    if (engine.act_on_slot == nullptr) {
      return Fail(Code::kUnsupported,
                  std::string(engine.engine) + " has no slots that can be saved or restored");
    }
    return engine.act_on_slot(known, request);
  };
  const auto report = [this](const Operated& did) {
    driver::SlotReport out{.call = did.call, .tokens = {}};
    for (const std::string_view name : adapter()->slot_counts) {
      if (const int32_t count = CountAt(did.reply.document, name, -1); count >= 0) {
        out.tokens = static_cast<uint64_t>(count);
      }
    }
    return out;
  };
  Operate(make, [this, report, done = std::move(done)](Result<Operated> did) {
    done({{spec_.name, did ? Result<driver::SlotReport>(report(*did))
                           : Result<driver::SlotReport>(Fail(std::move(did).error()))}});
  });
}

}  // namespace fak::ride
