"""Writes programs whose names hold control characters to a folder, for control.test."""

import pathlib
import sys

folder = pathlib.Path(sys.argv[1])
# As an escape of MLIR: ESC, LF, CR, and a control character that UTF-8 has beside ASCII.
NAME = r"\1B[2J\0Aerror: forged\0D\C2\9B"


def step(cols=32, entry="@step", start="module attributes {te.recipe = #te.recipe<high_precision>} {"):
    return f"""{start}
  func.func {entry}(%x: tensor<16x32xf32> {{te.name = "x{NAME}"}}, %w: tensor<16x{cols}xf32> {{te.name = "w", te.weight}})
      -> (tensor<16x16xf32> {{te.name = "y"}}) {{
    %y = te.linear %x, %w : tensor<16x32xf32>, tensor<16x{cols}xf32> -> tensor<16x16xf32> loc("layer{NAME}")
    return %y : tensor<16x16xf32>
  }}
}}
"""


programs = {
    "names": step(),
    "twice": step().replace('"w"', f'"x{NAME}"'),
    "file": step(cols=33).replace(f'loc("layer{NAME}")', f'loc("file{NAME}":1:2)'),
    "layer": step(cols=33),
    "symbol": step(entry=f'@"step{NAME}"'),
    "text": step(start="// \x1b[2J\nmodule {"),
    "carriage": step(start="// a\rb\nmodule {"),
    "wide": step(start="// \x9b2J\nmodule {"),
    "windows": step(start="// \ta\r\nmodule {"),
}  # fmt: skip
for name, text in programs.items():
    (folder / f"{name}.mlir").write_text(text, newline="", encoding="utf-8")
(folder / "lines.py").write_text(
    r"""import sys

text = sys.stdin.buffer.read()
sys.stdout.buffer.write(text)
sys.exit(any(part in text for part in (b"\33", b"\r", b"\xc2\x9b", b"\nerror: forged")))
"""
)
