#!/usr/bin/env python3
"""Writes the tables of docs/guides/memory.md that say which usages of which tensor a layer makes, and what it saves.

    dataflow_table.py          rewrites the text between the page's two markers
    dataflow_table.py --check  fails if the page differs from what te-opt prints

The example layers are compiled to the end of the phase 'quantize' under every recipe and backward override. Every GEMM of
the step is followed back from its operands, through transposes and residuals, to the casts they come from. Needs te-opt in PATH,
or --te-opt.
"""

import pathlib
import re
import subprocess
import sys

import memory_page

ROOT = pathlib.Path(__file__).resolve().parents[1]
LAYERS = ("linear", "layernorm_linear", "layernorm_mlp", "grouped_linear", "gpt_layer", "llama_layer")
ENTRY = {"llama_layer": "layer"}
MODES = ("none", "high_precision", "dequantized")
#: A recipe, where it matters with a target, and its overrides.
RECIPES = {
    "high_precision": MODES[:1],
    "delayed_scaling": MODES[:1],
    "delayed_scaling target=sm_100": MODES[:1],
    "float8_current_scaling": MODES,
    "float8_current_scaling target=sm_100": MODES,
    "float8_block_scaling": MODES,
    "mxfp8_block_scaling": MODES,
    "nvfp4_block_scaling": MODES,
}
PRODUCT = re.compile(r"te\.(?:grouped_)?(?:scaled_)?(?:matmul|wgrad) (%[\w#]+), (%[\w#]+)")


class Step:
    """The step as text, with who makes every value."""

    def __init__(self, te_opt, layer, options):
        text = subprocess.run(
            [
                te_opt,
                str(ROOT / f"docs/examples/{layer}.mlir"),
                f"--te-training-pipeline=vjp={ENTRY.get(layer, layer)} compile-to=quantize {options}",
            ],
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        signature, body = text[text.rindex("func.func") :].split("\n", 1)
        self.weights = {
            name for name, end in re.findall(r"(%arg\d+): tensor<[^>]*> \{([^}]*)\}", signature) if "te.weight" in end
        }
        self.cotangents = set(re.findall(r'(%arg\d+): tensor<[^>]*> \{te\.name = "grad\.', signature))
        self.makers, self.lines = {}, [line.strip() for line in body.splitlines() if "=" in line]
        for line in self.lines:
            results, _ = line.split(" = ", 1)
            for result in results.split(", "):
                self.makers[result.split(":")[0]] = line

    def maker(self, value):
        return self.makers.get(value.split("#")[0], "")

    def usage(self, value):
        """(tensor, words) of a product's operand: how it is stored, and how it came to be."""
        line, words = self.maker(value), []
        while True:
            operation = re.search(r"te\.(\w+) (%[\w#]+)", line)
            kind = operation[1] if operation else ""
            if kind == "residual":
                words.append("saved")
            elif kind == "transpose":
                words.append("transposed")
            elif kind == "dequantize":
                words.append("decoded")
            elif kind in ("quantize", "quantize_shard", "grouped_quantize"):
                number = int(value.split("#")[1]) if "#" in value else 0
                types = list(re.findall(r"!te\.scaled<([^>]*)>", line.split("->")[1]))
                axis = re.search(r"contract = (\d)", types[number])[1]
                words.append({"1": "row", "0": "col"}[axis] + (" of RHT" if "hadamard" in types[number] else ""))
                value, line = operation[2], self.maker(operation[2])
                for through in ("te.hadamard", "te.zero_padding"):
                    if through in line:
                        value = re.search(rf"{through} (%[\w#]+)", line)[1]
                        line = self.maker(value)
                return value, words
            else:
                return value, words
            value, line = operation[2], self.maker(operation[2])

    def products(self):
        """Usages of both operands of every product, and whether it stands in the backward."""
        backward = False
        for line in self.lines:
            backward |= "te.residual" in line
            if product := PRODUCT.search(line):
                (a, a_words), (b, b_words) = (self.usage(value) for value in product.groups())
                # A layer that only reads arguments may save nothing.
                backward |= a in self.cotangents
                yield backward, (a, a_words), (b, b_words)

    def saved(self):
        """Names of residuals, with the form of what is saved."""
        found = []
        for line in self.lines:
            if residual := re.search(r'te\.residual \S+ "([^"]+)" : (.*)', line):
                axis = re.search(r"contract = (\d)", residual[2])
                found.append((residual[1], {"1": "row", "0": "col"}[axis[1]] if axis else "as it is"))
        return found


def describe(words):
    """ "col, transposed from saved rows" and the like, from the words of `usage`, which go from the product to the cast."""
    if "transposed" in words:
        return f"col: {'saved ' if 'saved' in words else ''}row, transposed"
    if "decoded" in words:
        return f"{'saved ' if 'saved' in words else ''}row, decoded"
    form = next((word for word in words if word.startswith(("row", "col"))), "as it is")
    return f"{'saved ' if 'saved' in words else ''}{form}"


def operands(step):
    """What fprop, dgrad and wgrad read, the same for every layer of the step: {(product, operand): set of descriptions}."""
    found = {}
    for backward, (_a, a_words), (b, b_words) in step.products():
        gemm = "fprop" if not backward else "dgrad" if b in step.weights else "wgrad"
        names = {"fprop": ("x", "w"), "dgrad": ("dy", "w"), "wgrad": ("dy", "x")}[gemm]
        for name, words in zip(names, (a_words, b_words)):
            found.setdefault((gemm, name), set()).add(describe(words))
    return found


COLUMNS = (("fprop", "x"), ("fprop", "w"), ("dgrad", "dy"), ("dgrad", "w"), ("wgrad", "dy"), ("wgrad", "x"))


def measure(te_opt):
    """({(recipe, override): {column: descriptions over all layers}}, {layer: saved under the block recipe})."""
    reads, saved = {}, {}
    for recipe, modes in RECIPES.items():
        for mode in modes:
            options = f"recipe={recipe}" + (f" backward-override={mode}" if len(modes) > 1 else "")
            options += "" if "target" in recipe else " target=reference"
            for layer in LAYERS:
                # sm_100 has no GEMM of groups.
                if layer == "grouped_linear" and "sm_100" in recipe:
                    continue
                step = Step(te_opt, layer, options)
                for column, texts in operands(step).items():
                    # An argument does not have to be saved.
                    texts = {re.sub("^saved as it is", "as it is", text) for text in texts}
                    reads.setdefault((recipe, mode), {}).setdefault(column, set()).update(texts)
                if recipe == "float8_block_scaling" and mode == "none":
                    saved[layer] = step.saved()
    return reads, saved


def tables(measured):
    reads, saved = measured
    lines = [
        "What the GEMMs of a linear layer read, in every layer of the examples. `row` is a cast for the last axis, `col` one for",
        "the first axis. `saved` means saved in the forward for the backward, `as it is` the tensor in high precision.\n",
        "| recipe | override | " + " | ".join(f"{gemm}: {name}" for gemm, name in COLUMNS) + " |",
        "| --- | --- |" + " --- |" * len(COLUMNS),
    ]
    for (recipe, mode), columns in reads.items():
        cells = [" or ".join(sorted(columns[column])) for column in COLUMNS]
        lines.append(f"| `{recipe.replace(' ', '`, `')}` | `{mode}` | " + " | ".join(cells) + " |")
    lines += [
        "\nWhat each layer saves under `float8_block_scaling`. Tensors that no GEMM reads are saved in the same form under every recipe.\n",
        "| layer | saved for the backward |",
        "| --- | --- |",
    ]
    for layer, values in saved.items():
        lines.append(
            f"| [`{layer}`](../examples/{layer}.mlir) | "
            + ", ".join(f"`{name}` ({form})" for name, form in values)
            + " |"
        )
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.exit(memory_page.main(__doc__, "dataflow", lambda te_opt: tables(measure(te_opt))))
