// Tickets and receipts: their texts, and texts of strangers, each with its message.
#include "write/ticket.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "support/io_support.h"

namespace safetensors::write {
namespace {

using test::error_of;

const std::string kId = "0123456789abcdef0123456789abcdef";
const std::string kFile = ".safetensors-0123456789abcdef.tmp";
const std::vector<std::uint64_t> kSizes = {100, 10};

Ticket example() {
  return {kId, Durability::file, "/models/a\nb \xc3\xa9", ".safetensors-fedcba9876543210.folder", {kFile, kFile}};
}

std::string replaced(std::string text, std::string_view from, std::string_view to) {
  const std::size_t found = text.find(from);
  EXPECT_NE(found, std::string::npos) << from;
  return text.replace(found, from.size(), to);
}

std::string ticket_message(const std::string& text) {
  const Error error = error_of(parse_ticket(text, 2));
  EXPECT_EQ(error.code, Errc::invalid_argument);
  return error.message;
}

// ranges: each begins with a newline.
std::string receipt_with(const std::string& ranges) {
  return "safetensors receipt 1\n" + kId + "\n" + kId + ranges + "\nend\n";
}

std::string receipt_message(const std::string& text) {
  const Error error = error_of(parse_receipt(text, kId, kSizes));
  EXPECT_EQ(error.code, Errc::invalid_argument);
  return error.message;
}

TEST(Ticket, ComesBack) {
  const std::string text = ticket_text(example()).value();
  EXPECT_EQ(text, "safetensors ticket 1\n" + kId + "\nfile\n.safetensors-fedcba9876543210.folder\n" + kFile + " " +
                      kFile + "\n/models/a\nb \xc3\xa9\nend\n");
  const Ticket ticket = parse_ticket(text, 2).value();
  EXPECT_EQ(ticket.session, kId);
  EXPECT_EQ(ticket.durability, Durability::file);
  EXPECT_EQ(ticket.folder, example().folder);
  EXPECT_EQ(ticket.temporary_folder, example().temporary_folder);
  EXPECT_EQ(ticket.files, example().files);
  EXPECT_EQ(ticket.place(), "/models/.safetensors-fedcba9876543210.folder");
}

TEST(Ticket, PlacesFilesInFolderThatExists) {
  EXPECT_EQ((Ticket{.folder = "/a/b", .temporary_folder = ""}.place()), "/a/b");
  EXPECT_EQ((Ticket{.folder = "/b", .temporary_folder = "x"}.place()), "/x");
}

TEST(Ticket, NeedsUtf8Folder) {
  Ticket ticket = example();
  ticket.folder = "/\xff";
  const Error error = error_of(ticket_text(ticket));
  EXPECT_EQ(error.code, Errc::invalid_argument);
  EXPECT_EQ(error.message, "a ticket needs a folder whose path is UTF-8");
}

TEST(Ticket, RefusesOtherTexts) {
  const std::string text = ticket_text(example()).value();
  const auto with = [&](std::string_view from, std::string_view to) {
    return ticket_message(replaced(text, from, to));
  };
  for (const std::string& other : {std::string(), std::string("end\n"), receipt_with(""), text + "x", text.substr(1)})
    EXPECT_EQ(ticket_message(other), "invalid ticket: it is not a whole ticket of this version");
  EXPECT_EQ(with("ticket 1", "ticket 2"), "invalid ticket: it is not a whole ticket of this version");
  EXPECT_EQ(with("abcdef\n", "abcdeF\n"), "invalid ticket: its session is not 32 hexadecimal digits");
  EXPECT_EQ(with("abcdef\n", "abcdef0\n"), "invalid ticket: its session is not 32 hexadecimal digits");
  EXPECT_EQ(with("\nfile", "\nfiles"), "invalid ticket: unknown durability");
  EXPECT_EQ(with("/models", "models"), "invalid ticket: the folder is not an absolute path");
  EXPECT_EQ(with("\xc3\xa9", "/"), "invalid ticket: the folder is not an absolute path");
  EXPECT_EQ(with("\xc3\xa9", std::string_view("\0", 1)), "invalid ticket: the folder is not an absolute path");
  EXPECT_EQ(with(".safetensors-fe", "../.safetensors-fe"),
            "invalid ticket: the name of the temporary folder is not that of a temporary folder");
  using namespace std::string_view_literals;
  for (const std::string_view name :
       {" "sv, "model.safetensors"sv, "../.safetensors-0123456789abcdef.tmp"sv, ".safetensors-0123456789abcdef.tmp/"sv,
        ".safetensors-0123456789abcde/.tmp"sv, ".safetensors-0123456789abcdef.tmp\0"sv, "/etc/passwd"sv})
    EXPECT_EQ(with(kFile, name), "invalid ticket: the name of a file is not that of a temporary file");
  EXPECT_EQ(with(" " + kFile, ""),
            "invalid ticket: 1 files, the layout has 2 (make the layout from the same arguments in every process)");
  EXPECT_EQ(with(kFile + " " + kFile, ""),
            "invalid ticket: 0 files, the layout has 2 (make the layout from the same arguments in every process)");
}

// Every prefix of a ticket, and every ticket with one byte changed, is an error or a ticket. No read goes astray.
TEST(Ticket, SurvivesChangedBytes) {
  const std::string text = ticket_text(example()).value();
  for (std::size_t i = 0; i < text.size(); ++i) {
    EXPECT_FALSE(parse_ticket(text.substr(0, i), 2).ok()) << i;
    for (const char byte : {'\0', '\n', ' ', '/', '9', '\xff'}) {
      std::string changed = text;
      changed[i] = byte;
      const Result<Ticket> parsed = parse_ticket(changed, 2);
      if (parsed) {
        EXPECT_EQ(parsed->files.size(), 2U);
      }
    }
  }
}

TEST(Receipt, ComesBack) {
  RangeSet first, second;
  for (std::uint64_t i = 0; i < 8; ++i) first.add({2 + i * 10, 5 + i * 10});
  first.add({90, 100});
  second.add({0, 4});
  second.add({4, 10});
  const std::string text = receipt_text(kId, kId, {&first, &second}).value();
  EXPECT_EQ(text, receipt_with("\n0 2 3 10 8\n0 90 10 0 1\n1 0 10 0 1"));
  const Receipt receipt = parse_receipt(text, kId, kSizes).value();
  EXPECT_EQ(receipt.bytes, 44U);
  EXPECT_EQ(receipt.ranges.at(0).ranges(), first.ranges());
  EXPECT_EQ(receipt.ranges.at(1).ranges(), second.ranges());
  EXPECT_TRUE(parse_receipt(receipt_with(""), kId, kSizes).value().ranges.empty());
}

// Any set of ranges comes back from its rows.
TEST(Receipt, RowsStandForTheirRanges) {
  std::uint64_t state = 1;
  const auto random = [&](std::uint64_t below) {
    state = state * 6364136223846793005U + 1442695040888963407U;
    return (state >> 33) % below;
  };
  for (int round = 0; round < 300; ++round) {
    RangeSet written;
    for (int i = 0; i < 30; ++i) {
      const std::uint64_t begin = random(200);
      RangeSet added({begin, begin + 1 + random(4)});
      if (!written.first_common(added)) written.merge(std::move(added));
    }
    const std::string text = receipt_text(kId, kId, {&written}).value();
    EXPECT_EQ(parse_receipt(text, kId, {1000}).value().ranges.at(0).ranges(), written.ranges());
  }
}

TEST(Receipt, RefusesOtherTexts) {
  const std::string numbers = "invalid receipt: a range that is not five numbers";
  const std::string sizes = "invalid receipt: a range with sizes that do not fit together";
  const std::string after = "invalid receipt: a range after the end of file 0, which has 100 bytes of data";
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"\n0 0 1 0", numbers},
      {"\n0 0 1 0 1 0", numbers},
      {"\n0 0  1 0 1", numbers},
      {"\n0 0 1 0 -1", numbers},
      {"\n0 0 1 0 1x", numbers},
      {"\n0 0 1 0 18446744073709551616", numbers},
      {"\n\n0 0 1 0 1", numbers},
      {"\n0 0 0 0 1", sizes},
      {"\n0 0 1 0 0", sizes},
      {"\n0 0 1 1 1", sizes},
      {"\n0 0 1 0 2", sizes},
      {"\n0 0 2 2 2", sizes},
      {"\n2 0 1 0 1", "invalid receipt: file 2 of 2"},
      {"\n0 0 101 0 1", after},
      {"\n0 100 1 0 1", after},
      {"\n0 0 1 10 11", after},
      {"\n0 18446744073709551615 1 0 1", after},
      {"\n0 0 1 9223372036854775808 3", after},
      {"\n0 0 1 2 18446744073709551615", after},
      {"\n0 4 4 0 1\n0 8 4 0 1", "invalid receipt: the ranges are not in order"},
      {"\n0 4 4 0 1\n0 0 4 0 1", "invalid receipt: the ranges are not in order"},
      {"\n1 4 4 0 1\n0 0 4 0 1", "invalid receipt: the ranges are not in order"},
      {"\n0 0 1 10 5\n0 20 1 0 1", "invalid receipt: the ranges are not in order"},
  };
  for (const auto& [ranges, message] : cases) EXPECT_EQ(receipt_message(receipt_with(ranges)), message) << ranges;
  EXPECT_EQ(receipt_message(ticket_text(example()).value()),
            "invalid receipt: it is not a whole receipt of this version");
  EXPECT_EQ(receipt_message(replaced(receipt_with(""), "ef\nend", "eg\nend")),
            "invalid receipt: its writer is not 32 hexadecimal digits");
}

// A short text must not make a process reserve memory without limit.
TEST(Receipt, LimitsNumberOfRanges) {
  const std::string text = receipt_with("\n0 0 1 0 1\n0 2 1 2 16777216");
  const Error error = error_of(parse_receipt(text, kId, {std::uint64_t{1} << 40}));
  EXPECT_EQ(error.message, "invalid receipt: more than 16777216 ranges");
  RangeSet ranges({0, 1});
  ranges.add({2, 3});
  const Error own = error_of(receipt_text(kId, kId, {&ranges}, 1));
  EXPECT_EQ(own.message, "this process wrote 2 ranges that do not touch, a receipt takes 1");
}

}  // namespace
}  // namespace safetensors::write
