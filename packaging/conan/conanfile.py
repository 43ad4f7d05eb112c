"""The recipe for Conan 2. It builds the clone it lies in: conan create packaging/conan --build=missing"""

from pathlib import Path

from conan import ConanFile
from conan.tools.build import check_min_cppstd
from conan.tools.cmake import CMake, CMakeDeps, CMakeToolchain, cmake_layout
from conan.tools.files import copy, rmdir

required_conan_version = ">=2.0"


class SafetensorsConan(ConanFile):
    name = "safetensors"
    description = "Read, check, slice and write safetensors files: the format of model weights"
    license = "Apache-2.0"
    topics = ("safetensors", "machine-learning", "weights", "checkpoint")
    package_type = "library"
    settings = "os", "compiler", "build_type", "arch"
    options = {"shared": [True, False], "fPIC": [True, False]}
    default_options = {"shared": False, "fPIC": True}
    implements = ["auto_shared_fpic"]

    def set_version(self):
        self.version = self.version or (Path(self.recipe_folder) / "../../VERSION").read_text().strip()

    def export_sources(self):
        root = Path(self.recipe_folder) / "../.."
        for pattern in ("CMakeLists.txt", "VERSION", "LICENSE", "CHANGELOG.md", "cmake/*", "include/*", "src/*", "docs/*"):
            copy(self, pattern, root, self.export_sources_folder)

    def validate(self):
        check_min_cppstd(self, 20)

    def layout(self):
        cmake_layout(self)

    def generate(self):
        toolchain = CMakeToolchain(self)
        toolchain.cache_variables["SAFETENSORS_BUILD_CLI"] = False
        toolchain.generate()
        CMakeDeps(self).generate()

    def build(self):
        cmake = CMake(self)
        cmake.configure()
        cmake.build()

    def package(self):
        CMake(self).install()
        copy(self, "LICENSE", self.source_folder, Path(self.package_folder) / "licenses")
        rmdir(self, Path(self.package_folder) / "share")

    def package_info(self):
        # The package of CMake that the project installs has all targets and components.
        self.cpp_info.set_property("cmake_find_mode", "none")
        self.cpp_info.builddirs = ["lib/cmake/safetensors"]
