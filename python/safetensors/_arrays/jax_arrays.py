"""The conversion of NumPy arrays to JAX arrays."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np


def _from_numpy(array: np.ndarray[Any, Any]) -> jax.Array:
    # Wait for the copy. JAX copies in the background, and meanwhile the caller may change the buffer,
    # or another program the mapped file.
    return jnp.array(array).block_until_ready()
