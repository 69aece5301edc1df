// RUN: not te-opt %s --te-assign-recipe='recipe=fp8' 2>&1 | FileCheck %s --check-prefix=UNKNOWN
// UNKNOWN: error: option 'recipe' of 'te-assign-recipe': expected the recipe to be one of 'high_precision', 'float8_current_scaling', 'float8_block_scaling', 'delayed_scaling', 'mxfp8_block_scaling', 'nvfp4_block_scaling', 'custom', but got 'fp8'

// RUN: not te-opt %s --pass-pipeline='builtin.module(te-assign-recipe{recipe="float8_block_scaling, {fast = 1}"})' 2>&1 | FileCheck %s --check-prefix=OPTION
// OPTION: error: option 'recipe' of 'te-assign-recipe': unknown recipe option 'fast'; known are fp8_format,

// RUN: not te-opt %s --te-assign-recipe='recipe=float8_block_scaling backward-override=bf16' 2>&1 | FileCheck %s --check-prefix=MODE
// MODE: error: expected option 'backward-override' of 'te-assign-recipe' to be one of 'none', 'high_precision', 'dequantized', but got 'bf16'

// An override that no recipe of the module supports is an error.
// RUN: not te-opt %s --te-assign-recipe='recipe=high_precision backward-override=dequantized' 2>&1 | FileCheck %s --check-prefix=HP
// RUN: not te-opt %s --te-assign-recipe='backward-override=dequantized' 2>&1 | FileCheck %s --check-prefix=HP
// HP: error: expected a quantised recipe for backward override 'dequantized', but got 'high_precision', whose backward is high precision already

// The error names the recipe that does not support the override.
// RUN: not te-opt %s --te-assign-recipe='recipe=delayed_scaling backward-override=dequantized' 2>&1 | FileCheck %s --check-prefix=DELAYED
// DELAYED: error: expected 'backward_override' of 'delayed_scaling' to be 'none', but got 'dequantized'

// RUN: te-opt %s --te-assign-recipe='backward-override=none'
module {}
