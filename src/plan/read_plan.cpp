// Collects the items of a ReadPlan, and executes it: places the results, then lets an Execution read them.
#include <safetensors/read_plan.h>

#include <chrono>
#include <utility>

#include "base/checked.h"
#include "base/error.h"
#include "plan/destinations.h"
#include "plan/execution.h"
#include "plan/execution_state.h"
#include "plan/item.h"
#include "plan/memory.h"
#include "plan/names.h"
#include "plan/read_plan.h"

namespace safetensors {
inline namespace v0 {

ReadPlan::ReadPlan() noexcept = default;
ReadPlan::ReadPlan(ReadPlan&&) noexcept = default;
ReadPlan& ReadPlan::operator=(ReadPlan&&) noexcept = default;
ReadPlan::~ReadPlan() = default;

Status ReadPlan::add(const Tensor& tensor, const Destination& destination, const AddOptions& options) noexcept {
  return base::guarded([&]() -> Status { return State::add(state_, tensor, nullptr, destination, options); });
}

Status ReadPlan::add(const Tensor& tensor, const Slice& slice, const Destination& destination,
                     const AddOptions& options) noexcept {
  return base::guarded([&]() -> Status { return State::add(state_, tensor, &slice, destination, options); });
}

// Copies the state if a Stream shares it, so that the Stream goes on with the old plan.
Status ReadPlan::State::add(std::shared_ptr<State>& state, const Tensor& tensor, const Slice* slice,
                            const Destination& destination, const AddOptions& options) {
  Result<plan::Item> item = plan::make_item(tensor, slice, destination, options);
  if (!item) return std::move(item).error();
  std::uint64_t bytes = 0;
  if (!base::add(state ? state->bytes : 0, item->size, bytes))
    return item->file().describe(
        item->info(),
        base::make_error(Errc::size_overflow, "the results of the plan would be larger than 2^64-1 bytes"));
  if (!state)
    state = std::make_shared<State>();
  else if (state.use_count() > 1)
    state = std::make_shared<State>(*state);
  state->items.push_back(*std::move(item));
  state->bytes = bytes;
  return {};
}

std::size_t ReadPlan::size() const noexcept {
  return state_ ? state_->items.size() : 0;
}

std::uint64_t ReadPlan::nbytes() const noexcept {
  return state_ ? state_->bytes : 0;
}

Result<ReadResult> ReadPlan::execute(const ReadOptions& options) const noexcept {
  return base::guarded([&]() -> Result<ReadResult> {
    return plan::execute(state_ ? std::span<const plan::Item>(state_->items) : std::span<const plan::Item>(), options);
  });
}

}  // namespace v0

Result<ReadResult> plan::execute(std::span<const Item> items, const ReadOptions& options) {
  const auto begin = std::chrono::steady_clock::now();
  if (Status status = check_destinations(items); !status) return std::move(status).error();
  ExecutionState run(items, options, false);
  if (Status status = run.open_devices(); !status) return std::move(status).error();
  if (Status status = run.memory().place(run.order()); !status) return std::move(status).error();
  ReadResult result;
  const auto prepare = [&]() -> Status {
    result.arrays.reserve(items.size());
    for (std::size_t i = 0; i < items.size(); ++i) result.arrays.push_back(run.memory().take(i));
    result.names = name_items(items);
    if (!options.on_reserved || options.on_reserved(result.arrays)) return {};
    return base::cancelled(run.completed(), run.total());
  };
  if (Status status = Execution(run, run.budget().run_bytes()).execute(prepare); !status)
    return std::move(status).error();
  const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - begin;
  result.report = run.report(taken.count());
  return result;
}

}  // namespace safetensors
