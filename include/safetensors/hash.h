/// @file
/// Digests of files, of their data and of their tensors, and manifests that hold them.
///
/// This header belongs to the component `hash`, which needs OpenSSL and, for BLAKE3, the BLAKE3 C library. The library
/// itself needs neither. Link `safetensors::hash`. safetensors.h does not include this header.
#pragma once

#include <safetensors/callback.h>
#include <safetensors/checkpoint.h>
#include <safetensors/error.h>
#include <safetensors/file.h>
#include <safetensors/path.h>
#include <safetensors/source.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace safetensors {
inline namespace v0 {

/// The algorithms of digests. All digests have 32 bytes.
enum class HashAlgorithm : std::uint8_t {
  sha256,  ///< SHA-256 of FIPS 180-4, by OpenSSL
  blake3,  ///< BLAKE3 without a key, by the BLAKE3 C library
};

/// Returns "sha256" or "blake3". Returns "unknown" for any other number.
[[nodiscard]] const char* to_string(HashAlgorithm algorithm) noexcept;
/// Returns the algorithm with this name, or nullopt.
[[nodiscard]] std::optional<HashAlgorithm> hash_algorithm(std::string_view name) noexcept;
/// Returns the name and the version of the library that computes an algorithm, such as "OpenSSL 3.0.19". The text is
/// empty if this build has no such library: then the functions below return Errc::unsupported. May throw
/// `std::bad_alloc`.
[[nodiscard]] std::string hash_library(HashAlgorithm algorithm);

/// The result of a hash function.
struct Digest {
  std::array<std::uint8_t, 32> bytes{};  ///< the bytes of the digest

  /// Returns true when all bytes are equal.
  friend bool operator==(const Digest&, const Digest&) = default;
};

/// Returns the 64 hexadecimal digits of a digest, in lower case. May throw `std::bad_alloc`.
[[nodiscard]] std::string to_hex(const Digest& digest);
/// Returns the digest that 64 hexadecimal digits stand for, in either case. Returns nullopt for any other text.
[[nodiscard]] std::optional<Digest> digest_from_hex(std::string_view text) noexcept;

/// Returns the digest of bytes in memory. Errors: unsupported, out_of_memory.
[[nodiscard]] Result<Digest> hash_bytes(std::span<const std::byte> bytes,
                                        HashAlgorithm algorithm = HashAlgorithm::sha256) noexcept;

/// Options of hash_file(): the digests to compute, and how.
struct HashOptions {
  HashAlgorithm algorithm = HashAlgorithm::sha256;  ///< the algorithm of all digests
  bool file = true;                                 ///< the digest of all bytes of the file
  bool data = false;                                ///< the digest of the bytes after the header
  bool tensors = false;                             ///< one digest per tensor
  /// Size of a chunk in bytes: a power of two from 65536 to 16777216. 0: no digests of chunks.
  std::uint64_t chunk_bytes = 0;
  /// Number of threads that read and hash, including the calling thread. 0: one per usable processor, at most 16.
  unsigned threads = 0;
  /// Called with the number of bytes completed and the total. Runs in the calling thread. Return false to cancel
  /// (Errc::cancelled). Must not throw.
  Callback<bool(std::uint64_t completed, std::uint64_t total)> progress = nullptr;
  /// Returns true for the tensors whose digests `tensors` computes. Null: all tensors. It is an error to request other
  /// digests with it. Runs in the calling thread, once per tensor. Must not throw.
  Callback<bool(const TensorInfo& tensor)> select = nullptr;
};

/// The digests of one file.
struct FileHashes {
  Digest header = {};                ///< of the bytes before the data: the length and the header
  std::optional<Digest> file = {};   ///< of all bytes
  std::optional<Digest> data = {};   ///< of the bytes after the header
  std::vector<Digest> tensors = {};  ///< one per selected tensor, in the order of Header::tensors()
  std::vector<Digest> chunks = {};   ///< one per HashOptions::chunk_bytes of the file, the last chunk may be shorter
};

/// Computes digests of a file. BLAKE3 and chunks may be computed from maps of the file, which exist for some
/// milliseconds under a read lease. Access::read excludes them: see File.
/// @code
/// const File file = File::open("model.safetensors").value();
/// std::puts(to_hex(*hash_file(file).value().file).c_str());
/// @endcode
///
/// Reads each byte once, in order, for all digests together. If only the digests of tensors are wanted, reads several
/// tensors at the same time, and nothing else. The memory is up to 64 MiB. One thread at a time computes the digest of
/// one range, except that all threads compute the BLAKE3 digest of a whole file. The digests of a file, of its data, of
/// its tensors and of its chunks are computed at the same time.
/// Errors: invalid_argument (chunk_bytes, and `select` with other digests), unsupported, cancelled, out_of_memory,
/// read_failed, file_truncated.
[[nodiscard]] Result<FileHashes> hash_file(const File& file, const HashOptions& options = {}) noexcept;

/// The hashes that programs for Stable Diffusion store in the metadata of a model. See docs/hashes.md.
struct ModelHashes {
  /// `sshs_model_hash`: 64 digits, the SHA-256 of the bytes after the header. `modelspec.hash_sha256` is the same with
  /// "0x" before it.
  std::string model;
  /// `sshs_legacy_hash`: 8 digits. The SHA-256 of the 65536 bytes from offset 1048576 on, in the file that has only the
  /// training metadata: the keys that begin with "ss_".
  std::string legacy;
};

/// Computes the hashes that sd-scripts and ModelSpec define. Reads the data once. `options`: threads and progress.
/// Errors: those of hash_file().
[[nodiscard]] Result<ModelHashes> model_hashes(const File& file, const HashOptions& options = {}) noexcept;

/// A tensor in a manifest.
struct ManifestTensor {
  std::string name;         ///< its name
  std::uint64_t begin = 0;  ///< offset of its first byte in the file
  std::uint64_t end = 0;    ///< offset of the end of its range [begin, end) in the file
  Digest digest = {};       ///< of its bytes
};

/// A file in a manifest.
struct ManifestFile {
  std::string name;                          ///< its path relative to the folder of the manifest, with `/`
  std::uint64_t bytes = 0;                   ///< size in bytes
  std::uint64_t data_start = 0;              ///< offset of the data: 8 + the length of the header
  Digest digest = {};                        ///< of all bytes
  Digest header = {};                        ///< of the bytes before data_start
  Digest data = {};                          ///< of the bytes from data_start on
  std::vector<ManifestTensor> tensors = {};  ///< all tensors of the file, sorted by `begin`
  std::vector<Digest> chunks = {};           ///< one per Manifest::chunk_bytes of the file
};

/// Options of Manifest::make() and verify_file().
struct ManifestOptions {
  HashAlgorithm algorithm = HashAlgorithm::sha256;     ///< for Manifest::make()
  std::uint64_t chunk_bytes = std::uint64_t{1} << 20;  ///< for Manifest::make(): as HashOptions::chunk_bytes, not 0
  unsigned threads = 0;                                ///< as HashOptions::threads
  /// As HashOptions::progress. The numbers count the bytes of all files.
  Callback<bool(std::uint64_t completed, std::uint64_t total)> progress = nullptr;
};

/// Limit for the size of a manifest that Manifest::read() reads, in bytes: 256 MiB. This is the manifest of a model of
/// 3.7 TB in chunks of 1 MiB, or of 59 TB in chunks of 16 MiB.
inline constexpr std::uint64_t kMaxManifestBytes = std::uint64_t{256} << 20;

/// The digests of the files of a model. Its text is JSON: docs/hashes.md defines the format.
struct Manifest {
  HashAlgorithm algorithm = HashAlgorithm::sha256;  ///< the algorithm of all digests
  std::uint64_t chunk_bytes = 0;                    ///< size of a chunk in bytes
  std::vector<ManifestFile> files = {};             ///< the files, sorted by the bytes of their names

  /// Computes the manifest of files, which must have paths. The names are relative to the last folder that all paths
  /// have in common. Errors: those of hash_file(), and invalid_argument for a file without a path, or two files with
  /// one name, for a name that parse() refuses (a colon, a control character, not UTF-8), and for chunks so small that
  /// the text would be larger than kMaxManifestBytes.
  [[nodiscard]] static Result<Manifest> make(std::span<const File> files, const ManifestOptions& options = {}) noexcept;

  /// Reads the text of a manifest and checks it: sizes, counts and orders must be consistent, and no member may be
  /// missing, unknown or repeated. A manifest may come from a source that you do not trust. The memory is at most 8 x
  /// `text.size()` + 64 KiB.
  /// Errors: invalid_argument (also for another version or an unknown algorithm), out_of_memory. An error about the
  /// text has the offset of its byte. An error about members that contradict each other has none.
  [[nodiscard]] static Result<Manifest> parse(std::string_view text) noexcept;

  /// Reads a manifest from a regular file of at most kMaxManifestBytes, and checks it as parse() does. The memory is at
  /// most 8 x the size of the file + 64 KiB. The text is there once.
  /// Errors, with the path: open_failed, not_regular_file (a FIFO is never waited for), read_failed, file_truncated,
  /// and those of parse().
  [[nodiscard]] static Result<Manifest> read(PathView path) noexcept;

  /// Returns the text. Error: out_of_memory.
  [[nodiscard]] Result<std::string> text() const noexcept;

  /// Returns the file with this name, or nullptr. The pointer is valid as long as `files` does not change.
  [[nodiscard]] const ManifestFile* find(std::string_view name) const noexcept;
};

/// A range of a file with a digest that differs from that in the manifest.
///
/// It is a chunk, or the range of another digest if its chunks are right: the header, a tensor, the data or the file.
/// Then the digests of the manifest contradict each other. They also do so if a chunk has neither `header` nor
/// `tensors`.
struct DamagedRange {
  std::uint64_t begin = 0;                ///< offset of the first byte in the file
  std::uint64_t end = 0;                  ///< end of the range [begin, end)
  bool header = false;                    ///< the header differs
  bool data = false;                      ///< all chunks are right, but the digest of the data differs
  bool file = false;                      ///< all chunks are right, but the digest of the file differs
  std::vector<std::string> tensors = {};  ///< tensors that overlap this range and differ, here or elsewhere
};

/// Compares a file with its entry in a manifest. Returns the damaged ranges, sorted by `begin`. No range: every digest
/// of the entry is right, and the header of `file` is the one that has the digest. Reads the file once, and the header
/// three times, all through `file`. One thread computes the digest of the file, another one that of the data.
/// Errors: data_length (the size of the file differs), invalid_argument (the tensors of the manifest are not those of
/// the header), file_changed (the header was changed after `file` was opened), and those of hash_file().
[[nodiscard]] Result<std::vector<DamagedRange>> verify_file(const File& file, const ManifestFile& expected,
                                                            const Manifest& manifest,
                                                            const ManifestOptions& options = {}) noexcept;

/// Returns a Source that checks each byte before it returns it:
/// @code
/// const File plain = File::open("model.safetensors").value();
/// const File file = File::from_source(verified_source(plain, manifest.files[0], manifest).value()).value();
/// @endcode
///
/// Reads of the result, also those of a ReadPlan or a Stream, hash the chunks that they need in the threads that read.
/// A chunk that a read needs only in part is read whole. A chunk with another digest is an error of the read:
/// read_failed, with its range. The caller of the Source, such as a File, adds the name of the tensor. The Source keeps
/// the file open and copies the digests of the chunks. It reads no byte before the first read. Only verify_file()
/// compares the other digests.
/// Errors: data_length (the size of the file differs), unsupported, out_of_memory.
[[nodiscard]] Result<std::shared_ptr<const Source>> verified_source(const File& file, const ManifestFile& expected,
                                                                    const Manifest& manifest) noexcept;

/// Returns the statement that the PyPI package model-signing (1.x) signs for a folder or a file, as JSON: an in-toto
/// statement with the SHA-256 of every file. Sign it in a DSSE envelope with your key, and the package verifies it.
///
/// The statement covers all files of the folder and of the folders below, except `.git`, `.gitattributes`, `.github`
/// and `.gitignore` at its top. They need not be safetensors files. `options`: threads and progress.
/// Errors: invalid_argument (a symbolic link), invalid_utf8 (a name), open_failed, not_regular_file, read_failed,
/// file_truncated, cancelled, out_of_memory.
[[nodiscard]] Result<std::string> model_signing_statement(PathView path, const ManifestOptions& options = {}) noexcept;

}  // namespace v0
}  // namespace safetensors
