// Scenarios that open files and read tensors: by maps, by reads, from memory and from a source of the caller.
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>

#include "faults/files.h"
#include "faults/trial.h"

namespace safetensors::test::faults {
namespace {

void open_with(Trial& run, std::int32_t access) {
  safetensors_open_options options = SAFETENSORS_OPEN_OPTIONS_INIT;
  options.access = access;
  const std::string path = run.path(kSmall);
  safetensors_file* file = nullptr;
  TRY(run, safetensors_file_open, path.c_str(), &options, run.out(file));
  safetensors_header* header = nullptr;
  TRY(run, safetensors_file_header, file, run.out(header));
  TRY_VOID(run, safetensors_header_free, header);
  std::int32_t decided = 0;
  TRY(run, safetensors_file_access, file, run.out(decided));
  EXPECT_IN(run, access == SAFETENSORS_ACCESS_AUTOMATIC || decided == access);
  const char* given = nullptr;
  TRY(run, safetensors_file_path, file, run.out(given));
  EXPECT_IN(run, path == given);
  safetensors_tensor* tensor = nullptr;
  TRY(run, safetensors_file_tensor, file, "w", 1, run.out(tensor));
  safetensors_tensor_info info = SAFETENSORS_TENSOR_INFO_INIT;
  TRY(run, safetensors_tensor_get_info, tensor, &info);
  unsigned char bytes[96];
  std::size_t count = 0;
  TRY(run, safetensors_file_read_at, file, info.file_offset, bytes, 96, run.out(count));
  if (run.fault().kind != Kind::short_system_call) EXPECT_IN(run, count == 96);
  EXPECT_IN(run, as_expected(bytes, count));
  TRY_VOID(run, safetensors_tensor_free, tensor);
  TRY_FAILS(run, NOT_FOUND, safetensors_file_tensor, file, "a name that is not there", 24, run.out(tensor));
  TRY_VOID(run, safetensors_file_free, file);
}

void open_automatic(Trial& run) {
  open_with(run, SAFETENSORS_ACCESS_AUTOMATIC);
}
void open_read(Trial& run) {
  open_with(run, SAFETENSORS_ACCESS_READ);
}

void open_descriptor(Trial& run) {
  const int descriptor = ::open(run.path(kSmall).c_str(), O_RDONLY | O_CLOEXEC);
  safetensors_file* file = nullptr;
  TRY(run, safetensors_file_from_fd, descriptor, nullptr, run.out(file));
  ::close(descriptor);
  TRY_VOID(run, safetensors_file_free, file);
}

safetensors_tensor* tensor_of(Trial& run, const char* name, std::int32_t access, const char* in) {
  safetensors_open_options options = SAFETENSORS_OPEN_OPTIONS_INIT;
  options.access = access;
  safetensors_file* file = nullptr;
  safetensors_tensor* tensor = nullptr;
  PREPARE(run, safetensors_file_open, run.path(in).c_str(), &options, &file);
  PREPARE(run, safetensors_file_tensor, file, name, std::strlen(name), &tensor);
  safetensors_file_free(file);
  return tensor;
}

void views(Trial& run) {
  safetensors_tensor* const tensor = tensor_of(run, "w", SAFETENSORS_ACCESS_MAP, kSmall);
  std::uint64_t shape[2] = {};
  std::size_t rank = 0;
  TRY(run, safetensors_tensor_shape, tensor, shape, 2, run.out(rank));
  EXPECT_IN(run, rank == 2 && shape[1] == 6);
  safetensors_file* file = nullptr;
  TRY(run, safetensors_tensor_file, tensor, run.out(file));
  safetensors_array* array = nullptr;
  TRY(run, safetensors_file_view, file, SAFETENSORS_MAP_SHARED, run.out(array));
  TRY_VOID(run, safetensors_array_free, array);
  safetensors_file_free(file);
  TRY(run, safetensors_tensor_view, tensor, SAFETENSORS_MAP_SHARED, run.out(array));
  expect_bytes(run, array, 96);
  TRY(run, safetensors_array_prefault, array, 0, 96);
  TRY(run, safetensors_array_release_pages, array);
  expect_bytes(run, array, 96);
  void* data = nullptr;
  std::size_t size = 0;
  TRY_FAILS(run, NOT_WRITABLE, safetensors_array_mutable_data, array, run.out(data), run.out(size));
  TRY_VOID(run, safetensors_array_free, array);
  TRY(run, safetensors_tensor_view, tensor, SAFETENSORS_MAP_COPY_ON_WRITE, run.out(array));
  TRY(run, safetensors_array_mutable_data, array, run.out(data), run.out(size));
  expect_bytes(run, array, 96);
  TRY_VOID(run, safetensors_array_free, array);
  TRY_VOID(run, safetensors_tensor_free, tensor);
}

void arrays(Trial& run) {
  safetensors_tensor* const tensor = tensor_of(run, "w", SAFETENSORS_ACCESS_READ, kSmall);
  safetensors_array* array = nullptr;
  TRY(run, safetensors_tensor_view, tensor, SAFETENSORS_MAP_SHARED, run.out(array));
  TRY_VOID(run, safetensors_array_free, array);
  TRY(run, safetensors_tensor_read, tensor, nullptr, run.out(array));
  safetensors_array_info info = SAFETENSORS_ARRAY_INFO_INIT;
  TRY(run, safetensors_array_get_info, array, &info);
  std::uint64_t shape[2] = {};
  std::size_t rank = 0;
  TRY(run, safetensors_array_shape, array, shape, 2, run.out(rank));
  const void* elements = nullptr;
  std::size_t count = 0;
  TRY(run, safetensors_array_as, array, SAFETENSORS_DTYPE_F32, run.out(elements), run.out(count));
  EXPECT_IN(run, count == 24 && as_expected(elements, 96));
  TRY_FAILS(run, DTYPE_MISMATCH, safetensors_array_as, array, SAFETENSORS_DTYPE_U8, run.out(elements), run.out(count));
  TRY_FAILS(run, UNSUPPORTED, safetensors_array_release_pages, array);
  safetensors_dl_managed_tensor* managed = nullptr;
  TRY(run, safetensors_array_to_dlpack, array, run.out(managed));
  TRY_VOID(run, safetensors_array_free, array);
  EXPECT_IN(run, as_expected(managed->dl_tensor.data, 96));
  TRY_VOID(run, managed->deleter, managed);
  TRY_VOID(run, safetensors_tensor_free, tensor);
}

void slices_of_file(Trial& run) {
  safetensors_tensor* const tensor = tensor_of(run, "f", SAFETENSORS_ACCESS_READ, kLarge);
  safetensors_slice* slice = nullptr;
  PREPARE(run, safetensors_slice_parse, "::2,100:200", 11, &slice);
  std::vector<unsigned char> bytes(32 * 100 * 4);
  TRY(run, safetensors_tensor_read_into, tensor, slice, bytes.data(), bytes.size());
  for (std::size_t row = 0; row < 32; ++row)
    EXPECT_IN(run, as_expected(bytes.data() + row * 400, 400, row * 2 * 2048 + 400));
  TRY_FAILS(run, BUFFER_SIZE, safetensors_tensor_read_into, tensor, slice, bytes.data(), bytes.size() - 1);
  safetensors_slice_free(slice);
  safetensors_tensor_free(tensor);
}

void large_tensor(Trial& run) {
  safetensors_tensor* const tensor = tensor_of(run, "big", SAFETENSORS_ACCESS_READ, kLarge);
  safetensors_array* array = nullptr;
  TRY(run, safetensors_tensor_read, tensor, nullptr, run.out(array));
  expect_bytes(run, array, kLargeBytes);
  TRY_VOID(run, safetensors_array_free, array);
  safetensors_tensor_free(tensor);
}

void short_functions(Trial& run) {
  constexpr std::uint64_t kMatrix[] = {4, 6};
  safetensors_file* file = nullptr;
  PREPARE(run, safetensors_file_open, run.path(kSmall).c_str(), nullptr, &file);
  TRY_VOID(run, safetensors_file_count, file);
  safetensors_tensor_info info = SAFETENSORS_TENSOR_INFO_INIT;
  TRY(run, safetensors_file_info_at, file, 1, &info);
  TRY(run, safetensors_file_info, file, "w", &info);
  char text[100];
  std::size_t length = 0;
  TRY(run, safetensors_tensor_info_format, &info, text, sizeof text, run.out(length));
  EXPECT_IN(run, std::string_view(text) == "w F32 [4, 6]");
  TRY(run, safetensors_file_metadata, file, "format", text, sizeof text, run.out(length));
  EXPECT_IN(run, std::string_view(text) == "pt" && length == 2);
  TRY_FAILS(run, NOT_FOUND, safetensors_file_metadata, file, "a key that is not there", text, 0, run.out(length));
  safetensors_array* array = nullptr;
  TRY(run, safetensors_file_get, file, "w", SAFETENSORS_DTYPE_F32, kMatrix, 2, run.out(array));
  TRY_VOID(run, safetensors_array_data, array);
  expect_bytes(run, array, 96);
  safetensors_array_free(array);
  TRY_FAILS(run, SHAPE_MISMATCH, safetensors_file_get, file, "w", SAFETENSORS_DTYPE_F32, kMatrix, 1, run.out(array));
  TRY_FAILS(run, DTYPE_MISMATCH, safetensors_file_get, file, "w", SAFETENSORS_DTYPE_I32, kMatrix, 2, run.out(array));
  unsigned char bytes[96];
  TRY(run, safetensors_file_read, file, "w", SAFETENSORS_DTYPE_F32, kMatrix, 2, bytes, 96);
  EXPECT_IN(run, as_expected(bytes, 96));
  safetensors_file_free(file);
}

void short_functions_of_checkpoint(Trial& run) {
  constexpr std::uint64_t kList[] = {256};
  safetensors_checkpoint* model = nullptr;
  PREPARE(run, safetensors_checkpoint_open, run.path(kModel).c_str(), nullptr, &model);
  TRY_VOID(run, safetensors_checkpoint_count, model);
  safetensors_tensor_info info = SAFETENSORS_TENSOR_INFO_INIT;
  TRY(run, safetensors_checkpoint_info_at, model, 1, &info);
  TRY(run, safetensors_checkpoint_info, model, "a", &info);
  safetensors_array* array = nullptr;
  TRY(run, safetensors_checkpoint_get, model, "a", SAFETENSORS_DTYPE_F32, kList, 1, run.out(array));
  expect_bytes(run, array, 1024);
  safetensors_array_free(array);
  unsigned char bytes[1024];
  TRY(run, safetensors_checkpoint_read, model, "b", SAFETENSORS_DTYPE_F32, kList, 1, bytes, sizeof bytes);
  EXPECT_IN(run, as_expected(bytes, sizeof bytes));
  safetensors_checkpoint_free(model);
  PREPARE(run, safetensors_checkpoint_open, run.path(kPart).c_str(), nullptr, &model);
  const char* text = nullptr;
  std::size_t length = 0;
  TRY(run, safetensors_checkpoint_index_metadata, model, run.out(text), run.out(length));
  EXPECT_IN(run, std::string_view(text, length) == R"({"total_size":7})");
  std::uint64_t size = 0;
  TRY(run, safetensors_checkpoint_index_total_size, model, run.out(size));
  EXPECT_IN(run, size == 7);
  safetensors_checkpoint_free(model);
}

std::vector<unsigned char> whole_file(Trial& run, const char* name) {
  safetensors_file* file = nullptr;
  PREPARE(run, safetensors_file_open, run.path(name).c_str(), nullptr, &file);
  std::vector<unsigned char> bytes(4096);
  std::size_t count = 0;
  PREPARE(run, safetensors_file_read_at, file, 0, bytes.data(), bytes.size(), &count);
  safetensors_file_free(file);
  bytes.resize(count);
  return bytes;
}

void read_first(Trial& run, const safetensors_file* file) {
  safetensors_tensor* tensor = nullptr;
  safetensors_array* array = nullptr;
  TRY(run, safetensors_file_tensor, file, "w", 1, run.out(tensor));
  TRY(run, safetensors_tensor_view, tensor, SAFETENSORS_MAP_SHARED, run.out(array));
  expect_bytes(run, array, 96);
  safetensors_array_free(array);
  TRY(run, safetensors_tensor_read, tensor, nullptr, run.out(array));
  expect_bytes(run, array, 96);
  safetensors_array_free(array);
  safetensors_tensor_free(tensor);
}

void from_memory(Trial& run) {
  const std::vector<unsigned char> bytes = whole_file(run, kSmall);
  int released = 0;
  safetensors_file* file = nullptr;
  TRY(
      run, safetensors_file_from_memory, bytes.data(), bytes.size(), [](void* user) { ++*static_cast<int*>(user); },
      &released, nullptr, run.out(file));
  EXPECT_IN(run, released == 0);
  read_first(run, file);
  TRY_VOID(run, safetensors_file_free, file);
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
  safetensors_file* file = nullptr;
  TRY(run, safetensors_file_from_source, &source, nullptr, run.out(file));
  EXPECT_IN(run, owner.released == 0);
  read_first(run, file);
  TRY_VOID(run, safetensors_file_free, file);
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
    {.name = "ShortFunctions", .body = short_functions},
    {.name = "ShortFunctionsOfCheckpoint", .body = short_functions_of_checkpoint},
    {.name = "FileFromMemory", .body = from_memory, .asks_system = false},
    {.name = "FileFromSource", .body = from_source, .asks_system = false},
};

}  // namespace safetensors::test::faults
