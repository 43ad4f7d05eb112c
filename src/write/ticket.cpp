// Writes and reads tickets and receipts. They come from other processes by means of the caller, so a reader trusts
// nothing: names must be names that temporary files have, and ranges must lie inside of the data.
#include "write/ticket.h"

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <utility>

#include "base/checked.h"
#include "base/error.h"
#include "base/utf8.h"
#include "io/temporary.h"
#include "json/reader.h"
#include "json/writer.h"
#include "os/path.h"

namespace safetensors::write {
namespace {

constexpr std::uint64_t kVersion = 1;
constexpr std::array<std::string_view, 3> kDurabilities = {"full", "file", "none"};  // by the values of Durability

// Reads the members of a text in a fixed order. After the first failure, all calls do nothing and return empty values.
class TextReader {
 public:
  // what: "ticket" or "receipt". Throws std::bad_alloc.
  TextReader(std::string_view text, const char* what)
      : text_(text),
        what_(what),
        reader_((text_.resize(text.size() + json::Reader::kPadding), text_.data()), text.size()) {
    check(reader_.open('{', "expected an object"));
  }
  [[nodiscard]] bool failed() const noexcept { return failed_; }
  [[nodiscard]] Error error() const {
    if (!refused_.empty()) return base::make_error(Errc::invalid_argument, "invalid " + what_ + ": " + refused_);
    const json::Failure& failure = reader_.failure();
    return base::make_error(Errc::invalid_argument, "invalid " + what_ + ": " + failure.what + " (byte " +
                                                        std::to_string(failure.offset) + " of the text)");
  }
  bool refuse(std::string why) {
    if (!failed_) refused_ = std::move(why);
    failed_ = true;
    return false;
  }

  void member(std::string_view name) {
    std::string_view found;
    std::size_t start = 0;
    if (!first_) separator();
    first_ = false;
    if (failed_) return;
    if (check(reader_.key(found, start)) && found != name) refuse("expected the member `" + std::string(name) + "`");
  }
  std::string_view string() {
    std::string_view value;
    if (failed_ || !check(reader_.string(value))) return {};
    return value;
  }
  std::uint64_t integer() {
    std::uint64_t value = 0;
    if (failed_ || !check(reader_.integer(value))) return 0;
    return value;
  }
  // Calls element() for each element of an array.
  template <class Element>
  void array(Element element) {
    if (failed_ || !check(reader_.open('[', "expected an array")) || reader_.consume(']')) return;
    for (bool more = true; more && !failed_;) {
      element();
      if (!failed_) check(reader_.next(']', more));
    }
  }
  void end() {
    bool more = false;
    if (failed_ || !check(reader_.next('}', more))) return;
    if (more)
      refuse("it has a member too many");
    else
      check(reader_.end());
  }

 private:
  bool check(bool succeeded) noexcept {
    failed_ = failed_ || !succeeded;
    return !failed_;
  }
  void separator() {
    bool more = false;
    if (!failed_ && check(reader_.next('}', more)) && !more) refuse("a member is missing");
  }

  std::string text_;
  const std::string what_;
  json::Reader reader_;
  std::string refused_;
  bool failed_ = false;
  bool first_ = true;
};

void read_version(TextReader& reader, std::string_view member) {
  reader.member(member);
  const std::uint64_t version = reader.integer();
  if (!reader.failed() && version != kVersion)
    reader.refuse("version " + std::to_string(version) + ", this library knows version " + std::to_string(kVersion));
}

std::string read_id(TextReader& reader, std::string_view member) {
  reader.member(member);
  std::string id(reader.string());
  if (!reader.failed() && !io::is_random_id(id))
    reader.refuse("`" + std::string(member) + "` is not 32 hexadecimal digits");
  return id;
}

void read_folder(TextReader& reader, Ticket& ticket) {
  reader.member("folder");
  ticket.folder = reader.string();
  if (reader.failed()) return;
  if (!os::is_absolute(ticket.folder) || os::without_end_slash(ticket.folder) != ticket.folder ||
      ticket.folder.find('\0') != std::string::npos)
    reader.refuse("the folder is not an absolute path");
  reader.member("temporary_folder");
  ticket.temporary_folder = reader.string();
  if (!ticket.temporary_folder.empty() && !io::is_temporary_folder_name(ticket.temporary_folder))
    reader.refuse("the name of the temporary folder is not that of a temporary folder");
}

void append_member(std::string& out, std::string_view name) {
  out += out.empty() ? '{' : ',';
  json::append_string(out, name);
  out += ':';
}

void append_text(std::string& out, std::string_view name, std::string_view value) {
  append_member(out, name);
  json::append_string(out, value);
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

// Reads [file, begin, size, stride, count].
bool read_row(TextReader& reader, RangeRow& row) {
  std::array<std::uint64_t, 5> numbers{};
  std::size_t count = 0;
  reader.array([&] {
    const std::uint64_t number = reader.integer();
    if (count < numbers.size()) numbers[count] = number;
    ++count;
  });
  if (reader.failed()) return false;
  if (count != numbers.size()) return reader.refuse("a range of " + std::to_string(count) + " numbers, expected 5");
  if (static_cast<std::size_t>(numbers[0]) != numbers[0]) return reader.refuse("an index of a file that is too large");
  row = {static_cast<std::size_t>(numbers[0]), numbers[1], numbers[2], numbers[3], numbers[4]};
  const bool one = row.count == 1 && row.stride == 0;
  const bool many = row.count > 1 && row.stride > row.size;
  return (row.size != 0 && (one || many)) || reader.refuse("a range with sizes that do not fit together");
}

// Checks a row against the layout and the row before it. ranges: number of ranges so far.
bool check_row(TextReader& reader, const RangeRow& row, const RangeRow* before,
               const std::vector<std::uint64_t>& data_bytes, std::uint64_t& ranges) {
  if (row.file >= data_bytes.size())
    return reader.refuse("file " + std::to_string(row.file) + " of " + std::to_string(data_bytes.size()));
  const std::optional<std::uint64_t> end = end_of(row);
  if (!end || *end > data_bytes[row.file])
    return reader.refuse("a range after the end of file " + std::to_string(row.file) + ", which has " +
                         std::to_string(data_bytes[row.file]) + " bytes of data");
  if (before != nullptr && (row.file < before->file || (row.file == before->file && row.begin <= *end_of(*before))))
    return reader.refuse("the ranges are not in order");
  if (!base::add(ranges, row.count, ranges) || ranges > kMaxRanges)
    return reader.refuse("more than " + std::to_string(kMaxRanges) + " ranges");
  return true;
}

}  // namespace

std::string Ticket::place() const {
  if (temporary_folder.empty()) return folder;
  return folder.substr(0, folder.rfind('/') + 1) + temporary_folder;
}

Result<std::string> ticket_text(const Ticket& ticket) {
  if (base::first_invalid_utf8(ticket.folder) != std::string_view::npos)
    return base::make_error(Errc::invalid_argument, "a ticket needs a folder whose path is UTF-8", ticket.folder);
  std::string text;
  append_member(text, "safetensors_ticket");
  json::append_integer(text, kVersion);
  append_text(text, "session", ticket.session);
  append_text(text, "durability", kDurabilities[static_cast<std::size_t>(ticket.durability)]);
  append_text(text, "folder", ticket.folder);
  append_text(text, "temporary_folder", ticket.temporary_folder);
  append_member(text, "files");
  char separator = '[';
  for (const std::string& name : ticket.files) {
    text += std::exchange(separator, ',');
    json::append_string(text, name);
  }
  return text += "]}";
}

Result<Ticket> parse_ticket(std::string_view text, std::size_t files) {
  TextReader reader(text, "ticket");
  Ticket ticket;
  read_version(reader, "safetensors_ticket");
  ticket.session = read_id(reader, "session");
  reader.member("durability");
  const std::string durability(reader.string());
  const auto* const known = std::find(kDurabilities.begin(), kDurabilities.end(), durability);
  if (!reader.failed() && known == kDurabilities.end()) reader.refuse("unknown durability");
  if (!reader.failed()) ticket.durability = static_cast<Durability>(known - kDurabilities.begin());
  read_folder(reader, ticket);
  reader.member("files");
  reader.array([&] {
    ticket.files.emplace_back(reader.string());
    if (!io::is_temporary_name(ticket.files.back()))
      reader.refuse("the name of a file is not that of a temporary file");
  });
  reader.end();
  if (!reader.failed() && ticket.files.size() != files)
    reader.refuse(std::to_string(ticket.files.size()) + " files, the layout has " + std::to_string(files) +
                  " (make the layout from the same arguments in every process)");
  if (reader.failed()) return reader.error();
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
      (void)ranges.claim({begin, begin + row.size});  // the ranges of a receipt do not overlap
    }
  }
  return files;
}

Result<std::string> receipt_text(const Receipt& receipt) {
  std::string text;
  append_member(text, "safetensors_receipt");
  json::append_integer(text, kVersion);
  append_text(text, "session", receipt.session);
  append_text(text, "writer", receipt.writer);
  append_member(text, "ranges");
  text += '[';
  std::uint64_t ranges = 0;
  for (const RangeRow& row : receipt.rows) {
    if (&row != receipt.rows.data()) text += ',';
    char separator = '[';
    for (const std::uint64_t number : {std::uint64_t{row.file}, row.begin, row.size, row.stride, row.count}) {
      text += std::exchange(separator, ',');
      json::append_integer(text, number);
    }
    text += ']';
    ranges += row.count;
  }
  if (ranges > kMaxRanges)
    return base::make_error(Errc::invalid_argument, "this process wrote " + std::to_string(ranges) +
                                                        " ranges that do not touch, a receipt takes " +
                                                        std::to_string(kMaxRanges));
  return text += "]}";
}

Result<Receipt> parse_receipt(std::string_view text, const std::vector<std::uint64_t>& data_bytes) {
  TextReader reader(text, "receipt");
  Receipt receipt;
  read_version(reader, "safetensors_receipt");
  receipt.session = read_id(reader, "session");
  receipt.writer = read_id(reader, "writer");
  reader.member("ranges");
  std::uint64_t ranges = 0;
  reader.array([&] {
    RangeRow row;
    if (read_row(reader, row) &&
        check_row(reader, row, receipt.rows.empty() ? nullptr : &receipt.rows.back(), data_bytes, ranges))
      receipt.rows.push_back(row);
  });
  reader.end();
  if (reader.failed()) return reader.error();
  return receipt;
}

}  // namespace safetensors::write
