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

// The ranges that a process wrote.
struct Receipt {
  std::string writer = {};                      // random_id(), another one for each joined writer
  std::map<std::size_t, RangeSet> ranges = {};  // in the data of each file, by its index in the layout
  std::uint64_t bytes = 0;                      // of all ranges
};

// Limit for the number of ranges in a receipt. The creator keeps each in about 64 bytes of memory.
inline constexpr std::uint64_t kMaxRanges = std::uint64_t{1} << 24;

// session: that of the ticket. ranges: of each file of the layout. Error: invalid_argument (more than max_ranges).
[[nodiscard]] Result<std::string> receipt_text(std::string_view session, std::string_view writer,
                                               const std::vector<const RangeSet*>& ranges,
                                               std::uint64_t max_ranges = kMaxRanges);
// data_bytes: size of the data of each file of the layout. Error: invalid_argument (also if the receipt belongs to
// another session).
[[nodiscard]] Result<Receipt> parse_receipt(std::string_view text, std::string_view session,
                                            const std::vector<std::uint64_t>& data_bytes);

}  // namespace safetensors::write
