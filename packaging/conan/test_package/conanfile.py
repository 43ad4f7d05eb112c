"""Builds and runs the consumers of the tests with the package: conan create does it."""

from pathlib import Path

from conan import ConanFile
from conan.tools.build import can_run
from conan.tools.cmake import CMake, cmake_layout


class TestPackageConan(ConanFile):
    settings = "os", "compiler", "build_type", "arch"
    generators = "CMakeToolchain", "CMakeDeps", "VirtualRunEnv"
    test_type = "explicit"

    def requirements(self):
        self.requires(self.tested_reference_str)

    def layout(self):
        cmake_layout(self)

    def build(self):
        cmake = CMake(self)
        cmake.configure()
        cmake.build()

    def test(self):
        if can_run(self):
            for language in ("c", "cpp"):
                program = Path(self.build_folder) / self.cpp.build.bindir / f"consumer_{language}"
                self.run(f"{program} {Path(self.build_folder) / language}.safetensors", env="conanrun")
