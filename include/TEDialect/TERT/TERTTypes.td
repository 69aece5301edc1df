//===- TERTTypes.td - types of the tert dialect ---------------------------===//

#ifndef TEDIALECT_TERT_TERTTYPES_TD
#define TEDIALECT_TERT_TERTTYPES_TD

include "mlir/IR/AttrTypeBase.td"
include "TEDialect/TERT/TERTDialect.td"

def TERT_BufferType : TypeDef<TERT_Dialect, "Buffer"> {
  let mnemonic = "buffer";
  let summary = "device memory of a known size";
  let description = [{
    A pointer to `bytes` bytes. The launches that use a buffer determine how its
    bytes are interpreted. `!tert.buffer<0>` is also the type of an absent buffer.

    Example:

    ```mlir
    !tert.buffer<262144>
    ```

    Constraints:
    1. (buffer-c1) `bytes` is not negative.
  }];
  let parameters = (ins "int64_t":$bytes);
  let assemblyFormat = "`<` $bytes `>`";
  let genVerifyDecl = 1;
}

#endif // TEDIALECT_TERT_TERTTYPES_TD
