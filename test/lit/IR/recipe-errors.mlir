// Each function has a recipe that violates one constraint, whose label the error contains.
// RUN: te-opt %s --split-input-file --verify-diagnostics

// expected-error @below {{expected option 'backward_override' only with 'delayed_scaling', 'float8_current_scaling', 'float8_block_scaling', 'mxfp8_block_scaling', 'nvfp4_block_scaling', 'custom', but got 'high_precision'}}
func.func private @recipe_c1() attributes {te.recipe = #te.recipe<high_precision, {backward_override = dequantized}>}

// -----

// expected-error @below {{expected at most one of 'x_block_dim', 'w_block_dim', 'grad_block_dim' to be 2}}
func.func private @recipe_c2() attributes {te.recipe = #te.recipe<float8_block_scaling, {x_block_dim = 2}>}

// -----

// expected-error @below {{expected option 'w_block_dim' only with 'float8_block_scaling', but got 'float8_current_scaling'}}
func.func private @recipe_c2_kind() attributes {te.recipe = #te.recipe<float8_current_scaling, {w_block_dim = 1}>}

// -----

// expected-error @below {{expected a block dimension to be 1 (1x128) or 2 (128x128), but got 3}}
func.func private @recipe_c2_range() attributes {te.recipe = #te.recipe<float8_block_scaling, {x_block_dim = 3}>}

// -----

// expected-error @below {{expected 'float8_block_scaling' to accumulate split in every GEMM}}
func.func private @recipe_c3() attributes {te.recipe = #te.recipe<float8_block_scaling, {split_fprop = false}>}

// -----

// expected-error @below {{expected 'amax_epsilon' to be finite and not negative, but got -1.0}}
func.func private @recipe_c4() attributes {te.recipe = #te.recipe<float8_block_scaling, {amax_epsilon = -1.0}>}

// -----

// expected-error @below {{expected 'backward_override' of 'delayed_scaling' to be 'none', but got 'dequantized'}}
func.func private @recipe_c5() attributes {te.recipe = #te.recipe<delayed_scaling, {backward_override = dequantized}>}

// -----

// expected-error @below {{expected 'backward_override' of 'delayed_scaling' to be 'none', but got 'high_precision'}}
func.func private @recipe_c5_custom() attributes {te.recipe = #te.recipe<custom, {fprop = #te.recipe<delayed_scaling>, backward_override = high_precision}>}

// -----

// expected-error @below {{expected 'margin' to be from -100 to 100, but got 101}}
func.func private @recipe_c6() attributes {te.recipe = #te.recipe<delayed_scaling, {margin = 101}>}

// -----

// expected-error @below {{expected 'amax_history_len' to be one or more, but got 0}}
func.func private @recipe_c6_length() attributes {te.recipe = #te.recipe<delayed_scaling, {amax_history_len = 0}>}

// -----

// expected-error @below {{expected 'hadamard' to be false with 'four_over_six' of activations, which it transforms; 'weights' may have both}}
func.func private @recipe_c7() attributes {te.recipe = #te.recipe<nvfp4_block_scaling, {four_over_six = all}>}

// -----

// expected-error @below {{expected 'fprop' to be a recipe other than 'custom', without 'backward_override', but got #te.recipe<custom>}}
func.func private @recipe_c8() attributes {te.recipe = #te.recipe<custom, {fprop = #te.recipe<custom>}>}

// -----

// expected-error @below {{expected 'row_scaled_activation' only in 'fprop', whose x has the rows, but got it in 'dgrad'}}
func.func private @recipe_c8_rows() attributes {te.recipe = #te.recipe<custom, {
  fprop = #te.recipe<nvfp4_block_scaling, {hadamard = false, stochastic_rounding = false, row_scaled_activation = true}>,
  dgrad = #te.recipe<nvfp4_block_scaling, {hadamard = false, stochastic_rounding = false, row_scaled_activation = true}>}>}

// -----

// expected-error @below {{expected 'x_col_source' to be 'original' where 'wgrad' is 'delayed_scaling', whose scales follow the tensor itself, but got 'rowwise_dequantized'}}
func.func private @recipe_c9() attributes {te.recipe = #te.recipe<custom, {
  fprop = #te.recipe<mxfp8_block_scaling>, wgrad = #te.recipe<delayed_scaling>, x_col_source = rowwise_dequantized}>}

// -----

// expected-error @below {{expected 'grad_col_source' to be 'original' where 'wgrad' is 'high_precision', which multiplies the gradient itself, but got 'rowwise_dequantized'}}
func.func private @recipe_c9_gradient() attributes {te.recipe = #te.recipe<custom, {
  dgrad = #te.recipe<mxfp8_block_scaling>, grad_col_source = rowwise_dequantized}>}

// -----

// A number that does not fit in its type is an error, and so is an option that is given twice.
// expected-error @below {{expected 'amax_history_len' to be from 0 to 4294967295, but got -3}}
func.func private @recipe_negative() attributes {te.recipe = #te.recipe<delayed_scaling, {amax_history_len = -3}>}

// -----

// expected-error @below {{expected every recipe option once, but got 'margin' twice}}
func.func private @recipe_twice() attributes {te.recipe = #te.recipe<delayed_scaling, {margin = 1, margin = 2}>}

// -----

// expected-error @below {{expected the recipe to be one of 'high_precision', 'float8_current_scaling', 'float8_block_scaling', 'delayed_scaling', 'mxfp8_block_scaling', 'nvfp4_block_scaling', 'custom', but got 'float8'}}
func.func private @recipe_unknown() attributes {te.recipe = #te.recipe<float8>}

// -----

// expected-error @below {{unknown recipe option 'fast'}}
func.func private @recipe_unknown_option() attributes {te.recipe = #te.recipe<float8_block_scaling, {fast = true}>}

// -----

// expected-error @below {{expected 'float8_block_scaling' to accumulate split in every GEMM}}
func.func private @recipe_c3_dgrad() attributes {te.recipe = #te.recipe<float8_block_scaling, {split_dgrad = false}>}

// -----

// expected-error @below {{expected 'float8_block_scaling' to accumulate split in every GEMM}}
func.func private @recipe_c3_wgrad() attributes {te.recipe = #te.recipe<float8_block_scaling, {split_wgrad = false}>}

// -----

// expected-error @below {{expected 'amax_epsilon' to be finite and not negative, but got inf}}
func.func private @recipe_c4_infinite() attributes {te.recipe = #te.recipe<float8_block_scaling, {amax_epsilon = 0x7F800000}>}

// -----

// expected-error @below {{expected 'margin' to be from -100 to 100, but got -101}}
func.func private @recipe_c6_small() attributes {te.recipe = #te.recipe<delayed_scaling, {margin = -101}>}

// -----

// expected-error @below {{expected 'amax_history_len' to be from 0 to 4294967295, but got 4294967296}}
func.func private @recipe_c6_large_length() attributes {te.recipe = #te.recipe<delayed_scaling, {amax_history_len = 4294967296}>}

// -----

// expected-error @below {{expected 'hadamard' to be false with 'four_over_six' of activations}}
func.func private @recipe_c7_activations() attributes {te.recipe = #te.recipe<nvfp4_block_scaling, {four_over_six = activations}>}

// -----

// expected-error @below {{expected 'hadamard' and 'stochastic_rounding' to be false with 'row_scaled_activation'}}
func.func private @recipe_c7_rows() attributes {te.recipe = #te.recipe<nvfp4_block_scaling, {stochastic_rounding = false, row_scaled_activation = true}>}

// -----

// expected-error @below {{expected 'hadamard' and 'stochastic_rounding' to be false with 'row_scaled_activation'}}
func.func private @recipe_c7_rounding() attributes {te.recipe = #te.recipe<nvfp4_block_scaling, {hadamard = false, row_scaled_activation = true}>}

// -----

// expected-error @below {{expected 'four_over_six_error' to be 'mae' or 'mse', but got 'off'}}
func.func private @recipe_c7_error() attributes {te.recipe = #te.recipe<nvfp4_block_scaling, {four_over_six_error = off}>}

// -----

// expected-error @below {{expected 'wgrad' to be a recipe other than 'custom', without 'backward_override', but got 1}}
func.func private @recipe_c8_attribute() attributes {te.recipe = #te.recipe<custom, {wgrad = 1}>}

// -----

// expected-error @below {{expected 'wgrad' to be a recipe other than 'custom', without 'backward_override', but got}}
func.func private @recipe_c8_override() attributes {te.recipe = #te.recipe<custom, {wgrad = #te.recipe<mxfp8_block_scaling, {backward_override = dequantized}>}>}

// -----

// expected-error @below {{expected 'true' or 'false', but got 'yes'}}
func.func private @recipe_word() attributes {te.recipe = #te.recipe<nvfp4_block_scaling, {hadamard = yes}>}

// -----

// expected-error @below {{expected 'te.recipe' to be a #te.recipe<...>, but got "mxfp8"}}
func.func private @recipe_text() attributes {te.recipe = "mxfp8"}

// -----

// expected-error @below {{expected 'te.backward_override' to be one of "none", "high_precision", "dequantized", but got 1 : i64}}
func.func private @override_number() attributes {te.backward_override = 1}
