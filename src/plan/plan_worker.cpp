// One thread of a plan: reads, casts, and puts things where they belong.
#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

#include "base/error.h"
#include "format/cast.h"
#include "os/memory.h"
#include "plan/plan_run.h"

namespace safetensors::plan {
namespace {

constexpr std::size_t kCastBytes = 64 << 10;  // of a result, cast before they go to where strides want them

}  // namespace

// What a slice reader asks for.
class PlanWorker::Bytes final : public file::ReadTensorBytes {
 public:
  Bytes(PlanWorker& worker, const PlanItem& item, const PlanSlot& slot) : worker_(worker), item_(item), slot_(slot) {}
  Status operator()(std::uint64_t offset, std::span<std::byte> destination) noexcept override {
    return worker_.read(item_, slot_, item_.info().file_offset + offset, destination);
  }

 private:
  PlanWorker& worker_;
  const PlanItem& item_;
  const PlanSlot& slot_;
};

Status PlanWorker::work(const PlanJob& job) noexcept {
  Status status = base::guarded([&]() -> Status {
    device::CopyRing* const ring = run_.slot(run_.order()[job.first]).ring;
    return ring == nullptr ? run(job) : run_on_device(job, *ring);
  });
  run_.add(std::exchange(counts_, {}), std::exchange(mapped_, 0), clock_.lap());
  return status;
}

Status PlanWorker::run(const PlanJob& job) {
  switch (job.kind) {
    case PlanJob::Kind::batch:
      return batch(job);
    case PlanJob::Kind::pieces:
      return pieces(job);
    case PlanJob::Kind::stretch:
      break;
  }
  return stretch(job);
}

// The same into page-locked memory, which the device then copies from by itself.
Status PlanWorker::run_on_device(const PlanJob& job, device::CopyRing& ring) {
  Result<device::CopyRing::Slot> slot = ring.acquire();
  if (!slot) return std::move(slot).error();
  pinned_ = slot->bytes().data();
  filled_ = 0;
  parts_.clear();
  copied_.clear();
  if (Status status = run(job); !status) return status;
  if (Status status = ring.copy_parts(std::move(slot).value(), parts_); !status) return status;
  if (run_.in_order()) {
    if (Status status = ring.finish(); !status) return status;
  }
  for (const auto& [number, size] : copied_) count(number, size);
  return {};
}

// Where bytes of a result are put, from its byte `at` on.
std::byte* PlanWorker::place(std::size_t number, std::uint64_t at, std::size_t size) {
  if (run_.slot(number).ring == nullptr) return run_.slot(number).memory + at;
  parts_.push_back({filled_, size, run_.items()[number].device.address + at});
  copied_.emplace_back(number, size);
  filled_ += size;
  return pinned_ + parts_.back().from;
}

Status PlanWorker::read(const PlanItem& item, const PlanSlot& slot, std::uint64_t offset,
                        std::span<std::byte> to) noexcept {
  if (!slot.mapped.bytes.empty()) {
    std::memcpy(to.data(), slot.mapped.bytes.data() + (offset - item.info().file_offset), to.size());
    mapped_ += to.size();
    return {};
  }
  Status status = slot.path->read(offset, to, counts_, direct_);
  if (status) return {};
  return item.file().failed(item.info(), offset, std::move(status).error());
}

Status PlanWorker::stretch(const PlanJob& job) {
  const std::size_t number = run_.order()[job.first];
  const PlanItem& item = run_.items()[number];
  const PlanSlot& slot = run_.slot(number);
  const auto size = static_cast<std::size_t>(job.size);
  if (size == 0) return {};
  if (item.plain()) {
    const std::span<std::byte> to(place(number, job.at, size), size);
    if (Status status = read(item, slot, job.offset, to); !status) return status;
    arrived(number, job.at, to);
    return {};
  }
  const Result<std::span<std::byte>> memory = staging(item, size);
  if (!memory) return memory.error();
  if (Status status = read(item, slot, job.offset, *memory); !status) return status;
  deliver(number, job.at, *memory);
  return {};
}

// What lies in memory as it does in the file is read to where it goes, else through memory of the thread's.
Status PlanWorker::batch(const PlanJob& job) {
  const std::span<const std::size_t> numbers = run_.order().subspan(job.first, job.count);
  const PlanItem& first = run_.items()[numbers.front()];
  std::byte* const start = run_.slot(numbers.front()).memory;
  std::uint64_t gapless = 0;
  const bool alike = start != nullptr && std::ranges::all_of(numbers, [&](std::size_t number) {
                       const PlanItem& item = run_.items()[number];
                       if (!item.plain() || item.file_offset() - job.offset != gapless) return false;
                       return run_.slot(number).memory == start + std::exchange(gapless, gapless + item.stored);
                     });
  std::span<std::byte> memory(start, static_cast<std::size_t>(job.size));
  if (!alike) {
    const Result<std::span<std::byte>> made = staging(first, static_cast<std::size_t>(job.size));
    if (!made) return made.error();
    memory = *made;
  }
  if (Status status = read_batch(job, memory); !status) return status;
  for (const std::size_t number : numbers) {
    const PlanItem& item = run_.items()[number];
    const auto bytes = memory.subspan(static_cast<std::size_t>(item.file_offset() - job.offset),
                                      static_cast<std::size_t>(item.stored));
    if (alike)
      arrived(number, 0, bytes);
    else
      deliver(number, 0, bytes);
  }
  return {};
}

// An error names the tensor that it is in.
Status PlanWorker::read_batch(const PlanJob& job, std::span<std::byte> memory) noexcept {
  const std::span<const std::size_t> numbers = run_.order().subspan(job.first, job.count);
  const PlanSlot& slot = run_.slot(numbers.front());
  const detail::FileState& file = run_.items()[numbers.front()].file();
  if (!slot.mapped.bytes.empty()) {
    for (const std::size_t number : numbers) {
      const PlanItem& item = run_.items()[number];
      const std::uint64_t at = item.file_offset() - job.offset;
      if (Status status = read(item, run_.slot(number), item.file_offset(),
                               memory.subspan(static_cast<std::size_t>(at), static_cast<std::size_t>(item.stored)));
          !status)
        return status;
    }
    return {};
  }
  Status status = slot.path->read(job.offset, memory, counts_, direct_);
  if (status) return {};
  Error error = std::move(status).error();
  const std::uint64_t offset = error.offset == Error::kNoOffset ? job.offset : error.offset;
  const auto failed_item = std::ranges::find_if(numbers, [&](std::size_t number) {
    return run_.items()[number].file_offset() + run_.items()[number].stored > offset;
  });
  const std::size_t number = failed_item == numbers.end() ? numbers.back() : *failed_item;
  return file.failed(run_.items()[number].info(), job.offset, std::move(error));
}

Status PlanWorker::pieces(const PlanJob& job) {
  const std::size_t number = run_.order()[job.first];
  const PlanItem& item = run_.items()[number];
  const PlanSlot& slot = run_.slot(number);
  std::span<std::byte> to;
  if (item.plain()) {
    to = {place(number, job.at, static_cast<std::size_t>(job.size)), static_cast<std::size_t>(job.size)};
  } else {
    const Result<std::span<std::byte>> memory = staging(item, static_cast<std::size_t>(job.size));
    if (!memory) return memory.error();
    to = *memory;
  }
  if (!slot.mapped.bytes.empty()) {
    file::gather_slice(*item.slice, job.pieces, slot.mapped.bytes.data(), to.data());
    mapped_ += to.size();
  } else {
    Bytes bytes(*this, item, slot);
    Status status = file::read_slice(*item.slice, job.pieces, bytes, gather_, to.data());
    if (!status && status.error().path.empty() && status.error().code == Errc::out_of_memory)
      return item.file().describe(item.info(), std::move(status).error());
    if (!status) return status;
  }
  if (item.plain())
    arrived(number, job.at, to);
  else
    deliver(number, job.at, to);
  return {};
}

// From memory of the thread's to where they go. at: of the item as it is in the file.
void PlanWorker::deliver(std::size_t number, std::uint64_t at, std::span<const std::byte> stored) {
  const PlanItem& item = run_.items()[number];
  if (!item.casts()) {
    if (item.strides.empty())
      std::memcpy(place(number, at, stored.size()), stored.data(), stored.size());
    else
      scatter(item, at, stored);
    arrived(number, at, stored);
    return;
  }
  const std::size_t from = bits(item.tensor.dtype()) / 8;
  const std::size_t to = bits(item.dtype) / 8;
  alignas(64) std::byte buffer[kCastBytes];
  const std::size_t most = item.strides.empty() ? stored.size() / from : kCastBytes / to;
  for (std::size_t element = 0; element < stored.size() / from; element += most) {
    const std::size_t count = std::min(most, stored.size() / from - element);
    const std::uint64_t result = item.result_bytes(at) + element * to;
    std::byte* const out = item.strides.empty() ? place(number, result, count * to) : buffer;
    format::cast(item.tensor.dtype(), stored.data() + element * from, item.dtype, out, count);
    if (!item.strides.empty()) scatter(item, result, {out, count * to});
    arrived(number, result, {out, count * to});
  }
}

void PlanWorker::arrived(std::size_t number, std::uint64_t at, std::span<const std::byte> bytes) noexcept {
  if (run_.options().on_chunk) run_.options().on_chunk(number, at, bytes);
  run_.slot(number).path->finish(bytes.size());
  // On the way to a device they are not there before they are copied.
  if (run_.slot(number).ring == nullptr) count(number, bytes.size());
}

void PlanWorker::count(std::size_t number, std::uint64_t size) noexcept {
  // First: who finds that nothing is left may ask at once how much is done.
  run_.add_done(size);
  run_.slot(number).left.fetch_sub(size);
}

Result<std::span<std::byte>> PlanWorker::staging(const PlanItem& item, std::size_t size) {
  if (room_ < size) {
    stored_.reset();
    room_ = 0;
    Result<std::shared_ptr<std::byte>> made = os::allocate(size, 4096);
    if (!made) return item.file().describe(item.info(), std::move(made).error());
    stored_ = *std::move(made);
    room_ = size;
  }
  return std::span<std::byte>(stored_.get(), size);
}

}  // namespace safetensors::plan
