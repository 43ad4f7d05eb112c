"""StorageReader, StorageWriter, load_sharded and save_sharded on one rank and on many: see the modules ranks_*.py."""

from conftest import framework

framework("torch")

import rank_tests  # noqa: E402
import ranks_dcp  # noqa: E402
import ranks_save  # noqa: E402
import ranks_save_sharded  # noqa: E402
import ranks_sharded  # noqa: E402

modules = [ranks_dcp, ranks_save, ranks_sharded, ranks_save_sharded]
results, test_ranks, test_ranks_survive_the_death_of_one = rank_tests.make(*modules)
