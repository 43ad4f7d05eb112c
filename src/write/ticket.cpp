// Writes and reads tickets and receipts. They come from other processes by means of the caller, so a reader trusts
// nothing: names must be names that temporary files have, and ranges must lie inside of the data.
//
// Both texts are lines, from a title to `end`. The folder of a ticket is its last line before `end`, because only the
// name of a folder can have a newline.
#include "write/ticket.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>
#include <system_error>
#include <utility>

#include "base/checked.h"
#include "base/error.h"
#include "base/utf8.h"
#include "io/temporary.h"
#include "os/path.h"

namespace safetensors::write {
namespace {

constexpr std::array<std::string_view, 3> kDurabilities = {"full", "file", "none"};  // by the values of Durability
constexpr std::string_view kTicket = "safetensors ticket 1\n";
constexpr std::string_view kReceipt = "safetensors receipt 1\n";
constexpr std::string_view kEnd = "\nend\n";

Error invalid(const char* what, const std::string& why) {
  return base::make_error(Errc::invalid_argument, std::string("invalid ") + what + ": " + why);
}

// Removes the title and the end of a text. Returns false if it lacks one of them.
bool unframe(std::string_view& text, std::string_view title) noexcept {
  if (text.size() < title.size() + kEnd.size() || !text.starts_with(title) || !text.ends_with(kEnd)) return false;
  text.remove_prefix(title.size());
  text.remove_suffix(kEnd.size());
  return true;
}

// Removes the text before the first separator, and the separator. Returns that text, or all if there is no separator.
std::string_view cut(std::string_view& text, char separator) noexcept {
  const std::string_view first = text.substr(0, text.find(separator));
  text.remove_prefix(std::min(first.size() + 1, text.size()));
  return first;
}

// Returns the end of a row, or nullopt if it does not fit 64 bits.
std::optional<std::uint64_t> end_of(const RangeRow& row) noexcept {
  std::uint64_t distance = 0;
  std::uint64_t last = 0;
  std::uint64_t end = 0;
  if (!base::multiply(row.count - 1, row.stride, distance) || !base::add(row.begin, distance, last) ||
      !base::add(last, row.size, end))
    return std::nullopt;
  return end;
}

// Reads the five numbers of a row: file, begin, size, stride and count. Returns an error message, or an empty text if
// the row is valid.
std::string read_row(std::string_view line, RangeRow& row) {
  std::array<std::uint64_t, 5> numbers{};
  for (std::uint64_t& number : numbers) {
    const std::string_view digits = cut(line, ' ');
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
    if (error != std::errc() || end != digits.data() + digits.size()) return "a range that is not five numbers";
  }
  if (!line.empty()) return "a range that is not five numbers";
  if (static_cast<std::size_t>(numbers[0]) != numbers[0]) return "an index of a file that is too large";
  row = {static_cast<std::size_t>(numbers[0]), numbers[1], numbers[2], numbers[3], numbers[4]};
  const bool one = row.count == 1 && row.stride == 0;
  const bool many = row.count > 1 && row.stride > row.size;
  return row.size != 0 && (one || many) ? "" : "a range with sizes that do not fit together";
}

// Checks a row against the layout and the rows before it. ranges: number of ranges so far. Returns an error message, or
// an empty text if the row is valid.
std::string check_row(const RangeRow& row, const std::vector<RangeRow>& before,
                      const std::vector<std::uint64_t>& data_bytes, std::uint64_t& ranges) {
  if (row.file >= data_bytes.size())
    return "file " + std::to_string(row.file) + " of " + std::to_string(data_bytes.size());
  const std::optional<std::uint64_t> end = end_of(row);
  if (!end || *end > data_bytes[row.file])
    return "a range after the end of file " + std::to_string(row.file) + ", which has " +
           std::to_string(data_bytes[row.file]) + " bytes of data";
  if (!before.empty() &&
      (row.file < before.back().file || (row.file == before.back().file && row.begin <= *end_of(before.back()))))
    return "the ranges are not in order";
  if (!base::add(ranges, row.count, ranges) || ranges > kMaxRanges)
    return "more than " + std::to_string(kMaxRanges) + " ranges";
  return {};
}

}  // namespace

std::string Ticket::place() const {
  if (temporary_folder.empty()) return folder;
  return folder.substr(0, folder.rfind('/') + 1) + temporary_folder;
}

Result<std::string> ticket_text(const Ticket& ticket) {
  if (base::first_invalid_utf8(ticket.folder) != std::string_view::npos)
    return base::make_error(Errc::invalid_argument, "a ticket needs a folder whose path is UTF-8", ticket.folder);
  std::string text(kTicket);
  text.append(ticket.session).append("\n");
  text.append(kDurabilities[static_cast<std::size_t>(ticket.durability)]).append("\n");
  text.append(ticket.temporary_folder).append("\n");
  for (const std::string& name : ticket.files) text.append(&name == ticket.files.data() ? "" : " ").append(name);
  return text.append("\n").append(ticket.folder).append(kEnd);
}

Result<Ticket> parse_ticket(std::string_view text, std::size_t files) {
  const auto refuse = [](const std::string& why) { return invalid("ticket", why); };
  if (!unframe(text, kTicket)) return refuse("it is not a whole ticket of this version");
  Ticket ticket;
  ticket.session = cut(text, '\n');
  const auto* const durability = std::ranges::find(kDurabilities, cut(text, '\n'));
  ticket.temporary_folder = cut(text, '\n');
  for (std::string_view names = cut(text, '\n'); !names.empty();) ticket.files.emplace_back(cut(names, ' '));
  ticket.folder = text;
  if (!io::is_random_id(ticket.session)) return refuse("its session is not 32 hexadecimal digits");
  if (durability == kDurabilities.end()) return refuse("unknown durability");
  ticket.durability = static_cast<Durability>(durability - kDurabilities.begin());
  if (!ticket.temporary_folder.empty() && !io::is_temporary_folder_name(ticket.temporary_folder))
    return refuse("the name of the temporary folder is not that of a temporary folder");
  if (!std::ranges::all_of(ticket.files, io::is_temporary_name))
    return refuse("the name of a file is not that of a temporary file");
  if (!os::is_absolute(ticket.folder) || os::without_end_slash(ticket.folder) != ticket.folder ||
      ticket.folder.find('\0') != std::string::npos)
    return refuse("the folder is not an absolute path");
  if (ticket.files.size() != files)
    return refuse(std::to_string(ticket.files.size()) + " files, the layout has " + std::to_string(files) +
                  " (make the layout from the same arguments in every process)");
  return ticket;
}

void append_rows(std::vector<RangeRow>& rows, std::size_t file, const RangeSet& written) {
  RangeRow* row = nullptr;
  for (const auto& [begin, end] : written.ranges()) {
    if (row != nullptr && row->size == end - begin) {
      const std::uint64_t stride = begin - (row->begin + (row->count - 1) * row->stride);
      if (row->count == 1 || row->stride == stride) {
        row->stride = stride;
        ++row->count;
        continue;
      }
    }
    row = &rows.emplace_back(RangeRow{file, begin, end - begin});
  }
}

std::map<std::size_t, RangeSet> ranges_of(const Receipt& receipt) {
  std::map<std::size_t, RangeSet> files;
  for (const RangeRow& row : receipt.rows) {
    RangeSet& ranges = files[row.file];
    for (std::uint64_t i = 0; i < row.count; ++i) {
      const std::uint64_t begin = row.begin + i * row.stride;
      ranges.add({begin, begin + row.size});  // the ranges of a receipt do not overlap
    }
  }
  return files;
}

Result<std::string> receipt_text(const Receipt& receipt) {
  std::string text(kReceipt);
  text.append(receipt.session).append("\n").append(receipt.writer);
  std::uint64_t ranges = 0;
  for (const RangeRow& row : receipt.rows) {
    char separator = '\n';
    for (const std::uint64_t number : {std::uint64_t{row.file}, row.begin, row.size, row.stride, row.count})
      text.append(1, std::exchange(separator, ' ')).append(std::to_string(number));
    ranges += row.count;
  }
  if (ranges > kMaxRanges)
    return base::make_error(Errc::invalid_argument, "this process wrote " + std::to_string(ranges) +
                                                        " ranges that do not touch, a receipt takes " +
                                                        std::to_string(kMaxRanges));
  return text.append(kEnd);
}

Result<Receipt> parse_receipt(std::string_view text, const std::vector<std::uint64_t>& data_bytes) {
  const auto refuse = [](const std::string& why) { return invalid("receipt", why); };
  if (!unframe(text, kReceipt)) return refuse("it is not a whole receipt of this version");
  Receipt receipt;
  receipt.session = cut(text, '\n');
  receipt.writer = cut(text, '\n');
  if (!io::is_random_id(receipt.session)) return refuse("its session is not 32 hexadecimal digits");
  if (!io::is_random_id(receipt.writer)) return refuse("its writer is not 32 hexadecimal digits");
  std::uint64_t ranges = 0;
  while (!text.empty()) {
    RangeRow row;
    std::string wrong = read_row(cut(text, '\n'), row);
    if (wrong.empty()) wrong = check_row(row, receipt.rows, data_bytes, ranges);
    if (!wrong.empty()) return refuse(wrong);
    receipt.rows.push_back(row);
  }
  return receipt;
}

}  // namespace safetensors::write
