// A plan of any items, read in any way. Results equal those of a naive reader, memory stays within the budget, progress
// never goes back, and no thread is left after an error.
#include <dirent.h>
#include <safetensors/read_plan.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <deque>
#include <iterator>
#include <mutex>
#include <new>
#include <optional>
#include <thread>
#include <vector>

#include "input.h"
#include "plan/tuning.h"
#include "require.h"
#include "support/mapping_counter.h"
#include "support/plan_support.h"

namespace {

using fuzz::Input;
using fuzz::require;
using namespace safetensors;
using test::PlannedFile;
using test::PlannedItem;
using test::PlanRandom;

constexpr std::uint64_t kHugePage = std::uint64_t{2} << 20;
constexpr std::uint64_t kOwnOfThread = std::uint64_t{1} << 20;  // bounce buffer, for slices of short pieces
constexpr std::uint64_t kDefaultChunk = std::uint64_t{2} << 20;
constexpr std::uint64_t kSmallestRead = 4096;      // bytes that are read at once, even if the budget is smaller
constexpr std::uint64_t kNoted = 1024;             // bytes of bookkeeping per item
constexpr std::uint64_t kNotedOfThread = 4 << 10;  // per thread
constexpr std::uint64_t kNotedOnce = 16 << 10;
// A plan gets no more items when its results have this many bytes, so that no input is slow.
constexpr std::uint64_t kMaxResults = 8 << 20;

// The thread sanitizer adds a thread of its own when the first thread starts. This thread counts, too.
std::size_t thread_count() {
  static std::once_flag started;
  std::call_once(started, [] { std::thread([] {}).join(); });
  std::size_t count = 0;
  DIR* const tasks = ::opendir("/proc/self/task");
  if (tasks == nullptr) return 0;
  while (const dirent* const task = ::readdir(tasks)) count += task->d_name[0] != '.' ? 1 : 0;
  ::closedir(tasks);
  return count;
}

// Waits, because the system still lists a joined thread for a moment.
void require_threads(std::size_t count) {
  for (int i = 0; i < 5000; ++i) {
    if (thread_count() <= count) return;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  require(false, "no thread is left");
}

// The bytes of a file, in short reads. On request, a read fails or the file ends early.
class Faulty final : public Source {
 public:
  Faulty(const std::string& bytes, std::size_t at_once, bool alone, std::uint64_t request)
      : bytes_(bytes), at_once_(at_once), alone_(alone), request_(request) {}
  void fail_after(int reads, bool short_file) {
    short_file_ = short_file;
    reads_ = reads;
  }
  Result<std::uint64_t> size() const noexcept override { return bytes_.size(); }
  bool concurrent() const noexcept override { return !alone_; }
  std::uint64_t request_bytes() const noexcept override { return request_; }
  Result<std::size_t> read_at(std::uint64_t offset, Span<std::byte> destination) const override {
    struct Leave {
      std::atomic<int>& inside;
      ~Leave() { --inside; }
    };
    require(inside_.fetch_add(1) == 0 || !alone_, "one thread at a time");
    const Leave leave{inside_};
    require(request_ == 0 || destination.size() <= request_, "no request is larger");
    return read(offset, destination);
  }

 private:
  Result<std::size_t> read(std::uint64_t offset, std::span<std::byte> destination) const {
    if (reads_ >= 0 && reads_.fetch_sub(1) == 0) {
      reads_ = 0;
      if (short_file_) return std::size_t{0};
      if (alone_) throw 7;
      Error error;
      error.code = Errc::read_failed;
      error.message = "told to";
      return error;
    }
    if (offset >= bytes_.size()) return std::size_t{0};
    const auto from = static_cast<std::size_t>(offset);
    const std::size_t count = std::min({destination.size(), bytes_.size() - from, at_once_});
    std::memcpy(destination.data(), bytes_.data() + from, count);
    return count;
  }

  const std::string& bytes_;
  const std::size_t at_once_;
  const bool alone_;
  const std::uint64_t request_;
  mutable std::atomic<int> inside_{0};
  bool short_file_ = false;
  mutable std::atomic<int> reads_{-1};
};

// Checks the reports of progress: they never decrease, and all come from one thread.
struct Progress {
  std::thread::id owner = std::this_thread::get_id();
  std::uint64_t done = 0;
  std::uint64_t total = 0;
  int calls = 0;
  int cancel_after = -1;

  bool tell(std::uint64_t now, std::uint64_t all) {
    require(std::this_thread::get_id() == owner, "progress is told on the thread that asked");
    require(now >= done && now <= all, "progress never goes back");
    require(calls == 0 || all == total, "the total stays");
    done = now;
    total = all;
    return calls++ < cancel_after || cancel_after < 0;
  }
};

class PlanCase {
 public:
  explicit PlanCase(Input& in) : in_(in), random_(in.u64() >> 32) {
    constexpr std::uint64_t kChunks[] = {0, 1, 4096, 5000, 65536, 1 << 20};
    constexpr std::uint64_t kBudgets[] = {0, 1, 5000, 40'000, 300'000, 1 << 20, std::uint64_t{1} << 40};
    constexpr std::uint64_t kFileSizes[] = {500, 20'000, 400'000, 1'500'000, 6 << 20};
    plan::tuning.chunk_bytes = kChunks[in.up_to(std::size(kChunks) - 1)];
    options_.memory_limit = kBudgets[in.up_to(std::size(kBudgets) - 1)];
    options_.threads = static_cast<unsigned>(1 + in.up_to(5));
    options_.cache = static_cast<Cache>(in.up_to(2));
    const std::uint8_t size = in.byte();
    file_ = test::random_file(random_, std::max<std::uint64_t>(plan::tuning.chunk_bytes, 4096),
                              kFileSizes[size < 250 ? size % 4 : 4]);
    source_ = std::make_shared<Faulty>(file_.bytes, 1 + in.up_to(255) * 300, in.up_to(3) == 0,
                                       in.up_to(3) == 0 ? 1 + in.u64() % 65'536 : 0);
    from_memory_ = in.up_to(3) == 0;
    Result<File> opened =
        from_memory_ ? File::from_memory(std::as_bytes(std::span(file_.bytes)), nullptr) : File::from_source(source_);
    require(opened.ok(), "the file is good");
    opened_.emplace(*std::move(opened));
  }

  void add_items() {
    const bool slices = in_.up_to(1) == 0;
    for (std::uint64_t n = in_.up_to(20), bytes = 0; n > 0 && bytes < kMaxResults; --n) {
      PlanRandom random(in_.u64() >> 40);
      const test::PlannedTensor& tensor = random.of(file_.tensors);
      std::optional<PlannedItem> item = test::random_item(random, tensor);
      if (item && (slices || !item->slice)) bytes += add(*std::move(item));
    }
  }

  void execute() {
    const std::size_t threads = thread_count();
    break_something();
    const allocations::Peak peak;
    {
      const Result<ReadResult> result = plan_.execute(options_);
      require_bound(peak.bytes(), results_);
      judge(result.ok() ? Status() : Status(result.error()));
      if (result) {
        require(result->arrays.size() == items_.size() && result->report.bytes == plan_.nbytes(), "all of the plan");
        for (std::size_t i = 0; i < items_.size(); ++i) check(i, result->arrays[i]);
      }
    }
    require_threads(threads);
  }

  void stream() {
    const std::size_t threads = thread_count();
    break_something();
    // A budget of 0 is the default: all results fit.
    const std::uint64_t budget = options_.memory_limit == 0 ? results_ : options_.memory_limit;
    const allocations::Peak peak;
    {
      Result<Stream> stream = plan_.stream(options_);
      require(stream.ok(), "a stream begins");
      judge(take(*stream));
    }
    // The caller holds the item taken last until the next one comes.
    require_bound(peak.bytes(), std::min(results_, std::max(budget, largest_) + largest_));
    require_threads(threads);
  }

 private:
  std::uint64_t add(PlannedItem item) {
    items_.push_back(std::move(item));
    PlannedItem& made = items_.back();
    const Tensor from = opened_->tensor(made.tensor->name).value();
    Destination to;
    if (!made.memory.empty()) to = {std::as_writable_bytes(std::span(made.memory)), made.strides};
    require(plan_.add(from, made.slice ? Slice(*made.slice) : Slice(), to, made.cast).ok(), "the item is good");
    largest_ = std::max<std::uint64_t>(largest_, made.result.size());
    // In memory, each item begins at a multiple of 64.
    if (made.memory.empty()) results_ += (made.result.size() + 63) / 64 * 64;
    sliced_ = sliced_ || made.slice.has_value();
    return made.result.size();
  }

  void break_something() {
    for (PlannedItem& item : items_) std::fill(item.memory.begin(), item.memory.end(), '\x5a');
    progress_ = {};
    const std::uint8_t kind = in_.byte();
    source_->fail_after(kind >= 200 && kind < 230 ? kind - 200 : -1, kind % 2 == 0);
    breaks_ = kind >= 200 && kind < 230 && !from_memory_;
    if (kind >= 230) progress_.cancel_after = kind - 230;
    options_.progress = [this](std::uint64_t done, std::uint64_t total) { return progress_.tell(done, total); };
  }

  void judge(const Status& status) {
    if (status) {
      require(progress_.calls == 0 || progress_.done == progress_.total, "at the end all is done");
      return;
    }
    const Errc code = status.error().code;
    require((breaks_ && (code == Errc::read_failed || code == Errc::file_truncated)) ||
                (progress_.cancel_after >= 0 && code == Errc::cancelled),
            "only what was broken fails");
    require(!status.error().message.empty(), "an error says why");
  }

  Status take(Stream& stream) {
    std::vector<bool> seen(items_.size());
    int pauses = in_.up_to(3) == 0 ? 3 : 0;  // a slow caller, so that the threads get ahead
    for (;;) {
      if (pauses-- > 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
      Result<std::optional<StreamItem>> next = stream.next();
      if (!next) {
        require(stream.next().error().code == next.error().code, "an error stays");
        return std::move(next).error();
      }
      if (!*next) break;
      require(!seen[(**next).index], "no item comes twice");
      seen[(**next).index] = true;
      check((**next).index, (**next).array);
    }
    require(std::all_of(seen.begin(), seen.end(), [](bool item) { return item; }), "every item comes");
    return {};
  }

  void check(std::size_t number, const Array& array) const {
    const PlannedItem& item = items_[number];
    require(array.dtype() == item.cast.value_or(item.tensor->dtype), "the dtype");
    require(std::ranges::equal(ShapeView(array.shape()), item.shape), "the shape");
    const std::span<const std::byte> expected = test::bytes_of(item.result);
    require(!item.strides.empty() || std::ranges::equal(array.bytes(), expected), "the bytes of the naive reader");
    require(item.memory == item.expected, "the memory that was given");
  }

  // results: bytes of the results that may exist at one time in memory of the library.
  void require_bound(std::uint64_t peak, std::uint64_t results) const {
    const std::uint64_t chunk =
        plan::tuning.chunk_bytes == 0 ? kDefaultChunk : std::max(plan::tuning.chunk_bytes, kSmallestRead);
    const std::uint64_t budget = options_.memory_limit == 0 ? options_.threads * chunk : options_.memory_limit;
    std::uint64_t bound = results + std::max(std::min(budget, options_.threads * chunk), kSmallestRead);
    bound += kNotedOnce + kNoted * items_.size() + kNotedOfThread * options_.threads;
    if (sliced_) bound += kOwnOfThread * options_.threads;
    // A mapping has one more huge page for alignment, and its end is rounded up to a whole page.
    if (results >= kHugePage || chunk >= kHugePage) bound += 2 * kHugePage * (1 + options_.threads);
    require(peak <= bound, "memory is at most the results, the budget and what is said of threads");
  }

  Input& in_;
  PlanRandom random_;
  PlannedFile file_;
  std::shared_ptr<Faulty> source_;
  bool from_memory_ = false;
  bool breaks_ = false;
  bool sliced_ = false;
  std::optional<File> opened_;
  std::deque<PlannedItem> items_;
  std::uint64_t results_ = 0;
  std::uint64_t largest_ = 0;
  ReadPlan plan_;
  ReadOptions options_;
  Progress progress_;
};

}  // namespace

int LLVMFuzzerTestOneInput(const unsigned char* data, std::size_t size) {
  Input in(data, size);
  PlanCase plan(in);
  plan.add_items();
  for (std::uint64_t n = 1 + in.up_to(3); n > 0; --n) in.up_to(1) == 0 ? plan.execute() : plan.stream();
  return 0;
}
