//===- TESupport.td - which operations each target supports ---------------===//
//
// This is the only place that lists the schemes, the pairs of schemes that can be
// multiplied, how each target does so (with which sizes, types and library), and
// the backward overrides of each recipe. Verifiers, the policy of the quantise
// phase, the runtime's capabilities, error messages and the page
// docs/generated/support.md are generated from these rows.
//
// Run scripts/gen_docs.sh after a change.
//
//===----------------------------------------------------------------------===//

include "TEDialect/Support/SupportSchema.td"

//===----------------------------------------------------------------------===//
// Schemes
//===----------------------------------------------------------------------===//

def PerTensor : Scheme<"per_tensor", 0>;
def Block1x128 : Scheme<"block_1x128", 1> {
  let GroupAlignment = 128;
  let NoTranspose = "its blocks run along one axis, and those of the other usage have other maxima";
}
def Block128x128 : Scheme<"block_128x128", 2> {
  let GroupAlignment = 128;
}

class MXScheme<string spelling, int value> : Scheme<spelling, value> {
  let ScaleType = F8E8M0FNU;
  let Multiple = 32;
  let GroupAlignment = 32;
}
def MX1x32 : MXScheme<"mx_1x32", 3> {
  let NoTranspose = "its blocks run along one axis, and those of the other usage have other maxima";
}
def MX32x32 : MXScheme<"mx_32x32", 4>;

class NVScheme<string spelling, int value> : Scheme<spelling, value> {
  let Types = [F4E2M1FN];
  let ScaleType = F8E4M3FN;
  let Multiple = 16;
  let GroupAlignment = 32;
}
def NV1x16 : NVScheme<"nv_1x16", 5> {
  let NoTranspose = "its blocks run along one axis, and those of the other usage have other maxima";
}
def NV16x16 : NVScheme<"nv_16x16", 6>;

//===----------------------------------------------------------------------===//
// Products
//===----------------------------------------------------------------------===//

defvar mxOnHopper = "the tensor cores of sm_90 read no E8M0 scales";
defvar nvOnHopper = "the tensor cores of sm_90 read no FP4";
defvar toBlackwell = "'target=sm_100', or the pipeline option 'emulate'";
defvar mxOrNvGroups = "the tensor cores of sm_90 read no E8M0 scales and no FP4";
defvar toEmulate = "the pipeline option 'emulate', or 'target=reference'";
defvar toPow2 = "'pow2_scales = true'";
defvar noBlocksOnBlackwell = "sm_100 has no mode for f32 block scales and can only rewrite powers of two as MXFP8";

// The sizes of groups of rows (te.grouped_linear) are read on the device, which
// only kernels of this project support.
defvar noGroupsOnBlackwell = "no kernel of sm_100 multiplies groups of rows";
defvar toOneLinear = "'target=sm_90', 'target=reference', or a te.linear for each group";
defvar groupsOnBlackwell = On<SM100, Never, 0, noGroupsOnBlackwell, toOneLinear>;
class Grouped<On hopper> {
  list<On> Targets = [hopper, groupsOnBlackwell, On<Reference, OnHost>];
}
def OwnGroups : Grouped<On<SM90, OwnKernel>>;
def NoSquareRows : Grouped<On<SM90, Never, 0, "the kernels of groups read rows of activations and gradients in blocks of 1x128",
                              "'block_1x128' by 'block_128x128'">>;
def EmulatedGroups : Grouped<On<SM90, Emulated, 0, mxOrNvGroups, toEmulate>>;
def : PlainGroups<OwnGroups.Targets>;

// By measurement on sm_90, any number of rows and multiples of 8 columns work.
def : Product<PerTensor, PerTensor> {
  let FastAccumulation = 1;
  let M = 1;
  let Machines = [On<SM90, Native>, On<SM100, Native, 120800>, On<Reference, OnHost>];
  let Groups = OwnGroups.Targets;
}

class BlockProduct<Scheme a, Scheme b, Path hopper> : Product<a, b> {
  let Machines = [
    On<SM90, hopper, 120900>,
    On<SM100, ThroughMX, 120900, noBlocksOnBlackwell, toPow2>,
    On<Reference, OnHost>
  ];
  let Groups = NoSquareRows.Targets;
}
class OwnBlockProduct<Scheme b> : BlockProduct<Block1x128, b, OwnKernel> {
  let OwnResults = [BF16, F32];
  let Groups = OwnGroups.Targets;
}
def RowsByRows : OwnBlockProduct<Block1x128>;
def RowsBySquares : OwnBlockProduct<Block128x128>;
def : BlockProduct<Block128x128, Block1x128, Native>;
def : NoProduct<Block128x128, Block128x128,
    "tensor cores apply a scale to every row of one operand at least", RowsBySquares>;

// The scale of a square block is stored once for each of its rows, so that the
// tensor core always reads 1x32 or 1x16 blocks.
foreach a = [MX1x32, MX32x32] in
  foreach b = [MX1x32, MX32x32] in
    def "MX_" # a # "_" # b : Product<a, b> {
      let FastAccumulation = 1;
      let M = 32;
      let N = 32;
      let K = 32;
      let Machines = [On<SM90, Emulated, 0, mxOnHopper, toBlackwell>, On<SM100, Native, 120800>,
                     On<Reference, OnHost>];
      let Groups = EmulatedGroups.Targets;
    }
foreach a = [NV1x16, NV16x16] in
  foreach b = [NV1x16, NV16x16] in
    def "NV_" # a # "_" # b : Product<a, b> {
      let Results = [BF16, F32];
      let FastAccumulation = 1;
      let M = 16;
      let N = 16;
      // 32 FP4 elements are 16 bytes, the least stride of a cuBLASLt operand.
      let K = 32;
      let Machines = [On<SM90, Emulated, 0, nvOnHopper, toBlackwell>, On<SM100, Native, 120800>,
                     On<Reference, OnHost>];
      let Groups = EmulatedGroups.Targets;
    }

// Operands of different families of schemes cannot be multiplied.
class Mixed<Scheme a, Scheme b, string nearest>
    : NoProduct<a, b, "the operands of a product share one family of schemes",
                !cast<Product>(nearest)>;
foreach block = [Block1x128, Block128x128] in {
  def : Mixed<PerTensor, block, "RowsBySquares">;
  def : Mixed<block, PerTensor, "RowsByRows">;
}
foreach plain = [PerTensor, Block1x128, Block128x128] in {
  foreach mx = [MX1x32, MX32x32] in {
    def : Mixed<plain, mx, "MX_MX1x32_" # mx>;
    def : Mixed<mx, plain, "MX_" # mx # "_MX1x32">;
  }
  foreach nv = [NV1x16, NV16x16] in {
    def : Mixed<plain, nv, "NV_NV1x16_" # nv>;
    def : Mixed<nv, plain, "NV_" # nv # "_NV1x16">;
  }
}
foreach mx = [MX1x32, MX32x32] in
  foreach nv = [NV1x16, NV16x16] in {
    def : Mixed<mx, nv, "NV_NV1x16_" # nv>;
    def : Mixed<nv, mx, "NV_" # nv # "_NV1x16">;
  }

def : NoTypes<F8E5M2, F8E5M2, "no tensor core multiplies two of 'f8E5M2'", F8E4M3FN>;

//===----------------------------------------------------------------------===//
// Recipes
//===----------------------------------------------------------------------===//

def : Recipe<"delayed_scaling", PerTensor, PerTensor, PerTensor> {
  let Overrides = [AsRecipe];
  let OverrideRule = "its scales come from amaxes of a backward that an override leaves out";
}
def : Recipe<"float8_current_scaling", PerTensor, PerTensor, PerTensor>;
def : Recipe<"float8_block_scaling", Block1x128, Block128x128, Block1x128> {
  let Pow2 = 1;
}
def : Recipe<"mxfp8_block_scaling", MX1x32, MX1x32, MX1x32>;
def : Recipe<"nvfp4_block_scaling", NV1x16, NV16x16, NV1x16>;
def : Recipe<"nvfp4_block_scaling", NV1x16, NV16x16, NV1x16, "row_scaled_activation"> {
  let Overrides = [HighPrecision, Dequantized];
  let OverrideRule = "the amax of a row means nothing along the axis that a backward product contracts";
}
