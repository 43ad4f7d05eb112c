// A table of the outcomes that each failed system call may have. A call that is not in the table fails the test: if you
// add a system call to the library, say here what its failure means.
#include "faults/verdict.h"

#include <fcntl.h>

#include <algorithm>
#include <cerrno>

namespace safetensors::test::faults {
namespace {

enum class Needed { yes, no, depends };

// The effect of a failed system call on the call of the interface.
struct Row {
  std::string_view call;
  Needed needed;  // no: the library does without it
  std::vector<safetensors_status> codes = {};
};

const std::vector<Row>& rows() {
  static const std::vector<Row> all = {
      {"openat", Needed::yes, {SAFETENSORS_ERROR_OPEN_FAILED}},
      {"stat", Needed::depends, {SAFETENSORS_ERROR_OPEN_FAILED}},
      {"readlinkat", Needed::yes, {SAFETENSORS_ERROR_OPEN_FAILED}},
      {"fcntl", Needed::yes, {SAFETENSORS_ERROR_OPEN_FAILED}},
      {"getdents", Needed::yes, {SAFETENSORS_ERROR_READ_FAILED}},
      {"pread", Needed::yes, {SAFETENSORS_ERROR_READ_FAILED}},
      {"pwrite", Needed::yes, {SAFETENSORS_ERROR_WRITE_FAILED}},
      {"fallocate", Needed::yes, {SAFETENSORS_ERROR_WRITE_FAILED}},
      {"ftruncate", Needed::yes, {SAFETENSORS_ERROR_WRITE_FAILED}},
      {"fsync", Needed::yes, {SAFETENSORS_ERROR_SYNC_FAILED, SAFETENSORS_ERROR_REPLACED_NOT_DURABLE}},
      {"renameat", Needed::yes, {SAFETENSORS_ERROR_REPLACE_FAILED, SAFETENSORS_ERROR_UNSUPPORTED}},
      {"mkdirat", Needed::yes, {SAFETENSORS_ERROR_OPEN_FAILED}},
      {"linkat", Needed::depends, {SAFETENSORS_ERROR_REPLACE_FAILED, SAFETENSORS_ERROR_OPEN_FAILED}},
      {"close", Needed::depends, {SAFETENSORS_ERROR_WRITE_FAILED}},
      {"sync_file_range", Needed::depends, {SAFETENSORS_ERROR_WRITE_FAILED}},
      {"mmap", Needed::depends, {SAFETENSORS_ERROR_OUT_OF_MEMORY, SAFETENSORS_ERROR_MAP_FAILED}},
      {"brk", Needed::depends, {SAFETENSORS_ERROR_OUT_OF_MEMORY}},
      {"mprotect", Needed::depends, {SAFETENSORS_ERROR_OUT_OF_MEMORY}},
      {"mremap", Needed::depends, {SAFETENSORS_ERROR_OUT_OF_MEMORY}},
      {"clone", Needed::depends, {SAFETENSORS_ERROR_OUT_OF_MEMORY}},
      {"madvise", Needed::no},
      {"mincore", Needed::no},
      {"munmap", Needed::no},
      {"read", Needed::no},  // of the system's settings
      {"unlinkat", Needed::no},
      {"copy_file_range", Needed::no},
      {"fstatfs", Needed::no},
      {"preadv2", Needed::no},
      {"cachestat", Needed::no},
      {"fadvise", Needed::no},
      {"flock", Needed::no},  // of a temporary: without it, its age protects it from cleaning up
      {"fchmod", Needed::no},
      {"fchown", Needed::no},
      {"sysinfo", Needed::no},
      {"prctl", Needed::no},
      {"prlimit64", Needed::no},
      {"getrandom", Needed::no},
      {"sched_getaffinity", Needed::no},
      {"getrusage", Needed::no},
  };
  return all;
}

bool opens_checkpoint(std::string_view function) {
  return function == "safetensors_model_open of a model" || function == "safetensors_model_open_paths";
}

bool writes_checkpoint(std::string_view function) {
  return function.ends_with(" of a model") && !opens_checkpoint(function);
}

bool needs_folder(std::string_view function) {
  return opens_checkpoint(function) || writes_checkpoint(function);
}

// Temporaries of killed writers that cannot be found stay where they are.
bool looks_for_orphans(const Injected& what, std::string_view function) {
  return what.name == "getdents" &&
         (function.starts_with("safetensors_save") || function.starts_with("safetensors_writer_") ||
          function == "safetensors_edit_metadata");
}

// Old files of a model that cannot be found stay where they are.
bool looks_for_old_files(const Injected& what, std::string_view function) {
  return writes_checkpoint(function) &&
         (what.name == "getdents" || (what.name == "openat" && what.path == "." && (what.flags & O_DIRECTORY) != 0));
}

// Calls that the library can do without, though others of their name are needed.
bool spared(const Injected& what, std::string_view function) {
  if (what.error_number == 0 || what.error_number == EINTR) return true;  // goes on, or tries again
  if (what.name == "fallocate") return what.error_number == EOPNOTSUPP;
  if (what.name != "openat") return false;
  if (what.path.starts_with("/sys/") || what.path.starts_with("/proc/")) return true;
  if ((what.flags & O_DIRECT) != 0) return true;
  if ((what.flags & O_DIRECTORY) != 0 && what.error_number == EACCES && !needs_folder(function)) return true;
  // A checkpoint closes another of its files and tries again.
  return opens_checkpoint(function) && what.error_number == EMFILE && what.path.ends_with(".safetensors");
}

}  // namespace

Verdict judge(const Fault& fault, std::string_view function) {
  if (fault.kind == Kind::allocation || fault.kind == Kind::every_allocation)
    return {.may_succeed = true, .codes = {SAFETENSORS_ERROR_OUT_OF_MEMORY}};
  const Injected what = injected();
  const auto row = std::ranges::find(rows(), what.name, &Row::call);
  if (row == rows().end()) return {};
  Verdict verdict{.may_succeed = row->needed != Needed::yes, .codes = row->codes};
  if (spared(what, function) || looks_for_old_files(what, function) || looks_for_orphans(what, function))
    return {.may_succeed = true};
  // A folder is opened to find what is in it, or to sync it, which the library can do without.
  if (what.name == "openat" && (what.flags & O_DIRECTORY) != 0 && writes_checkpoint(function))
    verdict.may_succeed = true;
  // An old index that stays would hide the new file.
  if (what.name == "unlinkat" && writes_checkpoint(function)) verdict.codes = {SAFETENSORS_ERROR_REPLACE_FAILED};
  if (what.name == "openat" && (what.flags & O_TMPFILE) == O_TMPFILE) verdict.may_succeed = true;
  // A writer duplicates a descriptor only to write past the page cache.
  if (what.name == "fcntl" && function != "safetensors_model_from_fd") verdict.may_succeed = true;
  if (what.error_number == ENOMEM) verdict.codes.push_back(SAFETENSORS_ERROR_OUT_OF_MEMORY);
  // A pattern finds nothing in a folder that this user may not list.
  if (opens_checkpoint(function) && (what.flags & O_DIRECTORY) != 0 && what.error_number == EACCES) {
    verdict.codes.push_back(SAFETENSORS_ERROR_NOT_FOUND);
    verdict.tells_errno = false;
  }
  if (what.name == "stat") {
    // The kind of a path decides whether it is a file. If the answer is lost, opening the file gives it.
    const bool opened = what.path.empty() || function == "safetensors_model_from_fd";
    verdict.may_succeed = !opened || (function != "safetensors_model_open" && function != "safetensors_model_from_fd");
    // The folder of a model is opened then, and the error is that of opening.
    if (writes_checkpoint(function)) verdict.tells_errno = false;
    // The kind of file at a path is asked twice. If the first answer is lost, opening gives the second. A pattern finds
    // nothing below a name that cannot be looked at.
    if (opens_checkpoint(function)) {
      verdict.codes.push_back(SAFETENSORS_ERROR_NOT_REGULAR_FILE);
      verdict.codes.push_back(SAFETENSORS_ERROR_NOT_FOUND);
      verdict.tells_errno = false;
    }
  }
  // A thread of a stream may meet the fault while a call waits for an item of another. Only next() reports it.
  if (function == "safetensors_stream_next") verdict.may_succeed = true;
  return verdict;
}

}  // namespace safetensors::test::faults
