/* Checkpoints in the C interface: many files opened as one set of tensors. */
#define _POSIX_C_SOURCE 200809L

#include "c/test_files.h"

static const char kIndex[] =
    "{\"weight_map\": {\"a\": \"a.safetensors\", \"b\": \"b.safetensors\", \"c\": \"b.safetensors\"}}";
static char index_path[128];

static void write_text(const char* to, const char* text) {
  FILE* out = fopen(to, "wb");
  CHECK(out && fwrite(text, 1, strlen(text), out) == strlen(text));
  if (out) CHECK(fclose(out) == 0);
}

/* One-dimensional U8 tensors, the letters of names; tensor i has i + 1 bytes. */
static void write_letters(const char* to, const char* names) {
  uint64_t sizes[8];
  safetensors_tensor_data tensors[8];
  const size_t count = strlen(names);
  memset(tensors, 0, sizeof tensors);
  for (size_t i = 0; i < count; ++i) {
    sizes[i] = i + 1;
    tensors[i].name = names + i;
    tensors[i].name_length = 1;
    tensors[i].dtype = SAFETENSORS_DTYPE_U8;
    tensors[i].shape = &sizes[i];
    tensors[i].rank = 1;
    tensors[i].data = bytes24;
    tensors[i].size = i + 1;
  }
  GOOD(safetensors_write_file(to, tensors, count, NULL, 0, NULL, NULL, &error));
}

static safetensors_checkpoint* open_checkpoint(const char* from) {
  safetensors_checkpoint* checkpoint = NULL;
  GOOD(safetensors_checkpoint_open(from, NULL, &checkpoint, &error));
  return checkpoint;
}

/* Takes a tensor that must have this name and size. */
static void check_tensor(safetensors_tensor* tensor, const char* name, size_t size) {
  safetensors_tensor_info info = SAFETENSORS_TENSOR_INFO_INIT;
  unsigned char read[8];
  GOOD(safetensors_tensor_get_info(tensor, &info, &error));
  CHECK(same(info.name, info.name_length, name) && info.nbytes == size);
  GOOD(safetensors_tensor_read_into(tensor, NULL, read, size, &error));
  CHECK(memcmp(read, bytes24, size) == 0);
  safetensors_tensor_free(tensor);
}

/* The index does not name d. */
static void check_indexed(const char* from) {
  safetensors_checkpoint* checkpoint = open_checkpoint(from);
  safetensors_tensor* tensor = NULL;
  uint64_t tensors = 0;
  uint64_t files = 0;
  int32_t contained = 0;
  GOOD(safetensors_checkpoint_size(checkpoint, &tensors, &files, &error));
  CHECK(tensors == 3 && files == 2);
  GOOD(safetensors_checkpoint_contains(checkpoint, TEXT("b"), &contained, &error));
  CHECK(contained == 1);
  GOOD(safetensors_checkpoint_contains(checkpoint, TEXT("d"), &contained, &error));
  CHECK(contained == 0);
  GOOD(safetensors_checkpoint_tensor(checkpoint, TEXT("c"), &tensor, &error));
  safetensors_checkpoint_free(checkpoint);
  check_tensor(tensor, "c", 2); /* outlives the checkpoint */
}

static void indexes_folders_and_files(void) {
  check_indexed(index_path);
  check_indexed(directory);
  safetensors_checkpoint* checkpoint = open_checkpoint(other_path);
  uint64_t tensors = 0;
  GOOD(safetensors_checkpoint_size(checkpoint, &tensors, NULL, &error));
  CHECK(tensors == 3);
  GOOD(safetensors_checkpoint_size(checkpoint, NULL, NULL, &error));
  safetensors_checkpoint_free(checkpoint);
  char pattern[128];
  snprintf(pattern, sizeof pattern, "%s/[ab].safetensors", directory);
  checkpoint = open_checkpoint(pattern);
  GOOD(safetensors_checkpoint_size(checkpoint, &tensors, NULL, &error));
  CHECK(tensors == 4);
  safetensors_checkpoint_free(checkpoint);
}

static void several_paths(void) {
  const char* paths[] = {other_path, path};
  const char* twice[] = {path, other_path, path};
  const char* none[] = {path, NULL};
  safetensors_checkpoint* checkpoint = NULL;
  safetensors_tensor* tensor = NULL;
  safetensors_file* file = NULL;
  const char* name = NULL;
  GOOD(safetensors_checkpoint_open_paths(paths, 2, NULL, &checkpoint, &error));
  const char* names[] = {"b", "c", "d", "a"};
  const size_t sizes[] = {1, 2, 3, 1};
  for (uint64_t i = 0; i < 4; ++i) {
    GOOD(safetensors_checkpoint_tensor_at(checkpoint, i, &tensor, &error));
    check_tensor(tensor, names[i], sizes[i]);
  }
  FAILS(safetensors_checkpoint_tensor_at(checkpoint, 4, &tensor, &error), NOT_FOUND);
  SAYS("there is no tensor 4, there are 4");
  CHECK(tensor == NULL);
  for (uint64_t i = 0; i < 2; ++i) {
    GOOD(safetensors_checkpoint_file_at(checkpoint, i, &file, &error));
    GOOD(safetensors_file_path(file, &name, &error));
    CHECK(strcmp(name, paths[i]) == 0);
    safetensors_file_free(file);
  }
  FAILS(safetensors_checkpoint_file_at(checkpoint, 2, &file, &error), NOT_FOUND);
  SAYS("there is no file 2, there are 2");
  CHECK(file == NULL);
  FAILS(safetensors_checkpoint_tensor(checkpoint, TEXT("e"), &tensor, &error), NOT_FOUND);
  CHECK(tensor == NULL);
  safetensors_checkpoint_free(checkpoint);
  FAILS(safetensors_checkpoint_open_paths(twice, 3, NULL, &checkpoint, &error), DUPLICATE_NAME);
  FAILS(safetensors_checkpoint_open_paths(none, 2, NULL, &checkpoint, &error), INVALID_ARGUMENT);
  SAYS("path 1 is NULL");
  FAILS(safetensors_checkpoint_open_paths(NULL, 2, NULL, &checkpoint, &error), INVALID_ARGUMENT);
  SAYS("argument paths is NULL, its length 2");
  FAILS(safetensors_checkpoint_open_paths(NULL, 0, NULL, &checkpoint, &error), INVALID_ARGUMENT);
  SAYS("no paths were given");
  CHECK(checkpoint == NULL);
}

static void opening_errors(void) {
  safetensors_checkpoint_options options = SAFETENSORS_CHECKPOINT_OPTIONS_INIT;
  safetensors_checkpoint* checkpoint = NULL;
  FAILS(safetensors_checkpoint_open("/nowhere/x", NULL, &checkpoint, &error), OPEN_FAILED);
  CHECK(error.os_error == 2 && strcmp(error.path, "/nowhere/x") == 0);
  FAILS(safetensors_checkpoint_open("/nowhere/?", NULL, &checkpoint, &error), NOT_FOUND);
  options.max_header_bytes = 8;
  FAILS(safetensors_checkpoint_open(index_path, &options, &checkpoint, &error), HEADER_TOO_LARGE);
  options.max_header_bytes = 0;
  options.access = 3;
  FAILS(safetensors_checkpoint_open(index_path, &options, &checkpoint, &error), INVALID_ARGUMENT);
  SAYS("unknown access mode 3");
  options.access = SAFETENSORS_ACCESS_READ;
  options.threads = 2;
  GOOD(safetensors_checkpoint_open(index_path, &options, &checkpoint, &error));
  safetensors_file* file = NULL;
  int32_t access = 0;
  GOOD(safetensors_checkpoint_file_at(checkpoint, 1, &file, &error));
  GOOD(safetensors_file_access(file, &access, &error));
  CHECK(access == SAFETENSORS_ACCESS_READ);
  safetensors_file_free(file);
  safetensors_checkpoint_free(checkpoint);
  options.accept = 8;
  FAILS(safetensors_checkpoint_open_paths(NULL, 0, &options, &checkpoint, &error), UNSUPPORTED);
  options.struct_size = 8;
  FAILS(safetensors_checkpoint_open(index_path, &options, &checkpoint, &error), INVALID_ARGUMENT);
  write_text(index_path, "{\"weight_map\": {\"a\": \"b.safetensors\"}}");
  FAILS(safetensors_checkpoint_open(index_path, NULL, &checkpoint, &error), INVALID_INDEX);
  CHECK(unlink(index_path) == 0);
  FAILS(safetensors_checkpoint_open(directory, NULL, &checkpoint, &error), AMBIGUOUS_CHECKPOINT);
  CHECK(checkpoint == NULL);
}

static void null_arguments(void) {
  safetensors_checkpoint* checkpoint = open_checkpoint(path);
  safetensors_checkpoint* none = checkpoint;
  safetensors_tensor* tensor = NULL;
  safetensors_file* file = NULL;
  const char* paths[] = {path};
  uint64_t count = 1;
  int32_t contained = 1;
  FAILS(safetensors_checkpoint_open(NULL, NULL, &none, &error), INVALID_ARGUMENT);
  SAYS("argument path is NULL");
  CHECK(none == NULL);
  FAILS(safetensors_checkpoint_open(path, NULL, NULL, &error), INVALID_ARGUMENT);
  FAILS(safetensors_checkpoint_open_paths(paths, 1, NULL, NULL, &error), INVALID_ARGUMENT);
  FAILS(safetensors_checkpoint_size(NULL, &count, NULL, &error), INVALID_ARGUMENT);
  CHECK(count == 0);
  FAILS(safetensors_checkpoint_tensor_at(NULL, 0, &tensor, &error), INVALID_ARGUMENT);
  FAILS(safetensors_checkpoint_tensor_at(checkpoint, 0, NULL, &error), INVALID_ARGUMENT);
  FAILS(safetensors_checkpoint_tensor(NULL, TEXT("a"), &tensor, &error), INVALID_ARGUMENT);
  FAILS(safetensors_checkpoint_tensor(checkpoint, NULL, 1, &tensor, &error), INVALID_ARGUMENT);
  SAYS("argument name is NULL, its length 1");
  FAILS(safetensors_checkpoint_tensor(checkpoint, TEXT("a"), NULL, &error), INVALID_ARGUMENT);
  FAILS(safetensors_checkpoint_contains(NULL, TEXT("a"), &contained, &error), INVALID_ARGUMENT);
  CHECK(contained == 0);
  FAILS(safetensors_checkpoint_contains(checkpoint, NULL, 1, &contained, &error), INVALID_ARGUMENT);
  FAILS(safetensors_checkpoint_contains(checkpoint, TEXT("a"), NULL, &error), INVALID_ARGUMENT);
  FAILS(safetensors_checkpoint_file_at(NULL, 0, &file, &error), INVALID_ARGUMENT);
  FAILS(safetensors_checkpoint_file_at(checkpoint, 0, NULL, &error), INVALID_ARGUMENT);
  CHECK(safetensors_checkpoint_open(NULL, NULL, &none, NULL) == SAFETENSORS_ERROR_INVALID_ARGUMENT);
  safetensors_checkpoint_free(checkpoint);
  safetensors_checkpoint_free(NULL);
}

int main(void) {
  if (!make_directory()) return 1;
  for (size_t i = 0; i < sizeof bytes24; ++i) bytes24[i] = (unsigned char)i;
  snprintf(index_path, sizeof index_path, "%s/model.safetensors.index.json", directory);
  write_letters(path, "a");
  write_letters(other_path, "bcd");
  write_text(index_path, kIndex);
  indexes_folders_and_files();
  several_paths();
  opening_errors();
  null_arguments();
  CHECK(unlink(other_path) == 0);
  remove_directory();
  return finish("c checkpoint");
}
