"""Names that each module of the reference has because it imports them.

Programs import them from there, or use them after `from safetensors.torch import *`.
"""

import os
import sys
from collections import defaultdict
from typing import Any, Dict, List, Optional, Set, Tuple, Union

from ._functions import deserialize, serialize, serialize_file
from ._native import TensorSpec, safe_open

__all__ = [
    "Any", "Dict", "List", "Optional", "Set", "TensorSpec", "Tuple", "Union", "defaultdict",
    "deserialize", "os", "safe_open", "serialize", "serialize_file", "sys",
]
