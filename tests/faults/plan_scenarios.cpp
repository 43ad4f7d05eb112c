// Scenarios that use models of several files, plans and streams.
#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <memory>

#include "faults/files.h"
#include "faults/trial.h"
#include "support/plan_tuning.h"

namespace safetensors::test::faults {
namespace {

// Opens path, looks at it, and frees it.
void open_several(Trial& run, const std::string& path) {
  safetensors_model* model = nullptr;
  TRY_MODEL(run, safetensors_model_open, path.c_str(), nullptr, run.out(model));
  safetensors_model_info info = SAFETENSORS_MODEL_INFO_INIT;
  TRY(run, safetensors_model_get_info, model, &info);
  EXPECT_IN(run, info.tensor_count == 2 && info.file_count == 2);
  safetensors_model_free(model);
}

void model_folder(Trial& run) {
  open_several(run, run.path(kModel));
}
void model_pattern(Trial& run) {
  open_several(run, run.path("model/*.safetensors"));
}

void model_paths(Trial& run) {
  const std::string one = run.path("model/one.safetensors");
  const std::string two = run.path("model/two.safetensors");
  const char* const paths[] = {one.c_str(), two.c_str()};
  safetensors_open_options options = SAFETENSORS_OPEN_OPTIONS_INIT;
  options.threads = 2;
  safetensors_model* model = nullptr;
  TRY(run, safetensors_model_open_paths, paths, 2, &options, run.out(model));
  safetensors_tensor tensor = SAFETENSORS_TENSOR_INIT;
  TRY(run, safetensors_model_find_tensor, model, "b", 1, &tensor);
  EXPECT_IN(run, tensor.path == two);
  safetensors_file file = SAFETENSORS_FILE_INIT;
  TRY(run, safetensors_model_get_file, model, 1, &file);
  TRY_VOID(run, safetensors_model_free, model);
}

// A plan of the tensors of kLarge (big; f cast to F64; half of f) and of kSmall.
safetensors_plan* make_plan(Trial& run) {
  safetensors_open_options options = SAFETENSORS_OPEN_OPTIONS_INIT;
  options.access = SAFETENSORS_ACCESS_READ;
  safetensors_plan* plan = nullptr;
  TRY(run, safetensors_plan_create, run.out(plan));
  safetensors_model* model = nullptr;
  PREPARE(run, safetensors_model_open, run.path(kLarge).c_str(), &options, &model);
  TRY(run, safetensors_plan_add, plan, model, "big", 3, nullptr);
  safetensors_request request = SAFETENSORS_REQUEST_INIT;
  request.cast = SAFETENSORS_DTYPE_F64;
  TRY(run, safetensors_plan_add, plan, model, "f", 1, &request);
  const safetensors_dim half = SAFETENSORS_DIM_SHARD(1, 2);
  request.cast = 0;
  request.slice = &half;
  request.slice_count = 1;
  TRY(run, safetensors_plan_add, plan, model, "f", 1, &request);
  safetensors_model_free(model);
  PREPARE(run, safetensors_model_open, run.path(kSmall).c_str(), &options, &model);
  TRY(run, safetensors_plan_add, plan, model, "w", 1, nullptr);
  safetensors_model_free(model);
  std::uint64_t count = 0;
  std::uint64_t bytes = 0;
  TRY(run, safetensors_plan_get_size, plan, run.out(count), run.out(bytes));
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

void execute_with(Trial& run, std::int32_t cache) {
  safetensors_plan* const plan = make_plan(run);
  safetensors_read_options options = SAFETENSORS_READ_OPTIONS_INIT;
  options.threads = 2;
  options.cache = cache;
  safetensors_array* arrays[4] = {};
  TRY(run, safetensors_plan_execute, plan, &options, arrays, 4);
  for (std::uint64_t i = 0; i < 4; ++i) {
    expect_item(run, i, arrays[i]);
    safetensors_array_free(arrays[i]);
  }
  TRY_VOID(run, safetensors_plan_free, plan);
}

void execute(Trial& run) {
  execute_with(run, SAFETENSORS_CACHE_AUTOMATIC);
}
void execute_past_cache(Trial& run) {
  const AssumeUncached uncached;
  execute_with(run, SAFETENSORS_CACHE_KEEP);
}

// The shards of a model.
void execute_model(Trial& run) {
  safetensors_model* model = nullptr;
  safetensors_plan* plan = nullptr;
  PREPARE(run, safetensors_model_open, run.path(kModel).c_str(), nullptr, &model);
  PREPARE(run, safetensors_plan_create, &plan);
  PREPARE(run, safetensors_plan_add, plan, model, "a", 1, nullptr);
  PREPARE(run, safetensors_plan_add, plan, model, "b", 1, nullptr);
  safetensors_model_free(model);
  safetensors_array* arrays[2] = {};
  TRY(run, safetensors_plan_execute, plan, nullptr, arrays, 2);
  for (safetensors_array* array : arrays) {
    expect_bytes(run, array, 1024);
    safetensors_array_free(array);
  }
  safetensors_plan_free(plan);
}

safetensors_stream* start_stream(Trial& run, safetensors_plan* plan) {
  safetensors_read_options options = SAFETENSORS_READ_OPTIONS_INIT;
  options.threads = 2;
  options.memory_limit = 4 << 20;
  safetensors_stream* stream = nullptr;
  TRY(run, safetensors_plan_stream, plan, &options, run.out(stream));
  return stream;
}

// Takes items until the end or an error. An error stays; no item is lost and none comes twice.
bool take_all(Trial& run, safetensors_stream* stream) {
  int seen[4] = {};
  for (int i = 0; i < 5; ++i) {
    std::uint64_t item = 0;
    safetensors_array* array = nullptr;
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
  safetensors_plan* const plan = make_plan(run);
  safetensors_stream* const stream = start_stream(run, plan);
  take_all(run, stream);
  TRY_VOID(run, safetensors_stream_free, stream);
  safetensors_plan_free(plan);
}

void stream_cancelled(Trial& run) {
  safetensors_plan* const plan = make_plan(run);
  safetensors_stream* const stream = start_stream(run, plan);
  TRY(run, safetensors_stream_cancel, stream);
  std::uint64_t item = 0;
  safetensors_array* array = nullptr;
  const safetensors_status status = safetensors_stream_next(stream, &item, &array, nullptr);
  EXPECT_IN(run, status != SAFETENSORS_OK && array == nullptr);
  TRY_VOID(run, safetensors_stream_free, stream);
  safetensors_plan_free(plan);
}

}  // namespace

const std::vector<Scenario> kPlanScenarios = {
    {.name = "ModelFolder", .body = model_folder},
    {.name = "ModelPattern", .body = model_pattern},
    {.name = "ModelPaths", .body = model_paths},
    {.name = "Execute", .body = execute},
    {.name = "ExecutePastCache", .body = execute_past_cache},
    {.name = "ExecuteModel", .body = execute_model},
    {.name = "StreamItems", .body = stream_items},
    {.name = "StreamCancelled", .body = stream_cancelled},
};

}  // namespace safetensors::test::faults
