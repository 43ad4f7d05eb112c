// Calls every function of the C interface in any order. The arguments are those that the contract allows, and those
// that it promises to refuse: NULL, numbers out of range, structs of the wrong size, callbacks that fail or lie.
//
// generate_c_api.py writes the calls from the headers.
#include "c_api_session.h"

#include <algorithm>
#include <iterator>

namespace fuzz {
namespace {

#include "c_api_calls.inc"

}  // namespace

template <class T>
void Session::free_all(std::vector<T*>& alive) {
  while (!alive.empty()) {
    T* const handle = alive.back();
    alive.pop_back();
    if constexpr (std::is_same_v<T, safetensors_dl_managed_tensor>)
      free_managed(handle);
    else
      free_handle(handle);
  }
}

Session::~Session() {
  std::apply([this](auto&... alive) { (free_all(alive), ...); }, pools_);
  require(released_ == owed_, "release is called once for each call that took the memory over");
}

void Session::end(safetensors_status status) {
  ++calls_;
  const std::string_view name = safetensors_status_name(status);
  check(name != "unknown", "the status is a code");
  if (missing_ && !(unknown_ && status == SAFETENSORS_ERROR_UNSUPPORTED))
    check(status == SAFETENSORS_ERROR_INVALID_ARGUMENT, "NULL where something is needed is invalid_argument");
  if (wrong_) check(status != SAFETENSORS_OK, "a wrong size is refused");
  if (error_ != nullptr) {
    check(error_->code == status, "the error has the status");
    check(std::memchr(error_->message, 0, sizeof error_->message) != nullptr, "the message ends");
    check(std::memchr(error_->path, 0, sizeof error_->path) != nullptr, "the path ends");
    check((error_->message[0] == '\0') == (status == SAFETENSORS_OK), "a message says what failed");
  }
  for (const Out& out : outs_) {
    const auto* const bytes = static_cast<const unsigned char*>(out.value);
    const bool zero = std::all_of(bytes, bytes + out.size, [](unsigned char byte) { return byte == 0; });
    const bool untouched = std::all_of(bytes, bytes + out.size, [](unsigned char byte) { return byte == 0x5a; });
    if (status == SAFETENSORS_OK) check(!untouched, "every result is set");
    if (status != SAFETENSORS_OK && !out.told) check(zero, "results are NULL or 0 after a failure");
  }
  if (status == SAFETENSORS_OK && taken_) taken_();
  if (status == SAFETENSORS_OK && releases_) ++owed_;
  taken_ = nullptr;
}

namespace {

// A callback of a source fails here: with an error, or with a status that is no code.
safetensors_status refuse(std::uint8_t whim, safetensors_error* error) {
  std::memset(error->message, 'e', whim % 2 == 0 ? sizeof error->message : 10);  // with or without a terminating NUL
  return whim % 3 == 0 ? SAFETENSORS_ERROR_READ_FAILED : whim * 1000 + 1;
}

}  // namespace

void Session::callback_size(safetensors_status (*&field)(void*, std::uint64_t*, safetensors_error*)) {
  if (none(true)) return;
  field = [](void* self, std::uint64_t* size, safetensors_error* error) -> safetensors_status {
    const std::uint8_t whim = static_cast<Session*>(self)->whim();
    *size = whim < 240 ? Files::get().whole().size() : std::uint64_t{whim} << 40;
    return whim < 248 ? safetensors_status{SAFETENSORS_OK} : refuse(whim, error);
  };
}

void Session::callback_read_at(safetensors_status (*&field)(void*, std::uint64_t, void*, std::size_t, std::size_t*,
                                                            safetensors_error*)) {
  if (none(true)) return;
  field = [](void* self, std::uint64_t offset, void* destination, std::size_t capacity, std::size_t* count,
             safetensors_error* error) -> safetensors_status {
    const std::uint8_t whim = static_cast<Session*>(self)->whim();
    if (whim >= 250) return refuse(whim, error);
    const std::string& bytes = Files::get().whole();
    const auto from = static_cast<std::size_t>(std::min<std::uint64_t>(offset, bytes.size()));
    *count = std::min({capacity, bytes.size() - from, whim % 2 == 0 ? capacity : std::size_t{7}});
    if (*count != 0) std::memcpy(destination, bytes.data() + from, *count);
    if (whim >= 246) *count = capacity + whim;  // a lie: more than the capacity
    return SAFETENSORS_OK;
  };
}

void Session::callback_memory(const void* (*&field)(void*, std::uint64_t, std::uint64_t)) {
  if (in_.byte() < 128) return;
  field = [](void*, std::uint64_t offset, std::uint64_t size) -> const void* {
    const std::string& bytes = Files::get().whole();
    return offset <= bytes.size() && size <= bytes.size() - offset ? bytes.data() + offset : nullptr;
  };
}

void Session::make(safetensors_file*) {
  safetensors_file* made = nullptr;
  const std::string& bytes = files_.whole();
  if (in_.byte() < 128)
    (void)safetensors_file_from_memory(bytes.data(), bytes.size(), nullptr, nullptr, nullptr, &made, nullptr);
  else
    (void)safetensors_file_open(files_.path(0).c_str(), nullptr, &made, nullptr);
  adopt(made);
}
void Session::make(safetensors_tensor*) {
  safetensors_tensor* made = nullptr;
  if (const auto file = handle<safetensors_file>(false).pointer(); file != nullptr)
    (void)safetensors_file_tensor(file, in_.byte() < 128 ? "a" : "h", 1, &made, nullptr);
  adopt(made);
}
void Session::make(safetensors_array*) {
  safetensors_array* made = nullptr;
  const auto tensor = handle<safetensors_tensor>(false).pointer();
  if (tensor != nullptr) (void)safetensors_tensor_view(tensor, in_.byte() % 2, &made, nullptr);
  adopt(made);
}
void Session::make(safetensors_header*) {
  safetensors_header* made = nullptr;
  const auto file = handle<safetensors_file>(false).pointer();
  if (file != nullptr) (void)safetensors_file_header(file, &made, nullptr);
  adopt(made);
}
void Session::make(safetensors_header_builder*) {
  safetensors_header_builder* made = nullptr;
  (void)safetensors_header_builder_create(&made, nullptr);
  adopt(made);
}
void Session::make(safetensors_slice*) {
  safetensors_slice* made = nullptr;
  (void)safetensors_slice_parse("1:", 2, &made, nullptr);
  adopt(made);
}
void Session::make(safetensors_resolved_slice*) {
  safetensors_resolved_slice* made = nullptr;
  const std::uint64_t shape[] = {2, 3};
  (void)safetensors_slice_resolve(nullptr, SAFETENSORS_DTYPE_F32, shape, 2, &made, nullptr);
  adopt(made);
}
void Session::make(safetensors_checkpoint*) {
  safetensors_checkpoint* made = nullptr;
  (void)safetensors_checkpoint_open(files_.path(8).c_str(), nullptr, &made, nullptr);
  adopt(made);
}
void Session::make(safetensors_read_plan*) {
  safetensors_read_plan* made = nullptr;
  (void)safetensors_read_plan_create(&made, nullptr);
  adopt(made);
  const auto tensor = handle<safetensors_tensor>(false).pointer();
  if (made != nullptr && tensor != nullptr) (void)safetensors_read_plan_add(made, tensor, nullptr, nullptr, nullptr);
}
void Session::make(safetensors_read_result*) {
  safetensors_read_result* made = nullptr;
  const auto plan = handle<safetensors_read_plan>(false).pointer();
  if (plan != nullptr) (void)safetensors_read_plan_execute(plan, nullptr, &made, nullptr);
  adopt(made);
}
void Session::make(safetensors_read_report*) {
  safetensors_read_report* made = nullptr;
  const auto result = handle<safetensors_read_result>(false).pointer();
  if (result != nullptr) (void)safetensors_read_result_report(result, &made, nullptr);
  adopt(made);
}
void Session::make(safetensors_stream*) {
  safetensors_stream* made = nullptr;
  const auto plan = handle<safetensors_read_plan>(false).pointer();
  if (plan != nullptr) (void)safetensors_read_plan_stream(plan, nullptr, &made, nullptr);
  adopt(made);
}
void Session::make(safetensors_writer*) {
  safetensors_writer* made = nullptr;
  const auto header = handle<safetensors_header>(false).pointer();
  if (header != nullptr) (void)safetensors_writer_create(files_.path(12).c_str(), header, nullptr, &made, nullptr);
  adopt(made);
}
void Session::make(safetensors_buffer*) {
  safetensors_buffer* made = nullptr;
  const auto header = handle<safetensors_header>(false).pointer();
  if (header != nullptr) (void)safetensors_header_text(header, &made, nullptr);
  adopt(made);
}
void Session::make(safetensors_checkpoint_layout*) {
  safetensors_checkpoint_layout* made = nullptr;
  const std::uint64_t shape[] = {12};
  const safetensors_layout_tensor tensors[] = {{"a", 1, shape, 1, 0, 0, SAFETENSORS_DTYPE_U8, 0},
                                               {"b", 1, shape, 1, 0, 0, SAFETENSORS_DTYPE_U8, 0}};
  safetensors_checkpoint_layout_options options = SAFETENSORS_CHECKPOINT_LAYOUT_OPTIONS_INIT;
  options.max_shard_size = in_.byte() < 128 ? 12 : 0;
  options.stem = "m";
  (void)safetensors_checkpoint_layout_create(tensors, 2, &options, &made, nullptr);
  adopt(made);
}
void Session::make(safetensors_checkpoint_writer*) {
  safetensors_checkpoint_writer* made = nullptr;
  const auto layout = handle<safetensors_checkpoint_layout>(false).pointer();
  const std::string folder = files_.path(in_.byte() < 128 ? 10 : 12);
  if (layout != nullptr) (void)safetensors_checkpoint_writer_create(folder.c_str(), layout, nullptr, &made, nullptr);
  adopt(made);
}

}  // namespace fuzz

int LLVMFuzzerTestOneInput(const unsigned char* data, std::size_t size) {
  constexpr std::uint64_t kMostCalls = 200;
  fuzz::Input in(data, size);
  fuzz::Session session(in);
  for (std::uint64_t i = 0; i < kMostCalls && !in.rest().empty(); ++i)
    fuzz::kCalls[in.byte() % std::size(fuzz::kCalls)](session);
  return 0;
}
