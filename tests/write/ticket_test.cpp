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
  return {kId, Durability::file, "/models/\"a\" \xc3\xa9", ".safetensors-fedcba9876543210.folder", {kFile, kFile}};
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

std::string receipt_with(const std::string& ranges) {
  return "{\"safetensors_receipt\":1,\"session\":\"" + kId + "\",\"writer\":\"" + kId + "\",\"ranges\":" + ranges + "}";
}

std::string receipt_message(const std::string& text) {
  const Error error = error_of(parse_receipt(text, kSizes));
  EXPECT_EQ(error.code, Errc::invalid_argument);
  return error.message;
}

TEST(Ticket, ComesBack) {
  const std::string text = ticket_text(example()).value();
  EXPECT_EQ(text, "{\"safetensors_ticket\":1,\"session\":\"" + kId +
                      "\",\"durability\":\"file\",\"folder\":\"/models/\\\"a\\\" \xc3\xa9\",\"temporary_folder\":"
                      "\".safetensors-fedcba9876543210.folder\",\"files\":[\"" +
                      kFile + "\",\"" + kFile + "\"]}");
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
  EXPECT_EQ(ticket_message(""), "invalid ticket: the text ends too early (byte 0 of the text)");
  EXPECT_EQ(ticket_message("[]"), "invalid ticket: expected an object (byte 0 of the text)");
  EXPECT_EQ(ticket_message("{}"), "invalid ticket: expected a key in double quotes (byte 1 of the text)");
  EXPECT_EQ(ticket_message(receipt_with("[]")), "invalid ticket: expected the member `safetensors_ticket`");
  EXPECT_EQ(with("_ticket\":1", "_ticket\":2"), "invalid ticket: version 2, this library knows version 1");
  EXPECT_EQ(with("abcdef\",", "abcdeF\","), "invalid ticket: `session` is not 32 hexadecimal digits");
  EXPECT_EQ(with("abcdef\",", "abcdef0\","), "invalid ticket: `session` is not 32 hexadecimal digits");
  EXPECT_EQ(with("\"file\"", "\"files\""), "invalid ticket: unknown durability");
  EXPECT_EQ(with("\"/models", "\"models"), "invalid ticket: the folder is not an absolute path");
  EXPECT_EQ(with("\xc3\xa9\"", "/\""), "invalid ticket: the folder is not an absolute path");
  EXPECT_EQ(with("\xc3\xa9", "\\u0000"), "invalid ticket: the folder is not an absolute path");
  EXPECT_EQ(with("\".safetensors-fe", "\"../.safetensors-fe"),
            "invalid ticket: the name of the temporary folder is not that of a temporary folder");
  for (const char* name : {"\"\"", "\"model.safetensors\"", "\"../.safetensors-0123456789abcdef.tmp\"",
                           "\".safetensors-0123456789abcdef.tmp/\"", "\".safetensors-0123456789abcde/.tmp\"",
                           "\".safetensors-0123456789abcdef.tmp\\u0000\"", "\"/etc/passwd\""})
    EXPECT_EQ(with("\"" + kFile + "\"", name), "invalid ticket: the name of a file is not that of a temporary file");
  EXPECT_EQ(with(",\"" + kFile + "\"]", "]"),
            "invalid ticket: 1 files, the layout has 2 (make the layout from the same arguments in every process)");
  EXPECT_EQ(with("]}", "],\"more\":1}"), "invalid ticket: it has a member too many");
  EXPECT_EQ(with("]}", "]}x").substr(0, 16), "invalid ticket: ");
  EXPECT_EQ(with(",\"files\":[\"" + kFile + "\",\"" + kFile + "\"]", ""), "invalid ticket: a member is missing");
}

// Every prefix of a ticket, and every ticket with one byte changed, is an error or a ticket. No read goes astray.
TEST(Ticket, SurvivesChangedBytes) {
  const std::string text = ticket_text(example()).value();
  for (std::size_t i = 0; i < text.size(); ++i) {
    EXPECT_FALSE(parse_ticket(text.substr(0, i), 2).ok()) << i;
    for (const char byte : {'\0', '"', '\\', '{', ']', ',', '9', '\xff'}) {
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
  for (std::uint64_t i = 0; i < 8; ++i) (void)first.claim({2 + i * 10, 5 + i * 10});
  (void)first.claim({90, 100});
  (void)second.claim({0, 4});
  (void)second.claim({4, 10});
  Receipt receipt{kId, kId, {}};
  append_rows(receipt.rows, 0, first);
  append_rows(receipt.rows, 1, second);
  const std::vector<RangeRow> rows = {{0, 2, 3, 10, 8}, {0, 90, 10, 0, 1}, {1, 0, 10, 0, 1}};
  EXPECT_EQ(receipt.rows, rows);
  const std::string text = receipt_text(receipt).value();
  EXPECT_EQ(text, receipt_with("[[0,2,3,10,8],[0,90,10,0,1],[1,0,10,0,1]]"));
  EXPECT_EQ(parse_receipt(text, kSizes).value().rows, rows);
  EXPECT_TRUE(parse_receipt(receipt_with("[]"), kSizes).value().rows.empty());
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
      (void)written.claim({begin, begin + 1 + random(4)});
    }
    std::vector<RangeRow> rows;
    append_rows(rows, 0, written);
    RangeSet again;
    for (const RangeRow& row : rows) {
      for (std::uint64_t i = 0; i < row.count; ++i) {
        const std::uint64_t begin = row.begin + i * row.stride;
        ASSERT_EQ(again.claim({begin, begin + row.size}), std::nullopt);
      }
    }
    EXPECT_EQ(again.ranges(), written.ranges());
    const std::string text = receipt_text({kId, kId, rows}).value();
    EXPECT_EQ(parse_receipt(text, {1000}).value().rows, rows);
  }
}

TEST(Receipt, RefusesOtherTexts) {
  const std::string sizes = "invalid receipt: a range with sizes that do not fit together";
  const std::string after = "invalid receipt: a range after the end of file 0, which has 100 bytes of data";
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"{}", "invalid receipt: expected an array (byte 123 of the text)"},
      {"[[0,0,1,0]]", "invalid receipt: a range of 4 numbers, expected 5"},
      {"[[0,0,1,0,1,0]]", "invalid receipt: a range of 6 numbers, expected 5"},
      {"[[]]", "invalid receipt: a range of 0 numbers, expected 5"},
      {"[[0,0,0,0,1]]", sizes},
      {"[[0,0,1,0,0]]", sizes},
      {"[[0,0,1,1,1]]", sizes},
      {"[[0,0,1,0,2]]", sizes},
      {"[[0,0,2,2,2]]", sizes},
      {"[[2,0,1,0,1]]", "invalid receipt: file 2 of 2"},
      {"[[0,0,101,0,1]]", after},
      {"[[0,100,1,0,1]]", after},
      {"[[0,0,1,10,11]]", after},
      {"[[0,18446744073709551615,1,0,1]]", after},
      {"[[0,0,1,9223372036854775808,3]]", after},
      {"[[0,0,1,2,18446744073709551615]]", after},
      {"[[0,4,4,0,1],[0,8,4,0,1]]", "invalid receipt: the ranges are not in order"},
      {"[[0,4,4,0,1],[0,0,4,0,1]]", "invalid receipt: the ranges are not in order"},
      {"[[1,4,4,0,1],[0,0,4,0,1]]", "invalid receipt: the ranges are not in order"},
      {"[[0,0,1,10,5],[0,20,1,0,1]]", "invalid receipt: the ranges are not in order"},
  };
  for (const auto& [ranges, message] : cases) EXPECT_EQ(receipt_message(receipt_with(ranges)), message) << ranges;
  EXPECT_EQ(receipt_message(ticket_text(example()).value()),
            "invalid receipt: expected the member `safetensors_receipt`");
  EXPECT_EQ(receipt_message(replaced(receipt_with("[]"), "\"writer\":\"0", "\"writer\":\"x")),
            "invalid receipt: `writer` is not 32 hexadecimal digits");
}

// A short text must not make a process reserve memory without limit.
TEST(Receipt, LimitsNumberOfRanges) {
  const std::string text = receipt_with("[[0,0,1,2,16777216],[0,40000000,1,0,1]]");
  const Error error = error_of(parse_receipt(text, {std::uint64_t{1} << 40}));
  EXPECT_EQ(error.message, "invalid receipt: more than 16777216 ranges");
  const Error own = error_of(receipt_text({kId, kId, {{0, 0, 1, 2, kMaxRanges}, {0, 40000000, 1, 0, 1}}}));
  EXPECT_EQ(own.message, "this process wrote 16777217 ranges that do not touch, a receipt takes 16777216");
}

}  // namespace
}  // namespace safetensors::write
