// Checks one call under a fault: the status, the error, the out-parameters, and that the same call succeeds afterwards.
#include "faults/trial.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>

#include "faults/files.h"
#include "faults/verdict.h"

namespace safetensors::test::faults {
namespace {

const char* name_of(Kind kind) {
  switch (kind) {
    case Kind::allocation:
      return "allocation";
    case Kind::every_allocation:
      return "every allocation from";
    case Kind::system_call:
      return "system call";
    case Kind::short_system_call:
      return "short system call";
    case Kind::none:
      break;
  }
  return "no fault";
}

bool all_zero(const void* value, std::size_t size) {
  const auto* const bytes = static_cast<const unsigned char*>(value);
  return std::all_of(bytes, bytes + size, [](unsigned char byte) { return byte == 0; });
}

}  // namespace

Trial::Trial(std::string scenario, std::string directory, const Fault& fault)
    : scenario_(std::move(scenario)), directory_(std::move(directory)), fault_(fault) {
  choose(fault);
}

std::string Trial::describe() const {
  std::string text = scenario_ + ", " + name_of(fault_.kind) + " " + std::to_string(fault_.ordinal);
  if (happened() && (fault_.kind == Kind::system_call || fault_.kind == Kind::short_system_call)) {
    const Injected what = injected();
    text += " = " + what.name + "(" + what.path + ")" +
            (what.error_number != 0 ? " fails with " + std::string(std::strerror(what.error_number)) : " moves a part");
  }
  return text + ", in " + function_;
}

void Trial::fail(const std::string& text) const {
  ADD_FAILURE() << describe() << ": " << text;
}

void Trial::expect(bool holds, const char* text) {
  if (!holds) fail(std::string("not true: ") + text);
}

void Trial::prepare(const char* text, safetensors_status status) {
  function_ = text;
  if (status != SAFETENSORS_OK) fail(std::string("preparation gave ") + safetensors_status_name(status));
}

void Trial::enter(const char* function) {
  function_ = function;
  functions_.insert(function_.substr(0, function_.find(' ')));
}

void Trial::check_failure(safetensors_status status, const safetensors_error& error) {
  given_ = status;
  if (error.code != status) fail("the error says " + std::string(safetensors_status_name(error.code)));
  if (error.message[0] == '\0') fail("the error has no message");
  for (const Out& out : outs_)
    if (!all_zero(out.value, out.size)) fail("an out-parameter is neither NULL nor 0 after a failure");
  const Verdict verdict = judge(fault_, function_);
  if (std::ranges::find(verdict.codes, status) == verdict.codes.end())
    fail("gave " + std::string(safetensors_status_name(status)) + ": " + error.message);
  if (fault_.kind != Kind::system_call || status == SAFETENSORS_ERROR_OUT_OF_MEMORY || !verdict.tells_errno) return;
  const int number = injected().error_number;
  if (error.os_error != number)
    fail("os_error is " + std::to_string(error.os_error) + ", not " + std::to_string(number) + ": " + error.message);
}

safetensors_status Trial::once(const char* function, safetensors_status expected, const Call& call) {
  enter(function);
  safetensors_error error;
  std::memset(&error, 0x5a, sizeof error);
  const bool before = happened();
  safetensors_status status = SAFETENSORS_OK;
  {
    const Armed armed;
    status = call(&error);
  }
  // If a thread of a stream fails between two calls, the next call reports it.
  const bool late = function_ == "safetensors_stream_next";
  const bool now = happened() && (late || !before);
  if (status == expected) {
    if (error.code != status) fail("the error does not say what the call returned");
    if (now && !judge(fault_, function_).may_succeed) fail("succeeded in spite of the fault");
    return status;
  }
  if (!now)
    fail("gave " + std::string(safetensors_status_name(status)) + " without a fault: " + error.message);
  else
    check_failure(status, error);
  return status;
}

safetensors_status Trial::again(const char* function, safetensors_status expected, const Call& call) {
  safetensors_status status = once(function, expected, call);
  // Once more, without a fault: the handles are as they were.
  if (status != expected) status = once(function, expected, call);
  given_ = SAFETENSORS_OK;
  outs_.clear();
  return status;
}

const std::vector<Scenario>& scenarios() {
  static const std::vector<Scenario> all = [] {
    std::vector<Scenario> made;
    for (const auto* list : {&kPureScenarios, &kReadingScenarios, &kPlanScenarios, &kWritingScenarios})
      made.insert(made.end(), list->begin(), list->end());
    return made;
  }();
  return all;
}

void expect_bytes(Trial& run, const safetensors_array* array, std::size_t size) {
  safetensors_array_info info = SAFETENSORS_ARRAY_INFO_INIT;
  PREPARE(run, safetensors_array_get_info, array, &info);
  EXPECT_IN(run, info.nbytes == size && as_expected(info.data, size));
}

}  // namespace safetensors::test::faults
