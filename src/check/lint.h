// The parts of lint(). Each part looks at one file, or at the whole model.
#pragma once

#include <safetensors/lint.h>

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

namespace safetensors::check {

// Collects the findings.
class LintReport {
 public:
  // The file of the next findings. nullopt: they are about the whole model.
  void set_file(std::optional<std::size_t> file) noexcept { file_ = file; }
  void add(LintCode code, std::string message, std::string_view tensor = {}, std::uint64_t count = 1,
           std::uint64_t bytes = 0) {
    findings.push_back({.code = code,
                        .file = file_,
                        .tensor = std::string(tensor),
                        .count = count,
                        .bytes = bytes,
                        .message = std::move(message)});
  }

  std::vector<LintFinding> findings;

 private:
  std::optional<std::size_t> file_;
};

// Returns whether lint() looks at the tensor.
[[nodiscard]] inline bool looks_at(const LintOptions& options, const TensorInfo& tensor) noexcept {
  return !options.select || options.select(tensor);
}

// Rules that need only the header.
void lint_header(const Header& header, const LintOptions& options, LintReport& report);
// Rules that read a few bytes. Errors: those of the source, cancelled.
Status lint_bytes(const File& file, const LintOptions& options, LintReport& report);
// Reads tensors whose dtype and shape another tensor has. Errors: those of lint().
Status lint_duplicates(Tensors tensors, const LintOptions& options, LintReport& report);

}  // namespace safetensors::check
