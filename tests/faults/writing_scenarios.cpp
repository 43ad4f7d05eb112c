// Scenarios that replace the file out/target.safetensors. The driver compares it with the old and with the new bytes.
#include <safetensors/checkpoint_writer.h>
#include <safetensors/save.h>

#include <optional>

#include "c/support.h"
#include "faults/files.h"
#include "faults/trial.h"

namespace safetensors::test::faults {
namespace {

const char* const kTarget = "out/target.safetensors";

struct Contents {
  explicit Contents(std::size_t elements) : bytes(elements * 4), shape{elements} {
    for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = byte_at(i);
    tensor = {"t", 1, SAFETENSORS_DTYPE_F32, 0, shape, 1, bytes.data(), bytes.size()};
  }
  std::vector<unsigned char> bytes;
  std::uint64_t shape[1];
  safetensors_tensor_data tensor;
};

safetensors_write_options metadata_options() {
  static const safetensors_metadata pair = {"format", 6, "a value that fits into no short string", 38};
  safetensors_write_options options = SAFETENSORS_WRITE_OPTIONS_INIT;
  options.metadata = &pair;
  options.metadata_count = 1;
  return options;
}

void write_with(Trial& run, std::int32_t durability, std::size_t elements) {
  const Contents contents(elements);
  safetensors_write_options options = metadata_options();
  options.durability = durability;
  TRY_ONCE(run, safetensors_save, run.path(kTarget).c_str(), &contents.tensor, 1, &options);
}

void write_durable(Trial& run) {
  write_with(run, SAFETENSORS_DURABILITY_FULL, 100);
}
void write_plain(Trial& run) {
  write_with(run, SAFETENSORS_DURABILITY_NONE, 100);
}
// Past the page cache, by several threads.
void write_large(Trial& run) {
  write_with(run, SAFETENSORS_DURABILITY_FULL, (std::size_t{5} << 20) / 4);
}

// Tensors of another file, which C cannot save.
safetensors_status save_tensors(const char* path, Durability durability, const NamedTensor* first, std::size_t count,
                                safetensors_error* error) {
  return c::guarded(
      error, [&](c::Call& call) { call.check(save(path, std::span(first, count), {}, {.durability = durability})); });
}
void save_from_file(Trial& run, Durability durability) {
  const File file = File::open(run.path(kLarge)).value();
  const NamedTensor tensors[] = {file["big"], file["f"]};
  run.attempt_once("safetensors_save of tensors", save_tensors, run.path(kTarget).c_str(), durability, tensors, 2,
                   nullptr);
}
void save_tensors_durable(Trial& run) {
  save_from_file(run, Durability::full);
}
void save_tensors_plain(Trial& run) {
  save_from_file(run, Durability::none);
}

// Writes one tensor, copies another one from a file, and commits. A failure to write stays; commit then fails, too.
void write_pieces(Trial& run, const char* in, const char* name, safetensors_tensor_data copied) {
  const Contents contents(100);
  copied.name = name;
  copied.name_length = SAFETENSORS_NUL_TERMINATED;
  const safetensors_tensor_data tensors[] = {contents.tensor, copied};
  const safetensors_write_options options = metadata_options();
  safetensors_model* model = nullptr;
  PREPARE(run, safetensors_model_open, run.path(in).c_str(), nullptr, &model);
  safetensors_writer* writer = nullptr;
  TRY(run, safetensors_writer_create, run.path(kTarget).c_str(), tensors, 2, &options, run.out(writer));
  const unsigned char* const bytes = contents.bytes.data();
  safetensors_status status = TRY_ONCE(run, safetensors_writer_write, writer, "t", 1, 0, bytes, 200);
  const safetensors_dim half = SAFETENSORS_DIM_SHARD(1, 2);
  if (status == SAFETENSORS_OK)
    status = TRY_ONCE(run, safetensors_writer_write_slice, writer, "t", 1, &half, 1, bytes + 200, 200);
  if (status == SAFETENSORS_OK)
    status = TRY_ONCE(run, safetensors_writer_copy, writer, name, std::strlen(name), model, name, std::strlen(name));
  if (status == SAFETENSORS_OK) status = TRY_ONCE(run, safetensors_writer_commit, writer);
  if (status != SAFETENSORS_OK && status != SAFETENSORS_ERROR_REPLACED_NOT_DURABLE)
    EXPECT_IN(run, safetensors_writer_commit(writer, nullptr) != SAFETENSORS_OK);
  TRY_VOID(run, safetensors_writer_free, writer);
  safetensors_model_free(model);
}

void write_small_pieces(Trial& run) {
  const std::uint64_t matrix[2] = {4, 6};
  write_pieces(run, kSmall, "w", {nullptr, 0, SAFETENSORS_DTYPE_F32, 0, matrix, 2, nullptr, 0});
}
void write_large_pieces(Trial& run) {
  const std::uint64_t list[1] = {kLargeBytes};
  write_pieces(run, kLarge, "big", {nullptr, 0, SAFETENSORS_DTYPE_U8, 0, list, 1, nullptr, 0});
}

// Nothing is at the target but the old file, whatever fails.
void abort_writer(Trial& run) {
  const Contents contents(100);
  safetensors_writer* writer = nullptr;
  TRY(run, safetensors_writer_create, run.path(kTarget).c_str(), &contents.tensor, 1, nullptr, run.out(writer));
  TRY_FAILS(run, INCOMPLETE_WRITE, safetensors_writer_commit, writer);
  TRY_VOID(run, safetensors_writer_free, writer);
}

void edit(Trial& run, bool in_place) {
  const safetensors_metadata edits[] = {{"format", 6, "np", 2}, {"x", 1, nullptr, 0}};
  safetensors_write_options options = SAFETENSORS_WRITE_OPTIONS_INIT;
  options.edit_in_place = in_place ? 1 : 0;
  TRY_ONCE(run, safetensors_edit_metadata, run.path(kTarget).c_str(), edits, 2, &options);
}

void edit_replacing(Trial& run) {
  edit(run, false);
}
void edit_in_place(Trial& run) {
  edit(run, true);
}

// One file, which replaces the target. An old index would have to go.
void save_model(Trial& run) {
  const Contents contents(100);
  safetensors_write_options options = SAFETENSORS_WRITE_OPTIONS_INIT;
  options.stem = "target";
  options.max_shard_size = 5'000'000'000;
  TRY_MODEL_ONCE(run, safetensors_save, run.path("out").c_str(), &contents.tensor, 1, &options);
}

// Two tensors in files of their own, named after the stem.
struct Shards {
  Shards() {
    second.tensor.name = "u";
    tensors[0] = first.tensor;
    tensors[1] = second.tensor;
    options.max_shard_size = 400;
  }
  Contents first{100};
  Contents second{100};
  safetensors_tensor_data tensors[2];
  safetensors_write_options options = metadata_options();
};

// Two files and their index beside the target, which stays.
void save_shards(Trial& run) {
  const Shards shards;
  TRY_MODEL_ONCE(run, safetensors_save, run.path("out").c_str(), shards.tensors, 2, &shards.options);
}

// The same in a new folder, in pieces.
void write_new_folder(Trial& run) {
  Shards shards;
  shards.options.new_only = 1;
  safetensors_writer* writer = nullptr;
  TRY_MODEL(run, safetensors_writer_create, run.path("out/new").c_str(), shards.tensors, 2, &shards.options,
            run.out(writer));
  const unsigned char* const bytes = shards.first.bytes.data();
  safetensors_status status = TRY_MODEL_ONCE(run, safetensors_writer_write, writer, "t", 1, 0, bytes, 400);
  if (status == SAFETENSORS_OK)
    status = TRY_MODEL_ONCE(run, safetensors_writer_write_slice, writer, "u", 1, nullptr, 0, bytes, 400);
  if (status == SAFETENSORS_OK) status = TRY_MODEL_ONCE(run, safetensors_writer_commit, writer);
  if (status != SAFETENSORS_OK && status != SAFETENSORS_ERROR_REPLACED_NOT_DURABLE)
    EXPECT_IN(run, safetensors_writer_commit(writer, nullptr) != SAFETENSORS_OK);
  TRY_VOID(run, safetensors_writer_free, writer);
}

// The temporary folder goes, and nothing appears.
void abort_new_folder(Trial& run) {
  const Shards shards;
  safetensors_writer* writer = nullptr;
  TRY_MODEL(run, safetensors_writer_create, run.path("out/new").c_str(), shards.tensors, 2, &shards.options,
            run.out(writer));
  TRY_FAILS(run, INCOMPLETE_WRITE, safetensors_writer_commit, writer);
  TRY_VOID(run, safetensors_writer_free, writer);
}

// Writers of several processes, which C does not have. The functions report errors as those of C.
struct Together {
  Together() {
    static const Shape shape{100};
    layout = CheckpointLayout::make({{.name = "t", .dtype = Dtype::F32, .shape = shape},
                                     {.name = "u", .dtype = Dtype::F32, .shape = shape}},
                                    {.max_shard_size = 400, .stem = "target"})
                 .value();
  }
  std::optional<CheckpointLayout> layout;
  std::optional<CheckpointWriter> creator, joined;
  std::string ticket, receipt;
};

template <class Kept, class T>
void keep(c::Call& call, Kept& kept, Result<T> result) {
  if (!result) return call.fail(std::move(result).error());
  kept = *std::move(result);
}

safetensors_status create(Together* all, const char* folder, safetensors_error* error) {
  return c::guarded(error, [&](c::Call& call) {
    keep(call, all->creator, CheckpointWriter::create(std::string_view(folder), *all->layout, {.shared = true}));
  });
}
safetensors_status get_ticket(Together* all, safetensors_error* error) {
  return c::guarded(error, [&](c::Call& call) { keep(call, all->ticket, all->creator->ticket()); });
}
safetensors_status join(Together* all, safetensors_error* error) {
  return c::guarded(error,
                    [&](c::Call& call) { keep(call, all->joined, CheckpointWriter::join(all->ticket, *all->layout)); });
}
safetensors_status get_receipt(Together* all, safetensors_error* error) {
  return c::guarded(error, [&](c::Call& call) { keep(call, all->receipt, all->joined->receipt()); });
}
safetensors_status accept_receipt(Together* all, safetensors_error* error) {
  return c::guarded(error, [&](c::Call& call) { call.check(all->creator->accept(all->receipt)); });
}
safetensors_status commit(Together* all, safetensors_error* error) {
  return c::guarded(error, [&](c::Call& call) { call.check(all->creator->commit()); });
}
// The joined writer writes u in two slices, the creator t at once.
safetensors_status write_part(Together* all, std::uint64_t part, const Contents* from, safetensors_error* error) {
  return c::guarded(error, [&](c::Call& call) {
    const auto bytes = std::as_bytes(std::span(from->bytes));
    call.check(part == 2 ? all->creator->write("t", 0, bytes)
                         : all->joined->write_slice("u", Slice::shard(0, part, 2), bytes.subspan(200 * part, 200)));
  });
}

// Two writers, one of which joins. Without its receipt, the model is incomplete and nothing appears.
void write_together(Trial& run) {
  const Contents contents(100);
  Together all;
  TRY_MODEL(run, create, &all, run.path("out/new").c_str());
  TRY_MODEL(run, get_ticket, &all);
  TRY_MODEL(run, join, &all);
  safetensors_status status = TRY_MODEL_ONCE(run, write_part, &all, 0, &contents);
  if (status == SAFETENSORS_OK) status = TRY_MODEL_ONCE(run, write_part, &all, 1, &contents);
  if (status == SAFETENSORS_OK) status = TRY_MODEL_ONCE(run, get_receipt, &all);
  all.joined.reset();
  if (status != SAFETENSORS_OK) return;
  TRY_MODEL(run, accept_receipt, &all);
  status = TRY_MODEL_ONCE(run, write_part, &all, 2, &contents);
  if (status == SAFETENSORS_OK) TRY_MODEL_ONCE(run, commit, &all);
}

}  // namespace

const std::vector<Scenario> kWritingScenarios = {
    {.name = "WriteDurable", .body = write_durable, .writes = kTarget},
    {.name = "WritePlain", .body = write_plain, .writes = kTarget},
    {.name = "WriteLarge", .body = write_large, .writes = kTarget},
    {.name = "SaveTensorsDurable", .body = save_tensors_durable, .writes = kTarget},
    {.name = "SaveTensorsPlain", .body = save_tensors_plain, .writes = kTarget},
    {.name = "WriteSmallPieces", .body = write_small_pieces, .writes = kTarget},
    {.name = "WriteLargePieces", .body = write_large_pieces, .writes = kTarget},
    {.name = "AbortWriter", .body = abort_writer, .writes = kTarget},
    {.name = "SaveModel", .body = save_model, .writes = kTarget, .either_after = {"unlinkat"}},
    {.name = "SaveShards", .body = save_shards, .writes = kTarget, .either_after = {"renameat", "linkat"}},
    {.name = "WriteNewFolder", .body = write_new_folder, .writes = kTarget},
    {.name = "WriteTogether", .body = write_together, .writes = kTarget},
    {.name = "AbortNewFolder", .body = abort_new_folder, .writes = kTarget},
    {.name = "EditReplacing", .body = edit_replacing, .writes = kTarget},
    {.name = "EditInPlace", .body = edit_in_place, .writes = kTarget, .either_after = {"fsync"}},
};

}  // namespace safetensors::test::faults
