# The tests that do not run on Windows, and why. This is the only list of them.

# Files that cannot be compiled, because all of their tests need something that Windows lacks.
set(left_out
  format/header_memory_test.cpp       # counts allocations: free() of Windows refuses aligned memory
  file/index_memory_test.cpp          # the same
  write/accept_memory_test.cpp        # the same
  io/source_reader_faults_test.cpp    # replaces pread()
  os/file_status_test.cpp             # compares with stat(), which tells little on Windows
  os/available_memory_test.cpp        # control groups
  os/file_system_test.cpp             # numbers of file systems of Linux
  os/huge_page_allocator_test.cpp     # huge pages
  os/huge_page_allocator_threads_test.cpp
  os/huge_page_faults_test.cpp
  os/huge_pages_test.cpp
  os/leased_map_test.cpp              # leases
  os/residency_test.cpp               # the share of a file in the page cache
  file/cancellation_test.cpp          # signals
  os/signals_test.cpp                 # signals
  file/checkpoint_files_test.cpp      # limits of descriptors
  file/view_pages_test.cpp            # counts maps
  plan/read_plan_report_test.cpp      # filters of system calls
  plan/stream_fork_test.cpp           # fork()
  write/checkpoint_crash_test.cpp     # traces a child, and kills it before each system call
  write/leftovers_test.cpp
  write/processes_crash_test.cpp
  write/rewrite_crash_test.cpp
  write/serialize_files_test.cpp)     # attributes of files of Linux
# In C:
set(left_out_c
  c/cancel_test.c                     # signals
  c/processes_test.c)                 # fork()
# Whole folders: tests/faults replaces system calls of Linux, and fuzz/ replays inputs, which do not depend on the system.
