"""Drop-in modules with TransformerEngine's constructor arguments, if the options exist.

A module builds its function with the builder and runs it as one node of autograd. A function is
compiled once for each shape. The recipe is that of the innermost `autocast`, or else high
precision. `is_first_microbatch` is TransformerEngine's: True casts the weights and keeps the
casts, False reuses these, and None keeps nothing. With `fuse_wgrad_accumulation`, gradients of
parameters are added to their `main_grad` in float32; True starts these sums again from 0.

    with te_mlir.torch.autocast(recipe=te_mlir.Float8CurrentScaling()):
        y = te_mlir.torch.Linear(512, 512)(x)
"""

from __future__ import annotations

import contextlib
import contextvars
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch

from te_mlir import build
from te_mlir.errors import ArgumentError
from te_mlir.recipes import DelayedScaling, Float8CurrentScaling, MXFP8BlockScaling, Recipe
from te_mlir.torch import casts
from te_mlir.torch.runner import Region
from te_mlir.torch.signature import Options
from te_mlir.torch.states import States, WithStates
from te_mlir.torch.tensors import Spec, dense, dtype_name, torch_to_te

_options: contextvars.ContextVar[Options] = contextvars.ContextVar("te_mlir_options", default=Options())  # noqa: B039, Options are immutable

#: torch.compile captures what is around a module, and calls the module as it is.
_opaque = torch.compiler.disable(reason="a module of te compiles itself")


def _default_recipe(target: str | None) -> Recipe:
    """The recipe that TransformerEngine's `get_default_fp8_recipe` returns on a target, or else on the current GPU."""
    capability = (10, 0) if target == "sm_100" else (9, 0)
    if target is None and torch.cuda.is_available():
        capability = torch.cuda.get_device_capability()
    if capability >= (12, 0):
        return Float8CurrentScaling()
    return MXFP8BlockScaling() if capability >= (10, 0) else DelayedScaling()


@contextlib.contextmanager
def autocast(
    enabled: bool = True,
    calibrating: bool = False,
    recipe: Recipe | None = None,
    amax_reduction_group: Any = None,
    *,
    target: str | None = None,
    **pipeline: Any,
) -> Iterator[None]:
    """A context manager: modules that are called in its block use `recipe`. A nested block replaces it.

    enabled: False is high precision. recipe: None is TransformerEngine's default: DelayedScaling, or MXFP8BlockScaling
    for sm_100, or Float8CurrentScaling from sm_120 on. calibrating, amax_reduction_group: TransformerEngine's
    arguments, which are not implemented. Further options are those of the pipeline.
    """
    for name, value in (("calibrating", calibrating), ("amax_reduction_group", amax_reduction_group)):
        if value not in (None, False):
            raise ValueError(f"autocast: expected '{name}' not to be set, as it is not implemented, but got {value!r}")
    options = Options()
    if enabled:
        recipe = _default_recipe(target) if recipe is None else recipe
        options = Options(recipe, target=target, pipeline=tuple(pipeline.items()))
    token = _options.set(options)
    try:
        yield
    finally:
        _options.reset(token)


#: TransformerEngine's constructor arguments that are not implemented, and their defaults.
_NOT_IMPLEMENTED: dict[str, Any] = {
    "sequence_parallel": False,
    "tp_group": None,
    "tp_size": 1,
    "get_rng_state_tracker": None,
    "rng_tracker_name": None,
    "init_method": None,
    "output_layer_init_method": None,
    "return_bias": False,
    "parallel_mode": None,
    "set_parallel_mode": False,
    "return_layernorm_output": False,
    "return_layernorm_output_gathered": False,
    "parameters_split": None,
    "activation_params": None,
    "seq_length": None,
    "micro_batch_size": None,
    "ub_overlap_ag": False,
    "ub_overlap_rs": False,
    "ub_overlap_rs_dgrad": False,
    "ub_bulk_dgrad": False,
    "ub_bulk_wgrad": False,
    "ub_name": None,
    "delay_wgrad_compute": False,
    "symmetric_ar_type": None,
    "save_original_input": False,
    "checkpoint": False,
    "single_grouped_weight": False,
    "single_grouped_bias": False,
    "use_grouped_tensor": None,
}


class _Module(WithStates, torch.nn.Module):
    """The base of the modules: parameters, and regions by shape and recipe."""

    def __init__(self, given: Mapping[str, Any]) -> None:
        """given: the arguments of the module's constructor, by name."""
        super().__init__()
        wrong = [
            f"expected '{name}' to be {default!r}, as nothing else is implemented, but got {given[name]!r}"
            for name, default in _NOT_IMPLEMENTED.items()
            if name in given and given[name] != default
        ]
        if wrong:
            raise ValueError(f"{type(self).__name__}: {'; '.join(wrong)}")
        params_dtype: torch.dtype | None = given["params_dtype"]
        self.fuse_wgrad_accumulation: bool = given["fuse_wgrad_accumulation"]
        self.name: str | None = given["name"]
        self._dtype = params_dtype or torch.get_default_dtype()
        if torch_to_te(self._dtype) is None:
            raise ValueError(f"expected 'params_dtype' to be a floating type of te, but got {self._dtype}")
        self._device = given["device"]
        self._regions: dict[Any, Region] = {}
        self._states = States(self)

    def __getstate__(self) -> dict[str, Any]:
        # A copy compiles its regions again when it is called.
        return {**self.__dict__, "_regions": {}}

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        self._states.belong_to(self)

    def _parameter(self, name: str, shape: Sequence[int], start: float | None = None) -> None:
        """Adds a parameter with every element `start`, or drawn from normal(0, 0.023) as in TransformerEngine."""
        data = torch.empty(tuple(shape), dtype=self._dtype, device=self._device)
        with torch.no_grad():
            if start is None:
                data.normal_(0.0, 0.023)
            else:
                data.fill_(start)
        self.register_parameter(name, torch.nn.Parameter(data))

    def _emit(self, f: build.Function, x: build.Value, values: dict[str, build.Value]) -> build.Value:
        raise NotImplementedError

    def _inputs(self, x: torch.Tensor) -> list[tuple[str, torch.Tensor]]:
        """Further inputs by name, before the parameters."""
        return []

    def _run(
        self,
        x: torch.Tensor,
        is_first_microbatch: bool | None,
        extra: Sequence[tuple[str, torch.Tensor]] = (),
    ) -> torch.Tensor:
        options = _options.get()
        if options.recipe is not None:
            options = options._replace(cache_weights=is_first_microbatch is not None)
        options = options._replace(main_grad=self.fuse_wgrad_accumulation)
        if torch_to_te(x.dtype) is None or not x.is_floating_point() or not x.dim():
            raise ArgumentError(f"argument 'x': expected a floating tensor, but got {x.dtype} {list(x.shape)}")
        if torch._C._are_functorch_transforms_active():
            raise ArgumentError(
                f"expected a call of {type(self).__name__} on tensors in memory, but got one that is transformed "
                "(torch.func.grad, vjp or vmap); a torch.nn module that te_mlir.torch.jit compiles supports these, and then "
                "runs in PyTorch"
            )
        if casts.enabled(x.device.type):
            # TransformerEngine's modules do the same.
            x = x.to(torch.get_autocast_dtype(x.device.type))
        lead, columns = x.shape[:-1], x.shape[-1]
        rows = dense(x.reshape(-1, columns))
        parameters: list[tuple[str, torch.Tensor]] = list(self.named_parameters(recurse=False))
        kinds = [(p.dtype, p.requires_grad) for _, p in parameters]
        names = tuple(name for name, _ in extra)
        key = (tuple(x.shape), x.dtype, x.device, options, x.requires_grad, names, *kinds)
        region = self._regions.get(key)
        if region is None:
            region = self._region(rows, lead, list(extra), parameters, options)
            self._regions[key] = region
        region.is_first_microbatch = is_first_microbatch
        (y,) = region(rows, *[t for _, t in extra], *[p for _, p in parameters])
        return y

    def _region(
        self,
        x: torch.Tensor,
        lead: Sequence[int],
        extra: list[tuple[str, torch.Tensor]],
        parameters: list[tuple[str, torch.Tensor]],
        options: Options,
    ) -> Region:
        function = build.Function(build.Module(), type(self).__name__.lower(), private=True)
        specs, values = [], {}
        for name, tensor in [("x", x), *extra, *parameters]:
            weight = any(name == n for n, _ in parameters)
            floating = tensor.is_floating_point()
            wants = tensor.requires_grad and (weight or name == "x")
            specs.append(Spec(name, tuple(tensor.shape), tensor.dtype, weight, wants and floating))
            value = function.argument(name, tuple(tensor.shape), dtype_name(tensor.dtype), weight=weight)
            # The step rounds parameters of another type, and its gradients have the type of the parameters.
            values[name] = function.cast(value, dtype_name(x.dtype)) if floating else value
        y = self._emit(function, values["x"], values)
        function.result("y", y)
        # The output is not a view of rows, because hooks and in-place writes would not work on a view.
        output = Spec("y", (*lead, y.shape[-1]), x.dtype, differentiable=True)
        return Region(function, specs, [output], x.device, options, self._states)


class Linear(_Module):
    """y = x weight^T + bias: x [..., in_features], weight [out_features, in_features]."""

    def __init__(
        self,
        in_features: int,
        out_features: int,
        sequence_parallel: bool = False,
        fuse_wgrad_accumulation: bool = False,
        tp_group: Any = None,
        tp_size: int = 1,
        get_rng_state_tracker: Any = None,
        rng_tracker_name: str | None = None,
        init_method: Any = None,
        bias: bool = True,
        return_bias: bool = False,
        params_dtype: torch.dtype | None = None,
        parallel_mode: str | None = None,
        parameters_split: Any = None,
        device: Any = "cpu",
        ub_overlap_ag: bool = False,
        ub_overlap_rs: bool = False,
        ub_overlap_rs_dgrad: bool = False,
        ub_bulk_dgrad: bool = False,
        ub_bulk_wgrad: bool = False,
        ub_name: str | None = None,
        delay_wgrad_compute: bool = False,
        symmetric_ar_type: str | None = None,
        save_original_input: bool = False,
        name: str | None = None,
    ) -> None:
        super().__init__(locals())
        self.in_features, self.out_features = in_features, out_features
        self._parameter("weight", (out_features, in_features))
        if bias:
            self._parameter("bias", (out_features,), 0.0)

    def _emit(self, f: build.Function, x: build.Value, values: dict[str, build.Value]) -> build.Value:
        return f.linear(x, values["weight"], values.get("bias"))

    @_opaque
    def forward(self, x: torch.Tensor, is_first_microbatch: bool | None = None) -> torch.Tensor:
        """x: [..., in_features]. Returns [..., out_features] in the element type of x."""
        return self._run(x, is_first_microbatch)


class LayerNormLinear(_Module):
    """y = norm(x) weight^T + bias: x [..., in_features], weight [out_features, in_features].

    normalization: "LayerNorm" or "RMSNorm".
    """

    def __init__(
        self,
        in_features: int,
        out_features: int,
        eps: float = 1e-5,
        sequence_parallel: bool = False,
        fuse_wgrad_accumulation: bool = False,
        tp_group: Any = None,
        tp_size: int = 1,
        get_rng_state_tracker: Any = None,
        init_method: Any = None,
        bias: bool = True,
        normalization: str = "LayerNorm",
        return_bias: bool = False,
        params_dtype: torch.dtype | None = None,
        parallel_mode: str | None = None,
        return_layernorm_output: bool = False,
        return_layernorm_output_gathered: bool = False,
        parameters_split: Any = None,
        zero_centered_gamma: bool = False,
        device: Any = "cpu",
        ub_overlap_ag: bool = False,
        ub_overlap_rs: bool = False,
        ub_overlap_rs_dgrad: bool = False,
        ub_bulk_wgrad: bool = False,
        ub_bulk_dgrad: bool = False,
        ub_name: str | None = None,
        delay_wgrad_compute: bool = False,
        symmetric_ar_type: str | None = None,
        name: str | None = None,
    ) -> None:
        super().__init__(locals())
        self.eps, self.zero_centered_gamma = eps, zero_centered_gamma
        self._norm_parameters(normalization, in_features)
        self._parameter("weight", (out_features, in_features))
        if bias:
            self._parameter("bias", (out_features,), 0.0)

    def _norm_parameters(self, normalization: str, width: int) -> None:
        if normalization not in ("LayerNorm", "RMSNorm"):
            raise ValueError(
                f"{type(self).__name__}: expected 'normalization' to be 'LayerNorm' or 'RMSNorm', but got "
                f"{normalization!r}"
            )
        self.normalization = normalization
        self._parameter("layer_norm_weight", (width,), 0.0 if self.zero_centered_gamma else 1.0)
        if normalization == "LayerNorm":
            self._parameter("layer_norm_bias", (width,), 0.0)

    def _norm(self, f: build.Function, x: build.Value, values: dict[str, build.Value]) -> build.Value:
        gamma = values["layer_norm_weight"]
        if self.normalization == "RMSNorm":
            return f.rms_norm(x, gamma, self.eps, self.zero_centered_gamma)
        return f.layer_norm(x, gamma, values["layer_norm_bias"], self.eps, self.zero_centered_gamma)

    def _emit(self, f: build.Function, x: build.Value, values: dict[str, build.Value]) -> build.Value:
        return f.linear(self._norm(f, x, values), values["weight"], values.get("bias"))

    @_opaque
    def forward(self, x: torch.Tensor, is_first_microbatch: bool | None = None) -> torch.Tensor:
        """x: [..., in_features]. Returns [..., out_features] in the element type of x."""
        return self._run(x, is_first_microbatch)


class LayerNormMLP(LayerNormLinear):
    """A norm, a linear layer to the hidden width, an activation, and a linear layer back to the width of x.

    activation: gelu, relu, silu, ..., or gated (swiglu, geglu, ...), whose first layer
    has twice the hidden width: [gate | up].
    """

    def __init__(
        self,
        hidden_size: int,
        ffn_hidden_size: int,
        eps: float = 1e-5,
        sequence_parallel: bool = False,
        return_bias: bool = False,
        get_rng_state_tracker: Any = None,
        tp_group: Any = None,
        tp_size: int = 1,
        init_method: Any = None,
        bias: bool = True,
        normalization: str = "LayerNorm",
        activation: str = "gelu",
        activation_params: Any = None,
        output_layer_init_method: Any = None,
        fuse_wgrad_accumulation: bool = False,
        params_dtype: torch.dtype | None = None,
        return_layernorm_output: bool = False,
        return_layernorm_output_gathered: bool = False,
        seq_length: int | None = None,
        micro_batch_size: int | None = None,
        set_parallel_mode: bool = False,
        zero_centered_gamma: bool = False,
        device: Any = "cpu",
        ub_overlap_ag: bool = False,
        name: str | None = None,
        ub_overlap_rs: bool = False,
        ub_overlap_rs_dgrad: bool = False,
        ub_bulk_dgrad: bool = False,
        ub_bulk_wgrad: bool = False,
        delay_wgrad_compute: bool = False,
        symmetric_ar_type: str | None = None,
        checkpoint: bool = False,
    ) -> None:
        _Module.__init__(self, locals())
        kinds = ("gelu", "gelu_erf", "silu", "relu", "qgelu", "srelu") + build.GATED
        if activation not in kinds:
            raise ValueError(
                f"LayerNormMLP: expected 'activation' to be one of {', '.join(kinds)}, but got {activation!r}"
            )
        self.eps, self.zero_centered_gamma, self.activation = eps, zero_centered_gamma, activation
        self._norm_parameters(normalization, hidden_size)
        width = ffn_hidden_size * (2 if activation in build.GATED else 1)
        self._parameter("fc1_weight", (width, hidden_size))
        if bias:
            self._parameter("fc1_bias", (width,), 0.0)
        self._parameter("fc2_weight", (hidden_size, ffn_hidden_size))
        if bias:
            self._parameter("fc2_bias", (hidden_size,), 0.0)

    def _emit(self, f: build.Function, x: build.Value, values: dict[str, build.Value]) -> build.Value:
        h = f.linear(self._norm(f, x, values), values["fc1_weight"], values.get("fc1_bias"))
        return f.linear(f.activation(self.activation, h), values["fc2_weight"], values.get("fc2_bias"))


class GroupedLinear(_Module):
    """A linear layer with a separate weight for each group of rows: weight [num_gemms, out_features, in_features].

    TransformerEngine has `weight0`, `weight1`, ...; here they are one parameter, as the kernels
    need them, and so is the bias [num_gemms, out_features]. The casts of a recipe need groups that
    begin at multiples of `alignment` rows (16, 32 or 128, depending on the recipe). If sizes are
    others, the step moves the rows to such places and back, which changes no bit of a result. With
    an alignment of 1, groups follow one another, and the step always does so.
    """

    def __init__(
        self,
        num_gemms: int,
        in_features: int,
        out_features: int,
        sequence_parallel: bool = False,
        fuse_wgrad_accumulation: bool = False,
        tp_group: Any = None,
        tp_size: int = 1,
        get_rng_state_tracker: Any = None,
        rng_tracker_name: str | None = None,
        init_method: Any = None,
        bias: bool = True,
        return_bias: bool = False,
        params_dtype: torch.dtype | None = None,
        parallel_mode: str | None = None,
        device: Any = "cpu",
        ub_overlap_rs: bool = False,
        ub_overlap_ag: bool = False,
        ub_name: str | None = None,
        delay_wgrad_compute: bool = False,
        save_original_input: bool = False,
        single_grouped_weight: bool = False,
        single_grouped_bias: bool = False,
        name: str | None = None,
        use_grouped_tensor: bool | None = None,
        *,
        alignment: int = 128,
    ) -> None:
        super().__init__(locals())
        self.num_gemms, self.alignment = num_gemms, alignment
        self._parameter("weight", (num_gemms, out_features, in_features))
        if bias:
            self._parameter("bias", (num_gemms, out_features), 0.0)

    def _emit(self, f: build.Function, x: build.Value, values: dict[str, build.Value]) -> build.Value:
        if "groups" not in values:
            return f.grouped_linear(x, values["weight"], values["m_splits"], values.get("bias"), self.alignment)
        alignment = 128 if self.alignment == 1 else self.alignment
        routed = f.permute(x, values["groups"], self.num_gemms, alignment)
        y = f.grouped_linear(routed.rows, values["weight"], routed.sizes, values.get("bias"), alignment)
        return f.unpermute(y, routed)

    @_opaque
    def forward(self, x: torch.Tensor, m_splits: Any, is_first_microbatch: bool | None = None) -> torch.Tensor:
        """x: [rows, in_features]. m_splits: the rows of each group, a list or an int32 tensor [num_gemms].

        Returns [rows, out_features] in the element type of x. With a list, groups follow one another. The host does not
        read a tensor, so each of its groups begins at the next multiple of `alignment`; rows of no group give zeros.
        """
        follow = self.alignment == 1
        if not isinstance(m_splits, torch.Tensor):
            if sum(m_splits) != x.shape[0] or len(m_splits) != self.num_gemms or min(m_splits) < 0:
                raise ArgumentError(
                    f"argument 'm_splits': expected {self.num_gemms} sizes with the sum {x.shape[0]}, but got "
                    f"{list(m_splits)}"
                )
            follow = follow or any(size % self.alignment for size in m_splits)
            m_splits = torch.tensor(m_splits, dtype=torch.int32, device=x.device)
        if follow:
            # Rows behind the last group get a number that no group has.
            ends, rows = m_splits.cumsum(0), torch.arange(x.shape[0], device=x.device)
            groups = torch.searchsorted(ends, rows, right=True)
            return self._run(x, is_first_microbatch, [("groups", groups[:, None].to(torch.int32))])
        return self._run(x, is_first_microbatch, [("m_splits", dense(m_splits.to(torch.int32)))])
