#pragma once

#include <memory>
#include <type_traits>
#include <utility>

namespace fak {

// A borrowed callable: two pointers, no allocation, no ownership. For parameters only: the
// callable must outlive the call it is passed to. (C++26's std::function_ref, in short.)
template <class Signature>
class FunctionRef;

template <class R, class... Args>
class FunctionRef<R(Args...)> {
 public:
  template <class F>
    requires(!std::is_same_v<std::remove_cvref_t<F>, FunctionRef> &&
             std::is_invocable_r_v<R, F&, Args...>)
  FunctionRef(F&& callable)  // NOLINT(google-explicit-constructor): that is what it is for
      : object_(Address(callable)), call_(&Call<std::remove_reference_t<F>>) {}

  R operator()(Args... args) const { return call_(object_, std::forward<Args>(args)...); }

 private:
  // Either a data or a function pointer: the two can't portably share a void*.
  union Object {
    const void* data;
    void (*function)();
  };

  template <class F>
  static Object Address(F& callable) {
    Object object{};
    if constexpr (std::is_function_v<F>) {
      object.function = reinterpret_cast<void (*)()>(&callable);
    } else {
      object.data = std::addressof(callable);
    }
    return object;
  }

  template <class F>
  static R Call(Object object, Args... args) {
    if constexpr (std::is_function_v<F>) {
      return reinterpret_cast<F*>(object.function)(std::forward<Args>(args)...);
    } else {
      return (*static_cast<F*>(const_cast<void*>(object.data)))(std::forward<Args>(args)...);
    }
  }

  Object object_;
  R (*call_)(Object, Args...);
};

}  // namespace fak
