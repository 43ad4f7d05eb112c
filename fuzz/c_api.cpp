// Calls every function of the C interface in any order, with handles, texts, numbers and structs that the input
// chooses: valid ones, and those that the contract refuses: NULL, numbers out of range, structs of the wrong size,
// callbacks that fail or lie.
//
// After each call: the status is a code, the error says the same, handles and counts are set or are NULL and 0, and
// texts and memory that the call gave can be read. A sanitizer sees accesses past the end, because all memory has the
// size that the call is told. At the end, everything is freed in the order that the input chose.
#include <safetensors/c.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "c_api_files.h"
#include "input.h"
#include "require.h"

namespace fuzz {
namespace {

class Session {
 public:
  explicit Session(Input& in) : in_(in), files_(Files::get()) { files_.restore(); }
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;
  ~Session() {
    while (free_one(in_.byte())) {
    }
    require(released_ == owed_, "release is called once for each source and memory that was taken over");
  }
  void call(std::uint8_t which);

 private:
  // --- What a call is given ---

  [[nodiscard]] bool rare() { return in_.byte() >= 250; }
  std::uint64_t number() {
    const std::uint8_t kind = in_.byte();
    if (kind < 200) return kind % 20;
    if (kind < 235) return ~std::uint64_t{0} - (kind - 220U);
    return in_.u64() >> in_.up_to(63);
  }
  std::int32_t enumerator(int count) { return rare() ? static_cast<std::int32_t>(in_.u64()) : in_.byte() % count; }
  template <class T>
  T* memory(std::size_t count) {
    memory_.emplace_back(new (std::align_val_t{alignof(std::max_align_t)}) unsigned char[count * sizeof(T)]());
    return reinterpret_cast<T*>(memory_.back().get());
  }
  struct Text {
    const char* data;
    std::size_t length;
  };
  Text text() {
    if (rare()) return {nullptr, in_.up_to(2)};
    const std::string given(files_.bytes(in_.byte(), in_));
    const bool ends = in_.byte() % 4 == 0;
    char* const copy = memory<char>(given.size() + (ends ? 1 : 0));
    std::copy(given.begin(), given.end(), copy);
    return {copy, ends ? SAFETENSORS_NUL_TERMINATED : given.size()};
  }
  const char* path() {
    if (rare()) return nullptr;
    const std::string given = files_.path(in_.byte());
    char* const copy = memory<char>(given.size() + 1);
    std::copy(given.begin(), given.end(), copy);
    return copy;
  }
  // A copy of a struct, with its size or another one.
  template <class T>
  T* sized(T given) {
    if (rare()) return nullptr;
    std::uint64_t size = sizeof(T);
    if (rare()) size = std::array<std::uint64_t, 5>{0, size - 1, size + 8, 4096, ~std::uint64_t{0}}[in_.byte() % 5];
    auto* const made = memory<unsigned char>(static_cast<std::size_t>(std::clamp<std::uint64_t>(size, 8, 4096)));
    if (size > sizeof(T) && size <= 4096) made[size - 1] = in_.byte() % 2;
    std::memcpy(made, &given, std::min<std::size_t>(sizeof(T), std::clamp<std::uint64_t>(size, 8, 4096)));
    std::memcpy(made, &size, sizeof size);
    return reinterpret_cast<T*>(made);
  }
  template <class T>
  T* chosen(std::vector<T*>& pool) {
    return pool.empty() || rare() ? nullptr : pool[in_.byte() % pool.size()];
  }
  safetensors_dim* dims(std::size_t count) {
    auto* const made = memory<safetensors_dim>(count);
    for (std::size_t i = 0; i < count; ++i)
      made[i] = {enumerator(5), rare() ? 1U : 0U, static_cast<std::int64_t>(number()),
                 in_.byte() % 3 == 0 ? SAFETENSORS_DIM_NONE : static_cast<std::int64_t>(number()),
                 static_cast<std::int64_t>(in_.byte() % 5) - 2};
    return made;
  }
  const safetensors_request* request() {
    safetensors_request made = SAFETENSORS_REQUEST_INIT;
    made.slice_count = in_.up_to(3);
    made.slice = dims(made.slice_count);
    if (in_.byte() % 2 == 0) {
      made.destination_size = std::array<std::size_t, 6>{0, 12, 24, 48, 60, 4096}[in_.byte() % 6];
      made.destination = memory<char>(made.destination_size);
    }
    made.stride_count = in_.byte() % 4 == 0 ? in_.up_to(3) : 0;
    auto* const strides = memory<std::uint64_t>(made.stride_count);
    for (std::size_t i = 0; i < made.stride_count; ++i) strides[i] = number();
    made.strides = strides;
    made.cast = in_.byte() % 2 == 0 ? 0 : enumerator(24);
    if (rare()) made.on_device = 1, made.device = enumerator(3);
    return sized(made);
  }
  const safetensors_open_options* open_options() {
    safetensors_open_options made = SAFETENSORS_OPEN_OPTIONS_INIT;
    made.access = enumerator(3);
    made.accept = rare() ? static_cast<std::uint32_t>(in_.u64()) : in_.byte() % 8;
    made.max_header_bytes = rare() ? number() : 0;
    made.threads = in_.byte() % 3;
    made.user = this;
    if (rare())
      made.cancelled = [](void* self) -> std::int32_t { return static_cast<Session*>(self)->in_.byte() > 200; };
    return sized(made);
  }
  static std::int32_t progress(void* self, std::uint64_t completed, std::uint64_t total) {
    require(completed <= total, "progress is at most the total");
    return static_cast<Session*>(self)->in_.byte() > 250 ? 1 : 0;
  }
  const safetensors_read_options* read_options() {
    safetensors_read_options made = SAFETENSORS_READ_OPTIONS_INIT;
    made.memory_limit = number();
    made.threads = in_.byte() % 3;
    made.cache = enumerator(5);
    made.progress = in_.byte() % 2 == 0 ? progress : nullptr;
    made.user = this;
    return sized(made);
  }
  safetensors_metadata* metadata(std::size_t count) {
    auto* const made = memory<safetensors_metadata>(count);
    for (std::size_t i = 0; i < count; ++i) {
      const Text key = text();
      const Text value = text();
      made[i] = {key.data, key.length, value.data, value.length};
    }
    return made;
  }
  const safetensors_write_options* write_options() {
    safetensors_write_options made = SAFETENSORS_WRITE_OPTIONS_INIT;
    made.max_shard_size = in_.byte() % 2 == 0 ? 0 : number();
    made.stem = in_.byte() % 2 == 0 ? "m" : path();
    made.metadata_count = in_.up_to(2);
    made.metadata = metadata(made.metadata_count);
    made.metadata_slack = number() % 1000;
    made.data_alignment = rare() ? static_cast<std::uint32_t>(number()) : 0;
    made.durability = rare() ? enumerator(3) : SAFETENSORS_DURABILITY_NONE;
    made.new_only = in_.byte() % 2;
    made.edit_in_place = in_.byte() % 2;
    made.progress = in_.byte() % 2 == 0 ? progress : nullptr;
    made.user = this;
    return sized(made);
  }
  const safetensors_tensor_data* tensors(std::size_t count) {
    auto* const made = memory<safetensors_tensor_data>(count);
    for (std::size_t i = 0; i < count; ++i) {
      static constexpr std::array<std::uint64_t, 3> kShape = {2, 3, 0};
      const Text name = text();
      const Text data = text();
      const std::size_t size = data.length == SAFETENSORS_NUL_TERMINATED ? 0 : data.length;
      made[i] = {name.data, name.length, enumerator(23), 0, kShape.data(), in_.up_to(3), data.data, size};
      if (in_.byte() % 2 == 0)
        made[i].dtype = SAFETENSORS_DTYPE_F32, made[i].rank = 2, made[i].data = memory<char>(24), made[i].size = 24;
    }
    return made;
  }
  safetensors_source* source();

  // --- What a call must do ---

  safetensors_error* error() {
    std::memset(&error_, 0x5a, sizeof error_);
    with_error_ = in_.byte() < 240;
    return with_error_ ? &error_ : nullptr;
  }
  safetensors_status done(safetensors_status status) {
    require(std::string_view(safetensors_status_name(status)) != "unknown", "the status is a code");
    if (!with_error_) return status;
    require(error_.code == status, "the error has the status");
    require(std::memchr(error_.message, 0, sizeof error_.message) != nullptr, "the message ends");
    require(std::memchr(error_.path, 0, sizeof error_.path) != nullptr, "the path ends");
    require((error_.message[0] == '\0') == (status == SAFETENSORS_OK), "a message says what failed");
    return status;
  }
  // A call that makes a handle. It is a reference, because the call may be evaluated after it.
  template <class T>
  bool made(safetensors_status status, T*& handle, std::vector<T*>& pool) {
    require(handle != reinterpret_cast<T*>(1), "the result is set");
    if (done(status) != SAFETENSORS_OK) require(handle == nullptr, "the result is NULL after a failure");
    if (handle != nullptr) pool.push_back(handle);
    return handle != nullptr;
  }
  void look_at(const void* data, std::size_t size) {
    for (std::size_t i = 0; i < size; ++i) sum_ = sum_ + static_cast<const unsigned char*>(data)[i];
  }
  bool free_one(std::uint8_t which);
  template <class T>
  static bool free_of(std::vector<T*>& pool, std::uint8_t which, void (*free)(T*)) {
    if (pool.empty()) return false;
    std::swap(pool[which % pool.size()], pool.back());
    free(pool.back());
    pool.pop_back();
    return true;
  }
  void call_model(std::uint8_t which);
  void call_plan(std::uint8_t which);
  void call_write(std::uint8_t which);
  void call_plain(std::uint8_t which);

  Input& in_;
  Files& files_;
  std::vector<safetensors_model*> models_;
  std::vector<safetensors_array*> arrays_;
  std::vector<safetensors_plan*> plans_;
  std::vector<safetensors_stream*> streams_;
  std::vector<safetensors_writer*> writers_;
  struct Delete {
    void operator()(unsigned char* bytes) const {
      ::operator delete[](bytes, std::align_val_t{alignof(std::max_align_t)});
    }
  };
  std::deque<std::unique_ptr<unsigned char, Delete>> memory_;
  safetensors_error error_;
  bool with_error_ = false;
  volatile unsigned sum_ = 0;
  std::uint64_t released_ = 0, owed_ = 0;
};

// Its functions are called with threads of their own, so they decide by the offset, not by the input.
safetensors_source* Session::source() {
  safetensors_source made = SAFETENSORS_SOURCE_INIT;
  made.user = this;
  made.size = [](void*, std::uint64_t* size, safetensors_error*) -> safetensors_status {
    *size = Files::get().whole().size();
    return SAFETENSORS_OK;
  };
  made.read_at = [](void*, std::uint64_t offset, void* to, std::size_t capacity, std::size_t* count,
                    safetensors_error*) -> safetensors_status {
    const std::string& bytes = Files::get().whole();
    const auto from = static_cast<std::size_t>(std::min<std::uint64_t>(offset, bytes.size()));
    *count = std::min({capacity, bytes.size() - from, std::size_t{77}});
    if (*count != 0) std::memcpy(to, bytes.data() + from, *count);
    return SAFETENSORS_OK;
  };
  if (rare())  // fails with a number that is not a code, and a message that does not end
    made.read_at = [](void*, std::uint64_t, void*, std::size_t, std::size_t*, safetensors_error* error) {
      std::memset(error->message, 'e', sizeof error->message);
      return safetensors_status{54321};
    };
  if (rare())  // lies
    made.read_at = [](void*, std::uint64_t, void*, std::size_t capacity, std::size_t* count, safetensors_error*) {
      *count = capacity + 1;
      return safetensors_status{SAFETENSORS_OK};
    };
  made.release = [](void* self) { ++static_cast<Session*>(self)->released_; };
  made.one_thread_at_a_time = in_.byte() % 2;
  made.request_bytes = number();
  return sized(made);
}

bool Session::free_one(std::uint8_t which) {
  switch (which % 5) {
    case 0:
      if (free_of(models_, which, safetensors_model_free)) return true;
      [[fallthrough]];
    case 1:
      if (free_of(arrays_, which, safetensors_array_free)) return true;
      [[fallthrough]];
    case 2:
      if (free_of(plans_, which, safetensors_plan_free)) return true;
      [[fallthrough]];
    case 3:
      if (free_of(streams_, which, safetensors_stream_free)) return true;
      [[fallthrough]];
    default:
      return free_of(writers_, which, safetensors_writer_free) || (which % 5 != 0 && free_one(0));
  }
}

void Session::call_model(std::uint8_t which) {
  auto* model = reinterpret_cast<safetensors_model*>(1);
  auto* array = reinterpret_cast<safetensors_array*>(1);
  safetensors_model* const old = which < 5 ? nullptr : chosen(models_);
  const Text name = text();
  switch (which) {
    case 0:
      made(safetensors_model_open(path(), open_options(), &model, error()), model, models_);
      break;
    case 1: {
      const char* const paths[] = {path(), path()};
      made(safetensors_model_open_paths(paths, in_.up_to(2), open_options(), &model, error()), model, models_);
      break;
    }
    case 2:
      made(safetensors_model_from_fd(files_.descriptor(in_.up_to(4)), open_options(), &model, error()), model, models_);
      break;
    case 3: {
      const auto release = [](void* self) { ++static_cast<Session*>(self)->released_; };
      const std::size_t size = name.length == SAFETENSORS_NUL_TERMINATED ? 0 : name.length;
      const auto* options = open_options();
      if (made(safetensors_model_from_memory(name.data, size, release, this, options, &model, error()), model, models_))
        ++owed_;
      break;
    }
    case 4: {
      const safetensors_source* const from = source();
      if (made(safetensors_model_from_source(from, open_options(), &model, error()), model, models_)) ++owed_;
      break;
    }
    case 5: {
      auto* const info = sized(safetensors_model_info SAFETENSORS_MODEL_INFO_INIT);
      if (done(safetensors_model_get_info(old, info, error())) == SAFETENSORS_OK)
        look_at(info->index_name, info->index_name_length), look_at(info->index_metadata, info->index_metadata_length);
      break;
    }
    case 6: {
      auto* const file = sized(safetensors_file SAFETENSORS_FILE_INIT);
      if (done(safetensors_model_get_file(old, number(), file, error())) == SAFETENSORS_OK)
        look_at(file->path, std::strlen(file->path) + 1);
      break;
    }
    case 7:
    case 8: {
      safetensors_metadata pair = {"", 1, "", 1};
      const std::uint64_t file = in_.byte() % 2;
      const safetensors_status status =
          which == 7 ? safetensors_model_get_metadata(old, file, number(), &pair, error())
                     : safetensors_model_find_metadata(old, file, name.data, name.length, &pair, error());
      if (done(status) != SAFETENSORS_OK) require(!pair.key && !pair.value_length, "results are NULL after a failure");
      look_at(pair.key, pair.key_length), look_at(pair.value, pair.value_length);
      break;
    }
    case 9:
    case 10: {
      auto* const tensor = sized(safetensors_tensor SAFETENSORS_TENSOR_INIT);
      const safetensors_status status =
          which == 9 ? safetensors_model_get_tensor(old, number(), tensor, error())
                     : safetensors_model_find_tensor(old, name.data, name.length, tensor, error());
      if (done(status) != SAFETENSORS_OK) break;
      look_at(tensor->name, tensor->name_length), look_at(tensor->dtype_name, tensor->dtype_name_length);
      look_at(tensor->shape, tensor->rank * sizeof *tensor->shape), look_at(tensor->path, std::strlen(tensor->path));
      break;
    }
    case 11: {
      const std::size_t capacity = in_.up_to(3);
      std::size_t rank = 1;
      std::uint64_t nbytes = 1;
      const safetensors_status status = safetensors_model_measure(
          old, name.data, name.length, request(), memory<std::uint64_t>(capacity), capacity, &rank, &nbytes, error());
      if (done(status) != SAFETENSORS_OK) require(nbytes == 0, "results are 0 after a failure");
      break;
    }
    case 12:
      made(safetensors_model_view(old, name.data, name.length, enumerator(2), &array, error()), array, arrays_);
      break;
    default:
      made(safetensors_model_read(old, name.data, name.length, request(), &array, error()), array, arrays_);
  }
}

void Session::call_plan(std::uint8_t which) {
  auto* plan = reinterpret_cast<safetensors_plan*>(1);
  auto* stream = reinterpret_cast<safetensors_stream*>(1);
  safetensors_plan* const old = which == 0 ? nullptr : chosen(plans_);
  safetensors_stream* const running = which < 6 ? nullptr : chosen(streams_);
  std::uint64_t count = 1, nbytes = 1;
  switch (which) {
    case 0:
      made(safetensors_plan_create(&plan, error()), plan, plans_);
      break;
    case 1:
    case 2: {
      const Text name = text();
      done(safetensors_plan_add(old, chosen(models_), name.data, name.length, request(), error()));
      break;
    }
    case 3:
      if (done(safetensors_plan_get_size(old, &count, &nbytes, error())))
        require(!count && !nbytes, "0 after a failure");
      break;
    case 4: {
      if (old) (void)safetensors_plan_get_size(old, &count, nullptr, nullptr);
      if (rare()) count = in_.up_to(3);
      auto** const arrays = memory<safetensors_array*>(static_cast<std::size_t>(count));
      auto* const report = in_.byte() % 2 == 0 ? nullptr : sized(safetensors_read_report SAFETENSORS_READ_REPORT_INIT);
      const auto* const options = read_options();
      const auto status = done(safetensors_plan_execute(old, options, rare() ? nullptr : arrays,
                                                        static_cast<std::size_t>(count), report, error()));
      for (std::size_t i = 0; i < count; ++i) {
        require(status == SAFETENSORS_OK || arrays[i] == nullptr, "the arrays are NULL after a failure");
        if (arrays[i] != nullptr) arrays_.push_back(arrays[i]);
      }
      break;
    }
    case 5:
      made(safetensors_plan_stream(old, read_options(), &stream, error()), stream, streams_);
      break;
    case 6: {
      auto* array = reinterpret_cast<safetensors_array*>(1);
      made(safetensors_stream_next(running, &count, &array, error()), array, arrays_);
      break;
    }
    case 7:
      done(
          safetensors_stream_get_report(running, sized(safetensors_read_report SAFETENSORS_READ_REPORT_INIT), error()));
      break;
    default:
      done(safetensors_stream_cancel(running, error()));
  }
}

void Session::call_write(std::uint8_t which) {
  auto* array = reinterpret_cast<safetensors_array*>(1);
  auto* writer = reinterpret_cast<safetensors_writer*>(1);
  const std::size_t count = in_.up_to(3);
  safetensors_writer* const old = which < 4 ? nullptr : chosen(writers_);
  const Text name = text();
  const Text data = text();
  const std::size_t size = data.length == SAFETENSORS_NUL_TERMINATED ? 0 : data.length;
  switch (which) {
    case 0:
      done(safetensors_save(path(), tensors(count), count, write_options(), error()));
      break;
    case 1:
      made(safetensors_serialize(tensors(count), count, write_options(), &array, error()), array, arrays_);
      break;
    case 2:
      done(safetensors_edit_metadata(path(), metadata(count), count, write_options(), error()));
      break;
    case 3:
      made(safetensors_writer_create(path(), tensors(count), count, write_options(), &writer, error()), writer,
           writers_);
      break;
    case 4:
      done(safetensors_writer_write(old, name.data, name.length, number(), data.data, size, error()));
      break;
    case 5:
      done(safetensors_writer_write_slice(old, name.data, name.length, dims(count), count, data.data, size, error()));
      break;
    case 6:
      done(safetensors_writer_copy(old, name.data, name.length, chosen(models_), name.data, name.length, error()));
      break;
    default:
      done(safetensors_writer_commit(old, error()));
  }
}

void Session::call_plain(std::uint8_t which) {
  const std::size_t capacity = in_.up_to(40);
  const Text given = text();
  std::size_t count = 1;
  switch (which) {
    case 0: {
      const std::size_t length = safetensors_printable(given.data, given.length, memory<char>(capacity), capacity);
      require(length < 100'000, "the length of a text");
      break;
    }
    case 1:
      safetensors_error_text(rare() ? nullptr : &error_, memory<char>(capacity), capacity);
      break;
    case 2: {
      const safetensors_dtype dtype = safetensors_dtype_parse(given.data, given.length);
      require((dtype == 0) == (safetensors_dtype_name(dtype) == nullptr), "a dtype has a name");
      require((dtype == 0) == (safetensors_dtype_bits(dtype) == 0), "a dtype has bits");
      break;
    }
    case 3:
      require(safetensors_abi_version() == SAFETENSORS_ABI_VERSION, "the ABI version");
      require(std::strlen(safetensors_version_string()) < 100, "a static text");
      break;
    case 4:
      done(safetensors_slice_parse(given.data, given.length, memory<safetensors_dim>(capacity), capacity, &count,
                                   error()));
      break;
    case 5: {
      auto* const info = sized(safetensors_array_info SAFETENSORS_ARRAY_INFO_INIT);
      if (done(safetensors_array_get_info(chosen(arrays_), info, error())) == SAFETENSORS_OK)
        look_at(info->data, info->nbytes), look_at(info->shape, info->rank * sizeof *info->shape);
      break;
    }
    case 6: {
      safetensors_dl_managed_tensor* managed = nullptr;
      if (done(safetensors_array_to_dlpack(chosen(arrays_), &managed, error())) == SAFETENSORS_OK)
        managed->deleter(managed);
      break;
    }
    default: {
      safetensors_dl_unversioned_tensor* managed = nullptr;
      if (done(safetensors_array_to_unversioned_dlpack(chosen(arrays_), &managed, error())) == SAFETENSORS_OK)
        managed->deleter(managed);
    }
  }
}

void Session::call(std::uint8_t which) {
  which %= 48;
  if (which < 14)
    call_model(which);
  else if (which < 23)
    call_plan(static_cast<std::uint8_t>(which - 14));
  else if (which < 31)
    call_write(static_cast<std::uint8_t>(which - 23));
  else if (which < 39)
    call_plain(static_cast<std::uint8_t>(which - 31));
  else if (which < 45)
    call_model(static_cast<std::uint8_t>(which < 42 ? 0 : 13));  // most calls need a model or an array
  else
    free_one(which);
}

}  // namespace
}  // namespace fuzz

int LLVMFuzzerTestOneInput(const unsigned char* data, std::size_t size) {
  constexpr std::uint64_t kMostCalls = 200;
  fuzz::Input in(data, size);
  fuzz::Session session(in);
  for (std::uint64_t i = 0; i < kMostCalls && !in.rest().empty(); ++i) session.call(in.byte());
  return 0;
}
