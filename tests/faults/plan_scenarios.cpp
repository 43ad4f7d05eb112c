// Scenarios that use checkpoints, read plans and streams.
#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <memory>

#include "faults/files.h"
#include "faults/trial.h"

namespace safetensors::test::faults {
namespace {

// Opens path, looks at everything in it, and frees it.
void open_checkpoint(Trial& run, const std::string& path) {
  safetensors_checkpoint* checkpoint = nullptr;
  TRY(run, safetensors_checkpoint_open, path.c_str(), nullptr, run.out(checkpoint));
  std::uint64_t tensors = 0;
  std::uint64_t files = 0;
  TRY(run, safetensors_checkpoint_size, checkpoint, run.out(tensors), run.out(files));
  EXPECT_IN(run, tensors == 2 && files == 2);
  safetensors_checkpoint_free(checkpoint);
}

void checkpoint_folder(Trial& run) {
  open_checkpoint(run, run.path(kModel));
}
void checkpoint_pattern(Trial& run) {
  open_checkpoint(run, run.path("model/*.safetensors"));
}

void checkpoint_paths(Trial& run) {
  const std::string one = run.path("model/one.safetensors");
  const std::string two = run.path("model/two.safetensors");
  const char* const paths[] = {one.c_str(), two.c_str()};
  safetensors_checkpoint_options options = SAFETENSORS_CHECKPOINT_OPTIONS_INIT;
  options.threads = 2;
  safetensors_checkpoint* checkpoint = nullptr;
  TRY(run, safetensors_checkpoint_open_paths, paths, 2, &options, run.out(checkpoint));
  safetensors_tensor* tensor = nullptr;
  TRY(run, safetensors_checkpoint_tensor_at, checkpoint, 1, run.out(tensor));
  safetensors_tensor_free(tensor);
  TRY(run, safetensors_checkpoint_tensor, checkpoint, "b", 1, run.out(tensor));
  safetensors_tensor_free(tensor);
  std::int32_t contained = 0;
  TRY(run, safetensors_checkpoint_contains, checkpoint, "b", 1, run.out(contained));
  EXPECT_IN(run, contained == 1);
  safetensors_file* file = nullptr;
  TRY(run, safetensors_checkpoint_file_at, checkpoint, 1, run.out(file));
  safetensors_file_free(file);
  TRY_FAILS(run, NOT_FOUND, safetensors_checkpoint_tensor_at, checkpoint, 2, run.out(tensor));
  TRY_VOID(run, safetensors_checkpoint_free, checkpoint);
}

// A plan of the tensors of kLarge (big; f cast to BF16; half of f) and of kSmall.
safetensors_read_plan* make_plan(Trial& run) {
  safetensors_open_options options = SAFETENSORS_OPEN_OPTIONS_INIT;
  options.access = SAFETENSORS_ACCESS_READ;
  safetensors_read_plan* plan = nullptr;
  TRY(run, safetensors_read_plan_create, run.out(plan));
  safetensors_file* file = nullptr;
  safetensors_tensor* tensor = nullptr;
  PREPARE(run, safetensors_file_open, run.path(kLarge).c_str(), &options, &file);
  PREPARE(run, safetensors_file_tensor, file, "big", 3, &tensor);
  TRY(run, safetensors_read_plan_add, plan, tensor, nullptr, nullptr);
  safetensors_tensor_free(tensor);
  PREPARE(run, safetensors_file_tensor, file, "f", 1, &tensor);
  safetensors_add_options add = SAFETENSORS_ADD_OPTIONS_INIT;
  add.cast = SAFETENSORS_DTYPE_F64;
  TRY(run, safetensors_read_plan_add, plan, tensor, nullptr, &add);
  safetensors_slice* slice = nullptr;
  PREPARE(run, safetensors_slice_parse, "32:", 3, &slice);
  TRY(run, safetensors_read_plan_add, plan, tensor, slice, nullptr);
  safetensors_slice_free(slice);
  safetensors_tensor_free(tensor);
  safetensors_file_free(file);
  PREPARE(run, safetensors_file_open, run.path(kSmall).c_str(), &options, &file);
  PREPARE(run, safetensors_file_tensor, file, "w", 1, &tensor);
  TRY(run, safetensors_read_plan_add, plan, tensor, nullptr, nullptr);
  safetensors_tensor_free(tensor);
  safetensors_file_free(file);
  std::uint64_t count = 0;
  std::uint64_t bytes = 0;
  TRY(run, safetensors_read_plan_size, plan, run.out(count), run.out(bytes));
  EXPECT_IN(run, count == 4 && bytes == kLargeBytes + 64 * 512 * 8 + 32 * 512 * 4 + 96);
  return plan;
}

// Widening does not round, so every element is known.
bool cast_as_expected(const safetensors_array_info& info) {
  const auto* const wide = static_cast<const double*>(info.data);
  for (std::size_t i = 0; i < info.nbytes / 8; ++i) {
    unsigned char bytes[4];
    for (std::size_t b = 0; b < 4; ++b) bytes[b] = byte_at(4 * i + b);
    float narrow = 0;
    std::memcpy(&narrow, bytes, sizeof narrow);
    if (wide[i] != static_cast<double>(narrow)) return false;
  }
  return info.nbytes == 64 * 512 * 8;
}

void expect_item(Trial& run, std::uint64_t item, const safetensors_array* array) {
  safetensors_array_info info = SAFETENSORS_ARRAY_INFO_INIT;
  PREPARE(run, safetensors_array_get_info, array, &info);
  if (item == 0) EXPECT_IN(run, info.nbytes == kLargeBytes && as_expected(info.data, info.nbytes));
  if (item == 1) EXPECT_IN(run, cast_as_expected(info));
  if (item == 2) EXPECT_IN(run, info.nbytes == 32 * 512 * 4 && as_expected(info.data, info.nbytes, 32 * 512 * 4));
  if (item == 3) EXPECT_IN(run, info.nbytes == 96 && as_expected(info.data, 96));
}

void look_at_report(Trial& run, safetensors_read_report* report) {
  safetensors_read_report_info info = SAFETENSORS_READ_REPORT_INFO_INIT;
  TRY(run, safetensors_read_report_get_info, report, &info);
  EXPECT_IN(run, info.bytes == kLargeBytes + 64 * 512 * 8 + 32 * 512 * 4 + 96);
  const char* text = nullptr;
  std::size_t length = 0;
  TRY_FAILS(run, NOT_FOUND, safetensors_read_report_fallback, report, 1000, run.out(text), run.out(length));
  TRY_VOID(run, safetensors_read_report_free, report);
}

void execute_with(Trial& run, std::int32_t cache) {
  safetensors_read_plan* const plan = make_plan(run);
  safetensors_read_options options = SAFETENSORS_READ_OPTIONS_INIT;
  options.threads = 2;
  options.cache = cache;
  safetensors_read_result* result = nullptr;
  TRY(run, safetensors_read_plan_execute, plan, &options, run.out(result));
  std::uint64_t count = 0;
  TRY(run, safetensors_read_result_count, result, run.out(count));
  EXPECT_IN(run, count == 4);
  for (std::uint64_t i = 0; i < 4; ++i) {
    safetensors_array* array = nullptr;
    TRY(run, safetensors_read_result_array, result, i, run.out(array));
    expect_item(run, i, array);
    safetensors_array_free(array);
  }
  safetensors_read_report* report = nullptr;
  TRY(run, safetensors_read_result_report, result, run.out(report));
  TRY_VOID(run, safetensors_read_result_free, result);
  look_at_report(run, report);
  TRY_VOID(run, safetensors_read_plan_free, plan);
}

void execute(Trial& run) {
  execute_with(run, SAFETENSORS_CACHE_AUTOMATIC);
}
void execute_past_cache(Trial& run) {
  execute_with(run, SAFETENSORS_CACHE_BYPASS);
}

void execute_and_drop_cache(Trial& run) {
  execute_with(run, SAFETENSORS_CACHE_DROP);
}

// A shard of a checkpoint that has to be opened again.
void execute_checkpoint(Trial& run) {
  safetensors_checkpoint* checkpoint = nullptr;
  safetensors_tensor* tensor = nullptr;
  safetensors_read_plan* plan = nullptr;
  PREPARE(run, safetensors_checkpoint_open, run.path(kModel).c_str(), nullptr, &checkpoint);
  PREPARE(run, safetensors_read_plan_create, &plan);
  for (std::uint64_t i = 0; i < 2; ++i) {
    PREPARE(run, safetensors_checkpoint_tensor_at, checkpoint, i, &tensor);
    PREPARE(run, safetensors_read_plan_add, plan, tensor, nullptr, nullptr);
    safetensors_tensor_free(tensor);
  }
  safetensors_checkpoint_free(checkpoint);
  safetensors_read_result* result = nullptr;
  TRY(run, safetensors_read_plan_execute, plan, nullptr, run.out(result));
  for (std::uint64_t i = 0; i < 2; ++i) {
    safetensors_array* array = nullptr;
    PREPARE(run, safetensors_read_result_array, result, i, &array);
    expect_bytes(run, array, 1024);
    safetensors_array_free(array);
  }
  safetensors_read_result_free(result);
  safetensors_read_plan_free(plan);
}

// All tensors of a checkpoint, then those of a large file, in one buffer each.
safetensors_stream* start_stream(Trial& run, safetensors_read_plan* plan) {
  safetensors_read_options options = SAFETENSORS_READ_OPTIONS_INIT;
  options.threads = 2;
  options.memory_limit = 4 << 20;
  safetensors_stream* stream = nullptr;
  TRY(run, safetensors_read_plan_stream, plan, &options, run.out(stream));
  return stream;
}

// Takes items until the end or an error. An error stays; no item is lost and none comes twice.
bool take_all(Trial& run, safetensors_stream* stream) {
  int seen[4] = {};
  for (int i = 0; i < 5; ++i) {
    std::uint64_t item = 0;
    safetensors_array* array = nullptr;
    std::int32_t ready = 0;
    TRY(run, safetensors_stream_wait, stream, std::uint64_t{60'000}, run.out(ready));
    EXPECT_IN(run, ready == 1);
    const safetensors_status status = TRY_ONCE(run, safetensors_stream_next, stream, run.out(item), run.out(array));
    if (status != SAFETENSORS_OK) {
      EXPECT_IN(run, safetensors_stream_next(stream, &item, &array, nullptr) == status);
      safetensors_array_free(array);
      return false;
    }
    if (array == nullptr) break;
    EXPECT_IN(run, item < 4 && ++seen[item] == 1);
    expect_item(run, item, array);
    safetensors_array_free(array);
  }
  EXPECT_IN(run, std::count(seen, seen + 4, 1) == 4);
  return true;
}

void stream_items(Trial& run) {
  safetensors_read_plan* const plan = make_plan(run);
  safetensors_stream* const stream = start_stream(run, plan);
  if (take_all(run, stream)) {
    safetensors_read_report* report = nullptr;
    TRY(run, safetensors_stream_report, stream, run.out(report));
    look_at_report(run, report);
  }
  TRY_VOID(run, safetensors_stream_free, stream);
  safetensors_read_plan_free(plan);
}

void stream_cancelled(Trial& run) {
  safetensors_read_plan* const plan = make_plan(run);
  safetensors_stream* const stream = start_stream(run, plan);
  TRY(run, safetensors_stream_cancel, stream);
  std::uint64_t item = 0;
  safetensors_array* array = nullptr;
  const safetensors_status status = safetensors_stream_next(stream, &item, &array, nullptr);
  EXPECT_IN(run, status != SAFETENSORS_OK && array == nullptr);
  TRY_VOID(run, safetensors_stream_free, stream);
  safetensors_read_plan_free(plan);
}

}  // namespace

const std::vector<Scenario> kPlanScenarios = {
    {.name = "CheckpointFolder", .body = checkpoint_folder},
    {.name = "CheckpointPattern", .body = checkpoint_pattern},
    {.name = "CheckpointPaths", .body = checkpoint_paths},
    {.name = "Execute", .body = execute},
    {.name = "ExecutePastCache", .body = execute_past_cache},
    {.name = "ExecuteAndDropCache", .body = execute_and_drop_cache},
    {.name = "ExecuteCheckpoint", .body = execute_checkpoint},
    {.name = "StreamItems", .body = stream_items},
    {.name = "StreamCancelled", .body = stream_cancelled},
};

}  // namespace safetensors::test::faults
