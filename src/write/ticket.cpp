// Writes and reads tickets and receipts. They come from other processes by means of the caller, so a reader trusts
// nothing: names must be names that temporary files have, and ranges must lie inside of the data.
//
// Both texts are lines, from a title to `end`. The folder of a ticket is its last line before `end`, because only the
// name of a folder can have a newline.
#include "write/ticket.h"

#include <algorithm>
#include <array>
#include <charconv>
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

// Reads the five numbers of a row. Returns false if the line is anything else.
bool read_row(std::string_view line, std::array<std::uint64_t, 5>& numbers) {
  for (std::uint64_t& number : numbers) {
    const std::string_view digits = cut(line, ' ');
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
    if (error != std::errc() || end != digits.data() + digits.size()) return false;
  }
  return line.empty();
}

// Adds the ranges of a row: `count` ranges of `size` bytes in a file, each `stride` bytes after the one before. Returns
// an error message, or an empty text if the row is valid. max: number of ranges that may follow.
std::string add_row(std::string_view line, const std::vector<std::uint64_t>& data_bytes, Receipt& receipt,
                    std::uint64_t& max) {
  std::array<std::uint64_t, 5> numbers{};
  if (!read_row(line, numbers)) return "a range that is not five numbers";
  const auto [file, begin, size, stride, count] = numbers;
  if (size == 0 || count == 0 || (count == 1 ? stride != 0 : stride <= size))
    return "a range with sizes that do not fit together";
  if (file >= data_bytes.size()) return "file " + std::to_string(file) + " of " + std::to_string(data_bytes.size());
  const std::uint64_t bytes = data_bytes[static_cast<std::size_t>(file)];
  std::uint64_t end = 0;
  if (!base::multiply(count - 1, stride, end) || !base::add(begin, end, end) || !base::add(end, size, end) ||
      end > bytes)
    return "a range after the end of file " + std::to_string(file) + ", which has " + std::to_string(bytes) +
           " bytes of data";
  if (!receipt.ranges.empty()) {
    const auto& [last_file, last] = *receipt.ranges.rbegin();
    if (file < last_file || (file == last_file && begin <= last.ranges().rbegin()->second))
      return "the ranges are not in order";
  }
  if (count > max) return "more than " + std::to_string(kMaxRanges) + " ranges";
  max -= count;
  receipt.bytes += size * count;
  RangeSet& ranges = receipt.ranges[static_cast<std::size_t>(file)];
  for (std::uint64_t i = 0; i < count; ++i) ranges.add({begin + i * stride, begin + i * stride + size});
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
  if (!ticket.temporary_folder.empty() && !io::is_temporary_name(ticket.temporary_folder, io::kTemporaryFolder))
    return refuse("the name of the temporary folder is not that of a temporary folder");
  if (!std::ranges::all_of(ticket.files, [](const std::string& name) { return io::is_temporary_name(name); }))
    return refuse("the name of a file is not that of a temporary file");
  if (!os::is_absolute(ticket.folder) || os::without_end_slash(ticket.folder) != ticket.folder ||
      ticket.folder.find('\0') != std::string::npos)
    return refuse("the folder is not an absolute path");
  if (ticket.files.size() != files)
    return refuse(std::to_string(ticket.files.size()) + " files, the layout has " + std::to_string(files) +
                  " (make the layout from the same arguments in every process)");
  return ticket;
}

// Ranges of equal size at equal distances are one row, such as those of a slice of columns.
Result<std::string> receipt_text(std::string_view session, std::string_view writer,
                                 const std::vector<const RangeSet*>& ranges, std::uint64_t max_ranges) {
  std::string text(kReceipt);
  text.append(session).append("\n").append(writer);
  std::uint64_t all = 0;
  for (std::size_t file = 0; file < ranges.size(); ++file) {
    const auto end = ranges[file]->ranges().end();
    for (auto range = ranges[file]->ranges().begin(); range != end;) {
      const auto first = *range;
      const std::uint64_t size = first.second - first.first;
      std::uint64_t last = first.first, stride = 0, count = 1;
      for (++range; range != end && range->second - range->first == size; ++range, ++count) {
        if (count != 1 && range->first - last != stride) break;
        stride = range->first - last;
        last = range->first;
      }
      char separator = '\n';
      for (const std::uint64_t number : {std::uint64_t{file}, first.first, size, stride, count})
        text.append(1, std::exchange(separator, ' ')).append(std::to_string(number));
    }
    all += ranges[file]->ranges().size();
  }
  if (all > max_ranges)
    return base::make_error(Errc::invalid_argument, "this process wrote " + std::to_string(all) +
                                                        " ranges that do not touch, a receipt takes " +
                                                        std::to_string(max_ranges));
  return text.append(kEnd);
}

Result<Receipt> parse_receipt(std::string_view text, std::string_view session,
                              const std::vector<std::uint64_t>& data_bytes) {
  if (!unframe(text, kReceipt)) return invalid("receipt", "it is not a whole receipt of this version");
  if (cut(text, '\n') != session)
    return base::make_error(Errc::invalid_argument,
                            "the receipt belongs to another session: its writer joined with another ticket");
  Receipt receipt;
  receipt.writer = cut(text, '\n');
  if (!io::is_random_id(receipt.writer)) return invalid("receipt", "its writer is not 32 hexadecimal digits");
  for (std::uint64_t max = kMaxRanges; !text.empty();) {
    const std::string wrong = add_row(cut(text, '\n'), data_bytes, receipt, max);
    if (!wrong.empty()) return invalid("receipt", wrong);
  }
  return receipt;
}

}  // namespace safetensors::write
