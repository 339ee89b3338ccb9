#!/usr/bin/env python3
"""Writes onnx_cases.bin: node cases of the ONNX backend tests, for test_onnx_cases.

    pip install onnx==1.23.2 numpy==2.4.6 ml_dtypes==0.6.0
    python3 tests/vectors/make_onnx_cases.py tests/vectors/onnx_cases.bin

The cases are those whose model is one node of an operator in OPERATORS. Expansions of functions
(names that end in _expanded) are left out, since they repeat the data of other cases. The package
draws random numbers, so the script seeds NumPy first; two runs write the same bytes. The license
of the package is the Apache License 2.0.

The file is little endian and has no padding. `text` is a u16 length and that many bytes.

    file      "ONNXTDM1", text version of the package, u32 cases of the package, u32 cases of
              one node, u32 count, then the cases in the order of their names
    case      text name, text operator, text reason. A case whose reason is not empty has no data,
              and the reason says why. Otherwise these follow:
              u16 version of the operator set,
              u8 count of attributes, attributes, u8 count, inputs, u8 count, outputs
    attribute text name, u8 kind (1: f64 numbers, 2: s64 numbers, 3: text), then u16 count and the
              numbers, or a text
    tensor    u8 data type of ONNX's TensorProto, 0 if the operand is absent; otherwise also
              u8 rank, u32 for each dimension, u32 bytes, the elements in row-major order; two
              elements of INT4 share a byte, the first one in the lower half
"""
import collections
import struct
import sys
import warnings

import numpy as np
import onnx
from onnx import AttributeProto, TensorProto

np.random.seed(20260)
from onnx.backend.test.case.node import collect_testcases  # noqa: E402, this draws numbers

LARGEST = 40_000  # bytes of a tensor

OPERATORS = """
    Abs Add And ArgMax ArgMin Attention Cast CastLike Clip Concat Cos CumSum DequantizeLinear Div
    DynamicQuantizeLinear Equal Erf Exp Expand Flatten Floor Gather GatherND Gelu Gemm Greater
    GreaterOrEqual Identity LayerNormalization Less LessOrEqual Log MatMul MatMulInteger Max Min Mul
    Neg Not Or Pow QLinearMatMul QuantizeLinear RMSNormalization Reciprocal ReduceMax ReduceMean
    ReduceMin ReduceSum Relu Reshape RotaryEmbedding Round ScatterElements ScatterND Sigmoid Sin
    Slice Softmax Split Sqrt Squeeze Sub Sum Swish Tanh TopK Transpose Unsqueeze Where Xor
""".split()

# Types with a dtype in Tandem.
TYPES = {
    TensorProto.FLOAT, TensorProto.UINT8, TensorProto.INT8, TensorProto.INT32, TensorProto.INT64,
    TensorProto.BOOL, TensorProto.FLOAT16, TensorProto.BFLOAT16, TensorProto.INT4
}


class LeftOut(Exception):
    """The reason why a case has no data."""


def text(string):
    data = string.encode()
    return struct.pack("<H", len(data)) + data


def attribute(a):
    head = text(a.name)
    if a.type == AttributeProto.FLOAT:
        return head + struct.pack("<BHd", 1, 1, a.f)
    if a.type == AttributeProto.FLOATS:
        return head + struct.pack(f"<BH{len(a.floats)}d", 1, len(a.floats), *a.floats)
    if a.type == AttributeProto.INT:
        return head + struct.pack("<BHq", 2, 1, a.i)
    if a.type == AttributeProto.INTS:
        return head + struct.pack(f"<BH{len(a.ints)}q", 2, len(a.ints), *a.ints)
    if a.type == AttributeProto.STRING:
        return head + b"\3" + text(a.s.decode())
    raise LeftOut("attribute of another kind")


def tensor(info, value):
    if not info.type.HasField("tensor_type"):
        raise LeftOut("not a tensor")
    kind = info.type.tensor_type.elem_type
    if kind not in TYPES:
        raise LeftOut("type " + TensorProto.DataType.Name(kind).lower())
    if isinstance(value, TensorProto):
        value = onnx.numpy_helper.to_array(value)
    value = np.asarray(value)
    expected = onnx.helper.tensor_dtype_to_np_dtype(kind)
    assert value.dtype == expected, (value.dtype, expected)
    data = np.ascontiguousarray(value).tobytes()
    if kind == TensorProto.INT4:
        nibbles = [byte & 15 for byte in data] + [0] * (len(data) % 2)
        data = bytes(low | high << 4 for low, high in zip(nibbles[::2], nibbles[1::2]))
    if len(data) > LARGEST:
        raise LeftOut("large tensor")
    shape = struct.pack(f"<BB{value.ndim}I", kind, value.ndim, *value.shape)
    return shape + struct.pack("<I", len(data)) + data


def tensors(names, infos, values):
    """Absent operands of the node have no entry in the graph."""
    entries = dict(zip((info.name for info in infos), zip(infos, values, strict=True)))
    return bytes([len(names)]) + b"".join(
        tensor(*entries[name]) if name else b"\0" for name in names)


def body(case):
    graph = case.model.graph
    node = graph.node[0]
    if graph.initializer or len(case.data_sets) != 1:
        raise LeftOut("initializer")
    inputs, outputs = case.data_sets[0]
    version = next(o.version for o in case.model.opset_import if o.domain == node.domain)
    attributes = b"".join(attribute(a) for a in node.attribute)
    return (struct.pack("<HB", version, len(node.attribute)) + attributes +
            tensors(node.input, graph.input, inputs) + tensors(node.output, graph.output, outputs))


def main():
    warnings.simplefilter("ignore")
    cases = collect_testcases(None)
    single = [c for c in cases if c.model and len(c.model.graph.node) == 1]
    covered = sorted((c for c in single if c.model.graph.node[0].op_type in OPERATORS
                      and c.model.graph.node[0].domain == ""
                      and not c.name.endswith("_expanded")), key=lambda c: c.name)
    reasons = collections.Counter()
    data = b"ONNXTDM1" + text(onnx.__version__)
    data += struct.pack("<III", len(cases), len(single), len(covered))
    for case in covered:
        head = text(case.name.removeprefix("test_")) + text(case.model.graph.node[0].op_type)
        try:
            data += head + text("") + body(case)
        except LeftOut as reason:
            data += head + text(str(reason))
            reasons[str(reason)] += 1
    with open(sys.argv[1], "wb") as file:
        file.write(data)
    print(f"{len(cases)} cases, {len(single)} of one node, {len(covered)} of covered operators, "
          f"{len(data)} bytes")
    for reason, count in sorted(reasons.items()):
        print(f"{count:4} without data: {reason}")


main()
