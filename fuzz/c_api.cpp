// Calls every function of the C interface in any order. An argument follows from its type and those beside it: a handle
// made before, a name and its length, a path, options, a callback, a result. The input chooses the values, and when a
// callback or a source fails. tests/c/arguments_test.c covers what does not depend on an input: NULL and wrong sizes.
//
// Results hold garbage before a call. After it, the status is a code, the error says the same, and a failure leaves the
// results NULL or 0. A model that opens is walked over: counts, offsets and sizes agree. All memory has the size that
// the call is told, so a sanitizer sees accesses past the end. At the end, everything is freed in an order of the
// input.
#include <fcntl.h>
#include <safetensors/c.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <climits>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "input.h"
#include "require.h"

namespace fuzz {
namespace {

const std::string kHeader =
    R"({"__metadata__":{"format":"pt"},"a":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]},"b":{"dtype":"U8",)"
    R"("shape":[12],"data_offsets":[24,36]},"h":{"dtype":"BF16","shape":[2,6],"data_offsets":[36,60]}})";
const std::string kFile = static_cast<char>(kHeader.size()) + std::string(7, '\0') + kHeader + std::string(60, 'd');

// A folder with this file, and an index of it, in memory if the system has such a file system.
struct Folder {
  Folder() {
    path = std::filesystem::is_directory("/dev/shm") ? "/dev/shm" : std::filesystem::temp_directory_path().string();
    path += "/safetensors-fuzz-XXXXXX";
    require(::mkdtemp(path.data()) != nullptr, "a folder can be made");
    restore();
    descriptor = ::open((path + "/m.safetensors").c_str(), O_RDONLY | O_CLOEXEC);
  }
  ~Folder() { std::filesystem::remove_all(path); }
  void restore() {
    for (const auto& entry : std::filesystem::directory_iterator(path)) std::filesystem::remove_all(entry);
    std::ofstream(path + "/m.safetensors", std::ios::binary) << kFile;
    std::ofstream(path + "/m.safetensors.index.json") << R"({"weight_map":{"a":"m.safetensors"}})";
  }
  std::string path;
  int descriptor;
} folder;

// The members of structs that the caller fills.
#define TIE(type, ...)            \
  auto tie(type& of) {            \
    auto& [__VA_ARGS__] = of;     \
    return std::tie(__VA_ARGS__); \
  }
TIE(safetensors_dim, a, b, c, d, e)
TIE(safetensors_metadata, a, b, c, d)
TIE(safetensors_request, a, b, c, d, e, f, g, h, i, j, k)
TIE(safetensors_open_options, a, b, c, d, e, f, g, h)
TIE(safetensors_read_options, a, b, c, d, e, f, g)
TIE(safetensors_write_options, a, b, c, d, e, f, g, h, i, j, k, l, m, n)
TIE(safetensors_source, a, b, c, d, e, f, g, h, i)

// Handles are the types whose members nobody knows.
template <class T>
concept IsHandle = !std::is_void_v<T> && !requires {
  sizeof(T);
};

// The size of the elements of a tensor or of an array.
std::uint64_t bytes_of(const auto& info) {
  std::uint64_t bits = safetensors_dtype_bits(info.dtype);
  for (std::size_t i = 0; i < info.rank; ++i) bits *= info.shape[i];
  return bits / 8;
}

struct Session {
  explicit Session(Input& input) : in(input) { folder.restore(); }
  ~Session() {
    const auto left = [this] { return std::apply([](const auto&... pool) { return (pool.size() + ...); }, pools); };
    for (std::size_t i = in.byte(); left() != 0; ++i)
      call_one<safetensors_model_free, safetensors_array_free, safetensors_plan_free, safetensors_stream_free,
               safetensors_writer_free>(i % 5);
    require(released == owed, "release is called once for each source and memory that was taken over");
  }
  template <class T>
  T integer() {
    const std::uint8_t kind = in.byte();
    if (kind >= 245) return static_cast<T>(in.u64() >> in.up_to(63));
    if (kind >= 230) return static_cast<T>(kind - 238);  // near the largest number, or near 0
    if (kind >= 150) return static_cast<T>(kind % 20);
    if (std::is_same_v<T, std::int64_t> && kind % 2 == 0) return static_cast<T>(SAFETENSORS_DIM_NONE);
    return static_cast<T>(std::is_signed_v<T> ? kind % 3 : 0);
  }
  template <class T>
  T* memory(std::size_t count, std::string_view contents = {}) {
    const auto& made = held.emplace_back(new unsigned char[count * sizeof(T)]());
    std::copy(contents.begin(), contents.end(), made.get());
    return reinterpret_cast<T*>(made.get());
  }
  // A name, bytes for a tensor, or a file, some with another byte. Its length is the next argument.
  const char* text() {
    static constexpr std::array<std::string_view, 14> kTexts = {"a",
                                                                "b",
                                                                "h",
                                                                "format",
                                                                "__metadata__",
                                                                "",
                                                                "1:,::2",
                                                                "...",
                                                                "-1",
                                                                "F32",
                                                                "BF16",
                                                                "nobody",
                                                                "twelve bytes",
                                                                "24 bytes for six floats."};
    const std::uint8_t choice = in.byte();
    std::string made(choice % 16 < kTexts.size() ? kTexts[choice % 16] : kFile);
    if (choice >= 176 && !made.empty()) made[in.u64() % made.size()] = static_cast<char>(in.byte());
    const bool ends = in.byte() % 4 == 0;
    length = ends ? SAFETENSORS_NUL_TERMINATED : made.size();
    return memory<char>(made.size() + (ends ? 1 : 0), made);
  }
  const char* path() {
    static constexpr std::string_view kNames[] = {"m.safetensors.index.json", "*.safetensors", "new.safetensors", ""};
    const std::size_t choice = in.byte() % 16U;
    std::string made = folder.path + "/" + std::string(choice < std::size(kNames) ? kNames[choice] : "m.safetensors");
    if (choice == 15) made.resize(5000, 'x');
    return memory<char>(made.size() + 1, made);
  }
  void fill(char&) {}
  void fill(const char*& to) { to = path(); }
  void fill(std::uint64_t& to) { to = integer<std::uint64_t>(); }
  void fill(safetensors_tensor_data& to) {  // half of them can be written
    static constexpr std::array<std::uint64_t, 3> kShape = {2, 3, 0};
    const char* const name = text();
    to = {name, *length, SAFETENSORS_DTYPE_F32, 0, kShape.data(), 2, memory<char>(24), 24};
    if (in.byte() >= 128) to.dtype = in.byte() % 24, to.rank = in.up_to(3), to.size = in.up_to(24);
  }
  void fill(auto& to) {
    std::apply(
        [this]<class... T>(T&... member) { std::tie(member...) = this->values<T...>(std::index_sequence_for<T...>()); },
        tie(to));
  }
  template <class T>
  T* list(std::size_t count) {
    T* const made = memory<T>(count);
    for (std::size_t i = 0; i < count; ++i) fill(made[i]);
    length = count;
    return made;
  }
  // Garbage for `count` results. After a failure they are 0, unless the error is `kept`.
  template <class T>
  T* garbage(std::size_t count, safetensors_status kept = SAFETENSORS_OK) {
    T* const made = memory<T>(count);
    std::size_t begin = 0;
    if (std::is_pointer_v<T>) handle_count = count;
    if constexpr (requires { made->struct_size; }) begin = sizeof(made->struct_size), made->struct_size = sizeof(T);
    auto* const bytes = reinterpret_cast<char*>(made) + begin;
    std::memset(bytes, 0xA5, count * sizeof(T) - begin);
    results.emplace_back(bytes, count * sizeof(T) - begin, kept);
    return made;
  }
  // The value of a parameter, or of a member of options.
  template <class Before, class T, class After>
  T value() {
    using To = std::remove_pointer_t<T>;
    using Plain = std::remove_const_t<To>;
    constexpr bool kCounted = std::is_same_v<After, std::size_t>;
    if constexpr (std::is_same_v<Plain, safetensors_error>) {
      std::memset(&error, 0x5a, sizeof error);
      countdown = in.byte() < 200 ? INT_MAX : in.byte() % 8;  // from here on, a callback may fail
      return &error;
    } else if constexpr (std::is_same_v<T, int> && std::is_same_v<After, const safetensors_open_options*>) {
      return std::array{folder.descriptor, -1, 1 << 20}[in.byte() % 3];
    } else if constexpr (std::is_integral_v<T>) {
      return length ? static_cast<T>(*std::exchange(length, std::nullopt)) : integer<T>();
    } else if constexpr (std::is_function_v<To>) {
      owes |= std::is_same_v<T, decltype(&Session::release)>;
      return std::get<T>(std::tuple(&cancel, &progress, &release, &source_size, &source_read, &source_memory));
    } else if constexpr (std::is_same_v<T, void*> && !kCounted) {  // `user` of a callback, or a stream of a device
      return std::is_same_v<Before, void*> ? nullptr : this;
    } else if constexpr (std::is_same_v<T, void*>) {  // a destination
      length = in.byte() % 2 == 0 ? 0 : 12 * in.up_to(5);
      return *length == 0 ? nullptr : memory<char>(*length);
    } else if constexpr (std::is_same_v<T, const void*> || std::is_same_v<T, const char*>) {
      const char* const made = kCounted ? text() : path();
      if (std::is_same_v<T, const void*> && *length == SAFETENSORS_NUL_TERMINATED) length = 0;
      return made;
    } else if constexpr (std::is_same_v<T, safetensors_array**> && kCounted) {
      length = in.byte() >= 240 ? in.up_to(3) : item_count;
      return garbage<safetensors_array*>(*length);
    } else if constexpr (IsHandle<To>) {
      const auto& pool = std::get<std::vector<Plain*>>(pools);
      Plain* const handle = pool.empty() ? nullptr : pool[in.byte() % pool.size()];
      if constexpr (std::is_same_v<Plain, safetensors_plan>)
        (void)safetensors_plan_get_size(handle, &item_count, nullptr, nullptr);
      return handle;
    } else if constexpr (kCounted) {
      return list<Plain>(in.up_to(3));
    } else if constexpr (std::is_const_v<To>) {  // options
      Plain* const made = list<Plain>(1);
      length.reset();
      made->struct_size = sizeof(Plain);
      return in.byte() >= 200 ? nullptr : made;
    } else {  // a count after a capacity is set even if the capacity is too small
      constexpr bool kKept = std::is_integral_v<Before> && std::is_integral_v<To>;
      return garbage<To>(1, kKept ? SAFETENSORS_ERROR_BUFFER_SIZE : 0);
    }
  }
  template <class... T, std::size_t... kIndex>
  std::tuple<T...> values(std::index_sequence<kIndex...>) {
    using All = std::tuple<void, T..., void>;
    return std::tuple<T...>{value<std::tuple_element_t<kIndex, All>, T, std::tuple_element_t<kIndex + 2, All>>()...};
  }

  // Callbacks. Those of sources run in any thread.
  static bool fails(void* self) { return static_cast<Session*>(self)->countdown.fetch_sub(1) == 0; }
  static std::int32_t cancel(void* self) { return (static_cast<Session*>(self)->cancelled |= fails(self)) ? 1 : 0; }
  static std::int32_t progress(void* self, std::uint64_t completed, std::uint64_t total) {
    return require(completed <= total, "progress is at most the total"), cancel(self);
  }
  static void release(void* self) { ++static_cast<Session*>(self)->released; }
  static safetensors_status source_size(void* self, std::uint64_t* size, safetensors_error*) {
    *size = kFile.size();
    return fails(self) ? SAFETENSORS_ERROR_OPEN_FAILED : SAFETENSORS_OK;
  }
  static safetensors_status source_read(void* self, std::uint64_t offset, void* to, std::size_t capacity,
                                        std::size_t* count, safetensors_error* error) {
    if (offset < kFile.size()) *count = kFile.copy(static_cast<char*>(to), std::min<std::size_t>(capacity, 77), offset);
    if (!fails(self)) return SAFETENSORS_OK;
    if (offset % 2 == 0) return *count = capacity + 1, SAFETENSORS_OK;      // a lie
    return std::memset(error->message, 'e', sizeof error->message), 54321;  // a text without an end
  }
  static const void* source_memory(void* self, std::uint64_t offset, std::uint64_t size) {
    return fails(self) || size < 20 ? nullptr : kFile.data() + offset;
  }
  template <class Returned, class... T>
  void call(Returned (*function)(T...)) {
    owes = cancelled = false;
    results.clear();
    const std::tuple<T...> given = values<T...>(std::index_sequence_for<T...>());
    [[maybe_unused]] const Returned returned = std::apply(function, given);
    countdown = INT_MAX;
    if constexpr ((std::is_same_v<T, safetensors_error*> || ...)) {
      check(returned);
      std::apply([&](auto... each) { (after(returned == SAFETENSORS_OK, each), ...); }, given);
    }
  }
  template <class Handle>
  void call(void (*free)(Handle*)) {
    auto& pool = std::get<std::vector<Handle*>>(pools);
    if (pool.empty()) return;
    std::swap(pool[in.byte() % pool.size()], pool.back());
    free(pool.back());
    pool.pop_back();
  }
  template <auto... kFunctions>
  void call_one(std::size_t which) {
    ((which-- == 0 ? call(kFunctions) : void()), ...);
  }
  void check(safetensors_status status) const {
    require(std::string_view(safetensors_status_name(status)) != "unknown", "the status is a code");
    require(!cancelled || status == SAFETENSORS_ERROR_CANCELLED, "a callback that fails cancels the call");
    require(error.code == status, "the error has the status");
    require(std::memchr(error.message, 0, 512) && std::memchr(error.path, 0, 512), "the texts of the error end");
    require((error.message[0] == '\0') == (status == SAFETENSORS_OK), "a message says what failed");
    for (const auto& [data, size, kept] : results)
      if (status != SAFETENSORS_OK && status != kept)
        require(std::all_of(data, data + size, [](char byte) { return byte == 0; }), "results are 0 after a failure");
  }
  // Checks the result of a call and takes its ownership. This overload does nothing: the argument is no result.
  void after(bool, const auto&) {}
  template <class T>
  void after(bool good, T** given) {
    if constexpr (IsHandle<T>) {
      for (T** each = given; each != given + handle_count; ++each) {
        require(!good || *each != nullptr || std::is_same_v<T, safetensors_array>, "a handle after success");
        if (*each != nullptr) std::get<std::vector<T*>>(pools).push_back(*each), look_at(*each);
      }
    } else if constexpr (requires { (*given)->deleter; }) {
      if (good) (*given)->deleter(*given);
    }
  }
  static void look_at(const void*) {}  // plans, streams, writers
  void look_at(const safetensors_array* array) {
    safetensors_array_info info = SAFETENSORS_ARRAY_INFO_INIT;
    require(safetensors_array_get_info(array, &info, nullptr) == SAFETENSORS_OK, "an array has a description");
    require(info.nbytes == 0 || info.nbytes == bytes_of(info), "the size of an array");
    for (std::size_t i = 0; i < info.nbytes; ++i) sum = sum + static_cast<const unsigned char*>(info.data)[i];
  }
  void look_at(const safetensors_model* model) {
    safetensors_model_info info = SAFETENSORS_MODEL_INFO_INIT;
    safetensors_file file = SAFETENSORS_FILE_INIT;
    safetensors_tensor tensor = SAFETENSORS_TENSOR_INIT;
    safetensors_metadata pair{};
    std::uint64_t tensors = 0, pairs = 0, end = 0;
    owed += owes ? 1 : 0;
    require(safetensors_model_get_info(model, &info, nullptr) == SAFETENSORS_OK, "a model has a description");
    for (std::uint64_t i = 0; safetensors_model_get_file(model, i, &file, nullptr) == SAFETENSORS_OK; ++i) {
      require(i < info.file_count, "the number of files");
      tensors += file.tensor_count;
      end = std::max(end, 8 + file.header_bytes + file.data_bytes);
      for (pairs = 0; !safetensors_model_get_metadata(model, i, pairs, &pair, nullptr);) ++pairs;
      require(pairs == file.metadata_count, "the number of metadata pairs");
    }
    require(info.tensor_count <= tensors, "the files have the tensors");
    for (std::uint64_t i = 0; i < info.tensor_count; ++i) {
      require(!safetensors_model_get_tensor(model, i, &tensor, nullptr), "the number of tensors");
      require(tensor.dtype == SAFETENSORS_DTYPE_UNKNOWN || tensor.nbytes == bytes_of(tensor), "the size of a tensor");
      require(tensor.file_offset > 8 && tensor.file_offset + tensor.nbytes <= end, "a tensor is inside its file");
    }
  }
  Input& in;
  std::vector<std::unique_ptr<unsigned char[]>> held;
  std::tuple<std::vector<safetensors_model*>, std::vector<safetensors_array*>, std::vector<safetensors_plan*>,
             std::vector<safetensors_stream*>, std::vector<safetensors_writer*>>
      pools;
  std::vector<std::tuple<const char*, std::size_t, safetensors_status>> results;  // of the call
  std::optional<std::size_t> length;                                              // of the argument before
  std::uint64_t item_count = 0;                                                   // of the plan chosen last
  std::atomic<int> countdown = INT_MAX;
  std::atomic<std::uint64_t> released = 0;
  std::uint64_t owed = 0, handle_count = 0;
  bool owes = false, cancelled = false;
  safetensors_error error = {};
  volatile unsigned sum = 0;
};

}  // namespace
}  // namespace fuzz

int LLVMFuzzerTestOneInput(const unsigned char* data, std::size_t size) {
  fuzz::Input in(data, size);
  fuzz::Session session(in);
  for (int i = 0; i < 200 && !in.rest().empty(); ++i) {
    const std::size_t which = in.byte();
    session.call_one<SAFETENSORS_FUNCTIONS>(which);          // CMake gives all names of scripts/exported-symbols.txt
    if (which >= 100) session.call(safetensors_model_open);  // most calls need a model or an array
    if (which >= 150) session.call(safetensors_model_read);
  }
  return 0;
}
