"""`install` puts the package safetensors_cpp in the place of `safetensors`, for one process.

`sys.modules["safetensors"]` becomes this package. A finder at the front of `sys.meta_path` answers
the imports of `safetensors.torch` and the other submodules with the modules of this package. They
are the same objects, so classes and functions exist once, whatever name a program imports.
"""

from __future__ import annotations

import sys
from importlib import import_module
from importlib.machinery import ModuleSpec

TYPE_CHECKING = False  # typing.TYPE_CHECKING without importing typing, which is slow
if TYPE_CHECKING:
    from collections.abc import Sequence
    from importlib.abc import Loader
    from types import ModuleType
else:
    Loader = object  # importlib.abc is slow, too

__all__ = ["install"]

_OWN = __name__.partition(".")[0]
_PLACE = "safetensors"


def install() -> None:
    """Put this package in the place of `safetensors` for the process.

    After the call, `import safetensors` and `import safetensors.torch` give this package, whatever
    program imports them. Other processes are not changed. Call it again at any time: it has no
    further effect. Raises ImportError if another package `safetensors` was imported before. In the
    distribution that is itself called `safetensors`, the call does nothing.
    """
    if _OWN == _PLACE:
        return
    own = sys.modules[_OWN]
    _refuse_other(own)
    if not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Finder())
    sys.modules[_PLACE] = own


def _refuse_other(own: ModuleType) -> None:
    """Raise ImportError if `safetensors` or one of its modules is another package's."""
    # A copy of the names: other threads may import modules meanwhile.
    for name in sorted(name for name in list(sys.modules) if name.partition(".")[0] == _PLACE):
        module = sys.modules.get(name, own)
        if module is not own and getattr(module, "__name__", "").partition(".")[0] != _OWN:
            where = getattr(module, "__file__", None) or "no file"
            raise ImportError(
                f"{_OWN}.install(): {name} is already imported, from {where} (call install() before"
                " the first import of safetensors, or start Python with SAFETENSORS_CPP=1)",
                name=name,
            )


class _Finder:
    """Finds the modules of this package by the names of the other one."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        first, _, rest = fullname.partition(".")
        if first != _PLACE:
            return None
        from importlib.util import find_spec  # not at the top: it would take most of the time of install()

        name = f"{_OWN}.{rest}" if rest else _OWN
        try:
            found = name in sys.modules or find_spec(name) is not None
        except ModuleNotFoundError:  # the parent is not a package
            found = False
        return ModuleSpec(fullname, _Loader(name)) if found else None


class _Loader(Loader):
    """Gives a module of this package another name in `sys.modules`."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._spec: ModuleSpec | None = None

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        module = import_module(self._name)
        self._spec = module.__spec__
        return module

    def exec_module(self, module: ModuleType) -> None:
        # The import system has set the spec with the other name. Pickle, reload() and pkgutil need the module's own.
        module.__spec__ = self._spec
