// Scenarios that replace the file out/target.safetensors. The driver compares it with the old and with the new bytes.
#include "faults/files.h"
#include "faults/trial.h"

namespace safetensors::test::faults {
namespace {

const char* const kTarget = "out/target.safetensors";
const char* const kOther = "out/other.safetensors";

struct Contents {
  explicit Contents(std::size_t elements) : bytes(elements * 4), shape{elements} {
    for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = byte_at(i);
    tensor = {"t", 1, shape, 1, bytes.data(), bytes.size(), SAFETENSORS_DTYPE_F32, 0};
  }
  std::vector<unsigned char> bytes;
  std::uint64_t shape[1];
  safetensors_tensor_data tensor;
};

void write_with(Trial& run, std::int32_t durability, std::size_t elements) {
  const Contents contents(elements);
  safetensors_write_options options = SAFETENSORS_WRITE_OPTIONS_INIT;
  options.durability = durability;
  TRY_ONCE(run, safetensors_write_file, run.path(kTarget).c_str(), &contents.tensor, 1, nullptr, 0, &options, nullptr);
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

void save(Trial& run) {
  const Contents contents(100);
  const safetensors_named_tensor tensor = {"t",   SAFETENSORS_DTYPE_F32, 1,
                                           {100}, contents.bytes.data(), contents.bytes.size()};
  const char* const metadata[] = {"format", "a value that fits into no short string", nullptr};
  TRY_ONCE(run, safetensors_save, run.path(kTarget).c_str(), &tensor, 1, metadata);
}

void write_two_files(Trial& run) {
  const Contents contents(100);
  const std::string target = run.path(kTarget);
  const std::string other = run.path(kOther);
  const safetensors_file_contents files[] = {{target.c_str(), &contents.tensor, 1, nullptr, 0},
                                             {other.c_str(), &contents.tensor, 1, nullptr, 0}};
  TRY_ONCE(run, safetensors_write_files, files, 2, nullptr, nullptr);
}

safetensors_header* header_of(Trial& run, const safetensors_tensor_data* tensors, std::size_t count) {
  safetensors_header* header = nullptr;
  PREPARE(run, safetensors_layout, tensors, count, nullptr, 0, nullptr, &header);
  return header;
}

safetensors_tensor* tensor_of(Trial& run, const char* in, const char* name) {
  safetensors_file* file = nullptr;
  safetensors_tensor* tensor = nullptr;
  PREPARE(run, safetensors_file_open, run.path(in).c_str(), nullptr, &file);
  PREPARE(run, safetensors_file_tensor, file, name, std::strlen(name), &tensor);
  safetensors_file_free(file);
  return tensor;
}

// Writes one tensor, copies another one from a file, and commits. A failure to write stays; commit then fails, too.
void write_pieces(Trial& run, const char* in, const char* name, std::size_t copied) {
  Contents contents(100);
  Contents copy(copied / 4);
  copy.tensor.name = name;
  copy.tensor.name_length = std::strlen(name);
  std::uint64_t bytes_shape[1] = {copied};
  if (std::string_view(name) == "big") {
    copy.tensor.dtype = SAFETENSORS_DTYPE_U8;
    copy.tensor.shape = bytes_shape;
    copy.bytes.resize(copied);
    copy.tensor.data = copy.bytes.data();
    copy.tensor.size = copied;
  } else {
    bytes_shape[0] = 0;
    static const std::uint64_t matrix[2] = {4, 6};
    copy.tensor.shape = matrix;
    copy.tensor.rank = 2;
  }
  const safetensors_tensor_data tensors[] = {contents.tensor, copy.tensor};
  safetensors_header* header = header_of(run, tensors, 2);
  safetensors_tensor* const tensor = tensor_of(run, in, name);
  safetensors_writer* writer = nullptr;
  TRY(run, safetensors_writer_create, run.path(kTarget).c_str(), header, nullptr, run.out(writer));
  safetensors_header_free(header);
  TRY(run, safetensors_writer_header, writer, run.out(header));
  TRY_VOID(run, safetensors_header_free, header);
  safetensors_status status =
      TRY_ONCE(run, safetensors_writer_write, writer, "t", 1, 0, contents.bytes.data(), contents.bytes.size() / 2);
  if (status == SAFETENSORS_OK)
    status = TRY_ONCE(run, safetensors_writer_write_rows, writer, "t", 1, 50, contents.bytes.data() + 200, 100);
  safetensors_slice* slice = nullptr;
  PREPARE(run, safetensors_slice_shard, 0, 3, 4, &slice);
  if (status == SAFETENSORS_OK)
    status = TRY_ONCE(run, safetensors_writer_write_slice, writer, "t", 1, slice, contents.bytes.data() + 300, 100);
  safetensors_slice_free(slice);
  if (status == SAFETENSORS_OK)
    status = TRY_ONCE(run, safetensors_writer_copy, writer, name, std::strlen(name), tensor);
  if (status == SAFETENSORS_OK) status = TRY_ONCE(run, safetensors_writer_commit, writer);
  if (status != SAFETENSORS_OK && status != SAFETENSORS_ERROR_REPLACED_NOT_DURABLE)
    EXPECT_IN(run, safetensors_writer_commit(writer, nullptr) != SAFETENSORS_OK);
  TRY_VOID(run, safetensors_writer_free, writer);
  safetensors_tensor_free(tensor);
}

void write_small_pieces(Trial& run) {
  write_pieces(run, kSmall, "w", 96);
}
void write_large_pieces(Trial& run) {
  write_pieces(run, kLarge, "big", kLargeBytes);
}

// Nothing is at the target but the old file, whatever fails.
void abort_writer(Trial& run) {
  const Contents contents(100);
  safetensors_header* const header = header_of(run, &contents.tensor, 1);
  safetensors_writer* writer = nullptr;
  TRY(run, safetensors_writer_create, run.path(kTarget).c_str(), header, nullptr, run.out(writer));
  TRY_FAILS(run, INCOMPLETE_WRITE, safetensors_writer_commit, writer);
  TRY(run, safetensors_writer_abort, writer);
  TRY_FAILS(run, WRITER_CLOSED, safetensors_writer_commit, writer);
  TRY_VOID(run, safetensors_writer_free, writer);
  safetensors_header_free(header);
}

void edit(Trial& run, bool in_place) {
  const safetensors_metadata edits[] = {{"format", 6, "np", 2}, {"x", 1, nullptr, 0}};
  safetensors_edit_options options = SAFETENSORS_EDIT_OPTIONS_INIT;
  options.in_place = in_place ? 1 : 0;
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
  safetensors_checkpoint_layout_options layout = SAFETENSORS_CHECKPOINT_LAYOUT_OPTIONS_INIT;
  layout.stem = "target";
  TRY_ONCE(run, safetensors_save_checkpoint, run.path("out").c_str(), &contents.tensor, 1, &layout, nullptr);
}

// Two tensors in files of their own, named after the stem.
struct Shards {
  explicit Shards(Trial& run) {
    second.tensor.name = "u";
    options.max_shard_size = 400;
    const safetensors_tensor_data& one = first.tensor;
    const safetensors_layout_tensor tensors[] = {{"t", 1, one.shape, 1, 0, 0, one.dtype, 0},
                                                 {"u", 1, one.shape, 1, 0, 0, one.dtype, 0}};
    PREPARE(run, safetensors_checkpoint_layout_create, tensors, 2, &options, &layout);
  }
  Shards(const Shards&) = delete;
  Shards& operator=(const Shards&) = delete;
  ~Shards() { safetensors_checkpoint_layout_free(layout); }

  Contents first{100};
  Contents second{100};
  safetensors_checkpoint_layout_options options = SAFETENSORS_CHECKPOINT_LAYOUT_OPTIONS_INIT;
  safetensors_checkpoint_layout* layout = nullptr;
};

// Two files and their index beside the target, which stays.
void save_shards(Trial& run) {
  const Shards shards(run);
  const safetensors_tensor_data tensors[] = {shards.first.tensor, shards.second.tensor};
  TRY_ONCE(run, safetensors_save_checkpoint_with_layout, run.path("out").c_str(), tensors, 2, shards.layout, nullptr);
}

// The same in a new folder, in pieces.
void write_new_folder(Trial& run) {
  const Shards shards(run);
  const Contents& contents = shards.first;
  safetensors_tensor* const tensor = tensor_of(run, kSmall, "w");
  safetensors_checkpoint_write_options options = SAFETENSORS_CHECKPOINT_WRITE_OPTIONS_INIT;
  options.new_folder = 1;
  safetensors_checkpoint_writer* writer = nullptr;
  TRY(run, safetensors_checkpoint_writer_create, run.path("out/new").c_str(), shards.layout, &options, run.out(writer));
  safetensors_checkpoint_layout* layout = nullptr;
  TRY(run, safetensors_checkpoint_writer_layout, writer, run.out(layout));
  safetensors_checkpoint_layout_free(layout);
  TRY_FAILS(run, DATA_LENGTH, safetensors_checkpoint_writer_copy, writer, "t", 1, tensor);
  safetensors_status status =
      TRY_ONCE(run, safetensors_checkpoint_writer_write, writer, "t", 1, 0, contents.bytes.data(), 400);
  if (status == SAFETENSORS_OK)
    status = TRY_ONCE(run, safetensors_checkpoint_writer_write_rows, writer, "u", 1, 0, contents.bytes.data(), 400);
  if (status == SAFETENSORS_OK) status = TRY_ONCE(run, safetensors_checkpoint_writer_commit, writer);
  if (status != SAFETENSORS_OK && status != SAFETENSORS_ERROR_REPLACED_NOT_DURABLE)
    EXPECT_IN(run, safetensors_checkpoint_writer_commit(writer, nullptr) != SAFETENSORS_OK);
  TRY_VOID(run, safetensors_checkpoint_writer_free, writer);
  safetensors_tensor_free(tensor);
}

std::string text_of(Trial& run, safetensors_buffer* buffer) {
  const void* data = nullptr;
  std::size_t size = 0;
  PREPARE(run, safetensors_buffer_bytes, buffer, &data, &size);
  std::string text(static_cast<const char*>(data), size);
  safetensors_buffer_free(buffer);
  return text;
}

// Writes a tensor in two slices into the file of another writer. Returns the receipt, or nothing after a failure.
std::string write_joined(Trial& run, const std::string& ticket, const Shards& shards) {
  safetensors_checkpoint_writer* joined = nullptr;
  TRY(run, safetensors_checkpoint_writer_join, ticket.data(), ticket.size(), shards.layout, nullptr, run.out(joined));
  safetensors_status status = SAFETENSORS_OK;
  for (std::uint64_t half = 0; half < 2 && status == SAFETENSORS_OK; ++half) {
    safetensors_slice* slice = nullptr;
    PREPARE(run, safetensors_slice_shard, 0, half, 2, &slice);
    status = TRY_ONCE(run, safetensors_checkpoint_writer_write_slice, joined, "u", 1, slice,
                      shards.second.bytes.data() + 200 * half, 200);
    safetensors_slice_free(slice);
  }
  safetensors_buffer* receipt = nullptr;
  if (status == SAFETENSORS_OK) status = TRY_ONCE(run, safetensors_checkpoint_writer_receipt, joined, run.out(receipt));
  TRY_VOID(run, safetensors_checkpoint_writer_free, joined);
  return status == SAFETENSORS_OK ? text_of(run, receipt) : std::string();
}

// Two writers, one of which joins. Without its receipt, the model is incomplete and nothing appears.
void write_together(Trial& run) {
  const Shards shards(run);
  safetensors_checkpoint_write_options options = SAFETENSORS_CHECKPOINT_WRITE_OPTIONS_INIT;
  options.shared = 1;
  safetensors_checkpoint_writer* writer = nullptr;
  TRY(run, safetensors_checkpoint_writer_create, run.path("out/new").c_str(), shards.layout, &options, run.out(writer));
  safetensors_buffer* ticket = nullptr;
  TRY(run, safetensors_checkpoint_writer_ticket, writer, run.out(ticket));
  const std::string receipt = write_joined(run, text_of(run, ticket), shards);
  if (!receipt.empty()) {
    TRY(run, safetensors_checkpoint_writer_accept, writer, receipt.data(), receipt.size());
    const safetensors_status status =
        TRY_ONCE(run, safetensors_checkpoint_writer_write, writer, "t", 1, 0, shards.first.bytes.data(), 400);
    if (status == SAFETENSORS_OK) TRY_ONCE(run, safetensors_checkpoint_writer_commit, writer);
  }
  TRY_VOID(run, safetensors_checkpoint_writer_free, writer);
}

// The temporary folder goes, and nothing appears.
void abort_new_folder(Trial& run) {
  const Shards shards(run);
  safetensors_checkpoint_writer* writer = nullptr;
  TRY(run, safetensors_checkpoint_writer_create, run.path("out/new").c_str(), shards.layout, nullptr, run.out(writer));
  TRY_FAILS(run, INCOMPLETE_WRITE, safetensors_checkpoint_writer_commit, writer);
  TRY(run, safetensors_checkpoint_writer_abort, writer);
  TRY_FAILS(run, WRITER_CLOSED, safetensors_checkpoint_writer_commit, writer);
  TRY_VOID(run, safetensors_checkpoint_writer_free, writer);
}

}  // namespace

const std::vector<Scenario> kWritingScenarios = {
    {.name = "WriteDurable", .body = write_durable, .writes = kTarget},
    {.name = "WritePlain", .body = write_plain, .writes = kTarget},
    {.name = "WriteLarge", .body = write_large, .writes = kTarget},
    {.name = "Save", .body = save, .writes = kTarget},
    {.name = "WriteTwoFiles", .body = write_two_files, .writes = kTarget, .either_after = {"renameat", "linkat"}},
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
