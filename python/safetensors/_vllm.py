"""The load format "safetensors_plan" of vLLM.

vLLM calls `register`, an entry point. The loader gives the model tensors that are not read yet, in the
order of the layers. The model decides what to do with them, as it does with tensors of vLLM's own loader:
it skips experts and layers of other ranks, and narrows others to the part of its rank. So only elements
that the model uses are read. Reading ahead is a guess: a layer uses its tensors in the same way as
the layer before it. A wrong guess costs time, and never changes values.
"""

from __future__ import annotations

import copy
import logging
import time
from collections.abc import Generator
from contextlib import closing
from typing import Any

from ._read.checkpoint import Checkpoint

__all__ = ["register"]

LOAD_FORMAT = "safetensors_plan"
_made: list[str] = []
_OPTIONS = ("memory_limit", "threads", "cache")


def register() -> None:
    """Register the load format. vLLM calls this in each of its processes, maybe several times."""
    try:
        from vllm.model_executor.model_loader import register_model_loader

        if not _made:  # vLLM warns if a format is registered again
            register_model_loader(LOAD_FORMAT)(_loader_class())
            _made.append(LOAD_FORMAT)
    except (ImportError, AttributeError) as error:  # another version: vLLM must start anyway
        logging.getLogger("vllm").warning("no load format %s: %s", LOAD_FORMAT, error)


def layer_order(name: str) -> list[tuple[int, int, str]]:
    """Return a key that sorts names by their parts, and numbers by their values."""
    return [(0, int(p), "") if p.isdecimal() else (1, 0, p) for p in name.split(".")]


def _loader_class() -> Any:
    from vllm.logger import init_logger
    from vllm.model_executor.model_loader.default_loader import DefaultModelLoader
    from vllm.model_executor.model_loader.ep_weight_filter import should_skip_weight
    from vllm.model_executor.models.utils import is_pp_missing_parameter

    logger = init_logger("vllm.safetensors_plan")

    class PlannedModelLoader(DefaultModelLoader):  # type: ignore[misc, unused-ignore]
        """vLLM's own loader chooses and downloads files. This one reads them."""

        def __init__(self, load_config: Any) -> None:
            extra = dict(load_config.model_loader_extra_config or {})
            self._options = {name: extra.pop(name) for name in _OPTIONS if name in extra}
            if unknown := extra.keys() - {"enable_weights_track"}:
                raise ValueError(
                    f"model_loader_extra_config has {sorted(unknown)}:"
                    f" load format {LOAD_FORMAT} takes {', '.join(_OPTIONS)}"
                )
            own = copy.copy(load_config)
            own.load_format = "safetensors"  # so that vLLM's loader looks for these files
            own.model_loader_extra_config = extra
            self._model: Any = None
            # Per source of weights: the bytes of the slices that were used or guessed, those read, and those in all.
            self.reads: list[tuple[int, int, int]] = []
            super().__init__(own)

        def get_all_weights(
            self, model_config: Any, model: Any
        ) -> Generator[tuple[str, Any], None, None]:
            self._model = model
            yield from super().get_all_weights(model_config, model)

        def _get_weights_iterator(self, source: Any) -> Generator[tuple[str, Any], None, None]:
            if self.load_config.safetensors_load_strategy == "torchao":
                yield from super()._get_weights_iterator(source)
                return
            files = self._prepare_weights(
                source.model_or_path, source.subfolder, source.revision, source.fall_back_to_pt,
                source.allow_patterns_overrides,
            )[1]  # fmt: skip
            begin = time.perf_counter()
            if not getattr(self, "counter_before_loading_weights", 0.0):
                self.counter_before_loading_weights = begin  # vLLM reports the time since then
            from ._models.read_ahead import ReadAhead

            checkpoint = Checkpoint(files, "pt")
            chosen = [n for n in checkpoint if not should_skip_weight(n, self.local_expert_ids)]
            names = sorted(chosen, key=layer_order)
            here = [not self._is_elsewhere(source.prefix + name) for name in names]
            ahead = ReadAhead(checkpoint, names, here, **self._options)
            with closing(ahead.tensors()) as tensors:
                for name, tensor in tensors:
                    yield source.prefix + name, tensor
            self.reads.append((ahead.used_bytes, ahead.read_bytes, ahead.total_bytes))
            logger.info(
                "Read %.3f GiB for %.3f of %.3f GiB in %.2f seconds",
                *(count / 2**30 for count in (ahead.read_bytes, ahead.used_bytes, ahead.total_bytes)),
                time.perf_counter() - begin,
            )  # fmt: skip

        def _is_elsewhere(self, name: str) -> bool:
            """Return whether another pipeline stage has the tensor, as far as its name says."""
            return self._model is not None and is_pp_missing_parameter(name, self._model)

    return PlannedModelLoader
