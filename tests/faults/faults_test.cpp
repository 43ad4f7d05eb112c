// Fails every allocation and every system call of every function of the C interface in turn, one in each run of a
// scenario. Afterwards, the files are unchanged or as the function documents, and nothing is left: no other file, no
// memory, no mapping, no descriptor, no thread.
#include <gtest/gtest.h>
#include <safetensors/c.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <set>
#include <thread>

#include "faults/files.h"
#include "faults/trial.h"
#include "support/allocation_counter.h"
#include "support/io_support.h"

namespace safetensors::test::faults {
namespace {

constexpr std::uint64_t kTooMany = 5000;  // faults in one scenario: it would never end

std::size_t entries(const char* of_process) {
  const std::filesystem::directory_iterator all(of_process);
  return static_cast<std::size_t>(std::distance(begin(all), end(all)));
}

// The resources that a run must give back.
struct Held {
  std::size_t descriptors = 0;
  std::size_t bytes = 0;
  std::int64_t mapped = 0;

  static Held now() {
    // Asked first: the directory that is being listed is open and allocated then.
    const std::size_t descriptors = entries("/proc/self/fd");
    return {.descriptors = descriptors, .bytes = allocations::live, .mapped = mapped_bytes()};
  }
  bool operator==(const Held&) const = default;
};

// A thread that was joined stays in the list for a moment.
bool threads_return_to(std::size_t count) {
  for (int i = 0; i < 2000; ++i) {
    if (entries("/proc/self/task") <= count) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return false;
}

class FaultMatrix : public testing::TestWithParam<Scenario> {
 protected:
  FaultMatrix() {
    text_.reserve(4096);
    make_files(directory_.path());
    if (!scenario().writes) return;
    std::filesystem::copy_file(directory_ / kSmall, target());
    old_ = contents(target());
    old_entries_ = names_in_out();
  }

  [[nodiscard]] const Scenario& scenario() const { return GetParam(); }
  [[nodiscard]] std::string target() const { return directory_ / scenario().writes; }

  // Checks that a run gives back the resources that it took. If it holds more, runs again: things that are made once
  // and kept, such as the C library's caches, are not made again.
  bool check(const Fault& fault) {
    const bool hit = run_with(fault);
    if (held_more_) run_with(fault);
    EXPECT_FALSE(held_more_) << "memory, a mapping or a descriptor is left, " << text_;
    return hit;
  }

  // One run, and whether the fault happened in it.
  bool run_with(const Fault& fault) {
    const std::size_t threads = entries("/proc/self/task");
    const Held before = Held::now();
    bool hit = false;
    {
      Trial run(scenario().name, directory_.path(), fault);
      scenario().body(run);
      hit = happened();
      happened_ = hit && fault.kind == Kind::system_call;
      choose({});
      if (scenario().writes) check_target(run);
      const std::string described = run.describe();
      text_ = std::string_view(described);  // in the memory that it has
    }
    held_more_ = !(Held::now() == before);
    EXPECT_TRUE(threads_return_to(threads)) << "threads, " << text_;
    return hit;
  }

  void settle() {
    run_with({});
    new_ = scenario().writes ? contents(target()) : "";
    new_entries_ = scenario().writes ? names_in_out() : std::set<std::string>();
    restore();
  }

  void fail_each(Kind kind) {
    settle();
    std::uint64_t ordinal = 0;
    for (bool hit = true; hit && ordinal < kTooMany && !HasFailure(); ++ordinal) {
      hit = check({.kind = kind, .ordinal = ordinal});
      const std::size_t variants = hit && kind == Kind::system_call ? injected().variants : 1;
      for (std::size_t variant = 1; variant < variants; ++variant)
        check({.kind = kind, .ordinal = ordinal, .variant = variant});
    }
    EXPECT_LT(ordinal, kTooMany);
    faults_ = ordinal - 1;
  }

  void restore() {
    for (const std::string& name : names_in_out())
      if (!old_entries_.contains(name)) std::filesystem::remove_all(directory_ / ("out/" + name));
    if (scenario().writes && contents(target()) != old_) put(target(), old_);
  }

  const TemporaryDirectory directory_;
  std::string old_;
  std::string new_;
  std::set<std::string> old_entries_;
  std::set<std::string> new_entries_;
  std::uint64_t faults_ = 0;
  bool held_more_ = false;  // after the last run than before it
  bool happened_ = false;   // a system call failed in the last run
  std::string text_;

 private:
  [[nodiscard]] std::set<std::string> names_in_out() const {
    std::set<std::string> names;
    const std::filesystem::path out = directory_ / "out";
    for (const auto& entry : std::filesystem::recursive_directory_iterator(out))
      names.insert(entry.path().lexically_relative(out));
    return names;
  }
  void check_target(const Trial& run) {
    if (new_.empty()) return;  // the first run says what the new bytes are
    const std::string failed = happened_ ? injected().name : "";
    const std::string found = contents(target());
    const std::set<std::string> names = names_in_out();
    if (std::ranges::find(scenario().either_after, failed) != scenario().either_after.end()) {
      EXPECT_TRUE(found == new_ || found == old_) << run.describe();
      // Some of several new files may be there.
      EXPECT_TRUE(std::ranges::includes(new_entries_, names)) << run.describe();
      EXPECT_TRUE(std::ranges::includes(names, old_entries_)) << run.describe();
    } else {
      const bool replaced = run.given() == SAFETENSORS_OK || run.given() == SAFETENSORS_ERROR_REPLACED_NOT_DURABLE;
      EXPECT_TRUE(found == (replaced ? new_ : old_)) << "the target's bytes, " << run.describe();
      // Only a temporary that the system did not let us remove may stay.
      EXPECT_TRUE(names == (replaced ? new_entries_ : old_entries_) || failed == "unlinkat")
          << run.describe() << ", " << failed << ": " << testing::PrintToString(names);
    }
    restore();
  }
};

TEST_P(FaultMatrix, SurvivesEachFailedAllocation) {
  fail_each(Kind::allocation);
  EXPECT_EQ(faults_ > 0, scenario().allocates);
  RecordProperty("faults", static_cast<int>(faults_));
}

TEST_P(FaultMatrix, SurvivesEndOfMemory) {
  fail_each(Kind::every_allocation);
  EXPECT_EQ(faults_ > 0, scenario().allocates);
}

TEST_P(FaultMatrix, SurvivesEachFailedSystemCall) {
  if (!scenario().asks_system) GTEST_SKIP() << "makes no system calls";
  const std::string refused = run_supervised([&] { fail_each(Kind::system_call); });
  if (!refused.empty()) GTEST_SKIP() << refused;
  EXPECT_GT(faults_, 0U);
  RecordProperty("faults", static_cast<int>(faults_));
}

TEST_P(FaultMatrix, SurvivesEachShortTransfer) {
  if (!scenario().asks_system) GTEST_SKIP() << "makes no system calls";
  const std::string refused = run_supervised([&] { fail_each(Kind::short_system_call); });
  if (!refused.empty()) GTEST_SKIP() << refused;
}

INSTANTIATE_TEST_SUITE_P(Scenarios, FaultMatrix, testing::ValuesIn(scenarios()),
                         [](const auto& made) { return std::string(made.param.name); });

// A function that is exported and in no scenario would never see a fault.
TEST(FaultCoverage, IncludesEveryExportedFunction) {
  const TemporaryDirectory directory;
  make_files(directory.path());
  std::filesystem::copy_file(directory / kSmall, directory / "out/target.safetensors");
  std::set<std::string> called;
  for (const Scenario& scenario : scenarios()) {
    Trial run(scenario.name, directory.path(), {});
    scenario.body(run);
    called.insert(run.functions().begin(), run.functions().end());
  }
  std::ifstream exported(SAFETENSORS_EXPORTED_SYMBOLS);
  ASSERT_TRUE(exported);
  std::size_t count = 0;
  for (std::string name; exported >> name; ++count) EXPECT_TRUE(called.contains(name)) << name;
  EXPECT_GT(count, 40U);
}

}  // namespace
}  // namespace safetensors::test::faults
