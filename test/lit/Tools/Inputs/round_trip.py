"""Prints programs, and reads and prints them again as text, in the generic form and as bytecode."""

import pathlib
import subprocess
import sys
import tempfile


def te_opt(source, *options):
    return subprocess.run(["te-opt", *options, "-"], input=source, capture_output=True)


count, differ = 0, []
for folder in sys.argv[1:]:
    for path in sorted(pathlib.Path(folder).rglob("*.mlir")):
        text = path.read_bytes()
        # Parts of split files are programs of their own.
        for number, part in enumerate(text.split(b"// -----")):
            printed = te_opt(part)
            if printed.returncode or b"expected-error" in part:
                continue
            count += 1
            with tempfile.NamedTemporaryFile(suffix=".mlirbc") as file:
                file.write(te_opt(printed.stdout, "--emit-bytecode").stdout)
                file.flush()
                read = subprocess.run(["te-opt", file.name], capture_output=True)
            generic = te_opt(printed.stdout, "--mlir-print-op-generic")
            again = {"text": te_opt(printed.stdout), "bytecode": read, "generic": te_opt(generic.stdout)}
            differ += [f"{path} part {number}: {form}" for form, one in again.items() if one.stdout != printed.stdout]
print(*differ, sep="\n")
print(f"{count} programs, {len(differ)} differ")
