# Configuration of the lit suite: te-opt and te-run on files, checked by FileCheck.

import os

import lit.formats

config.name = "te"
config.test_format = lit.formats.ShTest(execute_external=False)
config.suffixes = [".mlir", ".test"]
config.test_source_root = os.path.dirname(__file__)
config.test_exec_root = config.te_test_folder
config.environment["PATH"] = os.pathsep.join([config.te_tools, config.llvm_tools, os.environ["PATH"]])
for name in ("TE_TESTS", "ASAN_OPTIONS"):
    if name in os.environ:
        config.environment[name] = os.environ[name]
config.substitutions.append(("%python", config.python))
config.substitutions.append(("%runtime", config.runtime))
config.substitutions.append(("%examples", config.examples))
config.substitutions.append(("%docs", os.path.join(config.test_source_root, "../../docs/examples")))
config.substitutions.append(("%include", os.path.join(config.test_source_root, "../../include")))
config.substitutions.append(("%te_lib", os.path.join(config.te_tools, "../lib")))
# N processes of one host: %launch --size=N PROGRAM ...
config.substitutions.append(
    ("%launch", config.python + " " + os.path.join(config.test_source_root, "../unit/Runtime/Mpi/launch.py"))
)
# Vendor libraries that compute nothing, in place of those of a GPU.
config.substitutions.append(("%fakes", config.fakes))
if os.path.exists(os.path.join(config.fakes, "libcuda.so.1")):
    config.available_features.add("te-fake-cuda")
if config.mpi:
    config.available_features.add("te-mpi")
if config.cuda:
    config.available_features.add("te-cuda")
