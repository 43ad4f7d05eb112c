// The subcommand cast: a new file or model whose floats or integers have another dtype.
#include "rewrite_request.h"

#include "command.h"
#include "rows.h"
#include "selection.h"
#include "text/text.h"

#include "format/dtype/cast.h"

#include <algorithm>

namespace safetensors::cli {
namespace {

constexpr auto kCastTable = joined(
    {
        {"--to", "DTYPE",
         "the new dtype: f64, f32, f16, bf16, f8_e4m3, f8_e5m2, f8_e4m3fnuz, f8_e5m2fnuz, i8, i16, i32, i64, u8, u16, "
         "u32 or u64. Words such as half, bfloat16, fp8 and int8 are names of them, too",
         nullptr, Values::dtype},
    },
    kChoiceOptions, kModelOptions, kWriteOptions);

// The dtypes that are cast without --from. Those of 8 bits are not among them.
std::vector<Dtype> usual_sources(Dtype to) {
  if (format::castable(Dtype::I64, to)) return {Dtype::I64, Dtype::I32, Dtype::I16, Dtype::U64, Dtype::U32, Dtype::U16};
  return {Dtype::F64, Dtype::F32, Dtype::F16, Dtype::BF16};
}

// A BOOL is no number, and a tensor of one element is a setting, not a weight.
bool holds_small_numbers(const Tensor& tensor) {
  const Dtype dtype = tensor.dtype();
  return dtype != Dtype::BOOL && dtype != Dtype::UNKNOWN && bits(dtype) <= 8 && tensor.numel() > 1;
}

// Returns a text that counts the floats of more than 8 bits that the cast would change, if the input also has numbers
// of at most 8 bits: such floats may be the scales of these numbers. Returns an empty text if there are no such floats.
std::string possible_scales(const std::vector<RewriteTensor>& tensors) {
  const RewriteTensor* small = nullptr;
  std::uint64_t count = 0;
  for (const RewriteTensor& one : tensors) {
    const Dtype from = one.tensor.dtype();
    if (holds_small_numbers(one.tensor)) small = &one;
    if (bits(from) <= 8 || !one.dtype || *one.dtype == from) continue;
    if (format::castable(from, Dtype::F64) && format::castable(from, *one.dtype)) ++count;
  }
  if (small == nullptr || count == 0) return {};
  return formatted("IN has {} tensors, and the cast changes {} that may be their scales",
                   to_string(small->tensor.dtype()), counted(count, "float tensor"));
}

// Marks the tensors to cast.
Status mark(std::vector<RewriteTensor>& tensors, const Selection& selection, Dtype to) {
  const Result<std::vector<bool>> matches = select_tensors(tensors, selection);
  if (!matches) return matches.error();
  const auto mark_those_of = [&](const std::vector<Dtype>& dtypes) {
    bool found = false;
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      if (!(*matches)[i] || std::ranges::count(dtypes, tensors[i].tensor.dtype()) == 0) continue;
      tensors[i].dtype = to;
      found = true;
    }
    return found;
  };
  const bool usual = selection.dtypes().empty();
  const bool found = mark_those_of(usual ? usual_sources(to) : selection.dtypes());
  // If no tensor can be cast, mark the floats, so that Rewrite::plan() returns the error for them.
  if (!found && usual) mark_those_of(usual_sources(Dtype::F32));
  return {};
}

// In JSON every tensor that was cast, and for people the lossy ones.
void show_casts(Console& console, Json* json, const RewriteReport& report) {
  constexpr std::size_t kShown = 10;  // on a terminal
  const auto lossy = [](const CastReport& cast) {
    return cast.losses.overflow + cast.losses.underflow + cast.losses.nan > 0;
  };
  const auto count = static_cast<std::size_t>(std::ranges::count_if(report.casts, lossy));
  const std::size_t shown = console.out_is_terminal() ? std::min(count, kShown) : count;
  Rows({console,
        json,
        "casts",
        {{"name", "NAME", kLeft, Narrow::name},
         {"from", "FROM"},
         {"to", "TO"},
         {"numel", "ELEMENTS", kRight},
         {"overflow", "OVERFLOW", kRight},
         {"underflow", "UNDERFLOW", kRight},
         {"nan", "NAN", kRight}}})
      .each([&](const auto& row) {
        std::size_t rows = 0;
        for (const CastReport& cast : report.casts) {
          if (json == nullptr && (!lossy(cast) || ++rows > shown)) continue;
          row({cast.name, to_string(cast.from), to_string(cast.to), cast.numel, cast.losses.overflow,
               cast.losses.underflow, cast.losses.nan});
        }
      });
  if (json != nullptr) return;
  if (shown < count)
    console.out(formatted("... and {} (in a pipe or with --json: all)\n", counted(count - shown, "more tensor")));
  format::CastLosses sum;
  for (const CastReport& cast : report.casts) sum += cast.losses;
  console.out(formatted("cast {}: {} overflow, {} underflow, {} NaN\n", counted(report.casts.size(), "tensor"),
                        grouped(sum.overflow), grouped(sum.underflow), grouped(sum.nan)));
}

Exit run_cast(const Arguments& given, Console& console) {
  RewriteRequest request(kCast, given, 1);
  const Selection selection(given);
  const std::optional<std::string> text = given.value("to");
  if (!text) throw UsageError("which dtype? Give --to DTYPE");
  const Dtype to = dtype_of("--to", *text);
  request.change = [&](const Input&, std::vector<RewriteTensor>& tensors) -> Status {
    if (Status status = mark(tensors, selection, to); !status) return status;
    const auto is_cast = [](const RewriteTensor& one) { return one.dtype && *one.dtype != one.tensor.dtype(); };
    if (std::ranges::none_of(tensors, is_cast))
      console.message("notice: no tensor is cast, so OUT will be a copy of IN");
    const std::string scales = possible_scales(tensors);
    if (scales.empty()) return {};
    if (!request.force() && !selection.chooses_names())
      return fault(Errc::invalid_argument, scales + " (--exclude GLOB keeps them, --force casts them)");
    console.message("notice: " + scales);
    return {};
  };
  request.show = [](Console& out, Json* json, const RewriteReport* report) {
    if (report != nullptr) show_casts(out, json, *report);
  };
  return request.run(console);
}

}  // namespace

const Command kCast = {
    .name = "cast",
    .summary = "write a new file whose tensors have another dtype",
    .title = "Write a new file or model whose floats or integers have another dtype.",
    .usage = "IN (OUT | -o OUT) --to DTYPE",
    .description = R"(IN is a file, or a folder, an index or a pattern of a model of several files. OUT is a file if
IN is a file or if OUT ends in .safetensors. Otherwise OUT is a folder, and tensors of one file stay together.

To a float, casts tensors of F64, F32, F16 and BF16, and keeps all others. A cast to fewer bits rounds to nearest,
ties to even. To an integer, casts tensors of I64, I32, I16, U64, U32 and U16, and keeps all others. A value that does
not fit is an error, and nothing is written. Floats and integers of 8 bits or fewer usually have scales in other
tensors. So they are cast only with --dtype. If IN holds such tensors, its wider floats may be their scales: these
are cast only with --match, --exclude or --force.)",
    .options = kCastTable,
    .details = R"(OVERFLOW counts elements that are too large for the new dtype: they become infinity, or in
F8_E4M3 the largest number, or in the FNUZ dtypes NaN. UNDERFLOW counts elements that become zero, but are not zero.
NAN counts elements that were NaN. Only tensors with such elements are listed, on a terminal the first ten.)",
    .examples = R"(safetensors cast model.safetensors half.safetensors --to bf16
safetensors cast llama-7b/ llama-7b-bf16/ --to bf16 --exclude '*norm*'
safetensors cast llama-7b/ llama-7b-f16/ --to f16 --dtype f32 --layers 0-15)",
    .exits =
        "0 written; 1 a file is invalid, there is no such cast, a value does not fit, or OUT exists; 2 usage; 3 a file "
        "cannot be read or written",
    .run = run_cast,
};

}  // namespace safetensors::cli
