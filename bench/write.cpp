// Writing a checkpoint from memory, against plain writes of the same bytes. Usage: write [MIB [ROUNDS]]. Lower bound:
// each byte moves once, to the page cache (Durability::none) or to the device (file, full). For a copy, each byte also
// moves once from the device.
#include <safetensors/checkpoint_writer.h>
#include <safetensors/save.h>
#include <sys/resource.h>

#include <algorithm>
#include <filesystem>

#include "model.h"

namespace st = safetensors;

namespace {

volatile char sink;  // makes the compiler keep the copies

enum class End { nothing, fsync };

void plain(const std::string& path, const char* bytes, std::uint64_t size, End end) {
  const int fd = open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0644);
  bench::require(fd >= 0, "open");
  for (std::uint64_t at = 0; at < size; at += 2u << 20) {
    const std::uint64_t part = std::min<std::uint64_t>(2u << 20, size - at);
    bench::require(pwrite(fd, bytes + at, part, static_cast<off_t>(at)) == static_cast<ssize_t>(part), "pwrite");
  }
  if (end == End::fsync) bench::require(fsync(fd) == 0, "fsync");
  close(fd);
}

// The speed of the device: allocates the file first, then writes past the page cache.
bool direct(const std::string& path, const char* bytes, std::uint64_t size) {
  const int fd = open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_DIRECT, 0644);
  if (fd < 0) return false;
  (void)posix_fallocate(fd, 0, static_cast<off_t>(size));
  for (std::uint64_t at = 0; at < size; at += 2u << 20) {
    bench::require(pwrite(fd, bytes + at, 2u << 20, static_cast<off_t>(at)) == 2 << 20, "pwrite");
  }
  bench::require(fdatasync(fd) == 0, "fdatasync");
  close(fd);
  return true;
}

// Copies a file as a program does that knows nothing of checkpoints.
void plain_copy(const std::string& from, const std::string& to) {
  const int in = open(from.c_str(), O_RDONLY);
  const int out = open(to.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0644);
  bench::require(in >= 0 && out >= 0, "open");
  std::vector<char> buffer(2u << 20);
  for (ssize_t got = 0; (got = read(in, buffer.data(), buffer.size())) > 0;)
    bench::require(write(out, buffer.data(), static_cast<std::size_t>(got)) == got, "write");
  bench::require(fsync(out) == 0, "fsync");
  close(in), close(out);
}

void drop(const std::string& path) {
  const int fd = open(path.c_str(), O_RDONLY);
  if (fd < 0) return;
  (void)fsync(fd);
  (void)posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
  close(fd);
}

void write_pieces(const std::string& path, std::span<const st::TensorData> tensors, std::uint64_t piece) {
  st::Writer writer = bench::must(st::Writer::create(path, bench::must(st::layout(tensors))));
  for (const st::TensorData& tensor : tensors) {
    for (std::uint64_t at = 0; at < tensor.bytes.size(); at += piece)
      bench::must(writer.write(tensor.name, at, tensor.bytes.subspan(at, std::min(piece, tensor.bytes.size() - at))));
  }
  bench::must(writer.commit());
}

void merge(const std::string& from, const std::string& to) {
  const st::File file = bench::must(st::File::open(from));
  st::Writer writer = bench::must(st::Writer::create(to, file.header()));
  for (const st::TensorInfo& tensor : file.header().tensors())
    bench::must(writer.copy(tensor.name, bench::must(file.tensor(tensor.name))));
  bench::must(writer.commit());
}

// A new folder each time, with an index, as CheckpointWriter::create() describes it.
void save_model(const std::string& folder, std::span<const st::TensorData> tensors, st::Durability durability) {
  const std::vector<st::NamedTensor> named(tensors.begin(), tensors.end());
  std::uint64_t total = 0;
  for (const st::TensorData& tensor : tensors) total += tensor.bytes.size();
  bench::must(st::save_checkpoint(folder, named, {.max_shard_size = total / 4},
                                  {.write = {.durability = durability}, .new_folder = true}));
}

long peak_kib() {
  rusage usage;
  bench::require(getrusage(RUSAGE_SELF, &usage) == 0, "getrusage");
  return usage.ru_maxrss;
}

}  // namespace

int main(int argc, char** argv) {
  const std::uint64_t size = (argc > 1 ? std::strtoull(argv[1], nullptr, 10) : 512) << 20;
  const int rounds = argc > 2 ? std::atoi(argv[2]) : 5;
  bench::Scratch scratch;
  const std::string path = scratch.file("model.safetensors");
  const std::string other = scratch.file("plain");
  const bench::FreshMemory memory(size, MADV_HUGEPAGE);
  std::memset(memory.data(), 3, size);
  const std::uint64_t shape[] = {size / 16};
  std::vector<st::TensorData> tensors;
  const char* const names[] = {"a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l", "m", "n", "o", "p"};
  for (std::size_t i = 0; i < 16; ++i) {
    const std::span bytes(memory.data() + i * shape[0], shape[0]);
    tensors.push_back({names[i], st::Dtype::U8, shape, std::as_bytes(bytes)});
  }
  const std::string folder = scratch.file("model");
  const auto remove = [&] {
    std::filesystem::remove_all(folder);
    unlink(path.c_str());
    unlink(other.c_str());
    sync();
  };
  const auto save = [&](st::Durability durability) {
    bench::must(st::save(path, tensors, std::nullopt, {.durability = durability}));
  };
  const bool has_direct = direct(other, memory.data(), 2u << 20);

  std::vector<bench::Contender> none;
  none.push_back({"plain write", [&] { plain(other, memory.data(), size, End::nothing); }, remove});
  none.push_back({"save, durability none", [&] { save(st::Durability::none); }, remove});
  none.push_back({"save_checkpoint, 4 shards, durability none",
                  [&] { save_model(folder, tensors, st::Durability::none); }, remove});
  bench::race(none, rounds);
  std::printf("%llu MiB in 16 tensors, new file each time\n not durable\n",
              static_cast<unsigned long long>(size >> 20));
  bench::print(none);

  std::vector<bench::Contender> full;
  if (has_direct) {
    full.push_back({"fallocate, O_DIRECT, fdatasync", [&] { direct(other, memory.data(), size); }, remove});
  } else {
    std::printf(" no O_DIRECT here: the limit below is write and fsync\n");
  }
  full.push_back({"plain write, fsync", [&] { plain(other, memory.data(), size, End::fsync); }, remove});
  full.push_back({"save, durability file", [&] { save(st::Durability::file); }, remove});
  full.push_back({"save, durability full", [&] { save(st::Durability::full); }, remove});
  full.push_back({"save_checkpoint, 4 shards, durability full",
                  [&] { save_model(folder, tensors, st::Durability::full); }, remove});
  for (const std::uint64_t mib : {64U, 8U, 1U}) {
    full.push_back({"Writer, pieces of " + std::to_string(mib) + " MiB, durability full",
                    [&, mib] { write_pieces(path, tensors, mib << 20); }, remove});
  }
  const long before = peak_kib();
  bench::race(full, rounds);
  std::printf(" durable\n");
  bench::print(full);
  std::printf("  memory besides the tensors: %ld MiB\n", (peak_kib() - before) >> 10);

  const std::string source = scratch.file("source");
  bench::must(st::save(source, tensors));
  const auto cold = [&] {
    remove();
    drop(source);
  };
  std::vector<bench::Contender> copies;
  copies.push_back({"read, write, fsync", [&] { plain_copy(source, other); }, cold});
  copies.push_back({"Writer::copy of 16 tensors, durability full", [&] { merge(source, path); }, cold});
  bench::race(copies, rounds);
  std::printf(" a copy, the source not in the page cache\n");
  bench::print(copies);

  std::vector<bench::Contender> serialized;
  serialized.push_back({"memcpy into fresh memory", [&] {
                          const std::unique_ptr<std::byte[]> copy(new std::byte[size]);
                          std::memcpy(copy.get(), memory.data(), size);
                          sink = static_cast<char>(copy[size / 2]);
                        }});
  serialized.push_back({"serialize", [&] { bench::must(st::serialize(tensors)); }});
  bench::race(serialized, rounds);
  std::printf(" in memory\n");
  bench::print(serialized);

  save(st::Durability::none);
  std::vector<bench::Contender> edits;
  int round = 0;
  const auto edit = [&](bool in_place) {
    bench::must(
        st::edit_metadata(path, {{"step", std::to_string(++round)}}, {.in_place = in_place, .metadata_slack = 64}));
  };
  edit(false);
  edits.push_back({"edit_metadata in place", [&] { edit(true); }});
  edits.push_back({"edit_metadata, a new file", [&] { edit(false); }});
  bench::race(edits, rounds);
  std::printf(" metadata, durability full\n");
  bench::print(edits);
}
