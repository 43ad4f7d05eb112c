// A Source whose functions are C callbacks: checks the numbers that they return, and keeps their errors.
#include "c/source.h"

namespace safetensors::c {
namespace {

// The error of a callback that returned a status. May throw std::bad_alloc.
Error said(safetensors_status status, const safetensors_error& error, const char* callback) {
  const bool is_code = status > 0 && status <= 0xFFFF &&
                       std::string_view(to_string(static_cast<Errc>(status))) != to_string(static_cast<Errc>(0xFFFF));
  Error result;
  result.code = is_code ? static_cast<Errc>(status) : Errc::read_failed;
  result.os_error = error.os_error;
  result.offset = error.offset;
  result.message.assign(error.message, strnlen(error.message, sizeof error.message));
  result.path.assign(error.path, strnlen(error.path, sizeof error.path));
  if (result.message.empty())
    result.message = std::string("the source's ") + callback + " returned status " + std::to_string(status);
  return result;
}

// Runs a callback and gives it an empty error to fill. Returns the count that the callback stored, at most `max`.
template <class Count, class Call>
Result<Count> call(const char* callback, Count max, Call&& run) {
  safetensors_error error;
  report_success(&error);
  Count count = 0;
  const safetensors_status status = run(&count, &error);
  if (status != SAFETENSORS_OK) return said(status, error, callback);
  if (count > max)
    return make_error(Errc::read_failed, std::string("the source's ") + callback + " gave " + std::to_string(count) +
                                             " bytes, expected at most " + std::to_string(max));
  return count;
}

}  // namespace

CallbackSource::~CallbackSource() {
  if (owned_ && callbacks_.release) callbacks_.release(callbacks_.user);
}

Result<std::uint64_t> CallbackSource::size() const {
  return call<std::uint64_t>("size", UINT64_MAX, [&](std::uint64_t* size, safetensors_error* error) {
    return callbacks_.size(callbacks_.user, size, error);
  });
}

Result<std::size_t> CallbackSource::read_at(std::uint64_t offset, Span<std::byte> destination) const {
  return call<std::size_t>("read_at", destination.size(), [&](std::size_t* count, safetensors_error* error) {
    return callbacks_.read_at(callbacks_.user, offset, destination.data(), destination.size(), count, error);
  });
}

Source::Memory CallbackSource::memory(std::uint64_t offset, std::uint64_t size) const {
  if (!callbacks_.memory || size > SIZE_MAX) return {};
  const void* memory = callbacks_.memory(callbacks_.user, offset, size);
  if (!memory) return {};
  return {{static_cast<const std::byte*>(memory), static_cast<std::size_t>(size)}, weak_from_this().lock()};
}

}  // namespace safetensors::c
