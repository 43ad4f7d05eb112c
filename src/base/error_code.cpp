// The category of the error codes for std::error_code.
#include <safetensors/error_code.h>

#include <string>

namespace safetensors {
namespace format {
namespace {

class Category final : public std::error_category {
 public:
  const char* name() const noexcept override { return "safetensors"; }
  std::string message(int code) const override { return to_string(static_cast<Errc>(code)); }
  std::error_condition default_error_condition(int code) const noexcept override {
    switch (static_cast<Errc>(code)) {
      case Errc::out_of_memory:
        return std::errc::not_enough_memory;
      case Errc::cancelled:
        return std::errc::operation_canceled;
      case Errc::unsupported:
        return std::errc::not_supported;
      case Errc::invalid_argument:
        return std::errc::invalid_argument;
      case Errc::not_found:
        return std::errc::no_such_file_or_directory;
      default:
        return {code, *this};
    }
  }
};

}  // namespace
}  // namespace format

inline namespace v0 {

const std::error_category& error_category() noexcept {
  static const format::Category category;
  return category;
}

}  // namespace v0
}  // namespace safetensors
