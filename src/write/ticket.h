// The two texts that processes exchange when they write one checkpoint together: the ticket of the creator, and the
// receipt of each other process. Each has a version in its first line.
#pragma once

#include <safetensors/error.h>
#include <safetensors/writer.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "write/range_set.h"

namespace safetensors::write {

// Says where the temporary files of a checkpoint are.
struct Ticket {
  std::string session = {};  // random_id()
  Durability durability = Durability::full;
  std::string folder = {};              // absolute path of the folder of the checkpoint, without a separator at its end
  std::string temporary_folder = {};    // its name next to the folder; empty: the files are made in the folder itself
  std::vector<std::string> files = {};  // names of the temporary files, in the order of the layout

  // Path of the folder with the temporary files.
  [[nodiscard]] std::string place() const;
};

// Error: invalid_argument (the folder is not UTF-8).
[[nodiscard]] Result<std::string> ticket_text(const Ticket& ticket);
// files: number of files of the layout. Error: invalid_argument.
[[nodiscard]] Result<Ticket> parse_ticket(std::string_view text, std::size_t files);

// Ranges of equal size at equal distances, in the data of a file. A slice of columns has one range per row of the
// tensor, and all of them are one RangeRow.
struct RangeRow {
  std::size_t file = 0;  // index in the layout
  std::uint64_t begin = 0;
  std::uint64_t size = 0;    // of each range, at least 1
  std::uint64_t stride = 0;  // from one range to the next, larger than size; 0 for one range
  std::uint64_t count = 1;   // at least 1
  friend bool operator==(const RangeRow&, const RangeRow&) = default;
};

// Lists the ranges that a process wrote.
struct Receipt {
  std::string session = {};         // that of the ticket
  std::string writer = {};          // random_id(), another one for each joined writer
  std::vector<RangeRow> rows = {};  // ascending, and they neither overlap nor touch
};

// Limit for the number of ranges in a receipt. The creator keeps each in about 64 bytes of memory.
inline constexpr std::uint64_t kMaxRanges = std::uint64_t{1} << 24;

// Appends the ranges of a file, as few rows.
void append_rows(std::vector<RangeRow>& rows, std::size_t file, const RangeSet& written);

// The ranges of a receipt, by the index of their file.
[[nodiscard]] std::map<std::size_t, RangeSet> ranges_of(const Receipt& receipt);

// Error: invalid_argument (more than kMaxRanges ranges).
[[nodiscard]] Result<std::string> receipt_text(const Receipt& receipt);
// data_bytes: size of the data of each file of the layout. Error: invalid_argument.
[[nodiscard]] Result<Receipt> parse_receipt(std::string_view text, const std::vector<std::uint64_t>& data_bytes);

}  // namespace safetensors::write
