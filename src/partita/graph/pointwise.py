"""Operators that compute each element of their output from the elements at the same place."""

from __future__ import annotations

#: One operand; every output element depends on the input element at the same place alone.
UNARY = frozenset(
    (
        "Abs", "Acos", "Acosh", "Asin", "Asinh", "Atan", "Atanh", "BitwiseNot", "Cast", "Ceil",
        "Celu", "Clip", "Cos", "Cosh", "DequantizeLinear", "Dropout", "Elu", "Erf", "Exp", "Floor",
        "Gelu", "HardSigmoid", "HardSwish", "Identity", "IsInf", "IsNaN", "LeakyRelu", "Log",
        "Mish", "Neg", "Not", "QuantizeLinear", "Reciprocal", "Relu", "Round", "Selu", "Shrink",
        "Sigmoid", "Sign", "Sin", "Sinh", "Softplus", "Softsign", "Sqrt", "Swish", "Tan", "Tanh",
        "ThresholdedRelu",
    )
)  # fmt: skip

#: Several operands that broadcast against each other by NumPy's rules.
BROADCAST = frozenset(
    (
        "Add", "And", "BitShift", "BitwiseAnd", "BitwiseOr", "BitwiseXor", "Div", "Equal",
        "Greater", "GreaterOrEqual", "Less", "LessOrEqual", "Max", "Mean", "Min", "Mod", "Mul",
        "Or", "PRelu", "Pow", "Sub", "Sum", "Where", "Xor",
    )
)  # fmt: skip

#: Operators whose answers are values of their first input: on whose grid they stay.
MOVING = frozenset(
    ("DepthToSpace", "Expand", "Flatten", "Gather", "Identity", "MaxPool", "Relu", "Reshape",
     "Slice", "SpaceToDepth", "Split", "Squeeze", "Tile", "Transpose", "Unsqueeze")
)  # fmt: skip

#: All pointwise operators of the standard ONNX domain.
POINTWISE = UNARY | BROADCAST
