// One model written by several processes: its bytes, and the mistakes that are found.
#include <gtest/gtest.h>
#include <safetensors/checkpoint.h>
#include <safetensors/checkpoint_writer.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "os/directory.h"
#include "support/processes_support.h"

namespace safetensors::test {
namespace {

class CheckpointProcesses : public ProcessesTest {};

// A write of one process.
struct Cut {
  std::size_t process;
  std::size_t tensor;
  std::optional<Slice> slice;  // nullopt: the bytes [begin, end)
  std::uint64_t begin = 0, end = 0;
};

std::vector<Cut> cut_bytes(std::size_t tensor, std::uint64_t size, std::size_t processes, std::mt19937& random) {
  std::vector<Cut> cuts;
  for (std::uint64_t begin = 0; begin < size;) {
    const std::uint64_t step = std::uint64_t{1} << random() % 20;
    const std::uint64_t end = std::min(size, begin + 1 + random() % (2 * step));
    cuts.push_back({random() % processes, tensor, std::nullopt, begin, end});
    begin = end;
  }
  return cuts;
}

// Cuts each tensor by rows, by columns, in blocks, in steps or at random bytes.
std::vector<Cut> random_cuts(const Model& model, std::size_t processes, std::mt19937& random) {
  std::vector<Cut> cuts;
  for (std::size_t tensor = 0; tensor < model.names.size(); ++tensor) {
    const Shape& shape = model.shapes[tensor];
    const auto kind = shape.rank() < 2 ? 4 : random() % 5;
    if (kind == 4) {
      const std::vector<Cut> more = cut_bytes(tensor, shape.numel(), processes, random);
      cuts.insert(cuts.end(), more.begin(), more.end());
      continue;
    }
    for (std::size_t i = 0; i < processes; ++i) {
      if (kind == 0) cuts.push_back({i, tensor, Slice::shard(0, i, processes)});
      if (kind == 1) cuts.push_back({i, tensor, Slice::shard(-1, i, processes)});
      if (kind == 2)
        cuts.push_back(
            {i, tensor,
             Slice{DimSlice::range(static_cast<std::int64_t>(i), std::nullopt, static_cast<std::int64_t>(processes))}});
      if (kind != 3) continue;
      for (std::size_t j = 0; j < 2; ++j)
        cuts.push_back({(i + j) % processes, tensor, Slice{DimSlice::shard(i, processes), DimSlice::shard(j, 2)}});
    }
  }
  return cuts;
}

Status write_cut(CheckpointWriter& writer, const Model& model, const Cut& cut) {
  const std::string& name = model.names[cut.tensor];
  if (cut.slice) return writer.write_slice(name, *cut.slice, bytes_of(model.slice(cut.tensor, *cut.slice)));
  return writer.write(name, cut.begin,
                      bytes_of(std::string_view(model.data[cut.tensor]).substr(cut.begin, cut.end - cut.begin)));
}

TEST_F(CheckpointProcesses, EqualModelOfOneProcess) {
  std::mt19937 random(7);
  for (const std::size_t processes : {1U, 2U, 4U, 8U}) {
    for (int round = 0; round < 4; ++round) {
      Model model;
      for (int i = 0; i < 12; ++i) {
        const std::uint64_t rows = random() % 700, columns = random() % 3000;
        model.add(i % 4 == 0 ? Shape{rows * 100} : i % 4 == 3 ? Shape{rows % 9, 3, columns} : Shape{rows, columns});
      }
      const CheckpointLayout layout = model.layout(4'000'000);
      const std::vector<Cut> cuts = random_cuts(model, processes, random);
      const auto part = [&](std::size_t process) {
        return [&, process](CheckpointWriter& writer) -> Status {
          for (const Cut& cut : cuts) {
            if (cut.process != process) continue;
            if (Status status = write_cut(writer, model, cut); !status) return status;
          }
          return {};
        };
      };
      CheckpointWriter writer = create(layout);
      std::vector<Process> others;
      for (std::size_t i = 1; i < processes; ++i) others.push_back(start(writer.ticket().value(), layout, part(i)));
      ASSERT_TRUE(succeeds(part(0)(writer)));
      for (Process& other : others) ASSERT_TRUE(succeeds(writer.accept(other.text())));
      ASSERT_TRUE(succeeds(writer.commit()));
      const std::string alone = directory_ / "alone";
      ASSERT_TRUE(succeeds(save_checkpoint(alone, model.tensors(), layout)));
      expect_same_files(folder_, alone);
      std::filesystem::remove_all(folder_);
      std::filesystem::remove_all(alone);
    }
  }
  expect_no_temporary();
}

// Ranges with odd borders, small and large, so that every block of the file has bytes of several processes, and large
// writes bypass the page cache between them.
TEST_F(CheckpointProcesses, KeepBytesOfNeighboursInOneBlock) {
  constexpr std::size_t kProcesses = 4;
  std::mt19937 random(11);
  Model model;
  model.add({24'000'001});
  const CheckpointLayout layout = model.layout(1 << 30);
  const std::vector<Cut> cuts = cut_bytes(0, model.data[0].size(), kProcesses, random);
  CheckpointWriter writer = create(layout);
  std::vector<Process> others;
  for (std::size_t i = 0; i < kProcesses; ++i) {
    others.push_back(start(writer.ticket().value(), layout, [&, i](CheckpointWriter& joined) -> Status {
      for (const Cut& cut : cuts) {
        if (cut.process != i) continue;
        if (Status status = write_cut(joined, model, cut); !status) return status;
      }
      return {};
    }));
  }
  for (Process& other : others) ASSERT_TRUE(succeeds(writer.accept(other.text())));
  ASSERT_TRUE(succeeds(writer.commit()));
  EXPECT_TRUE(read_text(Checkpoint::open(folder_).value().tensor("t0")) == model.data[0]);
}

TEST_F(CheckpointProcesses, ReplaceModelInFolderThatExists) {
  save_old();
  CheckpointWriter writer = create(layout());
  Process other = start(writer.ticket().value(), layout(), letters('b', 1, 4));
  ASSERT_TRUE(succeeds(letters('b', 0, 1)(writer)));
  ASSERT_TRUE(succeeds(writer.accept(other.text())));
  EXPECT_EQ(model(), "aaa");
  ASSERT_TRUE(succeeds(writer.commit()));
  EXPECT_EQ(model(), "bbbb");
  expect_no_temporary();
}

// The mode of the old file would forbid the other processes to write.
TEST_F(CheckpointProcesses, KeepModeOfReadOnlyFile) {
  save_old('a', 1);
  ASSERT_EQ(::chmod((folder_ + "/m.safetensors").c_str(), 0444), 0);
  CheckpointWriter writer = create(layout(1));
  Process other = start(writer.ticket().value(), layout(1), letters('b', 0, 1));
  ASSERT_TRUE(succeeds(writer.accept(other.text())));
  ASSERT_TRUE(succeeds(writer.commit()));
  EXPECT_EQ(model(), "b");
  EXPECT_EQ(mode_of(folder_ + "/m.safetensors"), mode_t{0444});
}

TEST_F(CheckpointProcesses, JoinFromOtherWorkingDirectory) {
  const std::filesystem::path before = std::filesystem::current_path();
  std::filesystem::current_path(directory_.path());
  Result<CheckpointWriter> writer = CheckpointWriter::create("./model/", layout(), {.shared = true});
  ASSERT_TRUE(succeeds(writer));
  const std::string ticket = writer->ticket().value();
  std::filesystem::current_path(before);
  Process other = start(ticket, layout(), letters('b', 0, 4));
  ASSERT_TRUE(succeeds(writer->accept(other.text())));
  ASSERT_TRUE(succeeds(writer->commit()));
  EXPECT_EQ(model(), "bbbb");
}

TEST_F(CheckpointProcesses, FindByteWrittenTwice) {
  save_old();
  CheckpointWriter writer = create(layout());
  const std::string ticket = writer.ticket().value();
  ASSERT_TRUE(succeeds(letters('b', 0, 2)(writer)));
  ASSERT_TRUE(succeeds(writer.accept(start(ticket, layout(), letters('b', 2, 3)).text())));
  const std::string receipt = start(ticket, layout(), [](CheckpointWriter& joined) -> Status {
                                if (Status status = joined.write("t3", 0, bytes_of("cccc")); !status) return status;
                                return joined.write("t2", 1, bytes_of("cc"));
                              }).text();
  const Error error = error_of(writer.accept(receipt));
  EXPECT_EQ(error.code, Errc::overlapping_write);
  EXPECT_EQ(error.to_string(), folder_ +
                                   "/m-00003-of-00004.safetensors: tensor `t2`: bytes 1 to 3 of 4 were written by "
                                   "two processes");
  // Whose bytes the file has is unknown, so nothing repairs it.
  EXPECT_EQ(error_of(writer.write("t3", 0, bytes_of("bbbb"))).message, error.message);
  EXPECT_EQ(error_of(writer.commit()).message, error.message);
  EXPECT_EQ(model(), "aaa");
}

TEST_F(CheckpointProcesses, FindMissingBytes) {
  CheckpointWriter writer = create(layout());
  const std::string ticket = writer.ticket().value();
  ASSERT_TRUE(succeeds(writer.accept(start(ticket, layout(), letters('b', 1, 4)).text())));
  ASSERT_TRUE(succeeds(writer.accept(
      start(ticket, layout(), [](CheckpointWriter& joined) { return joined.write("t0", 0, bytes_of("b")); }).text())));
  const Error error = error_of(writer.commit());
  EXPECT_EQ(error.code, Errc::incomplete_write);
  EXPECT_EQ(error.message, "tensor `t0`: bytes 1 to 4 of 4 were never written");
  ASSERT_TRUE(succeeds(writer.write("t0", 1, bytes_of("bbb"))));
  ASSERT_TRUE(succeeds(writer.commit()));
  EXPECT_EQ(model(), "bbbb");
}

TEST_F(CheckpointProcesses, RefuseOtherLayout) {
  CheckpointWriter writer = create(layout());
  const std::string ticket = writer.ticket().value();
  const std::string fewer = error_of(CheckpointWriter::join(ticket, layout(3))).to_string();
  EXPECT_EQ(fewer,
            "invalid ticket: 4 files, the layout has 3 (make the layout from the same arguments in every process)");

  Model changed = small(4);
  changed.names[2] = "other";
  const CheckpointLayout other = changed.layout(4);
  Result<CheckpointWriter> joined = CheckpointWriter::join(ticket, other);
  ASSERT_TRUE(succeeds(joined));
  const Error error = error_of(joined->write("other", 0, bytes_of("xxxx")));
  EXPECT_EQ(error.code, Errc::invalid_argument);
  EXPECT_EQ(error.to_string(),
            folder_ +
                "/m-00003-of-00004.safetensors: cannot join: the header of this layout differs from that of the "
                "writer that gave the ticket (make the layout from the same arguments in every process)");
  EXPECT_EQ(error_of(joined->receipt()).message, error.message);
  ASSERT_TRUE(succeeds(letters('b', 0, 4)(writer)));
  ASSERT_TRUE(succeeds(writer.commit()));
  EXPECT_EQ(model(), "bbbb");
}

TEST_F(CheckpointProcesses, RefuseReceiptOfOthers) {
  CheckpointWriter writer = create(layout());
  const std::string ticket = writer.ticket().value();
  const std::string nothing = work(ticket, layout(), [](CheckpointWriter&) { return Status(); });
  ASSERT_TRUE(succeeds(writer.accept(nothing)));
  EXPECT_EQ(error_of(writer.accept(nothing)).to_string(), folder_ + ": the receipt was already accepted");

  const std::string elsewhere = directory_ / "elsewhere";
  const CheckpointWriter stranger = CheckpointWriter::create(elsewhere, layout(), {.shared = true}).value();
  const std::string foreign = work(stranger.ticket().value(), layout(), letters('x', 0, 4));
  EXPECT_EQ(error_of(writer.accept(foreign)).message,
            "the receipt belongs to another session: its writer joined with another ticket");
  EXPECT_EQ(error_of(writer.accept("{}")).to_string(),
            folder_ + ": invalid receipt: it is not a whole receipt of this version");
  EXPECT_EQ(error_of(writer.accept(ticket)).code, Errc::invalid_argument);
  ASSERT_TRUE(succeeds(letters('b', 0, 4)(writer)));  // none of these errors stays
  ASSERT_TRUE(succeeds(writer.commit()));
}

TEST_F(CheckpointProcesses, KeepToTheirRoles) {
  const auto message = [](const auto& outcome) {
    EXPECT_EQ(error_of(outcome).code, Errc::invalid_argument);
    return error_of(outcome).message;
  };
  CheckpointWriter writer = create(layout());
  CheckpointWriter joined = CheckpointWriter::join(writer.ticket().value(), layout()).value();
  EXPECT_EQ(message(joined.ticket()), "a joined writer has no ticket: take that of the creator");
  EXPECT_EQ(message(joined.accept("")), "a joined writer cannot accept a receipt, only the creator can");
  EXPECT_EQ(message(joined.commit()), "a joined writer cannot commit: give its receipt() to accept() of the creator");
  EXPECT_EQ(message(writer.receipt()), "the creator has no receipt: commit() knows what it wrote itself");
  CheckpointWriter alone = CheckpointWriter::create(directory_ / "alone", layout()).value();
  const std::string not_shared = "the writer is not shared: set `shared` in its options";
  EXPECT_EQ(message(alone.ticket()), not_shared);
  EXPECT_EQ(message(alone.receipt()), not_shared);
  EXPECT_EQ(message(alone.accept("")), not_shared);

  ASSERT_TRUE(succeeds(joined.receipt()));
  EXPECT_EQ(error_of(joined.receipt()).code, Errc::writer_closed);
  EXPECT_EQ(error_of(joined.write("t0", 0, bytes_of("xxxx"))).code, Errc::writer_closed);
  CheckpointWriter moved = std::move(writer);
  EXPECT_EQ(error_of(writer.ticket()).code, Errc::writer_closed);  // NOLINT(bugprone-use-after-move)
  EXPECT_EQ(error_of(writer.accept("")).code, Errc::writer_closed);
  ASSERT_TRUE(succeeds(letters('b', 0, 4)(moved)));
  ASSERT_TRUE(succeeds(moved.commit()));
  EXPECT_EQ(error_of(moved.ticket()).code, Errc::writer_closed);

  WriteOptions in_place;
  in_place.in_place_if_no_rename = true;
  const CheckpointWriteOptions options{.write = in_place, .shared = true};
  const std::vector<std::uint8_t> bytes(4);
  const std::string from = directory_ / "from.safetensors";
  ASSERT_TRUE(succeeds(safetensors::save(from, {{"t", {4}, bytes}})));
  const Tensor of_file = File::open(from).value()["t"];
  for (const Error& refused : {error_of(CheckpointWriter::create(folder_, layout(), options)),
                               error_of(save_checkpoint(directory_ / "new", {{"t", {4}, bytes}}, {}, options)),
                               error_of(save_checkpoint(directory_ / "new", {of_file}, {}, options))}) {
    EXPECT_EQ(refused.code, Errc::unsupported);
    EXPECT_EQ(refused.message, "a shared writer cannot write in place: unset in_place_if_no_rename");
  }
  EXPECT_FALSE(std::filesystem::exists(directory_ / "new"));
}

// A ticket cannot make a process write into any other file.
TEST_F(CheckpointProcesses, WriteOnlyIntoTemporaryFiles) {
  ASSERT_EQ(::mkdir(folder_.c_str(), 0700), 0);
  const std::string name = ".safetensors-0123456789abcdef.tmp";
  const std::string ticket =
      "safetensors ticket 1\n" + std::string(32, '0') + "\nnone\n\n" + name + "\n" + folder_ + "\nend\n";
  const auto attempt = [&] {
    Result<CheckpointWriter> joined = CheckpointWriter::join(ticket, layout(1));
    return succeeds(joined) ? error_of(joined->write("t0", 0, bytes_of("xxxx"))).code : Errc::ok;
  };
  EXPECT_EQ(attempt(), Errc::open_failed);
  EXPECT_TRUE(os::list_directory(folder_, true).value().empty());
  put(directory_ / "victim", "text");
  ASSERT_EQ(::symlink((directory_ / "victim").c_str(), (folder_ + "/" + name).c_str()), 0);
  EXPECT_EQ(attempt(), Errc::open_failed);
  ASSERT_EQ(::unlink((folder_ + "/" + name).c_str()), 0);
  ASSERT_EQ(::mkfifo((folder_ + "/" + name).c_str(), 0600), 0);
  EXPECT_EQ(attempt(), Errc::not_regular_file);
  ASSERT_EQ(::unlink((folder_ + "/" + name).c_str()), 0);
  put(folder_ + "/" + name, "other text");
  EXPECT_EQ(attempt(), Errc::invalid_argument);
  EXPECT_EQ(contents(folder_ + "/" + name), "other text");
  EXPECT_EQ(contents(directory_ / "victim"), "text");
}

// The creator and the joined writers count their bytes, and the creator also those of accepted receipts.
TEST_F(CheckpointProcesses, ReportProgress) {
  std::uint64_t last = 0, total = 0, joined_last = 0;
  CheckpointWriteOptions options;
  options.write.progress = [&](std::uint64_t done, std::uint64_t all) { return last = done, total = all, true; };
  CheckpointWriter writer = create(layout(), options);
  options.write.progress = [&](std::uint64_t done, std::uint64_t) { return joined_last = done, true; };
  {
    CheckpointWriter joined = CheckpointWriter::join(writer.ticket().value(), layout(), options).value();
    ASSERT_TRUE(succeeds(letters('b', 0, 3)(joined)));
    ASSERT_TRUE(succeeds(writer.accept(joined.receipt().value())));
  }
  ASSERT_TRUE(succeeds(letters('b', 3, 4)(writer)));
  EXPECT_EQ(last, total);
  EXPECT_LT(joined_last, total);
  ASSERT_TRUE(succeeds(writer.commit()));
}

TEST_F(CheckpointProcesses, LeaveFilesToCreator) {
  CheckpointWriter writer = create(layout());
  const std::string ticket = writer.ticket().value();
  const std::size_t before = os::list_directory(directory_ / directory_.names()[0], true).value().size();
  {
    CheckpointWriter joined = CheckpointWriter::join(ticket, layout()).value();
    ASSERT_TRUE(succeeds(letters('x', 0, 4)(joined)));
  }
  EXPECT_EQ(in_child([&] {
              { const CheckpointWriter gone = std::move(writer); }  // the child of a fork removes nothing
              return true;
            }),
            0);
  EXPECT_EQ(os::list_directory(directory_ / directory_.names()[0], true).value().size(), before);
  ASSERT_TRUE(succeeds(letters('b', 0, 4)(writer)));
  ASSERT_TRUE(succeeds(writer.commit()));
  EXPECT_EQ(model(), "bbbb");
}

}  // namespace
}  // namespace safetensors::test
