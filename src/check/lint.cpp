// Looks for things that are valid but unwise. One table has the name, the severity and the advice of each code. The
// rules of headers count tensors per code in one pass, so a file with 100,000 bad tensors has one finding per code.
#include "check/lint.h"

#include <algorithm>
#include <array>
#include <iterator>

#include "base/error.h"
#include "base/printable.h"

namespace safetensors {
namespace check {
namespace {

constexpr std::size_t kLongName = 256;                            // bytes
constexpr std::uint64_t kLargeMetadata = std::uint64_t{1} << 20;  // bytes
constexpr std::size_t kMaxRank = 32;                              // the limit of NumPy 1
constexpr std::uint64_t kDataAlignment = 8;                       // of the files that the reference writes

struct LintRule {
  LintCode code;
  LintSeverity severity;
  std::string_view name;
  std::string_view advice;
};

constexpr LintRule kRules[] = {
    {LintCode::leading_whitespace, LintSeverity::error, "leading_whitespace",
     "write the file again: strict readers refuse it"},
    {LintCode::foreign_signature, LintSeverity::warning, "foreign_signature",
     "do not trust the file: programs that guess its kind run or unpack other content"},
    {LintCode::embedded_file, LintSeverity::warning, "embedded_file",
     "look at the bytes with `cat`: a file may be hidden in the tensor"},
    {LintCode::misaligned, LintSeverity::warning, "misaligned",
     "loaders must copy these tensors: `safetensors repack` writes a file that needs no copy"},
    {LintCode::data_alignment, LintSeverity::warning, "data_alignment",
     "`safetensors repack` writes a file whose data begins at a multiple of 64"},
    {LintCode::invisible_name, LintSeverity::warning, "invisible_name",
     "rename the tensors: what a reader sees is not what a program compares"},
    {LintCode::empty_name, LintSeverity::warning, "empty_name", "name the tensor"},
    {LintCode::path_name, LintSeverity::warning, "path_name",
     "rename the tensors: a program that makes a file per tensor could write outside of its folder"},
    {LintCode::high_rank, LintSeverity::warning, "high_rank",
     "reshape the tensors: NumPy 1 has 32 dimensions at most, torch and NumPy 2 have 64"},
    {LintCode::metadata_format, LintSeverity::warning, "metadata_format",
     "set it with `safetensors meta set FILE format=pt`: transformers before version 5 refuses the file"},
    {LintCode::invisible_metadata, LintSeverity::warning, "invisible_metadata", "remove the keys with `meta rm`"},
    {LintCode::unindexed_tensor, LintSeverity::warning, "unindexed_tensor",
     "add the tensors to the index, or remove them: loaders skip them"},
    {LintCode::stray_file, LintSeverity::warning, "stray_file",
     "remove the files, or add their tensors to the index: they are often left from another model"},
    {LintCode::total_size, LintSeverity::warning, "total_size",
     "write the index again: programs use the number to choose devices"},
    {LintCode::order, LintSeverity::note, "order", "nothing, unless two files with equal tensors must be equal"},
    {LintCode::padding, LintSeverity::note, "padding",
     "nothing, if the space is kept for metadata or for the alignment of the data"},
    {LintCode::long_name, LintSeverity::note, "long_name", "rename the tensors, if a program cuts the names"},
    {LintCode::large_metadata, LintSeverity::note, "large_metadata",
     "keep large texts in a file of their own: every reader reads all metadata"},
    {LintCode::empty_tensor, LintSeverity::note, "empty_tensor", "nothing, if the program that wrote it expects it"},
    {LintCode::wide_dtype, LintSeverity::note, "wide_dtype", "convert the tensors, if F32 is enough"},
    {LintCode::mixed_metadata, LintSeverity::note, "mixed_metadata",
     "compare them with `meta ls`: loaders take the metadata of one file"},
    {LintCode::duplicate_data, LintSeverity::note, "duplicate_data",
     "store shared tensors once, as save_model of the Python package does"},
};

const LintRule* rule_of(LintCode code) noexcept {
  const auto index = static_cast<std::size_t>(code);
  return index < std::size(kRules) ? &kRules[index] : nullptr;
}

constexpr bool in_order_of_codes() {
  for (std::size_t i = 0; i < std::size(kRules); ++i) {
    if (static_cast<std::size_t>(kRules[i].code) != i) return false;
  }
  return true;
}
static_assert(in_order_of_codes());

// The alignment that a CPU needs for an element, in bytes. C64 is a pair of F32.
std::uint64_t element_alignment(Dtype dtype) noexcept {
  return dtype == Dtype::C64 ? 4 : std::max(1U, bits(dtype) / 8);
}

// Returns whether a program that uses the name as a path would leave its folder.
bool leads_out(std::string_view name) noexcept {
  const bool drive = name.size() > 1 && name[1] == ':';
  if (name.starts_with('/') || name.starts_with('\\') || drive) return true;
  for (std::string_view rest = name;;) {
    const std::size_t end = rest.find_first_of("/\\");
    if (rest.substr(0, end) == "..") return true;
    if (end == std::string_view::npos) return false;
    rest.remove_prefix(end + 1);
  }
}

std::string counted_tensors(std::uint64_t count) {
  return std::to_string(count) + (count == 1 ? " tensor" : " tensors");
}

// Counts the tensors that break one rule.
struct Tally {
  std::uint64_t count = 0;
  std::uint64_t bytes = 0;
  std::string_view first;

  void add(const TensorInfo& tensor) noexcept {
    if (count++ == 0) first = tensor.name;
    bytes += tensor.nbytes();
  }
};

class Tallies {
 public:
  Tally& operator[](LintCode code) noexcept { return tallies_[static_cast<std::size_t>(code)]; }
  // text: the predicate of the tensors, such as "have no elements".
  void report(LintCode code, std::string_view text, LintReport& report) {
    const Tally& tally = (*this)[code];
    if (tally.count == 0) return;
    report.add(code, counted_tensors(tally.count) + " " + std::string(text), tally.first, tally.count, tally.bytes);
  }

 private:
  std::array<Tally, std::size(kRules)> tallies_{};
};

void tally(const TensorInfo& tensor, Tallies& tallies) {
  const std::string_view name = tensor.name;
  if (tensor.file_offset % element_alignment(tensor.dtype) != 0 && tensor.nbytes() != 0)
    tallies[LintCode::misaligned].add(tensor);
  if (name.empty()) tallies[LintCode::empty_name].add(tensor);
  if (base::has_invisible(name)) tallies[LintCode::invisible_name].add(tensor);
  if (leads_out(name)) tallies[LintCode::path_name].add(tensor);
  if (name.size() > kLongName) tallies[LintCode::long_name].add(tensor);
  if (tensor.shape.size() > kMaxRank) tallies[LintCode::high_rank].add(tensor);
  if (tensor.nbytes() == 0) tallies[LintCode::empty_tensor].add(tensor);
  if (tensor.dtype == Dtype::F64 || tensor.dtype == Dtype::C64) tallies[LintCode::wide_dtype].add(tensor);
}

void lint_metadata(Metadata metadata, LintReport& report) {
  if (!metadata.present()) return;
  std::uint64_t invisible = 0;
  std::uint64_t bytes = 0;
  std::string first;
  for (const auto& [key, value] : metadata) {
    bytes += key.size() + value.size();
    if (base::has_invisible(key) && invisible++ == 0) first = key;
  }
  static constexpr std::string_view kFormats[] = {"pt", "tf", "flax", "mlx", "np", "pd"};
  const auto format = metadata.find("format");
  if (!format) {
    report.add(LintCode::metadata_format, "the metadata has no key `format`");
  } else if (std::ranges::find(kFormats, *format) == std::end(kFormats)) {
    report.add(LintCode::metadata_format, "the metadata has the format `" + std::string(format->substr(0, kLongName)) +
                                              "`, known are pt, tf, flax, mlx, np and pd");
  }
  if (invisible != 0) {
    report.add(LintCode::invisible_metadata,
               "metadata keys with invisible characters: `" + first.substr(0, kLongName) + "`", {}, invisible);
  }
  if (bytes > kLargeMetadata)
    report.add(LintCode::large_metadata, std::to_string(bytes) + " bytes of metadata", {}, metadata.size(), bytes);
}

void lint_set(const Checkpoint& checkpoint, const std::vector<std::string>& stray, const LintOptions& options,
              LintReport& report) {
  Tally unindexed;
  for (const Tensor& tensor : checkpoint.unindexed_tensors()) {
    if (looks_at(options, tensor.info())) unindexed.add(tensor.info());
  }
  if (unindexed.count != 0)
    report.add(LintCode::unindexed_tensor, counted_tensors(unindexed.count) + " not in the index", unindexed.first,
               unindexed.count, unindexed.bytes);
  if (!stray.empty())
    report.add(LintCode::stray_file, "files that are not in the index, such as `" + stray.front() + "`", {},
               stray.size());
  std::uint64_t bytes = 0;
  for (const Tensor& tensor : checkpoint.tensors()) bytes += tensor.nbytes();
  const auto total = checkpoint.index_total_size();
  if (total && *total != bytes)
    report.add(LintCode::total_size,
               "total_size of the index is " + std::to_string(*total) + ", the tensors have " + std::to_string(bytes) +
                   " bytes",
               {}, 1, bytes);
  const std::span<const File> files = checkpoint.files();
  const auto differ = std::ranges::count_if(
      files, [&](const File& file) { return !std::ranges::equal(file.metadata(), files[0].metadata()); });
  if (differ != 0)
    report.add(LintCode::mixed_metadata, "files with other metadata than the first file", {},
               static_cast<std::uint64_t>(differ));
}

Status lint_file(const File& file, const LintOptions& options, LintReport& report) {
  lint_header(file.header(), options, report);
  if (!options.peek) return {};
  if (Status status = lint_bytes(file, options, report); !status)
    return base::with_path(std::move(status).error(), file.path());
  return {};
}

Result<std::vector<LintFinding>> sorted(LintReport report) {
  std::ranges::stable_sort(report.findings, [](const LintFinding& a, const LintFinding& b) {
    const std::size_t first = a.file.value_or(SIZE_MAX);
    const std::size_t second = b.file.value_or(SIZE_MAX);
    return first != second ? first < second : a.code < b.code;
  });
  return std::move(report.findings);
}

}  // namespace

void lint_header(const Header& header, const LintOptions& options, LintReport& report) {
  Tallies tallies;
  const TensorInfo* before = nullptr;
  for (const TensorInfo& tensor : header.tensors()) {
    if (!looks_at(options, tensor)) continue;
    tally(tensor, tallies);
    // Tensors without bytes may be anywhere in the order.
    if (tensor.nbytes() == 0) continue;
    const bool sorted = before == nullptr || rank(before->dtype) > rank(tensor.dtype) ||
                        (before->dtype == tensor.dtype && before->name < tensor.name);
    if (!sorted) tallies[LintCode::order].add(tensor);
    before = &tensor;
  }
  if (header.leading_whitespace()) report.add(LintCode::leading_whitespace, "white space before the header's `{`");
  const Tally& misaligned = tallies[LintCode::misaligned];
  tallies.report(LintCode::misaligned,
                 "not at a multiple of the element's size: loaders copy " + std::to_string(misaligned.bytes) + " bytes",
                 report);
  if (header.data_start() % kDataAlignment != 0 && header.data_bytes() != 0)
    report.add(LintCode::data_alignment,
               "the data begins at byte " + std::to_string(header.data_start()) + ", not at a multiple of 8", {}, 1,
               header.data_bytes());
  tallies.report(LintCode::invisible_name, "with invisible characters in the name", report);
  tallies.report(LintCode::empty_name, "without a name", report);
  tallies.report(LintCode::path_name, "named like a path out of a folder", report);
  tallies.report(LintCode::high_rank, "with over 32 dimensions", report);
  tallies.report(LintCode::order, "not in the order by dtype and name", report);
  tallies.report(LintCode::long_name, "with a name of over 256 bytes", report);
  tallies.report(LintCode::empty_tensor, "without elements", report);
  tallies.report(LintCode::wide_dtype, "in F64 or C64", report);
  lint_metadata(header.metadata(), report);
}

}  // namespace check

inline namespace v0 {

std::string_view to_string(LintCode code) noexcept {
  const check::LintRule* const rule = check::rule_of(code);
  return rule != nullptr ? rule->name : "?";
}

std::string_view to_string(LintSeverity severity) noexcept {
  static constexpr std::string_view kNames[] = {"note", "warning", "error"};
  const auto index = static_cast<std::size_t>(severity);
  return index < std::size(kNames) ? kNames[index] : "?";
}

std::span<const LintCode> all_lint_codes() noexcept {
  static constexpr auto kCodes = [] {
    std::array<LintCode, std::size(check::kRules)> codes{};
    std::ranges::transform(check::kRules, codes.begin(), &check::LintRule::code);
    return codes;
  }();
  return kCodes;
}

LintSeverity severity(LintCode code) noexcept {
  const check::LintRule* const rule = check::rule_of(code);
  return rule != nullptr ? rule->severity : LintSeverity::note;
}

std::string_view advice(LintCode code) noexcept {
  const check::LintRule* const rule = check::rule_of(code);
  return rule != nullptr ? rule->advice : std::string_view();
}

Result<std::vector<LintFinding>> lint(const File& file, const LintOptions& options) noexcept {
  return base::guarded([&]() -> Result<std::vector<LintFinding>> {
    check::LintReport report;
    report.set_file(0);
    if (Status status = check::lint_file(file, options, report); !status) return std::move(status).error();
    if (options.duplicates) {
      if (Status status = check::lint_duplicates(file.tensors(), options, report); !status)
        return std::move(status).error();
    }
    return check::sorted(std::move(report));
  });
}

Result<std::vector<LintFinding>> lint(const Checkpoint& checkpoint, const LintOptions& options) noexcept {
  return base::guarded([&]() -> Result<std::vector<LintFinding>> {
    check::LintReport report;
    for (std::size_t i = 0; i < checkpoint.files().size(); ++i) {
      report.set_file(i);
      if (Status status = check::lint_file(checkpoint.files()[i], options, report); !status)
        return std::move(status).error();
    }
    report.set_file(std::nullopt);
    const Result<std::vector<std::string>> stray = checkpoint.stray_files();
    if (!stray) return stray.error();
    check::lint_set(checkpoint, *stray, options, report);
    if (options.duplicates) {
      if (Status status = check::lint_duplicates(checkpoint.tensors(), options, report); !status)
        return std::move(status).error();
    }
    return check::sorted(std::move(report));
  });
}

}  // namespace v0
}  // namespace safetensors
