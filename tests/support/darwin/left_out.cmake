# The tests that are not compiled for macOS, and why. This is the only list of them. Nobody has run any test on macOS.
set(left_out
  io/atomic_file_faults_test.cpp      # filters of system calls
  io/source_reader_test.cpp
  io/failed_calls_test.cpp
  write/write_faults_test.cpp
  io/atomic_file_mounts_test.cpp      # mounts, and /sys
  io/atomic_file_new_path_test.cpp    # files without a name
  io/direct_writer_test.cpp           # O_DIRECT
  os/file_system_test.cpp             # numbers of file systems of Linux
  os/huge_page_memory_test.cpp     # huge pages
  os/leased_map_test.cpp              # leases
  os/page_size_test.cpp               # replaces sysconf() and mmap()
  os/residency_test.cpp               # the share of a file in the page cache
  plan/provided_pages_test.cpp        # madvise() and mincore()
  plan/read_plan_report_test.cpp      # filters of system calls
  write/checkpoint_crash_test.cpp     # traces a child, and kills it before each system call
  write/leftovers_test.cpp
  write/processes_crash_test.cpp
  write/rewrite_crash_test.cpp)
set(left_out_c)
set(left_out_cases)
# Whole folders: tests/faults replaces system calls of Linux.
