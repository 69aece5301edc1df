"""One wheel for every Python 3: the libraries are loaded by ctypes, so no ABI of Python is in it."""

from setuptools import setup
from setuptools.command.bdist_wheel import bdist_wheel


class AnyPython(bdist_wheel):
    """Tags the wheel with the platform alone."""

    def finalize_options(self) -> None:
        super().finalize_options()
        self.root_is_pure = False

    def get_tag(self) -> "tuple[str, str, str]":
        return ("py3", "none", super().get_tag()[2])


setup(cmdclass={"bdist_wheel": AnyPython})
