//===- TEAttentionOps.cpp - verifiers of rotary embedding and attention ---===//

#include "TEVerifiers.h"

#include <cmath>

using namespace mlir;
using namespace mlir::te;

/// Whether all of these have sizes to compare; an input that has none is
/// refused by te-legalize-input.
static bool areStatic(ValueRange values) {
  return llvm::all_of(values, [](Value value) {
    return cast<ShapedType>(value.getType()).hasStaticShape();
  });
}

/// 'sequence' is one or more and divides `tokens`, the rows of 'matrix'.
static LogicalResult verifySequence(Operation *op, int64_t sequence,
                                    StringRef matrix, int64_t tokens) {
  if (sequence >= 1 && tokens % sequence == 0)
    return success();
  return op->emitOpError() << "expected 'sequence' to be one or more and to "
                              "divide the rows of '"
                           << matrix << "' (" << tokens << "), but got "
                           << sequence;
}

/// `columns`, those of 'matrix', are one or more.
static LogicalResult verifyColumns(Operation *op, StringRef matrix,
                                   int64_t columns) {
  if (columns >= 1)
    return success();
  return op->emitOpError() << "expected '" << matrix
                           << "' to have one or more columns, but got 0";
}

/// 'heads' is one or more and divides `columns`, those of 'matrix', which are
/// one or more.
static LogicalResult verifyHeads(Operation *op, int64_t heads, StringRef matrix,
                                 int64_t columns) {
  if (heads >= 1 && columns % heads == 0)
    return verifyColumns(op, matrix, columns);
  return op->emitOpError()
         << "expected 'heads' to be one or more and to divide the columns of '"
         << matrix << "' (" << columns << "), but got " << heads;
}

/// 'sequence' divides the rows of `matrix`. With 'documents', which have the
/// boundary after the last one at least, it is at most the number of rows.
static LogicalResult verifySequences(Operation *op,
                                     TypedValue<RankedTensorType> documents,
                                     int64_t sequence, StringRef matrix,
                                     int64_t tokens) {
  if (!documents)
    return verifySequence(op, sequence, matrix, tokens);
  if (documents.getType().getDimSize(0) == 0)
    return op->emitOpError()
           << "expected 'documents' to have one or more elements, but got 0";
  if (sequence < 1 || sequence > tokens)
    return op->emitOpError()
           << "expected 'sequence', the rows of the longest of 'documents', to "
              "be from 1 to the number of rows ("
           << tokens << "), but got " << sequence;
  return success();
}

LogicalResult RopeOp::verify() {
  if (!areStatic({getX(), getCos()}))
    return success();
  int64_t heads = getHeads();
  int64_t tokens = shapeOf(getX().getType())[0];
  int64_t columns = shapeOf(getX().getType())[1];
  int64_t sequence = shapeOf(getCos().getType())[0];
  int64_t pairs = shapeOf(getCos().getType())[1];
  // rope-c1
  if (failed(verifyHeads(*this, heads, "x", columns)))
    return failure();
  // rope-c2
  if (sequence == 0 || (!getPositions() && tokens % sequence))
    return emitOpError() << "expected the rows of 'x' to be a multiple of "
                            "those of 'cos', but got "
                         << tokens << " and " << sequence;
  // rope-c3
  if (2 * pairs > columns / heads)
    return emitOpError() << "expected 'cos' to have at most half the columns "
                            "of a head of 'x', but got "
                         << pairs << " and " << columns / heads;
  // rope-c4
  return getPositions() ? verifyShape(*this, "positions",
                                      getPositions().getType(), {tokens})
                        : success();
}

/// What the operands and attributes of te.attention and its backward share.
template <typename Op> static LogicalResult verifyAttention(Op op, Value lse) {
  int64_t heads = op.getHeads(), kvHeads = op.getKvHeads();
  int64_t sequence = op.getSequence();
  Type q = op.getQ().getType(), v = op.getV().getType();
  int64_t tokens = shapeOf(q)[0], columns = shapeOf(q)[1];
  // attention-c1
  if (failed(verifyHeads(op, heads, "q", columns)))
    return failure();
  // attention-c2
  if (kvHeads < 1 || heads % kvHeads)
    return op.emitOpError() << "expected 'kv_heads' to be one or more and to "
                               "divide 'heads' ("
                            << heads << "), but got " << kvHeads;
  // attention-c3
  const int64_t valueDim = shapeOf(v)[1] / kvHeads;
  struct Expected {
    StringRef name;
    Type type;
    int64_t columns;
  };
  for (const Expected &each : {
           Expected{"k", op.getK().getType(), columns / heads * kvHeads},
           Expected{"v", v, valueDim * kvHeads},
           Expected{"o", op.getO().getType(), valueDim * heads},
       })
    if (failed(verifyShape(op, each.name, each.type, {tokens, each.columns})) ||
        failed(verifySameElementType(op, each.name, each.type, "q", q)))
      return failure();
  // attention-c10
  if (failed(verifyColumns(op, "v", shapeOf(v)[1])))
    return failure();
  // attention-c4, attention-c11
  if (failed(verifySequences(op, op.getDocuments(), sequence, "q", tokens)))
    return failure();
  // attention-c5
  if (std::optional<APFloat> scale = op.getScale(); scale && !scale->isFinite())
    return op.emitOpError() << "expected 'scale' to be finite, but got "
                            << scale->convertToFloat();
  // attention-c8
  if (std::optional<APFloat> cap = op.getSoftcap();
      cap && (!cap->isFinite() || cap->isZero() || cap->isNegative()))
    return op.emitOpError()
           << "expected 'softcap' to be finite and greater than 0, but got "
           << cap->convertToFloat();
  // attention-c7
  if (std::optional<ArrayRef<int64_t>> window = op.getWindowSize()) {
    if (window->size() != 2 || (*window)[0] < 0 || (*window)[1] != 0)
      return op.emitOpError() << "expected 'window_size' to be the positions "
                                 "before and after one that it sees, zero or "
                                 "more and 0, but got ["
                              << *window << "]";
    if (!op.getCausal())
      return op.emitOpError() << "expected 'causal' beside 'window_size'";
  }
  // attention-c12
  const APFloat dropout = op.getDropout();
  if (dropout.isNegative() || !(dropout < APFloat(1.0f)))
    return op.emitOpError()
           << "expected 'dropout' to be from 0 to less than 1, but got "
           << dropout.convertToFloat();
  if (dropout.isNonZero() && !op.getRng())
    return op.emitOpError() << "expected 'rng', a seed and an offset, for "
                               "'dropout' "
                            << dropout.convertToFloat();
  if (dropout.isZero() && (op.getRng() || op.getStream() != 0))
    return op.emitOpError() << "expected 'rng' and 'stream' only with a "
                               "'dropout' of more than 0";
  // attention-c6
  return lse ? verifyShape(op, "lse", lse.getType(), {tokens * heads})
             : success();
}

LogicalResult AttentionOp::verify() {
  if (!areStatic({getQ(), getK(), getV(), getO()}))
    return success();
  if (failed(verifyAttention(*this, getLse())))
    return failure();
  // attention-c9
  return getSinks() ? verifyShape(*this, "sinks", getSinks().getType(),
                                  {static_cast<int64_t>(getHeads())})
                    : success();
}

LogicalResult AttentionBackwardOp::verify() {
  if (!areStatic({getQ(), getK(), getV(), getO()}))
    return success();
  // attention_backward-c1
  return verifyAttention(*this, getLse());
}

LogicalResult AttentionSinkGradOp::verify() {
  if (!areStatic({getO(), getLse(), getSinks()}))
    return success();
  const int64_t heads = shapeOf(getSinks().getType())[0];
  const int64_t tokens = shapeOf(getO().getType())[0];
  const int64_t columns = shapeOf(getO().getType())[1];
  // attention_sink_grad-c1
  if (heads < 1 || columns % heads)
    return emitOpError() << "expected 'sinks' to have one or more elements, "
                            "which divide the columns of 'o' ("
                         << columns << "), but got " << heads;
  if (failed(verifyColumns(*this, "o", columns)))
    return failure();
  // attention_sink_grad-c2, attention_sink_grad-c4
  if (failed(
          verifySequences(*this, getDocuments(), getSequence(), "o", tokens)))
    return failure();
  // attention_sink_grad-c3
  return verifyShape(*this, "lse", getLse().getType(), {tokens * heads});
}

LogicalResult UsedRowsOp::verify() {
  // used_rows-c1
  if (getDocuments().getType().getDimSize(0) == 0)
    return emitOpError()
           << "expected 'documents' to have one or more elements, but got 0";
  return success();
}

LogicalResult ZeroUnusedOp::verify() {
  if (!areStatic({getX(), getUsed()}))
    return success();
  // zero_unused-c1
  return verifyShape(*this, "used", getUsed().getType(),
                     shapeOf(getX().getType()).take_front());
}

/// The scale of one or the other op.
template <typename Op> static APFloat scaleOrDefault(Op op) {
  if (std::optional<APFloat> scale = op.getScale())
    return *scale;
  double headDim = shapeOf(op.getQ().getType())[1] / op.getHeads();
  return APFloat(static_cast<float>(1.0 / std::sqrt(headDim)));
}

APFloat AttentionOp::getScaleOrDefault() { return scaleOrDefault(*this); }
APFloat AttentionBackwardOp::getScaleOrDefault() {
  return scaleOrDefault(*this);
}
