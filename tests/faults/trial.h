// One run of a scenario: calls functions of the C interface while a fault is armed, and checks each against its
// contract.
//
//   TRY(run, safetensors_model_open, path, nullptr, run.out(model));
//
// A call that the fault makes fail must set its error and every out-parameter as documented. Then it is made again
// without a fault and must succeed, so a scenario goes on as if nothing had happened.
#pragma once

#include <safetensors/c.h>

#include <cstring>
#include <functional>
#include <set>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <vector>

#include "faults/injection.h"

namespace safetensors::test::faults {

class Trial {
 public:
  Trial(std::string scenario, std::string directory, const Fault& fault);

  // Makes the call with the fault armed. The last argument stands for the error, which is the trial's. expected: the
  // status without a fault.
  template <class... P>
  safetensors_status attempt(const char* name, safetensors_status expected, safetensors_status (*function)(P...),
                             std::type_identity_t<P>... arguments) {
    return again(name, expected, with_error(function, arguments...));
  }
  // The same for a call that changes things for good: it is not made again.
  template <class... P>
  safetensors_status attempt_once(const char* name, safetensors_status (*function)(P...),
                                  std::type_identity_t<P>... arguments) {
    const safetensors_status status = once(name, SAFETENSORS_OK, with_error(function, arguments...));
    outs_.clear();
    return status;
  }
  // A function that cannot fail.
  template <class R, class... P>
  void attempt_void(const char* name, R (*function)(P...), std::type_identity_t<P>... arguments) {
    enter(name);
    const Armed armed;
    (void)function(arguments...);
  }
  // A call of another function's test: no fault is armed, and it must succeed.
  void prepare(const char* text, safetensors_status status);
  void expect(bool holds, const char* text);

  // Remembers an out-parameter of the next call. It holds garbage until the call sets it.
  template <class T>
  T* out(T& value) {
    if constexpr (std::is_pointer_v<T>)
      value = reinterpret_cast<T>(static_cast<std::uintptr_t>(0x5a5a5a5a5a5a5a5a));  // NOLINT
    else
      std::memset(&value, 0x5a, sizeof value);
    outs_.push_back({&value, sizeof value});
    return &value;
  }

  [[nodiscard]] std::string path(std::string_view name) const { return directory_ + "/" + std::string(name); }
  [[nodiscard]] const std::string& directory() const { return directory_; }
  [[nodiscard]] const Fault& fault() const { return fault_; }
  [[nodiscard]] const std::set<std::string>& functions() const { return functions_; }
  // Describes the failure, for messages.
  [[nodiscard]] std::string describe() const;
  // The status that the fault gave a call; OK if it was overcome.
  [[nodiscard]] safetensors_status given() const { return given_; }

 private:
  struct Out {
    const void* value;
    std::size_t size;
  };
  using Call = std::function<safetensors_status(safetensors_error*)>;
  template <class... P>
  static Call with_error(safetensors_status (*function)(P...), std::type_identity_t<P>... arguments) {
    return [function, all = std::tuple<P...>(arguments...)](safetensors_error* error) {
      std::tuple<P...> given = all;
      std::get<sizeof...(P) - 1>(given) = error;
      return std::apply(function, given);
    };
  }
  void enter(const char* function);
  safetensors_status once(const char* function, safetensors_status expected, const Call& call);
  safetensors_status again(const char* function, safetensors_status expected, const Call& call);
  void check_failure(safetensors_status status, const safetensors_error& error);
  void fail(const std::string& text) const;

  const std::string scenario_;
  const std::string directory_;
  const Fault fault_;
  std::string function_;
  std::vector<Out> outs_;
  std::set<std::string> functions_;
  safetensors_status given_ = SAFETENSORS_OK;
};

// A scenario: what it is called, what it does, and what its calls need.
struct Scenario {
  const char* name;
  void (*body)(Trial& run);
  bool asks_system = true;       // makes system calls of its own
  bool allocates = true;         // needs memory
  const char* writes = nullptr;  // the file that it replaces, in its directory
  // After one of these system calls has failed, the file may be the old or the new one, and of several new files some
  // may be there.
  std::vector<std::string_view> either_after = {};
};
[[nodiscard]] const std::vector<Scenario>& scenarios();

// Lists of one file each.
extern const std::vector<Scenario> kPureScenarios;
extern const std::vector<Scenario> kReadingScenarios;
extern const std::vector<Scenario> kPlanScenarios;
extern const std::vector<Scenario> kWritingScenarios;

// Expects an array of `size` bytes that are those of as_expected().
void expect_bytes(Trial& run, const safetensors_array* array, std::size_t size);

}  // namespace safetensors::test::faults

#define TRY(run, function, ...) (run).attempt(#function, SAFETENSORS_OK, function, __VA_ARGS__, nullptr)
#define TRY_FAILS(run, code, function, ...) \
  (run).attempt(#function, SAFETENSORS_ERROR_##code, function, __VA_ARGS__, nullptr)
#define TRY_ONCE(run, function, ...) (run).attempt_once(#function, function, __VA_ARGS__, nullptr)
// A call that opens or writes a folder instead of a file.
#define TRY_MODEL(run, function, ...) \
  (run).attempt(#function " of a model", SAFETENSORS_OK, function, __VA_ARGS__, nullptr)
#define TRY_MODEL_ONCE(run, function, ...) (run).attempt_once(#function " of a model", function, __VA_ARGS__, nullptr)
#define TRY_VOID(run, function, ...) (run).attempt_void(#function, function __VA_OPT__(, ) __VA_ARGS__)
#define PREPARE(run, function, ...) (run).prepare(#function, function(__VA_ARGS__, nullptr))
#define EXPECT_IN(run, condition) (run).expect(condition, #condition)
