/// @file
/// Finds things in valid files that cost time, break some programs, or mislead.
#pragma once

#include <safetensors/callback.h>
#include <safetensors/checkpoint.h>
#include <safetensors/error.h>
#include <safetensors/file.h>

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace safetensors {
inline namespace v0 {

/// The findings of lint(). New codes may come.
enum class LintCode : std::uint8_t {
  leading_whitespace,  ///< error: white space before the `{`, which the format forbids
  foreign_signature,   ///< warning: other programs recognize the file as a file of another kind
  embedded_file,       ///< warning: a tensor of bytes begins like a file of another kind
  misaligned,          ///< warning: tensors that do not begin at a multiple of the size of their element
  data_alignment,      ///< warning: the data do not begin at a multiple of 8
  invisible_name,      ///< warning: names with control, bidirectional or invisible characters
  empty_name,          ///< warning: a tensor without a name
  path_name,           ///< warning: names that lead out of a folder: "../x", "/x"
  high_rank,           ///< warning: tensors with over 32 dimensions
  metadata_format,     ///< warning: metadata without the key "format", or with an unknown value of it
  invisible_metadata,  ///< warning: metadata keys with control, bidirectional or invisible characters
  unindexed_tensor,    ///< warning: tensors that the index does not name
  stray_file,          ///< warning: safetensors files in the folder that the index does not name
  total_size,          ///< warning: `total_size` of the index is not the size of the tensors
  order,               ///< note: tensors that are not sorted by dtype and name, as the reference writes them
  padding,             ///< note: over 64 spaces at the end of the header
  long_name,           ///< note: names of over 256 bytes
  large_metadata,      ///< note: over 1 MiB of metadata
  empty_tensor,        ///< note: tensors without elements
  wide_dtype,          ///< note: tensors in F64 or C64
  mixed_metadata,      ///< note: files of a model with different metadata
  duplicate_data,      ///< note: tensors with the same dtype, shape and bytes
};

/// The severity of a finding.
enum class LintSeverity : std::uint8_t {
  note,     ///< worth knowing
  warning,  ///< costs time, or some programs fail
  error,    ///< the format forbids it
};

/// Returns the name of a code, such as "misaligned". The memory is static.
[[nodiscard]] SAFETENSORS_API std::string_view to_string(LintCode code) noexcept;
/// Returns "note", "warning" or "error". The memory is static.
[[nodiscard]] SAFETENSORS_API std::string_view to_string(LintSeverity severity) noexcept;
/// Returns all codes in the order of their numbers. The memory is static.
[[nodiscard]] SAFETENSORS_API std::span<const LintCode> all_lint_codes() noexcept;
/// Returns the severity of a code.
[[nodiscard]] SAFETENSORS_API LintSeverity severity(LintCode code) noexcept;
/// Returns one sentence that says what to do, such as "name the tensor". The
/// memory is static.
[[nodiscard]] SAFETENSORS_API std::string_view advice(LintCode code) noexcept;

/// A finding. Each file has at most one finding per code, except `foreign_signature`, `embedded_file` and
/// `duplicate_data`.
struct LintFinding {
  LintCode code = LintCode::misaligned;            ///< what was found
  std::optional<std::size_t> file = std::nullopt;  ///< index of the file; nullopt: the finding is about the whole model
  std::string tensor = {};                         ///< the first tensor, or empty; print it with printable()
  std::uint64_t count = 0;                         ///< number of tensors, keys, files or spaces
  std::uint64_t bytes = 0;                         ///< bytes of these tensors
  std::string message = {};                        ///< the facts in one clause; print it with printable()
};

/// Options of lint().
struct LintOptions {
  /// Read a few bytes of each file, to look for signatures and padding: at most 161 KiB per file and 64 bytes per
  /// tensor, for at most 4096 tensors per file. false: look only at headers.
  bool peek = true;
  /// Read tensors of at least 4096 bytes whose dtype and shape another tensor has, to find equal ones.
  bool duplicates = false;
  /// Called with the number of bytes read for `duplicates` and the total. Runs in the calling thread. Return false to
  /// cancel (Errc::cancelled). Must not throw.
  Callback<bool(std::uint64_t completed, std::uint64_t total)> progress = nullptr;
  /// Runs before each read that `peek` makes, in the calling thread. Return true to cancel (Errc::cancelled). Must not
  /// throw.
  Callback<bool()> cancelled = nullptr;
  /// Returns true for the tensors to check. Findings about files, metadata and the index do not depend on it. Null: all
  /// tensors. Runs in the calling thread. Must not throw.
  Callback<bool(const TensorInfo& tensor)> select = nullptr;
};

/// @{
/// Looks at a file, or at all files of a model and their index:
/// @code
/// for (const LintFinding& finding : lint(Checkpoint::open("llama-7b").value()).value())
///   std::cout << to_string(finding.code) << ": " << printable(finding.message) << '\n';
/// @endcode
///
/// The findings are sorted by file, then by code. Those about the whole model come last. Takes O(n log n) time for n
/// tensors. Errors: cancelled, out_of_memory, those of Tensor::read(), and those of Checkpoint::stray_files().
[[nodiscard]] SAFETENSORS_API Result<std::vector<LintFinding>> lint(const File& file,
                                                                    const LintOptions& options = {}) noexcept;
[[nodiscard]] SAFETENSORS_API Result<std::vector<LintFinding>> lint(const Checkpoint& checkpoint,
                                                                    const LintOptions& options = {}) noexcept;
/// @}

}  // namespace v0
}  // namespace safetensors
