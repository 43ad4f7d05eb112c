/* Models of several files in the C interface: layouts, the writer, saving, and what a checkpoint knows of its index. */
#define _POSIX_C_SOURCE 200809L

#include <dirent.h>
#include <errno.h>
#include <sys/stat.h>

#include "c/test_files.h"

static const uint64_t kFour[1] = {4};
static char folder[128];

/* The tensors a, b and c of 4 bytes. */
static void plan_letters(safetensors_layout_tensor* tensors) {
  static const char kNames[] = "abc";
  memset(tensors, 0, 3 * sizeof *tensors);
  for (size_t i = 0; i < 3; ++i) {
    tensors[i].name = kNames + i;
    tensors[i].name_length = 1;
    tensors[i].shape = kFour;
    tensors[i].rank = 1;
    tensors[i].dtype = SAFETENSORS_DTYPE_U8;
  }
}

static safetensors_checkpoint_layout* make_layout(uint64_t max_shard_size) {
  safetensors_layout_tensor tensors[3];
  safetensors_checkpoint_layout_options options = SAFETENSORS_CHECKPOINT_LAYOUT_OPTIONS_INIT;
  safetensors_checkpoint_layout* layout = NULL;
  plan_letters(tensors);
  options.max_shard_size = max_shard_size;
  GOOD(safetensors_checkpoint_layout_create(tensors, 3, &options, &layout, &error));
  return layout;
}

/* a, b and c with the first 4 bytes of bytes24, plus i. */
static void fill_letters(safetensors_tensor_data* tensors) {
  safetensors_layout_tensor planned[3];
  plan_letters(planned);
  memset(tensors, 0, 3 * sizeof *tensors);
  for (size_t i = 0; i < 3; ++i) {
    tensors[i].name = planned[i].name;
    tensors[i].name_length = 1;
    tensors[i].shape = kFour;
    tensors[i].rank = 1;
    tensors[i].data = bytes24 + i;
    tensors[i].size = 4;
    tensors[i].dtype = SAFETENSORS_DTYPE_U8;
  }
}

/* The number of names in the folder, without "." and "..". */
static int names_in_folder(void) {
  int count = 0;
  DIR* listed = opendir(folder);
  if (!listed) return -1;
  while (readdir(listed)) ++count;
  closedir(listed);
  return count - 2;
}

static int exists(const char* name) {
  char whole[256];
  snprintf(whole, sizeof whole, "%s/%s", folder, name);
  return access(whole, F_OK) == 0;
}

static void remove_folder(void) {
  char whole[512];
  struct dirent* entry;
  DIR* listed = opendir(folder);
  CHECK(listed != NULL);
  if (!listed) return;
  while ((entry = readdir(listed)) != NULL) {
    snprintf(whole, sizeof whole, "%s/%s", folder, entry->d_name);
    if (entry->d_name[0] != '.') CHECK(unlink(whole) == 0);
  }
  closedir(listed);
  CHECK(rmdir(folder) == 0);
}

/* The folder has this many files of tensors and the three tensors with their bytes. */
static void check_model(uint64_t files) {
  safetensors_checkpoint* model = NULL;
  uint64_t tensor_count = 0;
  uint64_t file_count = 0;
  unsigned char read[4];
  GOOD(safetensors_checkpoint_open(folder, NULL, &model, &error));
  GOOD(safetensors_checkpoint_size(model, &tensor_count, &file_count, &error));
  CHECK(tensor_count == 3 && file_count == files);
  for (size_t i = 0; i < 3; ++i) {
    const char name[] = {"abc"[i], '\0'};
    GOOD(safetensors_checkpoint_read(model, name, SAFETENSORS_DTYPE_U8, kFour, 1, read, 4, &error));
    CHECK(memcmp(read, bytes24 + i, 4) == 0);
  }
  safetensors_checkpoint_free(model);
}

static void layout_of_several_files(void) {
  safetensors_layout_tensor tensors[3];
  safetensors_checkpoint_layout_options options = SAFETENSORS_CHECKPOINT_LAYOUT_OPTIONS_INIT;
  safetensors_checkpoint_layout* layout = NULL;
  safetensors_header* header = NULL;
  safetensors_header_info info = SAFETENSORS_HEADER_INFO_INIT;
  uint64_t files = 0;
  uint64_t total = 0;
  const char* name = NULL;
  const char* text = NULL;
  size_t length = 0;
  plan_letters(tensors);
  tensors[0].storage = 7; /* c goes into the file of a */
  tensors[2].storage = 7;
  tensors[1].storage_bytes = 100;
  options.max_shard_size = 4;
  options.stem = "m";
  options.metadata = kMetadata;
  options.metadata_count = 1;
  options.index_metadata = "{\"total_size\": 1, \"x\": [1]}";
  options.index_metadata_length = strlen(options.index_metadata);
  options.data_alignment = 4096;
  options.metadata_slack = 10;
  GOOD(safetensors_checkpoint_layout_create(tensors, 3, &options, &layout, &error));
  GOOD(safetensors_checkpoint_layout_size(layout, &files, &total, &error));
  CHECK(files == 2 && total == 8); /* storage_bytes is not set */
  GOOD(safetensors_checkpoint_layout_file_at(layout, 0, &name, &header, &error));
  CHECK(strcmp(name, "m-00001-of-00002.safetensors") == 0);
  GOOD(safetensors_header_get_info(header, &info, &error));
  CHECK(info.tensor_count == 2 && info.metadata_count == 1 && info.data_start == 4096);
  safetensors_header_free(header);
  GOOD(safetensors_checkpoint_layout_file_at(layout, 1, &name, NULL, &error));
  CHECK(strcmp(name, "m-00002-of-00002.safetensors") == 0);
  FAILS(safetensors_checkpoint_layout_file_at(layout, 2, &name, &header, &error), NOT_FOUND);
  SAYS("there is no file 2, there are 2");
  CHECK(name == NULL && header == NULL);
  for (size_t i = 0; i < 3; ++i) {
    uint64_t file = 9;
    GOOD(safetensors_checkpoint_layout_find(layout, tensors[i].name, 1, &file, &error));
    CHECK(file == i % 2);
  }
  FAILS(safetensors_checkpoint_layout_find(layout, TEXT("d\n"), &total, &error), NOT_FOUND);
  SAYS("no tensor `d\\u{a}` in the layout");
  CHECK(total == 0);
  GOOD(safetensors_checkpoint_layout_index(layout, &name, &text, &length, &error));
  CHECK(strcmp(name, "m.safetensors.index.json") == 0);
  CHECK(same(text, length,
             "{\n  \"metadata\": {\n    \"total_size\": 8,\n    \"x\": [\n      1\n    ]\n  },\n  \"weight_map\": {\n"
             "    \"a\": \"m-00001-of-00002.safetensors\",\n    \"c\": \"m-00001-of-00002.safetensors\",\n"
             "    \"b\": \"m-00002-of-00002.safetensors\"\n  }\n}"));
  safetensors_checkpoint_layout_free(layout);
  tensors[1].has_storage_bytes = 1;
  GOOD(safetensors_checkpoint_layout_create(tensors, 3, &options, &layout, &error));
  GOOD(safetensors_checkpoint_layout_size(layout, NULL, &total, &error));
  CHECK(total == 104);
  safetensors_checkpoint_layout_free(layout);
}

static void layout_of_one_file(void) {
  safetensors_layout_tensor tensors[3];
  safetensors_checkpoint_layout* layout = NULL;
  uint64_t files = 0;
  const char* name = NULL;
  const char* text = NULL;
  size_t length = 9;
  plan_letters(tensors);
  GOOD(safetensors_checkpoint_layout_create(tensors, 3, NULL, &layout, &error)); /* 5 GB, "model" */
  GOOD(safetensors_checkpoint_layout_size(layout, &files, NULL, &error));
  GOOD(safetensors_checkpoint_layout_file_at(layout, 0, &name, NULL, &error));
  CHECK(files == 1 && strcmp(name, "model.safetensors") == 0);
  GOOD(safetensors_checkpoint_layout_index(layout, NULL, &text, &length, &error));
  CHECK(text != NULL && length == 0);
  safetensors_checkpoint_layout_free(layout);
  GOOD(safetensors_checkpoint_layout_create(NULL, 0, NULL, &layout, &error));
  GOOD(safetensors_checkpoint_layout_size(layout, &files, NULL, &error));
  CHECK(files == 1);
  safetensors_checkpoint_layout_free(layout);
  tensors[0].shape = NULL;
  tensors[0].rank = 0;
  tensors[0].dtype = SAFETENSORS_DTYPE_F64;
  tensors[0].has_storage_bytes = 1;
  tensors[0].storage_bytes = UINT64_C(5000000001); /* above the default maximum: a file of its own */
  GOOD(safetensors_checkpoint_layout_create(tensors, 3, NULL, &layout, &error));
  GOOD(safetensors_checkpoint_layout_size(layout, &files, NULL, &error));
  CHECK(files == 2);
  safetensors_checkpoint_layout_free(layout);
}

static void layouts_that_are_refused(void) {
  safetensors_layout_tensor tensors[3];
  safetensors_checkpoint_layout_options options = SAFETENSORS_CHECKPOINT_LAYOUT_OPTIONS_INIT;
  safetensors_checkpoint_layout* layout = NULL;
  plan_letters(tensors);
  FAILS(safetensors_checkpoint_layout_create(NULL, 1, NULL, &layout, &error), INVALID_ARGUMENT);
  SAYS("argument tensors is NULL, its length 1");
  FAILS(safetensors_checkpoint_layout_create(tensors, 3, NULL, NULL, &error), INVALID_ARGUMENT);
  tensors[1].dtype = 0;
  FAILS(safetensors_checkpoint_layout_create(tensors, 3, NULL, &layout, &error), INVALID_ARGUMENT);
  SAYS("tensor 1: unknown dtype 0");
  tensors[1].dtype = SAFETENSORS_DTYPE_U8;
  tensors[1].name = "a";
  options.max_shard_size = 4;
  FAILS(safetensors_checkpoint_layout_create(tensors, 3, &options, &layout, &error), DUPLICATE_NAME);
  SAYS("two tensors are named `a`");
  tensors[1].shape = NULL;
  FAILS(safetensors_checkpoint_layout_create(tensors, 3, &options, &layout, &error), INVALID_ARGUMENT);
  SAYS("tensor 1: argument shape is NULL, its length 1");
  options.stem = "a/b";
  FAILS(safetensors_checkpoint_layout_create(tensors, 1, &options, &layout, &error), INVALID_ARGUMENT);
  options.stem = "";
  FAILS(safetensors_checkpoint_layout_create(tensors, 1, &options, &layout, &error), INVALID_ARGUMENT);
  options.stem = NULL;
  options.index_metadata_length = 2;
  FAILS(safetensors_checkpoint_layout_create(tensors, 1, &options, &layout, &error), INVALID_ARGUMENT);
  SAYS("argument index_metadata is NULL, its length 2");
  options.index_metadata = "[]";
  FAILS(safetensors_checkpoint_layout_create(tensors, 1, &options, &layout, &error), INVALID_ARGUMENT);
  options.index_metadata_length = 0;
  options.metadata_count = 1;
  FAILS(safetensors_checkpoint_layout_create(tensors, 1, &options, &layout, &error), INVALID_ARGUMENT);
  SAYS("argument metadata is NULL, its length 1");
  options.metadata_count = 0;
  options.data_alignment = 3;
  FAILS(safetensors_checkpoint_layout_create(tensors, 1, &options, &layout, &error), INVALID_ALIGNMENT);
  options.reserved = 1;
  FAILS(safetensors_checkpoint_layout_create(tensors, 1, &options, &layout, &error), UNSUPPORTED);
  options.struct_size = 8;
  FAILS(safetensors_checkpoint_layout_create(tensors, 1, &options, &layout, &error), INVALID_ARGUMENT);
  CHECK(layout == NULL);
}

/* A new folder appears with the commit. */
static void writer_of_new_folder(void) {
  safetensors_checkpoint_layout* layout = make_layout(4);
  safetensors_checkpoint_layout* same_layout = NULL;
  safetensors_checkpoint_writer* writer = NULL;
  safetensors_file* file = open_file(path, SAFETENSORS_ACCESS_READ);
  safetensors_tensor* tensor = tensor_of(file, "c");
  uint64_t files = 0;
  GOOD(safetensors_checkpoint_writer_create(folder, layout, NULL, &writer, &error));
  safetensors_checkpoint_layout_free(layout);
  GOOD(safetensors_checkpoint_writer_layout(writer, &same_layout, &error));
  GOOD(safetensors_checkpoint_layout_size(same_layout, &files, NULL, &error));
  CHECK(files == 3);
  safetensors_checkpoint_layout_free(same_layout);
  GOOD(safetensors_checkpoint_writer_write(writer, TEXT("b"), 2, bytes24 + 3, 2, &error));
  FAILS(safetensors_checkpoint_writer_write(writer, TEXT("b"), 1, bytes24, 2, &error), OVERLAPPING_WRITE);
  FAILS(safetensors_checkpoint_writer_write(writer, TEXT("d"), 0, bytes24, 1, &error), NOT_FOUND);
  GOOD(safetensors_checkpoint_writer_write_rows(writer, TEXT("b"), 0, bytes24 + 1, 2, &error));
  GOOD(safetensors_checkpoint_writer_write_rows(writer, TEXT("a"), 0, bytes24, 4, &error));
  FAILS(safetensors_checkpoint_writer_write_rows(writer, TEXT("a"), 5, bytes24, 1, &error), SLICE_INDEX);
  FAILS(safetensors_checkpoint_writer_commit(writer, &error), INCOMPLETE_WRITE);
  CHECK(names_in_folder() == -1);
  GOOD(safetensors_checkpoint_writer_copy(writer, TEXT("c"), tensor, &error));
  GOOD(safetensors_checkpoint_writer_commit(writer, &error));
  FAILS(safetensors_checkpoint_writer_commit(writer, &error), WRITER_CLOSED);
  GOOD(safetensors_checkpoint_writer_abort(writer, &error)); /* the files are in place and stay */
  safetensors_checkpoint_writer_free(writer);
  safetensors_tensor_free(tensor);
  safetensors_file_free(file);
  CHECK(names_in_folder() == 4);
  check_model(3);
}

static void writer_that_is_aborted(void) {
  safetensors_checkpoint_layout* layout = make_layout(8);
  safetensors_checkpoint_layout* same_layout = NULL;
  safetensors_checkpoint_writer* writer = NULL;
  uint64_t files = 0;
  safetensors_checkpoint_write_options options = SAFETENSORS_CHECKPOINT_WRITE_OPTIONS_INIT;
  GOOD(safetensors_checkpoint_writer_create(folder, layout, NULL, &writer, &error));
  GOOD(safetensors_checkpoint_writer_write(writer, TEXT("a"), 0, bytes24, 4, &error));
  GOOD(safetensors_checkpoint_writer_abort(writer, &error));
  FAILS(safetensors_checkpoint_writer_commit(writer, &error), WRITER_CLOSED);
  GOOD(safetensors_checkpoint_writer_layout(writer, &same_layout, &error)); /* works as before */
  GOOD(safetensors_checkpoint_layout_size(same_layout, &files, NULL, &error));
  CHECK(files == 2);
  safetensors_checkpoint_layout_free(same_layout);
  safetensors_checkpoint_writer_free(writer);
  CHECK(names_in_folder() == 4);
  options.new_folder = 1;
  FAILS(safetensors_checkpoint_writer_create(folder, layout, &options, &writer, &error), REPLACE_FAILED);
  CHECK(writer == NULL && error.os_error == EEXIST && strcmp(error.path, folder) == 0);
  safetensors_checkpoint_layout_free(layout);
}

static void saving(void) {
  safetensors_tensor_data tensors[3];
  safetensors_checkpoint_layout_options layout = SAFETENSORS_CHECKPOINT_LAYOUT_OPTIONS_INIT;
  safetensors_checkpoint_write_options options = SAFETENSORS_CHECKPOINT_WRITE_OPTIONS_INIT;
  safetensors_write_options write = SAFETENSORS_WRITE_OPTIONS_INIT;
  struct told told = {0, 0, 0, 1};
  fill_letters(tensors);
  layout.max_shard_size = 8;
  options.write = &write;
  options.keep_old_files = 1;
  write.durability = SAFETENSORS_DURABILITY_NONE;
  write.progress = tell_progress;
  write.user = &told;
  GOOD(safetensors_save_checkpoint(folder, tensors, 3, &layout, &options, &error));
  CHECK(told.calls > 0 && told.done == told.total && told.total > 12);
  CHECK(names_in_folder() == 6); /* with the 3 files of the old model */
  check_model(2);
  told.answer = 0;
  FAILS(safetensors_save_checkpoint(folder, tensors, 2, NULL, &options, &error), CANCELLED);
  check_model(2);
  GOOD(safetensors_save_checkpoint(folder, tensors, 3, &layout, NULL, &error));
  CHECK(names_in_folder() == 3); /* the old files are removed now */
  GOOD(safetensors_save_checkpoint(folder, tensors, 3, NULL, NULL, &error));
  CHECK(names_in_folder() == 1 && exists("model.safetensors"));
  check_model(1);
  tensors[2].size = 3;
  FAILS(safetensors_save_checkpoint(folder, tensors, 3, NULL, NULL, &error), DATA_LENGTH);
  tensors[2].reserved = 1;
  FAILS(safetensors_save_checkpoint(folder, tensors, 3, NULL, NULL, &error), UNSUPPORTED);
  write.durability = 3;
  FAILS(safetensors_save_checkpoint(folder, tensors, 1, NULL, &options, &error), INVALID_ARGUMENT);
  SAYS("unknown durability 3");
  options.struct_size = 8;
  FAILS(safetensors_save_checkpoint(folder, tensors, 1, NULL, &options, &error), INVALID_ARGUMENT);
  FAILS(safetensors_save_checkpoint("/nowhere/x", tensors, 1, NULL, NULL, &error), OPEN_FAILED);
  CHECK(error.os_error == ENOENT);
  check_model(1);
}

static void saving_with_layout(void) {
  safetensors_tensor_data tensors[3];
  safetensors_checkpoint_layout* layout = make_layout(4);
  fill_letters(tensors);
  FAILS(safetensors_save_checkpoint_with_layout(folder, tensors, 2, layout, NULL, &error), INCOMPLETE_WRITE);
  tensors[2].dtype = SAFETENSORS_DTYPE_I8;
  FAILS(safetensors_save_checkpoint_with_layout(folder, tensors, 3, layout, NULL, &error), DTYPE_MISMATCH);
  tensors[2].dtype = SAFETENSORS_DTYPE_U8;
  GOOD(safetensors_save_checkpoint_with_layout(folder, tensors, 3, layout, NULL, &error));
  CHECK(names_in_folder() == 4);
  check_model(3);
  safetensors_checkpoint_layout_free(layout);
}

/* The index names a of the first file and c of the third. It has no total size. */
static void indexes(void) {
  safetensors_checkpoint* model = NULL;
  const char* text = NULL;
  size_t length = 0;
  uint64_t total = 0;
  char index_path[256];
  GOOD(safetensors_checkpoint_open(folder, NULL, &model, &error));
  GOOD(safetensors_checkpoint_index_metadata(model, &text, &length, &error));
  CHECK(same(text, length, "{\"total_size\":12}"));
  GOOD(safetensors_checkpoint_index_total_size(model, &total, &error));
  CHECK(total == 12);
  safetensors_checkpoint_free(model);
  snprintf(index_path, sizeof index_path, "%s/model.safetensors.index.json", folder);
  FILE* index = fopen(index_path, "wb");
  CHECK(index != NULL);
  if (!index) return;
  fputs("{\"weight_map\": {\"a\": \"one.safetensors\", \"c\": \"model-00003-of-00003.safetensors\"}}", index);
  CHECK(fclose(index) == 0);
  safetensors_tensor_data tensors[3];
  fill_letters(tensors);
  snprintf(index_path, sizeof index_path, "%s/one.safetensors", folder);
  GOOD(safetensors_write_file(index_path, tensors, 3, NULL, 0, NULL, NULL, &error));
  GOOD(safetensors_checkpoint_open(folder, NULL, &model, &error));
  GOOD(safetensors_checkpoint_index_metadata(model, &text, &length, &error));
  CHECK(text != NULL && length == 0);
  FAILS(safetensors_checkpoint_index_total_size(model, &total, &error), NOT_FOUND);
  CHECK(total == 0);
  safetensors_checkpoint_free(model);
}

static void null_arguments_of_layouts(void) {
  safetensors_checkpoint_layout* layout = make_layout(4);
  safetensors_header* header = NULL;
  const char* name = folder;
  uint64_t number = 1;
  size_t length = 1;
  FAILS(safetensors_checkpoint_layout_size(NULL, &number, NULL, &error), INVALID_ARGUMENT);
  CHECK(number == 0);
  FAILS(safetensors_checkpoint_layout_file_at(NULL, 0, &name, &header, &error), INVALID_ARGUMENT);
  CHECK(name == NULL);
  FAILS(safetensors_checkpoint_layout_file_at(layout, 0, NULL, &header, &error), INVALID_ARGUMENT);
  CHECK(header == NULL);
  FAILS(safetensors_checkpoint_layout_find(NULL, TEXT("a"), &number, &error), INVALID_ARGUMENT);
  FAILS(safetensors_checkpoint_layout_find(layout, NULL, 1, &number, &error), INVALID_ARGUMENT);
  FAILS(safetensors_checkpoint_layout_find(layout, TEXT("a"), NULL, &error), INVALID_ARGUMENT);
  FAILS(safetensors_checkpoint_layout_index(NULL, &name, &name, &length, &error), INVALID_ARGUMENT);
  CHECK(length == 0);
  FAILS(safetensors_checkpoint_layout_index(layout, &name, NULL, &length, &error), INVALID_ARGUMENT);
  FAILS(safetensors_checkpoint_layout_index(layout, &name, &name, NULL, &error), INVALID_ARGUMENT);
  safetensors_checkpoint_layout_free(layout);
  safetensors_checkpoint_layout_free(NULL);
}

static void null_arguments_of_writers(void) {
  safetensors_checkpoint_layout* layout = make_layout(4);
  safetensors_checkpoint_layout* none = layout;
  safetensors_checkpoint_writer* writer = NULL;
  safetensors_checkpoint_writer* no_writer = NULL;
  FAILS(safetensors_save_checkpoint(NULL, NULL, 0, NULL, NULL, &error), INVALID_ARGUMENT);
  SAYS("argument folder is NULL");
  FAILS(safetensors_save_checkpoint(folder, NULL, 1, NULL, NULL, &error), INVALID_ARGUMENT);
  FAILS(safetensors_save_checkpoint_with_layout(NULL, NULL, 0, layout, NULL, &error), INVALID_ARGUMENT);
  FAILS(safetensors_save_checkpoint_with_layout(folder, NULL, 0, NULL, NULL, &error), INVALID_ARGUMENT);
  FAILS(safetensors_checkpoint_writer_create(NULL, layout, NULL, &no_writer, &error), INVALID_ARGUMENT);
  FAILS(safetensors_checkpoint_writer_create(folder, NULL, NULL, &no_writer, &error), INVALID_ARGUMENT);
  FAILS(safetensors_checkpoint_writer_create(folder, layout, NULL, NULL, &error), INVALID_ARGUMENT);
  GOOD(safetensors_checkpoint_writer_create(folder, layout, NULL, &writer, &error));
  FAILS(safetensors_checkpoint_writer_write(NULL, TEXT("a"), 0, bytes24, 4, &error), INVALID_ARGUMENT);
  FAILS(safetensors_checkpoint_writer_write(writer, NULL, 1, 0, bytes24, 4, &error), INVALID_ARGUMENT);
  FAILS(safetensors_checkpoint_writer_write(writer, TEXT("a"), 0, NULL, 4, &error), INVALID_ARGUMENT);
  FAILS(safetensors_checkpoint_writer_write_rows(NULL, TEXT("a"), 0, bytes24, 4, &error), INVALID_ARGUMENT);
  FAILS(safetensors_checkpoint_writer_copy(NULL, TEXT("a"), NULL, &error), INVALID_ARGUMENT);
  FAILS(safetensors_checkpoint_writer_copy(writer, TEXT("a"), NULL, &error), INVALID_ARGUMENT);
  FAILS(safetensors_checkpoint_writer_commit(NULL, &error), INVALID_ARGUMENT);
  FAILS(safetensors_checkpoint_writer_abort(NULL, &error), INVALID_ARGUMENT);
  FAILS(safetensors_checkpoint_writer_layout(NULL, &none, &error), INVALID_ARGUMENT);
  CHECK(none == NULL);
  FAILS(safetensors_checkpoint_writer_layout(writer, NULL, &error), INVALID_ARGUMENT);
  safetensors_checkpoint_writer_free(writer);
  safetensors_checkpoint_writer_free(NULL);
  safetensors_checkpoint_layout_free(layout);
}

static void null_arguments_of_indexes(void) {
  safetensors_checkpoint* model = NULL;
  const char* text = folder;
  size_t length = 1;
  uint64_t total = 1;
  GOOD(safetensors_checkpoint_open(path, NULL, &model, &error));
  FAILS(safetensors_checkpoint_index_metadata(NULL, &text, &length, &error), INVALID_ARGUMENT);
  CHECK(text == NULL && length == 0);
  FAILS(safetensors_checkpoint_index_metadata(model, NULL, &length, &error), INVALID_ARGUMENT);
  FAILS(safetensors_checkpoint_index_metadata(model, &text, NULL, &error), INVALID_ARGUMENT);
  FAILS(safetensors_checkpoint_index_total_size(NULL, &total, &error), INVALID_ARGUMENT);
  CHECK(total == 0);
  FAILS(safetensors_checkpoint_index_total_size(model, NULL, &error), INVALID_ARGUMENT);
  safetensors_checkpoint_free(model);
}

int main(void) {
  safetensors_tensor_data tensors[3];
  if (!make_directory()) return 1;
  for (size_t i = 0; i < sizeof bytes24; ++i) bytes24[i] = (unsigned char)i;
  snprintf(folder, sizeof folder, "%s/model", directory);
  fill_letters(tensors);
  GOOD(safetensors_write_file(path, tensors, 3, NULL, 0, NULL, NULL, &error));
  layout_of_several_files();
  layout_of_one_file();
  layouts_that_are_refused();
  null_arguments_of_layouts();
  writer_of_new_folder();
  writer_that_is_aborted();
  null_arguments_of_writers();
  saving();
  saving_with_layout();
  indexes();
  null_arguments_of_indexes();
  remove_folder();
  remove_directory();
  return finish("c checkpoint write");
}
