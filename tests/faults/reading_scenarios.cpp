// Scenarios that open models and read tensors: by maps, by reads, from memory and from a source of the caller.
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <iterator>

#include "faults/files.h"
#include "faults/trial.h"

namespace safetensors::test::faults {
namespace {

safetensors_model* open_model(Trial& run, const char* in, std::int32_t access) {
  safetensors_open_options options = SAFETENSORS_OPEN_OPTIONS_INIT;
  options.access = access;
  safetensors_model* model = nullptr;
  PREPARE(run, safetensors_model_open, run.path(in).c_str(), &options, &model);
  return model;
}

void look_at(Trial& run, const safetensors_model* model) {
  safetensors_model_info info = SAFETENSORS_MODEL_INFO_INIT;
  TRY(run, safetensors_model_get_info, model, &info);
  EXPECT_IN(run, info.tensor_count == 2);
  safetensors_file file = SAFETENSORS_FILE_INIT;
  TRY(run, safetensors_model_get_file, model, 0, &file);
  safetensors_metadata pair;
  TRY(run, safetensors_model_get_metadata, model, 0, 1, run.out(pair));
  EXPECT_IN(run, std::string_view(pair.value, pair.value_length) == "y");
  TRY(run, safetensors_model_find_metadata, model, 0, "format", 6, run.out(pair));
  TRY_FAILS(run, NOT_FOUND, safetensors_model_find_metadata, model, 0, "a key that is not there", 23, run.out(pair));
  safetensors_tensor tensor = SAFETENSORS_TENSOR_INIT;
  TRY(run, safetensors_model_get_tensor, model, 1, &tensor);
  TRY_FAILS(run, NOT_FOUND, safetensors_model_get_tensor, model, 2, &tensor);
}

void open_with(Trial& run, std::int32_t access) {
  safetensors_open_options options = SAFETENSORS_OPEN_OPTIONS_INIT;
  options.access = access;
  const std::string path = run.path(kSmall);
  safetensors_model* model = nullptr;
  TRY(run, safetensors_model_open, path.c_str(), &options, run.out(model));
  look_at(run, model);
  safetensors_tensor tensor = SAFETENSORS_TENSOR_INIT;
  TRY(run, safetensors_model_find_tensor, model, "w", 1, &tensor);
  EXPECT_IN(run, tensor.path == path && tensor.rank == 2 && tensor.shape[1] == 6);
  TRY_FAILS(run, NOT_FOUND, safetensors_model_find_tensor, model, "a name that is not there", 24, &tensor);
  TRY_VOID(run, safetensors_model_free, model);
}

void open_automatic(Trial& run) {
  open_with(run, SAFETENSORS_ACCESS_AUTOMATIC);
}
void open_read(Trial& run) {
  open_with(run, SAFETENSORS_ACCESS_READ);
}

void open_descriptor(Trial& run) {
  const int descriptor = ::open(run.path(kSmall).c_str(), O_RDONLY | O_CLOEXEC);
  safetensors_model* model = nullptr;
  TRY(run, safetensors_model_from_fd, descriptor, nullptr, run.out(model));
  ::close(descriptor);
  TRY_VOID(run, safetensors_model_free, model);
}

void views(Trial& run) {
  safetensors_model* const model = open_model(run, kSmall, SAFETENSORS_ACCESS_MAP);
  for (const std::int32_t map : {SAFETENSORS_MAP_SHARED, SAFETENSORS_MAP_COPY_ON_WRITE}) {
    safetensors_array* array = nullptr;
    TRY(run, safetensors_model_view, model, "w", 1, map, run.out(array));
    expect_bytes(run, array, 96);
    TRY_VOID(run, safetensors_array_free, array);
  }
  safetensors_model_free(model);
}

void arrays(Trial& run) {
  safetensors_model* const model = open_model(run, kSmall, SAFETENSORS_ACCESS_READ);
  safetensors_array* array = nullptr;
  TRY(run, safetensors_model_view, model, "w", 1, SAFETENSORS_MAP_SHARED, run.out(array));
  TRY_VOID(run, safetensors_array_free, array);
  TRY(run, safetensors_model_read, model, "w", 1, nullptr, run.out(array));
  expect_bytes(run, array, 96);
  safetensors_dl_managed_tensor* managed = nullptr;
  TRY(run, safetensors_array_to_dlpack, array, run.out(managed));
  safetensors_dl_unversioned_tensor* older = nullptr;
  TRY(run, safetensors_array_to_unversioned_dlpack, array, run.out(older));
  TRY_VOID(run, safetensors_array_free, array);
  EXPECT_IN(run, as_expected(managed->dl_tensor.data, 96) && as_expected(older->dl_tensor.data, 96));
  TRY_VOID(run, managed->deleter, managed);
  TRY_VOID(run, older->deleter, older);
  safetensors_model_free(model);
}

void slices_of_file(Trial& run) {
  safetensors_model* const model = open_model(run, kLarge, SAFETENSORS_ACCESS_READ);
  const safetensors_dim slice[] = {SAFETENSORS_DIM_RANGE(0, 64, 2), SAFETENSORS_DIM_RANGE(100, 200, 1)};
  std::vector<unsigned char> bytes(32 * 100 * 4);
  safetensors_request request = SAFETENSORS_REQUEST_INIT;
  request.slice = slice;
  request.slice_count = 2;
  request.destination = bytes.data();
  request.destination_size = bytes.size();
  std::uint64_t shape[2] = {};
  std::size_t rank = 0;
  std::uint64_t nbytes = 0;
  TRY(run, safetensors_model_measure, model, "f", 1, &request, shape, 2, run.out(rank), run.out(nbytes));
  EXPECT_IN(run, rank == 2 && shape[0] == 32 && shape[1] == 100 && nbytes == bytes.size());
  TRY(run, safetensors_model_read, model, "f", 1, &request, nullptr);
  for (std::size_t row = 0; row < 32; ++row)
    EXPECT_IN(run, as_expected(bytes.data() + row * 400, 400, row * 2 * 2048 + 400));
  --request.destination_size;
  TRY_FAILS(run, BUFFER_SIZE, safetensors_model_read, model, "f", 1, &request, nullptr);
  safetensors_model_free(model);
}

void large_tensor(Trial& run) {
  safetensors_model* const model = open_model(run, kLarge, SAFETENSORS_ACCESS_READ);
  safetensors_array* array = nullptr;
  TRY(run, safetensors_model_read, model, "big", 3, nullptr, run.out(array));
  expect_bytes(run, array, kLargeBytes);
  TRY_VOID(run, safetensors_array_free, array);
  safetensors_model_free(model);
}

std::vector<unsigned char> whole_file(Trial& run, const char* name) {
  std::ifstream file(run.path(name), std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

void read_first(Trial& run, const safetensors_model* model) {
  safetensors_array* array = nullptr;
  TRY(run, safetensors_model_view, model, "w", 1, SAFETENSORS_MAP_SHARED, run.out(array));
  expect_bytes(run, array, 96);
  safetensors_array_free(array);
  TRY(run, safetensors_model_read, model, "w", 1, nullptr, run.out(array));
  expect_bytes(run, array, 96);
  safetensors_array_free(array);
}

void from_memory(Trial& run) {
  const std::vector<unsigned char> bytes = whole_file(run, kSmall);
  int released = 0;
  safetensors_model* model = nullptr;
  TRY(
      run, safetensors_model_from_memory, bytes.data(), bytes.size(), [](void* user) { ++*static_cast<int*>(user); },
      &released, nullptr, run.out(model));
  EXPECT_IN(run, released == 0);
  read_first(run, model);
  TRY_VOID(run, safetensors_model_free, model);
  EXPECT_IN(run, released == 1);
}

struct Owner {
  std::vector<unsigned char> bytes;
  int released = 0;
};

safetensors_source source_of(Owner& owner) {
  safetensors_source source = SAFETENSORS_SOURCE_INIT;
  source.user = &owner;
  source.size = [](void* user, std::uint64_t* size, safetensors_error*) {
    *size = static_cast<Owner*>(user)->bytes.size();
    return safetensors_status{SAFETENSORS_OK};
  };
  source.read_at = [](void* user, std::uint64_t offset, void* destination, std::size_t capacity, std::size_t* count,
                      safetensors_error*) {
    const auto& bytes = static_cast<Owner*>(user)->bytes;
    *count = std::min<std::size_t>(capacity, bytes.size() - static_cast<std::size_t>(offset));
    std::memcpy(destination, bytes.data() + offset, *count);
    return safetensors_status{SAFETENSORS_OK};
  };
  source.release = [](void* user) { ++static_cast<Owner*>(user)->released; };
  return source;
}

void from_source(Trial& run) {
  Owner owner{whole_file(run, kSmall)};
  const safetensors_source source = source_of(owner);
  safetensors_model* model = nullptr;
  TRY(run, safetensors_model_from_source, &source, nullptr, run.out(model));
  EXPECT_IN(run, owner.released == 0);
  read_first(run, model);
  TRY_VOID(run, safetensors_model_free, model);
  EXPECT_IN(run, owner.released == 1);
}

}  // namespace

const std::vector<Scenario> kReadingScenarios = {
    {.name = "OpenAutomatic", .body = open_automatic},
    {.name = "OpenToRead", .body = open_read},
    {.name = "OpenDescriptor", .body = open_descriptor},
    {.name = "Views", .body = views},
    {.name = "Arrays", .body = arrays},
    {.name = "SlicesOfFile", .body = slices_of_file},
    {.name = "LargeTensor", .body = large_tensor},
    {.name = "FileFromMemory", .body = from_memory, .asks_system = false},
    {.name = "FileFromSource", .body = from_source, .asks_system = false},
};

}  // namespace safetensors::test::faults
