"""Recipes: which tensors are quantised, and how.

Frozen dataclasses with the names and defaults of TransformerEngine's recipes.
`to_mlir` prints a recipe as the dialect's attribute. An option of TransformerEngine that
is not supported is an error when the object is created, and never ignored.
`backward_override` is None (the backward multiplies quantised values),
"high_precision" or "dequantized". Its default is the value that
NVTE_BACKWARD_OVERRIDE had when this module was imported; the first recipe that
uses it gives a warning. No other environment variable is read.
"""

from __future__ import annotations

import enum
import os
import warnings
from dataclasses import dataclass, field
from typing import Any

from te_mlir.dtypes import float_text

OVERRIDES = (None, "high_precision", "dequantized")

_ENVIRONMENT_OVERRIDE = os.environ.get("NVTE_BACKWARD_OVERRIDE") or None
_said = False


class Format(enum.Enum):
    """Element types of FP8: E4M3 everywhere, or E5M2 for gradients (HYBRID)."""

    E4M3 = "e4m3"
    HYBRID = "hybrid"


@dataclass(frozen=True)
class MMParams:
    """Options of one of the three GEMMs of a layer.

    use_split_accumulator: accumulate in full precision (True) or fast (False).
    """

    use_split_accumulator: bool = True


def _default_override() -> str | None:
    """The value of NVTE_BACKWARD_OVERRIDE, with a warning at its first use."""
    global _said
    if _ENVIRONMENT_OVERRIDE is not None and not _said:
        _said = True
        warnings.warn(
            f"NVTE_BACKWARD_OVERRIDE={_ENVIRONMENT_OVERRIDE} is the backward_override of recipes that do not give one",
            stacklevel=4,
        )
    return _ENVIRONMENT_OVERRIDE


def _one_of(recipe: object, name: str, accepted: tuple) -> None:
    value = getattr(recipe, name)
    if value not in accepted:
        raise ValueError(
            f"{type(recipe).__name__}: expected '{name}' to be one of "
            f"{', '.join(repr(a) for a in accepted)}, but got {value!r}"
        )


def _unsupported(recipe: object, **only: Any) -> None:
    for name, value in only.items():
        if getattr(recipe, name) != value:
            raise ValueError(
                f"{type(recipe).__name__}: expected '{name}' to be {value!r}, as nothing else is "
                f"implemented, but got {getattr(recipe, name)!r}"
            )


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, Format):
        return value.value
    if isinstance(value, float):
        return float_text(value)
    if isinstance(value, Recipe):
        return value.to_mlir()
    return str(value)


@dataclass(frozen=True)
class Recipe:
    """The base class of all recipes; use one of the subclasses."""

    def kind(self) -> str:
        """The dialect's name of the recipe."""
        raise NotImplementedError

    def options(self) -> dict[str, Any]:
        """The dialect's options that this recipe sets."""
        return {}

    def states(self) -> frozenset[str]:
        """How the names of values end that a step may carry to the next one for this recipe."""
        return frozenset()

    def spelling(self) -> str:
        """The text between `#te.recipe<` and `>`, and after the pipeline's `recipe=`."""
        options = ", ".join(f"{name} = {_text(value)}" for name, value in self.options().items())
        return self.kind() + (f", {{{options}}}" if options else "")

    def to_mlir(self) -> str:
        """The attribute, as MLIR writes it."""
        return f"#te.recipe<{self.spelling()}>"

    def _checked_override(self) -> dict[str, Any]:
        override = getattr(self, "backward_override", None)
        return {} if override is None else {"backward_override": override}


@dataclass(frozen=True)
class HighPrecision(Recipe):
    """No quantisation: GEMMs in bf16, f16 or f32, in the type of the tensors."""

    def kind(self) -> str:
        return "high_precision"


@dataclass(frozen=True)
class DelayedScaling(Recipe):
    """One scale for each tensor, from the maxima of earlier steps.

    * margin: scales leave headroom for a factor of 2**margin.
    * amax_history_len: the number of steps in the history of a scale.
    * amax_compute_algo: "max" or "most_recent" of these steps.
    * reduce_amax: TransformerEngine's option, which has no effect here: a reduction over
      ranks is an op of the program, `te.amax_reduce`, which parallel layers insert.
    * backward_override: must be None.
    """

    margin: int = 0
    fp8_format: Format = Format.HYBRID
    amax_history_len: int = 1024
    amax_compute_algo: str = "max"
    scaling_factor_compute_algo: None = None
    reduce_amax: bool = True
    fp8_dpa: bool = False
    fp8_mha: bool = False
    backward_override: str | None = field(default_factory=_default_override)

    def __post_init__(self) -> None:
        _one_of(self, "amax_compute_algo", ("max", "most_recent"))
        _one_of(self, "fp8_format", tuple(Format))
        _unsupported(self, scaling_factor_compute_algo=None, fp8_dpa=False, fp8_mha=False)
        _one_of(self, "backward_override", (None,))

    def kind(self) -> str:
        return "delayed_scaling"

    def options(self) -> dict[str, Any]:
        return {
            "fp8_format": self.fp8_format,
            "margin": self.margin,
            "amax_history_len": self.amax_history_len,
            "amax_compute_algo": self.amax_compute_algo,
        }

    def states(self) -> frozenset[str]:
        return frozenset({"amax_history", "scale"})


@dataclass(frozen=True)
class Float8CurrentScaling(Recipe):
    """One scale for each tensor, from its own maximum.

    * use_power_2_scales: round scales down to powers of two.
    * amax_epsilon: lower bound of the maximum.
    * fp8_gemm_fprop, fp8_gemm_dgrad, fp8_gemm_wgrad: accumulation of the three GEMMs.
    """

    use_power_2_scales: bool = False
    fp8_format: Format = Format.HYBRID
    amax_epsilon: float = 0.0
    fp8_gemm_fprop: MMParams = MMParams(use_split_accumulator=False)
    fp8_gemm_dgrad: MMParams = MMParams(use_split_accumulator=True)
    fp8_gemm_wgrad: MMParams = MMParams(use_split_accumulator=True)
    fp8_dpa: bool = False
    fp8_mha: bool = False
    backward_override: str | None = field(default_factory=_default_override)

    def __post_init__(self) -> None:
        _one_of(self, "fp8_format", tuple(Format))
        _unsupported(self, fp8_dpa=False, fp8_mha=False)
        _one_of(self, "backward_override", OVERRIDES)

    def kind(self) -> str:
        return "float8_current_scaling"

    def options(self) -> dict[str, Any]:
        return {
            "fp8_format": self.fp8_format,
            "pow2_scales": self.use_power_2_scales,
            "amax_epsilon": float(self.amax_epsilon),
            "split_fprop": self.fp8_gemm_fprop.use_split_accumulator,
            "split_dgrad": self.fp8_gemm_dgrad.use_split_accumulator,
            "split_wgrad": self.fp8_gemm_wgrad.use_split_accumulator,
            **self._checked_override(),
        }


@dataclass(frozen=True)
class Float8BlockScaling(Recipe):
    """One f32 scale for each block of 1x128 or 128x128; powers of two unless use_f32_scales.

    x_block_scaling_dim, w_block_scaling_dim, grad_block_scaling_dim: 1 for blocks of
    1x128, 2 for 128x128. No GEMM has two operands with blocks of 128x128.
    """

    use_f32_scales: bool = False
    fp8_format: Format = Format.E4M3
    x_block_scaling_dim: int = 1
    w_block_scaling_dim: int = 2
    grad_block_scaling_dim: int = 1
    amax_epsilon: float = 0.0
    fp8_gemm_fprop: MMParams = MMParams()
    fp8_gemm_dgrad: MMParams = MMParams()
    fp8_gemm_wgrad: MMParams = MMParams()
    fp8_dpa: bool = False
    fp8_mha: bool = False
    backward_override: str | None = field(default_factory=_default_override)

    def __post_init__(self) -> None:
        _one_of(self, "fp8_format", tuple(Format))
        for name in ("x", "w", "grad"):
            _one_of(self, f"{name}_block_scaling_dim", (1, 2))
        dims = (self.x_block_scaling_dim, self.w_block_scaling_dim, self.grad_block_scaling_dim)
        if dims.count(2) > 1:
            raise ValueError(
                "Float8BlockScaling: expected at most one block dimension to be 2, as no GEMM "
                f"has two operands with 128x128 blocks, but got {dims}"
            )
        _unsupported(
            self,
            fp8_gemm_fprop=MMParams(),
            fp8_gemm_dgrad=MMParams(),
            fp8_gemm_wgrad=MMParams(),
            fp8_dpa=False,
            fp8_mha=False,
        )
        _one_of(self, "backward_override", OVERRIDES)

    def kind(self) -> str:
        return "float8_block_scaling"

    def options(self) -> dict[str, Any]:
        return {
            "fp8_format": self.fp8_format,
            "pow2_scales": not self.use_f32_scales,
            "amax_epsilon": float(self.amax_epsilon),
            "x_block_dim": self.x_block_scaling_dim,
            "w_block_dim": self.w_block_scaling_dim,
            "grad_block_dim": self.grad_block_scaling_dim,
            **self._checked_override(),
        }


@dataclass(frozen=True)
class MXFP8BlockScaling(Recipe):
    """E8M0 scales for blocks of 1x32, or of 32x32 for weights with enable_2d_quantization."""

    margin: int = 0
    fp8_format: Format = Format.E4M3
    enable_2d_quantization: bool = False
    fp8_dpa: bool = False
    fp8_mha: bool = False
    backward_override: str | None = field(default_factory=_default_override)

    def __post_init__(self) -> None:
        _one_of(self, "fp8_format", tuple(Format))
        _unsupported(self, margin=0, fp8_dpa=False, fp8_mha=False)
        _one_of(self, "backward_override", OVERRIDES)

    def kind(self) -> str:
        return "mxfp8_block_scaling"

    def options(self) -> dict[str, Any]:
        return {
            "fp8_format": self.fp8_format,
            "w_2d": self.enable_2d_quantization,
            **self._checked_override(),
        }


@dataclass(frozen=True)
class NVFP4BlockScaling(Recipe):
    """FP4 with E4M3 scales for blocks of 1x16 (16x16 for weights), and an f32 for each tensor."""

    disable_rht: bool = False
    disable_stochastic_rounding: bool = False
    disable_2d_quantization: bool = False
    row_scaled_activation: bool = False
    nvfp4_4over6: str = "none"
    nvfp4_4over6_e4m3_use_256: str = "all"
    nvfp4_4over6_err_mode: str = "MAE"
    fp8_dpa: bool = False
    fp8_mha: bool = False
    backward_override: str | None = field(default_factory=_default_override)

    def __post_init__(self) -> None:
        tensors = ("none", "weights", "activations", "all")
        _one_of(self, "nvfp4_4over6", tensors)
        _one_of(self, "nvfp4_4over6_e4m3_use_256", tensors)
        _one_of(self, "nvfp4_4over6_err_mode", ("MAE", "MSE"))
        _unsupported(self, fp8_dpa=False, fp8_mha=False)
        _one_of(self, "backward_override", OVERRIDES)

    def kind(self) -> str:
        return "nvfp4_block_scaling"

    def options(self) -> dict[str, Any]:
        return {
            "w_2d": not self.disable_2d_quantization,
            "hadamard": not self.disable_rht,
            "stochastic_rounding": not self.disable_stochastic_rounding,
            "row_scaled_activation": self.row_scaled_activation,
            "four_over_six": self.nvfp4_4over6,
            "four_over_six_scale_max_256": self.nvfp4_4over6_e4m3_use_256,
            "four_over_six_error": self.nvfp4_4over6_err_mode.lower(),
            **self._checked_override(),
        }

    def states(self) -> frozenset[str]:
        return frozenset() if self.disable_stochastic_rounding else frozenset({"rng_state"})


@dataclass(frozen=True)
class CustomRecipe(Recipe):
    """A recipe for each of the three GEMMs; TransformerEngine has a factory instead.

    * fprop, dgrad, wgrad: recipes that are not custom and have no override of their own.
    * x_col_source, w_col_source, grad_col_source: what the second cast of a tensor
      reads, "original" or "rowwise_dequantized".
    """

    fprop: Recipe = HighPrecision()
    dgrad: Recipe = HighPrecision()
    wgrad: Recipe = HighPrecision()
    x_col_source: str = "original"
    w_col_source: str = "original"
    grad_col_source: str = "original"
    backward_override: str | None = field(default_factory=_default_override)

    def __post_init__(self) -> None:
        for name in ("fprop", "dgrad", "wgrad"):
            part = getattr(self, name)
            if not isinstance(part, Recipe) or isinstance(part, CustomRecipe):
                raise ValueError(
                    f"CustomRecipe: expected '{name}' to be a recipe that is not custom itself, but got {part!r}"
                )
        for name in ("x", "w", "grad"):
            _one_of(self, f"{name}_col_source", ("original", "rowwise_dequantized"))
        _one_of(self, "backward_override", OVERRIDES)

    def kind(self) -> str:
        return "custom"

    def options(self) -> dict[str, Any]:
        return {
            "fprop": self.fprop,
            "dgrad": self.dgrad,
            "wgrad": self.wgrad,
            "x_col_source": self.x_col_source,
            "w_col_source": self.w_col_source,
            "grad_col_source": self.grad_col_source,
            **self._checked_override(),
        }

    def states(self) -> frozenset[str]:
        return self.fprop.states() | self.dgrad.states() | self.wgrad.states()
