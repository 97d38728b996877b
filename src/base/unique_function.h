#pragma once

#include <cstddef>
#include <memory>
#include <type_traits>
#include <utility>

namespace fak {

// An owned callable that can be moved and not copied, so that it may hold what can't be copied.
// One allocation when made; for callbacks and tasks, not for hot paths. (C++23's
// std::move_only_function, in short.)
template <class Signature>
class UniqueFunction;

template <class R, class... Args>
class UniqueFunction<R(Args...)> {
 public:
  UniqueFunction() = default;
  UniqueFunction(std::nullptr_t) {}  // NOLINT(google-explicit-constructor)
  template <class F>
    requires(!std::is_same_v<std::remove_cvref_t<F>, UniqueFunction> &&
             std::is_invocable_r_v<R, F&, Args...>)
  UniqueFunction(F&& callable)  // NOLINT(google-explicit-constructor)
      : holder_(std::make_unique<Holder<std::decay_t<F>>>(std::forward<F>(callable))) {}

  explicit operator bool() const { return holder_ != nullptr; }
  // Precondition: not empty.
  R operator()(Args... args) { return holder_->Call(std::forward<Args>(args)...); }

 private:
  struct Base {
    virtual ~Base() = default;
    virtual R Call(Args... args) = 0;
  };
  template <class F>
  struct Holder final : Base {
    template <class G>
    explicit Holder(G&& callable) : f(std::forward<G>(callable)) {}
    R Call(Args... args) override { return f(std::forward<Args>(args)...); }
    F f;
  };
  std::unique_ptr<Base> holder_;
};

}  // namespace fak
