/* One model that several processes write: real children that join and write, and uses that are refused. */
#define _GNU_SOURCE
#include <sys/wait.h>

#include "c/test_files.h"

enum { kRows = 6, kColumns = 4, kChildren = 2 };

static const uint64_t kMatrix[2] = {kRows, kColumns};
static char folder[160];
static char elsewhere[160];

/* Two tensors, each in a file of its own. Every process makes the same layout. */
static safetensors_checkpoint_layout* make_layout(void) {
  const safetensors_layout_tensor tensors[] = {{"a", 1, kMatrix, 2, 0, 0, SAFETENSORS_DTYPE_U8, 0},
                                               {"b", 1, kMatrix, 2, 0, 0, SAFETENSORS_DTYPE_U8, 0}};
  safetensors_checkpoint_layout_options options = SAFETENSORS_CHECKPOINT_LAYOUT_OPTIONS_INIT;
  safetensors_checkpoint_layout* layout = NULL;
  options.max_shard_size = kRows * kColumns;
  GOOD(safetensors_checkpoint_layout_create(tensors, 2, &options, &layout, &error));
  return layout;
}

static safetensors_checkpoint_writer* create_shared(const char* at, const safetensors_checkpoint_layout* layout) {
  safetensors_checkpoint_write_options options = SAFETENSORS_CHECKPOINT_WRITE_OPTIONS_INIT;
  safetensors_checkpoint_writer* writer = NULL;
  options.shared = 1;
  GOOD(safetensors_checkpoint_writer_create(at, layout, &options, &writer, &error));
  return writer;
}

struct text {
  char bytes[4096];
  size_t length;
};

/* Copies a buffer and frees it. */
static struct text text_of(safetensors_buffer* buffer) {
  struct text text = {"", 0};
  const void* data = NULL;
  size_t size = 0;
  GOOD(safetensors_buffer_bytes(buffer, &data, &size, &error));
  CHECK(size < sizeof text.bytes);
  if (data && size < sizeof text.bytes) memcpy(text.bytes, data, text.length = size);
  safetensors_buffer_free(buffer);
  return text;
}

static struct text ticket_of(const safetensors_checkpoint_writer* writer) {
  safetensors_buffer* ticket = NULL;
  GOOD(safetensors_checkpoint_writer_ticket(writer, &ticket, &error));
  return text_of(ticket);
}

static struct text receipt_of(safetensors_checkpoint_writer* writer) {
  safetensors_buffer* receipt = NULL;
  GOOD(safetensors_checkpoint_writer_receipt(writer, &receipt, &error));
  return text_of(receipt);
}

static safetensors_checkpoint_writer* join(const struct text* ticket, const safetensors_checkpoint_layout* layout) {
  safetensors_checkpoint_writer* writer = NULL;
  GOOD(safetensors_checkpoint_writer_join(ticket->bytes, ticket->length, layout, NULL, &writer, &error));
  return writer;
}

/* The columns of "a" and the rows of "b" that process `index` of `count` writes. */
static void write_part(safetensors_checkpoint_writer* writer, uint64_t index, uint64_t count) {
  const uint64_t columns = kColumns / count;
  const uint64_t rows = kRows / count;
  unsigned char part[kRows * kColumns];
  safetensors_slice* slice = NULL;
  size_t size = 0;
  GOOD(safetensors_slice_shard(-1, index, count, &slice, &error));
  for (uint64_t row = 0; row < kRows; ++row) {
    for (uint64_t column = 0; column < columns; ++column)
      part[size++] = bytes24[row * kColumns + index * columns + column];
  }
  GOOD(safetensors_checkpoint_writer_write_slice(writer, TEXT("a"), slice, part, size, &error));
  safetensors_slice_free(slice);
  GOOD(safetensors_checkpoint_writer_write_rows(writer, TEXT("b"), index * rows, bytes24 + 24 + index * rows * kColumns,
                                                rows * kColumns, &error));
}

static void check_model(void) {
  safetensors_checkpoint* model = NULL;
  unsigned char read[kRows * kColumns];
  GOOD(safetensors_checkpoint_open(folder, NULL, &model, &error));
  for (int i = 0; i < 2; ++i) {
    GOOD(safetensors_checkpoint_read(model, i == 0 ? "a" : "b", SAFETENSORS_DTYPE_U8, kMatrix, 2, read, sizeof read,
                                     &error));
    CHECK(memcmp(read, bytes24 + 24 * i, sizeof read) == 0);
  }
  safetensors_checkpoint_free(model);
}

static void remove_model(void) {
  static const char* const names[] = {"model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors",
                                      "model.safetensors.index.json"};
  for (int i = 0; i < 3; ++i) {
    char whole[256];
    snprintf(whole, sizeof whole, "%s/%s", folder, names[i]);
    CHECK(unlink(whole) == 0);
  }
  CHECK(rmdir(folder) == 0); /* no temporary file is left */
}

/* A child process, with a pipe in each direction. */
struct child {
  pid_t process;
  int to;
  int from;
};

static void work_in_child(int index, int in, int out) {
  struct text ticket = {"", 0};
  struct text receipt;
  ssize_t count;
  safetensors_checkpoint_layout* layout = make_layout();
  safetensors_checkpoint_writer* writer;
  while ((count = read(in, ticket.bytes + ticket.length, sizeof ticket.bytes - ticket.length)) > 0)
    ticket.length += (size_t)count;
  close(in);
  writer = join(&ticket, layout);
  write_part(writer, (uint64_t)index, kChildren);
  receipt = receipt_of(writer);
  CHECK(write(out, receipt.bytes, receipt.length) == (ssize_t)receipt.length);
  close(out);
  safetensors_checkpoint_writer_free(writer);
  safetensors_checkpoint_layout_free(layout);
}

/* Starts a child. It inherits no handle of the library: start it before the first is made. */
static struct child start(int index, const struct child* before, int count) {
  int to[2] = {-1, -1};
  int from[2] = {-1, -1};
  struct child child = {-1, -1, -1};
  CHECK(pipe(to) == 0 && pipe(from) == 0);
  fflush(stdout);
  child.process = fork();
  if (child.process == 0) {
    for (int i = 0; i < count; ++i) {
      close(before[i].to);
      close(before[i].from);
    }
    close(to[1]);
    close(from[0]);
    work_in_child(index, to[0], from[1]);
    fflush(stdout);
    _exit(failures == 0 ? 0 : 1);
  }
  CHECK(child.process > 0);
  close(to[0]);
  close(from[1]);
  child.to = to[1];
  child.from = from[0];
  return child;
}

static struct text receive(int from) {
  struct text text = {"", 0};
  ssize_t count;
  while ((count = read(from, text.bytes + text.length, sizeof text.bytes - text.length)) > 0)
    text.length += (size_t)count;
  close(from);
  return text;
}

static void children_that_write(void) {
  struct child children[kChildren];
  struct text ticket;
  safetensors_checkpoint_layout* layout;
  safetensors_checkpoint_writer* writer;
  for (int i = 0; i < kChildren; ++i) children[i] = start(i, children, i);
  layout = make_layout();
  writer = create_shared(folder, layout);
  ticket = ticket_of(writer);
  for (int i = 0; i < kChildren; ++i) {
    CHECK(write(children[i].to, ticket.bytes, ticket.length) == (ssize_t)ticket.length);
    close(children[i].to);
  }
  for (int i = 0; i < kChildren; ++i) {
    const struct text receipt = receive(children[i].from);
    int status = -1;
    if (i == 1) {
      FAILS(safetensors_checkpoint_writer_commit(writer, &error), INCOMPLETE_WRITE);
      SAYS("tensor `a`: bytes 2 to 4 of 24 were never written");
    }
    GOOD(safetensors_checkpoint_writer_accept(writer, receipt.bytes, receipt.length, &error));
    CHECK(waitpid(children[i].process, &status, 0) == children[i].process);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  }
  CHECK(access(folder, F_OK) != 0); /* nothing appears before the commit */
  GOOD(safetensors_checkpoint_writer_commit(writer, &error));
  safetensors_checkpoint_writer_free(writer);
  safetensors_checkpoint_layout_free(layout);
  check_model();
  remove_model();
}

/* The creator writes the first half, and accepts the second. */
static void creator_that_writes(void) {
  safetensors_checkpoint_layout* layout = make_layout();
  safetensors_checkpoint_writer* writer = create_shared(folder, layout);
  const struct text ticket = ticket_of(writer);
  safetensors_checkpoint_writer* joined = join(&ticket, layout);
  struct text receipt;
  write_part(writer, 0, 2);
  write_part(joined, 1, 2);
  receipt = receipt_of(joined);
  FAILS(safetensors_checkpoint_writer_commit(writer, &error), INCOMPLETE_WRITE);
  GOOD(safetensors_checkpoint_writer_accept(writer, receipt.bytes, receipt.length, &error));
  FAILS(safetensors_checkpoint_writer_accept(writer, receipt.bytes, receipt.length, &error), INVALID_ARGUMENT);
  SAYS("the receipt was already accepted");
  GOOD(safetensors_checkpoint_writer_commit(writer, &error));
  safetensors_checkpoint_writer_free(writer);
  safetensors_checkpoint_writer_free(joined);
  safetensors_checkpoint_layout_free(layout);
  check_model();
  remove_model();
}

static void byte_written_twice(void) {
  safetensors_checkpoint_layout* layout = make_layout();
  safetensors_checkpoint_writer* writer = create_shared(folder, layout);
  const struct text ticket = ticket_of(writer);
  safetensors_checkpoint_writer* joined = join(&ticket, layout);
  struct text receipt;
  GOOD(safetensors_checkpoint_writer_write(writer, TEXT("a"), 0, bytes24, 24, &error));
  GOOD(safetensors_checkpoint_writer_write(joined, TEXT("a"), 8, bytes24, 2, &error));
  receipt = receipt_of(joined);
  FAILS(safetensors_checkpoint_writer_accept(writer, receipt.bytes, receipt.length, &error), OVERLAPPING_WRITE);
  SAYS("tensor `a`: bytes 8 to 10 of 24 were written by two processes");
  FAILS(safetensors_checkpoint_writer_write(writer, TEXT("b"), 0, bytes24, 24, &error), OVERLAPPING_WRITE);
  FAILS(safetensors_checkpoint_writer_commit(writer, &error), OVERLAPPING_WRITE);
  safetensors_checkpoint_writer_free(writer);
  safetensors_checkpoint_writer_free(joined);
  safetensors_checkpoint_layout_free(layout);
  CHECK(access(folder, F_OK) != 0);
}

static void roles_that_are_mixed_up(void) {
  safetensors_checkpoint_layout* layout = make_layout();
  safetensors_checkpoint_writer* writer = create_shared(folder, layout);
  safetensors_checkpoint_writer* alone = NULL;
  const struct text ticket = ticket_of(writer);
  safetensors_checkpoint_writer* joined = join(&ticket, layout);
  safetensors_buffer* text = NULL;
  const struct text nothing = receipt_of(joined);
  GOOD(safetensors_checkpoint_writer_create(elsewhere, layout, NULL, &alone, &error));
  FAILS(safetensors_checkpoint_writer_ticket(alone, &text, &error), INVALID_ARGUMENT);
  SAYS("the writer is not shared: set `shared` in its options");
  CHECK(text == NULL);
  FAILS(safetensors_checkpoint_writer_accept(alone, nothing.bytes, nothing.length, &error), INVALID_ARGUMENT);
  FAILS(safetensors_checkpoint_writer_receipt(alone, &text, &error), INVALID_ARGUMENT);
  FAILS(safetensors_checkpoint_writer_receipt(writer, &text, &error), INVALID_ARGUMENT);
  FAILS(safetensors_checkpoint_writer_ticket(joined, &text, &error), INVALID_ARGUMENT);
  FAILS(safetensors_checkpoint_writer_accept(joined, nothing.bytes, nothing.length, &error), INVALID_ARGUMENT);
  FAILS(safetensors_checkpoint_writer_commit(joined, &error), INVALID_ARGUMENT);
  FAILS(safetensors_checkpoint_writer_receipt(joined, &text, &error), WRITER_CLOSED);
  FAILS(safetensors_checkpoint_writer_write(joined, TEXT("a"), 0, bytes24, 24, &error), WRITER_CLOSED);
  GOOD(safetensors_checkpoint_writer_abort(alone, &error));
  FAILS(safetensors_checkpoint_writer_ticket(alone, &text, &error), WRITER_CLOSED);
  GOOD(safetensors_checkpoint_writer_accept(writer, nothing.bytes, nothing.length, &error));
  safetensors_checkpoint_writer_free(writer);
  safetensors_checkpoint_writer_free(alone);
  safetensors_checkpoint_writer_free(joined);
  safetensors_checkpoint_layout_free(layout);
}

static void texts_that_are_refused(void) {
  safetensors_checkpoint_layout* layout = make_layout();
  safetensors_checkpoint_layout* other = NULL;
  safetensors_checkpoint_writer* writer = create_shared(folder, layout);
  safetensors_checkpoint_writer* stranger = create_shared(elsewhere, layout);
  safetensors_checkpoint_writer* joined = NULL;
  safetensors_checkpoint_write_options options = SAFETENSORS_CHECKPOINT_WRITE_OPTIONS_INIT;
  safetensors_write_options write = SAFETENSORS_WRITE_OPTIONS_INIT;
  const struct text ticket = ticket_of(writer);
  const struct text foreign = ticket_of(stranger);
  struct text receipt;
  FAILS(safetensors_checkpoint_writer_join(TEXT("{}"), layout, NULL, &joined, &error), INVALID_ARGUMENT);
  SAYS("invalid ticket: expected a key in double quotes (byte 1 of the text)");
  CHECK(joined == NULL);
  FAILS(safetensors_checkpoint_writer_join(NULL, 0, layout, NULL, &joined, &error), INVALID_ARGUMENT);
  GOOD(safetensors_checkpoint_layout_create(NULL, 0, NULL, &other, &error));
  FAILS(safetensors_checkpoint_writer_join(ticket.bytes, ticket.length, other, NULL, &joined, &error),
        INVALID_ARGUMENT);
  SAYS("invalid ticket: 2 files, the layout has 1 (make the layout from the same arguments in every process)");
  joined = join(&foreign, layout);
  receipt = receipt_of(joined);
  FAILS(safetensors_checkpoint_writer_accept(writer, receipt.bytes, receipt.length, &error), INVALID_ARGUMENT);
  SAYS("the receipt belongs to another session: its writer joined with another ticket");
  FAILS(safetensors_checkpoint_writer_accept(writer, TEXT("[]"), &error), INVALID_ARGUMENT);
  safetensors_checkpoint_writer_free(joined);

  write.in_place_if_no_rename = 1;
  options.write = &write;
  options.shared = 1;
  FAILS(safetensors_checkpoint_writer_create(folder, layout, &options, &joined, &error), UNSUPPORTED);
  options.write = NULL;
  options.reserved = 1;
  FAILS(safetensors_checkpoint_writer_create(folder, layout, &options, &joined, &error), UNSUPPORTED);
  FAILS(safetensors_checkpoint_writer_join(ticket.bytes, ticket.length, layout, &options, &joined, &error),
        UNSUPPORTED);
  options.struct_size = offsetof(safetensors_checkpoint_write_options, shared); /* an older program: not shared */
  safetensors_checkpoint_writer_free(stranger);
  GOOD(safetensors_checkpoint_writer_create(elsewhere, layout, &options, &stranger, &error));
  {
    safetensors_buffer* none = NULL;
    FAILS(safetensors_checkpoint_writer_ticket(stranger, &none, &error), INVALID_ARGUMENT);
  }
  safetensors_checkpoint_writer_free(stranger);
  safetensors_checkpoint_writer_free(writer);
  safetensors_checkpoint_layout_free(layout);
  safetensors_checkpoint_layout_free(other);
}

static void null_arguments(void) {
  safetensors_checkpoint_layout* layout = make_layout();
  safetensors_checkpoint_writer* writer = create_shared(folder, layout);
  safetensors_checkpoint_writer* none = writer;
  safetensors_slice* slice = NULL;
  safetensors_buffer* text = NULL;
  GOOD(safetensors_slice_parse(TEXT("0"), &slice, &error));
  FAILS(safetensors_checkpoint_writer_ticket(NULL, &text, &error), INVALID_ARGUMENT);
  FAILS(safetensors_checkpoint_writer_ticket(writer, NULL, &error), INVALID_ARGUMENT);
  FAILS(safetensors_checkpoint_writer_receipt(NULL, &text, &error), INVALID_ARGUMENT);
  FAILS(safetensors_checkpoint_writer_receipt(writer, NULL, &error), INVALID_ARGUMENT);
  SAYS("argument receipt is NULL");
  FAILS(safetensors_checkpoint_writer_accept(NULL, TEXT(""), &error), INVALID_ARGUMENT);
  FAILS(safetensors_checkpoint_writer_accept(writer, NULL, 1, &error), INVALID_ARGUMENT);
  FAILS(safetensors_checkpoint_writer_join(NULL, 1, layout, NULL, &none, &error), INVALID_ARGUMENT);
  SAYS("argument ticket is NULL, its length 1");
  CHECK(none == NULL);
  FAILS(safetensors_checkpoint_writer_join(TEXT("{}"), NULL, NULL, &none, &error), INVALID_ARGUMENT);
  FAILS(safetensors_checkpoint_writer_join(TEXT("{}"), layout, NULL, NULL, &error), INVALID_ARGUMENT);
  FAILS(safetensors_checkpoint_writer_write_slice(NULL, TEXT("a"), slice, bytes24, 4, &error), INVALID_ARGUMENT);
  FAILS(safetensors_checkpoint_writer_write_slice(writer, TEXT("a"), NULL, bytes24, 4, &error), INVALID_ARGUMENT);
  FAILS(safetensors_checkpoint_writer_write_slice(writer, NULL, 1, slice, bytes24, 4, &error), INVALID_ARGUMENT);
  FAILS(safetensors_checkpoint_writer_write_slice(writer, TEXT("a"), slice, NULL, 4, &error), INVALID_ARGUMENT);
  FAILS(safetensors_checkpoint_writer_write_slice(writer, TEXT("a"), slice, bytes24, 5, &error), DATA_LENGTH);
  GOOD(safetensors_checkpoint_writer_write_slice(writer, TEXT("a"), slice, bytes24, 4, &error));
  FAILS(safetensors_checkpoint_writer_write_slice(writer, TEXT("a"), slice, bytes24, 4, &error), OVERLAPPING_WRITE);
  safetensors_slice_free(slice);
  safetensors_checkpoint_writer_free(writer);
  safetensors_checkpoint_layout_free(layout);
}

int main(void) {
  if (!make_directory()) return 1;
  for (size_t i = 0; i < sizeof bytes24; ++i) bytes24[i] = (unsigned char)i;
  snprintf(folder, sizeof folder, "%s/model", directory);
  snprintf(elsewhere, sizeof elsewhere, "%s/elsewhere", directory);
  children_that_write();
  creator_that_writes();
  byte_written_twice();
  roles_that_are_mixed_up();
  texts_that_are_refused();
  null_arguments();
  CHECK(rmdir(directory) == 0);
  return finish("c processes");
}
