#include "net/timer_wheel.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "base/result.h"

namespace fak::net {
namespace {

size_t SlotOf(int64_t tick) {
  return static_cast<size_t>(tick) % TimerWheel::kSlots;
}

}  // namespace

void internal::TimerLink::InsertBefore(TimerLink& other) {
  previous = other.previous;
  next = &other;
  previous->next = this;
  other.previous = this;
}

void internal::TimerLink::Unlink() {
  previous->next = next;
  next->previous = previous;
  previous = next = this;
}

void Timer::ArmMs(int64_t delay_ms) {
  Disarm();
  const int64_t due_ns = wheel_.now_() + delay_ms * 1'000'000;
  wheel_.Insert(*this, (due_ns + TimerWheel::kTickNs - 1) / TimerWheel::kTickNs);
}

void Timer::Disarm() {
  if (armed()) {
    wheel_.Remove(*this);
  }
}

TimerWheel::TimerWheel(UniqueFunction<int64_t()> now, UniqueFunction<void()> on_sooner)
    : now_(std::move(now)), on_sooner_(std::move(on_sooner)), tick_(now_() / kTickNs) {}

TimerWheel::~TimerWheel() {
  DCHECK(armed_ == 0) << "a timer outlives its wheel";
}

void TimerWheel::Insert(Timer& timer, int64_t due_tick) {
  // What is due already fires with the next tick: nothing is called from inside ArmMs().
  timer.due_tick_ = due_tick <= tick_ ? tick_ + 1 : due_tick;
  const size_t slot = SlotOf(timer.due_tick_);
  timer.InsertBefore(slots_[slot]);
  occupied_[slot / 64] |= uint64_t{1} << (slot % 64);
  ++armed_;
  if (timer.due_tick_ < announced_tick_) {
    on_sooner_();
  }
}

void TimerWheel::Remove(Timer& timer) {
  timer.Unlink();
  --armed_;
  const size_t slot = SlotOf(timer.due_tick_);
  if (slots_[slot].empty()) {
    occupied_[slot / 64] &= ~(uint64_t{1} << (slot % 64));
  }
}

void TimerWheel::Advance() {
  const int64_t now_tick = now_() / kTickNs;
  // A clock that stood still for longer than a turn needs no more than a turn.
  int64_t tick = std::max(tick_, now_tick - static_cast<int64_t>(kSlots));
  internal::TimerLink due;
  while (tick < now_tick) {
    TakeDue(slots_[SlotOf(++tick)], now_tick, due);
  }
  tick_ = std::max(tick_, now_tick);
  // Whatever a callback arms is due later than now, so this ends; whatever it disarms leaves the
  // ring.
  while (!due.empty()) {
    Timer& timer = static_cast<Timer&>(*due.next);
    Remove(timer);
    timer.on_fire_();
  }
}

void TimerWheel::TakeDue(internal::TimerLink& slot, int64_t now_tick, internal::TimerLink& due) {
  internal::TimerLink* link = slot.next;
  while (link != &slot) {
    internal::TimerLink* const next = link->next;
    if (static_cast<Timer*>(link)->due_tick_ <= now_tick) {
      link->Unlink();
      link->InsertBefore(due);
    }
    link = next;
  }
}

int64_t TimerWheel::NextDueNs() {
  announced_tick_ = INT64_MAX;
  if (armed_ == 0) {
    return INT64_MAX;
  }
  for (size_t ahead = 1; ahead <= kSlots;) {
    const size_t slot = SlotOf(tick_ + static_cast<int64_t>(ahead));
    const uint64_t word = occupied_[slot / 64] >> (slot % 64);
    if (word != 0) {
      announced_tick_ = tick_ + static_cast<int64_t>(ahead) + std::countr_zero(word);
      break;
    }
    ahead += 64 - slot % 64;
  }
  return announced_tick_ == INT64_MAX ? INT64_MAX : announced_tick_ * kTickNs;
}

}  // namespace fak::net
